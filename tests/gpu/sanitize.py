"""sanitize.py - compute-sanitizer over a small run and some ops: bad addresses, races, reads of what nothing wrote, barriers.

The run is two steps of models whose heads are 64 wide, so that the tensor-core kernels run; once with cuBLASLt, once with
products of our own. Each tool first has to find what planted.cu has for it: a tool that sees nothing proves nothing.
"""
import os
import re
import shutil

from bench import LATE, last_line

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")
OPS = ("attn_bwd", "kd_loss", "rmsnorm_bwd", "embed_bwd", "norm_sq")  # shared memory, clusters, partial sums, atomics


def faults(done):
    """How many the tool counted; None where it did not come to its end."""
    found = SUMMARY.findall(done.out + done.err)
    return sum(int(a or b) for a, b in found) if found else None


def first_fault(done):
    lines = [line.lstrip("= ") for line in (done.out + done.err).splitlines() if line.startswith("=========")]
    told = [line for line in lines if line and not line.startswith(("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY"))]
    return " | ".join(told[:6])[:600] if told else last_line(done)


def under(bench, tool, command):
    return bench.run([bench.sanitizer, "--tool", tool, "--error-exitcode", 99, "--print-limit", 5, *command], timeout=150)


def planted(bench, tool):
    done = under(bench, tool, [bench.path("planted"), tool])
    count = faults(done)
    bench.check(bool(count), f"{tool} finds what was planted for it",
                f"{count} found" if count is not None else last_line(done), done.seconds)


def clean(bench, what):
    tool, name, command = what
    done = under(bench, tool, [bench.retort, *command])
    count = faults(done)
    ok = count == 0 and done.status == 0 and (name[:3] == "op " or LATE + "0" in done.out)
    bench.check(ok, f"{tool}: {name}", "0 found" if ok else f"{count} found, status {done.status}: {first_fault(done)}",
                done.seconds)


def build_planted(bench):
    """None, or why it could not be made."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        return "no nvcc here to compile planted.cu"
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "planted.cu")
    done = bench.run([nvcc, "-arch=native", "-lineinfo", "-o", "planted", source])
    return None if done.status == 0 else f"planted.cu does not compile: {last_line(done)}"


def sanitize(bench):
    bench.sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not bench.cuda or not os.path.exists(bench.sanitizer):
        bench.skip("compute-sanitizer", "it is for GPUs" if not bench.cuda else "it is not installed")
        return
    why = build_planted(bench)
    if why:
        bench.skip("what was planted", why)
    else:
        bench.each(lambda tool: planted(bench, tool), TOOLS)
    base = ["distill", *bench.pair("san"), "--batch", 4, "--micro-batch", 2, "--steps", 2, "--eval-every", 1000000, "--save-every",
            1000000, "--save", "last", "--device", bench.device]
    work = [(tool, "two steps", [*base, "--out", f"san-{tool}"]) for tool in TOOLS]
    own = [*base, "--cublaslt", "none"]
    work += [(tool, "two steps, products of our own", [*own, "--out", f"san-own-{tool}"]) for tool in TOOLS]
    work += [(tool, f"op {op}", ["verify", "--backend", "cuda", "--quick", "--op", op]) for op in OPS for tool in TOOLS]
    bench.each(lambda what: clean(bench, what), work)
