"""The step against PyTorch: logits, evaluation, every part of the loss, every gradient, ten AdamW steps, adapters, generated ids.

Each case is a job (step_reference.py) that step_cli runs twice: on `ref` in double, held to 1e-9 of each tensor's largest element, and on
`cpu` in f32, held by norm to 1e-5 for logits and 1e-4 for the rest. Both read the models that transformers saved. The table at the end says
what was compared and the worst difference of each kind.
"""
import collections
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

import step_reference as ref
from interop import RETORT, ROOT, check, finish, program

logging.disable_progress_bar()
torch.set_num_threads(1)
STEP = program("step")
EXACT, LOGITS, REST = 1e-9, 1e-5, 1e-4
ROPE = 4 * 2.0 ** -24  # of an inverse frequency: transformers computes them in f32
worst = collections.defaultdict(float)  # (backend, kind)
compared = collections.Counter()


def call(*args, given=None):
    done = subprocess.run([STEP, *args], input=given, capture_output=True, text=True)
    return done.returncode == 0, done.stdout, done.stderr


def by_max(a, b):
    scale = np.abs(b).max()
    return np.abs(a - b).max() / scale if scale else np.abs(a).max()


def by_norm(a, b):
    scale = np.linalg.norm(b)
    return np.linalg.norm(a - b) / scale if scale else np.linalg.norm(a)


def compare(what, backend, got, want, tables):
    """Every result; nothing may be missing or left over."""
    names = [key for key in got if not key.startswith("rope")]
    check(sorted(names) == sorted(want), f"{what}, {backend}: other results: {sorted(set(names) ^ set(want))}")
    for model, (table, factor) in tables.items():
        ours = np.array(got["rope." + model])
        check(by_max(ours / table, np.ones(len(table))) <= ROPE, f"{what}: rope table {ours} is not {table}")
        check(got["rope_scale." + model] == [factor], f"{what}: rope factor")
    for key in want:
        if key not in got:
            continue
        kind = key.split(".")[0]
        a, b = np.array(got[key], dtype=np.float64), want[key]
        if not check(a.shape == b.shape and np.isfinite(a).all(), f"{what}, {backend}: {key}: {a.shape} against {b.shape}, or not finite"):
            continue
        if key in ("eval.top1", "step.agreement"):
            check(np.abs(a - b).max() < 1e-6, f"{what}, {backend}: {key}")
            continue
        if backend == "ref":
            error, limit = by_max(a, b), EXACT
        else:
            error, limit = by_norm(a, b), LOGITS if kind == "logits" else REST
        if kind == "frozen":
            limit = 0.0
        worst[backend, kind] = max(worst[backend, kind], error)
        compared[backend, kind] += 1
        check(error <= limit, f"{what}, {backend}: {key} differs by {error:.2g}, more than {limit:g}")


def as_adapters(model, lora):
    return get_peft_model(model, LoraConfig(r=lora["rank"], lora_alpha=lora["alpha"], target_modules=lora["targets"], lora_dropout=0.0,
                                            bias="none", task_type="CAUSAL_LM"))


def case(folder, what, student_config, teacher_config, job):
    place = os.path.join(folder, what.replace(" ", "-").replace("/", "-"))
    student = ref.build(student_config, "student")
    teacher = ref.build(teacher_config, "teacher") if teacher_config else None
    student.save_pretrained(place + "-student")
    tables = {"student": (np.array(ref.rope_table(student)), ref.f32(student.model.rotary_emb.attention_scaling))}
    if teacher:
        teacher.save_pretrained(place + "-teacher")
        tables["teacher"] = (np.array(ref.rope_table(teacher)), ref.f32(teacher.model.rotary_emb.attention_scaling))
        ref.exact(teacher)
    job["rope"] = {model: table.tolist() for model, (table, _) in tables.items()}
    with open(place + ".json", "w") as f:
        json.dump(job, f)
    if "lora" in job:
        student = as_adapters(student, job["lora"])
        ref.fill(student, "student")
    check(ref.exact(student) > 2 * student_config.num_hidden_layers, f"{what}: too few modules were patched")
    if teacher and "lora" not in job:
        with torch.no_grad():  # the mask that transformers makes of packed positions is the one that is given
            for model in (student, teacher):
                a, b = (ref.forward(model, job, job["batches"][0], mask) for mask in ("explicit", None))
                check((a - b).abs().max().item() < 1e-12, f"{what}: transformers' own mask gives other logits")
    want = ref.run(job, student, teacher)
    for backend in ("ref", "cpu"):
        result, adapter = f"{place}-{backend}.json", f"{place}-{backend}-adapter"
        extra = [adapter, adapter + "-merged"] if "lora" in job else []
        ok, _, text = call("train", backend, place + ".json", place + "-student", place + "-teacher" if teacher else "-", result, *extra)
        if not check(ok, f"{what}, {backend}: {text}"):
            continue
        with open(result) as f:
            got = json.load(f)
        compare(what, backend, got, want, tables)
        if extra:
            loaded_by_peft(f"{what}, {backend}", student_config, adapter, student, job)
    return student


def loaded_by_peft(what, student_config, adapter, student, job):
    """The adapter that we wrote, and the merged model, give the logits of the one that PyTorch trained."""
    base = ref.build(student_config, "student")
    model = PeftModel.from_pretrained(base, adapter)
    keys = {ref.plain_name(name) for name, _ in model.named_parameters() if ".lora_" in name}
    check(len(keys) == sum(".lora_" in name for name, _ in student.named_parameters()), f"{what}: PEFT found {len(keys)} adapter tensors")
    ref.exact(model)
    merged, info = AutoModelForCausalLM.from_pretrained(adapter + "-merged", output_loading_info=True, attn_implementation="sdpa")
    check(not any(info.values()), f"{what}: merged: {info}")
    ref.exact(merged)
    with torch.no_grad():
        b = ref.forward(student, job, job["batches"][0]).numpy()
        for name, other in (("adapter", model), ("merged", merged)):
            error = by_norm(ref.forward(other, job, job["batches"][0]).numpy(), b)
            worst["saved", name] = max(worst["saved", name], error)
            compared["saved", name] += 1
            check(error <= LOGITS, f"{what}: {name} loaded again gives logits that differ by {error:.2g}")


def families(folder):
    divergence = dict(zip(ref.MODELS, ("forward-kl", "reverse-kl", "jsd", "skew-forward", "skew-reverse", "tv", "forward-kl", "jsd", "reverse-kl")))
    for number, name in enumerate(ref.MODELS):
        job = ref.make_job(number, 41, divergence=divergence[name], mix=0.3, temperature=2.0, documents=1 + number % 3, block=number % 2 == 1)
        case(folder, name, ref.config(name), ref.teacher_config(name), job)


def losses(folder):
    """Every divergence, its ends, T, T^2 or not, clipping or not, and vocabularies that differ."""
    V, U = 41, 53
    mask = [0b11011111111111111111111111111101, 0b0111111111]  # some ids of the first 41 are not common
    kinds = [("forward-kl", 0), ("reverse-kl", 0), ("jsd", 0.0), ("jsd", 0.5), ("jsd", 0.9), ("jsd", 1.0), ("skew-forward", 0.1),
             ("skew-reverse", 0.1), ("skew-forward", 0.7), ("skew-reverse", 0.7), ("tv", 0)]
    for number, (kind, mix) in enumerate(kinds):
        odd = number % 2 == 1
        job = ref.make_job(100 + number, V, divergence=kind, mix=mix, temperature=(1.0, 1.7, 4.0)[number % 3], t2=not odd, ce_weight=0.25 * odd,
                           kd_weight=1.5, max_grad_norm=0 if number % 4 == 0 else 0.2, vmask=mask)
        case(folder, f"{kind} {mix}", ref.config("qwen2", num_hidden_layers=1), ref.teacher_config("llama", vocab_size=U), job)


def other_runs(folder):
    teacher = ref.teacher_config("qwen3")
    case(folder, "no teacher", ref.config("qwen2"), None, ref.make_job(200, 41, ce_weight=1.0, kd_weight=0.0))
    case(folder, "three micro-batches", ref.config("qwen2"), teacher, ref.make_job(201, 41, micro=3, temperature=2.0, chunk=7))
    case(folder, "recomputed micro-batches", ref.config("llama"), teacher, ref.make_job(202, 41, micro=2, block=True))
    frozen = ["model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.up_proj.weight",
              "model.layers.0.input_layernorm.weight", "model.layers.1.self_attn.k_proj.bias", "model.norm.weight"]
    case(folder, "frozen parts", ref.config("llama"), teacher, ref.make_job(203, 41, frozen=frozen))
    case(folder, "frozen lower layer", ref.config("qwen3"), teacher, ref.make_job(204, 41, frozen=[
        "model.embed_tokens.weight", *(name for name, _ in ref.build(ref.config("qwen3"), "student").named_parameters() if ".layers.0." in name)]))


def adapters(folder):
    every = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    teacher = ref.teacher_config("qwen3")
    for number, (name, targets, rank, alpha) in enumerate((("llama", every, 3, 6), ("qwen2", ["q_proj", "v_proj"], 4, 2), ("qwen3", every, 2, 2),
                                                           ("mistral", ["o_proj", "down_proj", "k_proj"], 5, 10), ("smollm3", every, 1, 1))):
        job = ref.make_job(300 + number, 41, micro=1 + number % 2, block=number == 2, lora=dict(rank=rank, alpha=alpha, targets=targets))
        case(folder, f"adapters {name}", ref.config(name), teacher, job)


def controls(folder):
    """What a job says reaches the numbers: each setting a little off must be more than 1e-9 off in the end."""
    student, teacher = ref.build(ref.config("qwen2"), "student"), ref.build(ref.teacher_config("qwen2"), "teacher")
    place = os.path.join(folder, "control")
    student.save_pretrained(place + "-student")
    teacher.save_pretrained(place + "-teacher")
    job = ref.make_job(350, 41, divergence="jsd", mix=0.5, temperature=2.0, ce_weight=0.25, kd_weight=0.5)
    changes = [(part, key, ref.f32(job[part][key] * (1 + 2.0 ** -12))) for part, key in (
        ("loss", "mix"), ("loss", "temperature"), ("loss", "ce_weight"), ("loss", "kd_weight"), ("adamw", "beta1"), ("adamw", "beta2"),
        ("adamw", "weight_decay"), ("adamw", "max_grad_norm"))]
    changes += [("loss", "t2", False), ("loss", "divergence", "tv"), ("adamw", "eps", 1e-6), (None, "lr", [ref.f32(v * 1.001) for v in job["lr"]]),
                (None, "vmask", [0xFFFFFFFE, 0x1FF]), (None, "chunk", 4)]
    runs = []
    for part, key, value in [(None, "chunk", 5), *changes]:
        other = {name: dict(entry) if isinstance(entry, dict) else entry for name, entry in job.items()}
        (other[part] if part else other)[key] = value
        with open(place + ".json", "w") as f:
            json.dump(other, f)
        ok, _, text = call("train", "ref", place + ".json", place + "-student", place + "-teacher", place + "-result.json")
        if not check(ok, f"control {key}: {text}"):
            return
        with open(place + "-result.json") as f:
            runs.append({name: np.array(v) for name, v in json.load(f).items() if name.startswith("weight.")})
    for (part, key, value), run in zip(changes, runs[1:]):
        error = max(by_max(run[name], runs[0][name]) for name in run)
        check((error <= 1e-12) == (key == "chunk") and (error > EXACT) == (key != "chunk"), f"control: {key} {value} changes weights by {error:.2g}")


def generation(folder):
    """50 prompts for each model, one longer than a block of the prompt; the cache of transformers against ours."""
    for number, name in enumerate(ref.MODELS):
        model = ref.build(ref.config(name), "student")
        place = os.path.join(folder, "generate-" + name)
        model.save_pretrained(place)
        rng = np.random.default_rng(400 + number)
        prompts = [rng.integers(0, 41, 130 if k == 0 else 129 if k == 1 else 1 + k % 13).tolist() for k in range(50)]
        want = []
        with torch.no_grad():
            for prompt in prompts:
                ids = torch.tensor([prompt])
                made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=False, pad_token_id=0)
                want.append(made[0, len(prompt):].tolist())
        for backend in ("ref", "cpu"):
            ok, text, error = call("generate", backend, place, "16", given="".join(" ".join(map(str, p)) + "\n" for p in prompts))
            got = [[int(v) for v in line.split()] for line in text.splitlines()]
            if not check(ok and len(got) == 50, f"{name}, {backend}: generate: {len(got)} answers {error}"):
                continue
            for prompt, a, b in zip(prompts, got, want):
                compared[backend, "generated"] += 1
                check(a == b, f"{name}, {backend}: after {prompt} transformers goes on with {b}, and we with {a}")
        distinct = len({tuple(w) for w in want})
        check(distinct > 25, f"{name}: only {distinct} different answers: the prompts say nothing")


def commands(folder):
    """`retort generate` itself, from text, on models of `retort init`: ids up to the first special one."""
    words = ("the", "Zürich", "a cat", "你好", "12", "\n", "retort", "of", "x = y", "\U0001f600")
    for number, family in enumerate(("llama", "qwen2", "qwen3", "mistral", "smollm3")):
        place = os.path.join(folder, "init-" + family)
        done = subprocess.run([RETORT, "init", "--preset", "tiny-" + family, "--dtype", "f32", "--seed", str(number), place], capture_output=True,
                              text=True)
        if not check(done.returncode == 0, f"init tiny-{family}: {done.stderr}"):
            continue
        model, tokenizer = AutoModelForCausalLM.from_pretrained(place).eval(), AutoTokenizer.from_pretrained(place)
        rng = np.random.default_rng(450 + number)
        for _ in range(50):
            text = " ".join(rng.choice(words, rng.integers(1, 8)))
            ids = tokenizer(text, return_tensors="pt")["input_ids"]
            with torch.no_grad():
                made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, pad_token_id=0)
            want = made[0, ids.shape[1]:].tolist()
            done = subprocess.run([RETORT, "generate", place, "--raw", "--ids", "--quiet", "--max-new", "12", "--threads", "1", "--prompt", text],
                                  capture_output=True, text=True)
            got = [int(v) for v in done.stdout.split()] if done.returncode == 0 else done.stderr
            plain = lambda list: list[:next((i for i, v in enumerate(list) if v >= 256), len(list))]
            compared["cpu", "commands"] += 1
            check(done.returncode == 0 and plain(got) == plain(want), f"tiny-{family}: after {text!r} transformers goes on with {want}, and we with {got}")


def golden():
    """The committed files are what the script writes today."""
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "gen_step_golden.py"), "--check"], capture_output=True, text=True)
    check(done.returncode == 0, f"gen_step_golden.py --check: {done.stdout}{done.stderr}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        families(folder)
        losses(folder)
        other_runs(folder)
        adapters(folder)
        controls(folder)
        generation(folder)
        commands(folder)
    golden()
    for (backend, kind), number in sorted(compared.items()):
        print(f"{backend:<6}{kind:<10}{number:>6} compared" + (f", worst {worst[backend, kind]:.2g}" if (backend, kind) in worst else ""))
    finish()


main()
