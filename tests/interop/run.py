#!/usr/bin/env python3
"""run.py [--light] [--only NAME,...] - runs tests/interop/test_*.py one after another; ends with `N passed, N failed`.

Each test is a script with BUILD and RETORT in its environment, and INTEROP_LIGHT=1 with --light, when tests named *_torch.py or
*_large.py, whose packages are large, are left out. The last line `N passed, N failed` of a test is its count. One that fails without a failed case, prints no count, or
runs out of time is one failure more.
"""
import argparse
import glob
import os
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
COUNT_LINE = re.compile(r"^(\d+) passed, (\d+) failed$")


def run(path, timeout, env):
    """(passed, failed, remark); what the test prints is passed on as it comes, its count apart."""
    process = subprocess.Popen([sys.executable, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env=env, start_new_session=True, text=True, encoding="utf-8", errors="replace")
    late = threading.Event()

    def stop():
        late.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(timeout, stop)
    timer.start()
    counted = None
    for line in process.stdout:
        found = COUNT_LINE.match(line)
        counted = (int(found[1]), int(found[2])) if found else counted
        if not found:
            print("    " + line.rstrip("\n"), flush=True)
    status = process.wait()
    timer.cancel()
    passed, failed = counted or (0, 0)
    if late.is_set():
        return passed, failed + 1, f"timed out after {timeout} s"
    if status != 0 and failed == 0:
        return passed, 1, f"exit status {status}"
    if status == 0 and failed:
        return passed, failed, "exit status 0 in spite of failures"
    if passed + failed == 0:
        return 0, 1, "no case ran"
    return passed, failed, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--only", default="", help="names, or parts of names, of the tests to run")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for one test")
    args = parser.parse_args()
    env = dict(os.environ, PYTHONPATH=HERE, INTEROP_LIGHT="1" if args.light else "0", TOKENIZERS_PARALLELISM="false",
               HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TRANSFORMERS_NO_ADVISORY_WARNINGS="1")
    wanted = [part for part in args.only.split(",") if part]
    total_passed = total_failed = 0
    summary = []
    for path in sorted(glob.glob(os.path.join(HERE, "test_*.py"))):
        name = os.path.basename(path)[5:-3]
        if (args.light and name.endswith(("_torch", "_large"))) or (wanted and not any(part in name for part in wanted)):
            continue
        print(f"{name}:", flush=True)
        start = time.monotonic()
        passed, failed, remark = run(path, args.timeout, env)
        total_passed, total_failed = total_passed + passed, total_failed + failed
        summary.append(f"{'FAIL' if failed else 'ok':<5}{name:<24} {passed} passed, {failed} failed {time.monotonic() - start:7.1f} s"
                       + (f"  {remark}" if remark else ""))
    print("\n".join(summary))
    if not summary:
        print("run.py: no test of that name", file=sys.stderr)
        total_failed = 1
    print(f"{total_passed} passed, {total_failed} failed")
    return 1 if total_failed else 0


if __name__ == "__main__":
    sys.exit(main())
