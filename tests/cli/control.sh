# control.sh - `--control`: the same student without the teacher, on the same rows; killed and resumed in either part; drawn
# over the report.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 120 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
base="--data d.jsonl --batch 4 --seq-len 64 --threads 1 --steps 12 --eval-every 4 --save-every 3"
long="--teacher t --student s $base --control"

run distill $long --out whole
exits 0
out_has '^note +now the control, the same student without the teacher: same rows, 12 steps, into whole/run/control$'
out_has '^  without the teacher +[0-9.]+ +[0-9.]+$'
out_has '^whole: the model of step'
check "a run of its own" test -s whole/run/control/model.safetensors -a -s whole/run/control/run/report.html
check "its tokens are those of the run" test -d whole/run/control/run/data/ -a -L whole/run/control/run/data
check "settings without a teacher" python3 -c '
import json
a, b = (json.load(open(f"whole/{p}run/settings.json")) for p in ("", "run/control/"))
assert a.pop("hash") != b.pop("hash")
assert a.pop("teacher") == "t" and a.pop("control") is True and "teacher" not in b and "control" not in b
assert a.pop("teacher_weights") == "native" and "teacher_weights" not in b
assert a.pop("teacher_batch") == 4 and "teacher_batch" not in b
assert a.pop("teacher_memory") == "device" and "teacher_memory" not in b
assert (b["ce_weight"], b["kd_weight"], b["steps"]) == (1.0, 0.0, 12)
for key in set(a) - {"out", "ce_weight", "kd_weight", "alpha", "epochs"}:
    assert a[key] == b[key], key'
check "the same weights and rows at the first step, and another curve" python3 - <<'PY'
import json
def lines(path):
    return [json.loads(x) for x in open(path + "run/metrics.jsonl")]
a, b = lines("whole/"), lines("whole/run/control/")
steps = [[x for x in r if x["event"] == "step"] for r in (a, b)]
assert len(steps[0]) == len(steps[1]) == 12
for x, y in zip(*steps):
    for key in "step", "lr", "tokens", "trained":
        assert x[key] == y[key], (key, x, y)
    assert "divergence" in x and "divergence" not in y and abs(y["loss"] - y["ce"]) < 1e-12
assert abs(steps[0][0]["ce"] - steps[1][0]["ce"]) < 1e-5 * steps[0][0]["ce"]
assert abs(steps[0][-1]["ce"] - steps[1][-1]["ce"]) > 1e-3
evals = [[x for x in r if x["event"] == "eval"] for r in (a, b)]
assert abs(evals[0][0]["ce"][0] - evals[1][0]["ce"][0]) < 1e-5 and evals[0][0]["positions"] == evals[1][0]["positions"]
PY
for of in whole whole/run/control; do
    run verify $of
    exits 0
    out_has ' 0 failed, 0 not checked$'
done
run verify whole
out_has '^control +pass +the one that the manifest names'
cp -a whole altered
printf 'x' >>altered/run/control/README.md
run verify altered
exits 5
out_has '^control +FAIL +control/: files: README.md was altered'
cp whole/run/control/README.md altered/run/control/
printf '\n' >>altered/run/control/run/checkpoints/checkpoint-000012/state.safetensors
run verify altered
exits 5
out_has '^control +FAIL +control/: checkpoints: checkpoint-000012.*state.safetensors is damaged'
rm -rf altered/run/control
run verify altered
exits 0
out_has '^control +not checked +it is not there any more$'
# It is what `retort train` makes of the same settings.
run train --student s $base --lr 0.007 --out alone
exits 0
curve whole/run/control >control.curve
curve alone >alone.curve
check "the curve of retort train" cmp control.curve alone.curve
# And the run is what it is without a control.
run distill --teacher t --student s $base --out plain
exits 0
curve whole >whole.curve
curve plain >plain.curve
check "the run itself is not changed by it" cmp whole.curve plain.curve
check "nor its model" cmp whole/model.safetensors plain/model.safetensors

# ---- the report ----
check "both curves in the report" python3 - <<'PY'
import json, re
page = open("whole/run/report.html", encoding="utf-8").read()
runs = json.loads(re.search("id=\"data\">(.*?)</script>", page, re.S)[1])["runs"]
assert [r["name"] for r in runs] == ["whole", "control"], [r["name"] for r in runs]
assert all(len(r["train"]["ce"][0]) == 12 for r in runs)
PY
cp whole/run/report.html report.1
run report whole
exits 0
out_has '^control +step 12 of 12, finished'
check "retort report gives it again" cmp report.1 whole/run/report.html
run report whole --json
json_is '[r["name"] for r in j["runs"]] == ["whole", "control"] and j["report"].endswith("whole/run/report.html")'

# ---- killed and resumed ----
# killed LINES FILE: SIGKILL when FILE of the run has so many lines.
killed() {
    shown="retort, killed when $2 has $1 lines"
    rm -rf part
    python3 - "$RETORT" "$1" "part/$2" $long <<'PY'
import os, shlex, subprocess, sys, time
binary, lines, path, *args = sys.argv[1:]
process = subprocess.Popen(shlex.split(os.environ.get("EMU", "")) + [binary, "distill", *args, "--out", "part"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
while process.poll() is None:
    try:
        if open(path).read().count("\n") >= int(lines):
            process.kill()
    except OSError:
        pass
    time.sleep(0.001)
sys.exit(0 if process.wait() == -9 else 1)
PY
    status=$?
    exits 0
}
for where in "5 run/metrics.jsonl" "14 run/metrics.jsonl" "1 run/control/run/settings.json" "7 run/control/run/metrics.jsonl" "15 run/control/run/metrics.jsonl"; do
    killed ${where% *} "${where#* }"
    run distill --resume --out part
    exits 0
    out_has '^  without the teacher +[0-9.]+'
    curve part >part.curve
    curve part/run/control >part-control.curve
    check "the run's curve to the bit" cmp whole.curve part.curve
    check "the control's curve to the bit" cmp control.curve part-control.curve
    check "both models" sh -c 'cmp whole/model.safetensors part/model.safetensors && cmp whole/run/control/model.safetensors part/run/control/model.safetensors'
    check "nothing is left over" test -z "$(find part -name '.*' ! -name .gitignore)"
    run verify part
    exits 0
    out_has '^control +pass '
    out_has ' 0 failed, 0 not checked$'
done
STOP_LOG=run/control/run/metrics.jsonl stop INT 5 int distill $long
sums whole/run/control/model.safetensors whole/model.safetensors | sed 's/ [^ ]*$//' >sums.1
exits 130
err_has 'stopped after step [0-9]+ of 12; to resume: retort distill --resume '
run distill --resume --out int
exits 0
sums int/run/control/model.safetensors int/model.safetensors | sed 's/ [^ ]*$//' >sums.2
check "interrupted and resumed: the same" cmp sums.1 sums.2

# A control can be asked for later; a run that was moved keeps it.
run distill --resume --out plain --control
exits 0
curve plain/run/control >later.curve
check "asked for afterwards: the same" cmp control.curve later.curve
mkdir elsewhere
mv plain elsewhere/plain
run distill --resume --out elsewhere/plain
exits 0
run train --resume --out elsewhere/plain/run/control
exits 0

# What only the teacher has goes along: its template, or its tokenizer where the student has none.
python3 - <<'PY'
import json
with open("chat.jsonl", "w") as f:
    for i in range(60):
        f.write(json.dumps({"messages": [{"role": "user", "content": f"{i}?"}, {"role": "assistant", "content": f"{i}!"}]}) + "\n")
config = json.load(open("t/tokenizer_config.json"))
config["chat_template"] = "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}" \
                          "{% if add_generation_prompt %}<|im_start|>assistant: {% endif %}"
json.dump(config, open("t/tokenizer_config.json", "w"))
PY
run init --preset tiny-qwen2 --seed 1 --dtype f32 --no-tokenizer bare
few="--teacher t --data chat.jsonl --batch 2 --seq-len 64 --threads 1 --steps 3 --control"
run distill $few --student s --chat-template teacher --out of-teacher
exits 0
check "the teacher's template, not the student's, in both" sh -c 'grep -q "m.role }}: " of-teacher/run/control/chat_template.jinja &&
    cmp of-teacher/chat_template.jinja of-teacher/run/control/chat_template.jinja'
run distill --resume --out of-teacher
exits 0
run distill $few --student bare --vocab 259 --out bare-run
exits 0
check "the teacher's tokenizer in both" cmp bare-run/tokenizer.json bare-run/run/control/tokenizer.json

# ---- refused ----
run train --student s $base --control --out x
exits 2
err_has "unknown flag '--control'"
printf 'student: s\ndata: d.jsonl\ncontrol: true\n' >x.yaml
run train --config x.yaml --out x
exits 5
err_has 'leave --control out'
run distill --teacher t --student s $base --contrl --out x
exits 2
err_has 'did you mean --control'
check "nothing was made" test ! -e x
finish
