# inspect.sh - `retort inspect` in every format, for people and as JSON, and what it says about files that are no models.
. "$(dirname "$0")/harness"
cd "$work" || exit 1

run init --preset tiny-qwen2 --seed 3 a
exits 0
run inspect a
exits 0
err_empty
out_has '^format +hf, 1 file, '
out_has '^family +qwen2$'
out_has '^shape +2 layers, width 64, 4 heads \(2 kv\) of 16, hidden 192, vocabulary 272$'
out_has '^details +head tied to embedding, bias: q/k/v, '
out_has '^weights +random, never trained \(retort init, seed 3\)$'
out_has '^params +116288 \(116288\), 98880 without embedding$'
out_has '^dtypes +bf16 100\.0 % \(26 tensors\)$'
out_has '^tokenizer BPE, byte-level, 256 tokens, 3 added \(3 special\) \(tokenizer\.json\)$'
out_has '^ids +bos 256 eos 256,258 pad 256$'
out_has '^chat +has a template$'
out_has '^file +[0-9a-f]{32} '
out_has '^content +[0-9a-f]{32} '
out_lacks 'layernorm'

run inspect a --no-hash
exits 0
out_lacks '^(file|content) '

run inspect a --tensors
exits 0
out_has '^model.layers.1.self_attn.q_proj.weight +bf16 +64 x 64 +8192  [0-9a-f]{32}$'
out_has '^model.norm.weight +bf16 +64 +128  [0-9a-f]{32}$'

run inspect a --json --tensors
exits 0
err_empty
json_is 'j["format"] == "hf" and j["family"] == "qwen2" and j["path"] == "a" and j["problem"] is None'
json_is 'j["config"]["layers"] == 2 and j["config"]["head_dim"] == 16 and j["config"]["tied"] is True'
json_is 'j["config"]["qkv_bias"] and not j["config"]["o_bias"] and j["config"]["rope"]["kind"] == "plain"'
json_is 'j["config"]["eos"] == [256, 258] and j["config"]["bos"] == 256 and j["config"]["window"] == 0'
json_is 'j["random_init"] is True and j["init_seed"] == 3'
json_is 'j["parameters"] == 116288 == sum(d["elements"] for d in j["dtypes"])'
json_is 'j["parameters_without_embedding"] == 116288 - 272 * 64'
json_is 'len(j["tensors"]) == 26 and all(len(t["hash"]) == 32 for t in j["tensors"])'
json_is '[t["name"] for t in j["tensors"]] == sorted(t["name"] for t in j["tensors"])'
json_is 'len(j["file_hash"]) == 32 and len(j["content_hash"]) == 32 and len(j["files"]) == 1'
json_is 'j["tokenizer"]["usable"] and j["tokenizer"]["size"] == 259 and j["tokenizer"]["chat_template"]'
json_is 'j["footer_checked"] is None'

run inspect a --json --no-hash
exits 0
json_is 'j["file_hash"] is None and j["content_hash"] is None and "tensors" not in j'

# Shapes that a family can have.
run init --preset tiny-mistral b.gguf
run inspect b.gguf
exits 0
out_has 'sliding window 32 in layers 0-1$'
out_has '^dtypes +bf16 .*, f32 '
out_has '\(GGUF keys\)$|\(tokenizer\.json\)$'
run init --preset tiny-smollm3 c.apr
run inspect c.apr
exits 0
out_has 'layers without rope: 3$'
out_has '^footer +CRC32 is right$'
run inspect c.apr --json
json_is 'j["footer_checked"] is True and j["config"]["no_rope_layers"] == [3]'
run init --preset tiny-llama d.safetensors
run inspect d.safetensors
exits 0
out_has '^tokenizer none$'
out_has '^details +head apart from embedding, bias: none'

# Shards: the same content, other files.
run init --preset tiny-qwen2 --seed 3 shards --shard-size 100KB
exits 0
run inspect shards
out_has '^format +hf, [2-9] files, '
content() { ${EMU:-} "$RETORT" inspect "$1" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["content_hash"])'; }
check "shards have the content hash of one file" test "$(content a)" = "$(content shards)"

# The local Hugging Face cache.
mkdir -p hub/models--some--model/refs hub/models--some--model/snapshots
cp -r a hub/models--some--model/snapshots/0123456789abcdef
printf 0123456789abcdef >hub/models--some--model/refs/main
shown="HF_HUB_CACHE=hub retort inspect some/model"
status=0
HF_HUB_CACHE=$work/hub ${EMU:-} "$RETORT" inspect some/model >"$out" 2>"$err" || status=$?
exits 0
out_has '^family +qwen2$'
shown="HF_HUB_CACHE=hub retort inspect some/other"
status=0
HF_HUB_CACHE=$work/hub ${EMU:-} "$RETORT" inspect some/other >"$out" 2>"$err" || status=$?
exits 3
err_has 'some/other'

# A tensor that the configuration asks for is missing: told, not hidden.
cp -r shards broken
rm broken/model-00001-of-*.safetensors
run inspect broken
check "a missing shard is an error" test "$status" -ge 3

# No models.
run inspect nosuch
exits 3
err_one_line
err_has 'nosuch'
out_empty
printf 'not a model at all, but long enough to look at' >text.gguf
run inspect text.gguf
exits 4
err_one_line
err_has 'text\.gguf'
: >empty.gguf
run inspect empty.gguf
exits 4
err_has 'empty\.gguf'
head -c 2000 b.gguf >cut.gguf
run inspect cut.gguf
exits 4
err_has 'cut\.gguf'
head -c 200000 c.apr >cut.apr
run inspect cut.apr
exits 4
err_has 'cut\.apr'
# One byte of the weights is another: the headers are fine, the checksum is not.
cp c.apr bit.apr
printf '\377' | dd of=bit.apr bs=1 seek=300000 conv=notrunc 2>/dev/null
run inspect bit.apr --no-hash
exits 0
run inspect bit.apr
exits 4
err_one_line
err_has 'bit\.apr.*CRC'
out_empty
printf 'APRN0000000000000000000000000000000000000000000000000000000000000000000000000000' >old.apr
run inspect old.apr
check "an APRN file is refused" test "$status" = 4 -o "$status" = 6
err_has 'APRN'

run inspect
exits 2
run inspect a b
exits 2
run inspect a --tensor
exits 2
err_has '--tensors'
finish
