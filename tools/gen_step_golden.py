#!/usr/bin/env python3
"""gen_step_golden.py [--check] - what PyTorch makes of a few steps, into tests/golden/steps/*.json for tests/unit/test_step_golden.c.

Each file has the two configurations as transformers writes them, the job (tests/unit/step_case.h), and of every result what tells it from
another: its size, largest magnitude, norm, the product with a fixed vector, and a few elements. Weights are a formula that both sides have. With
--check nothing is written: the committed files must say the same, to 1e-11 of each result's largest element (sums may be cut otherwise on
another machine). Needs torch, transformers and peft; tests/interop/step_reference.py does the work.
"""
import argparse
import itertools
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "interop"))

import numpy as np
import peft
import torch
import transformers
from transformers.utils import logging

import step_reference as ref

logging.set_verbosity_error()
torch.set_num_threads(1)
SAMPLES = 8
EVERY = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def cases():
    """name, student, teacher or None, job"""
    kinds = ("forward-kl", "reverse-kl", "jsd", "skew-forward", "skew-reverse", "tv", "forward-kl", "jsd", "reverse-kl")
    for number, (name, kind) in enumerate(zip(ref.MODELS, itertools.cycle(kinds))):
        job = ref.make_job(500 + number, 41, divergence=kind, mix=0.3, temperature=(2.0, 1.0)[number % 2], t2=number % 3 != 2,
                           documents=1 + number % 3, micro=1 + number % 2, block=number % 4 == 3)
        yield name, ref.config(name), ref.teacher_config(name), job
    yield "no-teacher", ref.config("qwen2"), None, ref.make_job(520, 41, ce_weight=1.0, kd_weight=0.0, max_grad_norm=0)
    yield ("vocabularies", ref.config("qwen3"), ref.teacher_config("llama", vocab_size=53),
           ref.make_job(521, 41, divergence="jsd", mix=0.5, temperature=1.7, vmask=[0b11011111111111111111111111111101, 0b0111111111]))
    yield ("adapters", ref.config("llama"), ref.teacher_config("qwen3"),
           ref.make_job(522, 41, micro=2, block=True, lora=dict(rank=3, alpha=6, targets=EVERY)))
    yield ("frozen", ref.config("llama"), ref.teacher_config("qwen3"), ref.make_job(523, 41, frozen=[
        "model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.up_proj.weight",
        "model.layers.0.input_layernorm.weight", "model.layers.1.self_attn.k_proj.bias", "model.norm.weight"]))


def summary(values):
    n = len(values)
    at = [(k * 2654435761 + 12345) % n for k in range(min(n, SAMPLES))]
    return dict(n=n, max=float(np.abs(values).max()), norm=float(np.linalg.norm(values)),
                dot=float(values @ ref.units(ref.seed("dot", ""), n)), at=[float(values[i]) for i in at])


def kept(configuration):
    keys = configuration.to_dict()
    return {key: keys[key] for key in sorted(keys) if keys[key] is not None and key not in ("transformers_version", "_name_or_path", "dtype")}


def make(student_config, teacher_config, job):
    student = ref.build(student_config, "student")
    teacher = ref.build(teacher_config, "teacher") if teacher_config else None
    job["rope"] = {name: ref.rope_table(model) for name, model in (("student", student), ("teacher", teacher)) if model}
    factors = {name: ref.f32(model.model.rotary_emb.attention_scaling) for name, model in (("student", student), ("teacher", teacher)) if model}
    if "lora" in job:
        lora = job["lora"]
        student = peft.get_peft_model(student, peft.LoraConfig(r=lora["rank"], lora_alpha=lora["alpha"], target_modules=lora["targets"],
                                                               lora_dropout=0.0, bias="none", task_type="CAUSAL_LM"))
        ref.fill(student, "student")
    for model in (student, teacher):
        if model:
            ref.exact(model)
    results = ref.run(job, student, teacher)
    expected = {key: summary(value) for key, value in results.items() if not key.startswith("frozen.")}
    for name, factor in factors.items():
        expected["rope_scale." + name] = summary(np.array([factor]))
    return dict(versions=dict(torch=torch.__version__, transformers=transformers.__version__, peft=peft.__version__, numpy=np.__version__),
                student=kept(student_config), teacher=kept(teacher_config) if teacher_config else None, job=job, expected=expected)


def text_of(document):
    """One line per result, so that a change can be read."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in document.items() if key != "expected"]
    inner = ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(document["expected"].items()))
    return "{\n" + ",\n".join(lines) + ',\n  "expected": {\n' + inner + "\n  }\n}\n"


def differences(name, document, path):
    if not os.path.exists(path):
        return [f"{path} is missing"]
    with open(path) as f:
        committed = json.load(f)
    found = [f"{name}: {key} is another" for key in ("student", "teacher", "job") if committed[key] != json.loads(json.dumps(document[key]))]
    a, b = committed["expected"], document["expected"]
    if sorted(a) != sorted(b):
        return found + [f"{name}: other results: {sorted(set(a) ^ set(b))}"]
    for key in b:
        scale = 1e-11 * max(b[key]["norm"], 1e-300)
        pairs = [(a[key][part], b[key][part]) for part in ("n", "max", "norm", "dot")] + list(zip(a[key]["at"], b[key]["at"]))
        if any(abs(x - y) > scale for x, y in pairs) or len(a[key]["at"]) != len(b[key]["at"]):
            found.append(f"{name}: {key} differs: {a[key]} against {b[key]}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("-o", "--out", default=os.path.join(ROOT, "tests", "golden", "steps"))
    args = parser.parse_args()
    found, names = [], []
    for name, student, teacher, job in cases():
        document, path = make(student, teacher, job), os.path.join(args.out, name + ".json")
        names.append(name + ".json")
        if args.check:
            found += differences(name, document, path)
            continue
        os.makedirs(args.out, exist_ok=True)
        with open(path, "w") as f:
            f.write(text_of(document))
    found += [f"{name} is nobody's" for name in sorted(set(os.listdir(args.out)) - set(names))]
    print("\n".join(found[:20]) or f"{len(names)} files {'are as they should be' if args.check else 'written'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
