# preview.sh - what is printed before the first step: the objective, tokens, overlap of held-out and training text, samples
# with their mask; on a terminal and elsewhere.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
# Three files of records that have no 13 tokens in common, but for `again`, which repeats a half of `other`.
python3 - <<'PY'
import json, random
def write(name, seed, count, more=()):
    rng = random.Random(seed)
    letters = [chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"\\']
    lines = [{"text": "".join(rng.choice(letters) for _ in range(40))} for _ in range(count)]
    with open(name, "w") as f:
        for x in lines + list(more):
            f.write(json.dumps(x) + "\n")
    return lines
write("train.jsonl", 1, 60)
other = write("other.jsonl", 2, 40)
write("again.jsonl", 1, 60, other[:20])
with open("chat.jsonl", "w") as f:
    for i in range(60):
        f.write(json.dumps({"messages": [{"role": "user", "content": f"say\tthe {i}\u001b[31m"},
                                         {"role": "assistant", "content": "x" * 300 if i % 2 else f"the {i}."}]}) + "\n")
PY
base="--teacher t --student s --batch 4 --seq-len 64 --epochs 1 --threads 1 --lr 0"

run distill $base --data train.jsonl --eval-data other.jsonl --out apart
exits 0
out_has '^objective loss = 0\.10 CE \+ 0\.90 KL\(teacher\|\|student\), T 1, 98 % of tokens trained$'
out_has '^data +60 records, [0-9]+ rows of 64 tokens a pass$'
out_has '^tokens +2400 trained, 60 masked$'
out_has '^held out  40 records, 40 rows, 1600 positions measured$'
out_has '^overlap +0\.0 % of held-out 13-grams are in the training text too \(in 0 of 40 texts\)$'
out_lacks '^warning +the held-out loss'
out_has '^sample 1  .\[\[[^]]+\]\]$'
out_has '^ +\[\[text in these\]\] is trained, the rest is read only$'
check "two samples, before the first step" python3 - "$out" <<'PY'
import sys
lines = open(sys.argv[1]).read().splitlines()
samples = [i for i, line in enumerate(lines) if line.startswith("sample ")]
assert len(samples) == 2 and samples[-1] < next(i for i, line in enumerate(lines) if line.startswith("eval 0"))
PY

# What the row length does to the evaluation data is said in the words that training data has.
run distill $base --data train.jsonl --eval-data chat.jsonl --out cut
exits 5
err_has '--allow-drop'
run distill $base --data train.jsonl --eval-data chat.jsonl --allow-drop --out cut
exits 0
out_has '^held out  30 records, 30 rows, [0-9]+ positions measured, 30 records dropped \(too long\)$'
run eval s --data chat.jsonl --seq-len 64 --allow-drop
exits 0
out_has '^records +60, 30 records dropped \(too long\)$'
run eval s --data chat.jsonl --seq-len 64 --allow-drop --json
json_is 'j["records"] == 60 and j["dropped"] == 30 and j["shortened"] == j["split"] == 0'
run eval s --data other.jsonl --seq-len 24
out_has '^records +40, 40 texts split$'
run eval s --data other.jsonl --seq-len 64
out_lacks '^records'

# A half of the held-out text is trained on: exactly so many of its positions, and a warning.
run distill $base --data again.jsonl --eval-data other.jsonl --out half
exits 0
out_has '^overlap +50\.0 % of held-out 13-grams are in the training text too \(in 20 of 40 texts\)$'
out_has '^warning   the held-out loss will look better than it is: .*--eval-data'
# Only text that this run reads counts: with one step of four rows most of it is not.
run distill --teacher t --student s --batch 4 --seq-len 64 --steps 1 --threads 1 --data again.jsonl --eval-data other.jsonl --out one
exits 0
check "less than a half" python3 -c '
import re, sys
share = float(re.search(r"^overlap +([0-9.]+) %", open(sys.argv[1]).read(), re.M)[1])
assert share <= 10, share' "$out"
printf '{"text": "short one %d"}\n' 1 2 3 4 5 6 7 >tiny.jsonl
run distill $base --data train.jsonl --eval-data tiny.jsonl --out few
exits 0
out_has '^overlap +not measured: no held-out text has 13 tokens$'

# The mask of a chat: what the assistant says, with the end of its turn. Nothing reaches a terminal that it would act on.
run distill --teacher t --student s --batch 2 --seq-len 512 --steps 2 --threads 1 --data chat.jsonl --out chat
exits 0
out_has '^sample [12]  <\|im_start\|>user\\nsay\\tthe [0-9]+\\x1b\[31m<\|im_end\|>\\n<\|im_start\|>assistant\\n\[\['
check "masked and trained pieces, long ones shortened" python3 - "$out" <<'PY'
import re, sys
text = open(sys.argv[1], newline="").read()
assert "\x1b" not in text
samples = re.findall(r"^sample \d  (.*)$", text, re.M)
assert len(samples) == 2, samples
for s in samples:
    number = re.search(r"the (\d+)", s)[1]
    trained = re.findall(r"\[\[(.*?)\]\]", s)
    want = f"the {number}.<|im_end|>" if int(number) % 2 == 0 else None
    assert len(trained) == 1 and (trained[0] == want if want else " [...] " in trained[0] and len(trained[0]) < 260), s
PY
check "the run itself is that without a preview" test -s chat/run/metrics.jsonl

# Of a run that goes on only what it does is said.
run distill --resume --out chat --steps 3 --override
exits 0
out_has '^objective loss'
out_lacks '^(sample|overlap)'

# On a terminal: bright and dim.
shown="retort distill on a terminal"
python3 - "$out" "$RETORT" <<'PY'
import os, pty, shlex, sys
def read(fd):
    data = os.read(fd, 65536)
    with open(sys.argv[1], "ab") as f:
        f.write(data)
    return data
open(sys.argv[1], "wb").close()
null = os.open(os.devnull, os.O_WRONLY)
os.dup2(null, 1)
command = shlex.split(os.environ.get("EMU", "")) + [sys.argv[2]]
sys.exit(os.waitstatus_to_exitcode(pty.spawn(command + "distill --teacher t --student s --batch 2 --seq-len 512 --steps 1 --threads 1 "
                                             "--data chat.jsonl --out terminal".split(), read, lambda fd: b"")))
PY
status=$?
exits 0
check "trained text is bright, masked text dim" python3 - "$out" <<'PY'
import re, sys
text = open(sys.argv[1], newline="").read()
assert re.search(r"^sample 1  \x1b\[2m<\|im_start\|>user.*?\x1b\[0m\x1b\[1m[^\x1b]*<\|im_end\|>\x1b\[0m", text, re.M), text[:2000]
assert "[[" not in text
PY
finish
