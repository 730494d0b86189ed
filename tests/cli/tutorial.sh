# tutorial.sh - docs/tutorial.md, command by command, with a tiny teacher of as many layers: each command runs, and says
# what the page says it does, whatever the figures.
. "$(dirname "$0")/harness"
here=$(cd "$(dirname "$0")" && pwd)
mkdir "$work/session" && cd "$work/session" || exit 1

run init --preset tiny-llama base
python3 - <<'PY'
import json
shape = json.load(open("base/config.json"))
shape.update(num_hidden_layers=30, hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=2,
             tie_word_embeddings=True)
json.dump(shape, open("deep.json", "w"))
PY
run init --config deep.json --tokenizer base --dtype q8_0 teacher.gguf
exits 0
shown='tools/demo/manual.py' status=0
python3 "$here/../../tools/demo/manual.py" text >"$out" 2>"$err" || status=$?
exits 0
check "no text is both trained and held out" python3 - <<'PY'
train, held = (open(f"text/{n}.jsonl").read().splitlines() for n in ("train", "held-out"))
assert len(train) > 1000 and len(held) > 5 and not set(train) & set(held)
PY
for part in train:120 held-out:6; do
    head -n "${part#*:}" "text/${part%:*}.jsonl" >cut && mv cut "text/${part%:*}.jsonl"
done

shown=docs/tutorial.md
python3 "$here/tutorial.py" "$here/../../docs/tutorial.md" >"$out" 2>"$err"
passed=$((passed + $(grep -c '^ok ' "$out")))
failed=$((failed + $(grep -c '^FAIL ' "$out")))
grep '^FAIL ' "$out"
check "every command of the page was run" test "$(grep -c '^\$ ' "$here/../../docs/tutorial.md")" = \
    "$(grep -c '^ran ' "$out")"
finish
