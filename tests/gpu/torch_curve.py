"""torch_curve.py - the runs of precision.py once more in PyTorch, and the distances of all of them. Prints one line of JSON.

The rows, targets, objective and rate of every step are those that --dump-step wrote down. AdamW decays matrices alone and
gradients are clipped, as docs/training.md says. Needs torch, transformers and safetensors.
"""
import argparse
import json
import os

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

logging.disable_progress_bar()
FULL, HALF = torch.float32, torch.bfloat16


def load(folder, dtype, device):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa").to(device)


def objective(step, student, teacher, target):
    """Of logits (N, V) each; the means over trained positions."""
    o, mask = step["objective"], target >= 0
    if o["divergence"] != "forward-kl" or o["temperature"] != 1:
        raise ValueError("written for forward KL at temperature 1")
    s, t = student[mask].float(), teacher[mask].float()
    ce = F.cross_entropy(s, target[mask])
    kl = F.kl_div(s.log_softmax(-1), t.log_softmax(-1), log_target=True, reduction="batchmean")
    return o["ce_weight"] * ce + o["kd_weight"] * kl


def train(args, step, kind):
    """(losses, weights by name, on the host); kind: f32, autocast, or pure for weights and moments in bf16 too."""
    teacher = load(args.teacher, FULL if kind == "f32" else HALF, args.device).eval().requires_grad_(False)
    student = load(args.student, HALF if kind == "pure" else FULL, args.device).train()
    rows = {k: torch.tensor([row[k] for row in step["rows"]], device=args.device) for k in ("ids", "target", "position")}
    if any(any(row["start"]) for row in step["rows"]):
        raise ValueError("written for one document to a row")
    groups = [dict(params=[p for p in student.parameters() if p.dim() >= 2], weight_decay=args.weight_decay),
              dict(params=[p for p in student.parameters() if p.dim() < 2], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=step["lr"], betas=(0.9, 0.95), eps=1e-8)
    losses, target = [], rows["target"].reshape(-1)
    for _ in range(args.steps):
        with torch.autocast(args.device, HALF, enabled=kind == "autocast"):
            with torch.no_grad():
                theirs = teacher(input_ids=rows["ids"], position_ids=rows["position"], use_cache=False).logits
            ours = student(input_ids=rows["ids"], position_ids=rows["position"], use_cache=False).logits
        loss = objective(step, ours.flatten(0, 1), theirs.flatten(0, 1), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), step["max_grad_norm"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses, {name: p.detach().double().cpu() for name, p in student.named_parameters()}


def ours_of(folder):
    with open(os.path.join(folder, "run", "metrics.jsonl")) as f:
        losses = [line["loss"] for line in map(json.loads, f) if line["event"] == "step"]
    return losses, {name: t.double() for name, t in load_file(os.path.join(folder, "model.safetensors")).items()}


def moved(a, b, begin):
    names = [name for name in begin if name in a and name in b]
    if len(names) != len(a) or len(names) != len(b):
        raise ValueError(f"other weights: {sorted(set(a) ^ set(b))}")
    far = sum(((a[n] - b[n]) ** 2).sum().item() for n in names)
    return (far / sum(((b[n] - begin[n]) ** 2).sum().item() for n in names)) ** 0.5


def distances(a, b, begin):
    if len(a[0]) != len(b[0]):
        raise ValueError("curves of two lengths")
    loss = (sum(((x - y) / y) ** 2 for x, y in zip(a[0], b[0])) / len(a[0])) ** 0.5
    return dict(weights=moved(a[1], b[1], begin), loss=loss)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("--dump", "--student", "--teacher", "--ours-f32", "--ours-bf16", "--device"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    with open(os.path.join(args.dump, "step.json")) as f:
        step = json.load(f)
    begin = {name: t.double() for name, t in load_file(os.path.join(args.dump, "student", "model.safetensors")).items()}
    theirs = {kind: train(args, step, kind) for kind in ("f32", "autocast", "pure")}
    f32, bf16 = ours_of(args.ours_f32), ours_of(args.ours_bf16)
    if len(f32[0]) != args.steps:
        raise ValueError(f"{args.ours_f32} has {len(f32[0])} steps")
    result = {kind: distances(theirs[kind], theirs["f32"], begin) for kind in ("autocast", "pure")}
    result["ours"] = dict(distances(bf16, f32, begin), between=moved(f32[1], theirs["f32"][1], begin))
    result["losses"] = {"ours f32": f32[0], "ours bf16": bf16[0], **{kind: run[0] for kind, run in theirs.items()}}
    print(json.dumps(result))


main()
