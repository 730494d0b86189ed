# remote_run.sh - a server that is asked while a run goes on: remote_run.py stops and kills either of them.
# Waits: beside the others.
exec python3 "$(dirname "$0")/remote_run.py"
