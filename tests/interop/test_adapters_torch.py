"""LoRA adapters of PEFT as models of ours, and of ours in llama.cpp.

For each family PEFT makes adapters over a model of `retort init`: plain, with rsLoRA's scale, with ranks and alphas of single modules, over
some layers alone. The merged weights must be those of merge_and_unload to the rounding of f32, and the cross-entropy of `retort eval` that
of transformers with the adapter in its place. Then llama.cpp, as the package xllamacpp has it built, takes the base as GGUF with the adapter
as `retort convert --adapter` writes it: greedy text and the probabilities of each step are those of the merged GGUF.
"""
import json
import os
import subprocess
import tempfile

import torch
import xllamacpp
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from interop import RETORT, check, finish

logging.disable_progress_bar()
torch.set_num_threads(1)
TEXTS = [f"the quick brown fox jumps over the lazy dog {i}" for i in range(6)]
CASES = {"plain": dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]),
         "all": dict(r=3, lora_alpha=5, target_modules="all-linear"),
         "rslora": dict(r=4, lora_alpha=3, use_rslora=True, target_modules=["k_proj", "o_proj", "down_proj"]),
         "patterns": dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "up_proj"], rank_pattern={"q_proj": 2, "layers.1.mlp.up_proj": 6},
                          alpha_pattern={"self_attn.k_proj": 1}),
         "layers": dict(r=2, lora_alpha=2, target_modules=["q_proj", "gate_proj"], layers_to_transform=[1])}
work = tempfile.TemporaryDirectory(prefix="retort-adapters-")
os.chdir(work.name)


def retort(*args):
    done = subprocess.run([RETORT, *args], capture_output=True, text=True)
    return check(done.returncode == 0, f"retort {' '.join(args)}: exit {done.returncode}: {done.stderr.strip()}") and done.stdout


def make(base, folder, options):
    """An adapter as PEFT saves it; both of its matrices are random, so that it does something."""
    torch.manual_seed(7)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), LoraConfig(task_type="CAUSAL_LM", **options))
    for name, p in model.named_parameters():
        if ".lora_" in name:
            p.data.normal_(0, 0.3)
    model.save_pretrained(folder)


def cross_entropy(model, tokenizer):
    """Of every token but the first of each text, the end of text among them, as `retort eval` measures records of text."""
    total, count = 0.0, 0
    for text in TEXTS:
        ids = torch.tensor([tokenizer(text)["input_ids"] + [tokenizer.eos_token_id]])
        logits = model(ids).logits[0, :-1].double().log_softmax(-1)
        total -= logits.gather(1, ids[0, 1:, None]).sum().item()
        count += ids.shape[1] - 1
    return total / count, count


def against_peft(base, folder, what):
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), folder).eval()
    with torch.no_grad():
        ce, count = cross_entropy(model, AutoTokenizer.from_pretrained(base))
    got = retort("eval", folder, "--data", "d.jsonl", "--seq-len", "64", "--device", "cpu", "--json")
    j = json.loads(got) if got else {}
    if check(j.get("positions") == count, f"{what}: {j.get('positions')} positions, not {count}"):
        check(abs(j["cross_entropy"]["mean"] - ce) <= 2e-5 * ce, f"{what}: cross-entropy {j['cross_entropy']['mean']}, not {ce}")
    if not retort("merge", folder, what, "--dtype", "f32"):
        return
    ours, theirs = load_file(os.path.join(what, "model.safetensors")), model.merge_and_unload().state_dict()
    tied = {"lm_head.weight"} if "lm_head.weight" not in ours else set()
    check(set(ours) == set(theirs) - tied, f"{what}: other tensors: {set(ours) ^ set(theirs)}")
    worst = max(((ours[k] - theirs[k].float()).abs().max() / theirs[k].abs().max()).item() for k in ours)
    check(worst <= 4e-7, f"{what}: merged weights differ by {worst:.1e} of the largest")
    moved = sum(not torch.equal(v, load_file(os.path.join(base, "model.safetensors"))[k]) for k, v in ours.items())
    check(moved > 0, f"{what}: the adapter changed nothing")


def llama_cpp(model, lora=None):
    """Greedy text, and the log-probabilities of all tokens at each step."""
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.warmup = model, 256, 1, False
    p.cpuparams.n_threads = 1
    p.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED  # it and a cache of f16 would round
    p.cache_type_k = p.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32  # what differs in the last bit of f32
    if lora:
        p.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(lora, 1.0)]
    answer = xllamacpp.Server(p).handle_completions({"prompt": TEXTS[0], "max_tokens": 12, "temperature": 0, "top_k": 1, "logprobs": 300,
                                                     "cache_prompt": False, "ignore_eos": True})
    choice = (json.loads(answer) if isinstance(answer, str) else answer)["choices"][0]
    return choice["text"], [{t["id"]: t["logprob"] for t in step["top_logprobs"]} for step in choice["logprobs"]["content"]]


def against_llama_cpp(base, folder, what):
    for args in ((base, "base.gguf", "--dtype", "f32"), (folder, "merged.gguf", "--dtype", "f32"), (folder, "lora.gguf", "--adapter")):
        if not retort("convert", *args, "--force"):
            return
    (a, steps), (b, merged), (c, alone) = llama_cpp("base.gguf", "lora.gguf"), llama_cpp("merged.gguf"), llama_cpp("base.gguf")
    far = max(abs(p[k] - q[k]) for p, q in zip(steps, merged) for k in p if k in q)
    did = max(abs(steps[0][k] - alone[0][k]) for k in steps[0] if k in alone[0])
    check(a == b and len(steps) == len(merged) > 0 and far <= 1e-5, f"{what}: {a!r} with the adapter, {b!r} merged; apart by {far}")
    check(did > 100 * far, f"{what}: the adapter does {did}, hardly more than rounding ({far})")
    print(f"{what}: llama.cpp, adapter against merged {far:.1e}, against the base alone {did:.2f}")


with open("d.jsonl", "w") as f:
    f.writelines(json.dumps({"text": text}) + "\n" for text in TEXTS)
for family in ("llama", "qwen2", "qwen3"):
    base = os.path.join(work.name, family)
    retort("init", "--preset", f"tiny-{family}", "--seed", "5", "--dtype", "f32", base)
    for case, options in CASES.items():
        folder = os.path.join(work.name, f"{family}-{case}")
        make(base, folder, options)
        against_peft(base, folder, f"merged-{family}-{case}")
        against_llama_cpp(base, folder, f"{family}, {case}")
finish()
