"""tools/check_step.py on runs of retort: every family, every divergence, adapters, several micro-batches of packed chats, no teacher.
transformers must find the step that was dumped, and must not find one that was altered.
"""
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile

from interop import RETORT, ROOT, check, finish

sys.path.insert(0, os.path.join(ROOT, "tools"))
import check_step  # noqa: E402

WORDS = "the quick brown fox jumps over the lazy dog while seven wizards box in quiet zones".split()
# student's family, teacher's, flags
RUNS = [
    ("llama", "qwen3", "--divergence jsd --beta 0.3 --temperature 2"),
    ("llama", "qwen3", "--divergence jsd --beta 1"),
    ("qwen2", "llama", "--divergence skew-reverse --lora-rank 4 --max-grad-norm 0.02"),
    ("qwen2", "llama", "--divergence forward-kl --alpha 0.5 --micro-batch 1"),
    ("qwen3", "llama", "--divergence tv --temperature 3 --t2 off"),
    ("mistral", "qwen3", "--divergence reverse-kl --freeze *mlp*"),
    ("smollm3", "llama", "--divergence skew-forward --skew 0.3 --loss-on all --recompute block"),
    ("qwen2", None, ""),
]


def retort(*args):
    done = subprocess.run([RETORT, *args], capture_output=True, text=True)
    return check(done.returncode == 0, f"retort {' '.join(args)}: {done.stderr}")


def checked(*args):
    """The status and what was printed; in this process, because loading torch takes longer than the step."""
    text = io.StringIO()
    sys.argv = ["check_step.py", *args]
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            status = check_step.main()
        except SystemExit as end:
            status = end.code
    return status, text.getvalue()


def chat(i):
    user = " ".join(WORDS[(i * 3 + k * k) % 16] for k in range(5))
    return {"messages": [{"role": "user", "content": user}, {"role": "assistant", "content": f"{WORDS[i % 16]}, {i}."}]}


def runs():
    for number, (student, teacher, flags) in enumerate(RUNS):
        out = f"run{number}"
        args = ["--student", "s-" + student, "--data", "chat.jsonl", "--out", out, "--steps", "3", "--batch", "4", "--seq-len", "128",
                "--threads", "1", "--dump-step", "2", "--lr", "3e-3", *flags.split()]
        if "--micro-batch" not in args:
            args += ["--micro-batch", "3"]
        if not retort(*(["distill", "--teacher", "t-" + teacher] if teacher else ["train"]), *args):
            continue
        base = ["--student", "s-" + student] if "--lora-rank" in args else []
        status, text = checked(f"{out}/run/dump-000002", *(["--teacher", "t-" + teacher] if teacher else []), *base)
        check(status == 0 and "verdict: the step is the one" in text, f"{student}, {flags}: status {status}\n{text}")
        print(f"{student:<8} {flags or 'no teacher'}: " + ", ".join(" ".join(line.split()) for line in text.splitlines() if line.startswith(
            ("loss ", "gradients of"))))


# What is changed in a dump, and that it must be noticed.
ALTERED = {
    "one target": "r = j['rows'][1]; k = next(i for i, t in enumerate(r['target']) if t >= 0); r['target'][k] = (r['target'][k] + 1) % 259",
    "one target and its token": "r = j['rows'][1]; k = next(i for i, t in enumerate(r['target']) if t >= 0);"
                                "r['target'][k] = r['ids'][k + 1] = (r['target'][k] + 1) % 259",
    "one masked": "r = j['rows'][1]; k = next(i for i, t in enumerate(r['target']) if t >= 0); r['target'][k] = -1",
    "one id": "j['rows'][0]['ids'][3] ^= 1",
    "two documents become one": "r = j['rows'][0]; a, b = sorted(set(r['start']))[:2]; r['start'] = [a if s == b else s for s in r['start']];"
                                "r['position'] = [k - s for k, s in enumerate(r['start'])]",
    "a weight of the loss": "j['objective']['kd_weight'] *= 1.001",
    "the temperature": "j['objective']['temperature'] = 1.01",
    "the divergence": "j['objective']['divergence'] = 'reverse-kl'",
    "one id that is shared": "j['shared_ids'][3] ^= 1 << 7",
    "a gradient": "k = 'model.norm.weight'; j['gradient_norms'][k] += 1e-3 * j['result']['grad_norm']",
    "a gradient that is not there": "del j['gradient_norms']['model.norm.weight']",
    "the loss": "j['result']['loss'] *= 1.0001",
    "positions of the logits": "j['logits'][0], j['logits'][1] = j['logits'][1], j['logits'][0]",
}


def altered():
    dump = "run3/run/dump-000002"
    for what, change in ALTERED.items():
        shutil.rmtree("bad", ignore_errors=True)
        shutil.copytree(dump, "bad")
        with open("bad/step.json") as f:
            j = json.load(f)
        exec(change, {"j": j})
        with open("bad/step.json", "w") as f:
            json.dump(j, f)
        status, text = checked("bad", "--teacher", "t-llama")
        check(status == 1 and "DIFFERS" in text and "verdict:" in text, f"altered, {what}: status {status}\n{text}")
    status, text = checked(dump, "--teacher", "t-qwen3")
    check(status == 1, f"another teacher: status {status}\n{text}")
    shutil.rmtree("bad")
    shutil.copytree(dump, "bad")
    shutil.copy("s-qwen2/model.safetensors", "bad/student/model.safetensors")
    status, text = checked("bad", "--teacher", "t-llama")
    check(status == 1, f"the weights before the first step, not the second: status {status}\n{text}")


def refused():
    for what, args in ("no teacher", ["run3/run/dump-000002"]), ("no dump", ["s-qwen2"]), ("no folder", ["nowhere"]), \
            ("no model", ["run3/run/dump-000002", "--teacher", "nowhere"]), ("no base", ["run2/run/dump-000002", "--teacher", "t-llama"]):
        status, text = checked(*args)
        check(status == 2 and text.startswith("check_step.py: "), f"{what}: status {status}\n{text}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number, family in enumerate(("llama", "qwen2", "qwen3", "mistral", "smollm3")):
            retort("init", "--preset", "tiny-" + family, "--seed", str(number), "--dtype", "f32", "s-" + family)
            retort("init", "--preset", "tiny-" + family, "--seed", str(number + 10), "--dtype", "f32", "t-" + family)
        with open("chat.jsonl", "w") as f:
            f.writelines(json.dumps(chat(i)) + "\n" for i in range(120))
        runs()
        altered()
        refused()
        os.chdir(ROOT)
    finish()


main()
