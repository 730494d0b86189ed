#!/usr/bin/env python3
"""check_step.py DUMP [--teacher T] [--student S] [--dtype float32|float64] - one step of a run, computed again by transformers.

DUMP is what `retort distill --dump-step N` wrote: OUT/run/dump-00000N. It holds the student before the step, the rows, and what
retort made of them: logits, the loss and its parts, the norm of every gradient. This script loads the student and the teacher
into transformers, computes the same from the definitions in docs/training.md, and prints both with their differences.

  --teacher T   the teacher, as a Hugging Face directory (`retort convert T.gguf T --to hf --dtype f32` makes one of a GGUF file)
  --student S   of a run with adapters: the model that they stand beside, likewise

Every document of a packed row goes through the models alone, so a row that leaks from one document into the next differs here. Exit
status 0: all is within its limit; 1: something is not; 2: it could not be tried. Needs torch and transformers.
"""
import argparse
import json
import math
import os
import sys

# Limits of f32 on both sides, relative; the run and PyTorch add in different orders. A gradient that is zero but for rounding (the
# bias of k, say) has no relative accuracy of its own: it is measured against a share of the whole gradient's norm.
LOGITS = 2e-5          # by norm over all logits that were written
LOSS = 5e-6            # loss, cross-entropy, divergence, total norm
GRADIENT = 1e-4        # the norm of one parameter's gradient
GRADIENT_LEAST = 1e-2  # of the total norm
UNDECIDED = 1e-3       # a first choice that leads by less is nobody's fault


def fail(text):
    print(f"check_step.py: {text}", file=sys.stderr)
    sys.exit(2)


def load_dump(folder):
    try:
        with open(os.path.join(folder, "step.json")) as f:
            step = json.load(f)
    except (OSError, ValueError) as fault:
        fail(f"{folder} is not the dump of a step: {fault}; name the folder run/dump-NNNNNN of a run")
    if step.get("version") != 1:
        fail(f"{folder} was written by another version of retort")
    return step


def load_model(folder, what, dtype):
    if not os.path.exists(os.path.join(folder, "config.json")):
        fail(f"the {what} {folder} is no Hugging Face directory; retort convert makes one")
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


# ---- the step ----

class Student:
    """The student's logits as a function of the parameters that are trained: its own, or those of adapters beside it."""

    def __init__(self, dump, step, base, dtype):
        folder = os.path.join(dump, "student")
        self.scale, self.adapters = 0.0, {}
        if step["lora"] is None:
            self.model = load_model(folder, "student", dtype)
            self.trained = {n: p for n, p in self.model.named_parameters() if n in step["gradient_norms"]}
        else:
            if not base:
                fail("the run trained adapters; name the model that they stand beside with --student")
            self.model = load_model(base, "student", dtype)
            self.scale = step["lora"]["alpha"] / step["lora"]["rank"]
            values = load_file(os.path.join(folder, "adapter_model.safetensors"))
            self.adapters = {n.removeprefix("base_model.model."): v.to(dtype).requires_grad_() for n, v in values.items()}
            self.trained = self.adapters
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name in self.trained)

    def logits(self, ids, positions):
        weights = dict(self.model.named_parameters())
        changed = {}
        for name, b in self.adapters.items():
            if name.endswith(".lora_B.weight"):
                stem = name.removesuffix(".lora_B.weight")
                changed[stem + ".weight"] = weights[stem + ".weight"] + self.scale * b @ self.adapters[stem + ".lora_A.weight"]
        return functional_call(self.model, changed, kwargs=dict(input_ids=ids, position_ids=positions, use_cache=False)).logits[0]


def divergence(objective, p, q):
    """Of every row of log-probabilities: p the teacher's, q the student's."""
    def kl(a, b):
        return (a.exp() * (a - b)).sum(-1)

    def mixed(share, a, b):
        return torch.logaddexp(a + math.log(share), b + math.log1p(-share)) if share > 0 else b
    kind, mix = objective["divergence"], objective["mix"]
    if kind == "jsd" and mix in (0.0, 1.0):
        kind = "reverse-kl" if mix else "forward-kl"
    if kind == "forward-kl":
        return kl(p, q)
    if kind == "reverse-kl":
        return kl(q, p)
    if kind == "jsd":
        m = mixed(mix, p, q)
        return mix * kl(p, m) + (1 - mix) * kl(q, m)
    if kind == "skew-forward":
        return kl(p, mixed(mix, p, q))
    if kind == "skew-reverse":
        return kl(q, mixed(mix, q, p))
    if kind == "tv":
        return (p.exp() - q.exp()).abs().sum(-1) / 2
    fail(f"the dump has a divergence that this script does not know: {kind}")


def lead(logits):
    two = logits.topk(2, -1).values
    return two[:, 0] - two[:, 1]


def documents(step):
    """(row, first, behind) of every document with a target."""
    for number, row in enumerate(step["rows"]):
        starts = sorted(set(row["start"])) + [len(row["ids"])]
        for first, behind in zip(starts, starts[1:]):
            if any(t >= 0 for t in row["target"][first:behind]):
                yield number, first, behind


def compute(step, student, teacher, dtype):
    """The same names as in step.json, with logits and gradients; `undecided` positions may agree or not."""
    objective, shared = step["objective"], step["shared_ids"]
    wanted = {tuple(at): i for i, at in enumerate(step["logits"])}
    trained = sum(t >= 0 for row in step["rows"] for t in row["target"])
    sums = dict(ce=0.0, divergence=0.0, agreement=0.0)
    undecided, logits = 0, {"student": {}, "teacher": {}}
    common = [i for i in range(32 * len(shared)) if shared[i // 32] >> i % 32 & 1] if shared else slice(None)
    for number, first, behind in documents(step):
        row = step["rows"][number]
        ids, positions = (torch.tensor([row[key][first:behind]]) for key in ("ids", "position"))
        target = torch.tensor(row["target"][first:behind])
        mask = target >= 0
        ours = student.logits(ids, positions).double()  # a divergence is a small sum of large terms: it is not rounded on the way
        ce = torch.nn.functional.cross_entropy(ours[mask], target[mask], reduction="sum")
        loss = objective["ce_weight"] * ce
        sums["ce"] += ce.item()
        seen = {"student": ours}
        if teacher is not None:
            with torch.no_grad():
                theirs = teacher(input_ids=ids, position_ids=positions, use_cache=False).logits[0].double()
            seen["teacher"] = theirs
            T = objective["temperature"]
            s, t = ours[mask][:, common], theirs[mask][:, common]
            d = divergence(objective, (t / T).log_softmax(-1), (s / T).log_softmax(-1)).sum()
            loss = loss + objective["kd_weight"] * (T * T if objective["t2"] else 1.0) * d
            sums["divergence"] += d.item()
            sums["agreement"] += (s.argmax(-1) == t.argmax(-1)).sum().item()
            undecided += ((lead(s) < UNDECIDED) | (lead(t) < UNDECIDED)).sum().item()
        (loss / trained).backward()
        for k in range(first, behind):
            if (number, k) in wanted:
                for who, all_of_them in seen.items():
                    logits[who][wanted[number, k]] = all_of_them[k - first].detach()
    result = {key: value / trained for key, value in sums.items()}
    T2 = objective["temperature"] ** 2 if objective["t2"] else 1.0
    result["loss"] = objective["ce_weight"] * result["ce"] + (objective["kd_weight"] * T2 * result["divergence"] if teacher else 0.0)
    norms = {n: p.grad.double().norm().item() if p.grad is not None else 0.0 for n, p in student.trained.items()}
    result["grad_norm"] = math.sqrt(sum(v * v for v in norms.values()))
    most = step["max_grad_norm"]
    result["clip"] = min(1.0, most / (result["grad_norm"] + 1e-6)) if most > 0 else 1.0  # as clip_grad_norm_ has it
    stacked = {who: torch.stack([rows[i] for i in range(len(wanted))]) for who, rows in logits.items() if len(rows) == len(wanted)}
    return dict(result=result, norms=norms, logits=stacked, undecided=undecided / trained, trained=trained)


# ---- comparing ----

class Table:
    def __init__(self):
        self.bad = 0
        print(f"{'':<34}{'retort':>14}{'transformers':>14}{'difference':>12}{'limit':>10}")

    def row(self, name, ours, theirs, difference, limit, show=True):
        ok = difference <= limit
        self.bad += not ok
        if show or not ok:
            a, b = (f"{v:>14.7g}" if v is not None else f"{'':>14}" for v in (ours, theirs))
            print(f"{name:<34}{a}{b}{difference:>12.1e}{limit:>10.0e}  {'ok' if ok else 'DIFFERS'}")


def relative(a, b):
    return abs(a - b) / max(abs(b), 1e-30)


def check_rows(step, table):
    """What the rows say about themselves: a target is the next token of its document."""
    wrong = 0
    for row in step["rows"]:
        n = len(row["ids"])
        for k in range(n):
            inside = k + 1 < n and row["start"][k + 1] == row["start"][k]
            wrong += inside and row["target"][k] >= 0 and row["target"][k] != row["ids"][k + 1]
            wrong += row["position"][k] != k - row["start"][k]
    table.row("targets that are not the next token", wrong, 0, wrong, 0)


def compare(step, want, ours):
    table = Table()
    check_rows(step, table)
    result = step["result"]
    table.row("trained positions", result["trained"], want["trained"], abs(result["trained"] - want["trained"]), 0)
    for who, limit in ("student", LOGITS), ("teacher", LOGITS):
        if who not in ours:
            continue
        if who not in want["logits"] or ours[who].shape != want["logits"][who].shape:
            table.row(f"{who} logits: other positions", None, None, math.inf, limit)
            continue
        a, b = ours[who].double(), want["logits"][who].double()
        table.row(f"{who} logits ({a.shape[0]} x {a.shape[1]})", a.norm().item(), b.norm().item(),
                  ((a - b).norm() / b.norm()).item(), limit)
    for key, name in ("loss", "loss"), ("ce", "cross-entropy"), ("divergence", step["objective"]["divergence"]), \
            ("grad_norm", "norm of the gradient"), ("clip", "clipped by"):
        if key in result:
            table.row(name, result[key], want["result"][key], relative(result[key], want["result"][key]), LOSS)
    if "agreement" in result:
        a, b = result["agreement"], want["result"]["agreement"]
        table.row("first choices that agree", a, b, abs(a - b), want["undecided"] + 1e-12)
    missing = set(step["gradient_norms"]) ^ set(want["norms"])
    for name in sorted(missing):
        table.row(f"only one has {name}", None, None, math.inf, 0)
    least = GRADIENT_LEAST * want["result"]["grad_norm"]
    worst, at = -1.0, ""
    for name, b in want["norms"].items():
        if name in missing:
            continue
        a = step["gradient_norms"][name]
        off = abs(a - b) / max(b, least)
        table.row(name, a, b, off, GRADIENT, show=False)
        worst, at = (off, name) if off > worst else (worst, at)
    if at:
        table.row(f"gradients of {len(want['norms'])} parameters, worst", step["gradient_norms"][at], want["norms"][at], worst, GRADIENT)
    return table.bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump")
    parser.add_argument("--teacher")
    parser.add_argument("--student")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32", help="in which transformers computes")
    args = parser.parse_args()
    step = load_dump(args.dump)
    if step["teacher"] and not args.teacher:
        fail("the step had a teacher; name it with --teacher")
    dtype = getattr(torch, args.dtype)
    student = Student(args.dump, step, args.student, dtype)
    teacher = load_model(args.teacher, "teacher", dtype) if step["teacher"] else None
    want = compute(step, student, teacher, dtype)
    ours = load_file(os.path.join(args.dump, "logits.safetensors"))
    print(f"step {step['step']}, {len(step['rows'])} rows, in {args.dtype} by transformers {transformers.__version__}")
    bad = compare(step, want, ours)
    print(f"verdict: {bad} measures differ: this is not the step that transformers computes" if bad else
          "verdict: the step is the one that transformers computes")
    return 1 if bad else 0


try:
    import torch
    import transformers
    from safetensors.torch import load_file
    from torch.func import functional_call
    from transformers import AutoModelForCausalLM
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
except ImportError as fault:
    fail(f"{fault}; pip install torch transformers")

if __name__ == "__main__":
    sys.exit(main())
