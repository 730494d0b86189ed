"""precision.py - how far 50 steps in bf16 are from 50 steps in f32, ours beside PyTorch's, and one step beside transformers.

Models of `retort init` (teacher 384 wide, student 256, 8 layers each, 8,000 ids), 16 rows of 256 tokens that make up every
step, so that both sides see the same batches whatever their order. Ours in f32: the kernels of compute_75 on the same GPU.
PyTorch's: transformers in f32, and under autocast to bf16 with f32 masters and a bf16 teacher (torch_curve.py, which also
computes the distances). Distance of two runs: |w - w'| / |w' - w0| over all weights, w0 where both began; and the root mean
square over steps of the losses' relative difference.

Rounding errors grow along a run, and which way a loss drifts is chance: of one pair of runs the second distance is anything
between half and twice. So there are several, with other models and data, and the ratios' geometric mean is judged.
"""
import json
import math
import os
import sys

from bench import last_line, shape

VOCAB, ROWS, TIME, STEPS, RATE, SEEDS = 8000, 16, 256, 50, 3e-4, 6
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
    if not python:
        bench.skip("50 steps", f"no PyTorch with transformers here: {why}")
        return
    far = bench.each(lambda seed: one_seed(bench, python, seed), range(1, SEEDS + 1))
    if None in far:
        return
    bench.facts["precision"] = far
    for measure, name in ("weights", "of the weights' movement"), ("loss", "of the loss curve"):
        ours, theirs, pure = ([f[kind][measure] for f in far] for kind in ("ours", "autocast", "pure"))
        ratio = math.exp(sum(math.log(a / b) for a, b in zip(ours, theirs)) / SEEDS) if bench.cuda else 0.0
        bench.check(ratio <= FACTOR, f"50 steps, bf16 from f32, {name}",
                    f"ratio {ratio:.2f} of {FACTOR}; ours {listed(ours)}, PyTorch {listed(theirs)}, all in bf16 {listed(pure)}")
    between = [f["ours"]["between"] for f in far]
    bench.check(max(between) < 0.1 * min(f["autocast"]["weights"] for f in far), "50 steps, our f32 from PyTorch's f32",
                f"weights' movement {listed(between)}")


def listed(values):
    return " ".join(f"{v:.1e}" for v in values)


def one_seed(bench, python, seed):
    """The distances of one pair of models; None after a failure that was told."""
    own = f"far{seed}-"
    bench.tokens(own + "data.u32", ROWS * TIME, VOCAB, 2 * seed)
    bench.tokens(own + "held.u32", 4 * TIME, VOCAB, 2 * seed + 1)
    student = bench.model(own + "s", 2 * seed, "bf16", **shape(256, 8, 4, 2, 704, VOCAB))
    teacher = bench.model(own + "t", 2 * seed + 1, "bf16", **shape(384, 8, 6, 2, 1024, VOCAB))
    base = ["--student", student, "--teacher", teacher, "--data", own + "data.u32", "--eval-data", own + "held.u32",
            "--vocab", VOCAB, "--batch", ROWS, "--seq-len", TIME, "--steps", STEPS, "--lr", RATE, "--schedule", "constant", "--warmup", 0,
            "--alpha", 0.7, "--sample-prompts", "none", "--eval-every", 1000000, "--save-every", 1000000, "--save", "last",
            "--save-dtype", "f32"]
    narrow = ["--kernels", "ptx75"] if bench.cuda else []
    bench.distill(own + "f32", *base, "--dump-step", 1, *narrow)
    bench.distill(own + "bf16", *base)
    dump = bench.path(own + "f32", "run", "dump-000001")
    if seed == 1:
        beside_transformers(bench, python, dump, teacher)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_curve.py")
    done = bench.run([python, script, "--dump", dump, "--student", student, "--teacher", teacher, "--steps", STEPS, "--ours-f32",
                      own + "f32", "--ours-bf16", own + "bf16", "--device", "cuda" if bench.cuda else "cpu"])
    if done.status == 0:
        return json.loads(done.out.splitlines()[-1])
    bench.check(False, "50 steps in PyTorch", last_line(done), done.seconds)
    return None


def beside_transformers(bench, python, dump, teacher):
    done = bench.run([python, os.path.join(bench.root, "tools", "check_step.py"), dump, "--teacher", bench.path(teacher)])
    lines = done.out.strip().splitlines() or [last_line(done)]
    wrong = [line for line in lines if line.endswith("DIFFERS")]
    bench.check(done.status == 0, "step 1 in f32 is the one that transformers computes", "\n        ".join([lines[-1], *wrong]),
                done.seconds)
