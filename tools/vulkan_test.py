#!/usr/bin/env python3
"""vulkan_test.py - whole runs on a Vulkan device, beside the CPU: what is too slow for `make test` on a software driver.

For every family's tiny pair: it is distilled on the CPU and on the device, whose curve has to be the CPU's within 1e-5 of its values;
a run that was interrupted and resumed gives the same bits, and a second one; its student is evaluated and generates. No pipeline
is made after seal in any of them. With --steps N (200) the first pair is distilled that long on both, and the KL on held-out text
compared: within 1e-4 of its value. With --layers everything runs under the validation layers, synchronisation validation
included, and their messages are counted. Ends with `N passed, N failed`. Standard library only."""
import argparse
import glob
import json
import os
import re
import signal
import subprocess
import tempfile
import time

FAMILIES = ("qwen2", "llama", "mistral", "qwen3", "smollm3")
LEARN = "--teacher t --student s --data d.jsonl --batch 4 --seq-len 64 --lr 1e-3 --eval-every 4 --threads 2 --sample-prompts none".split()
LAYERS = {"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation",
          "VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT"}
LATE = re.compile(r"compiled or loaded after seal: (\d+)")
WORDS = "the quick brown fox jumps over the lazy dog while seven wizards box in quiet zones".split()


class Test:
    def __init__(self, options, folder):
        self.retort, self.device, self.folder = os.path.abspath(options.retort), options.device, folder
        self.env = dict(os.environ, **(LAYERS if options.layers else {}))
        self.passed, self.failed, self.messages, self.late, self.runs = 0, 0, 0, 0, 0

    def check(self, good, what):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        print("pass" if good else "FAIL", what, flush=True)

    def heard(self, text):
        self.messages += len(re.findall(r"VUID-|SYNC-HAZARD|UNASSIGNED-", text))
        for n in LATE.findall(text):
            self.runs, self.late = self.runs + 1, self.late + int(n)
        return text

    def run(self, *words, status=0):
        done = subprocess.run([self.retort, *words], cwd=self.folder, env=self.env, capture_output=True, text=True)
        text = self.heard(done.stdout + done.stderr)
        if done.returncode != status:
            self.check(False, f"{' '.join(words)}: exit status {done.returncode}\n{text[-600:]}")
        return done.stdout

    def interrupted(self, out, *words):
        """Ends the run by SIGINT after its fourth step."""
        child = subprocess.Popen([self.retort, *words, "--out", out], cwd=self.folder, env=self.env, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        path, found = f"{self.folder}/{out}/run/metrics.jsonl", False
        while child.poll() is None and not found:  # it stands still while it is looked at
            child.send_signal(signal.SIGSTOP)
            found = os.path.exists(path) and sum('"event":"step"' in line.replace(" ", "") for line in open(path)) >= 4
            if found:
                child.send_signal(signal.SIGINT)
            child.send_signal(signal.SIGCONT)
            time.sleep(0.002)
        self.heard(child.communicate()[0])
        return child.returncode

    def events(self, out):
        return [json.loads(line) for line in open(f"{self.folder}/{out}/run/metrics.jsonl")]

    def model(self, out):
        with open(f"{self.folder}/{out}/model.safetensors", "rb") as f:
            return f.read()


def worst_of(a, b):
    """The largest difference of two curves, relative."""
    worst = 0.0
    assert len(a) == len(b)
    for x, y in zip(a, b):
        for key in ("loss", "ce", "divergence", "grad_norm", "forward_kl"):
            p, q = (v[0] if isinstance(v, list) else v for v in (x.get(key, 0), y.get(key, 0)))
            worst = max(worst, abs(p - q) / (1e-30 + abs(p)) if p != q else 0)
    return worst


def family(t, name):
    for seed, model in enumerate("st"):
        t.run("init", "--preset", f"tiny-{name}", "--seed", str(seed + 1), "--dtype", "f32", f"{name}-{model}")
    words = ["distill", *LEARN, "--steps", "8"]
    words[words.index("t")], words[words.index("s")] = f"{name}-t", f"{name}-s"
    t.run(*words, "--out", f"{name}-cpu", "--device", "cpu")
    on = [*words, "--device", t.device]
    t.run(*on, "--out", f"{name}-one")
    t.run(*on, "--out", f"{name}-two")
    worst = worst_of(t.events(f"{name}-cpu"), t.events(f"{name}-one"))
    t.check(worst <= 1e-5, f"{name}: the curve is the CPU's within {worst:.1e}")
    t.check(t.model(f"{name}-one") == t.model(f"{name}-two"), f"{name}: two runs have the same bits")
    t.check(t.interrupted(f"{name}-half", *on) == 130, f"{name}: a run is interrupted")
    t.run("distill", "--resume", "--out", f"{name}-half")
    t.check(t.model(f"{name}-one") == t.model(f"{name}-half"), f"{name}: resumed, it has the same bits")
    t.run("eval", f"{name}-one", "--data", "d.jsonl", "--seq-len", "64", "--device", t.device)
    text = [t.run("generate", f"{name}-one", "--raw", "--prompt", "the", "--max-new", "6", "--temperature", "0", "--device", d)
            for d in ("cpu", t.device)]
    t.check(text[0] == text[1], f"{name}: it generates what it does on the CPU")
    print(f"     {t.runs} runs, {t.late} pipelines after seal, {t.messages} messages", flush=True)


def long_run(t, steps):
    words = ["distill", *LEARN, "--steps", str(steps)]
    words[words.index("t")], words[words.index("s")] = f"{FAMILIES[0]}-t", f"{FAMILIES[0]}-s"
    words[words.index("--eval-every") + 1] = str(steps // 4)
    last = []
    for device in ("cpu", t.device):
        t.run(*words, "--out", f"long-{device}", "--device", device)
        last.append([e for e in t.events(f"long-{device}") if e["event"] == "eval"][-1]["forward_kl"][0])
    t.check(abs(last[0] - last[1]) <= 1e-4 * last[0], f"held-out KL after {steps} steps: {last[0]:.7g} on the CPU, {last[1]:.7g} on {t.device}")


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--retort", default="build/retort")
    parse.add_argument("--device", default="vulkan")
    parse.add_argument("--layers", action="store_true", help="under the validation layers (Debian: vulkan-validationlayers)")
    parse.add_argument("--steps", type=int, default=200, help="of the long pair; 0: none")
    parse.add_argument("--only", choices=FAMILIES, help="one family")
    options = parse.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it, and so would every child
    if options.layers and not glob.glob("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json"):
        raise SystemExit("the validation layers are not installed (Debian: vulkan-validationlayers)")
    with tempfile.TemporaryDirectory() as folder:
        t = Test(options, folder)
        with open(f"{folder}/d.jsonl", "w") as f:
            for i in range(60):
                f.write(json.dumps({"text": " ".join(WORDS[(i * 7 + k * k + k * i) % 16] for k in range(8)) + f" and {i}"}) + "\n")
        for name in [options.only] if options.only else FAMILIES:
            family(t, name)
        if options.steps:
            long_run(t, options.steps)
        t.check(t.runs >= 3 and t.late == 0, f"pipelines made after seal in {t.runs} runs: {t.late}")
        if options.layers:
            t.check(t.messages == 0, f"messages of the validation layers: {t.messages}")
    print(f"{t.passed} passed, {t.failed} failed")
    raise SystemExit(t.failed > 0)


main()
