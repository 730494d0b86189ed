#!/usr/bin/env python3
"""chat.py - `retort chat`: answers beside those of `retort generate`, its history, commands and refusals through a pipe; in a
pseudo-terminal of 80 columns also Ctrl-C, at the prompt and within an answer.

Needs the standard library and $RETORT; ends with `N passed, N failed`.
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

from serve_client import COMMAND, SLOW, call, check, counts, make, wide_model


DRAWN = ("--temperature", 1, "--seed", 7)


def talk(text, *args, model="s"):
    length = () if "--max-new" in args else ("--max-new", "12")
    return subprocess.run(COMMAND + ["chat", model, *length, *map(str, args)], input=text.encode(), capture_output=True)


def said(path):
    return [(m["role"], m["content"]) for m in json.loads(open(path).read())["messages"]]


def generated(messages):
    """What `retort generate` answers to a conversation."""
    with open("p.jsonl", "w") as f:
        f.write(json.dumps({"messages": messages}) + "\n")
    if os.path.exists("a.jsonl"):
        os.remove("a.jsonl")
    make("generate", "s", "--data", "p.jsonl", "--out", "a.jsonl", "--max-new", 12, "--slots", 1, *DRAWN, "--quiet")
    return json.loads(open("a.jsonl").read())["messages"][-1]["content"]


def pipe():
    done = talk("hello\nand again\n/save c.jsonl\n", "--quiet", *DRAWN)
    check(done.returncode == 0 and done.stderr == b"", f"through a pipe: {done.returncode} {done.stderr}")
    turns = said("c.jsonl")
    check([r for r, _ in turns] == ["user", "assistant"] * 2, f"the conversation: {turns}")
    first = generated([{"role": "user", "content": "hello"}])
    second = generated([{"role": r, "content": t} for r, t in turns[:3]])
    check(turns[1][1] == first and turns[3][1] == second, f"{turns}, and generate has {first!r} and {second!r}")
    check(second != generated([{"role": "user", "content": "and again"}]), "what was said before changes nothing, so nothing is shown")
    check(done.stdout.decode() == first + "\n" + second + "\n", f"standard output: {done.stdout}")
    done = talk("hello\nand again\n/save c.jsonl\n")
    check(done.returncode == 0 and b"c.jsonl already exists" in done.stderr and said("c.jsonl") == turns, "a file is replaced")
    check(done.stderr.count(b"cut off: --max-new is 12") == 2, f"answers that are cut: {done.stderr}")
    make("tokenize", "c.jsonl", "--model", "s", "--show", 1)


def commands():
    done = talk("hello\n/reset\nhello\n/save r.jsonl\n", "--system", "be brief")
    turns = said("r.jsonl")
    check([r for r, _ in turns] == ["system", "user", "assistant"] and turns[0][1] == "be brief", f"/reset: {turns}")
    answers = done.stdout.decode()
    check(answers == (turns[2][1] + "\n") * 2, "after /reset an answer is another")
    done = talk("/system\n/system you are one\n/system\nhello\n/system you are two\n/save two.jsonl\n/bye\nnever\n")
    check(said("two.jsonl")[0] == ("system", "you are two") and len(said("two.jsonl")) == 3, f"/system: {said('two.jsonl')}")
    check(b"(no system message)\nyou are one\n" in done.stderr, f"/system: {done.stderr}")
    done = talk("/nonsense with words\n/save\n/help\n//slash\none \\\ntwo\n\n/save m.jsonl\n/save /nowhere/m.jsonl\n")
    turns = said("m.jsonl")
    check([t for r, t in turns if r == "user"] == ["/slash", "one \ntwo"], f"messages: {turns}")
    for says in (b"/nonsense is not a command; /help lists them", b"/save needs a file name", b"/reset         clear", b"/nowhere/m.jsonl"):
        check(says in done.stderr, f"{says}: {done.stderr}")
    os.makedirs("o/run")
    open("o/run/retort.lock", "w").close()
    done = talk("/save o/run/x.jsonl\n")
    check(b"where only the run itself writes" in done.stderr and os.listdir("o/run") == ["retort.lock"], f"/save into a run: {done}")
    done = talk(b"\xff\xfe bytes\n/save b.jsonl".decode("latin-1"), "--quiet")
    check(done.returncode == 0 and os.path.exists("b.jsonl"), "a last line without its end, bytes that are no UTF-8")
    done = talk("/system\n", "--system", "\udcff brief")
    check(done.returncode == 0 and "\ufffd brief".encode() in done.stderr, f"a system message that is no UTF-8: {done.returncode} {done.stderr}")
    two = [talk("hello\n", "--temperature", 2, "--seed", s).stdout for s in (1, 2, 1)]
    check(two[0] == two[2] != two[1], "seeds")


def refusals():
    done = talk("x" * 300 + "\n/save long.jsonl\nhello\n/save short.jsonl\n", "--context", 200)
    check(done.returncode == 0 and re.search(rb"the prompt has \d+ tokens, and the context is 200.*; /reset begins", done.stderr),
          f"a message that does not fit: {done.stderr}")
    check(said("long.jsonl") == [] and len(said("short.jsonl")) == 2, "what does not fit stays in the conversation")
    done = talk("hello\n" * 20, "--context", 200, "--max-new", 30)
    check(done.returncode == 0 and b"/reset begins a new conversation" in done.stderr, f"a conversation that is full: {done.stderr}")
    for args, status, says in ((["nowhere"], 3, "nowhere"), (["s", "--temperature", "-1"], 2, "--temperature -1"), ([], 2, "first argument"),
                               (["bare"], 5, "no chat template")):
        done = call("chat", *args)
        check(done.returncode == status and says in done.stderr, f"chat {args}: {done.returncode} {done.stderr}")


def int8():
    made = {(n, quiet): talk("hello\n", *DRAWN, "--activations", "int8", "--threads", n, *quiet, model="q8.gguf")
            for n in (1, 2) for quiet in ((), ("--quiet",))}
    check(len({d.stdout for d in made.values()}) == 1 and not any(d.returncode for d in made.values()), "one text with int8 activations")
    said_so = rb"^int8 activations in [1-9]\d* of [1-9]\d* GEMMs of a token$"
    check(all(bool(re.search(said_so, d.stderr, re.M)) != bool(k[1]) for k, d in made.items()), "int8 activations are said, but with --quiet")
    check(b"int8" not in talk("hello\n", model="q8.gguf").stderr, "nothing about int8 without it")
    for args, status, says in ((["q8.gguf", "--activations", "half"], 2, "--activations takes exact or int8, not 'half'"),
                               (["s", "--activations", "int8"], 5, "int8 activations need weights in q8_0")):
        done = call("chat", *args)
        check(done.returncode == status and says in done.stderr, f"chat {args}: {done.returncode} {done.stderr}")


# ---- a terminal ----

class Terminal:
    def __init__(self, *args):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.environ.update(TERM="xterm")
            os.environ.pop("COLUMNS", None)
            time.sleep(0.1)  # until the window has its size
            os.execvp(COMMAND[0], COMMAND + ["chat", *map(str, args)])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def until(self, pattern, seconds=30):
        """Reads until what came since the last call has the pattern; what it is."""
        end, begun = time.monotonic() + seconds * SLOW, len(self.text)
        while time.monotonic() < end:
            if re.search(pattern, self.text[begun:]):
                return self.text[begun:]
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.text += os.read(self.fd, 65536).decode("utf-8", "replace")
                except OSError:
                    break
        found = re.search(pattern, self.text[begun:])
        check(found, f"expected {pattern}: {self.text[begun:][-300:]!r}")
        return self.text[begun:]

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return status


def terminal():
    t = Terminal("wide", "--max-new", 7000, "--context", 8000, "--threads", 1)
    hello = t.until(r"> $")
    check(all(len(line) <= 80 for line in hello.splitlines()) and "Ctrl-C stops an answer" in hello, f"the first lines: {hello!r}")
    t.type("hello there\n")
    t.until(r"hello there\r\n(.|\n){30}")
    t.type("\x03")
    t.until(r"\(stopped\)\r\n> $", 10)
    t.type("half a line")
    t.until("half a line")
    t.type("\x03")
    t.until(r"\(to end the chat: Ctrl-D or /bye\)\r\n> $")
    t.type("/save t.jsonl\n")
    t.until(r"2 messages written to t.jsonl\r\n> $")
    turns = said("t.jsonl")
    check(turns[0] == ("user", "hello there") and len(turns[1][1]) >= 30, f"what was stopped is kept: {turns}")
    t.type("again\n")
    t.until(r"again\r\n(.|\n){30}")
    t.type("\x03")
    t.until(r"\(stopped\)\r\n> $", 10)
    shown = re.sub(r"[\r\n\t]", "", t.text[len(hello):])
    check(not re.search(r"[\x00-\x1f\x7f]", shown.replace("^C", "")), "control characters of an answer reach the terminal")
    t.type("\x04")
    check(t.end() == 0, "Ctrl-D ends it well")
    t = Terminal("s", "--quiet", "--max-new", 3)
    t.until(r"> $")
    t.type("hi\n")
    t.until(r"hi\r\n(.|\n)*\n> $")
    for _ in range(300):  # one that comes just before the line is waited for is not lost
        t.type("\x03")
        if "(to end the chat" not in t.until(r"\(to end the chat: Ctrl-D or /bye\)\r\n> $", 2):
            break
    os.kill(t.pid, signal.SIGTERM)
    check(t.end() == -signal.SIGTERM, "SIGTERM ends it")


with tempfile.TemporaryDirectory() as folder:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    os.chdir(folder)
    make("init", "--preset", "tiny-qwen2", "--seed", 1, "--dtype", "f32", "s")
    wide_model()
    make("quantize", "s", "q8.gguf", "--dtype", "q8_0")
    make("convert", "s", "bare")
    for name in os.listdir("bare"):
        if "template" in name or name == "tokenizer_config.json":
            os.remove(f"bare/{name}")
    for test in (pipe, commands, refusals, int8, terminal):
        test()
print(f"{counts['passed']} passed, {counts['failed']} failed")
sys.exit(0 if counts["failed"] == 0 and counts["passed"] > 0 else 1)
