# init.sh - `retort init`: presets, configurations, seeds, tokenizers, formats.
. "$(dirname "$0")/harness"
cd "$work" || exit 1

content() { ${EMU:-} "$RETORT" inspect "$1" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["content_hash"])'; }

run init --list
exits 0
err_empty
for name in tiny tiny-llama tiny-qwen2 tiny-qwen3 tiny-mistral tiny-smollm3 qwen2.5-0.5b qwen2.5-1.5b qwen2.5-7b; do
    out_has "^$name "
done
out_has '^qwen2\.5-7b +7\.62 B '
run init --list --json
exits 0
json_is 'all(p["parameters"] > 0 and p["name"] and p["family"] for p in j)'
json_is '{p["name"]: p["parameters"] for p in j}["qwen2.5-0.5b"] == 494032768'

# One seed, one model: in every format, with any number of threads.
run init --preset tiny-llama --seed 4 --dtype f32 a
exits 0
err_empty
out_has '^model +llama, 133440 parameters, random from seed 4$'
out_has '^tokenizer bytes'
run init --preset tiny-llama --seed 4 --dtype f32 --threads 1 a.gguf
run init --preset tiny-llama --seed 4 --dtype f32 --threads 3 a.apr
run init --preset tiny-llama --seed 4 --dtype f32 a.safetensors
run init --preset tiny-llama --seed 5 --dtype f32 other
want=$(content a)
check "a hash" test "${#want}" = 32
for model in a.gguf a.apr a.safetensors; do
    check "$model holds the same values" test "$(content $model)" = "$want"
done
check "another seed gives others" test "$(content other)" != "$want"
run init --preset tiny-llama --seed 4 --dtype f32 again
check "the same command gives the same bytes" cmp a/model.safetensors again/model.safetensors

run init --preset tiny-qwen3 q.gguf --dtype q8_0 --json
exits 0
json_is 'j["format"] == "gguf" and j["dtype"] == "q8_0" and j["tokenizer"] and j["seed"] == 0 and j["fallbacks"] == 0'
run inspect q.gguf --json
json_is '{d["dtype"] for d in j["dtypes"]} == {"q8_0", "f32"} and j["random_init"]'
run init --preset tiny --seed 18446744073709551615 large-seed
exits 0
run inspect large-seed --json --no-hash
json_is 'j["init_seed"] == "18446744073709551615"'

# The shape of a configuration; keys that do not matter are kept.
cat >c.json <<'JSON'
{"model_type": "llama", "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 6,
 "num_key_value_heads": 3, "vocab_size": 300, "max_position_embeddings": 128, "rope_theta": 500000.0,
 "initializer_range": 0.5, "some_key": [1, 2, "three"]}
JSON
run init --config c.json c --tokenizer a
exits 0
out_has '^tokenizer a$'
run inspect c --json
json_is 'j["config"]["layers"] == 3 and j["config"]["width"] == 96 and j["config"]["rope"]["theta"] == 500000'
json_is 'j["tokenizer"]["size"] == 259 and j["config"]["init_range"] == 0.5'
check "unknown keys are kept" grep -q some_key c/config.json
run init --config c d
exits 0
run init --config c.json e --tokenizer a/tokenizer.json
exits 0
run init --config c.json e.gguf --tokenizer a.gguf
exits 0
run inspect e.gguf --no-hash
out_has '^tokenizer BPE, byte-level, 256 tokens'
run init --preset tiny none --no-tokenizer
exits 0
run inspect none --no-hash
out_has '^tokenizer none$'

# A student of some layers says which is which.
run init --preset tiny --seed 1 deep
exits 0
run init --from deep --layers 1 shallow
out_has '^note      one layer, number 1 counted from 0; --depth 1 takes so many, --layers 0,2,4-7 a list$'
exits 0
out_has '^layers +student <- teacher: 0 <- 1$'
sed 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 12/' deep/config.json >deep.json
run init --config deep.json deeper
exits 0
run init --from deeper --layers 0-2,4,6,8,11 seven
exits 0
out_has '^layers +student <- teacher: 0-2 <- 0-2, 3-5 <- 4-8 by 2, 6 <- 11$'

# So many: both ends, and not the middle. The command that comes next is said.
run init --from deeper --depth 5 five
exits 0
out_has '^layers +student <- teacher: 0-2 <- 0-2, 3-4 <- 10-11$'
out_has '^next      retort distill --teacher deeper --student five --data DATA --out OUT$'
run init --from deeper --depth 2 'a student' --json
exits 0
out_lacks '^next'
run init --from deeper --depth 6 --force 'a student'
out_has '^layers +student <- teacher: 0-2 <- 0-2, 3-5 <- 9-11$'
out_has "^next      retort distill --teacher deeper --student 'a student' --data DATA --out OUT\$"

# Refused.
run init --preset qwen2.5-05b x
exits 2
err_one_line
err_has "no preset 'qwen2.5-05b'; did you mean qwen2.5-0.5b"
run init --preset tiny
exits 2
run init x
exits 2
err_has '--preset'
run init --preset tiny --config c.json x
exits 2
run init --preset tiny --layers 0 x
exits 2
err_has '--from'
run init --from a x
exits 2
err_has '--layers'
run init --preset tiny --dtype q4_k x
exits 5
run init --config nosuch.json x
exits 3
err_has 'nosuch\.json'
echo '{"model_type": "llama", "hidden_size": }' >bad.json
run init --config bad.json x
exits 4
err_has 'bad\.json'
echo '{"model_type": "mamba"}' >family.json
run init --config family.json x
exits 6
err_has 'mamba'
sed 's/"vocab_size": 300/"vocab_size": 100/' c.json >few.json
run init --config few.json x --tokenizer a
exits 5
err_has 'ids up to 258.*100 rows'
run init --preset tiny a
exits 5
err_has '--force'
run init --preset tiny x --tokenizer nosuch
exits 3
check "nothing was made" test ! -e x
finish
