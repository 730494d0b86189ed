# terminal.sh - what a person or a program sees while a run goes on: terminal.py renders it in a pseudo-terminal and looks.
exec python3 "$(dirname "$0")/terminal.py" widths commands plain events silence
