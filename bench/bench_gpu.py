#!/usr/bin/env python3
"""bench_gpu.py - what is asked of the GPU as a rate, measured in one run: steps of whole runs beside PyTorch's, every op
of a step, the head as one program, and a step's floor; a table and JSON.

  bench_gpu.py --build build [--peer FILE] [--peer-head FILE] [--step-budget FILE] [--json FILE]
  bench_gpu.py --judge FILE...       the tables from what earlier runs recorded; nothing is measured

Models are made by `retort init` with the shapes of Qwen2.5 and random weights, tokens are random. Steps are those of
`retort distill --smoke`, which times ten steps and leaves nothing behind; the first does not count. The loss is the
peer's: T 4, 0.3 CE + 0.7 T^2 KL. The peer script prints one JSON line for each of its --variants; its runs and ours
take turns. Compilations of the peer are done once beforehand, side by side, so that its own cache holds them.

Parts, for --only: models, kernels (bench_cuda: ops of three steps), head, own (GEMMs by our own kernels), steps,
long (32 x 2048), refusal, peer, peer-head, floor. Results are written after every measurement; with --json FILE that is
there already they are added to it. Exits with 1 when a row is short, or was to be measured and was not.
"""
import argparse
import array
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import gpu_table
from gpu_table import CASES, LONG

PARTS = ("models", "kernels", "head", "own", "steps", "long", "refusal", "peer", "peer-head", "floor")
SIZES = {"B": 1, "KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30, "TiB": 2 ** 40}
# preset, dtype, file name
MODELS = {"0.5b": ("qwen2.5-0.5b", "bf16", "half"), "1.5b": ("qwen2.5-1.5b", "bf16", "one-and-a-half"),
          "7b": ("qwen2.5-7b", "q4_k_m", "seven.gguf")}
TINY = {"0.5b": ("tiny", "bf16", "half"), "1.5b": ("tiny-llama", "bf16", "one-and-a-half"),
        "7b": ("tiny-llama", "q4_k_m", "seven.gguf")}
VOCAB = 151936
FLOOR_FLAGS = {"1.5b 16x512": ["--teacher", "1.5b"], "7b-q4 16x512": ["--teacher", "7b", "--teacher-bits", "4.5"],
               "1.5b 4x2048": ["--teacher", "1.5b", "--seq", "2048"]}


class Bench:
    """What a run is asked to do, where its files are, and what it has found so far."""

    def __init__(self, args):
        self.args = args
        self.begun = time.monotonic()
        self.models = TINY if args.tiny else MODELS
        self.folder = args.folder or tempfile.mkdtemp(prefix="bench-gpu-", dir=roomy())
        self.results = {}
        os.makedirs(self.folder, exist_ok=True)
        if args.json and os.path.exists(args.json):
            with open(args.json) as f:
                self.results = json.load(f)

    def wants(self, part):
        return part in self.args.only

    def left(self):
        return self.args.seconds - (time.monotonic() - self.begun)

    def note(self, text):
        print(f"[{time.monotonic() - self.begun:6.1f} s] {text}", flush=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def add(self, key, *rows):
        self.results.setdefault(key, []).extend(rows)
        self.save()

    def save(self):
        if not self.args.json:
            return
        with open(self.args.json + ".new", "w") as f:
            json.dump(self.results, f, indent=1)
        os.replace(self.args.json + ".new", self.args.json)


def roomy():
    """Where models lie in memory, if there is room for them."""
    shm = "/dev/shm"
    return shm if os.path.isdir(shm) and shutil.disk_usage(shm).free > 20 * 2 ** 30 else None


def end(process):
    """Ends a process of ours and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run(command, seconds, env=None, on_line=None):
    """Exit code and output, both streams; None for one that took too long."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                               start_new_session=True)
    late = threading.Event()
    timer = threading.Timer(max(seconds, 1), lambda: (late.set(), end(process)))
    timer.start()
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if on_line:
                on_line(line)
        code = process.wait()
    finally:
        timer.cancel()
    return (None if late.is_set() else code), "".join(lines)


# ---- models ---------------------------------------------------------------------------------------------------------

def models_for(b):
    """Names of the models that the parts need."""
    if b.wants("models"):
        return list(b.models)
    names = {CASES[c]["teacher"] for c in b.args.cases} if b.wants("steps") or b.wants("peer") else set()
    names |= {"7b"} if b.wants("long") else set()
    names |= {"1.5b", "7b"} if b.wants("refusal") else set()
    return sorted(names | {"0.5b"}) if names else []


def make_models(b):
    for name in models_for(b):
        preset, dtype, out = b.models[name]
        if os.path.exists(b.path(out)):
            continue
        begun = time.monotonic()
        code, text = run([b.args.retort, "init", "--preset", preset, "--dtype", dtype, "--no-tokenizer", "--seed",
                          "2" if name == "0.5b" else "1", b.path(out)], b.left())
        if code != 0:
            raise SystemExit(f"retort init {preset}: {text[-600:]}")
        b.note(f"made {preset} in {dtype}: {time.monotonic() - begun:.1f} s")
    if not os.path.exists(b.path("tokens.bin")):
        vocab, rng = (272 if b.args.tiny else VOCAB), random.Random(0)
        words = array.array("I", rng.randbytes(4 * (1 << 14 if b.args.tiny else 1 << 20)))
        with open(b.path("tokens.bin"), "wb") as f:
            array.array("I", (w % vocab for w in words)).tofile(f)


# ---- our steps ------------------------------------------------------------------------------------------------------

def distill_command(b, teacher, student, batch, seq, limit, steps):
    if b.args.tiny:
        batch, seq = batch // 4, seq // 16
    vocab = 272 if b.args.tiny else VOCAB
    command = [b.args.retort, "distill", "--smoke", "--teacher", b.path(b.models[teacher][2]), "--student",
               b.path(b.models[student][2]), "--data", b.path("tokens.bin"), "--vocab", str(vocab), "--batch", str(batch),
               "--seq-len", str(seq), "--steps", str(steps), "--temperature", "4", "--kd-weight", "0.7", "--ce-weight",
               "0.3", "--lr", "1e-5", "--held-out", "1", "--eval-every", "1000000", "--save-every", "1000000", "--save",
               "last", "--sample-prompts", "none", "--device", b.args.device]
    command += ["--memory-limit", limit] if limit else []
    return command + (["--tune", b.args.tune] if b.args.tune else []), batch * seq


def size(text):
    number, unit = text.split()
    return round(float(number) * SIZES[unit])


class Watch:
    """Reads what a run prints: when its first step ended, and its metrics, whose folder goes away with it."""

    def __init__(self, scratch):
        self.begun, self.scratch = time.monotonic(), scratch
        self.first = self.metrics = None

    def __call__(self, line):
        if self.first is None and re.match(r"step 1/", line):
            self.first = time.monotonic() - self.begun
            self.metrics = next((open(f"{f.path}/run/metrics.jsonl") for f in os.scandir(self.scratch)), None)

    def steps(self):
        if not self.metrics:
            return []
        with self.metrics as f:
            lines = [json.loads(line) for line in f]
        return [line["seconds"] for line in lines if line["event"] == "step"]


def our_run(b, name, teacher, batch, seq, limit, steps=10):
    command, tokens = distill_command(b, teacher, "0.5b", batch, seq, limit, steps)
    # Nothing is compiled by the driver: it would fail here.
    env = dict(os.environ, CUDA_DISABLE_PTX_JIT="1", CUDA_CACHE_DISABLE="1", XDG_CACHE_HOME=b.path("cache"))
    with tempfile.TemporaryDirectory(dir=b.folder) as scratch:
        watch = Watch(scratch)
        code, text = run(command, min(b.left(), 180), dict(env, TMPDIR=scratch), watch)
        seconds = watch.steps()
    memory = re.search(r"^memory +([\d.]+ \w+), of it", text, re.M)
    if code != 0 or len(seconds) != steps or not memory:
        b.note(f"retort {name} {limit}: exit {code}: {text[-600:]}")
        return
    code_line = re.search(r"^code +(\d+) modules, ([\d.]+ \w+), beside ([\d.]+ \w+) of context; .*: (\d+)", text, re.M)
    fit = re.search(r"^fit +(.*?):", text, re.M)
    row = dict(case=name, limit=limit, tokens=tokens, steps=seconds, first=watch.first, memory=size(memory[1]),
               late=int(code_line[4]) if code_line else None, modules=size(code_line[2]) if code_line else None,
               context=size(code_line[3]) if code_line else None,
               fit=" ".join(w for w in (fit[1] if fit else "", f"--tune {b.args.tune}" if b.args.tune else "") if w))
    b.add("runs", row)
    b.note(f"retort {name}{' ' + limit if limit else ''}: {gpu_table.rate([row]):,.0f} tokens/s, {memory[1]}, first step "
           f"after {watch.first:.1f} s; {row['fit']}")


def our_case(b, name, limits):
    c = CASES[name]
    for limit in limits:
        our_run(b, name, c["teacher"], c["batch"], c["seq"], limit)


def our_long(b):
    for limit in ("", LONG["limit"]):
        our_run(b, LONG["name"], "7b", LONG["batch"], LONG["seq"], limit, 5)


def refusal(b):
    limit = LONG["limit"] if not b.args.tiny else "1MiB"
    command, _ = distill_command(b, "7b", "1.5b", 16, 512, limit, 10)
    code, text = run(command, min(b.left(), 120))
    lines = [line for line in text.strip().splitlines() if line]
    b.results["refusal"] = dict(exit=code, message=lines[-1] if lines else "")
    b.save()
    b.note(f"7B to 1.5B in full: exit {code}: {b.results['refusal']['message']}")


# ---- the peer -------------------------------------------------------------------------------------------------------

def peer_command(b, name, variants, steps):
    c = CASES[name]
    return [sys.executable, b.args.peer, "--teacher", c["teacher"], "--batch", str(c["batch"]), "--seq", str(c["seq"]),
            "--variants", variants, "--steps", str(steps)]


def warm_peers(b):
    """Starts the compilations of every case side by side; end_warm waits for them."""
    compiled = ",".join(v for v in b.args.variants if "compile" in v)
    if not compiled or b.args.no_warm:
        return []
    b.note(f"the peer compiles {compiled} for every case, side by side")
    return [subprocess.Popen(peer_command(b, name, compiled, 1), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             start_new_session=True) for name in b.args.cases]


def end_warm(b, processes):
    limit = time.monotonic() + min(b.args.warm_seconds, b.left())
    for p in processes:
        try:
            p.wait(max(limit - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            b.note("a compilation of the peer took too long and was ended")
            end(p)
    if processes:
        b.note("the peer has compiled")


def peer_run(b, name, variant):
    seconds = min(b.args.peer_seconds, b.left())
    code, text = run(peer_command(b, name, variant, 10), seconds)
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if code is None:
        rows = [dict(error=f"longer than {seconds:.0f} s")]
    for r in rows or [dict(error=text[-300:])]:
        b.add("peers", dict(dict(variant=variant), case=name, **r))
        b.note(f"{variant} {name}: " + (f"{r['tok_s']:,} tokens/s, {r['peak_gib']} GiB" if "tok_s" in r else r["error"]))


def steps_and_peers(b):
    for name in b.args.cases:
        limit = CASES[name]["limit"]
        if b.wants("steps"):
            our_case(b, name, sorted({limit, ""}))
        for variant in b.args.variants if b.wants("peer") else []:
            peer_run(b, name, variant)
            our_case(b, name, [limit])


def peer_head(b):
    _, text = run([sys.executable, b.args.peer_head], min(b.left(), b.args.peer_seconds))
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    b.add("peer_head", *rows)
    b.note(f"the peer's head: {rows or text[-300:]}")


# ---- ops and floor --------------------------------------------------------------------------------------------------

def take_rows(results, rows):
    """What bench_cuda wrote: ops by step, each with the copy of the same process, which is the first line."""
    copy, steps = max((r["gbs"] for r in rows if r["row"] == "copy"), default=None), {}
    for r in rows:
        if r["row"] == "op":
            steps.setdefault(f"{r['case']}/{r['gemm']}", dict(copy=copy, rows=[]))["rows"].append(r)
        elif r["row"] == "program":
            results.setdefault("programs", {}).setdefault(r["case"], {})[r["program"]] = r["seconds"]
        elif r["row"] == "head":
            results.setdefault("head", []).append(r)
    results.setdefault("ops", {}).update(steps)


def kernels(b, words):
    out = b.path("bench_cuda.json")
    b.note(f"bench_cuda: {', '.join(words)}")
    command = [b.args.bench_cuda, "--device", b.args.device, "--json", out, "--only", ",".join(words)]
    code, _ = run(command + (["--tiny"] if b.args.tiny else []), min(b.left(), 240),
                  on_line=lambda line: print(line, end="", flush=True))
    if code != 0:
        b.note(f"bench_cuda: exit {code}")
    if os.path.exists(out):
        with open(out) as f:
            take_rows(b.results, [json.loads(line) for line in f if line.endswith("}\n")])
    b.save()


def floor(b):
    for name, flags in FLOOR_FLAGS.items():
        _, text = run([sys.executable, b.args.step_budget] + flags, 60)
        rows = re.findall(r"^(\S.*?) +[\d.]+ +[\d.]+ +([\d.]+) +[\d.]+%$", text, re.M)
        b.results.setdefault("floor", {})[name] = [(what.strip(), float(ms)) for what, ms in rows]
    b.save()


# ---- all ------------------------------------------------------------------------------------------------------------

def measure(args):
    b = Bench(args)
    warm = warm_peers(b) if b.wants("peer") else []
    try:
        make_models(b)
        end_warm(b, warm)
        words = [w for part, ws in (("head", ["head"]), ("kernels", ["step", "others"]), ("own", ["own"]))
                 if b.wants(part) for w in ws]
        if words:
            kernels(b, words)
        # The peer comes last: how long it takes is known least.
        for part, function in (("refusal", refusal), ("long", our_long), ("floor", floor), ("peer-head", peer_head)):
            if b.wants(part):
                function(b)
        if b.wants("steps") or b.wants("peer"):
            steps_and_peers(b)
    finally:
        for p in warm:
            end(p)
        if not args.folder:
            shutil.rmtree(b.folder)
    return b.results


def join(files):
    """Results of several runs as if they were one."""
    joined = {}
    for path in files:
        with open(path) as f:
            for key, value in json.load(f).items():
                if isinstance(value, list):
                    joined.setdefault(key, []).extend(value)
                else:
                    joined.setdefault(key, {}).update(value)
    return joined


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build", metavar="DIR", help="where retort and bench_cuda are (build)")
    p.add_argument("--only", metavar="PART,...", help="parts to measure (all that can be)")
    p.add_argument("--cases", metavar="CASE,...", default=",".join(CASES), help=f"steps to measure ({', '.join(CASES)})")
    p.add_argument("--peer", metavar="FILE", help="the peer's step: prints a JSON line with variant, tok_s, peak_gib")
    p.add_argument("--peer-head", metavar="FILE", help="the peer's head: prints JSON lines with Ct, tflops, transient_gib")
    p.add_argument("--step-budget", metavar="FILE", help="prints the floor of a step, op by op")
    p.add_argument("--variants", metavar="V,...", default="hf-compile,liger", help="of the peer (hf-compile,liger)")
    p.add_argument("--peer-seconds", type=float, default=150, help="limit for one variant (150)")
    p.add_argument("--warm-seconds", type=float, default=240, help="limit for the peer's compilations (240)")
    p.add_argument("--no-warm", action="store_true", help="the peer's variants compile when they are measured")
    p.add_argument("--tune", metavar="T", help="our runs with --tune T (retort's own: on, within 5 s)")
    p.add_argument("--seconds", type=float, default=3600, help="limit for everything; what is left then is not measured")
    p.add_argument("--folder", metavar="DIR", help="where models are kept for the next run (else they are removed)")
    p.add_argument("--json", metavar="FILE", help="results, added to those that are there")
    p.add_argument("--device", default="cuda")
    p.add_argument("--tiny", action="store_true", help="tiny models, to try the program itself")
    p.add_argument("--judge", nargs="+", metavar="FILE", help="the tables from recorded results; nothing is measured")
    a = p.parse_args()
    needs = {"peer": a.peer, "peer-head": a.peer_head, "floor": a.step_budget}
    a.all = not a.only
    a.only = a.only.split(",") if a.only else [part for part in PARTS if needs.get(part, True)]
    a.cases, a.variants = a.cases.split(","), a.variants.split(",")
    for part in a.only:
        if part not in PARTS:
            p.error(f"there is no part '{part}'; the parts are {', '.join(PARTS)}")
        if not needs.get(part, True):
            p.error(f"{part} needs --{'step-budget' if part == 'floor' else part} FILE")
    for case in a.cases:
        if case not in CASES:
            p.error(f"there is no case '{case}'; the cases are {', '.join(CASES)}")
    a.retort, a.bench_cuda = os.path.abspath(f"{a.build}/retort"), os.path.abspath(f"{a.build}/bench_cuda")
    return a


def main():
    args = arguments()
    results = join(args.judge) if args.judge else measure(args)
    asked = args.judge or args.all
    rows = [r for r in gpu_table.judge(results) if r.ok is not None or
            (asked or r.part in args.only) and r.case in (None, *args.cases)]
    print()
    gpu_table.print_all(results, rows, sys.stdout)
    if args.json and not args.judge:
        with open(args.json) as f:
            whole = json.load(f)
        whole["asked"] = [dict(what=r.what, measured=r.measured, asked=r.asked, verdict=r.verdict()) for r in rows]
        with open(args.json, "w") as f:
            json.dump(whole, f, indent=1)
    return 0 if rows and all(r.ok for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
