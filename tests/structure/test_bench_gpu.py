"""bench/bench_gpu.py without a GPU: it judges recorded results as it should, every kind of row can be short, and the ops
that bench_cuda takes from a step are that step's."""
import copy
import json
import os
import subprocess
import sys
import tempfile

from checks import BUILD, ROOT, check, finish

sys.path.insert(0, os.path.join(ROOT, "bench"))
import gpu_table  # noqa: E402

GIB, STEP = 2 ** 30, "1.5b 16x512/default"


def sample():
    """Results of a run in which everything is as it was asked for, none of it by more than a tenth."""
    def steps(case, limit, seconds, memory, first, count=10):
        return dict(case=case, limit=limit, tokens=8192, steps=[1.1 * seconds] + [seconds] * (count - 1), first=first,
                    memory=memory, late=0, modules=0, context=GIB // 2, fit="")
    runs = [steps("1.5b 16x512", "15GiB", 0.1, 14.9 * GIB, 9.5), steps("1.5b 16x512", "", 0.1, 16 * GIB, 9.5),
            steps("7b-q4 16x512", "16GiB", 0.2, 15.9 * GIB, 14.5), steps("1.5b 4x2048", "", 0.1, 16 * GIB, 3),
            steps("7b-q4 32x2048", "", 2.0, 40 * GIB, 8, 5), steps("7b-q4 32x2048", "22GiB", 2.1, 21 * GIB, 8, 5)]
    peers = [dict(case=r["case"], variant="hf-compile", tok_s=int(0.95 * r["tokens"] / r["steps"][1]), peak_gib=27.0, ms=1.0,
                  warm_s=60.0) for r in runs[:4]]
    peers.append(dict(case="1.5b 16x512", variant="liger", error="out of memory"))
    op = dict(group="teacher norm, rope, swiglu, residual", op="add", what="8192x896",
              count=24, seconds=10e-6, bytes=0.8 * 4000e9 * 10e-6, flops=1.0)
    product = dict(op, op="matmul", group="teacher GEMM forward", what="nt 8192x8960x1536 to bf16", bytes=1e6, flops=7e9)
    clip = dict(op, op="clip", bytes=24.0)  # too small to have a rate
    head = [dict(teacher=t, student=896, flops=460e12, seconds=1.0, scratch=1.4e9, gradients=0.5e9) for t in (1536, 3584)]
    floor = [("teacher GEMM forward", 0.2), ("teacher norm, rope, swiglu, residual", 0.2)]
    return dict(ops={STEP: dict(copy=4000.0, rows=[op, product, clip])}, head=head, runs=runs, peers=peers,
                peer_head=[dict(Ct=1536, tflops=336, transient_gib=1.8)], floor={"1.5b 16x512": floor},
                refusal=dict(exit=13, message="the run allocates 30 GiB; what fits: --lora (12 GiB). retort plan says more"))


def judged(results, *flags):
    """Exit code and output of the program itself on recorded results."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.json")
        with open(path, "w") as f:
            json.dump(results, f)
        done = subprocess.run([sys.executable, "bench/bench_gpu.py", "--judge", path, *flags], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def verdicts(results):
    return [r.verdict() for r in gpu_table.judge(results)]


good = sample()
code, text = judged(good)
check(code == 0 and "18 ok, 0 short, 0 not measured" in text, f"a good run is not ok: exit {code}\n{text}")
check("largest differences: teacher norm" in text, f"the floor is not beside the step:\n{text}")


def spoil(**changes):
    """Each change as name=(function of the results): exactly one row is then short."""
    for name, change in changes.items():
        bad = copy.deepcopy(good)
        change(bad)
        check(verdicts(bad).count("SHORT") == 1, f"{name}: {verdicts(bad)}")


def slower(r, i):
    r["runs"][i]["steps"] = [1.12 * s for s in r["runs"][i]["steps"]]


spoil(speed=lambda r: slower(r, 0), speed_7b=lambda r: slower(r, 2), speed_4=lambda r: slower(r, 3), long=lambda r: slower(r, 5),
      memory=lambda r: r["runs"][0].update(memory=15.1 * GIB), memory_7b=lambda r: r["runs"][2].update(memory=16.1 * GIB),
      first=lambda r: r["runs"][0].update(first=10.1), first_7b=lambda r: r["runs"][2].update(first=15.1),
      warm=lambda r: r["runs"][3]["steps"].__setitem__(0, 0.13), loads=lambda r: r["runs"][1].update(late=1),
      head=lambda r: r["head"][1].update(seconds=1.03), scratch=lambda r: r["head"][0].update(scratch=1.51e9),
      kernel=lambda r: r["ops"][STEP]["rows"][0].update(seconds=10.8e-6), copy=lambda r: r["ops"][STEP].update(copy=4300.0),
      admitted=lambda r: r["refusal"].update(exit=0), no_offer=lambda r: r["refusal"].update(message="it does not fit"))
bad = copy.deepcopy(good)
slower(bad, 0)
code, text = judged(bad)
check(code == 1 and "SHORT" in text and "17 ok, 1 short" in text, f"a short row: exit {code}\n{text}")

# What was not measured is not ok.
for key in ("runs", "peers", "head", "ops", "refusal"):
    part = {k: v for k, v in good.items() if k != key}
    check("not measured" in verdicts(part) and "SHORT" not in verdicts(part), f"without {key}: {verdicts(part)}")
code, text = judged({k: v for k, v in good.items() if k != "peers"})
check(code == 1 and "3 not measured" in text, f"without a peer: exit {code}\n{text}")
check(judged(good, "--only", "nothing")[0] == 2, "an unknown part is taken")

# bench_cuda on the processor: the rows are the ops of the step, all of them, and their parts are those of the floor.
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "rows.json")
    done = subprocess.run(os.environ.get("EMU", "").split() + [f"{BUILD}/bench_cuda", "--device", "cpu", "--tiny", "--json", path],
                          capture_output=True, text=True)
    check(done.returncode == 0, f"bench_cuda: exit {done.returncode}\n{done.stderr}")
    with open(path) as f:
        rows = [json.loads(line) for line in f]
ops = [r for r in rows if r["row"] == "op"]
groups = {o["group"] for o in ops if o["case"] == "7b-q4 16x512"}
names = ("teacher GEMM forward", "teacher attention forward", "teacher norm, rope, swiglu, residual", "head: teacher logits GEMM",
         "student GEMM forward", "student attention forward", "student norm, rope, swiglu, residual", "student GEMM backward",
         "student attention backward", "student backward of the same", "gradient norm + AdamW",
         "head: student logits, dx, dW GEMMs", "head: loss kernel")
check(groups == set(names), f"the parts of a step: {sorted(groups)}")
LAYERS = 2  # of the student
counts = {(o["group"], o["op"]): o["count"] for o in ops if o["case"] == "1.5b 16x512" and o["gemm"] == "default"}
check(counts.get(("student attention backward", "attn_bwd")) == LAYERS, f"attention backward: {counts}")
check(counts.get(("student backward of the same", "embed_bwd")) == 1, f"embedding backward: {counts}")
check({r["row"] for r in rows} == {"copy", "op", "program", "head"}, "a kind of row is missing")
check(all(o["seconds"] > 0 and o["bytes"] > 0 for o in ops), "a row without time or bytes")
check({o["gemm"] for o in ops if o["op"] == "matmul"} == {"default", "own"}, "our own products are missing")
finish()
