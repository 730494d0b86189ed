# adapter.sh - LoRA adapters as inputs: the base is found, figures are those of the run, merging gives what --merge gives,
# a GGUF adapter has llama.cpp's names and order, and what is not plain LoRA or of another base is refused by name.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

content() { ${EMU:-} "$RETORT" inspect "$1" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["content_hash"])'; }
same() { check "$1 and $2 have one content hash" test "$(content "$1")" = "$(content "$2")"; }
# edit CODE: a copy of the adapter in ./edited, with Python CODE over its configuration c and its tensors t.
edit() {
    rm -rf edited && mkdir edited
    python3 - "$1" <<'PY'
import json, struct, sys
c = json.load(open("lora/adapter_config.json"))
raw = open("lora/adapter_model.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
t, data = json.loads(raw[8:8 + n]), raw[8 + n:]
L0 = "base_model.model.model.layers.0."
exec(sys.argv[1])
parts, at = [], 0
for v in sorted((v for k, v in t.items() if k != "__metadata__"), key=lambda v: v["data_offsets"]):
    parts.append(data[slice(*v["data_offsets"])])
    v["data_offsets"] = [at, at + len(parts[-1])]
    at += len(parts[-1])
head = json.dumps(t).encode()
open("edited/adapter_model.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + b"".join(parts))
json.dump(c, open("edited/adapter_config.json", "w"))
PY
}
# refused EXIT PATTERN CODE: that adapter is.
refused() {
    edit "$3"
    run inspect edited --no-hash --base s
    exits "$1"
    err_has "$2"
    err_one_line
}

texts d.jsonl 120 word
run init --preset tiny-llama --seed 3 s
exits 0
run train --student s --data d.jsonl --eval-data d.jsonl --out lora --lora-rank 4 --lr 0.01 --steps 12 --batch 8 \
    --seq-len 64 --save last --merge
exits 0

# A group is all of its layers: B began as zero, so it moved by its own norm; the file has it in bf16.
check "what a run says that its adapter moved by" python3 - <<'PY'
import json, math, struct
with open("lora/adapter_model.safetensors", "rb") as f:
    about = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    data = f.read()
squares = {}
for name, t in about.items():
    if ".lora_B." not in name:
        continue
    begin, end = t["data_offsets"]
    assert t["dtype"] == "BF16"
    words = struct.unpack(f"<{(end - begin) // 2}H", data[begin:end])
    values = struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *(w << 16 for w in words)))
    squares.setdefault(name.split(".layers.")[1].split(".", 1)[1], []).append(sum(v * v for v in values))
groups = {g["name"]: g["change"] for g in json.load(open("lora/run/manifest.json"))["measured"]["groups"]}
assert len(squares) == 7 and all(len(parts) == 2 and min(parts) > 0.01 * sum(parts) for parts in squares.values())
for group, parts in squares.items():
    assert abs(groups[group] / math.sqrt(sum(parts)) - 1) < 1e-3, (group, groups[group], parts)
PY
# The base by its name in the current folder; the figures are those of the run.
run eval lora --data d.jsonl --seq-len 64 --json
exits 0
json_is 'j["model"] == "lora"'
cp "$out" eval.json
check "the cross-entropy is the run's own" python3 -c 'import json, sys
a, b = json.load(open("eval.json"))["cross_entropy"]["mean"], float(sys.argv[1])
sys.exit(abs(a - b) > 1e-4 * b)' "$(metric lora last ce)"
run eval s --data d.jsonl --seq-len 64 --json
check "and not the base's" sh -c '! cmp -s "$0" eval.json' "$out"
run generate lora --prompt Hello --max-new 4 --quiet
exits 0
run inspect lora
exits 0
out_has '^dtypes +merged [0-9.]+ % \(14 tensors\)'
out_has '^note +a LoRA adapter of rank 4 and alpha 8 is merged into 14 matrices of /.*/s$'
out_lacks 'never trained'

# Merging: the bytes of --merge; every format; another dtype.
run merge lora m
exits 0
check "the same values as --merge" cmp m/model.safetensors lora/merged/model.safetensors
check "the same configuration" cmp m/config.json lora/merged/config.json
check "and the base's tokenizer" cmp m/tokenizer.json s/tokenizer.json
run merge lora small --dtype bf16
out_has '^adapter   rounding is [0-9.]+ % of what it changes$'
run merge lora f --dtype f32
out_lacks 'rounding'
exits 0
same lora f
# an adapter that adds less than a step of bf16 is told to be lost, and --dtype f32 keeps it
run train --student s --data d.jsonl --eval-data d.jsonl --out faint --lora-rank 4 --lr 1e-5 --steps 3 --batch 8 \
    --seq-len 64 --save last
run merge faint faint16 --dtype bf16
exits 0
out_has '^note +rounding to bf16 is [0-9]+ % of what the adapter changes, and so part .* --dtype f32 keeps all of it$'
run merge faint faint32 --dtype f32
out_lacks 'rounding'
for suffix in gguf apr safetensors; do
    run convert lora f.$suffix --dtype f32
    exits 0
    same lora f.$suffix
done
run merge s nothing
exits 5
err_has '^s is not a LoRA adapter .* nothing to merge'
run merge lora m
exits 5
run merge lora lora --force
exits 5
err_has 'holds the input'
run quantize lora q.gguf --dtype q8_0
exits 0

# The base elsewhere: beside the adapter, by --base, in the cache, as a GGUF file; an adapter over an adapter.
mkdir -p far hub/models--org--base/snapshots/one
cp -r s/. hub/models--org--base/snapshots/one/ && cp -r lora/adapter_* far/
run convert s g.gguf
exits 0
run inspect far --base g.gguf --json
exits 0
json_is 'len(j["files"]) == 2'
cp "$out" over-gguf.json
check "a GGUF base has the same values" test "$(python3 -c 'import json; print(json.load(open("over-gguf.json"))["content_hash"])')" = "$(content lora)"
edit 'c["base_model_name_or_path"] = "../s"'
same edited lora
edit 'c["base_model_name_or_path"] = "org/base"'
run inspect edited
exits 3
err_has "^edited: its base model 'org/base' is neither edited/org/base nor a model here, and .*; or give it with --base$"
HF_HUB_CACHE=$work/hub same edited lora
edit 'c["base_model_name_or_path"] = "gone"'
run eval edited --data d.jsonl
exits 3
err_has "its base model 'gone' is not there, nor a model gone in its folder, beside it or in the current folder; give it with --base$"
run eval edited --data d.jsonl --base s
exits 0
edit 'del c["base_model_name_or_path"]'
run generate edited --prompt x
exits 3
err_has 'names no base model; give it with --base$'
edit 'c["base_model_name_or_path"] = "."'
run inspect edited
exits 5
err_has 'more than 4 deep'
run train --student lora --data d.jsonl --out twice --lora-rank 2 --lr 0.01 --steps 4 --batch 4 --seq-len 64 --merge
exits 0
run merge twice both
exits 0
check "an adapter over an adapter" cmp both/model.safetensors twice/merged/model.safetensors
run distill --teacher far --base s --student s --data d.jsonl --out taught --steps 2 --batch 4 --seq-len 64
exits 0
check "the base is in the record" grep -q '^base: s' taught/run/resolved.yaml
run verify taught
exits 0

# Scales: rslora, and ranks and alphas of single modules.
edit 'c["use_rslora"] = True; c["lora_alpha"] = 4.0'
same edited lora
edit 'c["lora_alpha"] = 1.0; c["alpha_pattern"] = {k: 8.0 for k in c["target_modules"]}; c["r"] = 2; c["rank_pattern"] = {"self_attn.q_proj": 4, "layers.0.self_attn.k_proj": 4, "layers.1.self_attn.k_proj": 4, "v_proj": 4, "o_proj": 4, "gate_proj": 4, "up_proj": 4, "down_proj": 4}'
same edited lora

# For llama.cpp.
run convert far a.gguf --adapter --base s
exits 0
out_has '^output +a\.gguf \(gguf adapter\), .* rank 4 over 14 matrices$'
check "names, alpha, and the rows of q in GGUF's order" python3 - <<'PY'
import json, struct
def take(f, n): return f.read(n)
f = open("a.gguf", "rb")
assert f.read(4) == b"GGUF" and struct.unpack("<I", f.read(4))[0] == 3
tensors, keys = struct.unpack("<QQ", f.read(16))
def text(): return f.read(struct.unpack("<Q", f.read(8))[0]).decode()
kv = {}
for _ in range(keys):
    k, kind = text(), None
    kind = struct.unpack("<I", f.read(4))[0]
    kv[k] = text() if kind == 8 else struct.unpack("<f", f.read(4))[0]
assert kv["general.type"] == "adapter" and kv["adapter.type"] == "lora" and kv["general.architecture"] == "llama", kv
assert kv["adapter.lora.alpha"] == 8
info = {}
for _ in range(tensors):
    name = text()
    rank, = struct.unpack("<I", f.read(4))
    info[name] = (struct.unpack(f"<{rank}Q", f.read(8 * rank)), *struct.unpack("<IQ", f.read(12)))
start = (f.tell() + 31) // 32 * 32
assert info["blk.0.attn_q.weight.lora_a"][0] == (64, 4) and info["blk.1.attn_q.weight.lora_b"][0] == (4, 64), info
def values(name):
    dims, kind, at = info[name]
    assert kind == 0
    f.seek(start + at)
    return struct.unpack(f"<{dims[0] * dims[1]}f", f.read(4 * dims[0] * dims[1]))
raw = open("far/adapter_model.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
head = json.loads(raw[8:8 + n])
def stored(name):
    t = head["base_model.model." + name]
    b = raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
    if t["dtype"] == "F32": return struct.unpack(f"<{len(b) // 4}f", b)
    assert t["dtype"] == "BF16"
    return tuple(struct.unpack("<f", b"\0\0" + b[i:i + 2])[0] for i in range(0, len(b), 2))
L = "model.layers.1."
assert values("blk.1.ffn_up.weight.lora_b") == stored(L + "mlp.up_proj.lora_B.weight")
assert values("blk.1.attn_q.weight.lora_a") == stored(L + "self_attn.q_proj.lora_A.weight")
q, s = values("blk.1.attn_q.weight.lora_b"), stored(L + "self_attn.q_proj.lora_B.weight")
row = lambda x, i: x[4 * i:4 * i + 4]
D = 16 # a head: canonical rows i and D/2 + i lie side by side
assert any(s) and all(row(q, h * D + 2 * i + k) == row(s, h * D + k * D // 2 + i) for h in range(4) for i in range(D // 2) for k in range(2))
PY
edit 'c["use_rslora"] = True; c["lora_alpha"] = 4.0'
mkdir more && mv edited more/far
run convert more/far r.gguf --adapter --base s
exits 0
check "rslora's scale is in alpha" cmp a.gguf r.gguf
run convert s s.gguf --adapter
exits 5
err_has 'is not a LoRA adapter .*: leave --adapter out'
run convert lora x --adapter
exits 5
err_has '^--adapter writes GGUF'
run convert lora x.gguf --adapter --dtype q8_0
exits 5
err_has 'f32, f16 or bf16, not q8_0'
run inspect a.gguf
exits 6
err_has 'an adapter for llama\.cpp, not a model'

# What is not plain LoRA.
refused 6 '"use_dora" is set \(DoRA\)' 'c["use_dora"] = True'
refused 6 '"modules_to_save" is set' 'c["modules_to_save"] = ["lm_head"]'
refused 6 '"bias" is set' 'c["bias"] = "all"'
refused 6 '"fan_in_fan_out" is set' 'c["fan_in_fan_out"] = True'
refused 6 'an adapter of type IA3 is not supported' 'c["peft_type"] = "IA3"'
refused 6 '"init_lora_weights" is "pissa"' 'c["init_lora_weights"] = "pissa"'
refused 6 '"rank_pattern" has the pattern' 'c["rank_pattern"] = {".*q_proj": 4}'
refused 6 'embed_tokens.lora_embedding_A. is not lora_A or lora_B' 't["base_model.model.model.embed_tokens.lora_embedding_A"] = t.pop(L0 + "mlp.up_proj.lora_A.weight")'
refused 4 '"r" must be a rank' 'c["r"] = 0'
refused 4 '"lora_alpha" must be a number' 'c["lora_alpha"] = None'
# What is of another base, or not whole.
refused 5 'is \[4, 64\], which is not of rank 8 over \[64, 64\]|not of rank 8' 'c["r"] = 8'
refused 5 'edited is the adapter of a model with at least 10 layers, and s has 2' 't["base_model.model.model.layers.9.mlp.up_proj.lora_A.weight"] = t.pop(L0 + "mlp.up_proj.lora_A.weight")'
refused 5 'over the module model.layers.0.mlp.c_fc, and s has no matrix of that name: it is the adapter of another model, or of a tied head; give the right one with --base$' 't[L0 + "mlp.c_fc.lora_A.weight"] = t.pop(L0 + "mlp.up_proj.lora_A.weight")'
refused 5 "target_modules names 'c_attn', and s has no such module" 'c["target_modules"].append("c_attn")'
refused 4 'only one of lora_A and lora_B for model.layers.0.mlp.up_proj.weight' 't.pop(L0 + "mlp.up_proj.lora_A.weight")'
refused 4 'has nothing for model.layers.0.mlp.up_proj, which target_modules names' 't.pop(L0 + "mlp.up_proj.lora_A.weight"); t.pop(L0 + "mlp.up_proj.lora_B.weight")'
run init --from s --layers 0 other
exits 0
run eval far --base other --data d.jsonl
exits 5
err_has 'far is the adapter of a model with at least 2 layers, and other has 1: it is the adapter of another model; give the right one with --base$'
cp -r far tok && python3 -c 'import json
j = json.load(open("s/tokenizer.json"))
j["added_tokens"].append(dict(j["added_tokens"][-1], id=272, content="<|more|>"))
json.dump(j, open("tok/tokenizer.json", "w"))'
run eval tok --base s --data d.jsonl
exits 5
err_has 'its tokenizer has ids up to 272, and the embedding of s has 272 rows'
rm far/adapter_model.safetensors
run eval far --base s --data d.jsonl
exits 3
err_has 'has no adapter_model\.safetensors'
finish
