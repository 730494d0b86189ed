# remote.sh - a teacher that is a server, good and bad: remote.py starts `retort serve` and what stands in its way.
# Waits: beside the others.
exec python3 "$(dirname "$0")/remote.py"
