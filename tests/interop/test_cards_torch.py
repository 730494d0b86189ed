"""The Python code of a model's README.md, run as a reader would in the model's folder: a plain model, one that chats, and adapters
whose base is on the hub (here: in its cache) or a folder that the reader has to name.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from interop import RETORT, check, finish

ENV = dict(os.environ)


def retort(*args):
    done = subprocess.run([RETORT, *args], capture_output=True, text=True, env=ENV)
    return check(done.returncode == 0, f"retort {' '.join(args)}: {done.stdout}{done.stderr}")


def trained(out, student, *more):
    """The card of a run of one step; empty when it failed."""
    ok = retort("train", "--student", student, "--data", "d.jsonl", "--out", out, "--steps", "1", "--batch", "2", "--seq-len", "32",
                "--sample-prompts", "none", *more)
    return open(os.path.join(out, "README.md"), encoding="utf-8").read() if ok else ""


def runs(what, out, card, prompt, edit=lambda code: code):
    """The block of Python ends well and prints the prompt, and what the model says after it."""
    code = re.findall(r"```python\n(.*?)```", card, re.S)
    if not check(len(code) == 1, f"{what}: {len(code)} blocks of Python in\n{card}"):
        return
    done = subprocess.run([sys.executable, "-c", edit(code[0])], cwd=out, env=ENV, capture_output=True, text=True)
    check(done.returncode == 0, f"{what}: its code fails:\n{code[0]}\n{done.stderr[-2000:]}")
    check(prompt in done.stdout and len(done.stdout) > len(prompt) + 1, f"{what}: it prints {done.stdout!r}")


def front(card):
    return card.split("---\n")[1]


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    ENV["HF_HOME"] = os.path.join(folder, "home")
    for name in ("HF_HUB_CACHE", "HF_HUB_DISABLE_SYMLINKS"):
        ENV.pop(name, None)
    with open("d.jsonl", "w", encoding="utf-8") as f:
        for i in range(60):
            print(json.dumps({"text": f"the quick brown fox {i} jumps over the lazy dog {i * i}"}), file=f)
    retort("init", "--preset", "tiny-llama", "--dtype", "f32", "chat")
    shutil.copytree("chat", "plain")  # the same model without its template
    with open("plain/tokenizer_config.json", encoding="utf-8") as f:
        config = json.load(f)
    check(config.pop("chat_template", None), "the tiny model has no template in tokenizer_config.json")
    with open("plain/tokenizer_config.json", "w", encoding="utf-8") as f:
        json.dump(config, f)

    card = trained("plain-out", "plain")
    check("apply_chat_template" not in card, "plain: its card chats")
    runs("plain", "plain-out", card, "Hello")
    card = trained("chat-out", "chat")
    check("apply_chat_template" in card, "chat: its card does not chat")
    check("base_model" not in front(card), f"chat: a base model out of nowhere:\n{front(card)}")
    runs("chat", "chat-out", card, "assistant")

    card = trained("adapter-out", "chat", "--lora-rank", "2")
    check("base_model" not in front(card) and 'base = "chat"' in card, f"adapter of a folder:\n{card}")
    runs("adapter of a folder", "adapter-out", card, "assistant", lambda code: code.replace('base = "chat"', 'base = "../chat"'))

    snapshot = os.path.join(ENV["HF_HOME"], "hub", "models--org--little", "snapshots", "0" * 40)
    shutil.copytree("chat", snapshot)
    refs = os.path.join(ENV["HF_HOME"], "hub", "models--org--little", "refs")
    os.mkdir(refs)
    with open(os.path.join(refs, "main"), "w", encoding="utf-8") as f:
        f.write("0" * 40)
    card = trained("hub-out", "org/little", "--lora-rank", "2")
    check('base_model: "org/little"\n' in front(card), f"adapter of a hub's model:\n{card}")
    runs("adapter of a hub's model", "hub-out", card, "assistant")
finish()
