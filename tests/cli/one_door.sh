# one_door.sh - the command line and the C API are two entrances of one door: the same request gives the same bits, and
# what one refuses the other refuses with the same words. one_door.c is the API as a command line.
: "${BUILD:?names the build folder}"
root=$(pwd)
case $BUILD in /*) ;; *) BUILD=$root/$BUILD ;; esac
case $RETORT in /*) ;; *) RETORT=$root/$RETORT ;; esac
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

# shellcheck disable=SC2046,SC2086
${CC:-gcc} -std=c11 -Wall -Wextra -Wpedantic -Werror ${SAN_FLAGS:-} -I"$root/include" "$here/one_door.c" \
    "$BUILD/lib/libretort.a" $(cat "$BUILD/lib/libs") -o one_door >"$out" 2>"$err"
shown="the API's command line"
check "it compiles" test -x one_door

# api ARGS...: the same as run, through the API.
api() {
    shown="one_door $*"
    status=0
    # shellcheck disable=SC2086
    ${EMU:-} ./one_door "$@" >"$out" 2>"$err" </dev/null || status=$?
}
# keep: what the command line said, for the API to say the same.
keep() { cp "$out" cli.out && cp "$err" cli.err && kept=$status; }
same_output() { check "$1: the same as the command line" cmp "$out" cli.out; }
refused() {
    exits "$kept"
    check "refused" test "$status" != 0
    check "the same message" cmp "$err" cli.err
}

texts d.jsonl 60 and
texts held.jsonl 12 but
run init --preset tiny-qwen2 --seed 1 --dtype f32 t
run init --preset tiny-llama --seed 2 --dtype f32 s
run quantize t t-q8.gguf --dtype q8_0

# ---- distil and train ----
for command in distill train; do
    flags="--student s --data d.jsonl --eval-data held.jsonl --steps 4 --batch 4 --seq-len 64 --eval-every 2 --save-every 2"
    settings="student=s data=d.jsonl eval_data=held.jsonl steps=4 batch=4 seq_len=64 eval_every=2 save_every=2 threads=2"
    test $command = train || flags="$flags --teacher t" settings="$settings teacher=t"
    # shellcheck disable=SC2086
    run $command $flags --threads 2 --out $command-cli
    exits 0
    # shellcheck disable=SC2086
    api $command $settings out=$command-api
    exits 0
    err_empty
    for file in model.safetensors config.json tokenizer.json run/samples.jsonl; do
        check "$command: $file" cmp $command-cli/$file $command-api/$file
    done
    curve $command-cli >a
    curve $command-api >b
    check "$command: the curve" cmp a b
done
run distill --resume --steps 6 --override --out distill-cli
exits 0
api distill resume=1 override=1 steps=6 out=distill-api
exits 0
check "resumed" cmp distill-cli/model.safetensors distill-api/model.safetensors

# Two teachers; a cache of one, whose KL is over the ids that it lists and all others as one.
run cache --teacher t --data d.jsonl --eval-data held.jsonl --seq-len 64 --keep topk:5 --student s --threads 2 --out c
exits 0
flags="--student s --data d.jsonl --eval-data held.jsonl --steps 2 --batch 4 --seq-len 64 --threads 2 --sample-prompts none"
settings="student=s data=d.jsonl eval_data=held.jsonl steps=2 batch=4 seq_len=64 threads=2 sample_prompts=none"
for teachers in "c" "t,weight=3 t-q8.gguf,weight=1"; do
    named= set=
    for one in $teachers; do named="$named --teacher $one" set="$set teacher=$one"; done
    # shellcheck disable=SC2086
    run distill $flags $named --out taught-cli
    exits 0
    # shellcheck disable=SC2086
    api distill $settings $set out=taught-api
    exits 0
    check "$teachers: the model" cmp taught-cli/model.safetensors taught-api/model.safetensors
    if test "$teachers" = c; then out_has '^outcomes 65$'; else check "over all ids" test ! -s "$out"; fi
    rm -r taught-cli taught-api
done

# ---- evaluate ----
evaluated() {
    check "every number, to the last digit" python3 - "$out" cli.out <<'PY'
import json, sys
j = json.load(open(sys.argv[2]))
lines = [line.split() for line in open(sys.argv[1])]
assert len(lines) == (6 if "teacher" in j else 3), lines
for name, *values in lines:
    want = j[name]
    if isinstance(want, int):
        assert int(values[0]) == want, (name, values, want)
    else:
        assert float(values[0]) == want["mean"] and float(values[1]) == want["error"], (name, values, want)
PY
}
while read -r teacher flags; do
    options=$(echo "$flags" | sed 's/--\([a-z0-9-]*\) \([^ ]*\)/\1=\2/g; s/seq-len/seq_len/; s/loss-on/loss_on/; s/teacher-weights/teacher_weights/; s/bf16-layers/bf16_layers/')
    named=
    test "$teacher" = - || named="--teacher $teacher"
    # shellcheck disable=SC2086
    run eval s --data held.jsonl $named $flags --json
    exits 0
    keep
    # shellcheck disable=SC2086
    api evaluate s "$teacher" held.jsonl $options
    exits 0
    evaluated
done <<'CASES'
-
- --batch 3 --seq-len 48 --rows 5 --threads 1
t
t --teacher-weights bf16
t --loss-on all
t-q8.gguf
t-q8.gguf --teacher-weights bf16
t-q8.gguf --teacher-weights native
t-q8.gguf --teacher-weights fp8
t --weights fp8
t --weights fp8 --bf16-layers 0
CASES
api evaluate s t-q8.gguf held.jsonl teacher_weights=bf16
cp "$out" rounded
api evaluate s t-q8.gguf held.jsonl teacher_weights=native
check "another dtype of the teacher is another number" sh -c '! cmp rounded "$0"' "$out"

# ---- generate ----
while read -r flags; do
    options=$(echo "$flags" | sed 's/--raw/raw=1/; s/--\([a-z-]*\) \([^ ]*\)/\1=\2/g; s/-\(new\|k\|p\|penalty\)=/_\1=/g')
    # shellcheck disable=SC2086
    run generate s --prompt 'abc' $flags --ids --quiet
    exits 0
    keep
    # shellcheck disable=SC2086
    api generate s abc ids=1 $options
    exits 0
    same_output "ids"
    # shellcheck disable=SC2086
    run generate s --prompt 'abc' $flags --quiet
    keep
    # shellcheck disable=SC2086
    api generate s abc $options
    same_output "text"
done <<'CASES'
--raw --max-new 20
--max-new 20
--raw --max-new 20 --repetition-penalty 3
--raw --max-new 20 --temperature 1 --seed 7 --top-p 0.9 --top-k 40
--raw --max-new 20 --temperature 1 --seed 7 --min-p 0.5
--max-new 8 --system brief --context 200 --threads 1
CASES
run generate s --raw --prompt 'abc' --max-new 20 --repetition-penalty 3 --ids --quiet
check "one of these is a row of the embedding that no token has" \
    sh -c 'tr " " "\n" <"$0" | grep -q -E "^(259|26[0-9]|27[01])$"' "$out"

# ---- convert ----
mkdir cli api
for name in a.gguf a.apr a.safetensors a; do
    for dtype in '' bf16; do
        # shellcheck disable=SC2086
        run convert t cli/$name --force ${dtype:+--dtype $dtype}
        exits 0
        # shellcheck disable=SC2086
        api convert t api/$name replace=1 modelfile=1 ${dtype:+dtype=$dtype}
        exits 0
        check "$name $dtype, every file of it" diff -r cli api
    done
done
check "with a Modelfile" test -s api/a.Modelfile
run quantize t cli/q --dtype q4_k_m --to gguf
api convert t api/q dtype=q4_k_m format=gguf modelfile=1
check "quantised" diff -r cli api
run convert t cli/parts --shard-size 100000
api convert t api/parts shard_bytes=100000
check "in parts" diff -r cli api
run convert t cli/bare.gguf --no-tokenizer
api convert t api/bare.gguf no_tokenizer=1
check "without a tokenizer" diff -r cli api

run train --student s --data d.jsonl --out lora --lora-rank 2 --steps 1 --batch 2 --seq-len 64
mv s moved
run merge lora cli/merged --base moved
api convert lora api/merged base=moved
check "an adapter, merged" diff -r cli api
run convert lora cli/lora.gguf --adapter --base moved
api convert lora api/lora.gguf adapter=1 base=moved
check "an adapter for llama.cpp" diff -r cli api
run merge lora cli/none
keep
api convert lora api/none
check "the same words without its base" diff cli.err "$err"
mv moved s

# ---- plan and preview ----
flags="--teacher t-q8.gguf --student s --data d.jsonl --eval-data held.jsonl --steps 100 --batch 8 --seq-len 64"
settings="teacher=t-q8.gguf student=s data=d.jsonl eval_data=held.jsonl steps=100 batch=8 seq_len=64"
for limit in 1GiB 1MiB; do
    # shellcheck disable=SC2086
    run plan $flags --memory-limit $limit --json
    keep
    # shellcheck disable=SC2086
    api plan $settings memory_limit=$limit
    exits "$kept"
    check "the plan within $limit, times apart" python3 - "$out" cli.out <<'PY'
import json, sys
a, b = (json.load(open(name)) for name in sys.argv[1:])
seconds = [j.pop("seconds") for j in (a, b)]
assert seconds[0].keys() == seconds[1].keys() and seconds[0]["run"] > 0
assert all(j["memory"].pop("process") > 0 for j in (a, b))  # what the process has now
assert b.pop("settings")["steps"] == 100  # which the API gives by retort_plan_settings
assert a == b and a["memory"]["total"] > 0, (a, b)
PY
done
check "which does not fit" test "$kept" = 13
# shellcheck disable=SC2086
run plan $flags --ops
exits 0
sed -n '/^plan /,$p' "$out" >cli.ops
cp "$out" cli.plan
# shellcheck disable=SC2086
api ops $settings
exits 0
sed -n '/^plan /,$p' "$out" >api.ops
check "every op of every program" cmp api.ops cli.ops
check "there are some" test "$(wc -l <api.ops)" -gt 100
# shellcheck disable=SC2086
api preview $settings
exits 0
check "the preview" python3 - "$out" cli.plan <<'PY'
import json, sys
j, text = json.load(open(sys.argv[1])), open(sys.argv[2]).read().splitlines()
o = j["overlap"]
assert j["split"] == j["shortened"] == j["dropped"] == 0 and o["high"]
want = ["objective " + j["objective"],
        f"data      {j['records']} records, {j['rows']} rows of 64 tokens a pass",
        f"tokens    {j['trained']} trained, {j['masked']} masked",
        f"held out  {j['held_records']} records, {j['held_rows']} rows, {j['held_positions']} positions measured",
        f"overlap   {100 * o['shared'] / o['grams']:.1f} % of held-out 13-grams are in the training text too "
        f"(in {o['touched']} of {o['texts']} texts)",
        "warning   the held-out loss will look better than it is: remove repeated records, or give --eval-data with other text"]
for i, s in enumerate(j["samples"]):
    pieces = "".join(f"[[{p['text']}]]" if p["trained"] else p["text"] for p in s["pieces"])
    want.append(f"sample {i + 1}  {pieces}" + (f" ... and {s['left']} tokens more" if s["left"] else ""))
assert len(j["samples"]) == 2
first = text.index(want[0])
assert text[first:first + len(want)] == want, (text[first:], want)
PY

# ---- refused by both, with the same words ----
run convert s bare --no-tokenizer
python3 -c 'import struct; open("far.u32", "wb").write(b"".join(struct.pack("<I", (i * 7) % 1000) for i in range(4000)))'
run eval bare --data far.u32 --vocab 1000 --seq-len 64
err_has 'id [0-9]+ is in the data, and an embedding has 272 rows'
keep
api evaluate bare - far.u32 vocab=1000 seq_len=64
refused
run eval s --data held.jsonl --seq-len 513
keep
api evaluate s - held.jsonl seq_len=513
refused
run eval s --data held.jsonl --teacher-weights bf16
keep
api evaluate s - held.jsonl teacher_weights=bf16
refused
run eval s --data held.jsonl --threads 5000
keep
api evaluate s - held.jsonl threads=5000
refused
run eval s --data held.jsonl --device abacus
keep
api evaluate s - held.jsonl device=abacus
refused
run generate s --raw --prompt abc --top-p 2
keep
api generate s abc raw=1 top_p=2
refused
run generate s --raw --prompt abc --system brief
keep
api generate s abc raw=1 system=brief
refused
run convert t cli/a
keep
api convert t cli/a
refused
run convert t x --to zip
keep
api convert t x format=zip
refused
run convert t x --dtype q99
keep
api convert t x dtype=q99
refused
mkdir nest
run convert t nest --force
run convert t nest/inner.gguf
run convert nest/inner.gguf nest --force
err_has 'nest holds the input'
keep
api convert nest/inner.gguf nest replace=1
refused
check "the input is still there" test -s nest/inner.gguf
run distill --student s --data d.jsonl --out x
keep
api distill student=s data=d.jsonl out=x
refused
printf "temperature: 2\n" >warm.yaml
run train --student s --data d.jsonl --out x --config warm.yaml
err_has "retort train has no teacher; leave --temperature out"
keep
api train student=s data=d.jsonl out=x temperature=2
refused
run distill --override --teacher t --student s --data d.jsonl --out x
keep
api distill override=1 teacher=t student=s data=d.jsonl out=x
refused
check "nothing was made" test ! -e x
finish
