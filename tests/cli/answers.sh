# answers.sh - `retort generate --data`: records and lines, samples, the likeliest, resumption to the same bytes, and the
# output as training data.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

run init --preset tiny-qwen2 --seed 1 --dtype f32 s
python3 - <<'END'
import json
with open("prompts.jsonl", "w") as f:
    for i in range(9):
        f.write(json.dumps({"prompt": "one two %d " % (i % 7)}) + "\n" + ("\n" if i == 3 else ""))
END
printf 'first line\n\nsecond line\n' >lines.txt

run generate s --data prompts.jsonl --out a.jsonl --samples 3 --temperature 1 --max-new 12 --slots 4 --quiet
exits 0
err_empty
python3 - <<'END' >"$out" 2>&1
import json
a = [json.loads(l) for l in open("a.jsonl")]
assert len(a) == 27
assert [x["sample"] for x in a[:4]] == [0, 1, 2, 0]
assert all(x["prompt"] == "one two %d " % (i // 3 % 7) for i, x in enumerate(a))
assert all(x["logp"] < 0 and 1 <= x["tokens"] <= 12 and "logps" not in x for x in a)
assert a[0]["prompt_hash"] == a[21]["prompt_hash"] != a[3]["prompt_hash"]
assert len({x["completion"] for x in a[0:3] + a[21:24]}) == 6, "equal prompts have draws of their own"
print("sound")
END
out_has '^sound$'

# Cut off anywhere, it goes on to the same bytes; whole, nothing is done.
cp a.jsonl whole.jsonl
for bytes in 0 100 2000 3500; do
    head -c $bytes whole.jsonl >a.jsonl
    run generate s --data prompts.jsonl --out a.jsonl --samples 3 --temperature 1 --max-new 12 --slots 4 --quiet
    exits 0
    check "the same bytes after $bytes" cmp -s a.jsonl whole.jsonl
done
run generate s --data prompts.jsonl --out a.jsonl --samples 3 --temperature 1 --max-new 12 --slots 4 --json
exits 0
json_is 'j["found"] == 9 and j["answers"] == 0 and j["prompts"] == 9'

# The likeliest of the same samples.
run generate s --data prompts.jsonl --out best.jsonl -n 3 --best-of --logprobs --temperature 1 --max-new 12 --slots 4 --quiet
exits 0
python3 - <<'END' >"$out" 2>&1
import json
a = [json.loads(l) for l in open("a.jsonl")]
b = [json.loads(l) for l in open("best.jsonl")]
assert len(b) == 9
for i, x in enumerate(b):
    each = a[3 * i : 3 * i + 3]
    best = max(each, key=lambda y: y["logp"] / y["tokens"])
    assert x["completion"] == best["completion"] and x["sample"] == best["sample"]
    assert len(x["logps"]) == x["tokens"] and abs(sum(x["logps"]) - x["logp"]) < 1e-4
print("sound")
END
out_has '^sound$'

# Lines; and what is written is training data.
run generate s --data lines.txt --out lines.jsonl --max-new 6 --quiet
exits 0
check "a line each" test "$(wc -l <lines.jsonl)" = 2
run tokenize a.jsonl --model s --show 1
exits 0
out_has '27'
run train --student s --data a.jsonl --out t --steps 2 --batch 2 --seq-len 64
exits 0

# What is refused.
run generate s --data prompts.jsonl --out a.jsonl --samples 3 --temperature 2 --max-new 12 --slots 4
exits 5
err_has 'a.jsonl was begun by another model or with other settings'
run generate s --data lines.txt --out a.jsonl --samples 3 --temperature 1 --max-new 12 --slots 4
exits 5
err_has 'answers another prompt than line 1'
run generate s --data prompts.jsonl --out prompts.jsonl
exits 5
err_has 'prompts.jsonl, line 1, is no answer'
run generate s --data prompts.jsonl
exits 2
err_has '--data needs --out'
run generate s --prompt a --samples 2
exits 2
err_has '--samples needs --data'
run generate s --data prompts.jsonl --out b.jsonl --samples 2
exits 2
err_has 'give --temperature'
run generate s --data prompts.jsonl --out b.jsonl --context 5
exits 5
err_has 'the longest prompt of prompts.jsonl has [0-9]* tokens, and the context is 5'
printf '{"prompt": "a"}\n{broken\n' >bad.jsonl
run generate s --data bad.jsonl --out b.jsonl
check "broken JSON is refused" test "$status" != 0
err_has 'bad.jsonl, line 2'
check "nothing is left behind" test ! -e b.jsonl
finish
