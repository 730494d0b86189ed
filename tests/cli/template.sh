# template.sh - the chat template that a model was trained with goes with it: into the output and the adapter's folder, and on
# through export, merge, convert and quantize; a folder never holds two that differ.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

python3 - <<'PY'
import json
with open("d.jsonl", "w") as f:
    for i in range(60):
        f.write(json.dumps({"messages": [{"role": "user", "content": f"what is {i}"}, {"role": "assistant", "content": f"it is {i + 1}"}]}) + "\n")
open("new.jinja", "w").write("{% for m in messages %}[{{ m.role }}] {{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}")
PY
run init --preset tiny-llama --seed 3 s
exits 0
train() { run train --student s --data d.jsonl --steps 2 --batch 4 --seq-len 64 --chat-template new.jinja "$@"; }
# new FOLDER: both places have the new template, and the rest of tokenizer_config.json is the student's.
new() {
    check "$1 has the new template and no other" python3 - "$1" <<'PY'
import json, sys
new = open("new.jinja").read()
was, now = (json.load(open(f"{d}/tokenizer_config.json")) for d in ("s", sys.argv[1]))
assert open(f"{sys.argv[1]}/chat_template.jinja").read() == new and now["chat_template"] == new
assert {**was, "chat_template": new} == now
PY
    check "$1 has the tokenizer" cmp s/tokenizer.json "$1/tokenizer.json"
}
# rendered MODEL: a prompt is put into the new template.
rendered() {
    run tokenize d.jsonl --model "$1" --show 1
    exits 0
    out_has '\[user\] what is'
    out_lacks 'im_start'
}
train --out full
exits 0
new full
train --out lora --lora --merge
exits 0
new lora
new lora/merged
check "the card loads the tokenizer of the adapter" grep -qF 'AutoTokenizer.from_pretrained(".")' lora/README.md
check "and knows of its template" grep -q apply_chat_template lora/README.md
run verify lora
exits 0
rendered lora
run export lora --to up
exits 0
new up
run merge lora m
exits 0
new m
check "the merged model ends as the run's own does" cmp m/generation_config.json lora/merged/generation_config.json
rendered m
run export m --to mup
exits 0
check "a merged model is uploaded with a card" sh -c 'head -n 1 mup/README.md | grep -qx -e --- && grep -q "^library_name: transformers" mup/README.md && grep -q apply_chat_template mup/README.md'
for to in g.gguf q.gguf a.apr; do
    run convert lora $to --dtype "$(test $to = q.gguf && echo q8_0 || echo f16)"
    exits 0
    rendered $to
done
run eval lora --data d.jsonl --seq-len 64 --json
cp "$out" lora.json
run eval m --data d.jsonl --seq-len 64 --json
check "and is measured on the same text" python3 -c 'import json, sys
a, b = (json.load(open(p)) for p in ("lora.json", sys.argv[1]))
assert a["positions"] == b["positions"] and abs(a["cross_entropy"]["mean"] - b["cross_entropy"]["mean"]) < 1e-3' "$out"

# A template that is the student's changes no file; neither does one that is a file already.
run train --student s --data d.jsonl --steps 2 --batch 4 --seq-len 64 --lora --out same
exits 0
check "the same configuration" cmp s/tokenizer_config.json same/tokenizer_config.json
check "no file of its own" test ! -e same/chat_template.jinja
run convert full copy
exits 0
check "both as they were" sh -c 'cmp full/tokenizer_config.json copy/tokenizer_config.json && cmp full/chat_template.jinja copy/chat_template.jinja'

# Old adapters have no tokenizer: the base's is taken, under a template where one lies there by itself.
cp -r lora old && rm -r old/run old/merged old/token* old/special* old/generation_config.json 2>/dev/null
rendered old
rm old/chat_template.jinja
run tokenize d.jsonl --model old --show 1
out_has 'im_start'
finish
