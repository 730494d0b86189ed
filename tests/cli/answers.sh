# answers.sh - `retort generate --data`: records and lines, samples, the likeliest, resumption to the same bytes, and the
# output as training data.
# Files on disk.
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

run generate s --data lines.txt --out six.jsonl -n 3 --best-of --temperature 1 --max-new 3
err_has '^6 answers made, 2 answers kept in six.jsonl'
run generate s --data lines.txt --out two-of.jsonl --max-new 3
err_has '^2 answers in two-of.jsonl'

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
err_has 'a.jsonl was begun with another model or other settings'
run generate s --data lines.txt --out a.jsonl --samples 3 --temperature 1 --max-new 12 --slots 4
exits 5
err_has 'does not answer the prompt in line 1'
for more in --logprobs "--context 200" "--seed 1"; do
    run generate s --data prompts.jsonl --out a.jsonl --samples 3 --temperature 1 --max-new 12 --slots 4 $more
    exits 5
    err_has 'or other settings'
done
# A model is what it is, not where it lies: another under the same name, the same under another.
cp -r s s2
run generate ./s2/ --data prompts.jsonl --out a.jsonl --samples 3 --temperature 1 --max-new 12 --slots 4 --json
exits 0
json_is 'j["found"] == 9'
run init --preset tiny-qwen2 --seed 2 --dtype f32 s3
rm -r s2 && mv s3 s2
run generate s2 --data prompts.jsonl --out a.jsonl --samples 3 --temperature 1 --max-new 12 --slots 4
exits 5
err_has 'begun with another model'
check "the answers are as they were" cmp -s a.jsonl whole.jsonl
run generate s --data prompts.jsonl --out prompts.jsonl
exits 5
err_has 'prompts.jsonl, line 1, is not an answer'
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
err_has 'prompts.jsonl, line [0-9]*: the prompt has [0-9]* tokens, and the context is 5; raise --context'
printf '{"prompt": "a"}\n{broken\n' >bad.jsonl
run generate s --data bad.jsonl --out b.jsonl
check "broken JSON is refused" test "$status" != 0
err_has 'bad.jsonl, line 2'
check "nothing is left behind" test ! -e b.jsonl
for bad in "--samples 70000 --temperature 1" "--slots 70000" "--best-of" "--samples 2 --temperature 1 --top-p 2"; do
    run generate s --data prompts.jsonl --out b.jsonl $bad
    exits 2
done
run generate s --data prompts.jsonl --out b.jsonl --device cuda:99
check "a device that is not there" test "$status" != 0
check "no empty file is left behind" test ! -e b.jsonl
run generate s --data prompts.jsonl --out no/such/b.jsonl
exits 3
err_has 'create the folder first'
run generate s --data prompts.jsonl --out /dev/null
exits 5
run generate s --data . --out b.jsonl
exits 5
err_has 'is a folder'

# What is not certain to be ours is never cut off: files whose last line has no end, the prompts themselves.
printf 'my thesis, one long line' >thesis.txt
printf '{"prompt": "one two 0 "}' >p.jsonl
printf '{"prompt":"one two 0 ","completion":"x"}' >q.jsonl
printf '{"prompt":"one two 0 ","completion":"x"}\n{"prompt":"one two 1 ","com' >r.jsonl
cp whole.jsonl more.jsonl && printf 'notes' >>more.jsonl
for file in thesis.txt p.jsonl q.jsonl r.jsonl more.jsonl; do
    cp $file kept
    run generate s --data prompts.jsonl --out $file --samples 3 --temperature 1 --max-new 12 --slots 4
    exits 5
    check "$file is as it was" cmp -s $file kept
done
run generate s --data p.jsonl --out p.jsonl
exits 5
check "the prompts are as they were" grep -q 'one two' p.jsonl
# What a power failure leaves of a line is.
head -c 2000 whole.jsonl >a.jsonl && head -c 500 /dev/zero >>a.jsonl
run generate s --data prompts.jsonl --out a.jsonl --samples 3 --temperature 1 --max-new 12 --slots 4 --quiet
exits 0
check "zeros at the end are no answer" cmp -s a.jsonl whole.jsonl

# One writer.
python3 -c 'for i in range(200): print("line", i)' >long.txt
"$RETORT" generate s --data long.txt --out one.jsonl --max-new 60 --quiet &
first=$!
for i in $(seq 100); do
    [ -s one.jsonl ] && break
    sleep 0.05
done
kill -STOP $first
run generate s --data long.txt --out one.jsonl --max-new 60
kill -CONT $first
exits 5
err_has 'another process is writing one.jsonl'
wait $first
check "one wrote all of it" test "$(wc -l <one.jsonl)" = 200

# Killed until thirty kills have come before the end, and the threads do not matter.
python3 - "$RETORT" <<'END' >"$out" 2>&1
import os, random, subprocess, sys, time
random.seed(os.environ.get("SEED", "21"))
whole = open("one.jsonl", "rb").read()
killed = ended = 0
while killed < 30 and ended < 60:
    process = subprocess.Popen([sys.argv[1], "generate", "s", "--data", "long.txt", "--out", "two.jsonl", "--max-new", "60",
                                "--threads", str(1 + killed % 2), "--quiet"])
    time.sleep(random.random() * 0.12)
    process.kill()
    killed += process.wait() != 0
    if os.path.exists("two.jsonl") and open("two.jsonl", "rb").read() == whole:
        ended += 1
        os.remove("two.jsonl")
print(killed, "killed", ended, "whole")
assert killed == 30
END
out_has '^30 killed'
run generate s --data long.txt --out two.jsonl --max-new 60 --quiet
exits 0
check "the same bytes after kills" cmp -s one.jsonl two.jsonl

# A file that is removed, moved or replaced meanwhile is not written to any more, nor what has its name.
for way in 'rm gone.jsonl' 'echo mine >new && mv new gone.jsonl' 'mv gone.jsonl there.jsonl'; do
    shown="retort generate, meanwhile $way"
    rm -f gone.jsonl there.jsonl
    "$RETORT" generate s --data long.txt --out gone.jsonl --max-new 60 --quiet 2>"$err" &
    first=$!
    for i in $(seq 1000); do
        [ -s gone.jsonl ] && break
        sleep 0.01
    done
    kill -STOP $first
    sh -c "$way"
    kill -CONT $first
    status=0
    wait $first || status=$?
    exits 5
    err_has 'gone.jsonl was removed, moved or replaced while it was written'
    check "what has the name is as it was" sh -c 'test ! -e gone.jsonl || grep -qx mine gone.jsonl'
done
mv there.jsonl gone.jsonl
run generate s --data long.txt --out gone.jsonl --max-new 60 --quiet
exits 0
check "where it is now it is continued" cmp -s one.jsonl gone.jsonl

# In a run's own folder only the run writes.
run generate s --data lines.txt --out t/run/lines.jsonl --max-new 3
exits 5
err_has 'lies in .*t/run, where only the run itself writes'
run eval s --tasks p.jsonl --details t/run/d.jsonl
exits 5
check "no details there either" test ! -e t/run/d.jsonl
run cache --teacher s --data whole.jsonl --out t/run/cache
exits 5
err_has 'lies in .*t/run, where only the run itself writes'
check "nothing was made there" test ! -e t/run/cache -a ! -e t/run/lines.jsonl

# Every file that data may be; records without their answers.
printf '\357\273\277{"prompt": "a b"}\r\n\r\n{"instruction": "c d"}\r\n' >f.jsonl
printf '[{"prompt": "a b"},\n {"question": "c d"}]' >f.json
printf '\357\273\277prompt\na b\n"c d"\n' >f.csv
printf '\357\273\277a b\r\n\r\n c d' >f.txt
cp f.txt f && gzip -c f.jsonl >f.ndjson.gz
for file in f.jsonl f.json f.csv f.txt f f.ndjson.gz; do
    rm -f g.jsonl
    run generate s --data $file --out g.jsonl --max-new 2 --quiet
    exits 0
    check "$file holds two prompts" test "$(grep -cE '"(a b|c d)"' g.jsonl)" = 2
done
printf 'RTOK' >f.bin
run generate s --data f.bin --out b.jsonl
exits 5
err_has 'contains tokens'
finish
