#!/usr/bin/env python3
"""cli.py RETORT [--seconds N] [--seed S] [--work DIR] - command lines and YAML files by grammar, run one after another.

The grammar is what the binary says of itself (`retort COMMAND --help=json`), so new flags are fuzzed without a line here. Values
are good ones, edges and rubbish; paths are small models and texts, files that are none of these, and names that are not there.
Case number N of seed S is always the same, and DIR/next remembers where to go on, so a run can be cut off and resumed.

A finding is a signal, a sanitizer's report, more than SECONDS_EACH, an exit code that `retort --help=json` does not list, a failure
without a message, or a message with a control character in it. Findings are in DIR/findings. Ends with `N passed, N failed`.
"""
import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time

SECONDS_EACH = 60
# A server goes on until it is told to end.
UNTIL = {"serve": ["timeout", "--preserve-status", "-s", "INT", "-k", "30", "2"]}
NUMBERS = ["0", "1", "2", "3", "7", "-1", "1.5", "1e3", "1e-3", "1e308", "nan", "inf", "-0", "65536", "4294967296", "18446744073709551616",
           "0x10", "1K", "2GiB", "99999999EB", ".", "+", "1,2", "0-3", "3-0", "1,,2"]
WORDS = ["", "auto", "none", "all", "on", "off", "cpu", "cuda", "hf", "gguf", "bf16", "f16", "q4_k_m", "forward-kl", "jsd", "cosine",
         "best", "x", "-", "--", "=", "é", "\x1b[31m", "a b", "a\nb", "%s%n", "x" * 5000, "{}", "[1", "\\"]
SMALL = {"--steps": "2", "--batch": "2", "--seq-len": "16", "--max-tokens": "2", "--rows": "2", "--threads": "1", "--epochs": "1"}


def setup(binary, work):
    """Files to name: good ones, and the same kinds of file damaged."""
    os.makedirs(work, exist_ok=True)
    put = lambda name, data: open(os.path.join(work, name), "wb").write(data)
    for name, more in (("s", []), ("t", ["--seed", "3"]), ("m.gguf", []), ("m.apr", [])):
        if not os.path.exists(os.path.join(work, name)):
            subprocess.run([binary, "init", "--preset", "tiny", *more, name], cwd=work, check=True, capture_output=True)
    text = b"".join(b'{"text": "a record of text, number %d"}\n' % i for i in range(60))
    put("d.jsonl", text)
    put("chat.jsonl", b'{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}\n' * 20)
    put("d.txt", b"some lines\n" * 50)
    put("cut.jsonl", text[:100])
    put("cut.gguf", open(os.path.join(work, "m.gguf"), "rb").read()[:3000])
    put("nul", b"\0" * 64)
    put("empty", b"")
    put("t.jinja", b"{% for m in messages %}{{ m.content }}{% endfor %}")
    os.makedirs(os.path.join(work, "folder"), exist_ok=True)
    return ["s", "t", "m.gguf", "m.apr", "d.jsonl", "chat.jsonl", "d.txt", "cut.jsonl", "cut.gguf", "nul", "empty", "t.jinja", "folder",
            "gone", "./s/", "s/config.json", "s/tokenizer.json", "/dev/null", ".", "org/name"]


def grammar(binary):
    top = json.loads(subprocess.run([binary, "--help=json"], capture_output=True, check=True).stdout)
    flags = {}
    for command in top["commands"]:
        told = json.loads(subprocess.run([binary, command["name"], "--help=json"], capture_output=True, check=True).stdout)
        text = json.dumps(told)
        flags[command["name"]] = sorted(set(re.findall(r"--[a-z0-9][a-z0-9-]*", text)))
    return flags, {s["code"] for s in top["statuses"]}


class Maker:
    def __init__(self, rng, flags, paths):
        self.rng, self.flags, self.paths = rng, flags, paths

    def value(self, flag=""):
        r = self.rng
        if flag in SMALL and r.random() < 0.8:
            return SMALL[flag]
        return r.choice(r.choice([NUMBERS, WORDS, self.paths, self.paths]))

    def yaml(self):
        r, lines = self.rng, []
        for _ in range(r.randint(0, 8)):
            key = r.choice(self.flags)[2:].replace("-", r.choice("_-"))
            value = r.choice([self.value("--" + key), json.dumps(self.value()), "[" + self.value() + "]", "\n  - " + self.value(), "&a *a", "|"])
            lines.append(r.choice(["", " ", "- ", "? "]) * (r.random() < 0.1) + f"{key}:{r.choice([' ', ' ', ' ', ''])}{value}")
        return "\n".join(lines) + r.choice(["\n", "", "\n...\n", "\t"])

    def command(self, name, number):
        """A sound command line as a rule, with some of it bent."""
        r, out = self.rng, f"out-{number}"
        args = {"distill": ["--teacher", "t", "--student", "s", "--data", "d.jsonl", "--out", out, "--steps", "2", "--batch", "2", "--seq-len", "16"],
                "train": ["--student", "s", "--data", "d.jsonl", "--out", out, "--steps", "2", "--batch", "2", "--seq-len", "16"],
                "plan": ["--teacher", "t", "--student", "s", "--data", "d.jsonl", "--steps", "2", "--batch", "2", "--seq-len", "16"],
                "eval": ["s", "--data", "d.jsonl", "--seq-len", "16"], "generate": ["s", "--prompt", "hi", "--max-tokens", "2"],
                "convert": ["s", out + r.choice([".gguf", ".apr", ".safetensors", ""])], "quantize": ["s", out + ".gguf", "--dtype", "q4_0"],
                "merge": ["s", out], "init": ["--preset", "tiny", out], "inspect": ["s"], "tokenize": ["s", "--data", "d.txt"],
                "cache": ["--teacher", "t", "--data", "d.jsonl", "--out", out, "--seq-len", "16"], "export": ["s", "--to", out],
                "serve": ["s", "--port", "0", "--slots", "2", "--context", "64"], "chat": ["s", "--max-new", "2"],
                "verify": ["gone"], "report": ["gone"]}.get(name, [])[:]
        for _ in range(r.randint(0, 4)):
            flag = r.choice(self.flags)
            if r.random() < 0.1:
                flag = flag[:r.randint(2, len(flag))] + r.choice(["", "x", "=", "="])
            args += r.choice([[flag], [flag, self.value(flag)], [flag, self.value(flag)], [f"{flag}={self.value(flag)}"]])
        for _ in range(r.choice([0, 0, 1, 2])):
            if args:
                args[r.randrange(len(args))] = self.value()
        if r.random() < 0.1 and args:
            del args[r.randrange(len(args))]
        if "--config" in self.flags and r.random() < 0.3:
            args += ["--config", "config.yaml"]
        if name == "verify" and "gone" not in args:
            args.append("gone")  # all ops would take minutes
        return [a.replace("\0", "") for a in args]


def judge(done, took, codes):
    out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    if done.returncode < 0:
        return f"signal {-done.returncode}"
    if re.search(r"AddressSanitizer|runtime error|LeakSanitizer", err):
        return "sanitizer"
    if done.returncode not in codes:
        return f"exit code {done.returncode}"
    if done.returncode not in (0, 130) and not err.strip():  # 130: whoever interrupts knows
        return "no message"
    if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1b\x7f]", err):
        return "control character"
    return f"{took:.0f} s" if took > SECONDS_EACH else None


def one(binary, flags, codes, paths, work, seed, number):
    rng = random.Random(f"{seed}-{number}")
    name = rng.choice(sorted(flags))
    maker = Maker(rng, flags[name], paths)
    args = [name] + maker.command(name, number)
    with open(os.path.join(work, "config.yaml"), "w", encoding="utf-8", errors="replace") as f:
        f.write(maker.yaml())
    begun = time.time()
    try:
        done = subprocess.run([*UNTIL.get(name, []), binary, *args], cwd=work, stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * SECONDS_EACH,
                              env={**os.environ, "HOME": work, "HF_HOME": work, "TMPDIR": work})
        fault = judge(done, time.time() - begun, codes)
        told = done.stderr[-2000:].decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        done, fault, told = None, "hang", ""
    for left in os.listdir(work):
        if left.startswith(("out-", ".out-")):
            path = os.path.join(work, left)
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.remove(path)
    return fault, args, told, done.returncode if done else None


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("binary")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--seed", default="1")
    p.add_argument("--work", default="build/fuzz-cli")
    p.add_argument("--only", type=int, help="this case alone, shown")
    o = p.parse_args()
    binary, work = os.path.abspath(o.binary), os.path.abspath(o.work)
    paths = setup(binary, work)
    flags, codes = grammar(binary)
    if o.only is not None:
        print(one(binary, flags, codes, paths, work, o.seed, o.only))
        return 0
    mark = os.path.join(work, f"next-{o.seed}")
    number = int(open(mark).read()) if os.path.exists(mark) else 0
    first, end, tally, failed = number, time.time() + o.seconds, {}, 0
    while time.time() < end:
        fault, args, told, code = one(binary, flags, codes, paths, work, o.seed, number)
        tally[code] = tally.get(code, 0) + 1
        if fault:
            failed += 1
            print(f"{fault}: case {number} of seed {o.seed}: {args}\n{told}", flush=True)
            with open(os.path.join(work, "findings"), "a", encoding="utf-8") as f:
                f.write(json.dumps({"fault": fault, "case": number, "seed": o.seed, "args": args, "told": told}) + "\n")
        number += 1
        with open(mark, "w") as f:
            f.write(str(number))
    print("exit codes", ", ".join(f"{k}: {v}" for k, v in sorted(tally.items(), key=str)))
    print(f"{number - first - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
