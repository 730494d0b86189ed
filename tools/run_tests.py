#!/usr/bin/env python3
"""run_tests.py - runs the test programs, counts their cases, ends with `N passed, N failed`.

Five kinds: unit (cmocka programs), replay (fuzz targets on their corpora), structure and cli (scripts), verify (`retort
verify`). cmocka's summary lines are summed; of the others the line `N passed, N failed` is the count; a script that
prints no count is one case. A program that crashes, runs out of time, fails without a failed case, or passes without
running any case is one failure more, so nothing passes by not running. What a failing program printed is shown. --jobs of
them run side by side, those that take longest first, scripts and proofs on their share of the cores: threads that wait for
one another take the time of whoever else is there. Scripts that say so in a line of their own are treated otherwise:

  # Times runs: alone.          has all cores, one such script after another, when the others are done
  # Waits: beside the others.   is one more beside the --jobs, one such script after another: it sleeps most of its time
  # Files on disk.              works where the system keeps temporary files; the others in memory, where there is room

Needs the standard library only.
"""
import argparse
import concurrent.futures
import contextlib
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

COUNT_LINE = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)
CMOCKA = re.compile(r"^\[\s+(PASSED|FAILED|SKIPPED)\s+\] (\d+) test\(s\)", re.M)
SHOWN_LINES = 200


def heed_signals():
    """Whoever starts this in the background, or under nohup, may have it ignore what tests send; programs keep to that."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def shares(jobs):
    """The cores that this process may use, dealt out to so many: sets of cores, as many as jobs."""
    cores = sorted(os.sched_getaffinity(0))
    return [cores[i * len(cores) // jobs:(i + 1) * len(cores) // jobs] or [cores[i % len(cores)]] for i in range(jobs)]


def run(command, timeout, env, cores=None):
    """(exit status, text, seconds, (user, system) seconds of the CPU) of it on these cores, or on all; the status is
    'timeout' when time ran out."""
    def begin():
        heed_signals()
        if cores:
            os.sched_setaffinity(0, cores)

    start = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env=env, start_new_session=True, preexec_fn=begin)
    timed_out = threading.Event()

    def stop():
        timed_out.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(timeout, stop)
    timer.start()
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)  # what it waited for counts as its own
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return ("timeout" if timed_out.is_set() else process.returncode, output.decode("utf-8", "replace"),
            time.monotonic() - start, (used.ru_utime, used.ru_stime))


def count(kind, text):
    """(passed, failed, skipped), or None where the output holds no count."""
    if kind == "unit":
        sums = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}
        found = CMOCKA.findall(text)
        for word, number in found:
            sums[word] += int(number)
        return (sums["PASSED"], sums["FAILED"], sums["SKIPPED"]) if found else None
    found = COUNT_LINE.findall(text)  # the last one; a program that fails may add an error message below it
    return (int(found[-1][0]), int(found[-1][1]), 0) if found else None


def judge(kind, status, text):
    """(passed, failed, skipped, remark)"""
    counted = count(kind, text)
    if counted is None and kind in ("structure", "cli"):
        counted = (1, 0, 0) if status == 0 else (0, 1, 0)
    passed, failed, skipped = counted or (0, 0, 0)
    if status == "timeout":
        return passed, failed + 1, skipped, "timed out"
    if status < 0:
        return passed, failed + 1, skipped, f"killed by {signal.Signals(-status).name}"
    if status != 0 and failed == 0:
        return passed, 1, skipped, f"exit status {status}"
    if status == 0 and failed:
        return passed, failed, skipped, "exit status 0 in spite of failures"
    if counted is None or passed + failed == 0:
        return passed, failed + 1, skipped, "no case ran"
    return passed, failed, skipped, ""


def plan(args):
    """The programs to run: (kind, shown name, command)."""
    emulator = shlex.split(args.emu)
    for path in args.structure:
        yield "structure", path, [sys.executable if path.endswith(".py") else "sh", path]
    for path in args.unit:
        yield "unit", f"unit/{os.path.basename(path)}", emulator + [path]
    for path in args.replay:
        name = os.path.basename(path)
        yield "replay", f"replay/{name}", emulator + [path, os.path.join("tests/fuzz/corpus", name)]
    for backend in args.verify:
        command = [args.retort, "verify", "--backend", backend] + (["--quick"] if args.quick else [])
        yield "verify", "retort " + " ".join(command[1:]), emulator + command
    for path in args.cli:
        yield "cli", path, ["sh", path]


ALONE, BESIDE, ON_DISK = "# Times runs: alone.\n", "# Waits: beside the others.\n", "# Files on disk.\n"


def says(line, kind, command):
    if kind != "cli":
        return False
    with open(command[-1], encoding="utf-8") as script:
        return line in script


MEMORY, ROOM = "/dev/shm", 4 << 30


def room_in_memory():
    """Is there a file system in memory that takes what the tests write? A run of one model makes two hundred syncs: on a
    disk that is most of its time."""
    try:
        about = os.statvfs(MEMORY)
        with open("/proc/meminfo", encoding="ascii") as f:
            available = next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return False
    return os.access(MEMORY, os.W_OK) and about.f_bavail * about.f_frsize >= ROOM and available >= 2 * ROOM


LONGEST_FIRST = "verify", "cli", "structure", "unit", "replay"


def path_of_python():
    """PATH on which python3 is the interpreter of this program itself, not a wrapper that looks for one at every start."""
    folder, path = os.path.dirname(sys.executable or ""), os.environ.get("PATH", os.defpath)
    return f"{folder}:{path}" if os.path.exists(os.path.join(folder, "python3")) else path


def results(args, work):
    """(kind, shown name, what run returns) of every program, in the order of the plan. work: the folder for what they write;
    None: where the system has it."""
    env = dict(os.environ, RETORT=os.path.abspath(args.retort), EMU=args.emu, PATH=path_of_python())
    env.pop("OPENBLAS_CORETYPE", None)  # of whoever starts the tests: it may ask for less than the CPU can do
    programs = list(plan(args))
    free = queue.SimpleQueue()
    for share in shares(args.jobs):
        free.put(share)

    def start(kind, command, cores=None):
        own = dict(env, TMPDIR=work) if work and not says(ON_DISK, kind, command) else env
        return run(command, args.timeout, own, cores)

    def on_share(kind, command):
        share = free.get()
        try:
            return start(kind, command, share if kind in ("cli", "verify") else None)
        finally:
            free.put(share)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool, concurrent.futures.ThreadPoolExecutor(1) as beside:
        futures = {}
        # What takes minutes is begun first, so that nobody waits for it alone at the end.
        for kind, name, command in sorted(programs, key=lambda program: LONGEST_FIRST.index(program[0])):
            if says(BESIDE, kind, command):
                futures[name] = beside.submit(start, kind, command)
            elif not says(ALONE, kind, command):
                futures[name] = pool.submit(on_share, kind, command)
        for kind, name, _ in programs:
            if name in futures:
                yield kind, name, futures[name].result()
    for kind, name, command in programs:
        if name not in futures:
            yield kind, name, start(kind, command)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--retort", default="build/retort", help="the binary")
    parser.add_argument("--emu", default="", help="command that runs a program of the target")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one program")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--quick", action="store_true", help="verify runs its quick set")
    parser.add_argument("--verify", action="append", default=[], metavar="BACKEND")
    for kind in ("structure", "cli", "unit", "replay"):
        parser.add_argument(f"--{kind}", nargs="*", default=[], metavar="PROGRAM")
    args = parser.parse_args()

    with contextlib.ExitStack() as stack:
        memory = "TMPDIR" not in os.environ and room_in_memory()
        work = stack.enter_context(tempfile.TemporaryDirectory(prefix="retort-tests-", dir=MEMORY)) if memory else None
        return tell(results(args, work))


def tell(found):
    """Prints what came of each program, and the counts; returns the exit status."""
    total_passed = total_failed = total_skipped = 0
    red = []
    for kind, name, (status, text, seconds, (user, system)) in found:
        passed, failed, skipped, remark = judge(kind, status, text)
        total_passed += passed
        total_failed += failed
        total_skipped += skipped
        counts = f"{passed} passed" + (f", {failed} failed" if failed else "") + (f", {skipped} skipped" if skipped else "")
        print(f"{'FAIL' if failed else 'ok':<5}{name:<42} {counts:<24} {seconds:7.2f} s (CPU {user:.2f} + {system:.2f}){'  ' + remark if remark else ''}")
        if failed:
            red.append(name)
            lines = text.splitlines()
            if len(lines) > SHOWN_LINES:
                print(f"    ... {len(lines) - SHOWN_LINES} lines left out")
            for line in lines[-SHOWN_LINES:]:
                print(f"    {line}")
        sys.stdout.flush()
    if red:
        print("failed: " + ", ".join(red))
    if total_skipped:
        print(f"{total_skipped} skipped")
    if total_passed + total_failed == 0:
        print("run_tests.py: nothing to run", file=sys.stderr)
        total_failed = 1
    print(f"{total_passed} passed, {total_failed} failed")
    return 1 if total_failed else 0


if __name__ == "__main__":
    sys.exit(main())
