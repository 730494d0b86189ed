# serve_fields.sh - `retort serve`: fields of requests one by one, offsets of tokens in texts, HTTP's less common ways.
exec python3 "$(dirname "$0")/serve_fields.py"
