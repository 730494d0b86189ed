# habits.sh - what people type because another tool has it so, and what made them stumble: each is understood, or answered
# with what to type instead.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 60 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t

# ---- flags ----
run plan --student s --data d.jsonl --seq-len 32 --batch-size 2
exits 0
out_has '^flags     --batch_size -> --batch 2$'
out_has '^batch     2 rows of 32 positions'
run generate s --raw --prompt abc --max-new-tokens 3
exits 0
err_has '^3 tokens at '
run plan --student s --data d.jsonl --seq-len 32 --batch 2 --lora --lora-targets q_proj,v_proj
exits 0
cp "$out" projections
run plan --student s --data d.jsonl --seq-len 32 --batch 2 --lora --lora-targets q,v
check "q_proj is q" test "$(grep '^train' "$out")" = "$(grep '^train' projections)"
run plan --student s --data d.jsonl --seq-len 32 --batch 2 --lora --lora-targets all-linear
exits 0
run distill gkd.yaml
exits 2
err_has "unknown argument 'gkd.yaml'; did you mean --config gkd.yaml\\?"
run generate s 'Why is the sky blue?'
exits 2
err_has "'Why is the sky blue\\?' is one argument too many; did you mean --prompt 'Why is the sky blue\\?'\\?$"

for flag in --out -o; do
    run tokenize d.jsonl --model s "$flag" "shards$flag"
    exits 0
    check "tokenize $flag writes shards" test -f "shards$flag/shard-00000.rtok"
done

# ---- a pipe whose reader has seen enough ----
# left COMMAND...: its output goes to a program that reads nothing and ends; $status is the command's.
left() {
    shown="retort $* | true"
    status=0
    python3 - "$err" "$RETORT" "$@" <<'PY' || status=$?
import os, shlex, subprocess, sys
err, binary, *args = sys.argv[1:]
reading, writing = os.pipe()
os.close(reading)
command = shlex.split(os.environ.get("EMU", "")) + [binary] + args
sys.exit(subprocess.run(command, stdin=subprocess.DEVNULL, stdout=writing, stderr=open(err, "w")).returncode)
PY
}
for words in 'doctor' 'doctor --json' 'inspect s' 'inspect s --json' 'distill --help'; do
    # shellcheck disable=SC2086
    left $words
    exits 0
    err_empty
done
train='--student s --data d.jsonl --seq-len 32 --batch 2 --steps 1 --sample-prompts none'
# shellcheck disable=SC2086
left train $train --out plain
exits 0
check "the model is there" test -e plain/model.safetensors
# shellcheck disable=SC2086
left train $train --out events --json --quiet
exits 0
check "the model is there" test -e events/model.safetensors

# ---- one of a thing ----
# shellcheck disable=SC2086
run train $train --eval-every 1 --batch 1 --out one
exits 2
run train --student s --data d.jsonl --seq-len 32 --batch 1 --steps 1 --eval-every 1 --sample-prompts none --out one
exits 0
out_has '^train .* 1 step of 1 row \(1 at a time\)'
out_has '^evaluate  at the start and every step,'
out_has '^note      only 1 step: '
run plan --student s --data d.jsonl --seq-len 32 --batch 1
out_has '^batch     1 row of 32 positions'

# ---- prompts and completions for a model that chats ----
python3 - >pairs.jsonl <<'PY'
import json
for i in range(60):
    print(json.dumps({"prompt": f"say {i}", "completion": f"{i} it is"}))
PY
run plan --student s --data pairs.jsonl --seq-len 64 --batch 2
exits 0
out_has '^note      prompt and completion are trained as plain text, without the chat template of the model; --columns question='
out_lacks '^sample 1 .*im_start'
run plan --student s --data pairs.jsonl --seq-len 64 --batch 2 --columns question=prompt,answer=completion
exits 0
out_lacks '^note      prompt and completion'
out_has '^sample 1 .*im_start'

# ---- splits and columns of TRL ----
mkdir -p set
texts set/train_sft-0.jsonl 60 and
texts set/test_sft-0.jsonl 20 or
run plan --student s --dataset_name set --dataset_train_split train_sft --dataset_test_split test_sft --seq-len 32 \
    --batch 2
exits 0
out_has '^flags     --dataset_train_split -> --data set:train_sft$'
out_has '^flags     --dataset_test_split -> --eval-data set:test_sft$'
run plan --student s --dataset_name d.jsonl --dataset_train_split train --dataset_test_split test --seq-len 32 --batch 2
exits 0
out_has '^flags     --dataset_test_split has no effect: the data is a file, and has no splits$'
run plan --student s --dataset_name d.jsonl --dataset_train_split other --seq-len 32 --batch 2
exits 2
err_has "'--dataset_train_split' names a split of one folder; say it with the data: PATH:SPLIT"
sed 's/"text"/"body"/' d.jsonl >body.jsonl
run plan --student s --dataset_name body.jsonl --dataset_text_field body --seq-len 32 --batch 2
exits 0
out_has '^flags     --dataset_text_field -> --columns text=body$'

# ---- a student by its depth ----
run init --config "$here/../../tools/demo/teacher.json" deep
run init --from deep --depth 2 two
exits 0
out_has '^layers    student <- teacher: 0 <- 0, 1 <- 3$'
run init --from deep --depth 3 three
out_has '^layers    student <- teacher: 0 <- 0, 1-2 <- 2-3$'
run init --from deep --depth 1 one-layer
out_has '^layers    student <- teacher: 0 <- 0$'
run init --from deep --depth 4 all
out_has '^layers    student <- teacher: 0-3 <- 0-3$'
run init --from deep --depth 99 more
exits 2
err_has "^--depth 99: the model has 4 layers\$"
run init --from deep more
exits 2
err_has 'init: --from needs --depth or --layers: --depth 6 takes six layers evenly spaced'
run init --from deep --depth 2 --layers 0 more
exits 2
err_has 'needs one of the two'

# ---- a table of errors is a few rows ----
run quantize deep deep.gguf --dtype q8_0
exits 0
check "quantize shows every tensor" test "$(grep -c '^model.layers' "$out")" -gt 10
run convert deep.gguf dequantised
exits 0
check "convert shows six" test "$(grep -c '^model\.' "$out")" = 6
out_has '^\.\.\. and [0-9]+ more; --json has them all$'

# ---- all wrong flags at once; --out for the last word; what others call a flag ----
run train --foo 1 --bar --train-data d --output x
exits 2
check "a line for each, and one for all" test "$(wc -l <"$err")" = 5
err_has "^retort train: unknown flag '--foo'"
err_has "unknown flag '--train-data'; did you mean --data\?"
err_has "unknown flag '--output'; did you mean --out\?"
err_has '^retort train: 4 arguments are wrong$'
run init --preset tiny-llama --out named
exits 0
check "a model" test -e named/config.json
run convert named --out named2
exits 0
run convert named named3 --out named4
exits 2
err_has 'one argument too many'
run generate --tokens 3
exits 2
err_has 'did you mean --max-new\?'
finish
