"""interop.py - what the tests in this folder share: where things are, counting of cases, programs behind a pipe.

A test is a script test_NAME.py. It prints what it likes and ends with finish(), whose line `N passed, N failed` run.py adds up.
LIGHT says that time is short: fewer texts, the same kinds.
"""
import os
import subprocess
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(ROOT, "build")))
RETORT = os.path.abspath(os.environ.get("RETORT", os.path.join(BUILD, "retort")))
LIGHT = os.environ.get("INTEROP_LIGHT") == "1"

_passed = _failed = 0


def check(ok, message):
    """One case; the message says what is wrong."""
    global _passed, _failed
    if ok:
        _passed += 1
    else:
        _failed += 1
        print(message, flush=True)
    return ok


def count(passed, failed):
    """Cases that were counted elsewhere; what is wrong with them was printed."""
    global _passed, _failed
    _passed += passed
    _failed += failed


def finish(leave=sys.exit):
    """Ends the test by leave(status): os._exit where a library's threads may not survive the interpreter's own end."""
    print(f"{_passed} passed, {_failed} failed", flush=True)
    leave(1 if _failed or not _passed else 0)


def program(name):
    """The path of NAME_cli, built from NAME_cli.c."""
    path = os.path.join(BUILD, "interop", name + "_cli")
    if not os.path.exists(path):
        sys.exit(f"{path} is not built; run `make test-interop`")
    return path


class Pipe:
    """A program that answers requests, each with one answer, in their order."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.input, self.output = self.process.stdin, self.process.stdout

    def ask(self, requests, read_answer):
        """requests: bytes each. read_answer(output, i) reads one answer."""
        def write():
            try:
                for request in requests:
                    self.input.write(request)
                self.input.flush()
            except BrokenPipeError:
                pass  # the reader below notices, and says so
        writer = threading.Thread(target=write)
        writer.start()
        answers = [read_answer(self.output, i) for i in range(len(requests))]
        writer.join()
        return answers

    def close(self):
        """The exit status."""
        self.input.close()
        self.output.close()
        return self.process.wait()
