#!/usr/bin/env python3
"""terminal_answers.py - `cache`, `generate --data`, `eval --tasks`, `chat` and `serve` in a pseudo-terminal: a line that is redrawn in
place and fits the window, lines that stay and fit it too, --quiet, NO_COLOR, and an answer to Ctrl-C at once.

Needs the standard library and $RETORT; ends with `N passed, N failed`.
"""
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

from screen import HASTE, LIVE, SLOW, Run, call, check, counts, fits, texts
from serve_client import Server

# Commands that take long enough on a fast machine for the line to be seen, and what it says of them.
CACHE = "running the teacher", ["cache", "--teacher", "wt", "--data", "d.jsonl", "--seq-len", 64, "--threads", 1]
GENERATE = "answering", ["generate", "wt", "--data", "p.jsonl", "--max-new", 24, "--threads", 1]
TASKS = "answering", ["eval", "wt", "--tasks", "q.jsonl", "--threads", 1]


def fresh(out):
    """Its name, which nothing has."""
    if os.path.isdir(out):
        shutil.rmtree(out)
    elif os.path.exists(out):
        os.remove(out)
    return out


def asked(command, out):
    return command + ([] if command[0] == "eval" else ["--out", fresh(out)])


def line():
    for width, (what, command) in ((60, CACHE), (80, GENERATE), (120, TASKS), (200, CACHE)):
        run = Run(*asked(command, f"l{width}"), width=width, env=HASTE).finish()
        name = f"{command[0]} at {width} columns"
        check(run.status == 0, f"{name}: status {run.status}: {run.screen.text()[-400:]}")
        frames = re.findall(rf"\r\x1b\[\?7l({what}.*?)\x1b\[J", run.raw)
        check(frames and any(re.search(r"\[.*=.*\].*\d+ %", f) for f in frames), f"{name}: no line, or no bar: {run.raw[:300]!r}")
        check(not run.screen.wrapped and not run.screen.crowded, f"{name}: {run.screen.wrapped[:1]} {run.screen.crowded[:1]}")
        check(not any(LIVE.match(r) for r in run.screen.rows()), f"{name}: a row is left over")
        check(run.screen.colours, f"{name}: no colours")
    run = Run(*asked(GENERATE[1], "grey"), env={**HASTE, "NO_COLOR": "1"}).finish()
    check(run.status == 0 and "answering" in run.raw and not run.screen.colours, "NO_COLOR: colours")
    run = Run(*asked(GENERATE[1], "dumb"), env={**HASTE, "TERM": "dumb"}).finish()
    check(run.status == 0 and "\033" not in run.raw, "a dumb terminal gets plain lines")


def what_stays():
    for width in (60, 80):
        cache = ["cache", "--teacher", "t", "--data", "e.jsonl", "--seq-len", 64, "--out", f"c{width}"]
        fits("cache", *cache, width=width)
        fits("cache that is there", "cache", f"c{width}", width=width)
        fits("cache that is filled", *cache, "--fill", width=width)
        fits("generate --data", "generate", "t", "--data", "few.jsonl", "--max-new", 4, "--out", f"a{width}", width=width)
        fits("eval --tasks", "eval", "t", "--tasks", "few-q.jsonl", width=width)
        fits("eval --tasks, two models", "eval", "t", "--tasks", "few-q.jsonl", "--beside", "s", "--require", "acc>=0", width=width)
        run = Run("chat", "t", width=width)
        check(run.until(r"> $", 20), "chat does not ask")
        os.write(run.fd, b"/help\n/bye\n")
        run.finish()
        check(max(map(len, run.screen.lines)) <= width, f"chat at {width} columns: {max(run.screen.lines, key=len)!r}")
        run = Run("serve", "t", "--port", 0, width=width)
        check(run.until(r"serving .*\n", 20), "serve says nothing")
        os.write(run.fd, b"\x03")
        run.finish()
        check(run.status == 0 and max(map(len, run.screen.lines)) <= width, f"serve at {width} columns: {run.screen.lines}")


def quiet():
    cache = ["cache", "--teacher", "t", "--data", "e.jsonl", "--seq-len", 64]
    for command in (cache, ["generate", "t", "--data", "few.jsonl", "--max-new", 4]):
        run = Run(*asked(command, "quiet"), "--quiet", env=HASTE).finish()
        check(run.status == 0 and run.raw == "", f"{command[0]} --quiet: {run.status} {run.raw[-200:]!r}")
        done = call(*asked(command, "quiet"), "--json", "--quiet")
        check(done.returncode == 0 and done.stderr == "" and isinstance(json.loads(done.stdout), dict), f"{command[0]} --json --quiet: {done}")
        done = call(*command, "--out", "quiet", "--data", "nowhere.jsonl", "--quiet")
        check(done.returncode != 0 and done.stdout == "" and done.stderr.count("\n") == 1, f"{command[0]} --quiet, refused: {done}")


def stops():
    """Ctrl-C is answered at once, ends soon, and what comes after it is what the line said."""
    for (what, command), says in ((CACHE, "s-cache has what was computed so far; --fill adds the rest"),
                                  (GENERATE, r"interrupted after the answers to \d+ of \d+ prompts; the same command resumes"),
                                  (TASKS, r"interrupted after \d+ of \d+ requests")):
        run = Run(*asked(command, f"s-{command[0]}"), width=200, env=HASTE)
        check(run.until(rf"7l{what}"), f"{command[0]}: no line")
        begun = time.monotonic()
        os.write(run.fd, b"\x03")
        check(run.until(f"stopping  still {what}; Ctrl-C again ends at once", 2), f"{command[0]}: no answer to Ctrl-C within 2 s")
        run.finish(60)
        text = run.screen.text()
        check(run.status == 130 and time.monotonic() - begun < 10 * SLOW, f"{command[0]}: status {run.status}: {text[-300:]}")
        check(re.search(says, text), f"{command[0]}: expected {says}: {text[-300:]}")
        check(not any(LIVE.match(r) for r in run.screen.rows()), f"{command[0]}: a row is left over")
    for args in (CACHE[1] + ["--fill", "--out", "s-cache"], GENERATE[1] + ["--out", "s-generate"]):
        done = call(*args)
        check(done.returncode == 0, f"{args[0]} does not go on: {done.stderr}")


def server_stops():
    """With a request under way Ctrl-C is answered too, and the request's answer is whole."""
    server, replies = Server("wt", "--slots", 1, "--context", 2000, "--threads", 1), []
    ask = {"prompt": "x", "max_tokens": 1900, "ignore_eos": True}
    thread = threading.Thread(target=lambda: replies.append(server.ask("/v1/completions", ask)))
    thread.start()
    check(server.until("sequences_running", lambda n: n == 1), "it never began")
    status, said = server.stop(signal.SIGINT)
    thread.join()
    check(status == 0 and said == "stopping  when 1 request has ended; Ctrl-C again ends at once\n", f"serve: {status} {said!r}")
    check(replies and replies[0].json["usage"]["completion_tokens"] == 1900, "the answer under way is cut")


def main():
    os.chdir(tempfile.mkdtemp())
    try:
        for i, name in enumerate(("t", "s")):
            call("init", "--preset", "tiny-qwen2", "--seed", i, name)
        config = json.load(open("t/config.json"))
        config.update(hidden_size=256, intermediate_size=1024, num_hidden_layers=4, max_position_embeddings=2048)
        json.dump(config, open("wide.json", "w"))
        done = call("init", "--config", "wide.json", "--tokenizer", "t", "wt")
        check(done.returncode == 0, done.stderr)
        texts("d.jsonl", 300)
        texts("e.jsonl", 60)
        for prompts, name, count in (("p.jsonl", "", 50), ("few.jsonl", "few-", 4)):
            with open(prompts, "w") as f:
                f.writelines(json.dumps({"prompt": f"say {i}"}) + "\n" for i in range(count))
            with open(f"{name}q.jsonl", "w") as f:
                f.writelines(json.dumps({"question": f"number {i} is", "choices": ["one", "two hundred"], "answer": i % 2}) + "\n"
                             for i in range(3 * count))
        for part in (line, what_stays, quiet, stops, server_stops):
            if len(sys.argv) < 2 or part.__name__ in sys.argv[1:]:
                begun = time.monotonic()
                part()
                print(f"{part.__name__}: {time.monotonic() - begun:.0f} s", flush=True)
    finally:
        shutil.rmtree(os.getcwd())
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] else 0


sys.exit(main())
