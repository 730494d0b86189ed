# records.sh - nothing of a record is dropped, misread or untrained without a word: borders inside tokens, turns that are
# not to be trained, systems, roles, calls of tools, columns that no one uses, answers without text.
. "$(dirname "$0")/harness"

run init --preset tiny --seed 1 --dtype f32 "$work/s"
model=$work/s
tokenize() { run tokenize "$@" --model "$model"; }

# ---- a prompt that ends inside a token ----
# A vocabulary with " pos" and " positive", as real ones have them.
cp -r "$model" "$work/words"
python3 - "$work/words/tokenizer.json" <<'PY'
import json, sys
j = json.load(open(sys.argv[1]))
m = j["model"]
spare = iter(sorted((t for t in m["vocab"] if ord(t[0]) > 0x12f), key=lambda t: m["vocab"][t]))  # bytes of no UTF-8
whole = "Ġ"
for letter in "pos":
    old = next(spare)
    m["vocab"][whole + letter] = m["vocab"].pop(old)
    m["merges"].append([whole, letter])
    whole += letter
json.dump(j, open(sys.argv[1], "w"))
PY
cat >"$work/border.jsonl" <<'END'
{"prompt": "Is it so: ", "completion": "pos"}
{"prompt": "Is it so:", "completion": " pos"}
{"prompt": "Is it so:  ", "completion": "pos"}
{"prompt": "Is it so: po", "completion": "s"}
END
run tokenize "$work/border.jsonl" --model "$work/words" --show 4
exits 0
check "the token across white space is trained" test "$(grep -c 'Is it so: *⟦ pos<|im_end|>⟧' "$out")" = 3
out_has '^Is it so: pos⟦<'
run tokenize "$work/border.jsonl" --model "$work/words"
exits 0
err_one_line
err_has 'note: .*border.jsonl: 1 completion begins inside a token of its prompt, and that token is not trained'
sed 4d "$work/border.jsonl" >"$work/space.jsonl"
run tokenize "$work/space.jsonl" --model "$work/words"
err_empty
out_has 'of which 6 trained'
printf '%s' "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}" >"$work/open.jinja"
printf '{"question": "So?", "answer": "pos"}\n' >"$work/turn.jsonl"
run tokenize "$work/turn.jsonl" --model "$work/words" --chat-template "$work/open.jinja"
exits 0
err_has 'note: .*turn.jsonl: 1 turn of the assistant begins inside a token of what stands before it'
run plan --student "$work/words" --data "$work/border.jsonl" --steps 1 --batch 1
exits 0
out_has 'border.jsonl: 1 completion begins inside a token of its prompt'

# ---- turns that are not to be trained ----
cat >"$work/weight.jsonl" <<'END'
{"messages":[{"role":"user","content":"A"},{"role":"assistant","content":"no1","weight":0},{"role":"user","content":"B"},{"role":"assistant","content":"yes","weight":1}]}
{"messages":[{"role":"user","content":"A"},{"role":"assistant","content":"no2","train":false},{"role":"user","content":"B"},{"role":"assistant","content":"yes","train":true}]}
{"conversations":[{"from":"human","value":"A","training":null},{"from":"gpt","value":"yes","training":true},{"from":"human","value":"B"},{"from":"gpt","value":"no3","training":false}]}
END
tokenize "$work/weight.jsonl" --show 3
exits 0
check "what has weight is trained" test "$(grep -c '^⟦yes<|im_end|>⟧' "$out")" = 3
check "what has none is not" test "$(grep -c '^no[123]<|im_end|>' "$out")" = 3
printf '{"messages":[{"role":"user","content":"A"},{"role":"assistant","content":"B","weight":0.5}]}\n' >"$work/half.jsonl"
tokenize "$work/half.jsonl"
exits 5
err_has 'half.jsonl:1: `messages\[1\].weight` is neither 0 .not trained. nor 1'
printf '{"messages":[{"role":"user","content":"A"},{"role":"assistant","content":"B","train":"no"}]}\n' >"$work/half.jsonl"
tokenize "$work/half.jsonl"
exits 5
err_has '`messages\[1\].train` is neither false'

# ---- a system beside the turns ----
cat >"$work/system.jsonl" <<'END'
{"system":"Be brief.","messages":[{"role":"user","content":"A"},{"role":"assistant","content":"B"}]}
{"system":"Be brief.","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"A"},{"role":"assistant","content":"B"}]}
{"system":"Be brief.","prompt":[{"role":"user","content":"A"}],"completion":[{"role":"assistant","content":"B"}]}
END
tokenize "$work/system.jsonl" --show 3
exits 0
check "the system is there once in each" test "$(grep -c '^<|im_start|>system' "$out")" = 3
check "with its text" test "$(grep -c 'Be brief' "$out")" = 3
printf '{"system":"X","messages":[{"role":"system","content":"Y"},{"role":"user","content":"A"},{"role":"assistant","content":"B"}]}\n' >"$work/two.jsonl"
tokenize "$work/two.jsonl"
exits 5
err_has 'two.jsonl:1: `system` stands beside turns that begin with another system message'
printf '{"s":"X","p":"A","c":"B"}\n' >"$work/psc.jsonl"
for columns in prompt=p,completion=c,system=s text=p,system=s; do
    tokenize "$work/psc.jsonl" --columns $columns
    exits 5
    err_has '--columns names a system, and .* has no place for it; what takes one is messages, '
done

# ---- roles ----
cat >"$work/roles.jsonl" <<'END'
{"messages":[{"role":"User","content":"A"},{"role":"Assistant","content":"yes"}]}
{"messages":[{"role":"human","content":"A"},{"role":"model","content":"yes"}]}
{"messages":[{"role":"developer","content":"D"},{"role":"user","content":"A"},{"role":"assistant","content":"yes"}]}
END
tokenize "$work/roles.jsonl" --show 3
exits 0
check "what the assistant says is trained" test "$(grep -c '^⟦yes<|im_end|>⟧' "$out")" = 3
out_has '^<.im_start.>developer'
printf '{"messages":[{"role":"user","content":"A"},{"role":"narrator","content":"N"},{"role":"assistant","content":"B"}]}\n' >"$work/narrator.jsonl"
tokenize "$work/narrator.jsonl"
exits 5
err_has "narrator.jsonl:1: messages.1. is of role 'narrator', which this chat template does not know; known are system, user"
printf '%s' "{% for m in messages %}{{ m.role if m.role != 'narrator' else '*' }}:{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}" >"$work/narrator.jinja"
tokenize "$work/narrator.jsonl" --chat-template "$work/narrator.jinja" --show 1
exits 0
out_has '[*]:N<.im_end.>assistant:⟦B'

# ---- calls that the template does not print ----
cat >"$work/calls.jsonl" <<'END'
{"messages":[{"role":"user","content":"W?"},{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"get","arguments":{}}}]},{"role":"tool","content":"5"},{"role":"assistant","content":"It is 5."}],"tools":[{"type":"function","function":{"name":"get"}}]}
END
tokenize "$work/calls.jsonl"
exits 5
err_has 'calls.jsonl:1: messages.1. has tool_calls, and this chat template does not print them; --chat-template FILE'
printf '%s' "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls or [] %}[{{ c.function.name }}]{% endfor %}<|im_end|>{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}" >"$work/calls.jinja"
tokenize "$work/calls.jsonl" --chat-template "$work/calls.jinja" --show 1
exits 0
out_has '⟦.get.<.im_end.>⟧'
err_has 'note: .*calls.jsonl: 1 conversation has tools, and the chat template does not print them'
printf '%s' "{% for t in tools or [] %}T{% endfor %}" | cat - "$work/calls.jinja" >"$work/tools.jinja"
tokenize "$work/calls.jsonl" --chat-template "$work/tools.jinja"
exits 0
err_empty
sed 's/"tool_calls":.*}}}\]/"tool_calls":[]/; s/,"tools".*/}/; s/"content":""/"content":"Hm"/' "$work/calls.jsonl" >"$work/none.jsonl"
tokenize "$work/none.jsonl"
exits 0
err_empty

# ---- columns that no one uses ----
printf '{"id":1,"context":"C","question":"A","answer":"B"}\n{"id":2,"question":"A","answer":"B","more":1}\n' >"$work/context.jsonl"
tokenize "$work/context.jsonl"
exits 0
err_one_line
err_has 'note: .*context.jsonl: columns not used: id, context$'
printf 'context,text,question,answer,a1,a2,a3,a4,a5\nC,T,Q,A,1,2,3,4,5\n' >"$work/wide.csv"
tokenize "$work/wide.csv" "$work/context.jsonl"
exits 0
err_has 'wide.csv: columns not used: question, answer, context, a1, a2, a3 and 2 more$'
err_has 'context.jsonl: columns not used: id, context$'
tokenize "$work/context.jsonl" --columns question=context,answer=answer
err_has 'columns not used: id, question$'
run plan --student "$model" --data "$work/context.jsonl" --eval-data "$work/turn.jsonl" --steps 1 --batch 1
exits 0
out_has 'context.jsonl: columns not used: id, context'
tokenize "$work/turn.jsonl"
err_empty

# ---- what is not UTF-8 ----
mkdir "$work/latin"
printf 'plain\n' >"$work/latin/a.txt"
printf '\357\273\277caf\351 au lait\n' >"$work/latin/b.txt"
tokenize "$work/latin/b.txt"
exits 4
err_one_line
err_has 'b.txt: the text is not UTF-8: byte 0xe9 at offset 6; convert the file, for example with iconv .*--skip-bad N'
tokenize "$work/latin" --skip-bad 1
exits 0
out_has '^records +1 '
python3 -c 'import sys; sys.stdout.buffer.write(b"A line of text.\n" * 200000 + b"caf\xe9\n")' >"$work/long.txt"
tokenize "$work/long.txt" --skip-bad 1
exits 4
err_has 'long.txt: the text is not UTF-8: byte 0xe9 at offset 3200003'
printf 'text\ncaf\351\n' >"$work/latin.csv"
tokenize "$work/latin.csv"
exits 4
err_has 'latin.csv:2: the record is not UTF-8 .unable to decode byte 0xe9.*iconv'

# ---- answers without text ----
printf 'question,answer\nA,\nB,b\nC,""\n' >"$work/empty.csv"
tokenize "$work/empty.csv"
exits 0
err_one_line
err_has 'empty.csv: 2 answers are empty: they are trained to end at once'
printf '{"prompt":"A","completion":""}\n' >"$work/empty.jsonl"
tokenize "$work/empty.jsonl"
err_has 'empty.jsonl: 1 answer is empty: it is trained to end at once'

# ---- targets that rows of a length lose ----
python3 - >"$work/long.jsonl" <<'PY'
import json
for i in range(20):
    turns = [{"role": r, "content": c} for k in range(4) for r, c in (("user", "q%d" % i), ("assistant", "x" * 19))]
    print(json.dumps({"messages": turns}))
PY
tokenize "$work/long.jsonl" --seq-len 64
exits 0
out_has '20 conversations cut after a turn'
out_has '^targets +400 left, 1200 lost \(75.0 %\)$'
tokenize "$work/long.jsonl" --seq-len 64 --json
json_is 'j["rows"]["targets"] == 1600 and j["rows"]["targets_lost"] == 1200'
run plan --student "$model" --data "$work/long.jsonl" --seq-len 64 --steps 1 --batch 1
exits 0
out_has '75.0 % of the targets are lost in what is cut off or dropped'
tokenize "$work/long.jsonl" "$work/border.jsonl" --seq-len 64 --show 2
exits 0
check "two of each source" test "$(grep -c '^--- ' "$out")" = 4
out_has 'long.jsonl:2: chat, [0-9]+ tokens, 80 trained; shortened to [0-9]+ tokens, 20 trained$'
out_has 'border.jsonl:2: completion, [0-9]+ tokens, [0-9]+ trained$'
out_has '^records +24 '
tokenize "$work/long.jsonl" --seq-len 16 --show 1
exits 5
out_has 'long.jsonl:1: .*80 trained; dropped: too long$'

# ---- what is advised of unknown columns: a turn where there is a template ----
printf '{"ask":"A","reply":"B"}\n' >"$work/odd.jsonl"
tokenize "$work/odd.jsonl"
exits 5
err_has 'columns ask, reply is of no known kind.*--columns question=COLUMN,answer=COLUMN names others'
cp "$model/tokenizer.json" "$work/tokenizer.json"
run tokenize "$work/odd.jsonl" --model "$work/tokenizer.json"
exits 5
err_has '--columns prompt=COLUMN,completion=COLUMN names others'

# ---- tables: rows that do not fit, separators, quotes over lines ----
printf 'question,answer\nA,a\nB,b,c\nC,c\nD\nE,e\n' >"$work/ragged.csv"
tokenize "$work/ragged.csv"
exits 4
err_has 'ragged.csv:3: more fields than the 2 columns'
tokenize "$work/ragged.csv" --skip-bad 2
exits 0
out_has '^records +3 '
out_has '^skipped +2 bad records; the first: .*ragged.csv:3: more fields'
tokenize "$work/ragged.csv" --skip-bad 1
exits 4
err_has 'ragged.csv:5: fewer fields .*more than --skip-bad 1'
printf 'question;answer\nA;a\n' >"$work/semi.csv"
tokenize "$work/semi.csv"
exits 5
err_has 'semi.csv: .*its one column has a ; in its name: fields are separated by a comma'
printf 'question\tanswer\nA\ta\n' >"$work/tab.csv"
tokenize "$work/tab.csv"
exits 5
err_has 'tab.csv: .*has a tab in its name.*\.tsv'
printf '{"text":1}\n{"text":2}\n' >"$work/allbad.jsonl"
tokenize "$work/allbad.jsonl" --skip-bad 9
exits 5
err_has 'all that was there was bad and skipped; the first: .*allbad.jsonl:1: `text` is a number'
printf 'question\tanswer\nA\t"a\nB\tb"\nC\tc\n' >"$work/quotes.tsv"
tokenize "$work/quotes.tsv"
exits 0
err_has 'quotes.tsv: 1 quoted field spans several lines'
finish
