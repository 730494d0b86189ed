# run_more.sh - details of a run that mutants showed: the speed that is printed, the order in which a model gets its place.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts data.jsonl 60 plain
run init --preset tiny-qwen3 --seed 2 teacher
run init --preset tiny-qwen2 --seed 1 student
began=$(date +%s.%N)
run distill --teacher teacher --student student --data data.jsonl --out o --steps 6 --batch 4 --seq-len 32 \
    --eval-every 3 --save-every 3 --alpha 1
exits 0
ended=$(date +%s.%N)

# The time of day in the events, to fractions of a second: the record after the length (8 bytes), its sum (4) and a tag.
check "when it was" python3 -c '
import glob, struct, sys
(at,) = struct.unpack("<d", open(glob.glob("o/run/*tfevents*")[0], "rb").read()[13:21])
assert float(sys.argv[1]) <= at <= float(sys.argv[2]), (sys.argv, at)' "$began" "$ended"

out_lacks '^note *$'
# Speed and time are those of the steps: of all that were run so far, since half a minute is not over.
check "speed and seconds" python3 - "$out" o <<'PY'
import json, re, sys
printed = {int(m[1]): float(m[2]) for m in re.finditer(r"^step (\d+)/6 .* (\d+) tok/s", open(sys.argv[1]).read(), re.M)}
steps = [j for j in map(json.loads, open(sys.argv[2] + "/run/metrics.jsonl")) if j["event"] == "step"]
tokens = seconds = 0
for step in steps:
    tokens, seconds = tokens + step["tokens"], seconds + step["seconds"]
    assert abs(printed[step["step"]] - tokens / seconds) <= 1 + 1e-3 * tokens / seconds, step
state = json.load(open(sys.argv[2] + "/run/checkpoints/checkpoint-000006/state.json"))
assert abs(state["seconds"] - seconds) < 1e-6 * seconds, (state["seconds"], seconds)
assert state["tokens"] == tokens and state["trained"] == sum(s["trained"] for s in steps)
PY

# One id that ends a text is a number in generation_config.json, several are a list.
check "two ends" python3 -c 'import json; assert len(json.load(open("o/generation_config.json"))["eos_token_id"]) == 2'
cp -r student plain
rm -f plain/generation_config.json
python3 - <<'PY'
import json
c = json.load(open("plain/tokenizer_config.json"))
c.pop("chat_template", None)
json.dump(c, open("plain/tokenizer_config.json", "w"))
c = json.load(open("plain/config.json"))
c["eos_token_id"] = 258
json.dump(c, open("plain/config.json", "w"))
PY
run train --student plain --data data.jsonl --out p --steps 2 --batch 4 --seq-len 32
exits 0
check "one end" python3 -c 'import json; assert json.load(open("p/generation_config.json"))["eos_token_id"] == 258'

# A run that cannot put the weights in their place leaves no configuration there: nobody takes it for a model.
want=$(cksum <o/model.safetensors)
rm o/model.safetensors o/config.json
mkdir -p o/model.safetensors/in-the-way
run distill --resume --out o
exits 4
err_has 'model\.safetensors'
check "no config.json" test ! -e o/config.json
rm -r o/model.safetensors
run distill --resume --out o
exits 0
check "config.json is there" test -s o/config.json
check "and the same weights" test "$(cksum <o/model.safetensors)" = "$want"
check "nothing is left over" test -z "$(find o -name '.*' ! -name .gitignore)"

# A run that has ended stays as it is, and says what it ended with.
before=$(sums o)
run distill --resume --out o
exits 0
out_has '^cross-entropy +[0-9.]+ +[1-9]'
out_has '^o: this run ended before, at step 6 of 6; '
check "nothing changed" test "$(sums o)" = "$before"
rm o/model.safetensors
run distill --resume --out o
exits 0
check "a file of the model that was removed is written anew" test "$(cksum <o/model.safetensors)" = "$want"

# Commands that are printed can be copied, whatever the folder is called.
stop TERM 3 "a b/c d" train --student student --data data.jsonl --steps 400 --batch 2 --seq-len 32 --save-every 2
exits 130
err_has "retort train --resume --out 'a b/c d'"
run generate "a b/c d" --prompt x
exits 3
err_has "^a b/c d has no finished model: its run was stopped; to finish it: retort [a-z]+ --resume --out 'a b/c d'; or name its newest checkpoint: 'a b/c d/run/checkpoints/checkpoint-[0-9]+'$"
run verify "a b/c d"
exits 5
err_has "retort train --resume --out 'a b/c d' resumes it"
run train --resume --out "a b/c d" --data student
exits 5
err_has "begin a new one with --student 'a b/c d'$"
run train --student student --data data.jsonl --out "e f" --steps 1 --batch 2 --seq-len 32
exits 0
out_has "^note +only 1 step: training usually needs some hundreds"
out_has "^evidence: e f/run/manifest.json, checksum [0-9a-f]+; retort verify 'e f' checks it"

# What was a default of the 400 steps is the default of the new number of them, unless it was given.
check "of 400" grep -q '"warmup": "12"' "a b/c d/run/settings.json"
# Resumed from another folder: what is not there is looked for where the run began; what is in neither is named with both.
check "where it began" test "$(cat "a b/c d/run/began-in.txt")" = "$(pwd)"
mkdir -p far
cd far || exit 1
run train --resume --override --out "../a b/c d" --steps 5
exits 0
cd ..
check "of 5" grep -q '"warmup": "2"' "a b/c d/run/settings.json"
check "the words of the settings stay" grep -q '"student": "student"' "a b/c d/run/settings.json"
stop TERM 3 gone train --student student --data data.jsonl --steps 400 --batch 2 --seq-len 32 --save-every 2
mv student student-away
cd far || exit 1
run train --resume --out ../gone
exits 3
err_has "has --student student; it is neither here nor in .*, where the run began; put it back, or resume with --student NEW --override"
cd ..
mv student-away student

# A command that is too long for the lock is cut, and ends as one that was, also where the cut falls between two words.
ln -s "$RETORT" r
path=$RETORT
RETORT=./r
for seed in 1 11 111 1111 11111 111111 1111111 11111111 111111111 1111111111; do
    set -- train --student student --data data.jsonl --steps 400 --batch 2 --seq-len 32 --save-every 200 --keep 2 --eval-every 100 \
        --lr 0.001 --warmup 2 --seed $seed --weight-decay 0.01 --max-grad-norm 1
    stop KILL 1 cut "$@"
    words="./r $* --out cut"
    check "cut at 160 bytes" grep -qF ": $(printf %.157s "$words")..." cut/run/retort.lock
    rm -rf cut
done
stop KILL 1 cut train --student student --data data.jsonl --steps 400
check "not cut" grep -q ': \./r train --student student --data data.jsonl --steps 400 --out cut$' cut/run/retort.lock
RETORT=$path

# Killed before its settings were written: there is nothing to resume, and nothing in the way of beginning.
mkdir -p early/run
: >early/run/retort.lock
: >early/run/.settings.json.retort-tmp-999999999-0
run distill --resume --out early
exits 3
run train --student student --data data.jsonl --out early --steps 2 --batch 2 --seq-len 32
exits 0
check "nothing is left over of the killed one" test -z "$(find early -name '.*' ! -name .gitignore)"
# ---- whole records are held out; of long ones in a short run not all rows are measured ----
python3 - <<'PY'
import json, random
r = random.Random(1)
with open("long.jsonl", "w") as f:
    for i in range(80):
        f.write(json.dumps({"text": " ".join(r.choice(["some", "words", "go", "on", str(i)]) for _ in range(500))}) + "\n")
PY
run init --preset tiny-qwen2 --seed 1 --dtype f32 short
few="--data long.jsonl --batch 4 --seq-len 64 --threads 2 --sample-prompts none"
run train --student short $few --steps 20 --out rows
exits 0
out_has '^evaluate +at the start and every [0-9]+ steps, on [0-9]+ of [0-9]+ rows of 8 held-out records, about (9\.[0-9]|1[0-2]) % '
out_lacks 'evaluations are about'
check "all documents, as far as the rows go" python3 -c 'import json
e = [j for j in map(json.loads, open("rows/run/metrics.jsonl")) if j["event"] == "eval"]
rows = json.load(open("rows/run/settings.json"))["eval_rows"]
assert all(x["documents"] >= min(6, rows) and x["positions"] == e[0]["positions"] for x in e) and rows < 40, (e, rows)'
run verify rows
exits 0
out_has 'held-out before'
run train --student short $few --steps 20 --eval-every 100% --out seldom
exits 0
out_has '^evaluate .* on [0-9]+ of [0-9]+ rows of .*, about (9\.[0-9]|1[0-2]) % '
run train --student short $few --steps 20 --held-out 8 --eval-every 1 --out often
exits 0
out_has 'evaluations are about [0-9]+ % of the run.s arithmetic; --eval-rows [0-9]+ --eval-every (50|100)% takes less'
run train --student short $few --steps 2000 --smoke --out none
exits 0
out_has '--smoke times the evaluation on 8 of its [0-9]+ rows'

# ---- what was given when the run began holds when it is resumed ----
run train --student short --data long.jsonl --batch 4 --seq-len 64 --sample-prompts none --steps 4 --threads 1 --out thread
exits 0
out_has '^device .*, 1 thread,'
run train --resume --out thread --override --steps 6
exits 0
out_has '^device .*, 1 thread,'
run train --resume --out thread --override --steps 8 --threads 2
exits 0
out_has '^device .*, 2 threads,'

finish
