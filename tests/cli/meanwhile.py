#!/usr/bin/env python3
"""meanwhile.py LOG LINES COMMAND WORDS... - runs $RETORT WORDS, and a command of the shell when the file LOG has so many
lines. The process is held while it is looked at and while the command runs, so that the moment is certain. Prints the exit
status of both. Ends with that of $RETORT, or with 99 when it ended before."""
import os
import shlex
import signal
import subprocess
import sys
import time

log, lines, command, words = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
process = subprocess.Popen(shlex.split(os.environ.get("EMU", "")) + [os.environ["RETORT"], *words], stdin=subprocess.DEVNULL)
found = False
while process.poll() is None and not found:
    process.send_signal(signal.SIGSTOP)
    try:
        with open(log, encoding="utf-8") as f:
            found = f.read().count("\n") >= lines
    except OSError:
        pass
    if found:
        print("meanwhile", subprocess.run(command, shell=True, stdin=subprocess.DEVNULL).returncode, flush=True)
    process.send_signal(signal.SIGCONT)
    time.sleep(0.0005)
status = process.wait()
print("status", status)
sys.exit(status % 256 if found else 99)
