"""refusals.py - what cannot be done on a real GPU is refused: the words, the exit code, and nothing left behind."""
import os

from bench import last_line, shape

VOCAB = 512


def refused(bench, name, args, status, *words, env=None):
    out = "no-" + name.replace(" ", "-").replace("/", "-")
    done = bench.call("distill", *args, "--out", out, env=env)
    said = done.err + done.out
    missing = [w for w in words if w not in said]
    left = os.path.exists(bench.path(out))
    errors = [line for line in done.err.splitlines() if line.strip()]
    bench.check(done.status == status and not missing and not left and errors, name,
                f"status {done.status}, '{last_line(done)}'" + (f", lacks {missing}" if missing else "") +
                (f", wanted status {status}" if done.status != status else "") + (", left a folder behind" if left else ""))


def refusals(bench):
    if not bench.cuda:
        bench.skip("refusals", "they are of GPUs; tests/unit/test_cuda_backend.c plays them on a stand-in for the driver")
        return
    bench.tokens("bad.u32", 8 * 64, VOCAB, 1)
    bench.tokens("bad-held.u32", 2 * 64, VOCAB, 2)
    bench.model("bad-s", 1, "bf16", **shape(128, 2, 2, 1, 320, VOCAB))
    bench.model("bad-t", 2, "bf16", **shape(128, 2, 2, 1, 320, VOCAB))
    run = ["--teacher", "bad-t", "--student", "bad-s", "--data", "bad.u32", "--eval-data", "bad-held.u32", "--vocab", VOCAB, "--batch",
           4, "--seq-len", 64, "--steps", 2, "--sample-prompts", "none"]
    on = [*run, "--device", bench.device]
    with open(bench.path("no-library.so"), "w") as f:
        f.write("this is no library\n")
    cases = [
        ("cuda:7 where there are fewer", [*run, "--device", "cuda:7"], 9, ("no cuda:7 here",), None),
        ("a memory limit that nothing fits", [*on, "--memory-limit", "1MiB"], 13, ("1.00 MiB",), None),
        ("cuBLASLt that is not there", [*on, "--cublaslt", "/nowhere/libcublasLt.so"], 9, ("/nowhere/libcublasLt.so",), None),
        ("cuBLASLt that is no library", [*on, "--cublaslt", bench.path("no-library.so")], 9, ("no-library.so",), None),
        ("cuBLASLt that is another library", [*on, "--cublaslt", "libm.so.6"], 9, ("libm.so.6", "cublasLt"), None),
        ("no GPU that may be seen", on, 9, ("no NVIDIA GPU",), dict(CUDA_VISIBLE_DEVICES="")),
        ("kernels that are not in the binary", [*on, "--kernels", "ptx60"], 9, ("ptx_75",), None),
        ("kernels of no kind", [*on, "--kernels", "fast"], 5, ("'fast'", "ptx75"), None),
        ("PTX where the driver may not compile", [*on, "--kernels", "ptx"], 9, ("CUDA_DISABLE_PTX_JIT",),
         dict(CUDA_DISABLE_PTX_JIT="1", CUDA_CACHE_DISABLE="1")),
    ]
    bench.each(lambda c: refused(bench, c[0], c[1], c[2], *c[3], env=c[4]), cases)
    # Without a GPU `auto` takes the processor, and says why.
    done = bench.call("distill", *run, "--out", "no-auto", env=dict(CUDA_VISIBLE_DEVICES=""))
    first = (done.out.splitlines() or [""])[0]
    bench.check(done.status == 0 and first.startswith("device    cpu: ") and "no GPU" in first,
                "--device auto without a GPU runs on the processor and says why", first[:200], done.seconds)
