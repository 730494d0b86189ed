# eval.sh - `retort eval`: perplexity, divergence from a teacher and its percentiles, over rows of any batching; what is
# refused; and that it leaves nothing behind.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"
mkdir temp
TMPDIR=$work/temp
export TMPDIR

texts d.jsonl 60 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t

run eval --help
exits 0
err_empty
out_has '^usage: retort eval MODEL --data D'
out_has '^example:'
out_has '^  --json '
out_has '^  --word W '

# ---- numbers ----
run eval s --data d.jsonl
exits 0
err_empty
out_has '^positions +[0-9]+ in 60 documents, [0-9]+ rows of 256 tokens$'
out_has '^cross-entropy +5\.[0-9]{4} \+- 0\.[0-9]{4}$'
out_has '^perplexity +[0-9.]+$'
out_lacks 'teacher|KL'
run eval s --data d.jsonl --json
exits 0
json_is 'abs(__import__("math").exp(j["cross_entropy"]["mean"]) - j["perplexity"]) < 1e-9 * j["perplexity"]'
json_is 'j["documents"] == 60 and j["model"] == "s" and 0 < j["cross_entropy"]["error"] < 0.1 and "teacher" not in j'
# Of an untrained model about the size of the vocabulary.
json_is '250 < j["perplexity"] < 300'
cp "$out" alone.json
run eval s --data d.jsonl --teacher t --teacher-weights bf16 --json
exits 0
json_is 'j["teacher_weights"] == "bf16"'
cp "$out" rounded.json
run eval s --data d.jsonl --teacher t --teacher-weights bf16
out_has "^weights +the teacher's are dequantised to bf16 once, as the settings say$"
run eval s --data d.jsonl --teacher t --teacher-weights f16
exits 2
err_has "--teacher-weights is auto, native, bf16, fp8 or fp8-native, not 'f16'"
run eval s --data d.jsonl --teacher t --teacher-weights fp8 --json
exits 0
json_is 'j["teacher_weights"] == "fp8"'
cp "$out" coded.json
run eval s --data d.jsonl --teacher t --teacher-weights fp8
out_has "^weights +the teacher's are quantised to fp8 once, as the settings say$"
run eval s --data d.jsonl --teacher-weights bf16
exits 2
run eval s --data d.jsonl --teacher t --json
exits 0
json_is 'j["teacher_weights"] == "native"'
json_is '0 < abs(j["teacher_cross_entropy"]["mean"] - json.load(open("rounded.json"))["teacher_cross_entropy"]["mean"]) < 0.01'
json_is 'j["teacher"] == "t" and 0 < j["forward_kl"]["mean"] < 0.2 and 0 <= j["agreement"]["mean"] < 0.2'
json_is '0 <= j["forward_kl_percentiles"]["p50"] <= j["forward_kl_percentiles"]["p90"] <= j["forward_kl_percentiles"]["p99"]'
json_is 'j["forward_kl_percentiles"]["p50"] < 2 * j["forward_kl"]["mean"]'
check "CE is the same with and without a teacher" python3 -c '
import json, sys
a, b = (json.load(open(n)) for n in ("alone.json", sys.argv[1]))
assert a["cross_entropy"] == b["cross_entropy"] and a["positions"] == b["positions"]' "$out"
cp "$out" pair.json
run eval t --data d.jsonl --json
check "the teacher's own CE is what it has alone" python3 -c '
import json, sys
a, b = json.load(open("pair.json"))["teacher_cross_entropy"], json.load(open(sys.argv[1]))["cross_entropy"]
assert abs(a["mean"] - b["mean"]) < 1e-6 * b["mean"], (a, b)' "$out"
run eval s --data d.jsonl --teacher t
exits 0
out_has '^KL\(teacher\|\|model\) +0\.[0-9]{4} \+- '
out_has '^  of positions +p50 .* p90 .* p99 '
out_has '^top-1 agreement '
out_has '^teacher cross-entropy '
check "a teacher in fp8 is another one, by a little" python3 -c '
import json, sys
a, b = (json.load(open(n))["teacher_cross_entropy"]["mean"] for n in ("coded.json", "pair.json"))
assert 0 < abs(a - b) < 0.05, (a, b)'

# ---- the weights of the model: what they change, beside the model itself ----
run eval t --data d.jsonl --teacher t --weights fp8 --json
exits 0
json_is 'j["weights"] == "fp8" and j["teacher_weights"] == "native" and 0 < j["forward_kl"]["mean"] < 0.02'
cp "$out" own.json
run eval t --data d.jsonl --teacher t --weights fp8
out_has "^weights +the model's are fp8$"
run eval t --data d.jsonl --teacher t --weights fp8 --bf16-layers none --json
json_is 'j["forward_kl"] == json.load(open("own.json"))["forward_kl"]' # so few layers that none is kept
run eval t --data d.jsonl --teacher t --weights fp8 --bf16-layers 0
exits 0
out_has "^weights +the model's are fp8, layers in bf16: 0$"
run eval t --data d.jsonl --teacher t --weights fp8 --bf16-layers 0 --json
json_is '0 < j["forward_kl"]["mean"] < json.load(open("own.json"))["forward_kl"]["mean"]'
cp "$out" first.json
run eval t --data d.jsonl --teacher t --weights bf16 --json
json_is 'j["weights"] == "bf16" and j["forward_kl"]["mean"] < json.load(open("first.json"))["forward_kl"]["mean"]'
cp "$out" bf16.json
last=$(python3 -c 'import json; print(json.load(open("t/config.json"))["num_hidden_layers"] - 1)')
run eval t --data d.jsonl --teacher t --weights fp8 --bf16-layers 0-$last --json
json_is 'j["forward_kl"] == json.load(open("bf16.json"))["forward_kl"]' # all layers are bf16
run eval t --data d.jsonl --weights auto
exits 2
err_has "--weights is native, bf16, fp8 or fp8-native, not 'auto'"
run eval t --data d.jsonl --bf16-layers 0
exits 2
err_has '--bf16-layers needs --weights fp8'
run eval t --data d.jsonl --weights fp8 --bf16-layers 0,x
exits 2
err_has "--bf16-layers takes numbers and ranges such as 0,2,4-7, not '0,x'"
run eval t --data d.jsonl --weights fp8 --bf16-layers 99
exits 2
err_has '--bf16-layers 99: the model has [0-9]+ layers'

run eval s --data d.jsonl --teacher t --json
# A model and itself: a fair question here.
run eval s --data d.jsonl --teacher s --json
exits 0
json_is 'abs(j["forward_kl"]["mean"]) < 1e-6 and j["agreement"]["mean"] == 1'

# ---- a word ----
run eval s --data d.jsonl --word and
exits 0
out_has "^word +'and', at 60 places$" # one in every text, and no part of another word
out_has '^  probability +[0-9.]+e-0[5-9] \+- '
out_lacks 'teacher'
run eval s --data d.jsonl --word and --teacher t --json
exits 0
json_is 'j["word"]["text"] == "and" and j["word"]["places"] == 60'
# Three bytes, each about one in 272.
json_is '1e-8 < j["word"]["probability"]["mean"] < 3e-7 and j["word"]["probability"]["error"] > 0'
json_is '1e-8 < j["word"]["teacher_probability"]["mean"] < 3e-7'
json_is 'j["word"]["teacher_probability"]["mean"] != j["word"]["probability"]["mean"]'
check "a word changes nothing else" python3 -c '
import json, sys
a, b = (json.load(open(n)) for n in ("pair.json", sys.argv[1]))
assert all(a[k] == b[k] for k in ("cross_entropy", "forward_kl", "positions"))' "$out"
printf '{"text": "abab"}\n{"text": "cdcd"}\n' >ab.jsonl
run train --student s --data ab.jsonl --eval-data ab.jsonl --out learned --seq-len 8 --batch 2 --steps 60 --lr 0.01
exits 0
run eval learned --data ab.jsonl --seq-len 8 --word ab --json
exits 5 # it stands there only as a part of abab
err_has "the word 'ab' stands nowhere among the [0-9]+ positions"
printf '{"text": "a bab"}\n' >b.jsonl
printf '{"text": "a bab"}\n{"text": "c dcd"}\n' >b2.jsonl
run train --student s --data b2.jsonl --eval-data b2.jsonl --out learned2 --seq-len 8 --batch 2 --steps 60 --lr 0.01
run eval learned2 --data b.jsonl --seq-len 8 --word bab --json
exits 0
json_is 'j["word"]["places"] == 1 and j["word"]["probability"]["mean"] > 0.5 and j["word"]["probability"]["error"] is None'
run eval learned2 --data b.jsonl --seq-len 8 --word ''
exits 5
err_has 'has no tokens'

# ---- in the folder of a run: in its rows; and what a run held out ----
run eval learned --data ab.jsonl
exits 0
out_has '^positions .* rows of 8 tokens, as in its run$'
run eval s --data d.jsonl
exits 0
out_has '^positions .* rows of 256 tokens$'
head -n 1 d.jsonl >first.jsonl
run eval s --data first.jsonl --batch 2000 --json # what would fill a batch up is not computed
exits 0
json_is 'j["rows"] == 1 and j["seconds"] < 1'
run train --student s --data d.jsonl --out parted --seq-len 32 --batch 4 --steps 12 --sample-prompts none --save-dtype f32
exits 0
run convert parted parted.gguf
for model in parted parted.gguf; do
    run eval $model --held-out-of parted --teacher t --json
    exits 0
    check "$model: as its run measured it" python3 -c 'import json, sys
a, b = json.load(open("parted/run/manifest.json")), json.load(open(sys.argv[1]))
saved = a["measured"]["saved"]
assert b["seq_len"] == 32 and b["rows"] == a["held_out"]["rows"] and b["positions"] == saved["positions"], b
assert b["documents"] == saved["documents"] and abs(b["cross_entropy"]["mean"] - saved["ce"][0]) < 1e-5, (saved, b)' "$out"
done
run train --student s --data d.jsonl --eval-data ab.jsonl --out filed --seq-len 8 --batch 4 --steps 4 --sample-prompts none
exits 0
run eval filed --held-out-of filed
exits 0
out_has '^positions .* rows of 8 tokens, as in its run$'
run init --preset tiny-qwen2 --seed 3 other
exits 0
python3 - <<'PY'
import json
j = json.load(open("other/tokenizer.json"))
v = j["model"]["vocab"]
a, b = list(v)[:2]
v[a], v[b] = v[b], v[a]
json.dump(j, open("other/tokenizer.json", "w"))
PY
run eval other --held-out-of parted
check "another tokenizer is refused" test "$status" != 0
err_has 'tokenizer'
run eval s --held-out-of s
exits 3
err_has '--held-out-of s: there is no run'
run eval s --held-out-of parted --data d.jsonl
exits 2
err_has '--held-out-of and --data exclude one another'

# ---- what must not change them ----
for flags in '--batch 1' '--batch 7' '--threads 1' '--seq-len 128'; do
    run eval s --data d.jsonl --teacher t --json $flags
    exits 0
    check "$flags does not change the numbers" python3 -c '
import json, sys
a, b = (json.load(open(n)) for n in ("pair.json", sys.argv[1]))
assert a["positions"] == b["positions"] and a["documents"] == b["documents"]
for k in "cross_entropy", "forward_kl", "teacher_cross_entropy":
    assert abs(a[k]["mean"] - b[k]["mean"]) < 2e-6 * a[k]["mean"], (k, a[k], b[k])' "$out"
done
run convert s s.gguf
run convert t t.apr
run eval s.gguf --data d.jsonl --teacher t.apr --json
exits 0
check "containers do not change the numbers" python3 -c '
import json, sys
a, b = (json.load(open(n)) for n in ("pair.json", sys.argv[1]))
assert all(a[k] == b[k] for k in ("cross_entropy", "forward_kl", "agreement", "teacher_cross_entropy"))' "$out"
run eval s --data d.jsonl --rows 5 --json
exits 0
json_is '0 < j["documents"] < 30'
run eval s --data d.jsonl --seq-len 32 --json # texts in pieces: still so many documents
exits 0
json_is 'j["documents"] == 60'
printf '{"text": "only one"}\n' >one.jsonl
run eval s --data one.jsonl --json
exits 0
json_is 'j["documents"] == 1 and j["cross_entropy"]["error"] is None'

# ---- conversations and tokens ----
printf '{"messages": [{"role": "user", "content": "who?"}, {"role": "assistant", "content": "me"}]}\n' >chat.jsonl
run eval s --data chat.jsonl --json
exits 0
json_is 'j["positions"] == 3' # two bytes and the end of the turn
run eval s --data chat.jsonl --loss-on all --json
json_is 'j["positions"] > 20'
run tokenize d.jsonl --model s -o d.rtok
run convert s bare --no-tokenizer
run eval bare --data d.rtok --json
exits 0
check "the same tokens, the same numbers" python3 -c '
import json, sys
a, b = (json.load(open(n)) for n in ("alone.json", sys.argv[1]))
assert a["cross_entropy"] == b["cross_entropy"]' "$out"

# ---- refused ----
run eval s
exits 2
err_has '--data is missing'
run eval
exits 2
run eval s t --data d.jsonl
exits 2
run eval s --data d.jsonl --btach 2
exits 2
err_has 'did you mean --batch'
run eval gone --data d.jsonl
exits 3
err_has 'gone'
run eval s --data gone.jsonl
exits 3
run eval s --data d.jsonl --seq-len 513
exits 5
err_has '--seq-len 513 is out of range \(2 to 512'
run eval bare --data d.jsonl
exits 5
err_has 'token'
run eval bare --data d.rtok --word and
exits 5
err_has '--word needs a tokenizer, and bare has none'
run eval bare --data d.rtok --teacher t
exits 5
err_has '--vocab'
run eval s --data d.jsonl --device abacus
exits 9
err_has "abacus"
cp -r s bad
python3 "$here/plant.py" nan bad/model.safetensors model.norm.weight 0 3
run eval bad --data d.jsonl
exits 12
err_has 'bad: tensor model\.norm\.weight.*row 0, column 3'
run init --preset tiny-llama --seed 5 --dtype f32 planted
python3 "$here/plant.py" overflow planted/model.safetensors 97
run eval planted --data d.jsonl
exits 12
err_has '^planted: evaluation: the logits of row [0-9]+, position [0-9]+ .* are not finite'
printf '{"text": \n' >broken.jsonl
run eval s --data broken.jsonl
exits 4
err_has 'broken\.jsonl:1'
check "no temporary files are left" test -z "$(ls -A temp)"
finish
