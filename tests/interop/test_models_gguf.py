"""GGUF models against the public gguf package: values of every type bit for bit, tensors and keys both ways, split and bad files."""
import json
import os
import subprocess
import tempfile

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

from interop import RETORT, check, finish

WORK = tempfile.TemporaryDirectory(prefix="retort-gguf-")
RNG = np.random.default_rng(7)
SWAPPED = ("llama", "mistral", "smollm3")  # families whose q and k rows are stored in another order
ARCH = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "smollm3": "smollm3"}
L, C, H, K, D, F, V = 2, 256, 4, 2, 64, 512, 40
# Where a block has its f16 scales; random bits there would be NaN or infinite now and then.
SCALES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2],
          T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0]}
INTEGERS = {T.I8: np.int8, T.I16: np.int16, T.I32: np.int32, T.I64: np.int64}  # read, but no weights


def path(name):
    return os.path.join(WORK.name, name)


def retort(*args):
    return subprocess.run([RETORT, *args], capture_output=True, text=True, encoding="utf-8")


def succeeds(*args):
    done = retort(*args)
    return check(done.returncode == 0, f"retort {' '.join(args)}: exit {done.returncode}: {done.stderr.strip()}") and done.stdout


def refused(exit_code, words, *args):
    done = retort(*args)
    check(done.returncode == exit_code and all(word in done.stderr for word in words),
          f"retort {' '.join(args)}: exit {done.returncode}, expected {exit_code} and {words}: {done.stderr.strip()}")


def read_safetensors(name):
    kinds = {"F32": np.float32, "F16": np.float16, "F64": np.float64}
    with open(name, "rb") as f:
        head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    head.pop("__metadata__", None)
    return {key: np.frombuffer(data[slice(*t["data_offsets"])], kinds[t["dtype"]]).reshape(t["shape"]) for key, t in head.items()}


def same_bits(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def to_stored(x, heads):
    """Rows of each head: the two halves interleaved."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def to_canonical(x, heads):
    return x.reshape(heads, x.shape[0] // heads // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


LAYER_NAMES = {"attn_norm.weight": "input_layernorm.weight", "attn_q.weight": "self_attn.q_proj.weight", "attn_q.bias": "self_attn.q_proj.bias",
               "attn_k.weight": "self_attn.k_proj.weight", "attn_k.bias": "self_attn.k_proj.bias", "attn_v.weight": "self_attn.v_proj.weight",
               "attn_v.bias": "self_attn.v_proj.bias", "attn_output.weight": "self_attn.o_proj.weight", "attn_q_norm.weight": "self_attn.q_norm.weight",
               "attn_k_norm.weight": "self_attn.k_norm.weight", "ffn_norm.weight": "post_attention_layernorm.weight",
               "ffn_gate.weight": "mlp.gate_proj.weight", "ffn_up.weight": "mlp.up_proj.weight", "ffn_down.weight": "mlp.down_proj.weight"}
OTHER_NAMES = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}


def canonical(name):
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    _, layer, rest = name.split(".", 2)
    return f"model.layers.{layer}.{LAYER_NAMES[rest]}"


def heads_of(family, name):
    if family not in SWAPPED:
        return 0
    return H if ".attn_q." in name else K if ".attn_k." in name else 0


def shapes(family, tied):
    yield "token_embd.weight", (V, C)
    for i in range(L):
        rows = {"attn_q": H * D, "attn_k": K * D, "attn_v": K * D}
        yield f"blk.{i}.attn_norm.weight", (C,)
        for name, n in rows.items():
            yield f"blk.{i}.{name}.weight", (n, C)
            if family == "qwen2":
                yield f"blk.{i}.{name}.bias", (n,)
        if family == "qwen3":
            yield f"blk.{i}.attn_q_norm.weight", (D,)
            yield f"blk.{i}.attn_k_norm.weight", (D,)
        yield f"blk.{i}.attn_output.weight", (C, H * D)
        yield f"blk.{i}.ffn_norm.weight", (C,)
        yield f"blk.{i}.ffn_gate.weight", (F, C)
        yield f"blk.{i}.ffn_up.weight", (F, C)
        yield f"blk.{i}.ffn_down.weight", (C, F)
    yield "output_norm.weight", (C,)
    if not tied:
        yield "output.weight", (V, C)


def random_values(shape, kind):
    """(what the file gets, its values in f32)"""
    x = RNG.standard_normal(shape).astype(np.float32)
    if kind == T.F32 or len(shape) == 1:
        return x, T.F32, x
    if kind in (T.F16, T.F64):
        x = x.astype({T.F16: np.float16, T.F64: np.float64}[kind])
        return x, kind, x.astype(np.float32)
    if kind in INTEGERS:
        x = (x * 40).astype(INTEGERS[kind])
        return x, kind, x.astype(np.float32)
    if kind == T.BF16:
        blocks = gguf.quants.quantize(x, kind)
    else:
        elems, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = RNG.integers(0, 256, (shape[0], shape[1] // elems, size), dtype=np.uint8)
        for at in SCALES[kind]:
            scale = (RNG.standard_normal(blocks.shape[:2]) / 64).astype(np.float16)
            blocks[:, :, at:at + 2] = scale[..., None].view(np.uint8)
        blocks = blocks.reshape(shape[0], -1)
    return blocks, kind, gguf.quants.dequantize(blocks, kind)


def write_model(name, family, kind=T.F32, tied=False, more=None, **writer):
    """Writes a model with the gguf package; its values by canonical name and in canonical order."""
    w = gguf.GGUFWriter(path(name), ARCH[family], **writer)
    w.add_name("Théa 1")
    w.add_block_count(L)
    w.add_context_length(128)
    w.add_embedding_length(C)
    w.add_feed_forward_length(F)
    w.add_head_count(H)
    w.add_head_count_kv(K)
    w.add_key_length(D)
    w.add_value_length(D)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(500000.0)
    w.add_rope_dimension_count(D)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list([f"token{i}" for i in range(V)])
    w.add_token_types([1] * V)
    w.add_token_merges(["t o", "to k"])
    w.add_eos_token_id(3)
    w.add_chat_template("{{ messages }}")
    if more:
        more(w)
    values = {}
    for tensor, shape in shapes(family, tied):
        data, its_kind, x = random_values(shape, kind)
        w.add_tensor(tensor, data, raw_dtype=its_kind)
        heads = heads_of(family, tensor)
        values[canonical(tensor)] = to_canonical(x, heads) if heads else x
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return values


def check_values(want, got, what):
    check(set(want) == set(got), f"{what}: tensors {sorted(set(want) ^ set(got))} are on one side only")
    for name in sorted(set(want) & set(got)):
        check(same_bits(np.ascontiguousarray(want[name]), got[name]), f"{what}: {name} differs")


def read_theirs():
    """What they write: every type in the llama family, every family in f32."""
    kinds = [T.F32, T.F16, T.BF16, T.F64, *INTEGERS, *SCALES]
    for family, kind in [("llama", kind) for kind in kinds] + [(f, T.F32) for f in ARCH if f != "mistral"]:
        what = f"{family} {kind.name}"
        want = write_model("theirs.gguf", family, kind, tied=family == "qwen3")
        if kind in INTEGERS:
            refused(4, ["model.embed_tokens.weight", kind.name.lower()], "convert", path("theirs.gguf"), path("int.safetensors"))
        elif succeeds("convert", path("theirs.gguf"), path("theirs.safetensors"), "--dtype", "f32", "--force"):
            check_values(want, read_safetensors(path("theirs.safetensors")), what)
        facts = succeeds("inspect", "--json", "--tensors", path("theirs.gguf"))
        if facts:
            facts = json.loads(facts)
            config = facts["config"]
            check(facts["name"] == "Théa 1" and facts["family"] == family, f"{what}: {facts['name']} {facts['family']}")
            expected = {"layers": L, "width": C, "heads": H, "kv_heads": K, "head_dim": D, "hidden": F, "vocab": V, "context": 128,
                        "norm_eps": 1e-5, "tied": family == "qwen3", "qk_norm": family == "qwen3", "qkv_bias": family == "qwen2"}
            check({k: config[k] for k in expected} == expected and config["rope"]["theta"] == 500000, f"{what}: {config}")
            stored = {t["name"]: t["dtype"] for t in facts["tensors"]}
            expected = {n: kind.name.lower() if x.ndim == 2 else "f32" for n, x in want.items()}
            check(stored == expected, f"{what}: {stored}")


def read_split():
    want = write_model("split.gguf", "llama", T.Q8_0, split_max_tensors=9)
    parts = sorted(n for n in os.listdir(WORK.name) if n.startswith("split-"))
    check(len(parts) == 3, f"split: {parts}")
    for part in parts:
        if succeeds("convert", path(part), path("split.safetensors"), "--dtype", "f32", "--force"):
            check_values(want, read_safetensors(path("split.safetensors")), part)
    os.rename(path(parts[1]), path("elsewhere.gguf"))
    refused(3, ["part 2 of 3 is missing", parts[1]], "inspect", path(parts[0]))


def llama3_factors():
    """As llama.cpp's converter computes them, in f32."""
    freqs = (np.float32(1) / np.power(np.float32(500000), np.arange(0, D, 2, dtype=np.float32) / np.float32(D))).astype(np.float32)
    wave = np.float32(2 * np.pi) / freqs
    smooth = (8192 / wave - 1) / 3
    middle = 1 / ((1 - smooth) / 8 + smooth)
    return np.where(wave < 8192 / 4, 1, np.where(wave > 8192, 8, middle)).astype(np.float32)


def read_llama3():
    write_model("llama3.gguf", "llama", more=lambda w: w.add_tensor("rope_freqs.weight", llama3_factors()))
    facts = succeeds("inspect", "--json", path("llama3.gguf"))
    if facts:
        rope = json.loads(facts)["config"]["rope"]
        found = [rope[k] for k in ("kind", "theta", "factor", "low_freq_factor", "high_freq_factor", "original_context")]
        check(found == ["llama3", 500000, 8, 1, 4, 8192], f"llama3: {found}")
    if succeeds("convert", path("llama3.gguf"), path("llama3-ours.gguf"), "--force"):
        ours = {t.name: t.data for t in gguf.GGUFReader(path("llama3-ours.gguf")).tensors}
        check(np.allclose(ours["rope_freqs.weight"], llama3_factors(), rtol=2e-6), "llama3: the table that is written differs")


def contents(reader, key):
    field = reader.get_field(key)
    return field.contents() if field else None


def check_ours(family, kind, name, source):
    """A file of ours, read by the gguf package; source: values in f32 by canonical name."""
    reader = gguf.GGUFReader(path(name))
    what = f"ours, {family} {kind}"
    config = json.loads(contents(reader, "retort.config"))
    arch = ARCH[family]
    check(contents(reader, "general.architecture") == arch, f"{what}: {contents(reader, 'general.architecture')}")
    for key, of in (("block_count", "num_hidden_layers"), ("embedding_length", "hidden_size"), ("feed_forward_length", "intermediate_size"),
                    ("attention.head_count", "num_attention_heads"), ("attention.head_count_kv", "num_key_value_heads"),
                    ("context_length", "max_position_embeddings")):
        check(contents(reader, f"{arch}.{key}") == config[of], f"{what}: {key} is {contents(reader, f'{arch}.{key}')}, {of} {config[of]}")
    tokens = contents(reader, "tokenizer.ggml.tokens")
    check(tokens and len(tokens) == config["vocab_size"] == len(contents(reader, "tokenizer.ggml.token_type")), f"{what}: tokens")
    check(isinstance(contents(reader, "tokenizer.chat_template"), str), f"{what}: no chat template")
    seen, end = set(), reader.data_offset
    for t in reader.tensors:
        check(t.data_offset == end, f"{what}: {t.name} is at {t.data_offset}, expected {end}")
        end = t.data_offset + (int(t.n_bytes) + 31) // 32 * 32
        x = t.data if t.tensor_type in (T.F32, T.F16) else gguf.quants.dequantize(t.data, t.tensor_type)
        heads = 0
        if family in SWAPPED:
            heads = config["num_attention_heads"] if ".attn_q." in t.name else config["num_key_value_heads"] if ".attn_k." in t.name else 0
        x = to_canonical(x, heads) if heads else x
        check(same_bits(np.ascontiguousarray(x).astype(np.float32), source[canonical(t.name)]), f"{what}: {t.name} differs")
        seen.add(canonical(t.name))
    check(seen == set(source), f"{what}: tensors {sorted(seen ^ set(source))} are on one side only")


def write_ours():
    """What we write: every family, every type that is written; values are those that we read back, and f32 those that we began with."""
    for family in ARCH:
        preset = f"tiny-{family}"
        if not succeeds("init", "--preset", preset, "--dtype", "f32", "--force", path("begin.safetensors")):
            continue
        begin = read_safetensors(path("begin.safetensors"))
        for kind in ("f32", "f16", "bf16", "q8_0", "q5_0", "q5_1"):
            name = f"ours-{family}-{kind}.gguf"
            if not succeeds("init", "--preset", preset, "--dtype", "f32", "--force", path("full.gguf")):
                continue
            if not succeeds("convert", path("full.gguf"), path(name), "--dtype", kind, "--force"):
                continue
            if not succeeds("convert", path(name), path("back.safetensors"), "--dtype", "f32", "--force"):
                continue
            back = read_safetensors(path("back.safetensors"))
            check_ours(family, kind, name, back)
            if kind == "f32":
                check_values(begin, back, f"ours, {family}: the first and the last")
    want = write_model("wide.gguf", "llama")
    for kind in ("q4_k", "q5_k", "q6_k", "q4_k_m"):
        if not succeeds("quantize", path("wide.gguf"), path("k.gguf"), "--dtype", kind, "--force"):
            continue
        if not succeeds("convert", path("k.gguf"), path("back.safetensors"), "--dtype", "f32", "--force"):
            continue
        back = read_safetensors(path("back.safetensors"))
        check_ours("llama", kind, "k.gguf", back)
        error = max(np.abs(back[n] - want[n]).max() for n in want)
        check(0 < error < 0.5, f"{kind}: the largest error is {error}")


def bad_files():
    write_model("big.gguf", "llama", endianess=gguf.GGUFEndian.BIG)
    refused(6, ["big-endian", "big.gguf"], "inspect", path("big.gguf"))
    write_model("cut.gguf", "llama")
    os.truncate(path("cut.gguf"), os.path.getsize(path("cut.gguf")) - 1000)
    refused(4, ["cut.gguf", "output.weight"], "inspect", path("cut.gguf"))
    write_model("type.gguf", "llama", more=lambda w: w.add_tensor("x", np.zeros((1, 66), np.uint8), raw_dtype=T.IQ2_XXS))
    refused(6, ["type.gguf", "'x'", "IQ2_XXS"], "inspect", path("type.gguf"))
    w = gguf.GGUFWriter(path("gemma.gguf"), "gemma3")
    w.add_tensor("x", np.zeros(8, np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    refused(6, ["gemma.gguf", "'gemma3'"], "inspect", path("gemma.gguf"))


read_theirs()
read_split()
read_llama3()
write_ours()
bad_files()
WORK.cleanup()
finish()
