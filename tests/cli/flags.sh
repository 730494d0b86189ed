# flags.sh - every setting of `retort distill` reaches the step: flags.py changes each in turn and looks for its effect.
exec python3 "$(dirname "$0")/flags.py"
