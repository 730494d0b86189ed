# terminal_answers.sh - what a person sees of commands that ask a model: terminal_answers.py in a pseudo-terminal.
exec python3 "$(dirname "$0")/terminal_answers.py"
