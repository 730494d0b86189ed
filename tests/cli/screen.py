"""screen.py - a small model of a terminal, and commands that run in one: for the tests of what people see.

It wraps at the right margin and breaks lines anew when its width changes. Needs the standard library and $RETORT.
"""
import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import termios
import time

COMMAND = shlex.split(os.environ.get("EMU", "")) + [os.path.abspath(os.environ["RETORT"])]
SLOW = 20 if os.environ.get("EMU") else 1  # an emulated processor takes its time
WORDS = "the quick brown fox jumps over the lazy dog while seven wizards box in quiet zones".split()
LIVE = re.compile(r"^(step \d+(/| of )\d+[ ,]|[a-z ]+ +\[[=> ]*\]|(tokenizing|evaluating|sampling|saving)\b)")
CLOCK = os.path.abspath(os.path.join(os.environ.get("BUILD", "build"), "tests/fast_clock.so"))
# For a run that takes its own time for FASTER times as long: what is said after fifteen seconds comes after one and a half.
FASTER = 1 if os.environ.get("EMU") or not os.path.exists(CLOCK) else 10
HASTE = {"LD_PRELOAD": CLOCK, "FAST_CLOCK": str(FASTER)} if FASTER > 1 else {}
counts = {"passed": 0, "failed": 0}


def check(condition, what):
    counts["passed" if condition else "failed"] += 1
    if not condition:
        print(what, flush=True)


# ---- a terminal ----

class Screen:
    """Lines as they were written, each broken into rows of `width` columns; the cursor is a place in a line."""

    def __init__(self, width):
        self.width, self.lines, self.row, self.col = width, [""], 0, 0
        self.held = ""        # the beginning of a sequence that is not whole yet
        self.wrapped = []     # lines that were redrawn although they take more than one row
        self.crowded = []     # screens with two live lines
        self.colours = False
        self.wraps = True
        self.over = False     # the line under the cursor was written beyond the margin

    def feed(self, text):
        text = self.held + text
        self.held = ""
        while text:
            m = re.match(r"\x1b\[([0-9;?]*)([A-Za-z])", text)
            if text[0] == "\x1b" and not m or text == "\r":
                self.held = text
                return
            if m:
                self.escape(m.group(1), m.group(2))
                text = text[m.end():]
            elif text.startswith("\r\n"):
                self.row, self.col, self.over = self.row + 1, 0, False
                if self.row == len(self.lines):
                    self.lines.append("")
                text = text[2:]
            elif text[0] == "\r":
                line = self.lines[self.row]
                if self.over:
                    self.wrapped.append(line)
                self.over = False
                self.col -= self.col % self.width if self.col < len(line) or self.col % self.width else self.width
                self.col = max(self.col, 0)
                text = text[1:]
            else:
                line = self.lines[self.row]
                if not self.wraps and self.col and self.col % self.width == 0:
                    self.col -= 1
                self.over = self.over or self.col >= self.width
                self.lines[self.row] = line[:self.col].ljust(self.col) + text[0] + line[self.col + 1:]
                self.col += 1
                text = text[1:]
        if sum(bool(LIVE.match(r)) for r in self.rows()) > 1:
            self.crowded.append(self.rows())

    def escape(self, numbers, letter):
        if letter == "J" and numbers in ("", "0"):
            self.lines[self.row] = self.lines[self.row][:self.col]
            del self.lines[self.row + 1:]
        elif letter == "K" and numbers in ("", "0"):
            line, end = self.lines[self.row], self.col - self.col % self.width + self.width
            self.lines[self.row] = line[:self.col] + line[end:]
        elif letter == "m":
            self.colours = True
        elif numbers == "?7":
            self.wraps = letter == "h"
        else:
            raise SystemExit(f"screen.py: the screen knows no ESC [ {numbers} {letter}")

    def rows(self):
        return [line[i:i + self.width] for line in self.lines for i in range(0, max(len(line), 1), self.width)]

    def text(self):
        return "\n".join(self.lines)


class Run:
    """A command in a pseudo-terminal of so many columns."""

    def __init__(self, *args, width=80, env=None):
        self.screen, self.raw, self.status = Screen(width), "", None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            for name in ("NO_COLOR", "COLUMNS", "LINES"):
                os.environ.pop(name, None)
            os.environ.update({"TERM": "xterm", **(env or {})})
            time.sleep(0.1)  # until the window has its size
            os.execvp(COMMAND[0], COMMAND + [str(a) for a in args])
        self.resize(width)

    def resize(self, width):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        self.screen.width = width

    def read(self, seconds):
        """What comes within so many seconds; False at the end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536).decode("utf-8", "replace")
        except OSError:
            data = ""
        if not data:
            return False
        self.raw += data
        self.screen.feed(data)
        return True

    def until(self, pattern, seconds=60):
        """Reads until the raw output has the pattern; whether it came."""
        end = time.monotonic() + seconds * SLOW
        while time.monotonic() < end:
            if re.search(pattern, self.raw):
                return True
            if not self.read(0.01):
                return bool(re.search(pattern, self.raw))
        return False

    def finish(self, seconds=120):
        end = time.monotonic() + seconds * SLOW
        while self.read(0.05) and time.monotonic() < end:
            pass
        if time.monotonic() >= end:
            os.kill(self.pid, signal.SIGKILL)
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return self


def call(*args, **how):
    return subprocess.run(COMMAND + [str(a) for a in args], stdin=subprocess.DEVNULL, capture_output=True, text=True, **how)


def texts(path, count, words=8):
    with open(path, "w") as f:
        for i in range(count):
            text = " ".join(WORDS[(i * 7 + k * k + k * i) % 16] for k in range(words))
            f.write(json.dumps({"text": f"{text} {i}"}) + "\n")


def curve(out):
    lines = [json.loads(line) for line in open(f"{out}/run/metrics.jsonl")]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


# To be copied as they are, whatever their width.
COMMANDS = re.compile(r"\b(retort (\w+ )*[-./\w]|hf upload|rm -r|ollama (create|run)|llama-cli)")


def fits(what, *args, width=80, status=0):
    """Every line that stays is in the window, but for commands to copy and single words that are wider themselves."""
    run = Run(*args, width=width).finish()
    check(run.status == status, f"{what}: status {run.status}: {run.screen.text()[-400:]}")
    wide = [line for line in run.screen.lines if len(line) > width and not COMMANDS.search(line)
            and max(map(len, line.split())) < width - 34]
    check(not wide, f"{what} at {width} columns: {len(wide)} lines are wider, such as {wide[:2]}")
    return run
