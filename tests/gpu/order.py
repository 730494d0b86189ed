"""order.py - the pre-warm on the real driver: code first, memory then, weights last, and nothing of it once steps run.

trace.c, an auditor of the loader, writes the name of every driver and cuBLASLt function that retort calls to a file.
"""
import os

CODE = {"cuModuleLoadDataEx", "cuModuleGetFunction", "cublasLtMatmulAlgoGetHeuristic"}
MEMORY = {"cuMemAlloc_v2", "cuMemAllocManaged"}
UPLOAD, STEP, RECORD = "cuMemcpyHtoDAsync_v2", "cuGraphLaunch", "cuStreamEndCapture"


def first(calls, names):
    return next((i for i, call in enumerate(calls) if call in names), None)


def last(calls, names):
    return next((i for i in range(len(calls) - 1, -1, -1) if calls[i] in names), None)


def rules(calls):
    """(rule, whether it holds, what was seen); a call that never comes breaks the rules about it."""
    start, code, upload = first(calls, {STEP}), last(calls, CODE), first(calls, {UPLOAD})
    record, memory = last(calls, {RECORD}), last(calls, MEMORY)
    if None in (start, code, upload, record, memory):
        wanted = CODE | MEMORY | {UPLOAD, STEP, RECORD}
        return [("there are calls to judge", False, f"{len(calls)} calls, and not all kinds of {wanted}")]
    late = [c for c in calls[start:] if c in CODE | MEMORY | {"cuFuncLoad"}]
    return [("every module, function and algorithm is there before the first byte is uploaded", code < upload,
             f"call {code} before {upload}"),
            ("every program is recorded before the first one runs", record < start, f"call {record} before {start}"),
            ("all memory is allocated before the first program runs", memory < start, f"call {memory} before {start}"),
            ("nothing is loaded or allocated once programs run", not late,
             f"{len(calls) - start} calls, {late[:5] or 'none of them'}")]


def order(bench):
    trace = os.path.join(bench.build, "tests", "gpu_trace.so")
    if not bench.cuda or not os.path.exists(trace):
        bench.skip("order of calls", "it is for GPUs" if not bench.cuda else f"{trace} is not there")
        return
    # Left to itself, a run first measures an fp8 teacher with programs of its own.
    args = [*bench.pair("ord", teacher="ord-t.gguf"), "--teacher-weights", "native", "--batch", 4, "--micro-batch", 2, "--steps", 4]
    bench.distill("ord-first", *args)  # GEMMs are timed, on numbers that are uploaded
    bench.distill("ord", *args, env=dict(LD_AUDIT=trace, RETORT_TRACE=bench.path("calls.txt")))
    with open(bench.path("calls.txt")) as f:
        calls = f.read().split()
    for name, ok, detail in rules(calls):
        bench.check(ok, name, detail)
    bench.check(not all(ok for _, ok, _ in rules([*calls, "cuModuleLoadDataEx"])), "control: a module loaded late is noticed")
