#!/usr/bin/env python3
"""test_trackers_large.py - the curves of a run that was resumed into Weights & Biases and MLflow, offline: the script that
docs/training.md has, with the line of each, and what these packages then hold."""
import json
import os
import re
import subprocess
import sys
import tempfile

from interop import RETORT, check, finish

with open("docs/training.md", encoding="utf-8") as page:
    SCRIPT = re.search(r"curves\.py`.*?```python\n(.*?)```", page.read(), re.S)[1]


def retort(*args):
    done = subprocess.run([RETORT, *map(str, args)], capture_output=True, text=True)
    check(done.returncode == 0, f"retort {args[0]}: {done.stderr}")


def wanted(out):
    """{name: {step: value}} of the log."""
    curves = {}
    for line in map(json.loads, open(f"{out}/run/metrics.jsonl")):
        keys = {"step": ("loss", "lr", "grad_norm"), "eval": ("ce", "forward_kl")}
        for key in keys.get(line["event"], ()):
            value = line[key]
            curves.setdefault(f"{line['event']}/{key}", {})[line["step"]] = value[0] if isinstance(value, list) else value
    return curves


def same(got, want, what):
    check(got.keys() == want.keys() and all(abs(got[s] - want[s]) <= 1e-6 * abs(want[s]) for s in want),
          f"{what}: {len(got)} points {got}, expected {want}")


def send(to, out, **more):
    """As a reader would: the line of the other one is removed."""
    lines = SCRIPT.splitlines(keepends=True)
    with open("curves.py", "w", encoding="utf-8") as f:
        f.writelines(line for line in lines if not line.startswith("import ") or line.startswith((f"import {to};", "import json")))
    done = subprocess.run([sys.executable, "curves.py", out], env={**os.environ, **more}, capture_output=True, text=True)
    check(done.returncode == 0, f"{to}: {done.returncode} {done.stdout[-500:]} {done.stderr[-1500:]}")


def records(path):
    """The messages in a .wandb file: a log in blocks as LevelDB has it, after seven bytes that say what it is."""
    data, at, held = open(path, "rb").read(), 7, b""
    while at + 7 <= len(data):
        if (1 << 15) - at % (1 << 15) < 7:
            at += (1 << 15) - at % (1 << 15)
            continue
        size, kind = int.from_bytes(data[at + 4:at + 6], "little"), data[at + 6]
        held += data[at + 7:at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield held
            held = b""


def wandb(out):
    """What it left for `wandb sync`, in its own messages, and what that says of it."""
    from wandb.proto import wandb_internal_pb2

    send("wandb", out, WANDB_MODE="offline", WANDB_DIR=os.getcwd(), WANDB_SILENT="true")
    folders = [f for f in os.listdir("wandb") if f.startswith("offline-run-")]
    check(len(folders) == 1, f"wandb left {folders}")
    folder = os.path.join("wandb", folders[0])
    files = [f for f in os.listdir(folder) if f.endswith(".wandb")]
    got = {}
    for data in records(os.path.join(folder, files[0])):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") != "history":
            continue
        items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for key, value in items.items():
            got.setdefault(key, {})[items["_step"]] = value
    for name, curve in wanted(out).items():
        same(got.get(name, {}), curve, f"wandb, {name}")
    listed = subprocess.run([os.path.join(os.path.dirname(sys.executable), "wandb"), "sync", "--dry-run", folder], capture_output=True, text=True)
    check(listed.returncode == 0 and folders[0][-8:] in listed.stdout + listed.stderr, f"wandb sync --dry-run: {listed.stdout} {listed.stderr}")


def mlflow(out):
    from mlflow import MlflowClient

    uri = f"sqlite:///{os.getcwd()}/mlflow.db"
    send("mlflow", out, MLFLOW_TRACKING_URI=uri)
    client = MlflowClient(uri)
    run, = client.search_runs(["0"])
    check(run.info.run_name == out and run.info.status == "FINISHED", f"mlflow: {run.info}")
    check(run.data.params["batch"] == "2", f"mlflow: settings {run.data.params}")
    for name, curve in wanted(out).items():
        same({m.step: m.value for m in client.get_metric_history(run.info.run_id, name)}, curve, f"mlflow, {name}")


with tempfile.TemporaryDirectory() as top:
    os.chdir(top)
    for seed, name in enumerate(("t", "s")):
        retort("init", "--preset", "tiny-qwen2", "--seed", seed, "--dtype", "f32", name)
    with open("d.jsonl", "w") as f:
        f.writelines(json.dumps({"text": f"a line of text, number {i} of them"}) + "\n" for i in range(100))
    retort("distill", "--teacher", "t", "--student", "s", "--data", "d.jsonl", "--batch", 2, "--seq-len", 32, "--steps", 8,
           "--eval-every", 4, "--save-every", 4, "--out", "out")
    retort("distill", "--resume", "--out", "out", "--override", "--steps", 12)
    check(len(wanted("out")["step/loss"]) == 12 and len(wanted("out")["eval/ce"]) >= 3, "a run of 12 steps")
    wandb("out")
    mlflow("out")
    os.chdir("/")
finish()
