# data.sh - data as people have it: one text, few chats, columns of any name, folders with splits.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

run init --preset tiny-qwen2 --seed 1 --dtype f32 s

# ---- one text ----
python3 - <<'PY'
with open("input.txt", "w") as f:
    for i in range(400):
        f.write("First Citizen %d: we are accounted poor citizens.\n" % (i * i))
PY
run train --student s --data input.txt --seq-len 64 --steps 3 --threads 2 --out one
exits 0
out_has 'the data is one text: its last 10 % are held out'
out_has '^evaluate .*, on ([0-9]+ of [0-9]+ rows of )?the 10 % that is held out, '
check "the share is recorded" grep -q '"held_out": "10%"' one/run/manifest.json
run verify one
exits 0
run train --student s --data input.txt --seq-len 64 --steps 3 --threads 2 --out more --held-out 30%
exits 0
out_has 'its last 30 % are held out'

# ---- few chats: a batch that was not chosen is no reason to refuse ----
python3 - <<'PY'
import json
with open("chats.jsonl", "w") as f:
    for i in range(50):
        f.write(json.dumps({"prompt": "How much is %d and %d?" % (i, i), "completion": " It is %d." % (2 * i)}) + "\n")
PY
run train --student s --data chats.jsonl --threads 2 --out few
exits 0
out_has 'the data makes [0-9]+ rows of [0-9]+ tokens, so a step takes [0-9]+ of them'
check "the batch is recorded" grep -qE '"batch": [1-8],' few/run/manifest.json
run verify few
exits 0
run train --student s --data chats.jsonl --threads 2 --out x --batch 64
exits 5
err_has 'less than one --batch of 64'

# ---- --held-out N is N records, whatever else there is: copies go with theirs, weights are for training ----
python3 - <<'PY'
import json
def write(name, numbers):
    with open(name, "w") as f:
        for i in numbers:
            f.write(json.dumps({"prompt": "What follows %d?" % i, "completion": " %d" % (i + 1)}) + "\n")
write("three.jsonl", range(3))
write("low.jsonl", list(range(40)) + [i for i in range(40) for _ in range(i % 4)])
write("high.jsonl", range(30, 90))
PY
train="train --student s --batch 1 --seq-len 64 --steps 2 --threads 2 --sample-prompts none"
held() { # OUT: records of the manifest, and documents of the first evaluation
    python3 - "$1" <<'PY'
import json, sys
manifest = json.load(open(sys.argv[1] + "/run/manifest.json"))
first = json.loads(open(sys.argv[1] + "/run/metrics.jsonl").readline())
print(manifest["held_out"]["records"], first["documents"])
PY
}
run $train --data three.jsonl --held-out 1 --out h3
exits 0
out_has '^held out  1 record, 1 row, [0-9]+ positions measured$'
out_has '^evaluate .*, on 1 held-out record'
check "1 of 3 records" test "$(held h3)" = "1 1"
for seed in 0 5; do
    run $train --data low.jsonl --held-out 24 --seed $seed --out h24-$seed
    exits 0
    out_has '^held out  24 records, [0-9]+ rows, [0-9]+ positions measured; [0-9]+ copies of them are left out of training$'
    check "24 records, each once, seed $seed" test "$(held h24-$seed)" = "24 24"
    run verify h24-$seed
    exits 0
done
first_ce() { sed -n 1p "$1/run/metrics.jsonl" | sed 's/.*"ce": *\(\[[^]]*\]\).*/\1/'; }
check "the seed chooses" test "$(first_ce h24-0)" != "$(first_ce h24-5)"
for weight in 1 0.3 4; do
    run $train --data low.jsonl,weight=$weight --data high.jsonl --held-out 24 --out w$weight
    exits 0
    out_has '^held out  24 records \([0-9]+ of low\.jsonl, [0-9]+ of high\.jsonl\), [0-9]+ rows, '
    check "weight $weight: 24 records" test "$(held w$weight)" = "24 24"
    check "weight $weight: the same ones" test "$(first_ce w$weight)" = "$(first_ce w1)"
done
run $train --data three.jsonl --held-out 2 --out h2
exits 0
out_has '^held out  2 records, '
run $train --data three.jsonl --data three.jsonl --held-out 3 --out x
exits 5
err_has '^--held-out 3: the data has 3 records of distinct content that rows of 64 tokens take, and one must be left'

# A run of an earlier version, whose index says nothing of the choice: about a share, as it began.
unindexed() { # OUT: train.json as it was before
    python3 - "$1/run/data/train.json" <<'PY'
import json, sys
j = json.load(open(sys.argv[1]))
json.dump(j["sources"], open(sys.argv[1], "w"))
PY
}
mkdir -p old/run
cp -r h3/run/settings.json h3/run/data old/run
unindexed old
run train --resume --out old
exits 0
out_has '^held out  2 records, '
check "2 of 3 records, as it was" test "$(held old)" = "2 2"
run verify old
exits 0

# ---- measures of each source, and of each file of one ----
texts plain.jsonl 60 and
mkdir parts
sed -n 1,25p plain.jsonl >parts/first.jsonl
sed -n 26,60p plain.jsonl >parts/second.jsonl
run init --preset tiny-llama --seed 2 --dtype f32 t
same_apart() { # NAME...: each part is what eval measures of its file alone, and together they are the whole
    for part in first second; do
        $RETORT eval s --data parts/$part.jsonl --teacher t --json >$part.json || return 1
    done
    python3 - "$out" "$@" <<'PY'
import json, sys
whole, names = json.load(open(sys.argv[1])), sys.argv[2:]
parts = whole["parts"]
assert [p["name"] for p in parts] == names, parts
for p, alone in zip(parts, (json.load(open(n + ".json")) for n in ("first", "second"))):
    assert p["positions"] == alone["positions"] and p["documents"] == alone["documents"]
    for key, long in ("ce", "cross_entropy"), ("forward_kl",) * 2, ("agreement",) * 2, ("teacher_ce", "teacher_cross_entropy"):
        for a, b in zip(p[key], (alone[long]["mean"], alone[long]["error"])):
            assert abs(a - b) <= 1e-5 * (abs(b) + 1e-3), (p["name"], key, a, b)
mean = sum(p["ce"][0] * p["positions"] for p in parts) / whole["positions"]
assert abs(mean - whole["cross_entropy"]["mean"]) < 1e-9
PY
}
run eval s --data parts --teacher t --json
exits 0
check "files of a folder" same_apart first.jsonl second.jsonl
run eval s --data parts/first.jsonl --data parts/second.jsonl --teacher t --json
exits 0
check "sources" same_apart parts/first.jsonl parts/second.jsonl
run eval s --data parts --teacher t
out_has '^ +CE +KL +agreement +documents +of$'
out_has '^ +[0-9.]+ +[0-9.]+ +[0-9.]+ +25  first.jsonl$'
run eval s --data plain.jsonl --json
json_is '"parts" not in j'
run tokenize parts/first.jsonl parts/second.jsonl --model s -o both.rtok
exits 0
run eval s --data both.rtok --teacher t --json
check "sources of a token shard" same_apart parts/first.jsonl parts/second.jsonl
run distill --student s --teacher t --data plain.jsonl --eval-data parts --steps 2 --batch 2 --seq-len 64 --threads 2 --out apart
exits 0
out_has '^ +before +after +documents  KL of$'
out_has '^ +[0-9.]+ +[0-9.]+ +35  second.jsonl$'
check "in the log" python3 -c '
import json
evals = [v for v in map(json.loads, open("apart/run/metrics.jsonl")) if v["event"] == "eval"]
assert len(evals) > 1 and all([p["name"] for p in v["parts"]] == ["first.jsonl", "second.jsonl"] for v in evals)
assert all(sum(p["positions"] for p in v["parts"]) == v["positions"] for v in evals)'
check "in the report" grep -q '<tr><th scope="row">second.jsonl</th><td data-label="before">' apart/run/report.html
run verify apart
exits 0
# A name is whole, however long; only the folder that all have in common is left out.
mkdir -p sft/data
mv parts/first.jsonl sft/data/train_sft-00000-of-00002.jsonl
mv parts/second.jsonl sft/data/train_sft-00001-of-00002.jsonl
run train --student s --data plain.jsonl --eval-data sft/data --steps 1 --batch 2 --seq-len 64 --threads 2 --out sft-out
exits 0
out_has '^ +before +after +documents  cross-entropy of$'
out_has '^ +[0-9.]+ +[0-9.]+ +25  train_sft-00000-of-00002.jsonl$'
run eval s --data sft/data --rows 1 --seq-len 64
exits 0
out_has '^note: --rows 1: nothing of train_sft-0000[01]-of-00002.jsonl is measured$'
run eval s --data sft/data --rows 1000 --seq-len 64
out_lacks '^note: --rows'

# ---- columns of any name ----
cat >qa.jsonl <<'END'
{"text": "not this", "q": "How much?", "a": " So much."}
{"text": "nor this", "q": "How far?", "a": " So far."}
END
printf 'q,a\nHow much?, So much.\n' >qa.csv
run tokenize qa.jsonl --model s --show 1 --columns prompt=q,completion=a
exits 0
out_has 'How much?.* So much'
out_has completion
run tokenize qa.csv --model s --show 1 --columns prompt=q,completion=a
exits 0
out_has 'How much?.* So much'
run tokenize qa.csv --model s
exits 5
err_one_line
err_has 'its columns are .*q.*a.*--columns'
printf 'prompt,reply\nHow much?, So much.\n' >half.csv
run tokenize half.csv --model s
exits 5
err_one_line
err_has 'half.csv:2: .*columns prompt, reply is of no known kind.*--columns'
run tokenize qa.jsonl --model s --columns prompt=q
exits 2
err_has 'no whole record'
run eval s --data qa.jsonl --columns prompt=q,completion=a --threads 2
exits 0
run train --student s --data qa.jsonl --columns prompt=q,completion=a --steps 1 --threads 2 --out qa
exits 0
check "the columns are recorded" grep -q '"columns": "prompt=q,completion=a"' qa/run/manifest.json
run plan --student s --data qa.jsonl --columns text=q --steps 1
exits 0

# ---- what the card says of the data: names, never paths; ids of the hub; a licence that the student's card names ----
mkdir -p cache/datasets--org--sums/refs cache/datasets--org--sums/snapshots/abc licensed
cp chats.jsonl cache/datasets--org--sums/snapshots/abc/train.jsonl
printf abc >cache/datasets--org--sums/refs/main
cp s/* licensed/
printf -- '---\nlanguage: en\nlicense: "apache-2.0"\ntags:\n- x\n---\nlicense: mit\n' >licensed/README.md
card="train --batch 2 --seq-len 64 --steps 1 --threads 2 --sample-prompts none"
# shellcheck disable=SC2086
HF_HUB_CACHE=$work/cache run $card --student licensed --data org/sums --data "$work/low.jsonl,weight=0.5" --held-out 20 --out card
exits 0
check "the head" python3 - card/README.md <<'PY'
import sys
lines = open(sys.argv[1]).read().splitlines()
head = lines[1:lines.index("---", 1)]
assert head[:3] == ['license: "apache-2.0"', "datasets:", '- "org/sums"'], head
PY
check "the sources" grep -qF '| `org/sums` | 50 | 1 |' card/README.md
check "a file by its name" grep -qF '| `low.jsonl` | 100 | 0.5 |' card/README.md
check "what was held out" grep -qE '^20 of the records were held out, and [0-9]+ cop(y|ies) of them left out of training\.$' card/README.md
check "measures of each" grep -qE '^\| `low.jsonl` \| [0-9.]+ ± [0-9.]+ \| [0-9.]+ ± [0-9.]+ \| [0-9]+ \|$' card/README.md
check "no path" sh -c '! grep -qF "$0" card/README.md' "$work"
cp low.jsonl lower.jsonl # a name as long as the other
for folder in "" "$work/"; do
    into=two-card${folder:+-path}
    # shellcheck disable=SC2086
    run $card --student s --data "${folder}lower.jsonl" --data "${folder}chats.jsonl" --held-out 20 --out "$into"
    for name in lower chats; do
        check "measures of $name.jsonl" \
            grep -qE "^\\| \`$name.jsonl\` \\| [0-9.]+ ± [0-9.]+ \\| [0-9.]+ ± [0-9.]+ \\| [0-9]+ \\|\$" "$into/README.md"
    done
done
check "nor is a path in them" sh -c '! grep -qF "$0" two-card-path/README.md' "$work"
# shellcheck disable=SC2086
run $card --student s --data sft/data --held-out 4 --out plain-card
check "no licence and no datasets where none is known" sh -c '! grep -qE "^(license|datasets)" plain-card/README.md'

# ---- a folder as on the hub ----
mkdir -p hub/data
cp chats.jsonl hub/data/train-00000-of-00001.jsonl
head -n 7 chats.jsonl >hub/data/test-00000-of-00001.jsonl
ln -s . hub/self
run tokenize hub --model s
exits 0
out_has '^records +50 '
err_has 'hub: its split train is taken, left out: test; PATH:SPLIT takes another'
run tokenize hub:test --model s
exits 0
out_has '^records +7 '
mkdir chat
for name in train_sft train_gen test_sft test_gen; do cp chats.jsonl chat/$name-00000-of-00001.jsonl; done
run tokenize chat --model s
exits 0
out_has '^records +100 '
err_has 'chat: its splits train_gen, train_sft are taken, left out: test_gen, test_sft; PATH:SPLIT takes one of them'
run tokenize chat:train_sft --model s
out_has '^records +50 '
mkdir beside
cp chats.jsonl beside/a.jsonl
for name in README.md notes.txt run.py more.csv; do echo x >beside/$name; done
run tokenize beside --model s
err_has 'beside: 4 other files left out .run.py, README.md, more.csv and others.$'
run tokenize hub:dev --model s
exits 3
err_one_line
err_has 'no file of split dev is in it; there are train, test'
run train --student s --data hub --eval-data hub --steps 1 --threads 2 --out split
exits 0
out_has 'of the data, [^ ]*hub: its split train is taken, left out: test'
out_has 'to evaluate, [^ ]*hub: its split test is taken, left out: train'
run eval s --data hub --threads 2 --json
exits 0
out_has '"documents": 7'
printf '{"q":"a","a":"b"}\n{"q":"c","a":"d"}\n' >odd.jsonl
run tokenize odd.jsonl --model s --columns prompt=q,completion=b
check "refused" test "$status" != 0
err_has "a record has no 'b', which --columns names; what was read of it is q, a"

# A word in some names is no split where other files have none.
mkdir words
for name in src-train-loop src-base-file tests-unit; do cp input.txt words/$name.txt; done
run tokenize words --model s
exits 0
out_has '^records +3 '
out_lacks 'split'
finish
