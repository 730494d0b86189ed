# seal.sh - what a run reads back of its own files was hashed when it was written, and is compared before it counts: settings,
# tokens, logs, the best model; and models and data are identified by more than their weights.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

# flip FILE [PLACE]: one bit of one byte; the last without a place.
flip() {
    python3 -c 'import sys
path, place = sys.argv[1], int(sys.argv[2])
data = bytearray(open(path, "rb").read())
data[place] ^= 1
open(path, "wb").write(data)' "$1" "${2:--1}"
}

# replace FILE OLD NEW
replace() {
    python3 -c 'import sys
path, old, new = sys.argv[1:]
text = open(path).read()
assert old in text, text
open(path, "w").write(text.replace(old, new, 1))' "$@"
}

# afresh: "again" is the stopped run once more.
afresh() { rm -rf again; cp -a stopped again; }

texts d.jsonl 120 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-qwen3 --seed 2 --dtype f32 t
# The best is an early step.
base="--teacher t --student s --data d.jsonl --batch 4 --seq-len 64 --threads 1 --eval-every 4 --schedule constant
      --alpha 0.9 --divergence reverse-kl --lr 0.002"
run distill $base --steps 40 --save-every 5 --out whole
exits 0
stop KILL 28 stopped distill $base --steps 40 --save-every 5
best=$(cd stopped && find . -type d -name 'best-*' | head -1 | cut -c3-)
check "a best model waits in its folder" test -n "$best"
check "and it is the one that is taken" grep -q '"best": true' whole/run/manifest.json
afresh
run distill --resume --out again
exits 0
out_lacks 'not checked'
check "resumed: the same bits" cmp whole/model.safetensors again/model.safetensors

# ---- the best model ----
afresh
flip again/$best/model.safetensors
run distill --resume --out again
exits 4
err_has "$best/model.safetensors of the best model is damaged or was altered"
check "it is not at the root" test ! -e again/model.safetensors
rm -rf "again/$best"
run distill --resume --out again
exits 0
out_lacks 'the best'
afresh
rm "again/$best/config.json"
run distill --resume --out again
exits 4
err_has "config.json of the best model is missing"
afresh
echo '{}' >again/$best/added_tokens.json
run distill --resume --out again
exits 4
err_has "$best/added_tokens.json is not of the model"
# A run that was killed while its files moved to the root, and one of them was damaged there.
afresh
mv "again/$best/model.safetensors" again/
run distill --resume --out again
exits 0
check "moved in part: the same bits" cmp whole/model.safetensors again/model.safetensors
afresh
mv "again/$best/model.safetensors" again/
flip again/model.safetensors
run distill --resume --out again
exits 4
err_has 'in again there is model.safetensors, which this run did not write, or which was altered since'

# ---- tokens ----
for place in 300 -1 100; do
    afresh
    flip again/run/data/train-00.tokens $place
    run distill --resume --out again
    exits 4
    err_has 'train-00.tokens: a damaged token shard .*; remove the tokens and the .json of their name beside them, and resume'
    rm again/run/data/train-00.tokens again/run/data/train.json
    run distill --resume --out again
    exits 0
    run verify again
    exits 0
done
cp d.jsonl d.kept
sed -i 's/quick/quack/' d.jsonl
afresh
rm again/run/data/train-00.tokens again/run/data/train.json
run distill --resume --out again
exits 5
mv d.kept d.jsonl
afresh
replace again/run/data/train.json '"weight": 1.0' '"weight": 0.5'
run distill --resume --out again
exits 4
err_has 'train.json cannot be read, or was altered'
run tokenize --model s d.jsonl -o d.rtok
run distill --teacher t --student s --data d.rtok --batch 4 --seq-len 64 --threads 1 --steps 6 --save-every 3 --out shards
exits 0
run verify shards
exits 0
texts e.jsonl 120 but
run tokenize --model s e.jsonl -o e.rtok
cp e.rtok d.rtok
run distill --resume --out shards --steps 8 --override
exits 5
err_has 'd.rtok is not the token shard that the run began with'

# ---- settings ----
afresh
replace again/run/settings.json '"lr": 0.002' '"lr": 0.102'
run distill --resume --out again
exits 4
err_has 'settings.json was altered since the run wrote it .*: lr was 0.002, is 0.102; .*--override'
run distill --resume --override --out again
exits 0
out_has '^note +settings.json has no hash of the run: it is taken as it is'
afresh
run distill --resume --lr 0.001 --override --out again
exits 0
run verify again
exits 0

# ---- logs ----
for log in metrics.jsonl samples.jsonl $(cd stopped/run && ls events.out.*); do
    afresh
    flip again/run/$log 150
    run distill --resume --out again
    exits 4
    err_has "$log is not what it was when checkpoint-0000[0-9]+ was saved"
done
afresh
flip again/run/manifest.json 100
run distill --resume --out again
exits 4
err_has 'manifest.json is damaged or was altered .*remove it'
rm again/run/manifest.json
run distill --resume --out again
exits 0
out_has '^note +manifest.json is not there'

afresh
old=$(cd again && find . -type d -name 'checkpoint-*' | sort | head -1 | cut -c3-)
flip "again/$old/state.json" 30
run distill --resume --out again
exits 0
out_has "^note +$(basename "$old")/state.json is damaged or was altered: this checkpoint is neither used nor removed$"
check "it is still there" test -d "again/$old"

# ---- models and data: more than weights ----
run verify whole
exits 0
out_has '^data files +pass +1 as they were'
cp -r t t.kept
cp -r s s.kept
# other WHO FILE OLD NEW TEXT: a change of a model is found by verify and refused by a resume.
other() {
    replace "$1/$2" "$3" "$4"
    run verify whole
    exits 5
    out_has "^$5"
    afresh
    run distill --resume --out again
    exits 5
    err_has "$6"
    run distill --resume --override --out again
    exits 0
    out_has "^note +$6"
    rm -rf "$1"
    cp -r "$1.kept" "$1"
}
other t config.json '"rope_theta": 10000.0' '"rope_theta": 10000.5' 'teacher +FAIL +config.json of t is not' 'teacher: its config.json has changed since'
other s config.json '"rms_norm_eps": 1e-06' '"rms_norm_eps": 1.001e-06' 'student +FAIL +config.json of s is not' 'student: its config.json has changed since'
other t tokenizer.json '"version"' '"version" ' 'teacher +FAIL +tokenizer.json of t is not' 'teacher: its tokenizer.json has changed since'
other s tokenizer_config.json 'im_start' 'im_start ' 'student +FAIL +(tokenizer_config.json|chat template) of s is not' 'student: its (tokenizer_config.json|chat template) has changed since'
flip t/model.safetensors
run verify whole
exits 5
out_has '^teacher +FAIL +t holds other values'
afresh
run distill --resume --out again
exits 5
err_has 'teacher: its values have changed since'
rm -rf t
cp -r t.kept t
run convert t t.gguf
run distill --teacher t.gguf --student s --data d.jsonl --batch 4 --seq-len 64 --threads 1 --steps 3 --out packed
exits 0
run verify packed
exits 0
python3 -c 'data = bytearray(open("t.gguf", "rb").read())
at = data.index(b"rope.freq_base") + len("rope.freq_base") + 4
data[at] ^= 1
open("t.gguf", "wb").write(data)'
run verify packed
exits 5
out_has '^teacher +FAIL +header of t'
cp d.jsonl d.kept
flip d.jsonl 40
run verify whole
exits 5
out_has '^data files +FAIL +d.jsonl is not what was tokenized'
afresh
run distill --resume --out again
exits 0
mv d.kept d.jsonl
mkdir away && mv d.jsonl away
run verify whole
exits 0
out_has '^data files +not checked'
mv away/d.jsonl .

# ---- a run of before ----
# Its own held-out part would be another: which records those are is of the same age as the hashes.
texts e.jsonl 20 and
run distill $base --eval-data e.jsonl --steps 40 --save-every 5 --out whole2
exits 0
stop KILL 28 again2 distill $base --eval-data e.jsonl --steps 40 --save-every 5
rm -rf again
mv again2 again
python3 - <<'PY'
import json
for name in ("settings.json", "data/train.json", "data/eval.json"):
    j = json.load(open("again/run/" + name))
    del j["hash"]
    if "sources" in j:
        j = j["sources"]
        for source in j:
            source["shards"] = [s["file"] for s in source["shards"]]
    json.dump(j, open("again/run/" + name, "w"), indent=2)
PY
run distill --resume --out again
exits 0
out_has '^note +settings.json was written before it was hashed: that it is as it was is not checked$'
out_has '^note +train.json was written before it was hashed: that it is as it was is not checked$'
check "to the same bits" cmp whole2/model.safetensors again/model.safetensors
run verify again
exits 0
finish
