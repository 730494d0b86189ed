#!/usr/bin/env python3
"""test_tfevents.py - event files as TensorBoard reads them: its Python reader, and (not when time is short) the server itself with
both of its loaders. A fresh run, one that was resumed and takes steps back, and one that was killed in the middle of a record."""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from interop import LIGHT, check, finish, program

from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

STEPS = 60


def metrics(first, last, bend=0.0):
    """Lines as a run writes them."""
    lines = []
    for step in range(first, last + 1):
        if step > 0:
            lines.append({"event": "step", "step": step, "loss": 5.0 / (1 + step) + bend, "lr": 1e-4 * step, "tokens": 2048,
                          "seconds": 0.25, "grad_norm": 1.5})
        if step % 20 == 0:
            lines.append({"event": "eval", "step": step, "ce": [4.0 / (1 + step) + bend, 0.125], "agreement": [0.5, None]})
    return lines


def write(folder, now, lines, *keep):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([program("tfevents"), folder, str(now), *map(str, keep)], input=text, text=True, capture_output=True)
    check(done.returncode == 0, f"tfevents_cli: {done.stderr}")


def expected(lines, event, key, index=None):
    values = {}
    for line in lines:
        if line["event"] == event:
            values[line["step"]] = line[key] if index is None else line[key][index]
    return values


def same(got, want):
    return list(got) == sorted(want) and all(abs(got[s] - want[s]) <= 1e-6 * abs(want[s]) for s in want)


def check_folder(what, folder, lines):
    reader = EventAccumulator(folder, size_guidance={SCALARS: 0})
    reader.Reload()
    for tag, want in (("train/loss", expected(lines, "step", "loss")), ("train/lr", expected(lines, "step", "lr")),
                      ("held_out/ce", expected(lines, "eval", "ce", 0)), ("held_out_error/ce", expected(lines, "eval", "ce", 1))):
        got = {e.step: e.value for e in reader.Scalars(tag)}
        check(len(reader.Scalars(tag)) == len(got), f"{what}: {tag} has steps twice")
        check(same(got, want), f"{what}: {tag}: {len(got)} points, expected {len(want)}")
    speed = reader.Scalars("train/tokens_per_second")
    check(all(e.value == 8192 for e in speed) and speed, f"{what}: tokens per second")
    check("held_out_error/agreement" not in reader.Tags()["scalars"], f"{what}: an error that is not known is there")
    check(reader.file_version == 2.0, f"{what}: file version {reader.file_version}")


def ask(port, path, **query):
    url = f"http://127.0.0.1:{port}/data/{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)


def check_server(root, runs, fast):
    """What a person would see: the server's own answers."""
    port = 16006 + os.getpid() % 1000 + (1000 if fast else 0)
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", root, "--port", str(port), "--load_fast", fast and "true" or "false",
               "--samples_per_plugin", "scalars=1000"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        seen, deadline = [], time.monotonic() + 90
        while sorted(seen) != sorted(runs) and time.monotonic() < deadline:
            time.sleep(1)
            try:
                seen = ask(port, "runs")
            except OSError:
                continue
        check(sorted(seen) == sorted(runs), f"tensorboard, load_fast {fast}: runs {seen}")
        for name, lines in runs.items():
            want, got = expected(lines, "step", "loss"), {}
            while not same(got, want) and time.monotonic() < deadline:
                time.sleep(1)
                try:
                    points = ask(port, "plugin/scalars/scalars", run=name, tag="train/loss")
                except OSError:
                    continue
                got = {step: value for _, step, value in points}
            check(same(got, want) and len(points) == len(want),
                  f"tensorboard, load_fast {fast}: {name}: {len(got)} points, expected {len(want)}")
    finally:
        server.terminate()
        server.wait()


with tempfile.TemporaryDirectory() as top:
    runs = {}
    for run in ("fresh", "resumed", "killed"):
        os.mkdir(os.path.join(top, run))
    fresh = metrics(0, STEPS)
    write(os.path.join(top, "fresh"), 1700000000, fresh)
    runs["fresh"] = fresh

    # Went to step 60, was killed, goes on from its checkpoint at 40: what it said about 41 to 60 is void.
    folder, again = os.path.join(top, "resumed"), metrics(41, STEPS, bend=1.0)
    write(folder, 1700000000, fresh)
    write(folder, 1700000000, again, 40)
    check(len(os.listdir(folder)) == 2, "a resumed run has two files")
    runs["resumed"] = metrics(0, 40) + again

    # Killed while a record was being written: all before it is read, and the run goes on in a second file.
    folder = os.path.join(top, "killed")
    write(folder, 1700000000, fresh)
    name = os.path.join(folder, os.listdir(folder)[0])
    os.truncate(name, os.path.getsize(name) - 7)
    write(folder, 1700000500, again, 40)
    runs["killed"] = metrics(0, 40) + again

    for run, lines in runs.items():
        check_folder(run, os.path.join(top, run), lines)
    if not LIGHT:
        check_server(top, runs, False)
        check_server(top, runs, True)
finish()
