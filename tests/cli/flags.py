#!/usr/bin/env python3
"""flags.py - every flag of `retort distill` and `retort train` is changed in turn in a tiny run, and must have the
effect that its help promises: another curve, other files, a refusal that ends.

CASES has one entry for each flag that --help shows; a flag without one fails the test, so that none is added that
reaches nothing. Without arguments all are tried but those of TIMED; with names of flags, those. Needs the standard library
and $RETORT; ends with `N passed, N failed`.
"""
import json
import math
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time

COMMAND = shlex.split(os.environ.get("EMU", "")) + [os.path.abspath(os.environ["RETORT"])]
WORDS = "the quick brown fox jumps over the lazy dog while seven wizards box in quiet zones".split()
CASES = {}
counts = {"passed": 0, "failed": 0}


class Fault(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Fault(what)


# ---- running ----

def call(*args):
    done = subprocess.run(COMMAND + [str(a) for a in args], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def make(*args):
    status, _, err = call(*args)
    if status != 0:
        raise SystemExit(f"retort {' '.join(map(str, args))}: {err}")


def tensors(path):
    """name -> (dtype, shape, bytes) of a safetensors file"""
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(size))
        data = f.read()
    return {k: (v["dtype"], tuple(v["shape"]), data[v["data_offsets"][0]:v["data_offsets"][1]])
            for k, v in head.items() if k != "__metadata__"}


BASE = {"--teacher": "t", "--student": "s", "--data": "d.jsonl", "--steps": 4, "--batch": 4, "--seq-len": 64,
        "--warmup": 2, "--lr": "3e-3", "--threads": 1, "--eval-every": 4, "--save-every": 4}
number = 0


class Run:
    """The base run with some flags changed; None leaves a flag out, True is a switch, a list repeats it."""

    def __init__(self, command="distill", fails=False, **changes):
        global number
        number += 1
        self.out = f"out{number}"
        flags = dict(BASE, **{"--out": self.out})
        flags.update({"--" + k.replace("_", "-"): v for k, v in changes.items()})
        self.out = flags["--out"]
        args = [command]
        for flag, value in flags.items():
            for one in value if isinstance(value, list) else [value]:
                if one is True:
                    args.append(flag)
                elif one is not None:
                    args += [flag, str(one)]
        self.status, self.text, self.error = call(*args)
        if fails:
            expect(self.status != 0, f"{' '.join(args)} should have been refused")
            return
        expect(self.status == 0, f"{' '.join(args)}: status {self.status}: {self.error}")
        with open(f"{self.out}/run/metrics.jsonl") as f:
            lines = [json.loads(line) for line in f]
        self.steps = [x for x in lines if x["event"] == "step"]
        self.evals = [x for x in lines if x["event"] == "eval"]
        self.lrs = [x["lr"] for x in self.steps]

    def curve(self):
        return [(x["loss"], x["ce"], x.get("divergence"), x["grad_norm"], x["trained"]) for x in self.steps]

    def kls(self):
        return [x["forward_kl"][0] for x in self.evals]

    def weights(self, name="model.safetensors"):
        return tensors(f"{self.out}/{name}")

    def tuning(self):
        with open(f"{self.out}/run/settings.json") as f:
            return json.load(f)["tune"]

    def memory(self):
        return re.search(r"^memory +(.*)$", self.text, re.M).group(1)


_base = []


def base():
    if not _base:
        _base.append(Run())
    return _base[0]


def near(a, b, limit=1e-5):
    return len(a) == len(b) and all(abs(x[0] - y[0]) <= limit * abs(x[0]) for x, y in zip(a, b))


def case(*flags):
    def put(function):
        for flag in flags:
            CASES[flag] = function
        return function
    return put


def other_curve(**changes):
    run = Run(**changes)
    expect(run.curve() != base().curve(), f"{changes}: the curve is the same")
    return run


# ---- models and data ----

@case("--teacher")
def _():
    a = other_curve(teacher="t2")
    expect(a.steps[0]["ce"] == base().steps[0]["ce"], "CE before the first update knows the teacher")
    expect(a.steps[0]["divergence"] != base().steps[0]["divergence"], "the divergence does not")
    first = [x.steps[0]["divergence"] for x in (base(), other_curve(teacher=["t,weight=0.5", "t2,weight=0.5"]), a)]
    expect(len(set(first)) == 3, "a mixture is neither of the two")


@case("--student")
def _():
    other_curve(student="s2")


@case("--data")
def _():
    other_curve(data="d2.jsonl")
    both = Run(data=["d.jsonl", "d2.jsonl"])
    expect("320 records" in both.text, "two sources")
    weighted = Run(data=["d.jsonl", "d2.jsonl,weight=0.1"])
    expect(weighted.curve() != both.curve(), "a weight changes the order")


@case("--eval-data")
def _():
    a = Run(eval_data="d2.jsonl")
    expect(a.evals[0]["ce"] != base().evals[0]["ce"], "another text is evaluated")
    expect(a.evals[0]["documents"] == 160 and base().evals[0]["documents"] < 40, "all of it, instead of a part")


@case("--out")
def _():
    a = Run(out="deep/er/place")
    expect(os.path.exists("deep/er/place/model.safetensors"), "the model is there")
    expect(a.curve() == base().curve(), "and the same")


# ---- loss ----

@case("--divergence")
def _():
    text = " ".join(call("distill", "--help")[1].split())
    words = re.search(r"--divergence D Divergence: (.*?) \(", text).group(1).split(", ")
    expect(len(words) >= 6 and words[0] == "forward-kl", f"the divergences of --help: {words}")
    seen = {Run(divergence=d, steps=1, warmup=1).steps[0]["divergence"] for d in words}
    expect(len(seen) == len(words) and base().steps[0]["divergence"] in seen, f"{words}: {len(seen)} values")


@case("--beta")
def _():
    a, b = (Run(divergence="jsd", beta=x, steps=1, warmup=1).curve() for x in (0.2, 0.8))
    expect(a != b, "beta of the JSD")
    one = Run(divergence="jsd", beta=1, steps=1, warmup=1).steps[0]["divergence"]
    expect(one == Run(divergence="reverse-kl", steps=1, warmup=1).steps[0]["divergence"], "beta 1 is reverse KL")
    expect(Run(fails=True, beta=0.2).status == 2, "nothing without the JSD")


@case("--skew")
def _():
    a, b = (Run(divergence="skew-forward", skew=x, steps=1, warmup=1).curve() for x in (0.1, 0.6))
    expect(a != b, "skew of the skewed KL")
    expect(Run(fails=True, skew=0.6).status == 2, "nothing with another")


def loss_is(run, ce, kd):
    for x in run.steps:
        want = ce * x["ce"] + kd * x["divergence"]
        expect(abs(x["loss"] - want) < 1e-9 * want, f"loss {x['loss']}, not {want}")


@case("--temperature", "--t2")
def _():
    a, b = Run(temperature=2), Run(temperature=2, t2="off")
    loss_is(a, 0.1, 0.9 * 4)
    loss_is(b, 0.1, 0.9)
    expect(a.steps[0]["divergence"] != base().steps[0]["divergence"], "the divergence is at T")
    expect(a.steps[0]["ce"] == base().steps[0]["ce"], "CE is not")
    expect(a.evals[0]["forward_kl"] == base().evals[0]["forward_kl"], "nor is the KL by which runs compare")
    expect(a.evals[0]["divergence"] != base().evals[0]["divergence"], "but the divergence that is trained is")


@case("--alpha")
def _():
    loss_is(base(), 0.1, 0.9)
    loss_is(other_curve(alpha=0.5), 0.5, 0.5)


@case("--kd-weight", "--ce-weight")
def _():
    loss_is(Run(kd_weight=2), 0.1, 2)
    loss_is(Run(ce_weight=0.7), 0.7, 0.9)
    loss_is(Run(kd_weight=0, ce_weight=1, alpha=0.3), 1, 0)


# ---- optimizer ----

@case("--lr")
def _():
    expect(max(other_curve(lr="1e-3").lrs) == 1e-3, "the highest rate")
    still = Run(lr=0)
    expect(still.kls()[0] == still.kls()[-1], "a rate of 0 changes nothing")
    expect(still.weights() == tensors("s/model.safetensors"), "not one weight")


@case("--lr-class")
def _():
    expect(abs(max(Run(lr=None, lr_class="far", schedule="constant").lrs) - 1.3e-3 * 896 / 64) < 1e-12, "its rate")
    a = Run(lr=None, lr_class="near", schedule="constant")
    expect(abs(max(a.lrs) - 1.3e-4 * 896 / 64) < 1e-12 and a.curve() != base().curve(), "and another")
    expect(Run(lr_class="far").curve() == base().curve(), "a given rate wins")
    expect(Run(fails=True, lr_class="wide").status == 2, "three words")


@case("--optimizer")
def _():
    def state(run):
        return tensors(f"{run.out}/run/checkpoints/checkpoint-000004/state.safetensors")
    runs = {o: Run(optimizer=o) for o in ("adamw", "adamw-bf16", "adamw-8bit")}
    expect(runs["adamw"].curve() == base().curve(), "adamw is the default")
    expect(len({tuple(r.curve()) for r in runs.values()}) == 3, "three curves")
    expect(all(near(r.curve(), base().curve(), 0.05) for r in runs.values()), "close to one another")
    types = {o: {k[0]: v[0] for k, v in state(r).items()} for o, r in runs.items()}
    expect(types["adamw"] == {"w": "F32", "m": "F32", "v": "F32"}, f"{types}")
    expect(types["adamw-bf16"] == {"w": "F32", "m": "BF16", "v": "BF16"}, f"{types}")
    expect(types["adamw-8bit"] == {"w": "F32", "m": "U8", "v": "U8", "s": "U8"}, f"{types}")
    for o in ("adamw-bf16", "adamw-8bit"):
        again = Run(optimizer=o, steps=2, eval_every=2, save_every=2)
        status, _, err = call("distill", "--resume", "--out", again.out, "--optimizer", "adamw")
        expect(status != 0 and "--optimizer: was" in err, f"another optimizer on resume: {err}")
        status, _, err = call("distill", "--resume", "--out", again.out, "--optimizer", "adamw", "--override", "--steps", 4)
        expect(status != 0 and "--optimizer that it began with" in err, f"nor with --override: {err}")
        lora = Run(optimizer=o, lora=True, lora_rank=4)
        expect("moments in " in open(f"{lora.out}/README.md").read(), "the model card says so")
    expect(Run(fails=True, optimizer="sgd").status == 2, "three words")


@case("--betas")
def _():
    other_curve(betas="0.5,0.95")
    other_curve(betas="0.9,0.5")


@case("--eps")
def _():
    other_curve(eps="1e-2")


@case("--weight-decay")
def _():
    a = Run(weight_decay=20)
    expect(a.weights() != base().weights(), "decay pulls the weights")
    norm = "model.norm.weight"
    one = [Run(weight_decay=d, steps=1, warmup=1).weights() for d in (0, 20)]
    expect(one[0][norm] == one[1][norm] and one[0] != one[1], "of matrices alone")


@case("--schedule")
def _():
    lrs = {s: tuple(Run(schedule=s, steps=12).lrs) for s in ("constant", "linear", "cosine", "wsd")}
    expect(len(set(lrs.values())) == 4, "four schedules, four courses")
    expect(lrs["constant"][-1] == 3e-3 and abs(lrs["linear"][-1] - 3e-4) < 1e-12, "their ends")


@case("--warmup")
def _():
    expect(other_curve(warmup=4).lrs[0] == 3e-3 / 4, "a longer rise")
    expect(Run(warmup="50%").lrs == base().lrs, "half of four steps is two")


@case("--decay")
def _():
    a = Run(schedule="wsd", steps=10, decay=5).lrs
    expect(a[4] == 3e-3 and a[5] < 3e-3, f"the last five steps fall: {a}")
    expect(Run(fails=True, decay=5).status == 2, "nothing with another schedule")


@case("--lr-floor")
def _():
    expect(abs(other_curve(lr_floor=0.5, steps=6).lrs[-1] - 1.5e-3) < 1e-12, "the end of the cosine")


@case("--max-grad-norm")
def _():
    a = other_curve(max_grad_norm=0.01, betas="0,0", eps=1)
    expect(all(x["clip"] < 1 and abs(x["clip"] * x["grad_norm"] - 0.01) < 1e-6 for x in a.steps), "clipped to it")
    expect(all(x["clip"] == 1 for x in Run(max_grad_norm=0).steps), "0 never clips")


# ---- rows and steps ----

@case("--batch")
def _():
    a = Run(batch=8)
    expect(a.steps[0]["tokens"] > 1.5 * base().steps[0]["tokens"], "more rows in a step")


@case("--micro-batch")
def _():
    a, b = Run(micro_batch=1), Run(micro_batch=3)
    expect("(1 at a time)" in a.text and "(4 at a time)" in base().text, "what the run says")
    expect(a.memory() != base().memory(), "less memory")
    expect(near(a.curve(), base().curve()) and near(b.curve(), base().curve()), "the same loss but for rounding")


@case("--teacher-batch")
def _():
    a = Run(micro_batch=1, teacher_batch=4)
    expect(a.memory() != Run(micro_batch=1).memory(), "the teacher's rows take room")
    expect(near(a.curve(), base().curve()), "the same loss but for rounding")
    expect(Run(fails=True, teacher_batch=0).status in (2, 5), "none")


@case("--teacher-weights")
def _():
    a = other_curve(teacher_weights="bf16")
    expect(near(a.curve(), base().curve(), 1e-3), "a teacher rounded to bf16 is nearly the same")
    expect(a.memory() != base().memory(), "and smaller than one of f32")
    expect("weights   the teacher's are dequantised to bf16 once, as the settings say" in a.text, "it says so")
    expect(Run(teacher_weights="native").curve() == base().curve(), "native is what a processor takes")
    expect("weights   the teacher's stay as they are stored: this device multiplies them so" in base().text, "and why")
    with open(f"{a.out}/run/settings.json") as f:
        expect(json.load(f)["teacher_weights"] == "bf16", "the record")
    expect("dequantised to bf16 once" in open(f"{a.out}/run/plan.txt").read(), "the plan")
    coded = other_curve(teacher_weights="fp8")
    expect(near(coded.curve(), base().curve(), 2e-2), "nor is one in fp8 far from it")
    expect(coded.memory() not in (a.memory(), base().memory()), "smaller still")
    expect("weights   the teacher's are quantised to fp8 once, as the settings say" in coded.text, "it says so")
    with open(f"{coded.out}/run/settings.json") as f:
        expect(json.load(f)["teacher_weights"] == "fp8", "the record")
    expect("matmul_scaled" in open(f"{coded.out}/run/plan.txt").read(), "and its GEMMs are in the plan")
    expect("matmul_scaled" not in open(f"{a.out}/run/plan.txt").read(), "and nowhere else")
    bad = Run(fails=True, teacher_weights="f16")
    expect(bad.status == 2, "no such word")
    expect("--teacher-weights 'f16' is unknown; use one of auto, native, bf16, fp8 or fp8-native" in bad.error, "and which there are")


@case("--teacher-memory")
def _():
    a = Run(teacher_memory="disk", teacher_batch=4)
    expect(a.curve() == Run(teacher_batch=4).curve(), "the same teacher, to the bit")
    expect(a.memory() != Run(teacher_batch=4).memory(), "and less of it in memory")
    expect("streamed  the teacher's layers are on disk, as the settings say" in a.text, "it says so")
    expect("streamed" not in base().text, "and of others nothing")
    with open(f"{a.out}/run/settings.json") as f:
        expect(json.load(f)["teacher_memory"] == "disk", "the record")
    expect("disk parameters, not on the device" in open(f"{a.out}/run/plan.txt").read(), "the plan")
    bad = Run(fails=True, teacher_memory="ram")
    expect(bad.status == 2, "no such word")
    expect("--teacher-memory 'ram' is unknown; use one of auto, device, host or disk" in bad.error, "and which there are")
    expect("use device, or disk" in Run(fails=True, teacher_memory="host").error, "a CPU has no memory beside the host's")


@case("--seq-len")
def _():
    expect("rows of 32 tokens" in other_curve(seq_len=32).text, "shorter rows")


@case("--steps", "--tokens", "--epochs")
def _():
    expect(len(Run(steps=3).steps) == 3, "--steps")
    expect(len(Run(steps=None, tokens=4 * 64 * 5).steps) == 5, "--tokens")
    rows = int(re.search(r"(\d+) rows of \d+ tokens", base().text).group(1))
    quarter = len(Run(steps=None, epochs=0.25).steps)
    expect(quarter == math.ceil(rows * 0.25 / 4), f"--epochs: {quarter} steps of {rows} rows")
    expect(Run(fails=True, epochs=1).status == 2, "one of them")


@case("--time")
def _():
    def lasted(**flags):
        begun = time.time()
        run = Run(**flags)
        return run, time.time() - begun

    # Steps are chosen by what they take at the beginning; other tests that come and go change it. pace.h is exact.
    _, short = lasted(steps=2)
    limit = max(3, math.ceil(3 * short))
    a, seconds = lasted(steps=None, time=f"{limit}s")
    expect(seconds < 2 * limit, f"it took {seconds:.1f} s of {limit}")
    expect(f"--time {limit}s is --steps" in a.text and len(a.steps) > 0, "steps were settled")
    b = Run(steps=len(a.steps))
    expect(a.curve() == b.curve() and a.weights() == b.weights(), "the run is the one with so many steps")
    evaluated = dict(eval_every=1, held_out="60%")  # evaluations are most of it, and are counted
    _, short = lasted(steps=2, **evaluated)
    limit = max(2, math.ceil(2 * short))
    _, seconds = lasted(steps=None, time=f"{limit}s", **evaluated)
    expect(seconds < 3 * limit, f"with evaluations it took {seconds:.1f} s of {limit}")
    expect(Run(fails=True, time="6s").status == 2, "not beside --steps")
    expect(Run(fails=True, steps=None, time="soon").status == 2, "a word")
    short = Run(fails=True, steps=None, time="0.001s")
    expect(short.status == 5 and "too short" in short.error and not os.path.exists(short.out + "/config.json"), short.error)


@case("--log-every")
def _():
    a = Run(log_every=2)
    expect(re.findall(r"^step (\d+)/4 ", a.text, re.M) == ["2", "4"] and a.curve() == base().curve(), "every second step")


@case("--quiet")
def _():
    a = Run(quiet=True)
    expect(a.text == f"{a.out}: the model of step 4 (the best), read back\n" and not a.error, a.text)
    expect(a.curve() == base().curve(), "the same run")


@case("--json")
def _():
    a = Run(json=True)
    kinds = [json.loads(line)["event"] for line in a.text.splitlines()]
    expect(kinds.count("step") == 4 and kinds[0] == "start" and kinds[-1] == "end" and "eval 4" in a.error, kinds)
    expect(a.curve() == base().curve(), "the same run")


@case("--devices")
def _():
    a = call("distill", *[str(x) for k, v in BASE.items() for x in (k, v)], "--devices", "2", "--out", "ranks")
    if shutil.which("mpirun"):
        expect(a[0] == 0 and "2 ranks on 1 host" in a[1], a[1] + a[2])
    else:
        expect(a[0] == 9 and "cannot be run" in a[2], a[1] + a[2])
    expect(call("train", "--student", "s", "--data", "d.jsonl", "--out", "one", "--devices", "0")[0] == 2, "0 is refused")


@case("--restarts")
def _():
    alone = Run(fails=True, restarts=1)
    expect(alone.status == 2 and "--restarts needs --devices" in alone.error, alone.error)
    expect(Run(fails=True, restarts=-1).status == 2, "a number")


@case("--zero")
def _():
    def memory(zero):
        text = call("plan", *[str(x) for k, v in BASE.items() for x in (k, v)], "--devices", 2, "--zero", zero)[1]
        return re.search(r"^memory +(.*)$", text, re.M).group(1)
    expect(len({memory(z) for z in (0, 1, 2)}) == 3, "less memory of two ranks")
    expect(Run(zero=2).curve() == base().curve(), "one rank has nothing to share out")
    expect(Run(fails=True, zero=3).status == 2, "0 to 2")


# What becomes of a run whose device fails: tests/cli/ladder.sh.
@case("--on-device-failure", "--device-timeout", "--keep-host-copy")
def _():
    a = Run(on_device_failure="retry:1", device_timeout=60, keep_host_copy=1)
    expect(a.curve() == base().curve() and a.weights() == base().weights(), "a run that is not disturbed")
    expect(not [x for x in os.listdir("/dev/shm") if x.startswith("retort-copy")], "and leaves no copy")
    for changes in ({"on_device_failure": "perhaps"}, {"device_timeout": -1}, {"keep_host_copy": -1}):
        expect(Run(fails=True, **changes).status == 2, f"{changes}")


@case("--smoke")
def _():
    a = call("distill", *[str(x) for k, v in BASE.items() for x in (k, v)], "--smoke", "--out", "smoked")
    expect(a[0] == 0 and "over 4 steps; all 4 with evaluations and saves" in a[1], a[1] + a[2])
    expect(not os.path.exists("smoked"), "nothing is left")
    expect(len(Run(out="smoked").steps) == 4, "and the run can follow")


# ---- memory ----

@case("--memory-limit", "--fit")
def _():
    a = Run(memory_limit="4MiB")
    expect(re.search(r"^fit +--[-a-z:0-9, ]+: [0-9.]+ MiB would be needed.*; a step takes about [0-9.]+ % more", a.text, re.M), a.text)
    expect(near(a.curve(), base().curve()), "the same loss but for rounding")
    block = Run(memory_limit="4MiB", micro_batch=4)
    expect("fit       --recompute " in block.text and block.curve() == base().curve(), "what is left free is chosen")
    b = Run(fails=True, memory_limit="4MiB", micro_batch=4, recompute="none")
    expect(b.status == 13 and "what fits: --recompute " in b.error and not os.path.exists(b.out), b.error)
    expect(Run(fails=True, memory_limit="much").status == 2, "a word")
    expect(Run(fails=True, fit=True, micro_batch=4).status == 2, "--fit chooses what is given")
    done = call("distill", "--resume", "--out", a.out, "--fit", "--memory-limit", "1GiB")
    expect(done[0] == 0 and "(4 at a time)" in done[1], done[1] + done[2])


# ---- adapters, frozen parts ----

@case("--lora", "--lora-rank")
def _():
    a = Run(lora=True)
    expect(os.path.exists(f"{a.out}/adapter_config.json") and not os.path.exists(f"{a.out}/config.json"), "an adapter")
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    expect(a.weights("adapter_model.safetensors")[name][1] == (32, 64), "of rank 32")
    b = Run(lora_rank=3)
    expect(b.weights("adapter_model.safetensors")[name][1] == (3, 64), "of rank 3")
    expect(b.steps[0]["ce"] == base().steps[0]["ce"], "a fresh adapter changes nothing")


@case("--lora-alpha")
def _():
    expect(Run(lora_rank=4, lora_alpha=1).curve() != Run(lora_rank=4, lora_alpha=9).curve(), "the scale")
    expect(Run(fails=True, lora_alpha=1).status == 2, "nothing without adapters")


@case("--lora-dropout")
def _():
    a, b = Run(lora_rank=4), Run(lora_rank=4, lora_dropout=0.5)
    expect(a.curve() != b.curve() and a.kls()[0] == b.kls()[0], "in training, not in evaluation")
    expect(Run(fails=True, lora_rank=4, lora_dropout=1).status == 2, "not all of it")
    expect(Run(fails=True, lora_dropout=0.1).status == 2, "nothing without adapters")


@case("--lora-targets")
def _():
    names = Run(lora_rank=4, lora_targets="v,up").weights("adapter_model.safetensors")
    expect(len(names) == 8 and all("v_proj" in n or "up_proj" in n for n in names), f"two roles: {sorted(names)}")
    expect(Run(fails=True, lora_targets="q").status == 2, "nothing without adapters")


@case("--merge")
def _():
    a = Run(lora_rank=4, merge=True)
    expect(tensors(f"{a.out}/merged/model.safetensors").keys() == tensors("s/model.safetensors").keys(), "a whole model")
    expect(not os.path.exists(Run(lora_rank=4).out + "/merged"), "only when asked for")


@case("--base")
def _():
    a = Run(lora_rank=4)
    shutil.rmtree("far", ignore_errors=True)
    os.mkdir("far")
    shutil.copy(f"{a.out}/adapter_model.safetensors", "far")
    with open(f"{a.out}/adapter_config.json") as f, open("far/adapter_config.json", "w") as g:
        json.dump({**json.load(f), "base_model_name_or_path": "gone"}, g)
    expect(Run(fails=True, student="far").status == 3, "an adapter's base is not found")
    b = Run(student="far", base="s")
    expect(b.curve() != Run().curve() and b.weights().keys() == tensors("s/model.safetensors").keys(), "it is given")


@case("--freeze")
def _():
    was, now = tensors("s/model.safetensors"), Run(freeze=["*.mlp.*", "*embed*"]).weights()
    for name in was:
        frozen = ".mlp." in name or "embed" in name
        expect((was[name] == now[name]) == frozen, f"{name} is {'not ' if not frozen else ''}frozen")


@case("--recompute")
def _():
    a = Run(recompute="block")
    expect(a.curve() == base().curve() and a.weights() == base().weights(), "the same bits")
    expect(a.memory() != base().memory(), "of less memory")
    b = Run(recompute="mlp:1,block:1")
    expect(b.curve() == base().curve() and b.weights() == base().weights(), "the same bits of a mix")
    expect(len({a.memory(), b.memory(), base().memory()}) == 3, "of memory between them")
    for word in ("all", "block:0", "block:1,block:1", "none:1"):
        c = Run(fails=True, recompute=word)
        expect(c.status == 2 and "none, norms, mlp, block" in c.error, c.error)
    expect(Run(fails=True, recompute="block:99").status == 5, "more layers than there are")


@case("--head-chunk")
def _():
    a = Run(head_chunk=24)
    expect(near(a.curve(), base().curve()), "the same but for rounding")
    expect(a.memory() != base().memory(), "fewer logits at once")


# ---- data ----

@case("--columns")
def _():
    with open("d.jsonl") as f, open("named.jsonl", "w") as g:
        for line in f:
            g.write(json.dumps({"text": "not this", "body": json.loads(line)["text"]}) + "\n")
    expect(Run(data="named.jsonl", columns="text=body").curve() == base().curve(), "the tokens of the column it names")
    expect(Run(fails=True, columns="body=text").status == 2, "a key it does not know")


@case("--loss-on")
def _():
    a, b = Run(data="chat.jsonl"), Run(data="chat.jsonl", loss_on="all")
    expect(sum(x["trained"] for x in a.steps) < 0.7 * sum(x["trained"] for x in b.steps), "prompts are masked, or not")
    expect(Run(fails=True, loss_on="some").status == 2, "a word it does not know")


@case("--chat-template", "--template-var")
def _():
    expect("template  teacher" in base().text, "by default the teacher's")
    a = Run(data="chat.jsonl", chat_template="plain.jinja")
    expect("template  plain.jinja" in a.text, "a file")
    expect(a.curve() != Run(data="chat.jsonl").curve(), "other tokens")
    with open("plain.jinja") as f, open(f"{a.out}/chat_template.jinja") as g:
        expect(f.read() == g.read(), "it is written to the output")
    b = Run(data="chat.jsonl", chat_template="plain.jinja", template_var="mood=grim and long")
    expect(b.steps[0]["tokens"] > a.steps[0]["tokens"], "a variable that the template prints")
    expect("template  student" in Run(chat_template="student").text, "the student's")


@case("--skip-bad")
def _():
    a = Run(fails=True, data="bad.jsonl")
    expect(a.status == 4 and "bad.jsonl:3" in a.error and "--skip-bad" in a.error, a.error)
    expect("1 records at fault were skipped" in Run(data="bad.jsonl", skip_bad=1).text, "one is allowed")


@case("--allow-drop")
def _():
    a = Run(fails=True, data="long.jsonl")
    expect(a.status == 5 and "--allow-drop" in a.error, a.error)
    expect("records dropped" in Run(data="long.jsonl", allow_drop=True).text, "they are counted")


@case("--vocab")
def _():
    a = Run(fails=True, teacher="bare-t", student="bare-s", data="d.rtok")
    expect(a.status == 5 and "--vocab" in a.error, a.error)
    b = Run(teacher="bare-t", student="bare-s", data="d.rtok", vocab=259)
    expect("not measured" in b.text, "the record says so")
    expect(b.curve() == base().curve(), "and the numbers are those of the same tokens with tokenizers")
    expect(Run(fails=True, teacher="bare-t", student="bare-s", data="d.rtok", vocab=200).status == 5, "too few")


@case("--allow-degenerate")
def _():
    a = Run(fails=True, teacher="s")
    expect(a.status == 5 and "--allow-degenerate" in a.error, a.error)
    expect(abs(Run(teacher="s", allow_degenerate=True).steps[0]["divergence"]) < 1e-6, "no divergence from itself")


# ---- evaluation, files ----

@case("--held-out")
def _():
    few, many = Run(held_out=4), Run(held_out="40%")
    expect(few.evals[0]["documents"] < 10 and many.evals[0]["documents"] > 40, "how many documents are kept")
    expect(many.curve() != base().curve(), "and not trained on")


@case("--eval-rows")
def _():
    few, many = Run(held_out="40%", eval_rows=2), Run(held_out="40%")
    expect(0 < few.evals[0]["positions"] < many.evals[0]["positions"], "how many of the held-out rows are measured")
    expect(few.curve() == many.curve(), "and nothing else")


@case("--eval-every")
def _():
    expect([x["step"] for x in Run(eval_every=1).evals] == [0, 1, 2, 3, 4], "after every step")
    expect([x["step"] for x in Run(eval_every="50%").evals] == [0, 2, 4], "after half the run")


@case("--stop-if-worse")
def _():
    worse = dict(teacher="taught", lr=0.5, warmup=20, steps=20, eval_every=1)
    a, b = Run(stop_if_worse=2, **worse), Run(**worse)
    expect(a.evals[-1]["step"] < 20 and a.curve() == b.curve()[:len(a.curve())], "the same run, until it is worse")
    expect("(--stop-if-worse)" in a.text and "(--stop-if-worse)" not in b.text, "and says so")


@case("--sample-prompts", "--sample-tokens")
def _():
    with open("prompts.txt", "w") as f:
        f.write("the lazy dog\n")
    a = Run(sample_prompts="prompts.txt", sample_tokens=5)
    said = [json.loads(line) for line in open(f"{a.out}/run/samples.jsonl")]
    expect({x["prompt"] for x in said} == {"the lazy dog"} and len(said) == 3, "the teacher once, the student twice")
    expect(all(len(x["text"]) <= 5 for x in said), "a tokenizer of bytes: five letters at most")
    longer = Run(sample_prompts="prompts.txt", sample_tokens=9)
    more = [json.loads(line) for line in open(f"{longer.out}/run/samples.jsonl")]
    expect(all(x["text"] != y["text"] and y["text"].startswith(x["text"][:3]) for x, y in zip(said, more)), "longer texts")
    expect(longer.curve() == base().curve(), "the same training")
    none = Run(sample_prompts="none")
    expect(not os.path.exists(f"{none.out}/run/samples.jsonl") and "stop_rate" not in none.evals[0], "none")
    expect(none.curve() == base().curve() and "stop_rate" in base().evals[0], "the same training")
    expect(Run(fails=True, sample_tokens=0).status == 2, "no tokens are no sample")


@case("--save-every", "--keep")
def _():
    def kept(run):
        return sorted(int(n[11:]) for n in os.listdir(run.out + "/run/checkpoints") if n.startswith("checkpoint-"))
    expect(kept(base()) == [4], "at the end")
    expect(kept(Run(save_every=1)) == [3, 4], "the last two")
    expect(kept(Run(save_every=1, keep=3)) == [2, 3, 4], "the last three")
    expect(kept(Run(save_every=2, keep=1)) == [4], "the last one")


@case("--save")
def _():
    # The rate rises until everything that was learned in the first steps is lost.
    worse = dict(teacher="taught", lr=0.5, warmup=8, steps=8, eval_every=1)
    best, last = Run(save="best", **worse), Run(save="last", **worse)
    kls = best.kls()
    expect(best.curve() == last.curve() and kls[-1] > min(kls[1:]), f"the last is not the best: {kls}")
    step = kls.index(min(kls))
    expect(step > 0 and f"the model of step {step} (the best)" in best.text, f"{kls}: {best.text[-300:]}")
    expect("the model of step 8 (the last)" in last.text, last.text[-300:])
    expect(best.weights() != last.weights(), "two models")
    expect(last.weights() == last.weights("run/checkpoints/checkpoint-000008/model.safetensors"), "of the last checkpoint")


@case("--save-dtype")
def _():
    expect({t[0] for t in base().weights().values()} == {"F32"}, "as the student was stored")
    for name, stored in ("bf16", "BF16"), ("f16", "F16"):
        a = Run(save_dtype=name)
        expect({t[0] for t in a.weights().values()} == {stored}, name)
        expect(a.curve() == base().curve(), "the run is the same")
        expect("its dtype's rounding" in a.text, "what it costs is said")


@case("--control")
def _():
    a = Run(control=True)
    expect(a.curve() == base().curve() and a.weights() == base().weights(), "the run is the same")
    expect(tensors(f"{a.out}/run/control/model.safetensors") != a.weights(), "and another model beside it")
    expect(not os.path.exists(f"{base().out}/run/control"), "only when asked for")


@case("--dump-step")
def _():
    a = Run(dump_step=3)
    expect(a.curve() == base().curve() and a.weights() == base().weights(), "the run is the same")
    with open(f"{a.out}/run/dump-000003/step.json") as f:
        expect(json.load(f)["result"]["loss"] == a.steps[2]["loss"], "the third step is written down")
    expect(Run(fails=True, dump_step=5).status == 5, "a step that there is not")


@case("--seed")
def _():
    other_curve(seed=1)
    a, b = (Run(lora_rank=4, seed=s).weights("adapter_model.safetensors") for s in (1, 2))
    expect(a != b, "adapters begin elsewhere")


@case("--held-seed")
def _():
    other_curve(held_seed=1)
    a, b = (Run(held_seed=5, seed=s, eval_rows=1000).evals[0]["ce"] for s in (1, 2))
    expect(a == b, "what is held out does not go by --seed then")


@case("--device")
def _():
    def programs(run):
        with open(f"{run.out}/run/checkpoints/checkpoint-000004/state.json") as f:
            return json.load(f)["programs"]
    a = Run(device="ref", teacher="mini-t", student="mini-s", seq_len=16, allow_drop=True)
    b = Run(device="cpu", teacher="mini-t", student="mini-s", seq_len=16, allow_drop=True)
    expect(programs(a) != programs(b), "other programs")
    expect(near(a.curve(), b.curve()), "the same numbers but for rounding")
    expect(Run(fails=True, device="abacus").status == 9, "one that is not there")


@case("--device-memory")
def _():
    expect(Run(device_memory="device").curve() == base().curve(), "the same run")
    expect(Run(fails=True, device_memory="hbm").status == 2, "a word that it is not")


# Without a GPU these change nothing, and are refused with the device that they are about.
@case("--kernels")
def _():
    expect(Run(kernels="ptx").curve() == base().curve(), "the same run")
    expect(Run(fails=True, device="cuda", kernels="fast").status in (5, 9), "a word that it is not, or no GPU")


@case("--cublaslt")
def _():
    expect(Run(cublaslt="none").curve() == base().curve(), "the same run")
    expect(Run(fails=True, device="cuda", cublaslt="/nowhere").status == 9, "a library that is not there, or no GPU")


@case("--tune")
def _():
    a, b = Run(tune=True), Run(tune="all")
    expect(b.curve() == base().curve() and a.tuning() == "on" == base().tuning(), "bare is on, as without")
    expect(Run(fails=True, tune="fast").status == 2, "a word that it is not")
    expect(a.curve() == base().curve() and not os.path.exists(f"{a.out}/run/products.tsv"), "the same run, no choices")


@case("--sync")
def _():
    expect(Run(sync=True).curve() == base().curve(), "the same run")


def most_threads(args):
    """The most that the process was seen to have."""
    process = subprocess.Popen(COMMAND + [str(a) for a in args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        try:
            most = max(most, len(os.listdir(f"/proc/{process.pid}/task")))
        except OSError:
            pass
        time.sleep(0.002)
    expect(process.returncode == 0, "it ran")
    return most


@case("--threads")
def _():
    a = Run(threads=3)
    expect(a.curve() == base().curve() and a.weights() == base().weights(), "the same bits")
    expect(Run(fails=True, threads=100000).status == 2, "a number beyond reason")
    if os.path.isdir("/proc/self/task") and len(COMMAND) == 1:
        shared = ["train", "--student", "s", "--data", "d.jsonl", "--steps", 30, "--batch", 4, "--seq-len", 64]
        one = most_threads(shared + ["--threads", 1, "--out", "threads1"])
        five = most_threads(shared + ["--threads", 5, "--out", "threads5"])
        expect(five >= one + 4, f"{one} with one thread, {five} with five")


# Without effect of their own; distill.sh and config.sh have their tests.
CASES["--config"] = CASES["--resume"] = CASES["--override"] = CASES["--help"] = None


TIMED = {"--time"}  # has to be alone on the machine: flags_time.sh


# ---- all of it ----

def chat(i):
    return [{"role": "user", "content": " ".join(WORDS[(i + k) % 16] for k in range(4))},
            {"role": "assistant", "content": WORDS[i % 16] + "!"}]


def write(name, records):
    with open(name, "w") as f:
        for r in records:
            f.write(r if isinstance(r, str) else json.dumps(r) + "\n")


def prepare():
    for name, preset, seed in ("s", "tiny-qwen2", 1), ("s2", "tiny-qwen2", 3), ("t", "tiny-llama", 2), \
            ("t2", "tiny-llama", 4):
        make("init", "--preset", preset, "--seed", seed, "--dtype", "f32", name)
    make("init", "--preset", "tiny-qwen2", "--seed", 1, "--dtype", "f32", "--no-tokenizer", "bare-s")
    make("init", "--preset", "tiny-llama", "--seed", 2, "--dtype", "f32", "--no-tokenizer", "bare-t")
    shape = {"model_type": "qwen2", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
             "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 260, "max_position_embeddings": 64}
    write("mini.json", [shape])
    for i, name in enumerate(("mini-s", "mini-t")):
        make("init", "--config", "mini.json", "--seed", i, "--dtype", "f32", "--tokenizer", "s", name)
    write("d.jsonl", [{"text": " ".join(WORDS[(i * 7 + k * k + k * i) % 16] for k in range(9)) + f" {i}"}
                      for i in range(160)])
    write("d2.jsonl", [{"text": " ".join(WORDS[(i * 5 + k) % 16] for k in range(8)) + str(i)} for i in range(160)])
    write("chat.jsonl", [{"messages": chat(i)} for i in range(120)])
    write("bad.jsonl", [{"text": f"line {i} of a text"} for i in range(2)] + ["{ broken\n"] +
          [{"text": f"line {i} of a text"} for i in range(120)])
    write("long.jsonl", [{"messages": chat(i)} for i in range(120)] +
          [{"messages": [{"role": "user", "content": "very " * 40}, chat(i)[1]]} for i in range(20)])
    write("plain.jinja", ["{{ mood }}{% for m in messages %}<|im_start|>{{ m.role }}:{{ m.content }}<|im_end|>"
                          "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant:{% endif %}"])
    make("tokenize", "d.jsonl", "--model", "s", "-o", "d.rtok")
    make("train", "--student", "t", "--data", "d.jsonl", "--out", "taught", "--steps", 20, "--batch", 4, "--seq-len", 64,
         "--eval-every", 20, "--save-every", 20)


def documented():
    flags = set()
    for command in "distill", "train":
        status, text, _ = call(command, "--help")
        expect(status == 0, f"{command} --help")
        flags |= set(re.findall(r"^  (--[a-z0-9-]+)", text, re.M))
    return flags


def attempt(name, function):
    try:
        function()
        counts["passed"] += 1
    except Fault as fault:
        counts["failed"] += 1
        print(f"{name}: {fault}")
    except Exception as fault:  # a file that is not there, a line without a number
        counts["failed"] += 1
        print(f"{name}: {type(fault).__name__}: {fault}")


def every_flag_has_a_case():
    flags = documented()
    expect(flags == set(CASES), f"no case for {sorted(flags - set(CASES))}, no flag for {sorted(set(CASES) - flags)}")


def main():
    folder = tempfile.mkdtemp()
    here = os.getcwd()
    os.chdir(folder)
    try:
        prepare()
        if len(sys.argv) < 2:
            attempt("flags and cases", every_flag_has_a_case)
        wanted, done = set(sys.argv[1:]) or set(CASES) - TIMED, set()
        for flag, function in CASES.items():
            if function and function not in done and flag in wanted:
                done.add(function)
                attempt(" ".join(f for f in CASES if CASES[f] is function), function)
    finally:
        os.chdir(here)
        shutil.rmtree(folder)
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] else 0


sys.exit(main())
