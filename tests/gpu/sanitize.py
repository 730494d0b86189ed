"""sanitize.py - compute-sanitizer over a small run and some ops: bad addresses, races, reads of what nothing wrote, barriers.

The run is two steps of models whose heads are 64 wide, so that the tensor-core kernels run; with GEMMs of our own and,
where that is about us, with cuBLASLt. Each tool first has to find what planted.cu has for it: a tool that sees nothing proves
nothing. racecheck looks inside kernels, and those of cuBLASLt are not ours. initcheck takes what cuBLASLt 13.1 wrote on an H200
for unwritten (whoever reads it first is reported, and with GEMMs of our own nobody is), so with cuBLASLt it judges the
pre-warm alone, which is all before the first program runs (so no fp8 teacher is measured, which would be programs before it).
"""
import os
import re
import shutil

from bench import LATE, last_line

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")
OPS = ("attn_fwd", "attn_bwd", "kd_loss", "rmsnorm_fwd", "add_rmsnorm_fwd", "rmsnorm_bwd", "swiglu_fwd", "embed_bwd", "bias_grad",
       "norm_sq", "quant_rows", "matmul_scaled")  # shared memory, clusters, sums
# Rows that several blocks have: forward KL, reverse, skewed, top-k, CE, one that is not in whole packs.
LONG = ("bf16.bf16/2x151936", "bf16.bf16/3x128264", "bf16.bf16/2x201096", "bf16.-/3x128264", "bf16.-/2x70003", "f16.f16/2x70003")


def faults(done):
    """How many the tool counted; None where it did not come to its end."""
    found = SUMMARY.findall(done.out + done.err)
    return sum(int(a or b) for a, b in found) if found else None


def first_fault(done):
    lines = [line.lstrip("= ") for line in (done.out + done.err).splitlines() if line.startswith("=========")]
    told = [line for line in lines if line and not line.startswith("COMPUTE-SANITIZER") and not SUMMARY.match(line)]
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
    with open(bench.path(f"{tool}-{re.sub('[ /]', '-', name)}.log"), "w") as f:  # for --keep
        f.write(done.out + done.err)
    bench.check(ok, f"{tool}: {name}", "0 found" if ok else f"{count} found, status {done.status}: {first_fault(done)}",
                done.seconds)


def warm_up(bench, command):
    """Nothing that was not written is read before the run says what it will do; that is when everything is loaded."""
    done = under(bench, "initcheck", [bench.retort, *command])
    before, said, _ = done.out.partition("\nobjective ")
    bench.check(bool(said) and "Uninitialized" not in before and faults(done) is not None, "initcheck: the pre-warm with cuBLASLt",
                "0 found" if said else f"status {done.status}: {first_fault(done)}", done.seconds)


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
    base = ["distill", *bench.pair("san"), "--teacher-weights", "native", "--steps", 2, "--tune", "off", "--eval-every", 1000000, "--save-every", 1000000, "--save", "last",
            "--device", bench.device]
    library, own = [*base, "--batch", 4, "--micro-batch", 2], [*base, "--batch", 4, "--micro-batch", 2, "--cublaslt", "none"]
    work = [(tool, "two steps, GEMMs of our own", [*own, "--out", f"san-own-{tool}"]) for tool in TOOLS]
    work += [(tool, "two steps", [*library, "--out", f"san-{tool}"]) for tool in ("memcheck", "synccheck")]
    work += [(tool, f"op {op}", ["verify", "--backend", "cuda", "--quick", "--op", op]) for op in OPS for tool in TOOLS]
    work += [(tool, f"op kd_loss, {case}", ["verify", "--backend", "cuda", "--op", "kd_loss", "--case", case])
             for case in LONG for tool in TOOLS]
    jobs = [lambda what=what: clean(bench, what) for what in work]
    jobs.insert(4, lambda: warm_up(bench, [*base, "--batch", 1, "--out", "san-warm"]))
    bench.each(lambda job: job(), jobs)
