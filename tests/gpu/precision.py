"""precision.py - how far 50 steps in bf16 are from 50 steps in f32, ours beside PyTorch's, and one step beside transformers.

Models of `retort init` (teacher 384 wide, student 256, 8 layers each, 8,000 ids), 16 rows of 256 tokens that make up every
step, so that both sides see the same batches whatever their order. Ours in f32: the kernels of compute_75 on the same GPU.
PyTorch's: transformers in f32, and under autocast to bf16 with f32 masters and a bf16 teacher (torch_curve.py, which also
computes the distances). Distance of two runs: |w - w'| / |w' - w0| over all weights, w0 where both began; and the root mean
square over steps of the losses' relative difference.
"""
import json
import os
import sys

from bench import last_line, shape

VOCAB, ROWS, TIME, STEPS, RATE = 8000, 16, 256, 50, 1e-3
FACTOR = 1.2  # ours may be so much further than PyTorch's


def python_with_torch(bench):
    """(interpreter, None) or (None, why there is none)."""
    test = "import torch, transformers, safetensors"
    if bench.cuda:
        test += "; assert torch.cuda.is_available(), 'PyTorch sees no GPU'"
    done = bench.run([bench.args.python or sys.executable, "-c", test])
    return (bench.args.python or sys.executable, None) if done.status == 0 else (None, last_line(done))


def precision(bench):
    if not bench.cuda and not bench.args.slow:
        bench.skip("50 steps", "the processor computes in f32: there is nothing to compare; --slow runs it all the same")
        return
    python, why = python_with_torch(bench)
    bench.tokens("far.u32", ROWS * TIME, VOCAB, 1)
    bench.tokens("far-held.u32", 4 * TIME, VOCAB, 2)
    student = bench.model("far-s", 1, "bf16", **shape(256, 8, 4, 2, 704, VOCAB))
    teacher = bench.model("far-t", 2, "bf16", **shape(384, 8, 6, 2, 1024, VOCAB))
    base = ["--student", student, "--teacher", teacher, "--data", "far.u32", "--eval-data", "far-held.u32", "--vocab", VOCAB,
            "--batch", ROWS, "--seq-len", TIME, "--steps", STEPS, "--lr", RATE, "--schedule", "constant", "--warmup", 0,
            "--alpha", 0.7, "--sample-prompts", "none", "--eval-every", 1000000, "--save-every", 1000000, "--save", "last",
            "--save-dtype", "f32"]
    narrow = ["--kernels", "ptx75"] if bench.cuda else []
    runs = {"far-f32": ["--dump-step", 1, *narrow], "far-bf16": []}
    bench.each(lambda name: bench.distill(name, *base, *runs[name]), runs)
    if not python:
        bench.skip("beside PyTorch", f"no PyTorch with transformers here: {why}")
        return
    bench.each(lambda check: check(bench, python, student, teacher), (beside_transformers, beside_torch))


def beside_transformers(bench, python, student, teacher):
    done = bench.run([python, os.path.join(bench.root, "tools", "check_step.py"), bench.path("far-f32", "run", "dump-000001"),
                      "--teacher", bench.path(teacher)])
    bench.check(done.status == 0, "step 1 in f32 is the one that transformers computes",
                last_line(done) if done.status else done.out.strip().splitlines()[-1], done.seconds)


def beside_torch(bench, python, student, teacher):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_curve.py")
    done = bench.run([python, script, "--dump", bench.path("far-f32", "run", "dump-000001"), "--student", student, "--teacher",
                      teacher, "--steps", STEPS, "--ours-f32", "far-f32", "--ours-bf16", "far-bf16", "--device",
                      "cuda" if bench.cuda else "cpu"])
    if done.status != 0:
        bench.check(False, "50 steps beside PyTorch", last_line(done), done.seconds)
        return
    far = json.loads(done.out.splitlines()[-1])
    for measure, name in ("weights", "of the weights' movement"), ("loss", "of the loss curve"):
        ours, theirs = far["ours"][measure], far["autocast"][measure]
        bench.check(ours <= FACTOR * theirs, f"50 steps, bf16 from f32, {name}",
                    f"ours {ours:.3e}, PyTorch {theirs:.3e}, ratio {ours / theirs:.2f} of {FACTOR} "
                    f"(all in bf16, PyTorch: {far['pure'][measure]:.3e})")
    bench.check(far["ours"]["between"] < far["ours"]["weights"] or not bench.cuda, "50 steps, f32 from PyTorch's f32",
                f"weights' movement {far['ours']['between']:.3e}", done.seconds)
