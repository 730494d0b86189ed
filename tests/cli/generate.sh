# generate.sh - `retort generate`: greedy and sampled, chat and raw, ids and JSON, how it ends, what is refused.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run generate --help
exits 0
err_empty
out_has '^usage: retort generate MODEL'
out_has '^example:'
out_has '^  --repetition-penalty '

# A model that has learned one sentence, so that what it says can be known.
python3 -c '
for _ in range(64): print("{\"text\": \"one two three four five six seven\"}")' >count.jsonl
cp count.jsonl held.jsonl
run train --student s --data count.jsonl --eval-data held.jsonl --out counts --steps 60 --batch 4 --seq-len 64 --eval-every 60 --save-every 60
exits 0
run generate counts --raw --prompt 'one two' --max-new 40
exits 0
out_has '^ three four five six seven$'
err_has '^[0-9]+ tokens at [0-9.]+ a second; prompt of 7 in [0-9.]+ s$'
check "the text alone on standard output" test "$(wc -l <"$out")" = 1
run generate counts --raw --prompt 'one two' --max-new 40 --json
exits 0
err_empty
json_is 'j["text"] == " three four five six seven" and j["stopped"] is True and j["prompt_tokens"] == 7'
json_is 'j["tokens"] == 27 and j["tokens_per_second"] > 0'
run generate counts --raw --prompt 'one two' --max-new 6 --json
json_is 'j["text"] == " three" and j["stopped"] is False and j["tokens"] == 6'
run generate counts --raw --prompt 'one two' --max-new 6 --ids --quiet
exits 0
err_empty
check "ids of bytes" test "$(cat "$out")" = '32 116 104 114 101 101'
run generate counts --raw --prompt 'one two' --max-new 6
err_has ', not ended by the model; prompt'
shown="a prompt on standard input"
printf 'one two' | ${EMU:-} "$RETORT" generate counts --raw --max-new 6 --quiet >"$out" 2>"$err"
status=$?
exits 0
out_has '^ three$'

# The same weights in other containers.
run convert counts counts.gguf
run generate counts.gguf --raw --prompt 'one two' --max-new 40 --quiet
out_has '^ three four five six seven$'
run quantize counts counts-q8.gguf --dtype q8_0
run generate counts-q8.gguf --raw --prompt 'one two' --max-new 40 --quiet
out_has '^ three four five six seven$'

# Choices: a seed is a text; few to choose from, or a cold choice, is the greedy one.
for seed in 1 1 2; do
    run generate s --raw --prompt 'abc' --max-new 20 --temperature 1 --seed $seed --ids --quiet
    exits 0
    cat "$out" >>seeds
done
check "a seed gives its text again" test "$(sed -n 1p seeds)" = "$(sed -n 2p seeds)"
check "another gives another" test "$(sed -n 1p seeds)" != "$(sed -n 3p seeds)"
run generate s --raw --prompt 'abc' --max-new 20 --ids --quiet
cp "$out" greedy
for flags in '--top-k 1' '--top-p 0.0001' '--threads 1' '--context 512'; do
    temperature=1
    case $flags in --threads* | --context*) temperature=0 ;; esac
    run generate s --raw --prompt 'abc' --max-new 20 --ids --quiet --temperature $temperature $flags
    check "$flags: the greedy text" cmp "$out" greedy
done
run generate s --raw --prompt 'abc' --max-new 20 --ids --quiet --repetition-penalty 1000
check "a penalty leaves no id twice" sh -c 'test -z "$(tr " " "\n" <"$0" | sort | uniq -d)"' "$out"
check "and is not the greedy text" sh -c '! cmp "$0" greedy' "$out"

# An untrained model also chooses rows of its embedding that no token has: they are counted, and say nothing.
run generate s --raw --prompt 'abc' --max-new 20 --repetition-penalty 3 --ids --quiet
check "there is one among them" sh -c 'tr " " "\n" <"$0" | grep -q -E "^(259|26[0-9]|27[01])$"' "$out"
run generate s --raw --prompt 'abc' --max-new 20 --repetition-penalty 3 --json
exits 0
json_is 'j["tokens"] == 20'

# Activations in 8 bits, of packed weights: said, the same text twice and with any number of threads, in every program
# that makes text; what cannot have them is refused.
run quantize s s-q8.gguf --dtype q8_0
for flags in '--threads 1' '--threads 1' '--threads 2'; do
    run generate s-q8.gguf --raw --prompt 'abc' --max-new 20 --ids --quiet --activations int8 $flags
    exits 0
    err_empty
    cat "$out" >>int8
done
check "int8: one text" sh -c 'test "$(sort -u int8 | wc -l)" = 1 && test "$(wc -l <int8)" = 3'
run generate s-q8.gguf --raw --prompt 'abc' --max-new 20 --activations int8
exits 0
err_has '^int8 activations in [1-9][0-9]* of [1-9][0-9]* GEMMs of a token$'
run generate s-q8.gguf --raw --prompt 'abc' --max-new 20 --activations int8 --json
json_is 'j["activations"] == "int8"'
run generate s-q8.gguf --raw --prompt 'abc' --max-new 20 --activations exact --json
json_is 'j["activations"] == "exact"'
run generate s-q8.gguf --raw --prompt 'abc' --max-new 20 --activations exact
check "nothing about int8 without it" sh -c '! grep -q int8 "$0"' "$err"
run generate counts-q8.gguf --raw --prompt 'one two' --max-new 40 --quiet --activations int8
out_has '^ three four five six seven$'
echo '{"prompt": "abc"}' >asked.jsonl
run generate s-q8.gguf --data asked.jsonl --out int8.jsonl --max-new 4 --activations int8
exits 0
err_has '^int8 activations in '
run generate s-q8.gguf --data asked.jsonl --out int8.jsonl --max-new 4
check "a file that int8 activations began is not continued without" test "$status" != 0
for word in int4 f32 ''; do
    run generate s-q8.gguf --raw --prompt 'abc' --activations "$word"
    exits 2
    err_has "--activations takes exact or int8, not '$word'"
done
run generate s --raw --prompt 'abc' --activations int8
exits 5
err_has 'int8 activations need weights in q8_0, q4_0, q4_1, q4_k, q5_k or q6_k, and this model has none; retort quantize'
for command in serve eval train distill; do
    run $command s --activations int8
    exits 2
    err_has '--activations'
done

# As in a chat: the template is around the prompt, and its end of turn ends the text.
run generate s --prompt 'hi' --max-new 1 --json
exits 0
json_is '20 < j["prompt_tokens"] < 35'
run generate s --prompt 'hi' --system 'be brief' --max-new 1 --json
json_is 'j["prompt_tokens"] > 35'

# ---- refused ----
run generate s --raw --prompt 'abc' --top-p 0
exits 2
err_has '--top-p 0 is out of range'
run generate s --raw --prompt 'abc' --temperature -1
exits 2
run generate s --raw --prompt 'abc' --repetition-penalty 0
exits 2
run generate s --raw --prompt 'abc' --ids --json
exits 2
err_has 'exclude'
run generate s --promt x
exits 2
err_has 'did you mean --prompt'
run generate
exits 2
run generate gone --prompt x
exits 3
run generate s --raw --prompt ''
exits 5
err_has 'empty'
run generate s --raw --prompt 'abcdefgh' --context 8
exits 5
err_has '8 tokens, and the context is 8; raise --context'
run convert s bare --no-tokenizer
run generate bare --prompt x
check "a model without a tokenizer" test "$status" != 0
err_has 'tokenizer'
cp -r s bad
python3 "$here/plant.py" nan bad/model.safetensors model.norm.weight 0 3
run generate bad --prompt x
exits 12
err_has 'model\.norm\.weight'
run init --preset tiny-llama --seed 5 --dtype f32 planted
python3 "$here/plant.py" overflow planted/model.safetensors 97
run generate planted --raw --prompt 'a' --max-new 4
exits 12
err_has 'not finite'
if [ -c /dev/full ]; then
    shown="retort generate > /dev/full"
    status=0
    : >"$out"
    ${EMU:-} "$RETORT" generate s --raw --prompt abc --max-new 4 >/dev/full 2>"$err" </dev/null || status=$?
    exits 7
fi
finish
