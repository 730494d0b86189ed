# tasks.sh - `retort eval --tasks`: the table and its JSON, beside other models, requirements, answers beside those of
# `retort generate`, what is refused, and Ctrl-C. Log-probabilities are tests/unit/test_tasks.c's.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
python3 - <<'END'
import json
with open("q.jsonl", "w") as f:
    for i in range(12):
        f.write(json.dumps({"task": "even" if i % 2 == 0 else "odd", "question": "number %d is" % (i * i), "answer": i * i % 3,
                            "choices": ["two hundred", "one", "café"]}) + "\n" + ("\n" if i == 5 else ""))
END

run eval --help
exits 0
out_has '^  --tasks FILE '
out_has '^  --require M>=X '

# ---- one model ----
run eval s --tasks q.jsonl --details d.jsonl
exits 0
out_has '^task  records  metric        value  stderr$'
out_has '^even        6  acc          [01]\.[0-9]{4}  0\.[0-9]{4}$'
out_has '^odd         6  acc_norm     [01]\.[0-9]{4}  0\.[0-9]{4}$'
err_has '^36 requests, [0-9]+ tokens in [0-9.]+ s$'
run eval s --tasks q.jsonl --json
exits 0
cp "$out" one.json
python3 - <<'END' >"$out" 2>&1
import json
j, d = json.load(open("one.json")), [json.loads(l) for l in open("d.jsonl")]
assert [(r["task"], r["metric"], r["n"]) for r in j["results"]] == [("even", "acc", 6), ("even", "acc_norm", 6), ("odd", "acc", 6), ("odd", "acc_norm", 6)]
assert [x["line"] for x in d] == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13] and {x["file"] for x in d} == {"q.jsonl"}
for r in j["results"]:
    of = [x for x in d if x["task"] == r["task"]]
    per = [[1, 1, 1], [11, 3, 4]][r["metric"] == "acc_norm"] # characters, not bytes
    hit = []
    for x in of:
        v = [a / b for a, b in zip(x["logps"], per)]
        hit.append(v.index(max(v)) == x["answer"])
    mean = sum(hit) / 6
    error = (sum((h - mean) ** 2 for h in hit) / 5) ** 0.5 / 6 ** 0.5
    assert r["scores"] == [{"value": r["scores"][0]["value"], "stderr": r["scores"][0]["stderr"]}]
    assert abs(r["scores"][0]["value"] - mean) < 1e-12 and abs(r["scores"][0]["stderr"] - error) < 1e-12
assert j["models"][0]["model"] == "s" and j["models"][0]["requests"] == 36
print("sound")
END
out_has '^sound$'
# Another number of slots is the same numbers, to rounding; another model is others.
for slots in 1 5; do
    rm -f d$slots.jsonl
    run eval s --tasks q.jsonl --slots $slots --details d$slots.jsonl
    exits 0
done
run eval t --tasks q.jsonl --details other.jsonl
python3 - <<'END' >"$out" 2>&1
import json
def logps(name): return [x for l in open(name) for x in json.loads(l)["logps"]]
a = logps("d.jsonl")
for n in "d1.jsonl", "d5.jsonl": assert max(abs(x - y) for x, y in zip(a, logps(n))) < 1e-4
assert min(abs(x - y) for x, y in zip(a, logps("other.jsonl"))) > 1e-4
print("sound")
END
out_has '^sound$'

# ---- several models ----
run eval s --tasks q.jsonl --beside t --beside s
exits 0
out_has '^even, 6 records$'
out_has '^  metric +value  stderr   change  stderr  model$'
out_has '^  acc          [01]\.[0-9]{4}  0\.[0-9]{4}                   s$'
out_has '^               [01]\.[0-9]{4}  0\.[0-9]{4}  [+-][01]\.[0-9]{4}  0\.[0-9]{4}  t$'
out_has '^               [01]\.[0-9]{4}  0\.[0-9]{4}  \+0\.0000  0\.0000  s$'
check "no line is longer than 80 columns" sh -c '! grep -E "^.{81}" "$0"' "$out"
run eval s --tasks q.jsonl --beside t --json
json_is '[m["model"] for m in j["models"]] == ["s", "t"] and all("change" in r["scores"][1] and "change" not in r["scores"][0] for r in j["results"])'
json_is 'all(abs(r["scores"][1]["value"] - r["scores"][0]["value"] - r["scores"][1]["change"]) < 1e-12 for r in j["results"])'

# ---- answers: those of generate, in their records and of another file ----
python3 -c '
import json
for i in range(6): print(json.dumps({"prompt": "say %d" % i}))' >p.jsonl
run generate s --data p.jsonl --out a.jsonl --max-new 8 --quiet
python3 - <<'END'
import json
a = [json.loads(l) for l in open("a.jsonl")]
with open("w.jsonl", "w") as f:
    for i, x in enumerate(a):
        right = x["completion"] if i % 3 else "no such answer"
        f.write(json.dumps({"prompt": x["prompt"], "target": right, "max_new": 8}) + "\n")
END
run eval s --tasks w.jsonl --tasks q.jsonl --details dw.jsonl --json
exits 0
json_is 'j["results"][0]["task"] == "w" and j["results"][0]["metric"] == "exact_match"'
json_is 'abs(j["results"][0]["scores"][0]["value"] - 4 / 6) < 1e-12 and len(j["results"]) == 5'
python3 - <<'END' >"$out" 2>&1
import json
a, d = [json.loads(l) for l in open("a.jsonl")], [json.loads(l) for l in open("dw.jsonl")][:6]
assert [x["said"] for x in d] == [x["completion"] for x in a] and [x["right"] for x in d] == [i % 3 > 0 for i in range(6)]
assert all(abs(x["logp"] - y["logp"]) < 1e-4 for x, y in zip(d, a))
print("sound")
END
out_has '^sound$'

# ---- requirements ----
run eval s --tasks q.jsonl --tasks w.jsonl --require 'exact_match>=0.66' --require 'odd:acc>=0'
exits 0
out_has '^exact_match>=0\.66: met, 0\.6667 in w$'
run eval s --tasks q.jsonl --tasks w.jsonl --require 'exact_match>=0.67' --require 'odd:acc>=0'
exits 5
out_has '^w +6  exact_match  0\.6667'
out_has '^exact_match>=0\.67: NOT met, 0\.6667 in w$'
err_has "1 of 2 requirements is not met: exact_match of w is 0\.6667, and --require 'exact_match>=0\.67' asks for more"
run eval s --tasks w.jsonl --require 'exact_match>=0.67' --json
exits 5
json_is 'j["require"] == [{"require": "exact_match>=0.67", "task": "w", "value": j["require"][0]["value"], "holds": False}]'
run eval s --tasks w.jsonl --require 'acc>=0.67'
exits 2
err_has "no such task in the files has acc"

# ---- a chat ----
run eval s --tasks q.jsonl --chat --details chat.jsonl
exits 0
check "a template makes other questions" sh -c '! cmp -s d.jsonl chat.jsonl'
cp -r s bare
python3 - <<'END'
import json
j = json.load(open("bare/tokenizer_config.json"))
del j["chat_template"]
json.dump(j, open("bare/tokenizer_config.json", "w"))
END
rm -f bare/chat_template.jinja
run eval bare --tasks q.jsonl --chat
exits 5
err_has '--chat needs a chat template, and the model has none'

# ---- a tokenizer that puts a token before a text: once, also where the question writes it; and before an empty one ----
cp -r s begun
python3 - <<'END'
import json
j = json.load(open("begun/tokenizer.json"))
name, id = next((t["content"], t["id"]) for t in j["added_tokens"])
j["post_processor"] = {"type": "TemplateProcessing", "special_tokens": {name: {"id": name, "ids": [id], "tokens": [name]}},
                       "single": [{"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                       "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]}
json.dump(j, open("begun/tokenizer.json", "w"))
c = json.load(open("begun/tokenizer_config.json"))
c["bos_token"] = name
json.dump(c, open("begun/tokenizer_config.json", "w"))
for i, question in enumerate(("ab", name + "ab", "", "  ")):
    with open("b%d.jsonl" % i, "w") as f:
        f.write(json.dumps({"question": question, "choices": ["x", "yz"], "answer": 0}) + "\n")
END
for i in 0 1 2 3; do
    run eval begun --tasks b$i.jsonl --details b$i.json --json
    exits 0
    json_is "j['models'][0]['prompt_tokens'] == (11, 11, 7, 11)[$i]"
done
logps() { sed 's/.*"logps":\(.*\)/\1/' "$1"; }
check "the same ids, the same numbers" test "$(logps b0.json)" = "$(logps b1.json)"
run eval s --tasks b0.jsonl --json
json_is 'j["models"][0]["prompt_tokens"] == 9'

# ---- refusals ----
printf '{"question": "a", "choices": ["x", "y"], "answer": 0}\n{"question": "a", "choices": ["x", "y"], "answer": 2}\n' >bad.jsonl
run eval s --tasks bad.jsonl
exits 5
err_has 'bad\.jsonl, line 2: `answer` 2 is out of range \(0 to 1, for 2 choices\)'
out_empty
run eval s --tasks missing.jsonl
exits 3
: >empty.jsonl
run eval s --tasks empty.jsonl
exits 5
err_has 'empty\.jsonl has no records'
# Tables: all of their columns are read, and named where they are not those of a task.
printf 'task,prompt,target,max_new\nsum,1 + 1 =,2,\n' >table.csv
run eval s --tasks table.csv
exits 5
err_has 'table\.csv, line 2: `max_new` is not a whole number'
printf 'task,prompt,target\nsum,1 + 1 =,2\n' >table.csv
run eval s --tasks table.csv
exits 0
out_has '^sum +1  exact_match '
printf 'question,options,answer\nwhat,a,0\n' >table.csv
run eval s --tasks table.csv
exits 5
err_has 'table\.csv, line 2: a record needs either `choices` or a `target`: .*; this one has `question`, `options`, `answer`$'
printf 'question,choices,answer\nwhat,a,0\n' >table.csv
run eval s --tasks table.csv
exits 5
err_has '`choices` is a string, not a list of strings, which JSON lines and Parquet have$'
run eval s --tasks q.jsonl --details d.jsonl
exits 5
err_has 'd\.jsonl already exists; give another --details'
run eval s --tasks q.jsonl --teacher t
exits 2
err_has '--teacher has no effect with --tasks'
run eval s --beside t --data q.jsonl
exits 2
err_has '--beside needs --tasks'
run eval s --tasks q.jsonl --template-var a=b
exits 2
err_has '--template-var needs --chat when --tasks is given'
run eval s --tasks q.jsonl --beside nothing-there
exits 3

run eval s --tasks q.jsonl --details no/such/d.jsonl
exits 3
out_empty
err_has 'create the folder first'
# A question is encoded once more for each choice: one that cannot be answered is refused before that.
python3 -c '
import json
print(json.dumps({"question": "many words " * 60000, "choices": ["x"] * 3000, "answer": 0}))' >wide.jsonl
shown="retort eval s --tasks wide.jsonl, in 60 seconds"
status=0
timeout -s KILL 60 ${EMU:-} "$RETORT" eval s --tasks wide.jsonl >"$out" 2>"$err" </dev/null || status=$?
exits 5
err_has 'wide\.jsonl, line 1: the question has [0-9]+ tokens, and the model.s context is [0-9]+; shorten it or leave it out'

# ---- Ctrl-C ----
python3 - <<'END' >"$out" 2>&1
import json, os, signal, subprocess, time
with open("long.jsonl", "w") as f:
    for i in range(20000):
        f.write(json.dumps({"prompt": "say %d" % i, "target": "a", "max_new": 200}) + "\n")
p = subprocess.Popen(os.environ.get("EMU", "").split() + [os.environ["RETORT"], "eval", "s", "--tasks", "long.jsonl", "--details", "cut.jsonl"],
                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
line = p.stderr.readline() # it has begun to answer
p.send_signal(signal.SIGINT)
said, more = p.communicate(timeout=60)
assert p.returncode == 130 and not said, (p.returncode, said, line, more)
assert "interrupted after " in more and " of 20000 requests" in more, (line, more)
assert not os.path.exists("cut.jsonl")
print("sound")
END
out_has '^sound$'

finish
