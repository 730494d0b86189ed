# flags_time.sh - --time, of flags.py: the steps that a run makes are those that its time allows.
# Times runs: alone.
exec python3 "$(dirname "$0")/flags.py" --time
