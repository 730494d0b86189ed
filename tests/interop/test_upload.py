"""The closing screen's `hf upload` line through huggingface_hub's own filter: what it sends is the model, or the adapter, and none of
the run's folders; without it all of them would go.
"""
import json
import os
import shlex
import subprocess
import tempfile

from huggingface_hub.utils import filter_repo_objects

from interop import RETORT, check, finish


def retort(*args):
    done = subprocess.run([RETORT, *args], capture_output=True, text=True)
    check(done.returncode == 0, f"retort {' '.join(args)}: {done.stdout}{done.stderr}")
    return done.stdout


def sent(out, *more):
    """What the line that the run prints would upload, and everything that is there."""
    screen = retort("train", "--student", "s", "--data", "d.jsonl", "--out", out, "--steps", "4", "--batch", "2", "--seq-len", "32",
                    "--save-every", "2", "--eval-every", "2", "--sample-prompts", "none", *more)
    lines = [line.split("   (")[0] for line in screen.splitlines() if line.startswith("          hf upload ")]
    if not check(len(lines) == 1, f"{out}: no one line to upload it:\n{screen}"):
        return set(), set()
    words = shlex.split(lines[0])
    check(words[:6] == ["hf", "upload", "ORG/NAME", out, ".", "--exclude"] and len(words) == 7, f"{out}: {words}")
    there = {os.path.relpath(os.path.join(folder, name), out) for folder, _, names in os.walk(out) for name in names}
    return set(filter_repo_objects(there, ignore_patterns=words[6:])), there


with tempfile.TemporaryDirectory() as temporary:
    os.chdir(temporary)
    with open("d.jsonl", "w", encoding="utf-8") as f:
        for i in range(60):
            print(json.dumps({"text": f"the quick brown fox {i} jumps over the lazy dog {i * i}"}), file=f)
    retort("init", "--preset", "tiny-llama", "--dtype", "f32", "s")
    went, there = sent("model")
    check(went >= {"README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}, f"model: {went}")
    check(not any("/" in name for name in went), f"model: {went}")
    check({name.split("/")[0] for name in there - went} >= {"run", "checkpoint-000004"}, f"model: {there - went}")
    went, there = sent("adapter one", "--lora-rank", "2", "--merge")
    check(went == {"README.md", "adapter_config.json", "adapter_model.safetensors"}, f"adapter: {went}")
    check({name.split("/")[0] for name in there - went} >= {"run", "merged"}, f"adapter: {there - went}")
finish()
