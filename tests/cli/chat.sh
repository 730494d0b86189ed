# chat.sh - `retort chat` through a pipe and in a terminal: chat.py looks at both.
exec python3 "$(dirname "$0")/chat.py"
