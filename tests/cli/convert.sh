# convert.sh - `retort convert` and `retort quantize`: round trips, dtypes, fallbacks, what is refused, and that nothing
# half-written is ever left under the output's name.
# Files on disk.
. "$(dirname "$0")/harness"
cd "$work" || exit 1

content() { ${EMU:-} "$RETORT" inspect "$1" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["content_hash"])'; }
same() { check "$1 and $2 have one content hash" test "$(content "$1")" = "$(content "$2")"; }

for family in llama qwen2 qwen3 mistral smollm3; do
    rm -rf a ./*.gguf ./*.apr ./*.safetensors back*
    run init --preset tiny-$family --seed 11 a
    exits 0
    for suffix in gguf apr safetensors; do
        run convert a b.$suffix
        exits 0
        err_empty
        out_has "^output +b\.$suffix \($suffix\), .*every value exactly as it was$"
        run convert b.$suffix back-$suffix
        exits 0
        same a b.$suffix
        same a back-$suffix
        check "tensors are the same bytes as at first" cmp a/model.safetensors back-$suffix/model.safetensors
        check "the configuration is the same as at first" cmp a/config.json back-$suffix/config.json
    done
    check "the tokenizer survives GGUF" cmp a/tokenizer.json back-gguf/tokenizer.json
    run convert b.gguf c.apr
    exits 0
    same a c.apr
done

# Other dtypes, and what they cost.
run convert a wide --dtype f32 --json
exits 0
err_empty
json_is 'j["format"] == "hf" and j["dtype"] == "f32" and j["rmse"] == 0 and j["max_error"] == 0'
json_is 'j["same"] == len(j["tensors"]) and all(t["same"] for t in j["tensors"])'
same a wide
run convert wide half.gguf --dtype f16 --json
exits 0
json_is '{t["to"] for t in j["tensors"]} == {"f16", "f32"} and j["bytes_out"] < j["bytes_in"]'
run convert wide shards --shard-size 100KB
exits 0
check "several files and an index" test -f shards/model.safetensors.index.json -a -f shards/model-00002-of-00009.safetensors
same wide shards
run convert a named --to gguf
exits 0
out_has '^output +named \(gguf: a file\)'
run convert a plain.gguf --no-tokenizer
exits 0
run inspect plain.gguf
out_has '^tokenizer none$'

# Quantising: the mixture, the fallbacks, the error of the first tensors.
run quantize a q.gguf --dtype q4_k_m
exits 0
err_empty
out_has '^model.layers.0.self_attn.k_proj.weight +bf16 +q5_0 +[0-9.e-]+ +[0-9.e-]+  fell back: rows of 64 columns$'
out_has '^model.layers.0.input_layernorm.weight +bf16 +f32 +same +same$'
out_has '^size .* bits per weight$'
out_has '^error +rmse [0-9.e-]+, max [0-9.e-]+, '
out_has 'fell back to another type'
cat >896.json <<'JSON'
{"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 1024, "num_hidden_layers": 1, "num_attention_heads": 14,
 "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 64, "tie_word_embeddings": false}
JSON
run init --config 896.json wide896
exits 0
run quantize wide896 wide896.gguf --dtype q4_k_m --json
exits 0
json_is '{t["name"]: t["to"] for t in j["tensors"]}["model.layers.0.self_attn.q_proj.weight"] == "q5_0"'
json_is '{t["name"]: t["to"] for t in j["tensors"]}["lm_head.weight"] == "q8_0"'
json_is 'not {t["name"]: t["fallback"] for t in j["tensors"]}["model.layers.0.mlp.down_proj.weight"]'
json_is 'j["fallbacks"] == sum(t["fallback"] for t in j["tensors"]) > 0'
json_is '0 < j["rmse"] < j["max_error"] < 0.02 and 0.005 < j["relative_error"] < 0.1'
json_is '5 < j["bits_per_weight"] < 7.5'
run quantize wide896 wide896-5.gguf --dtype q5_k --json
exits 0
json_is '{t["name"]: t["to"] for t in j["tensors"]}["model.layers.0.self_attn.q_proj.weight"] == "q5_1"'
run convert wide896.gguf loose
exits 0
out_has 'quantised matrices became bf16: hf has no such type'
run convert wide896.gguf copy.gguf
exits 0
out_has 'every value exactly as it was$'
same wide896.gguf copy.gguf

# Layers of a teacher.
run init --from a --layers 0,2-3 student
exits 0
run inspect student --json
json_is 'j["config"]["layers"] == 3 and j["config"]["no_rope_layers"] == [2]'
run init --from a --layers 0,9 none
exits 5
err_has 'no layer 9'
run init --from a --layers 2,x none
exits 2
err_has '2,x'
check "nothing was made" test ! -e none

# Refused, with the reason and the remedy; the input stays.
run convert a wide
exits 5
err_one_line
err_has 'wide is there already; --force'
run convert a wide --force
exits 0
same a wide
run convert a half.gguf
exits 5
err_has '--force'
run convert a half.gguf --force
exits 0
run convert a a --force
exits 5
err_has 'holds the input'
run convert named named --to gguf --force
exits 5
err_has 'holds the input'
run convert a . --force
exits 5
err_has 'holds the input'
mkdir other
echo precious >other/file
run convert half.gguf other --force
exits 5
err_has 'other'
check "what is no model stays" grep -q precious other/file
run convert a other --to gguf --force
exits 5
err_has 'directory'
run convert a b --dtype q4_k
exits 5
err_has 'q4_k'
check "nothing was made" test ! -e b
run convert a new/folder/b.gguf
exits 3
err_has 'new/folder'
run convert nosuch b
exits 3
run convert a b --to ggfu
exits 2
err_has 'gguf'
run convert a b --dtype bf61
exits 2
err_has 'did you mean bf16'
run convert a
exits 2
run quantize a b.gguf
exits 2
err_has '--dtype'
run quantize a b.gguf --dtype q4km
exits 2
err_has 'q4_k_m'
head -c 100000 half.gguf >cut.gguf
run convert cut.gguf b
exits 4
err_has 'cut\.gguf'
check "nothing was made" test ! -e b

# Room, and permission. A small file system needs the right to mount one.
mkdir small
if [ -z "${EMU:-}" ] && mount -t tmpfs -o size=300k tmpfs "$work/small" 2>/dev/null; then
    run convert wide896 small/b.gguf
    exits 7
    err_one_line
    err_has 'small/b\.gguf needs .* free: make room'
    check "nothing is left on the full disk" test -z "$(ls -A small)"
    # Enough for the tensors, not for what stands around them.
    head -c 20000 /dev/zero >small/filler
    run convert a small/b.gguf
    check "the same, or a full disk found on the way" test "$status" = 7
    check "nothing but the filler is left" test "$(ls -A small)" = filler
    mount -o remount,ro "$work/small" && {
        run convert a small/c.gguf
        exits 7
        err_has 'small'
    }
    umount "$work/small"
else
    echo "skipped: full and read-only disks (mounting a tmpfs is not permitted here, or programs are emulated)"
fi
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod 555 locked
    run convert a locked/b.gguf
    exits 7
    err_has 'locked'
    chmod 755 locked
else
    echo "skipped: a directory without write permission (root may write everywhere)"
fi

# Stopped in the middle: an interrupt leaves nothing at all, a kill leaves nothing under the output's name.
if [ -z "${EMU:-}" ] && command -v timeout >/dev/null 2>&1; then
    mkdir stopped
    shown="retort init, interrupted"
    status=0
    timeout --foreground --preserve-status -s INT 1 "$RETORT" init --preset qwen2.5-0.5b --dtype q4_k_m --threads 1 stopped/b.gguf \
        >"$out" 2>"$err" </dev/null || status=$?
    exits 130
    err_has 'interrupted: stopped/b\.gguf was not written'
    check "nothing is left" test -z "$(ls -A stopped)"
    for name in b.gguf b; do
        dtype=bf16
        test $name = b || dtype=q4_k_m
        shown="retort init, killed"
        status=0
        timeout -s KILL 0.3 "$RETORT" init --preset qwen2.5-0.5b --dtype $dtype --threads 1 stopped/$name \
            >"$out" 2>"$err" </dev/null || status=$?
        check "killed" test "$status" = 137
        check "not under its name" test ! -e stopped/$name
        rm -rf stopped/* stopped/.[!.]*
    done
fi
finish
