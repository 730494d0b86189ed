#!/usr/bin/env python3
"""run.py --build DIR [--seconds N | --merge] NAME... - runs fuzz targets one after another; ends with `N passed, N failed`.

DIR/fuzz_NAME is the program. It starts from tests/fuzz/corpus/NAME and from what earlier runs left in DIR/corpus/NAME, where
it puts what it finds; an input that breaks it goes to DIR/findings and to the screen. With --merge inputs that reach something
new go to tests/fuzz/corpus/NAME, as long as that stays small.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS_BYTES, CORPUS_FILES, INPUT_BYTES = 300_000, 600, 4096
# One input may take this long in a sanitized build; a parser that needs more has lost its bounds.
INPUT_SECONDS, MEMORY_MB = 20, 3072


def size_of(folder):
    sizes = [os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)]
    return len(sizes), sum(sizes)


def last_number(pattern, text):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def fuzz(name, build, seconds):
    """Whether the target ran its time without a finding."""
    work, findings, committed = os.path.join(build, "corpus", name), os.path.join(build, "findings"), os.path.join(HERE, "corpus", name)
    os.makedirs(work, exist_ok=True)
    os.makedirs(findings, exist_ok=True)
    command = [os.path.join(build, "fuzz_" + name), work, committed, f"-max_total_time={seconds}", f"-timeout={INPUT_SECONDS}",
               f"-rss_limit_mb={MEMORY_MB}", f"-artifact_prefix={findings}/{name}-", "-print_final_stats=1", "-verbosity=1"]
    dictionary = os.path.join(HERE, name + ".dict")
    if os.path.exists(dictionary):
        command.append("-dict=" + dictionary)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    executed, covered = last_number(r"stat::number_of_executed_units:\s+(\d+)", text), last_number(r"cov: (\d+)", text)
    ok = done.returncode == 0 and executed > 0
    print(f"{'ok' if ok else 'FAIL':<5}{name:<20} {executed:>12,} runs in {seconds} s, {covered:,} edges, {size_of(work)[0]:,} inputs kept",
          flush=True)
    if not ok:
        print("\n".join("    " + line for line in text.splitlines()[-120:]), flush=True)
    return ok


def merge(name, build):
    """Adds to the committed corpus; whether it is still small."""
    work, committed = os.path.join(build, "corpus", name), os.path.join(HERE, "corpus", name)
    before = size_of(committed)
    with tempfile.TemporaryDirectory() as chosen:
        for f in os.listdir(committed):
            shutil.copy(os.path.join(committed, f), chosen)
        subprocess.run([os.path.join(build, "fuzz_" + name), "-set_cover_merge=1", f"-max_len={INPUT_BYTES}", chosen, work],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        files, total = before
        # Names are hashes, so in their order come short and long ones mixed.
        new = sorted(set(os.listdir(chosen)) - set(os.listdir(committed)))
        for f in new:
            size = os.path.getsize(os.path.join(chosen, f))
            if files >= CORPUS_FILES or total + size > CORPUS_BYTES:
                break
            shutil.copy(os.path.join(chosen, f), committed)
            files, total = files + 1, total + size
    print(f"{name}: {before[0]} inputs, {before[1]} bytes -> {files}, {total}; {len(new)} would widen coverage")
    return total <= CORPUS_BYTES


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("names", nargs="+")
    args = parser.parse_args()
    results = [merge(name, args.build) if args.merge else fuzz(name, args.build, args.seconds) for name in args.names]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
