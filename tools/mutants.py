#!/usr/bin/env python3
"""mutants.py - changes the code in small mechanical ways and counts how many changes turn a test red.

One mutant is one change of one place in a function of the rooms named by --rooms: an operator, a sign, a bound, a constant,
a statement dropped. The choice depends on --seed and the text of the files alone; every file gets its share.
Each mutant is built in a private copy of the tree, where only the changed file is compiled again, and the quick tests
of those rooms (SUITES) run until one is red. Red, a crash or a timeout is `killed`; all green is `survived`. A mutant that does not compile, or
compiles to the same code, is not counted and another is drawn.
Writes the list to BUILD/mutants-ROOMS.txt. Status 0 when at least --threshold percent are killed. Standard library only.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

# Rooms that are tried together, and what is asked about them: unit tests by the start of their names, scripts of tests/cli,
# and whether `verify --quick` belongs to it. Scripts that are not there are left out.
Suite = collections.namedtuple("Suite", "rooms unit scripts verify")
SUITES = [
    Suite(("backend/ref", "op", "exec"), ("",), (), True),
    Suite(("model", "infer", "teacher", "teacher/cache", "teacher/remote", "train", "job/prepare", "job/run", "evidence", "report"),
          ("adapter", "answers", "api", "append", "audit", "cache", "checkpoint", "cuda_fit", "cuda_train", "decoder", "draw", "dropout", "dump", "engine", "evaluate", "evidence", "fit",
           "fp8_teacher", "generator", "inputs", "load", "mix", "model_card", "output", "pair", "preview", "recompute", "remote", "report", "resolve", "run",
           "samples", "schedule", "settings", "several", "source", "step", "streamed", "teacher_weights", "tfevents"),
          ("adapter", "answers", "cache", "config", "control", "data", "distill", "dump", "eval", "evidence", "flags", "fp8", "generate", "kill", "plan", "preview",
           "rate", "remote", "report", "run_more", "samples", "seal", "several", "streamed"), False),
]
MEMORY_LIMIT = 16 << 30  # bytes of address space for a test; a mutated size must not eat the machine

# ---- finding places -------------------------------------------------------------------------------------------------

Mutant = collections.namedtuple("Mutant", "path line kind start end old new")  # start, end: offsets in the file

SWAPS = {"+": "-", "-": "+", "*": "/", "/": "*", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
         "&&": "||", "||": "&&", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="}
KIND_OF = {"<": "bound", "<=": "bound", ">": "bound", ">=": "bound", "==": "equality", "!=": "equality",
           "&&": "logic", "||": "logic"}
# The layout rule puts spaces around binary operators and none after unary ones or pointers' stars.
BINARY = re.compile(r"(?<= )(\+=|-=|\*=|/=|<=|>=|==|!=|&&|\|\||[-+*/<>])(?= )")
NEGATION = re.compile(r"(?<=[=(,?:] )-(?=[\w(])|(?<=[(\[])-(?=[\w(])|(?<=\breturn )-(?=[\w(])|(?<= [-+*/] )-(?=[\w(])")
NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?[uUlLfF]*)(?![\w.])")
STATEMENT = re.compile(r"(?:[A-Za-z_][\w.\[\]>()*+, -]*?(?:\+=|-=|\*=|/=|\|=|&=|<<=|>>=|=)[^=].*|[A-Za-z_]\w*\(.*\)|"
                       r"\+\+[\w.\[\]>-]+|[\w.\[\]>-]+(?:\+\+|--)|continue|break|\*[^;=]+=[^=].*);", re.S)
KEYWORDS = ("return", "goto", "if", "else", "for", "while", "do", "switch", "case", "default", "typedef", "static",
            "const", "struct", "enum", "union", "sizeof", "_Static_assert")
# Error texts and assertions: changing them is not a change of what is computed.
MESSAGES = re.compile(r"\b(\w*fail|rt_err_context|RT_ASSERT|assert|snprintf)\s*\(")


def blank(text):
    """Comments, strings, character constants and preprocessor lines become spaces; offsets stay."""
    def spaces(match):
        return re.sub(r"[^\n]", " ", match[0])
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', spaces, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", spaces, text, flags=re.M)


def function_bodies(code):
    """(start, end) of function bodies: from a brace in the first column to one, or on one line after a parenthesis."""
    for match in re.finditer(r"^\{\n.*?^\}", code, re.M | re.S):
        yield match.start(), match.end()
    for match in re.finditer(r"^\w[^\n;={]*\)[ ]*(\{[^\n]*\})[ ]*$", code, re.M):
        yield match.start(1), match.end(1)


def inside_call(code, start, pattern):
    """Whether the offset lies inside the parentheses of a call that matches the pattern, in the same statement."""
    begin = max(code.rfind(c, 0, start) for c in ";{}") + 1
    for match in pattern.finditer(code, begin, start):
        if code.count("(", match.end() - 1, start) > code.count(")", match.end() - 1, start):
            return True
    return False


def is_declaration(code, start):
    """Whether the offset is in a declaration without a value or in an enum: a change there is some array's size."""
    begin = max(code.rfind(c, 0, start) for c in ";{}") + 1
    end = code.find(";", start)
    statement = code[begin:end].strip()
    if re.search(r"\benum \{[^{}]*$", code[max(0, start - 200):start]):
        return True
    return re.fullmatch(r"(?:const |static |unsigned |struct )*\w+[ *]+\w+(?:\[[^\]]*\])+(?:,.*)?", statement, re.S) is not None


def is_array_size(code, start):
    """Whether the offset is in the brackets of an array's declaration with a value."""
    begin = max(code.rfind(c, 0, start) for c in ";{}") + 1
    return re.fullmatch(r"\s*(?:const |static |unsigned |struct )*\w+[ *]+\w+\[[^\]]*", code[begin:start]) is not None


def closes_header(code, offset):
    """Whether the parenthesis at the offset closes the head of an if, for, while or switch."""
    depth = 0
    for i in range(offset, -1, -1):
        depth += (code[i] == ")") - (code[i] == "(")
        if depth == 0:
            return re.search(r"\b(if|for|while|switch)\s*$", code[max(0, i - 10):i]) is not None
    return False


def changed_number(text, rng):
    """Another number of the same type, or None."""
    body = re.match(r"0[xX][0-9a-fA-F]+|[\d.]+(?:[eE][-+]?\d+)?", text)[0]
    suffix = text[len(body):]
    if body[:2].lower() == "0x":
        return hex(int(body, 16) + rng.choice([-1, 1]) if int(body, 16) else 1) + suffix
    if "." in body or "e" in body.lower() or suffix.lower() == "f":
        value = float(body)
        new = repr(value * rng.choice([0.5, 1.25, 2.0]) if value else 1.0)
        return new + suffix
    value = int(body)
    return str(value + rng.choice([-1, 1]) if value else 1) + suffix


def find_mutants(path, seed):
    """Every place of the file, shuffled so that kinds take turns: the first n are a fair sample of the file."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    code = blank(text)
    rng = random.Random(f"{seed}:{path}")
    found = collections.defaultdict(list)

    def add(kind, start, end, new):
        line = text.count("\n", 0, start) + 1
        found[kind].append(Mutant(path, line, kind, start, end, text[start:end], new))

    for low, high in function_bodies(code):
        for match in BINARY.finditer(code, low, high):
            operator = match[1]
            if not inside_call(code, match.start(), MESSAGES) and not is_array_size(code, match.start()):
                add(KIND_OF.get(operator, "arithmetic"), match.start(), match.end(), SWAPS[operator])
                if operator == "+=":
                    add("assignment", match.start(), match.end(), "=")
        for match in NEGATION.finditer(code, low, high):
            add("sign", match.start(), match.end(), "")
        for match in NUMBER.finditer(code, low, high):
            before = code[code.rfind("\n", 0, match.start()) + 1:match.start()]
            if inside_call(code, match.start(), MESSAGES) or is_declaration(code, match.start()) or "case " in before:
                continue
            if code[match.start() - 2:match.end() + 2] == "{ 0 }":
                continue  # the way to write zeroes; the first member is as good as any
            floating = re.search(r"[.]|[fF]$", match[1]) and match[1][:2].lower() != "0x"
            add("float constant" if floating else "integer constant", match.start(), match.end(),
                changed_number(match[1], rng))
        # A statement begins after ; { } or the parenthesis of an if or for, not after that of a cast.
        for match in re.finditer(r"(?<=[;{})])[ \n]*(?=\S)", code[low:high]):
            start = low + match.end()
            end = code.find(";", start, high) + 1
            if code[low + match.start() - 1] == ")" and not closes_header(code, low + match.start() - 1):
                continue
            statement = code[start:end]
            if (0 < len(statement) < 400 and "{" not in statement and STATEMENT.fullmatch(statement)
                    and statement.count("(") == statement.count(")") and not statement.startswith(KEYWORDS)
                    and not MESSAGES.search(statement) and not re.match(r"\w+ +\**\w+ *(\[[^\]]*\] *)*=", statement)):
                add("dropped statement", start, end, ";" + "\n" * statement.count("\n"))

    kinds = sorted(found)
    for kind in kinds:
        found[kind] = sorted(set(found[kind]))
        rng.shuffle(found[kind])
    rng.shuffle(kinds)
    result = []
    while any(found[k] for k in kinds):
        result += [found[k].pop() for k in kinds if found[k]]
    return result


def shares(sizes, count):
    """count split over files in proportion to the number of places, at least one each (largest remainder)."""
    paths = sorted(sizes, key=lambda p: (-sizes[p], p))[:count]
    total = sum(sizes[p] for p in paths)
    exact = {p: max(1.0, count * sizes[p] / total) for p in paths}
    scale = count / sum(exact.values())
    share = {p: max(1, int(exact[p] * scale)) for p in paths}
    order = sorted(paths, key=lambda p: (-(exact[p] * scale - int(exact[p] * scale)), p))
    while sum(share.values()) < count:
        for p in order[:count - sum(share.values())]:
            share[p] += 1
    while sum(share.values()) > count:
        biggest = max(share, key=lambda p: (share[p], p))
        share[biggest] -= 1
    return {p: min(share[p], sizes[p]) for p in paths}


def identity(mutant):
    """A short name that stays the same as long as the mutated line and its place in the line do."""
    with open(mutant.path, encoding="utf-8") as f:
        text = f.read()
    begin = text.rfind("\n", 0, mutant.start) + 1
    end = text.find("\n", mutant.start)
    key = "|".join([mutant.path, text[begin:end].strip(), str(mutant.start - begin), mutant.kind, mutant.new])
    return hashlib.sha256(key.encode()).hexdigest()[:8]


def apply(text, mutant):
    return text[:mutant.start] + mutant.new + text[mutant.end:]


def diff(mutant, text):
    """The changed lines, old with -, new with +."""
    begin = text.rfind("\n", 0, mutant.start) + 1
    end = text.find("\n", mutant.end)
    new = text[begin:mutant.start] + mutant.new + text[mutant.end:end]
    lines = ["- " + line.strip() for line in text[begin:end].split("\n")]
    return lines + ["+ " + line.strip() for line in new.split("\n") if line.strip()]


# ---- building and running -------------------------------------------------------------------------------------------


def prepare_test():
    """In the process of a test. A shell's `&` has it ignore Ctrl-C, which some tests send."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def call(command, folder, timeout, limited=False):
    """(status, output); the status is 'timeout' when time ran out."""
    env = dict(os.environ, RETORT=os.path.join(folder, "build", "retort"), BUILD="build")
    process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True,
                               preexec_fn=prepare_test if limited else None)
    try:
        output, _ = process.communicate(timeout=timeout)
        return process.returncode, output.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "timeout", ""


class Worker:
    """A private copy of the tree with a finished build, in which one file at a time is changed."""

    def __init__(self, folder, build, make, targets):
        self.folder = folder
        self.make = make
        os.makedirs(folder)
        for name in ["Makefile", "src", "include", "tests", "bench", "tools", "contracts", "examples"]:
            if os.path.isdir(name):
                shutil.copytree(name, os.path.join(folder, name), symlinks=True)
            elif os.path.exists(name):
                shutil.copy2(name, folder)
        # Times are kept, so make finds the copied objects up to date and compiles nothing; and links, since a hundred names
        # are one program.
        os.makedirs(os.path.join(folder, "build"))
        parts = [name for name in os.listdir(build) if name in ("src", "tests", "cuda", "vulkan", "retort")
                 or name.endswith((".a", ".o", ".block", ".stamp"))]
        subprocess.run(["cp", "-a", *(os.path.join(build, name) for name in parts), os.path.join(folder, "build")], check=True)
        self.build(targets, must=True)

    def build(self, targets, must=False):
        status, output = call(self.make + ["BUILD=build"] + targets, self.folder, 600)
        if must and status != 0:
            sys.exit(f"mutants.py: the unchanged tree does not build:\n{output}")
        return status == 0

    def objects(self, path):
        """The objects that the file is compiled to, as make knows them."""
        names = [f"build/{path[:-2]}{kind}.o" for kind in ("", ".float", ".double")]
        return [name for name in names if os.path.exists(os.path.join(self.folder, name))]

    def code(self, objects):
        """What the objects hold besides debug information."""
        stripped = os.path.join(self.folder, "stripped.o")
        result = []
        for name in objects:
            subprocess.run(["strip", "-g", "-o", stripped, os.path.join(self.folder, name)], check=True)
            with open(stripped, "rb") as f:
                result.append(f.read())
        return result


def in_parallel(work, workers):
    """Calls work with every worker at the same time and waits for all."""
    with concurrent.futures.ThreadPoolExecutor(len(workers)) as pool:
        for future in [pool.submit(work, worker) for worker in workers]:
            future.result()


class Tests:
    """The quick tests of a suite, each with the time it took on the unchanged tree."""

    def __init__(self, suite, build, patience):
        self.tests = []  # name, what it needs built, command
        self.patience = patience
        self.limits = {}
        self.seconds = {}
        self.killers = collections.defaultdict(set)  # by file: tests that one of its mutants turned red
        if suite.verify:
            self.tests.append(("verify --quick --backend cpu", ["build/retort"],
                               ["build/retort", "verify", "--quick", "--backend", "cpu"]))
        for name in sorted(os.listdir(os.path.join(build, "tests"))):
            if (name.startswith(tuple("test_" + word for word in suite.unit))
                    and os.access(os.path.join(build, "tests", name), os.X_OK)):
                self.tests.append((name, [f"build/tests/{name}"], [f"build/tests/{name}"]))
        for word in suite.scripts:
            if os.path.exists(f"tests/cli/{word}.sh"):
                self.tests.append((f"cli/{word}", ["build/retort", "build/tests/check_checkpoints"],
                                   ["sh", f"tests/cli/{word}.sh"]))

    def targets(self):
        return sorted({program for _, programs, _ in self.tests for program in programs})

    def measure(self, workers, leave_red):
        """Every test once on the unchanged tree, each worker one at a time. A red one is left out if that was asked for: it could kill nothing."""
        waiting, red = list(reversed(self.tests)), {}

        def work(worker):
            while True:
                try:
                    name, _, command = waiting.pop()
                except IndexError:
                    return
                start = time.monotonic()
                status, output = call(command, worker.folder, 600, limited=True)
                if status != 0:
                    red[name] = output
                self.seconds[name] = time.monotonic() - start
                # Other work on the machine must not turn a slow test into a kill.
                self.limits[name] = self.patience * max(1.25, self.seconds[name])

        in_parallel(work, workers)
        for name, output in sorted(red.items()):
            print(f"{name} is red on the unchanged tree{' and left out' if leave_red else ''}:\n{output[-2000:]}", flush=True)
        if red and not leave_red:
            sys.exit(f"mutants.py: red on the unchanged tree: {', '.join(sorted(red))}")
        self.tests = [test for test in self.tests if test[0] not in red]

    def order(self, path):
        """What noticed an earlier mutant of the file, unit tests named after it or its room, verify, the rest; scripts last."""
        words = set(os.path.basename(path)[:-2].split("_")) | {path.split("/")[-2]}

        def rank(test):
            name = test[0]
            common = len(words & set(name.split("_")[1:])) if name.startswith("test_") else 0.5 if name.startswith("verify") else -1
            return name not in self.killers[path], -common, self.seconds[name], name
        return sorted(self.tests, key=rank)


def why(status, output):
    """One line that says how the test went red."""
    if status == "timeout":
        return "timed out"
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    lines = [line.strip() for line in output.splitlines() if re.search(r"^\s*(FAIL |ERROR|\[  ERROR)|: expected |FAIL:", line)]
    return (lines[0] if lines else f"exit status {status}")[:160]


def try_mutant(worker, tests, mutant):
    """(outcome, what killed it)"""
    target = os.path.join(worker.folder, mutant.path)
    objects = worker.objects(mutant.path)
    if not objects:
        sys.exit(f"mutants.py: {mutant.path} is in no room.mk")
    kept = {name: os.path.join(worker.folder, name) + ".kept" for name in objects}
    shutil.copy2(target, target + ".kept")
    for name in objects:
        shutil.copy2(os.path.join(worker.folder, name), kept[name])
    before = worker.code(objects)
    try:
        with open(target, encoding="utf-8") as f:
            text = f.read()
        with open(target, "w", encoding="utf-8") as f:
            f.write(apply(text, mutant))
        if not worker.build(objects):
            return "does not compile", ""
        if worker.code(objects) == before:
            return "same code", ""
        for name, programs, command in tests.order(mutant.path):
            if not worker.build(programs):
                return "does not compile", ""
            status, output = call(command, worker.folder, tests.limits[name], limited=True)
            if status != 0:
                tests.killers[mutant.path].add(name)
                return "killed", f"{name}: {why(status, output)}"
        return "survived", ""
    finally:
        # The source gets its old time back and the objects are new, so make compiles nothing; the archive is older than
        # they are, so the next mutant links the originals.
        os.replace(target + ".kept", target)
        for name in objects:
            os.replace(kept[name], os.path.join(worker.folder, name))
            os.utime(os.path.join(worker.folder, name), None)


class Draw:
    """Hands out mutants file by file; one that is not counted is replaced by the next of the same file."""

    def __init__(self, pools, share):
        self.pools, self.share = pools, dict(share)
        self.next = dict.fromkeys(pools, 0)
        self.lock = threading.Lock()

    def take(self):
        with self.lock:
            for path in sorted(self.share):
                if self.share[path] > 0 and self.next[path] < len(self.pools[path]):
                    return self.claim(path)
            # A file that ran dry leaves its rest to the file with the most places left.
            owed = sum(self.share.values())
            spare = [p for p in sorted(self.pools) if self.next[p] < len(self.pools[p])]
            if owed > 0 and spare:
                donor = next(p for p in sorted(self.share) if self.share[p] > 0)
                richest = max(spare, key=lambda p: len(self.pools[p]) - self.next[p])
                self.share[donor] -= 1
                self.share[richest] = self.share.get(richest, 0) + 1
                return self.claim(richest)
            return None

    def claim(self, path):
        mutant = self.pools[path][self.next[path]]
        self.next[path] += 1
        self.share[path] -= 1
        return mutant

    def put_back(self, path):
        with self.lock:
            self.share[path] += 1


def run_all(args, pools, share, report):
    results, left_out = [], collections.Counter()
    draw = Draw(pools, share)
    lock = threading.Lock()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="retort-mutants-") as folder:
        make = ["make", "-s", "NVCC="] + ([f"CC={args.cc}"] if args.cc else [])  # no mutant is in a kernel
        tests = Tests(args.suite, args.build, args.patience)
        workers = [Worker(os.path.join(folder, str(i)), args.build, make, tests.targets()) for i in range(args.jobs)]
        tests.measure(workers, args.leave_red)
        print("tests: " + ", ".join(f"{n} {s:.1f} s" for n, s in sorted(tests.seconds.items(), key=lambda x: x[1])), flush=True)

        def work(worker):
            while (mutant := draw.take()) is not None:
                start = time.monotonic()
                outcome, killer = try_mutant(worker, tests, mutant)
                with lock:
                    if outcome in ("killed", "survived"):
                        results.append((mutant, outcome, killer))
                        print(f"{len(results):4d} {outcome:<9}{mutant.path}:{mutant.line} {mutant.kind}: "
                              f"{mutant.old.split(chr(10))[0]!r} -> {mutant.new.strip() or ' '!r}  "
                              f"({time.monotonic() - start:.1f} s) {killer}", flush=True)
                    else:
                        left_out[outcome] += 1
                        draw.put_back(mutant.path)

        in_parallel(work, workers)
    results.sort(key=lambda r: (r[0].path, r[0].start, r[0].new))
    return report(results, left_out, time.monotonic() - started)


def write_report(args, results, left_out, seconds):
    killed = sum(outcome == "killed" for _, outcome, _ in results)
    survivors = len(results) - killed
    lines = [f"mutants: seed {args.seed}, {len(results)} counted", ""]
    for mutant, outcome, killer in results:
        with open(mutant.path, encoding="utf-8") as f:
            text = f.read()
        lines.append(f"{identity(mutant)} {outcome} {mutant.path}:{mutant.line} {mutant.kind}" + (f" by {killer}" if killer else ""))
        lines += ["    " + line for line in diff(mutant, text)]
    rooms = collections.defaultdict(lambda: [0, 0])
    for mutant, outcome, _ in results:
        rooms[os.path.dirname(mutant.path)][outcome == "survived"] += 1
    summary = [""] + [f"{room:<18} {k:3d} killed, {s:3d} survived" for room, (k, s) in sorted(rooms.items())]
    summary += [f"not counted: {n} {what}" for what, n in sorted(left_out.items())]
    summary.append(f"{seconds:.0f} s, {seconds / max(1, len(results)):.1f} s for a mutant")
    summary.append(f"{killed} killed, {survivors} survived of {len(results)}")
    path = os.path.join(args.build, f"mutants-{'-'.join(args.rooms).replace('/', '-')}.txt")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines + summary) + "\n")
    print("\nsurvivors:" if survivors else "\nno survivors")
    for index, line in enumerate(lines):
        if " survived src/" in line:
            print(line)
            for more in lines[index + 1:]:
                if not more.startswith("    "):
                    break
                print(more)
    print("\n".join(summary) + f"\nlist: {path}")
    enough = results and 100 * killed >= args.threshold * len(results)
    return 0 if enough and len(results) == args.count else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2, help="copies of the tree that work at once")
    parser.add_argument("--build", default="build", help="finished build to start from; the list goes there")
    parser.add_argument("--cc", default="", help="compiler of that build, where it is not the Makefile's own")
    parser.add_argument("--threshold", type=float, default=95, help="percent that must be killed")
    parser.add_argument("--patience", type=float, default=8, help="times as long as on the unchanged tree until a test has run out of time")
    parser.add_argument("--leave-red", action="store_true", help="go on without tests that are red on the unchanged tree, named")
    parser.add_argument("--only", action="append", default=[], metavar="FILE", help="this file alone; may be repeated")
    parser.add_argument("--pick", action="append", default=[], metavar="ID", help="this mutant of the list alone; may be repeated")
    parser.add_argument("--show", action="store_true", help="print the mutants that would come first, run nothing")
    parser.add_argument("--rooms", default=",".join(SUITES[0].rooms), help="rooms below src that are changed (%(default)s)")
    args = parser.parse_args()

    args.rooms = args.rooms.split(",")
    suites = [suite for suite in SUITES if set(args.rooms) <= set(suite.rooms)]
    if not suites:
        sys.exit("mutants.py: --rooms takes rooms of one suite: " + "; ".join(",".join(s.rooms) for s in SUITES))
    args.suite = suites[0]
    folders = [f"src/{room}" for room in args.rooms]
    files = args.only or sorted(f"{folder}/{name}" for folder in folders if os.path.isdir(folder)
                                for name in os.listdir(folder) if name.endswith(".c"))
    for path in files:
        if not os.path.exists(path):
            sys.exit(f"mutants.py: {path} is not a file; paths are given from the top of the tree")
    pools = {path: find_mutants(path, args.seed) for path in files}
    pools = {path: pool for path, pool in pools.items() if pool}
    if args.pick:
        pools = {path: [m for m in pool if identity(m) in args.pick] for path, pool in pools.items()}
        pools = {path: pool for path, pool in pools.items() if pool}
        args.count = sum(map(len, pools.values()))
    if not pools:
        sys.exit("mutants.py: no place to change was found")
    share = shares({path: len(pool) for path, pool in pools.items()}, args.count)
    if args.show:
        for path in sorted(share):
            with open(path, encoding="utf-8") as f:
                text = f.read()
            for mutant in pools[path][:share[path]]:
                print(f"{identity(mutant)} {path}:{mutant.line} {mutant.kind}")
                print("\n".join("    " + line for line in diff(mutant, text)))
        print(f"{sum(map(len, pools.values()))} places in {len(pools)} files, {sum(share.values())} chosen")
        return 0
    return run_all(args, pools, share, lambda *r: write_report(args, *r))


if __name__ == "__main__":
    sys.exit(main())
