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
out_has '^layers    student <- teacher: 0-1 <- 0-1, 2 <- 3$'
run init --from deep --depth 1 one-layer
out_has '^layers    student <- teacher: 0 <- 0$'
run init --from deep --depth 4 all
out_has '^layers    student <- teacher: 0-3 <- 0-3$'
run init --from deep --depth 99 more
exits 2
err_has "^--depth 99: the model has 4 layers\$"
run init --from deep more
exits 2
err_has 'init: --from needs --depth or --layers: --depth 6 takes the first three layers and the last three'
run init --from deep --depth 2 --layers 0 more
exits 2
err_has 'needs one of the two'

# ---- a table of errors is a few rows ----
run quantize deep deep.gguf --dtype q8_0
exits 0
check "quantize shows six" test "$(grep -c '^model\.' "$out")" = 6
out_has '^\.\.\. and [0-9]+ more; --json has them all$'
run quantize deep deep.gguf --dtype q8_0 --force --json
json_is 'len(j["tensors"]) > 10'
run convert deep.gguf dequantised
exits 0
check "convert shows six" test "$(grep -c '^model\.' "$out")" = 6
out_has '^\.\.\. and [0-9]+ more; --json has them all$'

# ---- rows that fill no block of 256: which type is smaller; a name that does not say what it is ----
sed 's/"hidden_size": [0-9]*/"hidden_size": 192/' deep/config.json >odd.json
run init --config odd.json odd
exits 0
run quantize odd odd-file --dtype q4_k_m
exits 0
out_has '^model.*  fell back: rows of 192 columns$'
out_has '^output    odd-file \(gguf: a file\), '
out_has '^note      most matrices fell back to a larger type: [5-9]\.[0-9]+ bits a weight; smaller would be --dtype q4_0 \([45]\.[0-9]+ bits a weight\) or q4_1 \('
run quantize odd odd-small --dtype q4_0
exits 0
out_lacks 'fell back'
run quantize deep deep-k.gguf --dtype q4_k_m
exits 0
run convert odd odd-folder
exits 0
out_has '^output    odd-folder \(hf: a folder\), '

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

# ---- a pattern that the shell has expanded: one line, whatever it has expanded to ----
mkdir -p pieces
for i in 1 2 3 4 5; do head -n 12 d.jsonl >"pieces/$i.jsonl"; done
run distill --teacher t --student s --data pieces/*.jsonl --out o
exits 2
err_one_line
err_has "^retort distill: --data takes one path, and 4 more follow 'pieces/1.jsonl': the shell expanded a pattern; put it in quotes, or give the folder: --data pieces\$"
run eval s --data pieces/*.jsonl
exits 2
err_one_line
err_has 'or give the folder: --data pieces$'
run eval s --data 'pieces/*.jsonl' --rows 2
exits 0
run plan --student s --data d.jsonl e.jsonl
exits 2
err_has "and 'e.jsonl' follows it: repeat the flag, --data d.jsonl --data e.jsonl; or give a folder"
run train one two three
exits 2
err_one_line
err_has "^retort train: 3 unknown arguments, from 'one' to 'three'; a text with blanks goes in quotes\$"

# ---- a run to be resumed, in other words ----
run distill --teacher t --student s --data d.jsonl --seq-len 32 --batch 2 --steps 2 --sample-prompts none --out whole
exits 0
for words in '--resume whole' '--resume=whole' '--resume whole/run/checkpoints/checkpoint-000002' '--resume whole/run'; do
    # shellcheck disable=SC2086
    run distill $words
    exits 2
    err_has '^retort distill: --resume takes no value, and --out names the run; say: retort distill --resume --out whole$'
done
run train --resume wole
exits 2
err_has 'did you mean whole\? retort distill --resume --out whole$'
run distill --resume --out whol
exits 3
err_has '^whol holds no run to resume; did you mean whole\? retort distill --resume --out whole$'
run distill --resume --out nothing-like-it
exits 3
err_has '^nothing-like-it holds no run to resume; without --resume a new one begins$'
run distill --resume --out whole/run/checkpoints/checkpoint-000002
exits 3
err_has 'lies in the run whole; a run goes on from its newest checkpoint: retort distill --resume --out whole$'
run train --resume --out ./plian
exits 3
err_has 'did you mean plain\? retort train --resume --out \./plain$'
run distill --resume_from_checkpoint whole/run/checkpoints/checkpoint-000002
exits 2
err_has '^retort distill: --resume_from_checkpoint is --resume here, and --out names the run; say: retort distill --resume --out whole$'
run distill --resume_from_checkpoint true
exits 2
err_has "'--resume_from_checkpoint' asks to resume a run: retort distill --resume --out OUT"
run resume whole
exits 2
err_has "^retort: no command 'resume'; the command that began a run resumes it: retort distill --resume --out whole\$"
run resume --out plain
err_has ' resumes it: retort train --resume --out plain$'
run resume
err_has ' resumes it: retort distill --resume --out OUT$'
# One that has ended goes on with its teacher.
run distill --resume --out whole
exits 0
out_has '^To train it further: retort distill --resume --out whole --override --steps 4$'
run distill --resume --out whole --override --steps 4
exits 0
out_has '^note      resuming from checkpoint-000002, step 2 of 4$'
rm -r whole/run/checkpoints
run distill --resume --out whole
out_has '^To train it further: retort distill --teacher t --student whole --data DATA --out NEW$'
run train --resume --out plain
out_has '^To train it further: retort train --resume --out plain --override --steps 2$'

# ---- what other tools call commands and their flags ----
run evaluate s --data d.jsonl --rows 2
exits 0
out_has '^perplexity'
for flag in --model --student; do
    run eval "$flag" s --data d.jsonl --rows 2
    exits 0
done
run eval s --model t --data d.jsonl
exits 2
err_has "'t' is one argument too many"
run sft --student s --data d.jsonl --seq-len 32 --batch 2 --steps 1 --sample-prompts none --out sft
exits 0
run prune t
exits 2
err_has "^retort: no command 'prune'; retort init --from TEACHER --depth N OUT makes a student"
run pull s
exits 2
err_has "^retort: no command 'pull'; hf download ORG/NAME fetches a model"
for count in --num-layers --num_layers --num_hidden_layers; do
    run init --model deep $count 2 "by$count"
    exits 0
    out_has '^layers    student <- teacher: 0 <- 0, 1 <- 3$'
done
run init --model deep --from deep --depth 2 again
exits 2
err_has '^retort init: --from is given twice$'
run convert s --outfile theirs.gguf --outtype f16
exits 0
check "a GGUF file" test -s theirs.gguf
for words in 's theirs-q.gguf Q8_0' 's --out theirs-q.gguf q8_0' '--outtype Q8_0 s theirs-q.gguf'; do
    # shellcheck disable=SC2086
    run quantize $words --force
    exits 0
    out_has '^dtypes    q8_0: '
done
run quantize s Q8_0
exits 2
err_has 'OUT is missing: retort quantize IN OUT.gguf --dtype Q8_0$'
run quantize s x.gguf Q9_9
exits 2
err_has 'Q9_9'
for words in 's -n 3' '-m s --n-predict 3' '--model s -n 3 --temp 0'; do
    # shellcheck disable=SC2086
    run generate $words --raw -p abc
    exits 0
    err_has '^3 tokens at '
done
echo abc >ask.txt
run generate s --data ask.txt --out answers.jsonl -n 2 --temp 1 --raw
exits 2
run generate s --data ask.txt --out answers.jsonl -n 2 --temp 1 --max-new 3
exits 0
check "with --data -n counts answers" [ "$(grep -c . answers.jsonl)" = 2 ]
run generate s -n 2 --max-new 3 --raw -p abc
exits 2
err_has '^-n means --max-new here, which is given as well'
finish
