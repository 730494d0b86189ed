#!/usr/bin/env python3
"""ladder_test.py - has devices fail at random moments of a run, and compares what becomes of it with a run left alone.

A tiny student is trained on the CPU; that is the reference. Then every trial begins the same run on a Vulkan device behind a
loader that fails (tests/vulkan/faults.c): the nth allocation, submission or wait says that the device is lost or out of memory,
or does not come back. Some trials have a second device that fails too, some a copy of the state in memory, some retry:N. What is
drawn is printed, so that a trial can be made again (--seed, --only).

A trial passes when the run ends with a model; when its log has every step once, in order, with the tokens and the rates of the
reference, and losses and measures that differ by 1e-5 at most; when `retort verify` finds the evidence whole; when no device was
taken again that had failed, but as often as was said; and when nothing hidden is left in its folder.

Ends with `N passed, N failed`, one case per trial. Standard library only.
"""
import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

LIMIT = 300  # seconds after which a run hangs
STEPS = 12
SHAPE = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
         "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 272, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
         "rope_theta": 10000, "tie_word_embeddings": True, "hidden_act": "silu"}
WORDS = "the quick brown fox jumps over the lazy dog while seven wizards box in quiet zones".split()


class Fault(Exception):
    """What a trial found wrong."""


def expect(holds, what):
    if not holds:
        raise Fault(what)


def find_loader():
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"libvulkan\.so\.1 .*=> (\S+)", listed)
    if not found:
        sys.exit("ladder_test.py: there is no Vulkan loader here")
    return found[1]


class Case:
    """The models, the data and the reference, in a folder."""

    def __init__(self, retort, loader, folder):
        self.retort, self.folder = os.path.abspath(retort), folder
        self.env = dict(os.environ, FAULTS_REAL=find_loader())
        self.faulty = os.path.dirname(os.path.abspath(loader))
        with open(f"{folder}/shape.json", "w", encoding="utf-8") as f:
            json.dump(SHAPE, f)
        with open(f"{folder}/d.jsonl", "w", encoding="utf-8") as f:
            for i in range(40):
                f.write(json.dumps({"text": " ".join(WORDS[(i * 7 + k * k + k * i) % 16] for k in range(8)) + f" {i}"}) + "\n")
        self.run("init", "--preset", "tiny-qwen2", "--seed", "1", "--dtype", "f32", "tiny")
        self.run("init", "--config", "shape.json", "--tokenizer", "tiny", "--seed", "1", "--dtype", "f32", "s")
        self.train("reference", "--device", "cpu", "--save-every", "4")
        self.reference = self.log("reference")

    def run(self, *args, env=None, status=0):
        done = subprocess.run([self.retort, *args], cwd=self.folder, env=env or self.env, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=LIMIT, check=False)
        expect(done.returncode == status, f"exit status {done.returncode}: {done.stderr.strip()[-400:]}")
        return done

    def train(self, out, *more, env=None):
        return self.run("train", "--student", "s", "--data", "d.jsonl", "--batch", "2", "--seq-len", "16", "--lr", "1e-3", "--held-out", "4",
                        "--eval-every", "4", "--threads", "1", "--steps", str(STEPS), "--sample-prompts", "none", "--out", out, *more, env=env)

    def log(self, out):
        with open(f"{self.folder}/{out}/run/metrics.jsonl", encoding="utf-8") as f:
            return [json.loads(line) for line in f]


def draw(rng):
    """The faults of a trial, a line for each process, and its flags."""
    def line():
        how = rng.choice(["lost", "lost", "oom", "hang"])
        if how == "hang" or rng.random() < 0.4:
            return f"step {rng.randint(1, STEPS)} {how}"
        kind = rng.choice(["alloc", "submit", "wait"])
        return f"{kind} {rng.randint(1, {'alloc': 14, 'submit': 150, 'wait': 100}[kind])} {'lost' if kind == 'alloc' else how}"
    devices = rng.choice([1, 1, 2])
    retries = rng.choice([0, 0, 0, 1])
    flags = ["--device", "vulkan", "--on-device-failure", f"retry:{retries}" if retries else "degrade", "--device-timeout", "1",
             "--save-every", str(rng.choice([2, 5, 12]))]
    if rng.random() < 0.4:
        flags += ["--keep-host-copy", str(rng.choice([1, 3]))]
    return [line() for _ in range(devices * (1 + retries))], flags, devices, retries


def curve_is_whole(case, out):
    kept = ("step", "eval")
    want, got = ([j for j in log if j["event"] in kept] for log in (case.reference, case.log(out)))
    expect([(j["event"], j["step"]) for j in want] == [(j["event"], j["step"]) for j in got], "steps are missing, twice or out of order")
    for a, b in zip(want, got):
        for name in ("tokens", "trained", "rows", "lr"):
            expect(a.get(name) == b.get(name), f"{a['event']} {a['step']}: {name} was {a.get(name)}, is {b.get(name)}")
        for name in ("ce", "grad_norm", "forward_kl"):
            x, y = (v[0] if isinstance(v, list) else v for v in (a.get(name, 0), b.get(name, 0)))
            expect(abs(x - y) <= 1e-5 * abs(x), f"{a['event']} {a['step']}: {name} was {x}, is {y}")


def failures(text, devices, retries):
    """Every device as often as it may fail, from the first to the last; how many there were."""
    named = re.findall(r"^device +(\S+) (?:failed|cannot)", text, re.M)
    for name in named:
        expect(named.count(name) <= 1 + retries, f"{name} was taken {named.count(name)} times")
    expect(named == sorted(named), f"the order was {named}")
    expect(len(set(named)) <= devices, f"there are no such devices: {named}")
    return len(named)


def hidden(folder):
    return [name for _, folders, names in os.walk(folder) for name in folders + names if name.startswith(".") and name != ".gitignore"]


def trial(case, rng, out):
    lines, flags, devices, retries = draw(rng)
    what = f"{', '.join(lines)}; {devices} device(s), {' '.join(flags[3:])}"
    with open(f"{case.folder}/faults", "w", encoding="utf-8") as f:
        f.writelines(f"{line}\n" for line in lines)
    env = dict(case.env, LD_LIBRARY_PATH=case.faulty, FAULTS_FILE=f"{case.folder}/faults", FAULTS_DEVICES=str(devices),
               FAULTS_METRICS=f"{case.folder}/{out}/run/metrics.jsonl")
    try:
        try:
            done = case.train(out, *flags, env=env)
        except Fault:
            if os.path.exists(f"{case.folder}/{out}"):
                raise
            return f"{what}: the device that was named could not be opened", None, 0
        failed = failures(done.stdout, devices, retries)
        curve_is_whole(case, out)
        case.run("verify", out, "--device", "cpu")
        expect(not hidden(f"{case.folder}/{out}"), f"left over: {hidden(f'{case.folder}/{out}')}")
    except (Fault, subprocess.TimeoutExpired) as fault:
        return what, str(fault), 0
    finally:
        shutil.rmtree(f"{case.folder}/{out}", ignore_errors=True)
    return what, None, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--retort", required=True)
    parser.add_argument("--loader", required=True, help="the one that fails")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this trial alone")
    args = parser.parse_args()
    passed = failed = faults = 0
    with tempfile.TemporaryDirectory() as folder:
        case = Case(args.retort, args.loader, folder)
        for i in range(args.trials) if args.only is None else [args.only]:
            what, fault, n = trial(case, random.Random(f"{args.seed} {i}"), f"o{i}")
            faults += n
            if fault:
                failed += 1
                print(f"trial {i}: {what}\n  {fault}", flush=True)
            else:
                passed += 1
    print(f"{faults} devices failed")
    print(f"{passed} passed, {failed} failed")
    return failed != 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
