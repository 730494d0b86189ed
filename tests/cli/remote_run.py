#!/usr/bin/env python3
"""remote_run.py - a run that asks its teacher's server while it trains: what it asks for, when, and that whatever stops either of
them in between, the run ends with the bits of one that nothing happened to.

Needs the standard library, libcurl and $RETORT; ends with `N passed, N failed`.
"""
import json
import os
import signal
import subprocess
import threading
import time

from remote_between import LEARN, SMALL, Between, content, ends, inputs
from serve_client import COMMAND, SLOW, Server, call, check, make, run

HELD = 12
RUN = [*LEARN, *SMALL, "--held-out", HELD, "--sample-prompts", "none"]


def but(**other):
    """RUN with other values; null: without that flag."""
    other = {f"--{k.replace('_', '-')}": v for k, v in other.items()}
    pairs = [[flag, other.pop(flag, value)] for flag, value in zip(RUN[::2], RUN[1::2])]
    return [word for flag, value in [*pairs, *other.items()] if value is not None for word in (flag, value)]


def start(*args):
    return subprocess.Popen(COMMAND + [str(a) for a in args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def steps(run):
    """Steps that are in its log."""
    try:
        with open(f"{run}/run/metrics.jsonl") as f:
            return sum('"step"' in line and json.loads(line)["event"] == "step" for line in f if line.endswith("\n"))
    except OSError:
        return 0


def until(test, seconds=60):
    end = time.monotonic() + seconds * SLOW
    while not test() and time.monotonic() < end:
        time.sleep(0.01)
    return test()


def serve():
    return Server("t", "--context", 128, "--slots", 1, "--threads", 1)


def teacher(url, *options):
    return ["--teacher", ",".join([url, "keep=topk:16", *options])]


def files(run):
    return open(f"{run}/model.safetensors", "rb").read(), content(f"{run}.teacher")


def same(run, what):
    check(files(run) == files("quiet"), f"{what}: other bits than a run that nothing happened to")


def asks_what_it_reads(server):
    """A run of 8 steps of 4 rows asks for these 32 and for the held-out ones, of data that has four times as many."""
    quiet = Between(server)
    ends(call("distill", *teacher(quiet.url), *RUN, "--out", "quiet"), 0)
    whole = Between(server)
    ends(call("cache", "--teacher", whole.url, *SMALL, "--held-out", HELD, "--keep", "topk:16", "--out", "whole"), 0)
    held = quiet.posts - 8
    check(0 < held <= HELD // 2 + 1 and quiet.posts < whole.posts, f"{quiet.posts} questions, {whole.posts} for all of the data")
    ends(call("verify", "quiet"), 0)
    again = Between(server)
    ends(call("distill", *teacher(again.url, "cache=quiet.teacher"), *but(lr=2e-3), "--out", "again"), 0)
    check(again.posts == 0, f"the same rows are asked for {again.posts} times again")
    ends(call("distill", "--teacher", "quiet.teacher", *but(teacher_batch=None), "--out", "offline"), 0)
    check(open("offline/model.safetensors", "rb").read() == files("quiet")[0], "the cache by itself gives other bits")
    epochs = Between(server)
    done = call("distill", *teacher(epochs.url), *but(steps=200, eval_every=200), "--out", "epochs")
    ends(done, 0)
    check(epochs.posts <= whole.posts + 2, f"{epochs.posts} questions for 200 steps of four, {whole.posts} for all of the data")
    return held


class Stop:
    """Answers so many questions; then `act` is called, once, by somebody else's thread, and the question is dropped."""

    def __init__(self, most, act):
        self.most, self.act, self.done = most, act, threading.Event()

    def __call__(self, between, handler, number, body):
        if number <= self.most or self.done.is_set():
            return False
        self.done.set()
        self.act(between)
        handler.drop()
        return True


def killed_server(held):
    """kill -9 of the server after some steps: the run goes on as far as it can, waits, and ends as if nothing had been."""
    seen = {}

    def kill(between):
        between.server.process.kill()
        between.server.process.wait()

        def come_back():
            seen["trained"] = until(lambda: steps("waited") >= 3)
            time.sleep(1)
            seen["waits"] = steps("waited")
            between.server = serve()
        threading.Thread(target=come_back, daemon=True).start()
    between = Between(serve(), Stop(held + 3, kill))
    done = call("distill", *teacher(between.url, "requests=1", "wait=60"), *RUN, "--out", "waited")
    ends(done, 0)
    check(seen.get("trained") and seen.get("waits") == 3, f"three of eight steps before the server was back: {seen}")
    check("the run waited" in done.stdout, done.stdout)
    same("waited", "a server that was killed")
    between.server.stop()


def killed_run(server, held):
    """kill -9 of the run while it waits: it is resumed without a word of the server."""
    between = Between(server, lambda b, h, number, body: number > held + 4 and not h.server.go and (time.sleep(0.2), h.drop()) and True)
    between.go = False
    process = start("distill", *teacher(between.url, "requests=1"), *RUN, "--save-every", 2, "--out", "cut")
    check(until(lambda: steps("cut") >= 4), "four steps are trained")
    process.kill()
    process.communicate()
    between.go, asked = True, between.posts
    ends(call("distill", "--resume", "--out", "cut"), 0)
    same("cut", "a run that was killed")
    lost = between.posts - asked
    check(4 <= lost <= 8 + held, f"{lost} questions after the kill")


def interrupted(server, held):
    between = Between(server, lambda b, h, number, body: number > held + 4 and not h.server.go and (time.sleep(0.2), h.drop()) and True)
    between.go = False
    process = start("distill", *teacher(between.url, "requests=1"), *RUN, "--out", "stopped")
    check(until(lambda: steps("stopped") >= 4), "four steps are trained")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60 * SLOW)
    check(process.returncode == 130 and "stopped after step 4 of 8" in said, f"Ctrl-C while it waits: {process.returncode}, {said}")
    ends(call("distill", "--resume", "--teacher", f"{server_url(server)},keep=topk:16", "--out", "stopped"), 0)
    same("stopped", "a run that was interrupted")


def server_url(server):
    return f"http://127.0.0.1:{server.port}"


def gone(server, held):
    """A server that does not come back: exit code 10, the steps so far are kept, and the rest is asked elsewhere."""
    first = serve()
    between = Between(first, Stop(held + 5, lambda b: (first.process.kill(), first.process.wait())))
    done = call("distill", *teacher(between.url, "requests=1", "wait=1"), *RUN, "--out", "gone")
    ends(done, 10, "--resume asks for the rest: .* has not answered for 1 s")
    check(os.path.isdir("gone/run/checkpoints/checkpoint-000005"), f"no checkpoint of the last step: {os.listdir('gone/run/checkpoints')}")
    done = call("distill", "--resume", "--out", "gone")
    ends(done, 10, "does not answer")
    ends(call("distill", "--resume", "--teacher", f"{server_url(server)},keep=topk:9", "--out", "gone"), 5, "stores topk:16")
    ends(call("distill", "--resume", "--teacher", f"{server_url(server)},keep=topk:16", "--out", "gone"), 0)
    same("gone", "a run that went on with a server at another address")


def changed(held):
    """Another model under the address, in mid-run."""
    first, other = serve(), Server("t2", "--context", 128, "--slots", 1, "--threads", 1)

    def change(between, handler, number, body):
        if number > held + 3:
            between.server = other
        return False
    between = Between(first, change)
    done = call("distill", *teacher(between.url, "requests=1"), *RUN, "--out", "changed")
    ends(done, 5, "status 409.: the question is to another teacher")
    ends(call("distill", "--resume", "--out", "changed"), 5, "another teacher than changed.teacher is of")
    between.act, between.server = None, first
    ends(call("distill", "--resume", "--out", "changed"), 0)
    same("changed", "a run that met another teacher")
    first.stop()
    other.stop()


def in_time(server):
    """With --time the number of steps is not known when the first rows are asked for."""
    ends(call("distill", *teacher(server_url(server)), *but(steps=None, eval_every=None, time="6s"), "--out",
              "timed"), 0)


def main():
    inputs()
    server = serve()
    held = asks_what_it_reads(server)
    killed_server(held)
    killed_run(server, held)
    interrupted(server, held)
    gone(server, held)
    changed(held)
    in_time(server)
    check(server.stop() == (0, ""), "the server ends well")


run(main)
