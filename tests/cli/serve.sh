# serve.sh - `retort serve` asked by clients of many kinds, good and bad: serve.py starts it on free ports of 127.0.0.1.
exec python3 "$(dirname "$0")/serve.py"
