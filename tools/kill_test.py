#!/usr/bin/env python3
"""kill_test.py - kills a run with SIGKILL at many moments, resumes it, and compares it with one left alone.

A tiny student is distilled once without interruption; that is the reference. Then every trial begins the same run anew
in a folder of its own and kills it:
  - `uniform` trials at moments uniform over the wall time of the reference: one in each of N equal slices of it;
  - then `aimed` trials while a checkpoint is being written: the folder is watched, and the kill comes a random moment
    after the hidden temporary name of a random checkpoint has appeared. There are M of them, and more until M kills in
    all have hit a write, which the name that is left over proves;
  - before those, a few `end` trials: a moment after the last checkpoint, while the model gets its place at the root.
In every fifth trial the resumed run is killed as well. After each kill every checkpoint-* must be whole
(tests/kill/check_checkpoints.c); then `--resume` runs to the end, and these must equal the reference bit for bit:
metrics.jsonl without its timing keys, samples.jsonl, the files of the model at the root, weights and moments of the last checkpoint,
and what state.json says of step, data, best and programs. Nothing hidden may be left over. A run that has ended is
resumed too, and must stay as it is.

--kinds names what is killed: runs with and without a teacher, of adapters, with a control; conversions, whose output has
its name whole or not at all; caches of a teacher and answers to prompts, which the same command continues. --tally FILE adds up over calls, each of which draws other moments.

A process that ends before its moment comes is no kill: the trial is repeated with another moment of the same slice.
Ends with `N passed, N failed`, one case per trial. Standard library only.
"""
import argparse
import collections
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TIMING = {"seconds"}  # keys of metrics.jsonl and state.json that tell the time
LIMIT = 120           # seconds after which a run hangs
TRIES = 20            # draws of one trial until a kill comes before the end
TEMP_CHECKPOINT = re.compile(r"^\.+checkpoint-(\d+)\.retort-tmp-")
CHECKPOINT = re.compile(r"^checkpoint-(\d+)$")
WORDS = "the cat sat on a mat and the dog ran far from our house near that river where birds sing all day".split()


class Fault(Exception):
    """What a trial found wrong."""


def steps_of(names, pattern):
    return [int(m[1]) for m in map(pattern.match, names) if m]


def names_in(folder):
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def checkpoints_of(folder):
    return os.path.join(folder, "run", "checkpoints")


def writes_under_way(folder):
    """Steps whose checkpoints have a temporary name and are newer than all that have their own: being written. Older
    ones are being removed."""
    names = names_in(checkpoints_of(folder))
    newest = max(steps_of(names, CHECKPOINT), default=0)
    return [s for s in steps_of(names, TEMP_CHECKPOINT) if s > newest]


# What a kind of run adds to the command; train has no teacher.
KINDS = {"distill": [], "train": [], "lora": ["--lora-rank", "4"], "control": ["--control"]}


class Bench:
    """The models, the data and the command that every trial shares."""

    def __init__(self, args, folder, kind="distill"):
        self.args = args
        self.folder = folder
        self.kind = kind
        self.verb = "train" if kind == "train" else "distill"
        os.makedirs(folder, exist_ok=True)
        self.retort = shlex.split(args.emu) + [os.path.abspath(args.retort)]
        self.checker = shlex.split(args.emu) + [os.path.abspath(args.checker)]
        rng = random.Random(5)
        with open(os.path.join(folder, "data.jsonl"), "w", encoding="utf-8") as f:
            for _ in range(400):
                text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(5, 25)))
                f.write(json.dumps({"text": text}) + "\n")
        for preset, name, seed in [("tiny-qwen3", "teacher", 2), ("tiny-qwen2", "student", 1)]:
            self.must([*self.retort, "init", "--preset", preset, "--seed", str(seed), name])
        # Evaluations and checkpoints fall on different steps, and the best is not the last.
        steps = 18 if args.quick else 60
        self.saves = steps // (3 if args.quick else 5)
        self.begin = [self.verb, "--student", "student", "--data", "data.jsonl", "--steps", str(steps), "--batch", "4",
                      "--micro-batch", "2", "--seq-len", "64", "--threads", "1", "--held-out", "24", "--eval-every", "4", "--save-every", "3" if args.quick else "5",
                      "--schedule", "constant"]
        if kind == "train":
            self.begin += ["--lr", "0.002" if args.quick else "0.012"]
        else:
            self.begin += ["--teacher", "teacher"]
            self.begin += ["--alpha", "0.9", "--divergence", "reverse-kl", "--lr", "0.002"] if args.quick else \
                ["--alpha", "0.98", "--lr", "0.012"]
        self.begin += ["--device", args.device, *KINDS[kind]]

    def must(self, command):
        done = subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=LIMIT)
        if done.returncode != 0:
            raise Fault(f"{' '.join(command)}: status {done.returncode}\n{done.stdout.decode()}")
        return done.stdout.decode()

    def start(self, out, resume):
        command = [self.verb, "--resume"] if resume else self.begin
        return subprocess.Popen([*self.retort, *command, "--out", out], cwd=self.folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def to_the_end(self, out, resume):
        """Seconds; a run that had not begun when it was killed begins without --resume."""
        begun = time.monotonic()
        process = self.start(out, resume)
        try:
            _, errors = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Fault(f"did not end within {LIMIT} s") from None
        if resume and process.returncode == 3 and not os.path.exists(self.path(out, "run", "settings.json")):
            return self.to_the_end(out, False)
        if process.returncode != 0:
            raise Fault(f"{'--resume' if resume else 'the run'} ended with {process.returncode}: {errors.decode().strip()}")
        return time.monotonic() - begun


def end_of(bench, out):
    """Everything that must not depend on interruptions."""
    result = {}
    with open(bench.path(out, "run", "metrics.jsonl"), encoding="utf-8") as f:
        for number, line in enumerate(f):
            result[f"metrics line {number}"] = {k: v for k, v in json.loads(line).items() if k not in TIMING}
    with open(bench.path(out, "run", "samples.jsonl"), "rb") as f:
        result["samples"] = f.read()
    for name in sorted(os.listdir(bench.path(out))):
        if os.path.isfile(bench.path(out, name)):
            with open(bench.path(out, name), "rb") as f:
                result[name] = f.read()
    checkpoints = checkpoints_of(bench.path(out))
    last = f"checkpoint-{max(steps_of(names_in(checkpoints), CHECKPOINT)):06d}"
    with open(os.path.join(checkpoints, last, "state.safetensors"), "rb") as f:
        result[f"{last}/state.safetensors"] = f.read()
    with open(os.path.join(checkpoints, last, "state.json"), encoding="utf-8") as f:
        state = json.load(f)
    # The length of metrics.jsonl depends on how many digits the timings have; hashes of files are compared as files.
    result["state"] = {k: state[k] for k in ("step", "cursor", "tokens", "trained", "best", "best_step", "programs")}
    result["folders"] = sorted(n for n in os.listdir(bench.path(out)) if os.path.isdir(bench.path(out, n)))
    result["checkpoint folders"] = sorted(os.listdir(checkpoints))
    if os.path.isdir(bench.path(out, "run", "control")):
        for key, value in end_of(bench, os.path.join(out, "run", "control")).items():
            result["control " + key] = value
    return result


def compare(bench, out, want):
    try:
        got = end_of(bench, out)
    except (OSError, ValueError, KeyError) as fault:
        raise Fault(f"what the run left cannot be read: {fault}") from None
    for key in sorted(set(want) | set(got)):
        if want.get(key) != got.get(key):
            raise Fault(f"{key} differs from the run that was left alone")
    for folder in (out, f"{out}/run", f"{out}/run/data", checkpoints_of(out)):
        hidden = [n for n in names_in(bench.path(folder)) if n.startswith(".") and n != ".gitignore"]
        if hidden:
            raise Fault(f"left over in {folder}: {', '.join(hidden)}")


def check_checkpoints(bench, out):
    if os.path.isdir(bench.path(out)):
        done = subprocess.run([*bench.checker, out], cwd=bench.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=LIMIT)
        if done.returncode != 0:
            raise Fault("a checkpoint cannot be read: " + done.stdout.decode().strip())


def phase_of(bench, out, steps):
    """Where a killed run was, from what it left on disk."""
    names = names_in(checkpoints_of(bench.path(out)))
    newest = max(steps_of(names, CHECKPOINT), default=0)
    hidden = [n for n in names if n.startswith(".") and n != ".gitignore"]
    if writes_under_way(bench.path(out)):
        return "checkpoint write"
    if any(TEMP_CHECKPOINT.match(n) for n in hidden):
        return "checkpoint removal"
    if any(re.match(r"^\.+best-\d+\.retort-tmp-", n) for n in hidden):
        return "best write"
    if newest == steps:
        return "the end"
    if not os.path.exists(bench.path(out, "run", "metrics.jsonl")):
        return "opening"
    return "steps"


def kill_at(process, moment):
    """False when the process ended before."""
    try:
        process.wait(timeout=moment)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return True
    process.communicate()
    return False


def kill_in_write(process, bench, out, moment, wanted):
    """Waits for the n-th checkpoint that is written, and a moment more. False when the process ended before."""
    seen = set()
    end = time.monotonic() + LIMIT
    while process.poll() is None and time.monotonic() < end:
        seen.update(writes_under_way(bench.path(out)))
        if len(seen) >= wanted:
            time.sleep(moment)
            break
        time.sleep(0.0003)
    return kill_at(process, 0.0)


def kill_at_end(process, bench, out, rng, steps):
    """A moment after the last checkpoint has its name. False when the process ended before."""
    last = os.path.join(checkpoints_of(bench.path(out)), f"checkpoint-{steps:06d}")
    end = time.monotonic() + LIMIT
    while process.poll() is None and time.monotonic() < end and not os.path.isdir(last):
        time.sleep(0.0003)
    return kill_at(process, rng.random() * 0.03)


Row = collections.namedtuple("Row", "number kind moment share phase newest resumed result")


class Durations:
    """How long a whole run takes: the middle of the last five, since other work on the machine comes and goes; and a time
    within which a checkpoint is still being written, halved whenever one was not: disks differ by a factor of a hundred."""

    def __init__(self):
        self.last = collections.deque(maxlen=5)
        self.write = 0.01

    def __call__(self):
        return sorted(self.last)[len(self.last) // 2]


def trial(bench, number, kind, slice_of, seconds, rng, want, steps):
    """(row, whether a checkpoint write was hit)"""
    out = f"trial-{number}"
    for _ in range(TRIES):
        shutil.rmtree(bench.path(out), ignore_errors=True)
        moment = seconds() * (slice_of[0] + rng.random()) / slice_of[1]
        begun = time.monotonic()
        process = bench.start(out, False)
        if kind == "uniform":
            killed = kill_at(process, moment)
        elif kind == "end":
            killed = kill_at_end(process, bench, out, rng, steps)
        else:
            killed = kill_in_write(process, bench, out, rng.random() * seconds.write, rng.randint(1, bench.saves))
        moment = time.monotonic() - begun
        if killed:
            break
        if kind == "uniform":
            seconds.last.append(moment)
    else:
        return Row(number, kind, moment, 0, "", 0, 0, "FAIL: it always ended before its moment"), False
    phase = phase_of(bench, out, steps)
    newest = max(steps_of(names_in(checkpoints_of(bench.path(out))), CHECKPOINT), default=0)
    share, resumed, result = moment / seconds(), 0.0, "same"
    try:
        check_checkpoints(bench, out)
        if number % 5 == 0:
            process = bench.start(out, True)
            again = rng.random() * max(0.05, seconds() * (1 - newest / steps))
            if kill_at(process, again):
                phase += f", then {phase_of(bench, out, steps)}"
                check_checkpoints(bench, out)
        resumed = bench.to_the_end(out, True)
        check_checkpoints(bench, out)
        compare(bench, out, want)
        shutil.rmtree(bench.path(out))
    except Fault as fault:
        result = f"FAIL: {fault}"
    return Row(number, kind, moment, share, phase, newest, resumed, result), "checkpoint write" in phase


def print_row(row):
    print(f"{row.number:4d}  {row.kind:<8} {row.moment:7.3f} s {100 * row.share:6.1f} %  step {row.newest:<4d} "
          f"{row.resumed:7.3f} s  {row.result:<6} {row.phase}", flush=True)


def run(args, folder, kind):
    """(trials, kills, trials that failed)"""
    bench = Bench(args, folder, kind)
    rng = random.Random(f"{args.seed}/{kind}/{args.calls}")
    seconds = Durations()
    seconds.last.append(bench.to_the_end("reference", False))
    want = end_of(bench, "reference")
    steps = want["state"]["step"]
    seconds.last.append(bench.to_the_end("again", False))
    compare(bench, "again", want)
    bench.to_the_end("again", True)  # as after a kill in the very last moment: there is nothing left to do
    compare(bench, "again", want)
    print(f"{kind}, left alone: {steps} steps in {seconds.last[0]:.2f} s and {seconds.last[1]:.2f} s, the same bits; "
          f"best at step {want['state']['best_step']}")
    print("   n  kind       killed at           newest     resumed   result where it was")
    rows, hits, number = [], 0, 0
    others = args.kills + args.ends
    while number < others + args.writes or hits < args.writes:
        how = "uniform" if number < args.kills else "end" if number < others else "aimed"
        row, hit = trial(bench, number + 1, how, (number, args.kills), seconds, rng, want, steps)
        if how == "aimed" and not hit:
            seconds.write /= 2
        if number > others + 10 * args.writes:
            raise Fault("no kill hits a checkpoint write")
        number += 1
        hits += hit
        rows.append(row)
        print_row(row)
        if row.newest == 0 and row.result == "same":
            seconds.last.append(row.resumed)
    phases = collections.Counter(part for row in rows for part in row.phase.split(", then ") if part)
    print("killed in: " + ", ".join(f"{n} {phase}" for phase, n in phases.most_common()))
    print(f"{sum(phases.values())} kills in {number} trials, {hits} trials inside a checkpoint write")
    return number, sum(phases.values()), sum(row.result != "same" for row in rows)


# ---- models that are written besides runs ----

def content_of(path):
    """{name: bytes} of a file or a folder; what is hidden is not of it."""
    if os.path.isfile(path):
        paths = [path]
    else:
        paths = [os.path.join(path, n) for n in names_in(path) if not n.startswith(".")]
    result = {}
    for name in paths:
        with open(name, "rb") as f:
            result[os.path.basename(name)] = f.read()
    return result


def run_convert(args, folder):
    """convert, killed: what has the name is the whole model, or nothing has it; the next one writes it."""
    bench = Bench(args, folder)
    rng = random.Random(f"{args.seed}/convert/{args.calls}")
    shape = {"model_type": "qwen2", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
             "num_key_value_heads": 2, "intermediate_size": 2048, "vocab_size": 8192, "max_position_embeddings": 512}
    with open(bench.path("config.json"), "w", encoding="utf-8") as f:
        json.dump(shape, f)
    bench.must([*bench.retort, "init", "--config", "config.json", "--no-tokenizer", "model"])
    failed = kills = 0
    for number in range(args.kills):
        out, dtypes = rng.choice([("x.gguf", ["q8_0", "f32"]), ("x", ["f32"]), ("x.apr", ["q4_k"]), ("x.safetensors", ["f16"])])
        command = [*bench.retort, "convert", "model", out, "--dtype", rng.choice(dtypes), "--threads", "1"]
        target = bench.path(out)
        begun = time.monotonic()
        bench.must(command)
        seconds = time.monotonic() - begun
        want = content_of(target)
        (shutil.rmtree if os.path.isdir(target) else os.remove)(target)
        killed = kill_at(subprocess.Popen(command, cwd=bench.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                          stderr=subprocess.PIPE), rng.random() * seconds)
        kills += killed
        there = content_of(target) if os.path.exists(target) else None
        result = "same" if there in (None, want) else "FAIL: half a model has the name"
        try:
            bench.must([*command, "--force"])
            if content_of(target) != want:
                result = "FAIL: the next one wrote something else"
        except Fault as fault:
            result = f"FAIL: {fault}"
        failed += result != "same"
        if result != "same":
            print(f"{number + 1:4d}  convert  {out}: {result}")
        for name in names_in(bench.folder):  # whose process is no more: nobody else may say so (docs/promises.md)
            if name.startswith("x") or ".retort-tmp-" in name:
                path = bench.path(name)
                (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
    print(f"convert: {kills} kills in {args.kills} trials")
    return args.kills, kills, failed


def remove(path):
    (shutil.rmtree if os.path.isdir(path) else os.remove)(path)


def run_continued(args, folder, kind, draw, result_of):
    """What is killed up to four times and continued by the same command: it ends as one left alone, with nothing left over.
    draw(rng): the command, its output, and what is added where that is there already."""
    bench = Bench(args, folder)
    rng = random.Random(f"{args.seed}/{kind}/{args.calls}")
    failed = kills = 0
    for number in range(args.kills):
        command, out, more = draw(rng)
        begun = time.monotonic()
        bench.must([*bench.retort, *command])
        seconds = time.monotonic() - begun
        want = result_of(bench, out)
        remove(bench.path(out))
        result = "same"
        for _ in range(rng.randint(1, 4)):
            added = more if os.path.exists(bench.path(out, *(["cache.json"] if more else []))) else []
            kills += kill_at(subprocess.Popen([*bench.retort, *command, *added], cwd=bench.folder, stdin=subprocess.DEVNULL,
                                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE), rng.random() * seconds)
        try:
            added = more if os.path.exists(bench.path(out, *(["cache.json"] if more else []))) else []
            bench.must([*bench.retort, *command, *added])
            if result_of(bench, out) != want:
                result = "FAIL: another result"
            for place, folders, files in os.walk(bench.path(out)):
                if any(".retort-tmp-" in name for name in folders + files):
                    result = f"FAIL: a temporary name is left in {place}"
        except Fault as fault:
            result = f"FAIL: {fault}"
        failed += result != "same"
        if result != "same":
            print(f"{number + 1:4d}  {kind}  {' '.join(command)}: {result}")
        remove(bench.path(out))
    print(f"{kind}: {kills} kills in {args.kills} trials")
    return args.kills, kills, failed


def run_cache(args, folder):
    """What a teacher says, kept: filled after kills, whatever it keeps."""
    def draw(rng):
        keep = rng.choice(["topk:16", "draws:20", "hidden"])
        command = ["cache", "--teacher", "teacher", "--data", "data.jsonl", "--seq-len", "64", "--keep", keep, "--out", "x",
                   "--threads", str(rng.randint(1, 2))]
        return command + (["--temperature", "2"] if keep != "hidden" and rng.random() < 0.5 else []), "x", ["--fill"]

    def result_of(bench, out):
        return json.loads(bench.must([*bench.retort, "cache", out, "--json"]))["content_hash"]
    return run_continued(args, folder, "cache", draw, result_of)


def run_answers(args, folder):
    """Answers to a file of prompts."""
    def draw(rng):
        samples = rng.randint(1, 3)
        command = ["generate", "student", "--data", "data.jsonl", "--out", "x.jsonl", "--max-new", "16", "--samples", str(samples),
                   "--temperature", "1", "--slots", str(rng.choice([1, 4])), "--threads", str(rng.randint(1, 2)), "--quiet"]
        return command + (["--best-of"] if samples > 1 and rng.random() < 0.5 else []), "x.jsonl", []

    def result_of(bench, out):
        with open(bench.path(out), "rb") as f:
            return f.read()
    return run_continued(args, folder, "answers", draw, result_of)


OTHERS = {"convert": run_convert, "cache": run_cache, "answers": run_answers}  # kinds that are no runs


def run_kinds(args, folder):
    tally = {"calls": 0, "trials": 0, "kills": 0, "failed": 0}
    if args.tally and os.path.exists(args.tally):
        with open(args.tally, encoding="utf-8") as f:
            tally = json.load(f)
    args.calls, trials, bad = tally["calls"], 0, 0
    tally["calls"] += 1
    for kind in args.kinds.split(","):
        place = os.path.join(folder, kind)
        number, kills, failed = OTHERS[kind](args, place) if kind in OTHERS else run(args, place, kind)
        trials, bad = trials + number, bad + failed
        for key, value in ("trials", number), ("kills", kills), ("failed", failed):
            tally[key] += value
        if args.tally:
            with open(args.tally + ".new", "w", encoding="utf-8") as f:
                json.dump(tally, f)
            os.replace(args.tally + ".new", args.tally)
    print(f"in all {tally['kills']} kills in {tally['trials']} trials, {tally['failed']} failed")
    print(f"{trials - bad} passed, {bad} failed")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--retort", default="build/retort")
    parser.add_argument("--checker", default="build/tests/check_checkpoints")
    parser.add_argument("--emu", default="", help="command that runs a program of the target")
    parser.add_argument("--device", default="auto", help="where the runs run; see retort doctor")
    parser.add_argument("--kills", type=int, help="uniform moments (50; quick: 3)")
    parser.add_argument("--writes", type=int, help="kills that must hit a checkpoint write (10; quick: 2)")
    parser.add_argument("--ends", type=int, help="kills after the last checkpoint (5; quick: none)")
    parser.add_argument("--kinds", default="distill", help=f"what is killed, with commas between: {', '.join([*KINDS, *OTHERS])}")
    parser.add_argument("--tally", metavar="FILE", help="add to what earlier calls counted; each draws other moments")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a shorter run and few kills")
    parser.add_argument("--keep", metavar="DIR", help="work here and leave everything behind")
    args = parser.parse_args()
    args.kills = args.kills if args.kills is not None else 3 if args.quick else 50
    args.writes = args.writes if args.writes is not None else 2 if args.quick else 10
    args.ends = args.ends if args.ends is not None else 0 if args.quick else 5
    try:
        if args.keep:
            os.makedirs(args.keep)
            return run_kinds(args, args.keep)
        with tempfile.TemporaryDirectory(prefix="retort-kill-") as folder:
            return run_kinds(args, folder)
    except Fault as fault:
        print(f"{fault}\n0 passed, 1 failed")
        return 1


if __name__ == "__main__":
    sys.exit(main())
