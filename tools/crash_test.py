#!/usr/bin/env python3
"""crash_test.py - the power fails at any moment of a run: every disk that could be left resumes to the same bits.

A run is recorded: everything that it does to files, in order (tests/kill/record_writes.c, preloaded). Played again to its
end, the record must give the very folder that the run left, so nothing was missed. Then, for every trial, a cut: of what
was done before it, the disk holds
  - of a file: what it had at its last fsync, and of what came after it any prefix, or zeros to its new length;
  - of names: those whose folder was synced afterwards, and any subset of the others. A rename happens whole or not at all,
    and is safe with a sync of the folder that it moved to. A folder goes only when it is empty.
That disk is made, and the run is resumed on it. It has to end with the same bits as the run that was left alone
(kill_test.py says which), and may not begin before the newest checkpoint whose names were synced. A run that refuses is
counted apart, with its words: it has not lost anything silently, but it is not good either. At the end of the record, when
the process has answered 0, everything has to be there with no name and no byte that was not synced.

Kinds: distill, train, lora, control; each from its beginning and, killed half-way, from its resume on. And what the same command
continues: a cache, from its beginning and when it is filled and files of blocks become one; answers, from their beginning and
half-way. These may also lose nothing that was announced before the record began. Trials are numbered, and each draws from its
own number and the seed. --tally FILE adds up over calls: the next one goes on where the last ended.
Ends with `N passed, N failed`, one case per trial. Standard library only.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from kill_test import CHECKPOINT, KINDS, LIMIT, Bench, Fault, compare, end_of


EDGE = 60  # records at either end of a run that are cut more often than others

# ---- the disk ----

class File:
    def __init__(self, data=b""):
        self.synced = bytes(data)
        self.since = []  # (offset, data) or (length, None), after the last fsync
        self.live = bytearray(data)

    def put(self, offset, data):
        if len(self.live) < offset:
            self.live.extend(bytes(offset - len(self.live)))
        self.live[offset:offset + len(data)] = data
        self.since.append((offset, data))

    def resize(self, length):
        del self.live[length:]
        self.live.extend(bytes(length - len(self.live)))
        self.since.append((length, None))

    def sync(self):
        self.synced = bytes(self.live)
        self.since = []

    def left(self, rng):
        """What a crash may leave; without rng what is certain."""
        kind = rng.choice(["none", "all", "prefix", "prefix", "zeros"]) if rng and self.since else "none"
        if kind == "none":
            return self.synced
        if kind == "all":
            return bytes(self.live)
        if kind == "zeros":
            return self.synced[:len(self.live)] + bytes(max(0, len(self.live) - len(self.synced)))
        copy, count = File(self.synced), rng.randrange(len(self.since) + 1)
        for offset, data in self.since[:count]:
            if data is None:
                copy.resize(offset)
            else:
                copy.put(offset, data)
        if count < len(self.since) and self.since[count][1]:
            offset, data = self.since[count]
            copy.put(offset, data[:rng.randrange(len(data) + 1)])
        return bytes(copy.live)


class Folder:
    def __init__(self):
        self.live = {}


class Link:
    def __init__(self, to):
        self.to = to


class Disk:
    """A tree of inodes, the edits of names in order, and which of them are certain."""

    def __init__(self, path):
        self.root = Folder()
        self.edits = []  # [certain, folder that a sync makes it certain, [(folder, name, inode or None)], rmdir of]
        self.fds = {}
        if path:
            self.load(self.root, path)
            for edit in self.edits:
                edit[0] = True

    def load(self, folder, path):
        for name in sorted(os.listdir(path)):
            full = os.path.join(path, name)
            if os.path.islink(full):
                node = Link(os.readlink(full))
            elif os.path.isdir(full):
                node = Folder()
                self.load(node, full)
            else:
                with open(full, "rb") as f:
                    node = File(f.read())
            self.edit(folder, [(folder, name, node)])

    def edit(self, certain_by, changes, emptied=None):
        self.edits.append([False, certain_by, changes, emptied])
        for folder, name, node in changes:
            if node is None:
                del folder.live[name]
            else:
                folder.live[name] = node

    def find(self, path):
        """(folder, name, inode or None) of a path below the root, given in parts."""
        folder = self.root
        for part in path[:-1]:
            folder = folder.live[part]
        return folder, path[-1], folder.live.get(path[-1])

    def sync(self, node):
        if isinstance(node, File):
            node.sync()
        for edit in self.edits:
            if edit[1] is node:
                edit[0] = True

    def play(self, op, fd, number, path, other, data):
        """One record; paths in parts."""
        if op in ("create", "create-truncate", "open", "truncate"):
            node = self.root
            if path:
                folder, name, node = self.find(path)
                if node is None:
                    node = File()
                    self.edit(folder, [(folder, name, node)])
            if isinstance(node, Link):
                raise Fault(f"{'/'.join(path)}: a link is written through")
            if op.endswith("truncate"):
                node.resize(0)
            self.fds[fd] = [node, 0, number == 1]
        elif op == "close":
            self.fds.pop(fd, None)
        elif op in ("write", "pwrite"):
            entry = self.fds[fd]
            at = number if op == "pwrite" else len(entry[0].live) if entry[2] else entry[1]
            entry[0].put(at, data)
            if op == "write":
                entry[1] = at + len(data)
        elif op == "seek":
            self.fds[fd][1] = number
        elif op == "ftruncate":
            self.fds[fd][0].resize(number)
        elif op == "fallocate":
            if number > len(self.fds[fd][0].live):
                self.fds[fd][0].resize(number)
        elif op == "fsync":
            self.sync(self.fds[fd][0])
        elif op == "mkdir":
            folder, name, _ = self.find(path)
            self.edit(folder, [(folder, name, Folder())])
        elif op == "symlink":
            folder, name, _ = self.find(path)
            self.edit(folder, [(folder, name, Link(other))])
        elif op in ("unlink", "rmdir"):
            folder, name, node = self.find(path)
            self.edit(folder, [(folder, name, None)], node if op == "rmdir" else None)
        elif op in ("rename", "exchange"):
            (from_folder, from_name, node), (to_folder, to_name, there) = self.find(path), self.find(other)
            self.edit(to_folder, [(from_folder, from_name, there if op == "exchange" else None),
                                  (to_folder, to_name, node)])
        else:
            raise Fault(f"the record holds '{op}'")

    def tree(self, keep):
        """{folder: {name: inode}} after those edits for which keep(edit) holds."""
        names = collections.defaultdict(dict)
        for edit in self.edits:
            if not (edit[0] or keep(edit)) or (edit[3] and names[edit[3]]):
                continue
            for folder, name, node in edit[2]:
                if node is None:
                    names[folder].pop(name, None)
                else:
                    names[folder][name] = node
        return names


def write_tree(names, folder, path, rng):
    os.makedirs(path)
    for name, node in names[folder].items():
        full = os.path.join(path, name)
        if isinstance(node, Folder):
            write_tree(names, node, full, rng)
        elif isinstance(node, Link):
            os.symlink(node.to, full)
        else:
            with open(full, "wb") as f:
                f.write(node.left(rng))


def live_tree(disk):
    names = collections.defaultdict(dict)

    def walk(folder):
        names[folder] = folder.live
        for node in folder.live.values():
            if isinstance(node, Folder):
                walk(node)
    walk(disk.root)
    return names


# ---- the record ----

HEAD = re.compile(rb"([a-z-]+) (-?\d+) (-?\d+) (\d+) (\d+) (\d+)\n")


def read_record(path, root):
    """[(op, fd, number, path in parts, other, data)]"""
    result = []
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        head = HEAD.match(data, at)
        if not head:
            raise Fault(f"the record is damaged at byte {at}")
        op, fd, number = head[1].decode(), int(head[2]), int(head[3])
        size, first, second = int(head[4]), int(head[5]), int(head[6])
        at = head.end()
        full, other = data[at:at + first].decode(), data[at + first:at + first + second].decode()
        at += first + second
        payload = data[at:at + size] if op in ("write", "pwrite") else b""
        at += len(payload)
        parts = [p for p in os.path.relpath(full, root).split("/") if p != "."] if full else []
        if op in ("rename", "exchange"):
            other = os.path.relpath(other, root).split("/")
        result.append((op, fd, number, parts, other, payload))
    return result


def without_syncs(ops, pattern):
    """The record of a program that forgot some of its syncs: of paths in which the pattern is found."""
    paths, result = {}, []
    for op in ops:
        if op[0] in ("create", "create-truncate", "open", "truncate"):
            paths[op[1]] = "/".join(op[3]) or "."
        if op[0] != "fsync" or not re.search(pattern, paths[op[1]]):
            result.append(op)
    return result


def same_tree(a, folder, path):
    """Raises when the folder on disk is not what the record gives."""
    for name in sorted(set(a[folder]) | set(os.listdir(path))):
        node, full = a[folder].get(name), os.path.join(path, name)
        if node is None or not os.path.lexists(full):
            raise Fault(f"{full} is not in the record, or only there: a call was missed")
        if isinstance(node, Folder):
            same_tree(a, node, full)
        elif isinstance(node, File):
            with open(full, "rb") as f:
                if f.read() != bytes(node.live):
                    raise Fault(f"{full} is not what the record gives: a call was missed")


class Recording:
    """A run that was recorded, from its beginning or from its resume on."""

    def __init__(self, bench, recorder, resumed, forget):
        self.bench, self.resumed = bench, resumed
        name = f"{bench.kind}-{'resumed' if resumed else 'begun'}"
        self.base = bench.path(name + "-base") if resumed else None
        self.root = bench.path(name)
        os.makedirs(self.root)
        log = bench.path(name + ".record")
        if resumed:
            bench.half_way(self.root)
            shutil.copytree(self.root, self.base, symlinks=True)
        env = dict(os.environ, LD_PRELOAD=os.path.abspath(recorder), RECORD_LOG=log, RECORD_ROOT=self.root)
        command = bench.command(os.path.join(name, "o"), resumed)
        done = subprocess.run([*bench.retort, *command], cwd=bench.folder, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT)
        if done.returncode != 0:
            raise Fault(f"the run that is recorded ended with {done.returncode}: {done.stderr.decode().strip()}")
        self.ops = read_record(log, os.path.realpath(self.root))
        os.remove(log)
        disk = self.disk_at(len(self.ops))
        same_tree(live_tree(disk), disk.root, self.root)
        if forget:
            self.ops = without_syncs(self.ops, forget)
        self.events = [i for i, op in enumerate(self.ops) if op[0] not in ("write", "pwrite", "close", "open")]

    def cut(self, rng):
        """Half of all where something happens to names, a quarter while the folder is made or the run ends."""
        share, count = rng.random(), len(self.ops)
        if share < 0.5:
            return rng.choice(self.events) + rng.randrange(2)
        edge = rng.randrange(min(EDGE, count) + 1)
        return rng.randrange(count + 1) if share < 0.75 else edge if share < 0.875 else count - edge

    def disk_at(self, cut):
        disk = Disk(self.base)
        for op in self.ops[:cut]:
            disk.play(*op)
        return disk


def checkpoints_on_disk(out):
    """Of the run itself, wherever it keeps them; those of its control lie below a folder of that name."""
    return [int(CHECKPOINT.match(os.path.basename(folder))[1]) for folder, _, files in os.walk(out)
            if CHECKPOINT.match(os.path.basename(folder)) and "state.json" in files
            and "control" not in os.path.relpath(folder, out).split("/")]


def certain_checkpoint(disk):
    """The newest step whose checkpoint no crash can take away; 0: none."""
    names = disk.tree(lambda edit: False)
    newest = 0

    def walk(folder):
        nonlocal newest
        for name, node in names[folder].items():
            if not isinstance(node, Folder) or name == "control":
                continue
            step = CHECKPOINT.match(name)
            if step and "state.json" in names[node]:
                newest = max(newest, int(step[1]))
            walk(node)
    walk(disk.root)
    return newest


# ---- what is recorded ----

class Run(Bench):
    """A run, which --resume continues."""

    def reference(self):
        self.to_the_end("reference", False)
        return end_of(self, "reference")

    def command(self, out, resumed):
        return [*([self.verb, "--resume"] if resumed else self.begin), "--out", out]

    def half_way(self, root):
        process = self.start(os.path.join(os.path.basename(root), "o"), False)
        end = time.monotonic() + LIMIT
        while process.poll() is None and time.monotonic() < end:
            if len(checkpoints_on_disk(os.path.join(root, "o"))) >= 2:
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            raise Fault(f"{self.kind}: the run ended before it was killed half-way")

    def resume(self, out):
        """(status, step that it began from, what it said)"""
        command = self.command(out, os.path.exists(self.path(out, "run", "settings.json")))
        done = self.say(*command, "--json")
        begun = 0
        for line in done.stdout.decode().splitlines():
            event = json.loads(line)
            if event.get("event") == "plan":
                begun = event["from_step"]
                break
        return done.returncode, begun, done.stderr.decode().strip()

    def say(self, *command):
        try:
            return subprocess.run([*self.retort, *command], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            raise Fault(f"did not end within {LIMIT} s") from None

    def finish(self, out, recording, disk, want):
        """(result, words)"""
        before, safe = checkpoints_on_disk(self.path(out)), certain_checkpoint(disk)
        status, begun, said = self.resume(out)
        if status != 0:
            return "refused", said.splitlines()[-1] if said else f"status {status}, and not a word"
        if begun < safe and not (begun == 0 and safe == want["state"]["step"]):
            return "FAIL", f"begun from step {begun}; checkpoint {safe} was safe, on disk were {before}"
        try:
            compare(self, out, want)
        except Fault as fault:
            return "FAIL", str(fault)
        return "same", ""

    def check_certain(self, out, want):
        got = end_of(self, out)
        for key in sorted(key for key in want if not key.endswith("folders")):
            if got.get(key) != want[key]:
                raise Fault(f"{self.kind}: after the run has ended, {key} can still be lost")


class Kept(Run):
    """A cache or answers, which the same command continues."""
    PARTS = 9  # a cache is filled half-way by seven of them, and recorded with the eighth, which joins files

    def __init__(self, args, folder, kind):
        super().__init__(args, folder)
        self.kind = kind
        if kind == "cache":
            self.begin = ["cache", "--teacher", "teacher", "--data", "data.jsonl", "--seq-len", "64", "--keep", "topk:16",
                          "--temperature", "2", "--teacher-batch", "4", "--threads", "1"]
        else:
            self.begin = ["generate", "student", "--data", "data.jsonl", "--max-new", "8", "--samples", "2", "--temperature", "1",
                          "--threads", "1", "--quiet"]

    def content(self, out):
        if self.kind == "cache":
            return json.loads(self.must([*self.retort, "cache", out, "--json"]))
        with open(self.path(out), "rb") as f:
            return f.read()

    def reference(self):
        self.must([*self.retort, *self.begin, "--out", "reference"])
        return self.content("reference")

    def command(self, out, resumed):
        more = ["--part", f"{self.PARTS - 1}/{self.PARTS}"] if resumed and self.kind == "cache" else []
        return [*self.begin, *more, "--out", out]

    def half_way(self, root):
        out = os.path.join(os.path.basename(root), "o")
        if self.kind == "cache":
            for part in range(1, self.PARTS - 1):
                self.must([*self.retort, *self.begin, "--part", f"{part}/{self.PARTS}", "--out", out])
        else:
            whole = self.content("reference")
            with open(self.path(out), "wb") as f:
                f.write(whole[:len(whole) // 2])

    def announced(self, out):
        """What was there when the record began: positions, or bytes."""
        now = self.content(out)
        return now["positions"] + now["held_out"] if self.kind == "cache" else now[:now.rfind(b"\n") + 1]

    def finish(self, out, recording, disk, want):
        there = os.path.exists(self.path(out, "cache.json")) if self.kind == "cache" else recording.resumed
        if recording.resumed:
            before, now = self.announced(os.path.join(recording.base, "o")), self.announced(out)
            if now < before if self.kind == "cache" else not now.startswith(before):
                return "FAIL", "what was there before is lost"
        done = self.say(*self.begin, *(["--fill"] if there and self.kind == "cache" else []), "--out", out)
        if done.returncode != 0:
            said = done.stderr.decode().strip()
            return "refused", said.splitlines()[-1] if said else f"status {done.returncode}, and not a word"
        return self.compare(out, want)

    def compare(self, out, want):
        got = self.content(out)
        same = got["content_hash"] == want["content_hash"] if self.kind == "cache" else got == want
        left = [n for _, folders, files in os.walk(self.path(out)) for n in folders + files if ".retort-tmp-" in n]
        return ("FAIL", "another result") if not same else ("FAIL", f"left over: {left}") if left else ("same", "")

    def check_certain(self, out, want):
        got = self.content(out)
        if (got["content_hash"] != want["content_hash"]) if self.kind == "cache" else got != want:
            raise Fault(f"{self.kind}: after the command has ended, what it has made can still be lost")


KEPT = ["cache", "answers"]

# ---- trials ----

def trial(recording, number, seed, want):
    """(result, cut, words)"""
    bench, rng = recording.bench, random.Random(f"{seed}/{number}")
    cut = recording.cut(rng)
    disk = recording.disk_at(cut)
    likely = rng.choice([0.0, 0.2, 0.5, 0.8, 1.0])
    names = disk.tree(lambda edit: rng.random() < likely)
    place = f"trial-{number}"
    shutil.rmtree(bench.path(place), ignore_errors=True)
    write_tree(names, disk.root, bench.path(place), rng)
    try:
        result, words = bench.finish(os.path.join(place, "o"), recording, disk, want)
    except Fault as fault:
        result, words = "FAIL", str(fault)
    if result == "same":
        shutil.rmtree(bench.path(place))
    return result, cut, words


def check_end(recording, want):
    """What has been answered for is certain; that older folders are gone is not, and the next resume sees to it."""
    disk = recording.disk_at(len(recording.ops))
    place = recording.bench.path("certain")
    write_tree(disk.tree(lambda edit: False), disk.root, place, None)
    recording.bench.check_certain(os.path.join("certain", "o"), want)
    shutil.rmtree(place)


def read_tally(path):
    if path and os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    return {"trials": 0, "results": {}}


def run(args, folder):
    tally = read_tally(args.tally)
    results = collections.Counter(tally["results"])
    recordings = []
    for kind in args.kinds.split(","):
        bench = (Kept if kind in KEPT else Run)(args, os.path.join(folder, kind), kind)
        want = bench.reference()
        for resumed in (False, True):
            r = Recording(bench, args.recorder, resumed, args.forget)
            print(f"{kind:<8} {'resumed' if resumed else 'begun':<8} {len(r.ops)} records, "
                  f"{sum(len(op[5]) for op in r.ops) / 1e6:.1f} MB, "
                  f"{sum(op[0] == 'fsync' for op in r.ops)} syncs; played again it is the folder that was left", flush=True)
            if not args.forget and not (resumed and kind == "cache"):  # that one was a part of the work
                check_end(r, want)
            recordings.append((r, want))
    here = collections.Counter()
    for number in range(tally["trials"] + 1, tally["trials"] + args.trials + 1):
        recording, want = recordings[number % len(recordings)]
        result, cut, words = trial(recording, number, args.seed, want)
        here[result] += 1
        results[result] += 1
        if result != "same":
            print(f"{number:5d} {recording.bench.kind:<8} {'resumed' if recording.resumed else 'begun':<8} cut {cut} of "
                  f"{len(recording.ops)}: {result}: {words}", flush=True)
        if args.tally:
            with open(args.tally + ".new", "w", encoding="utf-8") as f:
                json.dump({"trials": number, "results": results}, f)
            os.replace(args.tally + ".new", args.tally)
    total = sum(results.values())
    print(f"{total} disks: {results['same']} resumed to the same bits, {results['refused']} refused, {results['FAIL']} failed "
          f"(seed {args.seed})")
    bad = here["refused"] + here["FAIL"]
    if args.forget:
        print(f"without the syncs of {args.forget}: {bad} of {args.trials} disks were not resumed to the same bits")
        print("1 passed, 0 failed" if bad else "0 passed, 1 failed")
        return 0 if bad else 1
    print(f"{here['same']} passed, {bad} failed")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--retort", default="build/retort")
    parser.add_argument("--recorder", default="build/tests/record_writes.so")
    parser.add_argument("--checker", default="build/tests/check_checkpoints")
    parser.add_argument("--kinds", default=",".join([*KINDS, *KEPT]), help="with commas between")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", default="1", help="'new': another one with each call, printed")
    parser.add_argument("--tally", metavar="FILE", help="add to what earlier calls counted, and go on behind them")
    parser.add_argument("--forget", metavar="PATTERN",
                        help="leave out the syncs of paths in which this is found: the trials must notice")
    parser.add_argument("--keep", metavar="DIR", help="work here and leave everything behind")
    args = parser.parse_args()
    args.quick, args.emu, args.device = True, "", "cpu"
    if args.seed == "new":
        args.seed = str(random.SystemRandom().randrange(10**9))
        print(f"seed {args.seed}", flush=True)
    try:
        if args.keep:
            os.makedirs(args.keep)
            return run(args, os.path.abspath(args.keep))
        with tempfile.TemporaryDirectory(prefix="retort-crash-") as folder:
            return run(args, folder)
    except Fault as fault:
        print(f"{fault}\n0 passed, 1 failed")
        return 1


if __name__ == "__main__":
    sys.exit(main())
