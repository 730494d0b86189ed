"""Models of transformers through every format of ours and back, tensor for tensor and logit for logit, and models of
`retort init` in transformers.

For each family and its variants a tiny random model is saved by transformers (one file, or shards). `retort convert` takes it to every format,
and from there back to a Hugging Face directory, which transformers loads: no key may be missing or left over, every tensor must be equal to
the bit, and the logits too, since they show what the configuration says.
"""
import json
import os
import subprocess
import tempfile

import torch
from safetensors.torch import load_file
from transformers import (AutoModelForCausalLM, AutoTokenizer, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config,
                          SmolLM3Config)

from transformers.utils import logging

from interop import LIGHT, RETORT, check, finish

logging.disable_progress_bar()
torch.manual_seed(0)
torch.set_num_threads(1)

SHAPE = dict(vocab_size=300, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0)


def rope(theta, **scaling):
    """The keys that this version of transformers takes."""
    return dict(rope_parameters=dict(rope_theta=theta, **(scaling or {"rope_type": "default"})))


VARIANTS = [  # name, configuration, dtype, size of shards, formats on the way that can hold it
    ("llama", LlamaConfig(**SHAPE), torch.float32, None, None),
    ("llama tied, biases", LlamaConfig(**SHAPE, tie_word_embeddings=True, attention_bias=True, mlp_bias=True), torch.bfloat16, None, None),
    ("llama head_dim", LlamaConfig(**SHAPE, head_dim=32), torch.float16, "50KB", None),
    ("llama llama3 rope", LlamaConfig(**SHAPE, **rope(5e5, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                      original_max_position_embeddings=32)), torch.float32, None, None),
    ("llama linear rope", LlamaConfig(**SHAPE, **rope(1e4, rope_type="linear", factor=4.0)), torch.float32, None, None),
    ("qwen2", Qwen2Config(**SHAPE), torch.bfloat16, None, None),
    ("qwen2 tied", Qwen2Config(**SHAPE, tie_word_embeddings=True), torch.float32, "50KB", None),
    ("qwen2 yarn rope", Qwen2Config(**SHAPE, **rope(1e6, rope_type="yarn", factor=4.0, original_max_position_embeddings=32)), torch.float32,
     None, None),
    ("qwen2 windows", Qwen2Config(**SHAPE, use_sliding_window=True, sliding_window=8, max_window_layers=2), torch.float32, None, None),
    ("qwen3", Qwen3Config(**SHAPE, head_dim=32), torch.float32, None, None),
    ("qwen3 tied", Qwen3Config(**SHAPE, head_dim=16, tie_word_embeddings=True), torch.bfloat16, "50KB", None),
    ("mistral", MistralConfig(**SHAPE, sliding_window=None), torch.float32, None, None),
    ("mistral window", MistralConfig(**SHAPE, sliding_window=8), torch.float32, "50KB", None),
    ("smollm3", SmolLM3Config(**SHAPE), torch.float32, None, None),
    # GGUF knows every fourth layer without rope, and nothing else.
    ("smollm3 other layers", SmolLM3Config(**SHAPE, no_rope_layers=[1, 0, 1, 0], use_sliding_window=False), torch.bfloat16, "50KB",
     ("hf", "apr", "safetensors")),
]
SUFFIX = {"hf": "", "gguf": ".gguf", "apr": ".apr", "safetensors": ".safetensors"}


def retort(*args):
    done = subprocess.run([RETORT, *args], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def load(path, what):
    """The model, or None; keys that are missing or left over are faults."""
    try:
        model, info = AutoModelForCausalLM.from_pretrained(path, output_loading_info=True, dtype="auto")
    except Exception as error:  # whatever transformers raises is the finding
        check(False, f"{what}: transformers does not load it: {error}")
        return None
    faults = {key: sorted(map(str, value)) for key, value in info.items() if value}
    check(not faults, f"{what}: {faults}")
    return model.eval()


def same(what, a, b):
    """Every tensor, dtypes included, and the logits."""
    x, y = a.state_dict(), b.state_dict()
    if not check(sorted(x) == sorted(y), f"{what}: other tensors: {sorted(set(x) ^ set(y))}"):
        return
    wrong = [name for name in x if x[name].dtype != y[name].dtype or not torch.equal(x[name], y[name])]
    check(not wrong, f"{what}: {len(wrong)} tensors differ, the first is {wrong[0] if wrong else ''}")
    ids = torch.arange(40).reshape(1, 40) % 300
    with torch.no_grad():
        check(torch.equal(a(ids).logits, b(ids).logits), f"{what}: logits differ")


def content_hash(path):
    return json.loads(retort("inspect", path, "--json")[1])["content_hash"]


def through_formats(folder, name, config, dtype, shard, formats):
    base = os.path.join(folder, name.replace(" ", "-"))
    model = AutoModelForCausalLM.from_config(config).to(dtype).eval()
    for parameter in model.parameters():  # norms and biases are not left at 1 and 0
        parameter.data += torch.randn_like(parameter) * 0.05
    model.save_pretrained(base, **({"max_shard_size": shard} if shard else {}))
    check(bool(shard) == os.path.exists(os.path.join(base, "model.safetensors.index.json")), f"{name}: shards")
    model = load(base, name + ", as saved")
    for kind in formats or SUFFIX:
        there, back = f"{base}-{kind}{SUFFIX[kind]}", f"{base}-{kind}-back"
        status, text = retort("convert", base, there)
        if not check(status == 0, f"{name} to {kind}: {text}"):
            continue
        status, text = retort("convert", there, back)
        if not check(status == 0, f"{name} back from {kind}: {text}"):
            continue
        check(content_hash(base) == content_hash(there) == content_hash(back), f"{name}, {kind}: content hashes differ")
        other = load(back, f"{name} through {kind}")
        if other:
            same(f"{name} through {kind}", model, other)
    if formats:
        status, text = retort("convert", base, base + ".gguf")
        check(status in (5, 6) and "gguf" in text.lower(), f"{name}: GGUF cannot hold this, but: {status} {text}")


def presets(folder):
    for family in ("llama", "qwen2", "qwen3", "mistral", "smollm3"):
        for dtype in ("f32", "bf16"):
            path = os.path.join(folder, f"init-{family}-{dtype}")
            status, text = retort("init", "--preset", f"tiny-{family}", "--dtype", dtype, "--seed", "9", path)
            if not check(status == 0, f"init tiny-{family}: {text}"):
                continue
            model = load(path, f"init tiny-{family} {dtype}")
            if not model:
                continue
            raw, state = load_file(os.path.join(path, "model.safetensors")), model.state_dict()
            wrong = [name for name in raw if not torch.equal(raw[name], state[name])]
            check(not wrong, f"init tiny-{family} {dtype}: {wrong}")
            check({t.dtype for t in state.values()} == {torch.float32 if dtype == "f32" else torch.bfloat16}, f"{family}: dtype")
            matrices = torch.cat([t.flatten().float() for t in raw.values() if t.dim() == 2])
            check(abs(matrices.std().item() / 0.02 - 1) < 0.01 and abs(matrices.mean().item()) < 2e-4, f"{family}: spread")
            with torch.no_grad():
                check(torch.isfinite(model(torch.arange(50).reshape(1, 50)).logits).all().item(), f"{family}: logits")
        tokenizer = AutoTokenizer.from_pretrained(path)
        text = "Zürich, 你好 \U0001f600\n\ttabs and  spaces <|im_start|>x<|im_end|>"
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        want = [256 + ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].index(part) if part.startswith("<|") else byte
                for part in text.replace("<|", "\0<|").replace("|>", "|>\0").split("\0") if part
                for byte in ([None] if part.startswith("<|") else part.encode())]
        check(ids == want, f"tiny-{family}: ids {ids}")
        check(tokenizer.decode(ids) == text, f"tiny-{family}: decoded {tokenizer.decode(ids)!r}")
        chat = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True)
        check(chat.endswith("<|im_start|>assistant\n") and "hi" in chat, f"tiny-{family}: chat {chat!r}")


def students(folder):
    """Some layers of a teacher, as transformers would cut them out."""
    base = os.path.join(folder, "teacher")
    teacher = AutoModelForCausalLM.from_config(SmolLM3Config(**dict(SHAPE, num_hidden_layers=8))).eval()
    teacher.save_pretrained(base)
    status, text = retort("init", "--from", base, "--layers", "0,3,4,7", base + "-student")
    if not check(status == 0, f"student: {text}"):
        return
    student = load(base + "-student", "student")
    kept = [0, 3, 4, 7]
    teacher.model.layers = torch.nn.ModuleList([teacher.model.layers[i] for i in kept])
    for i, layer in enumerate(teacher.model.layers):
        layer.self_attn.layer_idx = i
    teacher.config.num_hidden_layers = len(kept)
    teacher.model.config.num_hidden_layers = len(kept)
    same("student", teacher, student)


with tempfile.TemporaryDirectory() as temporary:
    for variant in VARIANTS[::4] if LIGHT else VARIANTS:
        through_formats(temporary, *variant)
    presets(temporary)
    students(temporary)
finish()
