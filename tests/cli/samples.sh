# samples.sh - what a run says besides its numbers: samples at each evaluation, the closing screen, the model card, and
# the Modelfile beside a converted model.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 160 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
base="--data d.jsonl --batch 4 --seq-len 64 --threads 2 --sample-tokens 24"

# samples OUT EXPRESSION: the Python expression over the lines of samples.jsonl, called `s`, holds.
samples() {
    check "samples with $2" python3 -c 'import json, sys
s = [json.loads(x) for x in open(sys.argv[1] + "/run/samples.jsonl")]
evals = [j for j in map(json.loads, open(sys.argv[1] + "/run/metrics.jsonl")) if j["event"] == "eval"]
def of(who, step): return [x["text"] for x in s if x["who"] == who and x["step"] == step]
sys.exit(0 if eval(sys.argv[2]) else 1)' "$1" "$2"
}

# ---- by default: two held-out texts, and no teacher where there is none ----
run train --student t $base --out taught --steps 60 --eval-every 30
exits 0
samples taught '[x["step"] for x in s] == [0, 0, 30, 30, 60, 60]'
samples taught 'all(set(x) == {"step", "prompt", "who", "text", "stopped"} for x in s)'
samples taught 'all(0 <= e["stop_rate"] <= 1 and 0 <= e["repetition_rate"] <= 1 for e in evals) and len(evals) == 3'
samples taught 'of("student", 0) != of("student", 60) and len({x["prompt"] for x in s}) == 2'
out_has '^held out +before +after$'
out_has '^improved +yes: cross-entropy fell by [0-9.]+, and two standard errors are [0-9.]+$'
out_has '^before +'
out_lacks '^teacher +'
out_has '^next +a page with curves and samples: taught/run/report\.html$'
out_has '^ +retort generate taught --raw --prompt .Hello.$'
out_has '^ +retort convert taught taught\.gguf$'
out_has '^ +retort serve taught$'
out_lacks '^ +retort chat ' # it was shown no chats
out_has '^note      the data is plain text alone, and the chat format of the model is not trained; add chats to keep it$'
check "the report shows them" grep -q 'id="samples"' taught/run/report.html
check "and the rates" grep -q '"stop_rate":\[\[0,' taught/run/report.html

# ---- chats are trained as chats, and asked as such ----
python3 - >chats.jsonl <<'PY'
import json
for i in range(60):
    print(json.dumps({"messages": [{"role": "user", "content": f"say {i}"}, {"role": "assistant", "content": f"{i} it is"}]}))
PY
run train --student t --data chats.jsonl --batch 2 --seq-len 64 --threads 2 --sample-prompts none --steps 1 --out chatty
exits 0
out_has '^ +retort generate chatty --prompt .Hello.$'
out_has '^ +retort chat chatty$'
out_has '^ +retort serve chatty$'
out_lacks 'the data is plain text alone'

# ---- with a teacher: its text is made once, and is what it says alone ----
printf 'the quick brown fox\nseven wizards\n' >p.txt
run distill --teacher taught --student s $base --out o --steps 30 --eval-every 15 --save-every 15 --sample-prompts p.txt
exits 0
cp "$out" screen
samples o '[(x["step"], x["who"]) for x in s][:4] == [(0, "teacher"), (0, "student")] * 2 and len(s) == 8'
samples o 'len([x for x in s if x["who"] == "teacher"]) == 2'
run generate taught --prompt 'the quick brown fox' --max-new 24 --quiet
samples o "of('teacher', 0)[0] == open('$out').read()[:-1]"
run generate o --prompt 'seven wizards' --max-new 24 --quiet
samples o "of('student', 30)[1] == open('$out').read()[:-1]"
cp screen "$out"
out_has '^held out +before +after +teacher$'
out_has '^perplexity +[0-9.]+ +[0-9.]+ +[0-9.]+$'
out_has '^KL\(teacher\|\|student\) +[0-9.]+ +[0-9.]+$'
out_has '^improved +yes: KL fell by'
out_has '^prompt +the quick brown fox$'
out_has '^teacher +[^:]+$'

# ---- they change no number of the training ----
run distill --teacher taught --student s $base --out quiet --steps 30 --eval-every 15 --save-every 15 --sample-prompts none
exits 0
out_lacks '^prompt '
check "no samples" test ! -e quiet/run/samples.jsonl
check "the same weights" cmp o/model.safetensors quiet/model.safetensors
curve o | sed 's/, "\(stop\|repetition\)_rate": [^,}]*//g' >o.curve
curve quiet >quiet.curve
check "the same numbers" cmp o.curve quiet.curve

# ---- stopped and resumed: the same file; the teacher is not asked again ----
flags="--teacher taught --student s $base --steps 30 --eval-every 5 --save-every 6 --sample-prompts p.txt"
run distill $flags --out whole
exits 0
stop INT 18 broken distill $flags
exits 130
check "it had said something" test -s broken/run/samples.jsonl
printf '{"step": 30, "who": "student", "prompt": "of a step that is no more' >>broken/run/samples.jsonl
rm p.txt
run distill --resume --out broken
exits 3
err_has '--sample-prompts: .*p\.txt'
printf 'the quick brown fox\nseven wizards\n' >p.txt
run distill --resume --out broken
exits 0
check "the same samples" cmp whole/run/samples.jsonl broken/run/samples.jsonl

# ---- conversations: the prompt ends where the assistant begins ----
python3 - <<'PY'
import json
with open("chat.jsonl", "w") as f:
    for i in range(120):
        f.write(json.dumps({"messages": [{"role": "user", "content": f"say {i}"},
                                         {"role": "assistant", "content": f"well {i * 7 % 100}"}]}) + "\n")
PY
run distill --teacher taught --student s --data chat.jsonl --batch 4 --seq-len 64 --out chat --steps 5 --threads 2
exits 0
samples chat 'all(x["prompt"].endswith("<|im_end|>\n<|im_start|>assistant\n") for x in s)'
samples chat 'all("well" not in x["prompt"] for x in s)'
head -n 3 chat.jsonl >asked.jsonl
run distill --teacher taught --student s --data chat.jsonl --batch 4 --seq-len 64 --out asked --steps 5 --sample-prompts asked.jsonl
exits 0
samples asked '[x["prompt"] for x in s if x["who"] == "teacher"] == ["say 0", "say 1", "say 2"]'

# ---- a long text is split into rows: prompts are its beginning, never a later part ----
python3 - <<'PY'
import json
with open("long.jsonl", "w") as f:
    for i in range(40):
        f.write(json.dumps({"text": f"Chapter {i}: " + "some words that go on and on; " * (3 + i * i % 17)}) + "\n")
PY
run train --student t --data long.jsonl --batch 4 --seq-len 64 --out long --steps 3 --threads 2 --eval-every 1
exits 0
out_has ' texts split'
samples long 'len(s) == 8 and all(x["prompt"].startswith("Chapter ") for x in s)'

# ---- what is refused, before any data is read ----
run distill --teacher taught --student s $base --out x --sample-prompts absent.txt
exits 3
err_has '--sample-prompts: .*absent\.txt'
printf '{"text": "a"}\n{"topic": "b"}\n' >bad.jsonl
run distill --teacher taught --student s $base --out x --sample-prompts bad.jsonl
exits 5
err_has 'bad\.jsonl, line 2: .*topic'
run distill --teacher taught --student s --data d.jsonl --out x --sample-tokens 0
exits 2
err_has '--sample-tokens .*--sample-prompts none'
check "nothing is left" test ! -e x

# ---- not an improvement ----
run train --student taught $base --out still --steps 4 --lr 0
exits 0
out_has '^improved +not shown: cross-entropy changed by \+0\.0000, less than two standard errors'
run train --student taught $base --out spoilt --steps 8 --lr 0.5 --save last --warmup 1
exits 0
out_has '^improved +no, it is worse: cross-entropy rose by'

# ---- by what each document changed by; and where there are too few of them ----
samples taught 'len(evals[0]["ce"]) == 2 and all(len(e["ce"]) == 3 and e["ce"][2] > 0 for e in evals[1:])'
head -n 2 d.jsonl >two.jsonl
run train --student s $base --eval-data two.jsonl --out few --steps 8 --sample-prompts none
exits 0
out_has '^improved +not shown: 2 held-out documents are too few to tell; .* a longer --eval-data would tell$'
out_has 'measured: 2 held-out documents are too few to tell'
out_lacks '--held-out'
check "the report says so" grep -q 'too few documents to tell' few/run/report.html
run verify few
exits 0

# ---- the model card ----
check "front matter" grep -q '^library_name: transformers$' o/README.md
check "the teacher by name" grep -q '^# `s` distilled from `taught`$' o/README.md
check "no path" sh -c '! grep -F "$0" o/README.md' "$work"
check "the table" grep -Eq '^\| KL\(teacher ‖ student\) \| [0-9.]+ ± [0-9.]+ \| [0-9.]+ ± [0-9.]+ \| \|$' o/README.md
check "root only" sh -c 'test "$(find o -name README.md | wc -l)" = 1'

# ---- adapters ----
run distill --teacher "$work/taught" --student "$work/s" $base --out lora --steps 6 --lora-rank 4
exits 0
out_has '^lora: the adapter of step'
out_has '^ +retort merge lora lora-merged$'
out_has '^ +retort generate lora --raw --prompt'
out_has '^ +retort convert lora lora.gguf$'
check "a card for PEFT" grep -q '^library_name: peft$' lora/README.md
check "with its base by name" grep -q '^base = "s"$' lora/README.md
check "which no hub has" sh -c '! grep -q ^base_model: lora/README.md'
out_has "^ +hf upload ORG/NAME lora \. --exclude '\*/\*'\$"
check "and no path" sh -c '! grep -F "$0" lora/README.md' "$work"
run distill --resume --merge --out lora
exits 0
out_lacks 'retort merge'
run generate lora/merged --prompt Hello --max-new 4 --quiet
exits 0
check "the card knows of it" grep -q 'retort convert \. model\.gguf' lora/README.md

# ---- beside a GGUF file ----
run convert o 'my model.gguf'
exits 0
out_has '^ollama +my model\.Modelfile, with the ChatML template$'
out_has "^run it +ollama create my-model -f 'my model\.Modelfile' && ollama run my-model\$"
out_has "^ +llama-cli -m 'my model\.gguf'\$"
check "it names the file" grep -q '^FROM \./my model\.gguf$' 'my model.Modelfile'
check "the stops" sh -c 'test "$(grep "^PARAMETER stop" "$0")" = "PARAMETER stop \"<|endoftext|>\"
PARAMETER stop \"<|im_end|>\""' 'my model.Modelfile'
cp -r o greeted
python3 - <<'PY'
import json
path = "greeted/tokenizer_config.json"
j = json.load(open(path))
own = "{%- if messages[0]['role'] != 'system' %}{{- '<|im_start|>system\\nYou are kind.<|im_end|>\\n' }}{%- endif %}"
j["chat_template"] = own + j["chat_template"]
json.dump(j, open(path, "w"))
PY
run convert greeted greeted.gguf
exits 0
check "its own system message" grep -q '^SYSTEM """You are kind\."""$' greeted.Modelfile
out_has '^ +with SYSTEM, from the chat template: You are kind\.$'
rm 'my model.gguf'
run convert o 'my model.gguf'
exits 0
out_lacks 'SYSTEM'
echo '# mine' >>'my model.Modelfile'
rm 'my model.gguf'
run convert o 'my model.gguf'
exits 5
err_has 'my model\.Modelfile is there already; --force replaces it'
check "nothing was written" test ! -e 'my model.gguf'
check "it is still the user's" grep -q '^# mine$' 'my model.Modelfile'
run convert o 'my model.gguf' --force
exits 0
check "replaced" sh -c '! grep "^# mine$" "$0"' 'my model.Modelfile'
run convert o bare.gguf --no-tokenizer
exits 0
out_lacks '^ollama'
check "without a tokenizer there is none" test ! -e bare.Modelfile
run quantize o q.gguf --dtype q8_0 --json
exits 0
json_is 'j["modelfile"] == "q.Modelfile"'
run convert o back --json
json_is 'j["modelfile"] is None'
finish
