#!/usr/bin/env python3
"""bench_table.py --build DIR [--megabytes N] - how fast tables become records: MB of text a second on one core, for each codec.

Writes Parquet files of documents with pyarrow, from the environment of `make test-interop`, and a CSV; reads the column `text`
with build/interop/table_cli, three times each, by CPU time of the thread, the fastest counts. The same with pyarrow on one thread
beside it, which stops at Arrow arrays and makes no JSON of them.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

ROUNDS = 3


def documents(megabytes):
    """Texts of some hundred to some thousand bytes, put together from this repository's own files."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    lines = []
    for folder, _, names in sorted(os.walk(os.path.join(root, "src"))):
        for name in sorted(names):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                lines += f.read().splitlines(keepends=True)
    rng, total = random.Random(1), 0
    while total < megabytes * 1e6:
        start = rng.randrange(len(lines) - 100)
        text = "".join(lines[start:start + rng.randrange(5, 100)])
        total += len(text.encode())
        yield text


def ours(program, kind, path):
    times = []
    for _ in range(ROUNDS):
        done = subprocess.run([program, "time", kind, path, "text"], capture_output=True, text=True, check=True)
        rows, _, seconds = done.stdout.split()
        times.append(float(seconds))
    return int(rows), min(times)


def theirs(read):
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        rows = read().num_rows
        times.append(time.process_time() - start)
    return rows, min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--megabytes", type=int, default=1000)
    args = parser.parse_args()
    program = os.path.join(args.build, "interop", "table_cli")
    texts = list(documents(args.megabytes))
    size = sum(len(t.encode()) for t in texts) / 1e6
    table = pa.table({"id": range(len(texts)), "text": texts})
    del texts
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    faults = 0
    print(f"{table.num_rows:,} documents, {size:,.0f} MB of text, pyarrow {pa.__version__}")
    print(f"{'':<14}{'MB on disk':>11}{'retort MB/s':>13}{'pyarrow MB/s':>14}")
    with tempfile.TemporaryDirectory(dir=args.build) as folder:
        path = os.path.join(folder, "t")
        for name in ("none", "snappy", "lz4", "zstd", "gzip", "brotli", "csv"):
            if name == "csv":
                pyarrow.csv.write_csv(table, path)
                read = lambda: pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True))  # noqa: E731
            else:
                pq.write_table(table, path, compression=name, use_dictionary=False, row_group_size=20000)
                read = lambda: pq.read_table(path, columns=["text"], use_threads=False)  # noqa: E731
            rows, seconds = ours(program, "csv" if name == "csv" else "parquet", path)
            their_rows, their_seconds = theirs(read)
            faults += rows != table.num_rows or their_rows != rows
            print(f"{name:<14}{os.path.getsize(path) / 1e6:>11,.0f}{size / seconds:>13,.0f}{size / their_seconds:>14,.0f}", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
