#!/usr/bin/env python3
"""run.py - `make test-gpu`: everything about a GPU that is right or wrong, and nothing about how fast it is.

One line for each check, parts with their times, and `N passed, N failed` at the end; --json FILE has the same for programs.
Without a GPU it says so and fails. --device cpu runs what can be run on the processor, to try these scripts. The parts that
compare with PyTorch, or need compute-sanitizer or nvcc, are skipped with a reason where those are missing.
"""
import argparse
import collections
import json
import os
import sys
import tempfile
import threading
import time
import traceback

from bench import Bench, Fault
from order import order
from precision import precision
from refusals import refusals
from run_parts import bits, invariants, kill, memory
from sanitize import sanitize
from verify_parts import large, verify

PARTS = dict(memory=memory, verify=verify, large=large, bits=bits, kill=kill, invariants=invariants, precision=precision, sanitize=sanitize,
             order=order, refusals=refusals)
ALONE = ("memory",)  # run before the others, which run side by side


def cores():
    return len(os.sched_getaffinity(0))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--retort", default="build/retort")
    parser.add_argument("--build", default="build", help="where the test programs are")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu to try the scripts")
    parser.add_argument("--only", default="", metavar="LIST", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--jobs", type=int, default=max(1, min(8, cores() // 2)), help="programs at a time")
    parser.add_argument("--python", metavar="FILE", help="interpreter with torch and transformers; this one without it")
    parser.add_argument("--json", metavar="FILE", help="the results")
    parser.add_argument("--keep", metavar="DIR", help="work here and leave everything behind")
    parser.add_argument("--slow", action="store_true", help="with --device cpu: the 50 steps too")
    args = parser.parse_args()
    args.parts = [p for p in args.only.split(",") if p] or list(PARTS)
    unknown = [p for p in args.parts if p not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return args


def find_device(bench):
    """What `retort doctor` says of the device; None when it is not there."""
    done = bench.call("doctor", "--json")
    facts = json.loads(done.out) if done.status == 0 else {}
    wanted, _, number = bench.device.partition(":")
    here = [d for b in facts.get("backends", []) if b["name"] == wanted for d in b["devices"]]
    return here[int(number or 0)] if len(here) > int(number or 0) else None


def run_part(bench, name, times):
    begun = time.monotonic()
    here = bench.at(name)
    try:
        PARTS[name](here)
    except Fault as fault:
        here.check(False, "it could not go on", str(fault))
    except Exception:  # a fault of these scripts is a failure too, and the other parts go on
        here.check(False, "the script broke", traceback.format_exc(limit=-3).strip())
    times[name] = time.monotonic() - begun


def run(args, folder):
    bench, times, begun = Bench(args, folder), {}, time.monotonic()
    device = find_device(bench)
    if not device:
        print(f"there is no {args.device} here: test-gpu is for a machine with an NVIDIA GPU; retort doctor says what is missing")
        return 1
    print(f"{args.device}: {device['name']}, {device['detail']}")
    for name in ALONE:
        if name in args.parts:
            run_part(bench, name, times)
    threads = [threading.Thread(target=run_part, args=(bench, name, times)) for name in args.parts if name not in ALONE]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = collections.Counter(r["outcome"] for r in bench.results)
    for name in args.parts:
        mine = collections.Counter(r["outcome"] for r in bench.results if r["part"] == name)
        print(f"{name:<12}{mine['ok']:>4} ok {mine['FAIL']:>4} failed {mine['skipped']:>4} skipped {times[name]:8.1f} s")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(dict(device=device, seconds=time.monotonic() - begun, parts=times, passed=counts["ok"],
                           failed=counts["FAIL"], skipped=counts["skipped"], checks=bench.results, facts=bench.facts), f,
                      indent=1)
    print(f"{counts['skipped']} skipped, {args.jobs} programs at a time, {time.monotonic() - begun:.0f} s")
    print(f"{counts['ok']} passed, {counts['FAIL']} failed")
    return 1 if counts["FAIL"] or not counts["ok"] else 0


def main():
    args = parse()
    if args.keep:
        os.makedirs(args.keep)
        return run(args, os.path.abspath(args.keep))
    with tempfile.TemporaryDirectory(prefix="retort-gpu-") as folder:
        return run(args, folder)


if __name__ == "__main__":
    sys.exit(main())
