#!/usr/bin/env python3
"""Runs the commands of docs/tutorial.md in order, in the current folder, and looks for every line of output that the page
shows among what the command says. Figures, paths and units may differ; so may what depends on the model (LOOSE). A command
that the page stops with ^C is stopped when it has trained some steps. Prints `ran COMMAND`, `ok LINE` and `FAIL LINE`."""
import os
import re
import shlex
import signal
import subprocess
import sys
import time

BLOCK = re.compile(r"^```console\n\$ ((?:.*\\\n)*.*)\n((?:(?!```).*\n)*)```$", re.M)
# A figure, with its unit; a path; a hash.
ANY = re.compile(r"^\W*(?:\S*\d\S*|\S*/\S*|[0-9a-f]{32}|[KMGT]?i?B|[KMGT]?(?:FLOP)?(?:/s)?|m?s|min|%)\W*$")
# Lines of which only the first word is the same for every model, text and machine.
LOOSE = {"model", "device", "details", "dtypes", "tokenizer", "ids", "pair", "train", "template", "size", "improved", "limit",
         "fullest", "evaluate", "note", "teacher", "verdict", "verdict:", "would", "output", "held-out", "objective", "memory",
         "--lr:"}


def words(line):
    """What of a line stays the same, whichever step was the best; runs of figures count as one."""
    out = []
    for word in re.sub(r"\b(best|last)\b", "", line).split():
        if not ANY.match(word):
            out.append(word)
        elif out[-1:] != ["#"]:
            out.append("#")
    return out


def same(shown, said):
    a, b = words(shown), words(said)
    return a == b or (a and b and a[0] == b[0] and a[0] in LOOSE)


def steps():
    try:
        with open("out/run/metrics.jsonl", encoding="utf-8") as f:
            return sum('"event": "step"' in line or '"event":"step"' in line for line in f)
    except OSError:
        return 0


def run(command, stopped):
    argv = shlex.split(os.environ.get("EMU", "")) + [os.environ["RETORT"]] + shlex.split(command)[1:]
    with open("said", "w", encoding="utf-8") as said:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        while stopped and process.poll() is None:
            if steps() >= 11:
                process.send_signal(signal.SIGINT)
                break
            time.sleep(0.02)
        process.wait()
    with open("said", encoding="utf-8", errors="replace") as said:
        return said.read().splitlines()


def main(page):
    with open(page, encoding="utf-8") as f:
        blocks = BLOCK.findall(f.read())
    for command, shown in blocks:
        line = command.replace("\\\n", " ")
        said = run(line.replace("--memory-limit 1GiB", "--memory-limit 4MiB"), "^C" in shown.split())
        print("ran", line)
        free = re.match(r"retort (generate .*--max-new|tokenize)", command)  # what they print is the model's and the text's
        for line in shown.splitlines():
            if line in ("...", "^C", "") or (free and not re.match(r"--- |\d+ tokens at ", line)):
                continue
            found = any(same(line, other) for other in said)
            print("ok" if found else "FAIL", f"{command.split()[1]}: {line}")


main(sys.argv[1])
