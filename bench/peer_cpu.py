#!/usr/bin/env python3
"""peer_cpu.py - one distillation step on the processor, ours beside PyTorch's, in one run: tokens/s and peak memory.

  peer_cpu.py --retort build/retort [--only small|half-billion] [--steps N] [--threads N]

Both train the same shapes with random weights in f32 on the same number of threads: teacher forward, student forward,
0.3 CE + 0.7 T^2 KL at T 4, backward, clipping at 1, AdamW. PyTorch runs eager and compiled, each in a process of its
own, and the faster one counts. Runs alternate, and the best of several steps is taken on both sides, because machines
are shared. Memory is the peak resident size of the process (getrusage).
"""
import argparse
import json
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

SHAPES = {
    "small": {
        "config": dict(hidden_size=256, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=4,
                       intermediate_size=1024, vocab_size=32000, tie_word_embeddings=False),
        "batch": 4, "seq": 256, "speed": 1.3, "memory": 0.6,
    },
    "half-billion": {
        "config": dict(hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
                       intermediate_size=4864, vocab_size=151936, tie_word_embeddings=True),
        "batch": 1, "seq": 256, "speed": 1.1, "memory": 0.8,
    },
}
COMMON = dict(model_type="qwen2", architectures=["Qwen2ForCausalLM"], hidden_act="silu", rms_norm_eps=1e-6,
              rope_theta=1e6, max_position_embeddings=2048, initializer_range=0.02)


def torch_step(shape, steps, threads, compiled):
    """Runs in a process of its own and prints one JSON line."""
    import torch
    import torch.nn.functional as F
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    config = Qwen2Config(**SHAPES[shape]["config"], rope_theta=1e6, rms_norm_eps=1e-6, max_position_embeddings=2048)
    config._attn_implementation = "sdpa"
    teacher = Qwen2ForCausalLM(config).eval().requires_grad_(False)
    student = Qwen2ForCausalLM(config).train()
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-5, fused=True)
    vocab, temperature = config.vocab_size, 4.0

    def loss_of(s, t, labels):
        s = s[:, :-1].reshape(-1, vocab)
        t = t[:, :-1].reshape(-1, vocab)
        ce = F.cross_entropy(s, labels[:, 1:].reshape(-1))
        kl = F.kl_div(F.log_softmax(s / temperature, -1), F.log_softmax(t / temperature, -1), log_target=True,
                      reduction="batchmean")
        return 0.3 * ce + 0.7 * temperature ** 2 * kl

    forward_teacher, forward_student, loss_fn = teacher, student, loss_of
    if compiled:
        forward_teacher, forward_student = torch.compile(teacher), torch.compile(student)
        loss_fn = torch.compile(loss_of)
    ids = torch.randint(0, vocab, (SHAPES[shape]["batch"], SHAPES[shape]["seq"]))
    seconds = []
    for _ in range(steps + 2):
        begun = time.perf_counter()
        with torch.no_grad():
            t = forward_teacher(ids, use_cache=False).logits
        s = forward_student(ids, use_cache=False).logits
        loss = loss_fn(s, t, ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds[2:], "peak": peak, "loss": float(loss)}))


def run(command, **kw):
    """The output of a command and its peak resident size."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, **kw)
        _, status, usage = os.wait4(process.pid, 0)
        out.seek(0)
        text = out.read()
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{text[-3000:]}")
    return text, usage.ru_maxrss * 1024


def peer(shape, steps, threads, compiled):
    command = [sys.executable, __file__, "--child", shape, "--steps", str(steps), "--threads", str(threads)]
    text, _ = run(command + (["--compiled"] if compiled else []))
    return json.loads(text.strip().splitlines()[-1])


def prepare(args, shape, folder):
    """Two random models and random tokens, on disk."""
    config = dict(COMMON, **SHAPES[shape]["config"])
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump(config, f)
    for seed, name in ((1, "teacher"), (2, "student")):
        run([args.retort, "init", "--config", path, "--dtype", "bf16", "--seed", str(seed), os.path.join(folder, name)])
    rng = random.Random(0)
    n = SHAPES[shape]["batch"] * SHAPES[shape]["seq"] * 512
    with open(os.path.join(folder, "tokens.bin"), "wb") as f:
        f.write(struct.pack(f"<{n}I", *(rng.randrange(config["vocab_size"]) for _ in range(n))))


def ours(args, shape, folder, turn):
    out = os.path.join(folder, f"out-{turn}")
    s = SHAPES[shape]
    command = [args.retort, "distill", "--teacher", f"{folder}/teacher", "--student", f"{folder}/student", "--data",
               f"{folder}/tokens.bin", "--vocab", str(s["config"]["vocab_size"]), "--out", out, "--batch", str(s["batch"]),
               "--micro-batch", str(s["batch"]), "--seq-len", str(s["seq"]), "--steps", str(args.steps + 2), "--temperature",
               "4", "--ce-weight", "0.3", "--kd-weight", "0.7", "--lr", "1e-5", "--eval-every", "1000000", "--save-every",
               "1000000", "--held-out", "1", "--threads", str(args.threads), "--save",
               "last", "--device", "cpu"]
    _, peak = run(command)
    lines = [json.loads(line) for line in open(f"{out}/run/metrics.jsonl")]
    seconds = [line["seconds"] for line in lines if line["event"] == "step"]
    shutil.rmtree(out)
    return {"seconds": seconds[2:], "peak": peak}


def best(results):
    return min(min(r["seconds"]) for r in results)


def compare(args, shape):
    s = SHAPES[shape]
    tokens = s["batch"] * s["seq"]
    with tempfile.TemporaryDirectory(dir=args.tmp) as folder:
        prepare(args, shape, folder)
        mine, eager, compiled = [], [], []
        for turn in range(args.turns):
            mine.append(ours(args, shape, folder, turn))
            eager.append(peer(shape, args.steps, args.threads, False))
            if not args.no_compile:
                compiled.append(peer(shape, args.steps, args.threads, True))
    rows = [("retort", mine), ("PyTorch eager", eager)] + ([("PyTorch compiled", compiled)] if compiled else [])
    print(f"\n{shape}: {tokens} tokens a step, {args.threads} threads, best of {args.turns} x {args.steps} steps")
    for name, results in rows:
        print(f"  {name:18} {tokens / best(results):9.1f} tokens/s  {min(r['peak'] for r in results) / 2**20:9.0f} MiB")
    fastest = min(rows[1:], key=lambda r: best(r[1]))
    speed = best(fastest[1]) / best(mine)
    memory = min(r["peak"] for r in mine) / min(r["peak"] for r in fastest[1])
    ok = speed >= s["speed"] and memory <= s["memory"]
    print(f"  ratio to {fastest[0]}: {speed:.2f} x tokens/s (at least {s['speed']}), {memory:.2f} x memory (at most "
          f"{s['memory']}): {'ok' if ok else 'SHORT'}")
    return ok


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--retort", default="build/retort")
    p.add_argument("--only", choices=list(SHAPES))
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--turns", type=int, default=2)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--tmp")
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--child")
    p.add_argument("--compiled", action="store_true")
    args = p.parse_args()
    if args.child:
        return torch_step(args.child, args.steps, args.threads, args.compiled)
    args.retort = os.path.abspath(args.retort)
    results = [compare(args, shape) for shape in SHAPES if args.only in (None, shape)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
