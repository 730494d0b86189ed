"""checks.py - counting for the structure tests: each check is one case, failures are printed, the last line counts."""
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
BUILD = os.environ.get("BUILD", "build")

_passed = _failed = 0


def check(ok, message):
    """One case; the message says what is wrong, with the place."""
    global _passed, _failed
    if ok:
        _passed += 1
    else:
        _failed += 1
        print(message)


def check_all(faults):
    """One case, whatever the number of faults."""
    faults = list(faults)
    check(not faults, "\n".join(faults))


def finish():
    print(f"{_passed} passed, {_failed} failed")
    sys.exit(1 if _failed or not _passed else 0)


def sources(*patterns):
    """Files below the root, by patterns such as 'src/**/*.c', sorted."""
    return sorted({path for p in patterns for path in glob.glob(p, recursive=True)})


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def symbols(objects, kind):
    """Object -> the set of its symbols, as `nm KIND` lists them, versions left out; one process for all objects."""
    listing = subprocess.run([os.environ.get("NM", "nm"), "-A", kind, *objects], capture_output=True, text=True, check=True)
    found = {path: set() for path in objects}
    for line in listing.stdout.splitlines():
        path, rest = line.split(":", 1)
        found[path].add(rest.split()[-1].split("@")[0])
    return found


def blank_comments_and_strings(text):
    """The text with comments, strings and character constants turned to spaces; lines and columns stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)
