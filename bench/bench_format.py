#!/usr/bin/env python3
"""bench_format.py - opening and converting models beside the copy of the same bytes, in one run; part of `make bench-text`.

  bench_format.py --retort build/retort [--folder DIR] [--turns N]

Opening: the wall time of a whole `retort inspect --no-hash` of a GGUF of more than 4 GB with a vocabulary, page cache
warm. Converting: hf to gguf without a change of dtype, reading back and comparing included, against `cp` of the same
bytes; both write to the page cache of the same folder, neither waits for the disk in the tmpfs rows, both do in the disk
rows (`cp` followed by `sync`). Turns alternate and the best of each side counts, because machines are shared. Needs
about 11 GB in the folder and 9 GB of memory; exit status 1 when a target is missed.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time


def seconds(command):
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begun


def row(what, ours, theirs, ratio, target):
    met = ratio >= target
    print(f"{what:44} {ours:>12} {theirs:>12} {ratio:6.2f} of {target:4.2f}  {'ok' if met else 'SHORT'}", flush=True)
    return met


def opening(args, folder):
    path = os.path.join(folder, "seven.gguf")
    subprocess.run([args.retort, "init", "--preset", "qwen2.5-7b", "--dtype", "q4_k_m", path], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    size = os.path.getsize(path)
    best = min(seconds([args.retort, "inspect", path, "--no-hash"]) for _ in range(2 + args.turns))
    os.remove(path)
    return row(f"open a GGUF of {size / 1e9:.1f} GB", f"{1000 * best:.1f} ms", "100 ms", 0.1 / best, 1.0)


def converting(args, folder, where, sync):
    source = os.path.join(folder, "model")
    subprocess.run([args.retort, "init", "--preset", "qwen2.5-0.5b", source], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    weights = os.path.join(source, "model.safetensors")
    size = os.path.getsize(weights)
    copy, out = os.path.join(folder, "copy"), os.path.join(folder, "out.gguf")
    ours, theirs = [], []
    for _ in range(args.turns):
        command = f"cp '{weights}' '{copy}'" + (f" && sync '{copy}'" if sync else "")
        theirs.append(seconds(["sh", "-c", command]))
        os.remove(copy)
        ours.append(seconds([args.retort, "convert", source, out]))
        os.remove(out)
    shutil.rmtree(source)
    return row(f"convert {size / 1e9:.1f} GB hf to gguf, {where}", f"{size / min(ours) / 1e9:.2f} GB/s",
               f"{size / min(theirs) / 1e9:.2f} GB/s", min(theirs) / min(ours), 0.6)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--retort", default="build/retort")
    p.add_argument("--folder", default="build")
    p.add_argument("--turns", type=int, default=5)
    args = p.parse_args()
    args.retort = os.path.abspath(args.retort)
    print(f"{'':44} {'retort':>12} {'beside':>12}  ratio")
    met = []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        met.append(opening(args, folder))
        met.append(converting(args, folder, "disk, synced", True))
    if os.path.isdir("/dev/shm"):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            met.append(converting(args, folder, "tmpfs", False))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
