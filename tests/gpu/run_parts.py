"""run_parts.py - whole runs on the GPU: the same bits twice and after a kill, and the loss that does not depend on how the
work is cut.

Invariants compare step 1 of two runs by what --dump-step writes: the loss, its parts, and the norm of every parameter's
gradient. In f32 (on a GPU with the kernels of compute_75, which compute in f32) they are held to what the processor's are
held to (tests/unit/test_step.c). In bf16 another order of an f32 sum turns some roundings of stored activations over, each
by one unit, 2^-8: the loss, a mean over many, is held to 2^-13, the norm of a gradient to 2^-8. Blocks that are computed again
give the same bits in f32; in bf16 they begin with the residual stream as it was stored, where the norm had its sum unrounded.
"""
import json
import os
import re
import sys

from bench import metrics, same_file

F32 = dict(loss=2e-6, gradient=2e-6)
BF16 = dict(loss=2.0 ** -13, gradient=2.0 ** -8)
LEAST = 1e-2  # of the whole gradient's norm: a gradient that is 0 but for rounding has no accuracy of its own


# ---- bits ----

def outcome(folder, step):
    """Everything that must repeat, by name: the metrics, and the bytes of the last checkpoint."""
    last = os.path.join(folder, "run", "checkpoints", f"checkpoint-{step:06d}")
    return metrics(folder), [os.path.join(folder, "model.safetensors"), os.path.join(last, "model.safetensors"),
                             os.path.join(last, "state.safetensors")]


def same_outcome(a, b):
    return a[0] == b[0] and all(same_file(x, y) for x, y in zip(a[1], b[1]))


def bits(bench):
    base = [*bench.pair("bits"), "--batch", 8, "--micro-batch", 4, "--steps", 12, "--eval-every", 6, "--save-every", 12, "--save", "last"]
    runs = {"first": [], "one": [], "two": [], "other": ["--seed", 7]}
    bench.distill("bits-first", *base)  # it times its GEMMs, and the others read what it chose
    bench.each(lambda name: bench.distill("bits-" + name, *base, *runs[name]), list(runs)[1:])
    end = {name: outcome(bench.path("bits-" + name), 12) for name in runs}
    bench.check(same_outcome(end["one"], end["two"]), "two runs: curve, weights and moments are the same bits")
    bench.check(same_outcome(end["first"], end["one"]), "and so is the one that timed its GEMMs")
    bench.check(not same_outcome(end["one"], end["other"]), "control: another --seed gives others")
    audit(bench, "bits-one")


def audit(bench, out):
    """`retort verify RUN` measures on the device that the run used; the CPU, whose arithmetic is another, agrees to 1e-2."""
    backend = bench.device.split(":")[0]
    for more, want in ([], backend), (["--device", "cpu"], "cpu"):
        done = bench.call("verify", out, "--json", *more)
        found = json.loads(done.out) if done.status in (0, 5) else dict(device=None, checks=[])
        used = found["device"] or {}
        bad = [f"{c['check']}: {c['text']}" for c in found["checks"] if c["outcome"] == "fail"]
        bench.check(done.status == 0 and used.get("backend") == want and not used.get("why"),
                    f"verify of a run on {want}", "; ".join(bad) or done.err.strip()[-300:], done.seconds)


def memory(bench):
    """What the driver says was taken, which other programs on the GPU would blur: this part has it to itself."""
    bench.distill("memory", *bench.pair("memory"), "--batch", 8, "--steps", 4, "--save", "last")
    with open(bench.path("memory", "run", "verdict.json")) as f:
        claim = next(c for c in json.load(f)["falsifiers"] if c["id"] == "F-PLAN-MEMORY-001")
    bench.check(claim["verdict"] == "pass" or not bench.cuda, "the planned memory held", claim["measured"])


def kill(bench):
    done = bench.run([sys.executable, os.path.join(bench.root, "tools", "kill_test.py"), "--quick", "--retort", bench.retort,
                      "--checker", os.path.join(bench.build, "tests", "check_checkpoints"), "--device", bench.device])
    found = re.findall(r"^(\d+) passed, (\d+) failed$", done.out, re.M)
    detail = done.out.strip().splitlines()[-2:] if found else [(done.err or done.out).strip()[-300:]]
    bench.check(done.status == 0 and found and int(found[-1][0]) > 0 and found[-1][1] == "0",
                "kill -9 and --resume: the same bits as a run left alone", "; ".join(detail), done.seconds)


# ---- invariants ----

def first_step(bench, out, args):
    bench.distill(out, *args, "--dump-step", 1, "--eval-every", 1000000, "--save-every", 1000000, "--save", "last")
    with open(bench.path(out, "run", "dump-000001", "step.json")) as f:
        return json.load(f)


def distance(a, b):
    """(of the loss and its parts, of the gradients' norms), each the worst, relative."""
    keys = ("loss", "ce", "divergence")
    loss = max(abs(a["result"][k] - b["result"][k]) / abs(b["result"][k]) for k in keys)
    least = LEAST * b["result"]["grad_norm"]
    norms = max(abs(a["gradient_norms"][k] - v) / max(v, least) for k, v in b["gradient_norms"].items())
    return loss, norms


def compare(bench, name, a, b, limit):
    loss, norms = distance(a, b)
    same_targets = a["result"]["trained"] == b["result"]["trained"]
    bench.check(same_targets and loss <= limit["loss"] and norms <= limit["gradient"], name,
                f"loss differs by {loss:.1e} of {limit['loss']:.1e}, gradients by {norms:.1e} of {limit['gradient']:.1e}")


def documents(bench, name, count, seed):
    """Texts of 30 bytes each: with what ends a text 31 tokens of the tiny models' tokenizer, two to a row of 64."""
    words = "the quick brown fox jumps over a lazy dog while seven wizards box".split()
    with open(bench.path(name), "w") as f:
        for i in range(count):
            text = " ".join(words[(seed + i * 7 + k * k) % len(words)] for k in range(8)) + f" {i:03d} "
            f.write(json.dumps({"text": (text * 2)[:30]}) + "\n")
    return name


def cut_ways(bench, prefix, more, limit, word):
    base = [*bench.pair(prefix), "--batch", 8, "--steps", 1, *more]
    ways = {"whole": ["--micro-batch", 8], "chunks": ["--micro-batch", 8, "--head-chunk", 96],
            "rows": ["--micro-batch", 1, "--teacher-batch", 1], "ahead": ["--micro-batch", 2, "--teacher-batch", 8],
            "again": ["--micro-batch", 8, "--recompute", "block"], "control": ["--micro-batch", 8, "--seed", 3]}
    got = dict(zip(ways, bench.each(lambda w: first_step(bench, f"{prefix}-{w}", base + ways[w]), ways)))
    compare(bench, f"{word}: the head in chunks of 96 positions", got["chunks"], got["whole"], limit)
    compare(bench, f"{word}: 8 micro-batches of 1 row against 1 of 8", got["rows"], got["whole"], limit)
    compare(bench, f"{word}: a teacher that reads 8 rows at once, a student 2", got["ahead"], got["whole"], limit)
    exact = dict(loss=0, gradient=0)
    compare(bench, f"{word}: blocks that are computed again", got["again"], got["whole"], exact if limit is F32 else limit)
    loss, norms = distance(got["control"], got["whole"])
    bench.check(loss > limit["loss"] and norms > limit["gradient"], f"{word}: control: other rows are told apart",
                f"loss differs by {loss:.1e}, gradients by {norms:.1e}")


def packing(bench, prefix, more, limit, word):
    """All documents are in the one step of both runs: two to a row, or each in a row of its own with padding behind."""
    count = 24
    base = ["--student", prefix + "-ps", "--teacher", prefix + "-pt", "--lr", "1e-3", "--steps", 1, "--warmup", 0,
            "--data", documents(bench, prefix + "-docs.jsonl", count, 0), "--sample-prompts", "none",
            "--eval-data", documents(bench, prefix + "-other.jsonl", 4, 5), *more]
    bench.must("init", "--preset", "tiny-qwen2", "--dtype", "bf16", "--seed", 3, "--force", prefix + "-ps")
    bench.must("init", "--preset", "tiny-llama", "--dtype", "bf16", "--seed", 4, "--force", prefix + "-pt")
    ways = {"packed": ["--seq-len", 64, "--batch", count // 2], "padded": ["--seq-len", 48, "--batch", count]}
    got = dict(zip(ways, bench.each(lambda w: first_step(bench, f"{prefix}-{w}", base + ways[w]), ways)))
    compare(bench, f"{word}: two documents to a row against one and padding", got["packed"], got["padded"], limit)


def containers(bench):
    """A teacher in f32 and the same values in GGUF; nothing may differ."""
    base = [*bench.pair("file", "f32"), "--batch", 8, "--steps", 4, "--eval-every", 2, "--save-every", 4, "--save", "last"]
    at = base.index("--teacher") + 1
    bench.must("convert", base[at], "file-t.gguf")
    other = [*base[:at], "file-t.gguf", *base[at + 1:]]
    for name, args in (("file-hf", base), ("file-gguf", other)):  # one after the other: what the first times holds for both
        bench.distill(name, *args)
    a, b = (outcome(bench.path(name), 4) for name in ("file-hf", "file-gguf"))
    bench.check(same_outcome(a, b), "a teacher in f32 and the same values in GGUF: the same bits")


def invariants(bench):
    jobs = [lambda: cut_ways(bench, "inv", [], BF16 if bench.cuda else F32, "bf16" if bench.cuda else "f32"),
            lambda: packing(bench, "inv", [], BF16 if bench.cuda else F32, "bf16" if bench.cuda else "f32"),
            lambda: containers(bench)]
    if bench.cuda:
        narrow = ["--kernels", "ptx75", "--cublaslt", "none"]
        ampere = ["--kernels", "ptx80"]
        jobs += [lambda: cut_ways(bench, "inv32", narrow, F32, "f32"), lambda: packing(bench, "inv32", narrow, F32, "f32"),
                 lambda: cut_ways(bench, "inv80", ampere, BF16, "bf16 by PTX of compute_80")]
    bench.each(lambda job: job(), jobs)
