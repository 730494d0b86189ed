#!/usr/bin/env python3
"""out_states.py - random folders as --out, commands over them that fail, succeed or are killed: no file that is not the
run's own is ever touched.

Every state is a folder in one of several conditions (absent, empty, somebody's files, a start that was killed, a run that
is finished, killed half-way, or of a version without a lock and with its checkpoints in OUT), with files and links of somebody else's in random places
of it, many under names that resemble ours. Over it run one to three commands. After each:
  - every foreign file is there with the same bytes, every foreign link with the same target, every foreign folder;
  - a start that failed or was refused has left everything else as it was too, names and bytes;
  - a start in a free folder with nothing foreign in it works.
States follow from the seed, which is printed; what was killed when depends on the machine. Standard library only.
"""
import argparse
import json
import os
import random
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time

LIMIT = 120
OWN = re.compile(r"^run/(retort\.lock|retort\.owner|\..*\.retort-tmp-\d+-\d+)(/|$)")  # of a start that was killed
WORDS = "the cat sat on a mat and the dog ran far from our house near that river where birds sing all day".split()
SETTINGS = ["{}", "not json", '{"editor.tabSize": 4}', '{"steps": 3}', ""]

# Names that resemble ours and are not: in any folder, a run's too.
FOREIGN = ["notes", "run.log", "checkpoint-000001/notes", "checkpoint-000001/state.json", "checkpoint-000002/model.safetensors",
           "checkpoint-1/x", "checkpoint-foo/x", "best-000001/notes", "best-000002/x/config.json", "best-foo/x", "best-1/x",
           ".x.tmp-1-1", ".checkpoint-000002.tmp-99-0/state.json", ".root.tmp-1-2/config.json", "retort.lock", "merged/notes",
           "control/notes", "control/run/notes", "run/notes", "run/lock", "run/.settings.json.tmp-4-0", "run/data/notes",
           "run/data/train.json.old", "run/data/train-x.tokens", "run/data/.train-00.tokens.tmp-7-0", "run/dump-000001/notes",
           "run/settings.json.bak", "run/checkpoints/notes", "run/checkpoints/checkpoint-000001/notes",
           "run/checkpoints/checkpoint-000002/model.safetensors", "run/checkpoints/best-000001/notes", "run/checkpoints/best-foo/x",
           "run/control/notes", "run/disk.probe", "model.safetensors.bak", "a/b/c", "README.md", "README.md/notes", "config.json", "config.json/notes",
           "model.safetensors", "chat_template.jinja", "added_tokens.json", "model.safetensors.index.json", ".retort-tmp-1-1.txt", "data/train.json"]
# Names that a run writes itself: foreign where there is no run.
TAKEN = ["config.json", "README.md", "model.safetensors", "run/settings.json", "run/resolved.yaml", "run/metrics.jsonl",
         "run/retort.lock", "run/data/train.json", "run/data/train-00.tokens", "checkpoint-000002/state.json",
         "best-000002/config.json", "run/.settings.json.retort-tmp-1-1", "run"]
RUNS = ("finished", "half", "old")
LINKS = ["checkpoint-000001", "run/checkpoints/checkpoint-000001", "best-000001", "run/dump-000001", "link", "run/link", "merged"]


class Fault(Exception):
    """What a state found wrong."""


class Bench:
    def __init__(self, args):
        self.retort = shlex.split(os.environ.get("EMU", "")) + [os.path.abspath(args.retort)]
        self.work = os.path.abspath(args.work)
        rng = random.Random(5)
        os.makedirs(self.work, exist_ok=True)
        with open(self.path("d.jsonl"), "w", encoding="utf-8") as f:
            for _ in range(60):
                f.write(json.dumps({"text": " ".join(rng.choice(WORDS) for _ in range(rng.randint(5, 12)))}) + "\n")
        for preset, name, seed in [("tiny-llama", "t", 2), ("tiny-qwen2", "s", 1)]:
            self.must(["init", "--preset", preset, "--seed", str(seed), "--dtype", "f32", name])
        self.few = ["--student", "s", "--data", "d.jsonl", "--batch", "2", "--seq-len", "32", "--threads", "1", "--steps", "4",
                    "--eval-every", "1", "--save-every", "1", "--keep", "1", "--held-out", "8"]
        self.start = ["distill", "--teacher", "t", *self.few]
        begun = time.monotonic()
        self.must([*self.start, "--out", "finished"])
        self.seconds = time.monotonic() - begun  # of a whole run
        self.kill([*self.start, "--steps", "12", "--out", "half"], None, wait_for="half/run/checkpoints/checkpoint-000003", drop_steps=True)
        shutil.copytree(self.path("finished"), self.path("old"))
        if os.path.exists(self.path("old/run/retort.lock")):
            os.unlink(self.path("old/run/retort.lock"))
        for name in os.listdir(self.path("old/run/checkpoints")):
            os.rename(self.path("old/run/checkpoints", name), self.path("old", name))
        os.rmdir(self.path("old/run/checkpoints"))

    def path(self, *parts):
        return os.path.join(self.work, *parts)

    def run(self, words, cwd=None):
        done = subprocess.run([*self.retort, *words], cwd=cwd or self.work, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT)
        return done.returncode, done.stderr.decode(errors="replace").strip()

    def must(self, words):
        status, errors = self.run(words)
        if status != 0:
            raise Fault(f"{' '.join(words)}: status {status}: {errors}")

    def kill(self, words, seconds, wait_for=None, drop_steps=False):
        """SIGKILL after so long, or when a name is there; -9, or the status when it had ended."""
        if drop_steps:  # the later of two is meant
            at = words.index("--steps")
            words = words[:at] + words[at + 2:]
        process = subprocess.Popen([*self.retort, *words], cwd=self.work, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while wait_for and process.poll() is None and not os.path.exists(self.path(wait_for)):
            pass
        try:
            return process.wait(timeout=seconds or 0.001)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            return process.wait()


def look(path):
    """What a name is: the bytes of a file, the target of a link, or a folder; None when it is not there."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(mode):
        return "link", os.readlink(path)
    if stat.S_ISDIR(mode):
        return "folder", ""
    with open(path, "rb") as f:
        return "file", f.read()


def tree(root):
    """{name: what it is} of all below root, root itself as ''."""
    found = {"": look(root)}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = look(path)
    return found


class State:
    """One folder, somebody's files in it, and what is done to it."""

    def __init__(self, bench, number, seed):
        self.bench = bench
        self.rng = random.Random(f"{seed}.{number}")
        self.top = f"state-{number}"
        os.makedirs(bench.path(self.top))
        self.foreign = {}
        self.story, self.about = [], ""

    def put(self, name, data):
        """A file of somebody else's, and the folders above it that are not there. False: the place is taken."""
        path = os.path.join(self.root, name)
        above = os.path.dirname(path)
        made = []
        while not os.path.lexists(above):
            made.append(above)
            above = os.path.dirname(above)
        if os.path.lexists(path) or not os.path.isdir(above) or os.path.islink(above):
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)
        for one in [path, *made]:
            self.foreign[one] = look(one)

    def link(self, name):
        precious = self.bench.path(self.top, "precious")
        path = os.path.join(self.root, name)
        if os.path.lexists(path) or not os.path.isdir(os.path.dirname(path)):
            return
        os.makedirs(precious, exist_ok=True)
        with open(os.path.join(precious, "state.json"), "wb") as f:
            f.write(b"precious")
        os.symlink(precious, path)
        for one in [path, precious, os.path.join(precious, "state.json")]:
            self.foreign[one] = look(one)

    def moment(self):
        """Seconds until a kill: early ones more often, when folders are made."""
        return self.rng.random() ** 2 * self.bench.seconds

    def make(self):
        rng, bench = self.rng, self.bench
        self.base = rng.choice(["absent", "absent", "empty", "empty", "taken", "taken", "killed", "killed", "finished", "half", "half",
                                "half", "old"])
        self.out = os.path.join(self.top, rng.choice(["o", "o", "a/b/o", "o/"]))
        self.root = bench.path(self.out.rstrip("/"))
        if self.base in RUNS:
            shutil.copytree(bench.path(self.base), self.root, symlinks=True)
        elif self.base in ("empty", "taken"):
            os.makedirs(self.root)
        elif self.base == "killed":
            self.story.append(f"base-killed {bench.kill([*bench.start, '--out', self.out], self.moment())}")
        self.was_there = [p for p in (self.root, bench.path(self.top, "a/b"), bench.path(self.top, "a")) if os.path.isdir(p)]
        if self.base in ("empty", "taken") and rng.random() < 0.15:  # a link to the folder is given
            os.symlink(self.root, bench.path(self.top, "given"))
            self.out = os.path.join(self.top, "given")
            self.foreign[bench.path(self.top, "given")] = look(bench.path(self.top, "given"))
        count = rng.choice([1, 1, 2, 4, 7]) if self.base == "taken" else rng.choice([0, 0, 1, 2, 5])
        if self.base == "absent":
            count = 0
        names = FOREIGN + (TAKEN if self.base == "taken" else [])
        for _ in range(count):
            name = rng.choice(names)
            text = rng.choice(SETTINGS) if name.endswith("settings.json") else f"somebody's {rng.random()}"
            self.put(name, text.encode())
        if count and rng.random() < 0.2:
            self.link(rng.choice(LINKS))
        self.free = self.base in ("absent", "empty") and not count

    def check(self, before, status, kind):
        for path, what in self.foreign.items():
            if look(path) != what:
                raise Fault(f"{os.path.relpath(path, self.bench.work)} was {'changed' if look(path) else 'removed'}")
        for path in self.was_there:
            if not os.path.isdir(path):
                raise Fault(f"{os.path.relpath(path, self.bench.work)} was there before and is gone")
        if kind == "start" and status > 0:
            after = tree(self.root)
            for name in sorted(set(before) | set(after)):
                if before.get(name) != after.get(name) and not OWN.match(name) and (name or before[""]):
                    raise Fault(f"a start that failed has changed {name or 'the folder'}")

    def command(self):
        """(what it is, words)"""
        rng, bench = self.rng, self.bench
        out = ["--out", self.out]
        starts = ["teacher", "teacher", "data", "data", "good", "good", "killed", "killed", "control", "plan", "bad-value"]
        again = ["resume", "resume", "resume-killed", "resume-killed", "override", "force"]
        kind = rng.choice(starts + again * (4 if self.base in RUNS else 1))
        words = {
            "teacher": ["distill", "--teacher", "/nope", *bench.few, *out],
            "data": ["distill", "--teacher", "t", *bench.few, "--eval-data", "/nope.jsonl", *out],
            "bad-value": ["distill", "--teacher", "t", *bench.few, "--freeze", "nothing.of.the.kind", *out],
            "good": [*bench.start, *out],
            "killed": [*bench.start, *out],
            "control": [*bench.start, "--control", *out],
            "resume": ["distill", "--resume", *out],
            "resume-killed": ["distill", "--resume", *out],
            "override": ["distill", "--resume", "--override", "--student", "s", "--data", "d.jsonl", "--teacher", "t", *out],
            "force": ["init", "--preset", "tiny-qwen2", "--force", self.out],
            "plan": ["plan", "--teacher", "t", *bench.few, *out],
        }[kind]
        return kind, words

    def go(self):
        self.make()
        self.about = f"{self.base}, {len(self.foreign)} foreign"
        for _ in range(self.rng.randint(1, 3)):
            kind, words = self.command()
            if kind == "force" and (self.base != "taken" or not any(os.path.dirname(p) == self.root and os.path.basename(p)
                                                                    in ("notes", "run.log") for p in self.foreign)):
                continue  # --force may replace a folder that holds nothing but a model
            before = tree(self.root)
            if kind in ("killed", "resume-killed"):
                status = self.bench.kill(words, self.moment())
            else:
                status, errors = self.bench.run(words)
                if kind == "good" and self.free and status != 0:
                    raise Fault(f"a start in a free folder ended with {status}: {errors}")
            self.story.append(f"{kind} {status}")
            resumes = kind.startswith("resume") or kind == "override"
            self.check(before, status, "resume" if resumes or status < 0 else "start")
            if status <= 0 and kind not in ("plan", "force"):
                self.free = False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--retort", default=os.environ.get("RETORT", "build/retort"))
    parser.add_argument("--work", required=True, help="an empty folder")
    parser.add_argument("--states", type=int, default=int(os.environ.get("OUT_STATES", "60")))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one state, and what was done to it")
    args = parser.parse_args()
    print(f"{args.states} states, seed {args.seed}")
    bench = Bench(args)
    failed, commands, files, tally = 0, 0, 0, {}
    for number in [args.only] if args.only is not None else range(args.states):
        state = State(bench, number, args.seed)
        try:
            state.go()
        except (Fault, subprocess.TimeoutExpired) as fault:
            failed += 1
            print(f"state {number}: {fault}; {'; '.join([state.about, *state.story])}")
        else:
            shutil.rmtree(bench.path(state.top))
        if args.only is not None:
            print("; ".join([state.about, *state.story]))
        commands += len(state.story)
        files += len(state.foreign)
        for word in state.story:
            tally[word] = tally.get(word, 0) + 1
    print(f"{commands} commands over {files} foreign files: " + ", ".join(f"{n} {word}" for word, n in sorted(tally.items())))
    done = 1 if args.only is not None else args.states
    print(f"{done - failed} states kept every file, {failed} did not")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
