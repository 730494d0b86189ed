#!/usr/bin/env python3
"""alter_test.py - changes one random byte of a run's files, again and again: nothing may go unnoticed.

A tiny student is distilled: by default with a control; --kind takes others, of several teachers that have prompts of their own
(several) and of a teacher that is a cache (cached). Every trial changes one byte somewhere below OUT to another value; half of the
trials choose among files, half among bytes. Then it is put back.
  verify  the run has ended: `retort verify OUT` must fail and name the file. The files that it does not cover
          (docs/evidence.md) are never chosen.
  resume  the run was killed, in its first part or in its control: `retort distill --resume` must end with the bits of a
          run left alone (what was damaged is written anew, or not read), or refuse and name the file or its folder. An
          older checkpoint whose record is damaged is told of and stays; a model card, which people edit, stays.
Trial N of a seed is the same wherever it is run. With --tally FILE what was found is added to FILE, and the next command
of the same seed begins after the last trial in it, so that many short commands make one long campaign. Without --seed
a new one is taken and printed. Ends with `N passed, N failed`. Standard library only.
"""
import argparse
import collections
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kill_test  # noqa: E402

NOT_COVERED = {"report.html", "compare.html", "log.txt", "dispatch.json", "retort.lock"}  # of a folder "run"; and .gitignore of OUT
LEFT = re.compile("(folders|checkpoints)$")  # names of what is left of a run
KINDS = ["control", "several", "cached"]
LINES = 14  # of the log of the run, or of its control, when a run to be resumed is killed


def files_below(folder, skip):
    """[(path below folder, bytes)], sorted; links are not followed."""
    found = []
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            known = (os.path.basename(at) == "run" and name in skip) or (name == ".gitignore" and skip)
            if not known and os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path):
                found.append((os.path.relpath(path, folder), os.path.getsize(path)))
    return sorted(found)


def choose(files, rng):
    """(path, place, what its byte is changed by)"""
    if rng.random() < 0.5:
        name, size = rng.choice(files)
    else:
        name, size = rng.choices(files, weights=[s for _, s in files])[0]
    return name, rng.randrange(size), rng.randint(1, 255)


def change(path, place, by):
    with open(path, "r+b") as f:
        f.seek(place)
        was = f.read(1)[0]
        f.seek(place)
        f.write(bytes([was ^ by]))


def names_it(text, name):
    """The file, or the folder of a checkpoint, a best model or a control that it is in."""
    parts = name.split("/")
    return parts[-1] in text or any(part in text for part in parts[:-1] if part not in ("run", "data", "checkpoints"))


class Campaign:
    def __init__(self, args, folder):
        self.args = args
        self.bench = kill_test.Bench(argparse.Namespace(retort=args.retort, checker="", emu=args.emu, device="auto",
                                                        quick=True), folder)
        self.prepare(args.kind)
        self.bench.to_the_end("whole", False)

    def prepare(self, kind):
        bench, at = self.bench, self.bench.begin.index("--teacher")
        if kind == "control":
            bench.begin += ["--control"]
        elif kind == "several":
            bench.must([*bench.retort, "init", "--preset", "tiny-qwen3", "--seed", "3", "other"])
            with open(bench.path("p.txt"), "w", encoding="utf-8") as f:
                f.write("the cat says: ")
            bench.begin[at:at + 2] = ["--teacher", "teacher,prompt=p.txt", "--teacher", "other,weight=0.5,prompt=p.txt"]
        else:
            bench.must([*bench.retort, "cache", "--teacher", "teacher", "--data", "data.jsonl", "--seq-len", "64", "--held-out",
                        "24", "--keep", "topk:16", "--threads", "1", "--out", "kept"])
            bench.begin[at:at + 2] = ["--teacher", "kept"]

    def retort(self, *words):
        done = subprocess.run([*self.bench.retort, *words], cwd=self.bench.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=kill_test.LIMIT)
        return done.returncode, done.stdout.decode(errors="replace")


class Verify(Campaign):
    def __init__(self, args, folder):
        super().__init__(args, folder)
        self.files = files_below(self.bench.path("whole"), NOT_COVERED)
        status, text = self.retort("verify", "whole")
        if status != 0:
            raise kill_test.Fault(f"the run itself does not verify:\n{text}")

    def trial(self, rng):
        name, place, by = choose(self.files, rng)
        path = self.bench.path("whole", name)
        change(path, place, by)
        status, text = self.retort("verify", "whole")
        change(path, place, by)
        found = "found" if status == 5 and names_it(text, name) else f"FAIL: status {status}"
        return f"{name}, byte {place} ^ {by}", found


class Resume(Campaign):
    def __init__(self, args, folder):
        super().__init__(args, folder)
        self.want = kill_test.end_of(self.bench, "whole")
        self.stopped = ["stopped in its run", "stopped in its control"]  # where it has one
        logs = glob.glob("**/metrics.jsonl", root_dir=self.bench.path("whole"), recursive=True)
        logs.sort(key=lambda path: "control" in path)
        self.stopped = self.stopped[:len(logs)]
        for out, log in zip(self.stopped, logs):
            self.kill_at(out, log)

    def kill_at(self, out, log):
        process = self.bench.start(out, False)
        while process.poll() is None:
            try:
                with open(self.bench.path(out, log), "rb") as f:
                    if f.read().count(b"\n") >= LINES:
                        process.kill()
            except OSError:
                pass
            time.sleep(0.0005)
        process.communicate()
        if process.returncode != -9:
            raise kill_test.Fault("the run ended before it could be killed")

    def trial(self, rng):
        stopped = rng.choice(self.stopped)
        name, place, by = choose(files_below(self.bench.path(stopped), {"retort.lock"}), rng)
        out = self.bench.path("again")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(self.bench.path(stopped), out, symlinks=True)
        change(os.path.join(out, name), place, by)
        status, text = self.retort("distill", "--resume", "--out", "again")
        if status != 0:
            found = "refused" if names_it(text.strip().splitlines()[-1], name) else f"FAIL: refused with {text!r}"
        else:
            got = kill_test.end_of(self.bench, "again")
            differ = [k for k in sorted(set(self.want) | set(got)) if self.want.get(k) != got.get(k)]
            # A checkpoint that nobody can tell to be ours is not removed; a note says so.
            left = all(LEFT.search(k) for k in differ) and f"{'/'.join(name.split('/')[-2:])} is damaged" in text
            # A model card is people's to edit, and stays as it is.
            card = os.path.basename(name) == "README.md" and [k for k in differ if not k.endswith("README.md")] == []
            found = "the same bits" if not differ else "the same bits, and told" if left else \
                "the same bits, the card as it was" if card else f"FAIL: silent, {differ[0]} differs"
        return f"{stopped}, {name}, byte {place} ^ {by}", found


def read_tallies(path):
    """Of both modes, by their names."""
    if not path or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def write_tallies(path, tallies):
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(tallies, f, indent=2)
    os.replace(path + ".new", path)


def run(args, folder):
    tallies = read_tallies(args.tally)
    new = int.from_bytes(os.urandom(4), "little") if args.seed is None else args.seed
    name = args.mode if args.kind == "control" else f"{args.mode} {args.kind}"
    tally = tallies.setdefault(name, {"seed": new, "trials": 0, "found": {}, "failed": []})
    if args.seed not in (None, tally["seed"]):
        raise kill_test.Fault(f"{args.tally} is of seed {tally['seed']}")
    print(f"{args.mode}: seed {tally['seed']}, trials {tally['trials'] + 1} to {args.trials}", flush=True)
    campaign = (Verify if args.mode == "verify" else Resume)(args, folder)
    begun, found = time.monotonic(), collections.Counter(tally["found"])
    while tally["trials"] < args.trials and (not args.seconds or time.monotonic() - begun < args.seconds):
        tally["trials"] += 1
        what, result = campaign.trial(random.Random(f"{tally['seed']} {tally['trials']}"))
        if result.startswith("FAIL"):
            print(f"{tally['trials']:5d}  {what}: {result}", flush=True)
            tally["failed"].append(f"{what}: {result}")
            result = "failed"
        found[result] += 1
        tally["found"] = dict(found)
        if args.tally:
            write_tallies(args.tally, tallies)
    print(", ".join(f"{n} {what}" for what, n in sorted(found.items())))
    print(f"{tally['trials'] - len(tally['failed'])} passed, {len(tally['failed'])} failed")
    return 1 if tally["failed"] or not tally["trials"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=["verify", "resume"])
    parser.add_argument("--retort", default="build/retort")
    parser.add_argument("--emu", default="", help="command that runs a program of the target")
    parser.add_argument("--kind", choices=KINDS, default="control", help="what the run is (control)")
    parser.add_argument("--trials", type=int, default=100, help="with those of the tally (100)")
    parser.add_argument("--seconds", type=float, default=0, help="begin no trial after so long")
    parser.add_argument("--seed", type=int, help="that of the tally, else a new one")
    parser.add_argument("--tally", metavar="FILE", help="add what is found to FILE, and continue after what is there")
    args = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="retort-alter-") as folder:
            return run(args, folder)
    except kill_test.Fault as fault:
        print(f"{fault}\n0 passed, 1 failed")
        return 1


if __name__ == "__main__":
    sys.exit(main())
