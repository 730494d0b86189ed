"""refusals.py - what cannot be done on a real GPU is refused: the words, the exit code, and nothing left behind."""
import collections
import os

from bench import last_line

Case = collections.namedtuple("Case", "name args status words env resumes", defaults=(None, None))


def refused(bench, case):
    """case.resumes: flags with which what is left can be resumed; None: nothing may be left."""
    out = "no-" + case.name.replace(" ", "-").replace(":", "-")
    done = bench.call("distill", *case.args, "--out", out, env=case.env)
    missing = [w for w in case.words if w not in done.err]
    left = os.path.exists(bench.path(out))
    if left and case.resumes is not None:
        left = bench.call("distill", "--resume", "--out", out, *case.resumes).status != 0
    bench.check(done.status == case.status and not missing and not left, case.name,
                f"status {done.status}, '{last_line(done)}'" + (f", lacks {missing}" if missing else "") +
                (f", wanted status {case.status}" if done.status != case.status else "") +
                (", left something behind" if left else ""))


def refusals(bench):
    if not bench.cuda:
        bench.skip("refusals", "they are of GPUs; tests/unit/test_cuda_backend.c plays them on a stand-in for the driver")
        return
    run = [*bench.pair("bad"), "--batch", 4, "--steps", 2]
    on = [*run, "--device", bench.device]
    unseen = dict(CUDA_VISIBLE_DEVICES="")
    with open(bench.path("no-library.so"), "w") as f:
        f.write("this is no library\n")
    bench.each(lambda case: refused(bench, case), [
        Case("cuda:7 where there are fewer", [*run, "--device", "cuda:7"], 9, ["no cuda:7 here"]),
        Case("a memory limit that nothing fits", [*on, "--memory-limit", "1MiB"], 13, ["1.00 MiB"]),
        Case("cuBLASLt that is not there", [*on, "--cublaslt", "/nowhere/libcublasLt.so"], 9, ["/nowhere/libcublasLt.so"]),
        Case("cuBLASLt that is no library", [*on, "--cublaslt", bench.path("no-library.so")], 9, ["no-library.so"]),
        Case("cuBLASLt that is another library", [*on, "--cublaslt", "libm.so.6"], 9, ["libm.so.6", "cublasLt"]),
        Case("no GPU that may be seen", on, 9, ["no NVIDIA GPU"], unseen),
        Case("kernels that are not in the binary", [*on, "--kernels", "ptx60"], 9, ["ptx_75"]),
        Case("kernels of no kind", [*on, "--kernels", "fast"], 5, ["'fast'", "ptx80"]),
        Case("PTX where the driver may not compile", [*on, "--kernels", "ptx"], 9, ["CUDA_DISABLE_PTX_JIT"],
             dict(CUDA_DISABLE_PTX_JIT="1", CUDA_CACHE_DISABLE="1"), ["--kernels", "auto"]),
    ])
    done = bench.call("distill", *run, "--out", "no-auto", env=unseen)
    first = (done.out.splitlines() or [""])[0]
    bench.check(done.status == 0 and first.startswith("device    cpu: ") and "no GPU" in first,
                "--device auto without a GPU runs on the processor and says why", first[:200], done.seconds)
