# help.sh - help fits the terminal that it is printed on, and loses no word: help.py looks at every command.
exec python3 "$(dirname "$0")/help.py"
