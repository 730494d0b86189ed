#!/usr/bin/env python3
"""tokenizer_bench.py --cli PROGRAM TEXT TOKENIZER.json... - encoding speed beside the `tokenizers` package, one thread each.

TEXT is a file of documents separated by NUL bytes. The package encodes without offsets (encode_batch_fast), its fastest way;
both encode everything once to warm up, then the better of the following rounds counts. The number of ids must agree.
"""
import argparse
import os
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402

ROUNDS = 2


def theirs(path, documents):
    tok = tokenizers.Tokenizer.from_file(path)
    best, count = 1e9, 0
    for round_ in range(ROUNDS + 1):
        start = time.perf_counter()
        count = 0
        for i in range(0, len(documents), 256):
            count += sum(len(e) for e in tok.encode_batch_fast(documents[i:i + 256], add_special_tokens=False))
        if round_:
            best = min(best, time.perf_counter() - start)
    return best, count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cli", required=True)
    parser.add_argument("text")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    data = open(args.text, "rb").read()
    documents = [d.decode("utf-8") for d in data.split(b"\0") if d]
    size = sum(len(d.encode()) for d in documents) / 1e6
    print(f"tokenizers {tokenizers.__version__}, {size:.1f} MB in {len(documents)} documents")
    worst = 1e9
    for path in args.files:
        ours = subprocess.run([args.cli, "bench", path, args.text], capture_output=True, text=True, check=True).stdout.split()
        seconds, count = float(ours[0]), int(ours[1])
        their_seconds, their_count = theirs(path, documents)
        agree = "same count" if count == their_count else f"COUNTS DIFFER: {count} and {their_count}"
        worst = min(worst, their_seconds / seconds) if count == their_count else 0
        print(f"{os.path.basename(path)}: ours {size / seconds:.1f} MB/s, theirs {size / their_seconds:.1f} MB/s, "
              f"{their_seconds / seconds:.2f} times, {count} ids, {agree}", flush=True)
    return 0 if worst >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
