# interrupt.sh - Ctrl-C, SIGTERM and signals that are ignored, in every stage of a run; each is resumed to the same curve.
exec python3 "$(dirname "$0")/terminal.py" interrupts
