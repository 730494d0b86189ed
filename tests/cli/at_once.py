#!/usr/bin/env python3
"""at_once.py - one command several times at the same moment, or beside a run: who gets the folder.

  at_once.py N WORDS...                 N processes at once; prints their exit statuses, sorted, and what the others said
  at_once.py --beside OUT WORDS -- WORDS   the second command while the first has the lock of OUT; the statuses of both
The first command given is run by $RETORT, as is the second.
"""
import os
import shlex
import subprocess
import sys
import time

RETORT = shlex.split(os.environ.get("EMU", "")) + [os.environ["RETORT"]]


def start(words):
    return subprocess.Popen([*RETORT, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def end(process):
    said = process.communicate(timeout=240)[1].decode().strip()
    return process.returncode, said


if sys.argv[1] == "--beside":
    out, words = sys.argv[2], sys.argv[3:]
    cut = words.index("--")
    first = start(words[:cut])
    while first.poll() is None and not os.path.exists(os.path.join(out, "run/metrics.jsonl")):
        time.sleep(0.001)
    results = [end(start(words[cut + 1:])), end(first)]
    print("still" if first.returncode is None else "first", results[1][0], "second", results[0][0])
else:
    results = [end(p) for p in [start(sys.argv[2:]) for _ in range(int(sys.argv[1]))]]
    print("statuses", *sorted(status for status, _ in results))
for status, said in results:
    if status:
        print("said", said)
