#!/usr/bin/env python3
"""fp8_layers.py - KL(bf16 || fp8) of a model on text, and the same with each of its layers kept in bf16: which layers fp8 costs most.

    tools/fp8_layers.py MODEL --data D [flags of retort eval]

Every line is one `retort eval MODEL --teacher MODEL --teacher-weights bf16 --weights fp8 --bf16-layers L`. The last lines keep the
layers that spare most, several at a time. RETORT names the binary (build/retort). Standard library only."""
import json
import os
import subprocess
import sys

TOGETHER = (2, 4, 8)  # of the layers that spare most


def measure(words, *more):
    command = [os.environ.get("RETORT", "build/retort"), "eval", *words, "--teacher", words[0], "--teacher-weights", "bf16", "--json"]
    run = subprocess.run([*command, *more], stdout=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(run.args)}: status {run.returncode}")
    return json.loads(run.stdout)


def layers_of(words):
    command = [os.environ.get("RETORT", "build/retort"), "inspect", words[0], "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)["config"]["layers"]


def show(kept, j, whole=None):
    kl = j["forward_kl"]
    spared = "" if whole is None else f"   {100 * (1 - kl['mean'] / whole):5.1f} % less"
    print(f"{kept:>24}  {kl['mean']:.5f} +- {kl['error']:.5f}  agreement {j['agreement']['mean']:.4f}{spared}", flush=True)


def main(words):
    if not words or words[0].startswith("-"):
        sys.exit(__doc__)
    first = measure(words, "--weights", "fp8", "--bf16-layers", "none")
    whole = first["forward_kl"]["mean"]
    print(f"{words[0]}: {first['positions']} positions in {first['rows']} rows of {first['seq_len']}")
    print(f"{'layers kept in bf16':>24}  KL(bf16 || fp8), nats")
    show("none", first)
    spared = []
    for layer in range(layers_of(words)):
        j = measure(words, "--weights", "fp8", "--bf16-layers", str(layer))
        show(str(layer), j, whole)
        spared.append((whole - j["forward_kl"]["mean"], layer))
    spared.sort(reverse=True)
    for count in TOGETHER:
        kept = ",".join(str(layer) for layer in sorted(layer for _, layer in spared[:count]))
        show(kept, measure(words, "--weights", "fp8", "--bf16-layers", kept), whole)


main(sys.argv[1:])
