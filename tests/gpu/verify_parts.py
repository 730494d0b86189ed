"""verify_parts.py - every op on the GPU against double precision: as it is installed, from PTX, and very large."""
import json

LIMIT = 480  # seconds: the whole suite, its PTX compiled by the driver first, beside other programs
CPU_ALONE = "are computed on the CPU"  # what backend cuda refuses every case of matmul_int8 and all_reduce with
QUIET = dict(CUDA_DISABLE_PTX_JIT="1", CUDA_CACHE_DISABLE="1")  # whatever the driver were to compile would fail


def counts(bench, name, flags, env=None, some=False):
    """One `retort verify`; with `some`, cases that memory is too short for are skipped and not missed."""
    backend = "cuda" if bench.cuda else bench.device
    done = bench.call("verify", "--backend", backend, "--json", *flags, env=env, timeout=LIMIT)
    try:
        result = json.loads(done.out)
    except ValueError:
        bench.check(False, name, f"status {done.status}: {done.err.strip()[-300:]}", done.seconds)
        return
    bad = [c for c in result["cases"] if c["outcome"] == "FAIL"]
    left = [c for c in result["cases"] if c["outcome"] == "unsupported" and not (bench.cuda and CPU_ALONE in c["text"])]
    worst = max((c["error"] for c in result["cases"] if c["outcome"] == "pass"), default=0)
    ok = done.status == 0 and result["passed"] > 0 and not bad and (some or not left)
    detail = f"{result['passed']} passed, {result['failed']} failed, {result['unsupported']} unsupported, " \
             f"worst {100 * worst:.0f} % of what is allowed"
    for case in (bad + ([] if some else left))[:5]:
        detail += f"\n        {case['name']}: {case['text']}"
    bench.check(ok, name, detail, done.seconds)
    for case in left if some else []:
        bench.skip(case["name"], case["text"])
    for case in sorted(result["cases"], key=lambda c: -c["seconds"])[:3] if some else []:
        bench.note(f"{case['name']} took {case['seconds']:.1f} s")


def verify(bench):
    own = ["--cublaslt", "none"]
    runs = [("machine code, nothing compiled by the driver", [], QUIET),
            ("PTX of compute_80, which sm_80 to sm_89 have in common", ["--kernels", "ptx80"], None),
            ("PTX of compute_80 with our own products, quick", ["--quick", "--kernels", "ptx80", *own], None),
            ("the embedded PTX with our own products, quick", ["--quick", "--kernels", "ptx", *own], None),
            ("PTX of compute_75 with our own products, quick", ["--quick", "--kernels", "ptx75", *own], None)]
    if not bench.cuda:
        runs = [("quick", ["--quick"], None)]
    bench.each(lambda run: counts(bench, *run), runs)


def large(bench):
    if not bench.cuda:
        bench.skip("more than 2^31 elements", "for GPUs; tests/unit/test_verify_large.c runs the same with fewer")
        return
    counts(bench, "more than 2^31 elements", ["--large"], some=True)
