# terminal.sh - what a person sees while a run goes on, in a pseudo-terminal and off one: terminal.py renders it and looks.
exec python3 "$(dirname "$0")/terminal.py"
