#!/usr/bin/env python3
"""bench_text.py - speed of the text room beside the public packages, in one run; run by `make bench-text`.

A row is a function that gives Row values; ROWS lists them, so that another measure is one more function. Every row states its
target and whether it was met; the exit status is 1 when one was not.

Encoding: 50 MB of code and prose found on this machine (Python packages, C headers, documentation, docstrings), in documents of
about 4 KB, with tokenizers of published configurations and 32,000 tokens trained on a part of it. Both sides run one thread, take turns,
and encode everything once to warm up; the best turn of each counts. The package is called in the faster of its two ways, which is
measured first. The ids must be the same.
"""
import argparse
import ast
import glob
import gzip
import hashlib
import json
import os
import random
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "interop"))
import tokenizers  # noqa: E402
import tokenizer_kinds  # noqa: E402

MB = 1000000
DOCUMENT_BYTES = 4000
VOCABULARY = 32000
KINDS = ["gpt2", "llama3", "qwen2", "deepseek-v3", "llama2"]
TURNS = 3


@dataclass
class Row:
    what: str
    ours: str
    theirs: str
    ratio: float
    target: float

    def met(self):
        return self.ratio >= self.target


# ---- text -----------------------------------------------------------------------------------------------------------

def readable(path):
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
            text = f.read().decode("utf-8")
        return text if "\0" not in text else ""
    except (OSError, UnicodeDecodeError, EOFError):
        return ""


def docstrings(text):
    try:
        nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef))]
    except (SyntaxError, ValueError, RecursionError):
        return ""
    return "\n\n".join(filter(None, (ast.get_docstring(n) for n in nodes)))


def files(patterns, seed):
    """Different files, shuffled so that a part of them is like the whole."""
    found = sorted({p for pattern in patterns for p in glob.glob(pattern, recursive=True) if os.path.isfile(p)})
    random.Random(seed).shuffle(found)
    seen = set()
    for path in found:
        text = readable(path)
        digest = hashlib.sha1(text.encode()).digest()
        if len(text) > 200 and digest not in seen:
            seen.add(digest)
            yield text


def documents(texts, limit):
    """Cut at the ends of lines; stops at so many bytes."""
    out, total = [], 0
    for text in texts:
        part = ""
        for line in text.splitlines(keepends=True):
            part += line[:DOCUMENT_BYTES]
            if len(part) > DOCUMENT_BYTES:
                out.append(part)
                total += len(part.encode())
                part = ""
        if part:
            out.append(part)
            total += len(part.encode())
        if total >= limit:
            break
    return out, total


def make_text(folder, size):
    """The path of the text; it is made once."""
    path = os.path.join(folder, f"text-{size // MB}.bin")
    if not os.path.exists(path):
        packages, system = sysconfig.get_path("purelib"), "/usr/share/doc"
        pages = [f"{system}/**/*.{e}" for e in ("txt", "md", "rst", "txt.gz", "md.gz")] + [f"{system}/*/copyright"]
        python = [f"{packages}/**/*.py", f"{sysconfig.get_path('stdlib')}/**/*.py"]
        prose, prose_bytes = documents(files(pages, 1), size * 3 // 10)
        strings, string_bytes = documents(map(docstrings, files(python, 2)), size // 2 - prose_bytes)
        headers, header_bytes = documents(files(["/usr/include/**/*.h", "/usr/include/**/*.hpp"], 3), size // 4)
        code, code_bytes = documents(files([f"{packages}/**/*.py"], 4), size - prose_bytes - string_bytes - header_bytes)
        everything = prose + strings + headers + code
        random.Random(5).shuffle(everything)
        with open(path + ".note", "w", encoding="utf-8") as f:
            f.write(f"documentation {prose_bytes / MB:.1f} MB, docstrings {string_bytes / MB:.1f} MB, "
                    f"C headers {header_bytes / MB:.1f} MB, Python {code_bytes / MB:.1f} MB")
        with open(path + ".new", "wb") as f:
            f.write(b"".join(d.encode() + b"\0" for d in everything))
        os.replace(path + ".new", path)
    with open(path + ".note", encoding="utf-8") as f:
        return path, f.read()


def make_tokenizer(folder, kind, text):
    path = os.path.join(folder, f"{kind}.json")
    if not os.path.exists(path):
        print(f"training {kind}", flush=True)
        train = tokenizer_kinds.train
        # The configurations ask for a small vocabulary; here it has the size of a real one.
        tokenizer_kinds.train = lambda *a, **k: train(*a, **{**k, "size": VOCABULARY})
        conf = tokenizer_kinds.KINDS[kind](text[::8])
        tokenizer_kinds.train = train
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump(conf, f, ensure_ascii=False)
        os.replace(path + ".new", path)
    return path


# ---- rows -----------------------------------------------------------------------------------------------------------

class Bench:
    def __init__(self, args):
        self.program, self.folder = os.path.join(args.build, "bench_text"), os.path.join(args.build, "bench-text")
        os.makedirs(self.folder, exist_ok=True)
        self.kinds = args.kinds.split(",")
        self.path, self.note = make_text(self.folder, args.size * MB)
        with open(self.path, "rb") as f:
            self.documents = [d.decode() for d in f.read().split(b"\0")[:-1]]
        self.size = sum(len(d.encode()) for d in self.documents) / MB

    def tokenizer(self, kind):
        return make_tokenizer(self.folder, kind, self.documents)

    def ours(self, path, threads, rounds=1):
        """(seconds of the best round, of the processors, number of ids, their sum)"""
        done = subprocess.run([self.program, path, self.path, str(threads), str(rounds)], stdout=subprocess.PIPE, text=True, check=True)
        lines = [line.split() for line in done.stdout.splitlines()]
        wall, cpu = ([float(line[i]) for line in lines[1:-1]] for i in (0, 1))
        return min(wall), min(cpu), int(lines[-1][1]), int(lines[-1][2])

    def rate(self, seconds):
        return f"{self.size / seconds:.1f} MB/s"


def in_batches(tok, documents):
    return sum(len(e) for i in range(0, len(documents), 256) for e in tok.encode_batch_fast(documents[i:i + 256], add_special_tokens=False))


def one_by_one(tok, documents):
    return sum(len(tok.encode(d, add_special_tokens=False)) for d in documents)


def seconds_of(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def encode_rows(bench):
    for kind in bench.kinds:
        path = bench.tokenizer(kind)
        tok = tokenizers.Tokenizer.from_file(path)
        sums = [0, 0]
        for i in range(0, len(bench.documents), 256):  # warms up, too
            for e in tok.encode_batch_fast(bench.documents[i:i + 256], add_special_tokens=False):
                sums[0] += len(e.ids)
                sums[1] += sum(e.ids)
        sample = bench.documents[:len(bench.documents) // 10]
        way = min((in_batches, one_by_one), key=lambda w: seconds_of(lambda: w(tok, sample)))
        ours, theirs = [], []
        for _ in range(TURNS):
            seconds, _, number, total = bench.ours(path, 1)
            if [number, total] != sums:
                sys.exit(f"bench_text.py: {kind}: {number} ids with sum {total}, the package has {sums[0]} with sum {sums[1]}")
            ours.append(seconds)
            theirs.append(seconds_of(lambda: way(tok, bench.documents)))
        how = "encode_batch_fast" if way is in_batches else "encode"
        yield Row(f"encode, {kind}, 1 thread", bench.rate(min(ours)), f"{bench.rate(min(theirs))} {how}", min(theirs) / min(ours), 1.0)


def thread_rows(bench):
    """Two threads against one, in turns; the ratio is to twice the speed. The time of the processors shows what the threads cost one
    another, also on a machine that others use."""
    for kind in bench.kinds:
        path, one, two = bench.tokenizer(kind), [], []
        for _ in range(TURNS):
            one.append(bench.ours(path, 1, 2)[:2])
            two.append(bench.ours(path, 2, 2)[:2])
        wall, cpu = ([min(t[i] for t in turns) for turns in (one, two)] for i in (0, 1))
        yield Row(f"encode, {kind}, 2 threads", bench.rate(wall[1]), f"2 x {bench.rate(wall[0])}; CPU time {cpu[0] / cpu[1]:.2f}",
                  wall[0] / wall[1] / 2, 0.9)


ROWS = [encode_rows, thread_rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--size", type=int, default=50, help="MB of text")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--rows", default="", help="only functions whose names contain this")
    args = parser.parse_args()
    bench = Bench(args)
    print(f"tokenizers {tokenizers.__version__}; {bench.size:.1f} MB in {len(bench.documents)} documents: {bench.note}")
    missed = 0
    print(f"{'':<6} {'what':<34} {'ours':>12}   {'beside':<32} {'ratio':>6} {'target':>7}")
    for rows in ROWS:
        for row in rows(bench) if args.rows in rows.__name__ else ():
            missed += not row.met()
            print(f"{'ok' if row.met() else 'MISSED':<6} {row.what:<34} {row.ours:>12}   {row.theirs:<32} {row.ratio:>6.2f} "
                  f"{row.target:>7.2f}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
