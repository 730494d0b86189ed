# fp8.sh - a teacher in fp8 through a whole run: what plan, distill and verify say and measure, --resume to the same bits,
# what is refused, and that a device without fp8 decides as it always did. Evaluations: eval.sh; the C API: one_door.sh.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 200 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
base="--teacher t --student s --data d.jsonl --steps 12 --batch 4 --micro-batch 2 --seq-len 64 --threads 2 --lr 1e-3"
base="$base --eval-every 4 --save-every 4"

# ---- plan: bytes and ops ----
for weights in bf16 fp8; do
    run plan $base --teacher-weights $weights --ops --json
    cp "$out" plan-$weights.json
    run plan $base --teacher-weights $weights --ops
    exits 0
    cp "$out" plan-$weights
done
out_has "^weights +the teacher's are quantised to fp8 once, as the settings say$"
check "GEMMs of codes, quantised by rows" grep -q 'matmul_scaled' plan-fp8
check "of four inputs of a layer, attention's output by an op of its own" sh -c '
    test $((4 * $(grep -Ec "^ *[0-9]+ +quant_rows " plan-fp8))) = "$(grep -Ec "^ *[0-9]+ +matmul_scaled " plan-fp8)"'
check "and only there" sh -c '! grep -E "matmul_scaled|quant_rows" plan-bf16'
check "matrices of a layer take half of what bf16 takes" python3 - <<'PY'
import json
a, b = (json.load(open(f"plan-{w}.json"))["memory"]["classes"]["parameter"] for w in ("bf16", "fp8"))
c = json.load(open("t/config.json"))
width, hidden, head = c["hidden_size"], c["intermediate_size"], c["hidden_size"] // c["num_attention_heads"]
q, kv = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
values = c["num_hidden_layers"] * width * (2 * q + 2 * kv + 3 * hidden)
rows = c["num_hidden_layers"] * (q + 2 * kv + 2 * width + 2 * hidden)
saved, want = a - b, values - 4 * rows  # a scale of four bytes for each row
assert abs(saved - want) < 0.02 * want + 4096, (saved, want)
PY

# ---- a run ----
run distill $base --teacher-weights fp8 --out whole
exits 0
out_has "^weights +the teacher's are quantised to fp8 once, as the settings say$"
check "recorded" grep -q '"teacher_weights": "fp8"' whole/run/settings.json
check "it learns" less "$(metric whole last forward_kl)" "$(metric whole 0 forward_kl)"
run distill $base --teacher-weights bf16 --out bf16
check "from another teacher" sh -c '! cmp whole/model.safetensors bf16/model.safetensors'
check "by a little" python3 -c '
import sys
a, b = map(float, sys.argv[1:])
assert 0 < abs(a - b) < 0.1 * b, (a, b)' "$(metric whole last forward_kl)" "$(metric bf16 last forward_kl)"
run verify whole
exits 0
out_has '^held-out after +pass '
# Measured with another teacher, verify would see it.
cp -r whole other
python3 - <<'PY'
import json
j = json.load(open("other/run/settings.json"))
j["teacher_weights"] = "native"
json.dump(j, open("other/run/settings.json", "w"))
PY
run verify other
check "settings that say otherwise are found out" test "$status" != 0

# ---- resume ----
curve whole >whole.curve
stop INT 5 part distill $base --teacher-weights fp8
exits 130
run distill --resume --out part
exits 0
out_has "^weights +the teacher's are quantised to fp8 once, as the settings say$"
curve part >part.curve
check "the curve is that of the whole run" cmp whole.curve part.curve
check "and so is the model" cmp whole/model.safetensors part/model.safetensors
run distill --resume --out part --fit --override --steps 16
exits 0
check "--fit decides anew, as a device without fp8 does" grep -q '"teacher_weights": "native"' part/run/settings.json

# ---- auto, where the device gains nothing by fp8 ----
run distill $base --out auto
exits 0
out_has "^weights +the teacher's stay as they are stored: this device multiplies them so$"
out_lacks 'fp8'
check "native is recorded" grep -q '"teacher_weights": "native"' auto/run/settings.json

# ---- settings files, and what is refused ----
printf 'teacher: t\nstudent: s\ndata: d.jsonl\nsteps: 2\nbatch: 4\nseq_len: 64\nteacher_weights: fp8\n' >run.yaml
run distill --config run.yaml --out from-yaml
exits 0
check "from a file" grep -q '"teacher_weights": "fp8"' from-yaml/run/settings.json
run distill $base --teacher-weights fp4 --out none
exits 2
err_has "--teacher-weights 'fp4' is unknown; use one of auto, native, bf16, fp8 or fp8-native"
run train --student s --data d.jsonl --steps 2 --teacher-weights fp8 --out none
exits 2
err_has "unknown flag '--teacher-weights'"
printf 'student: s\ndata: d.jsonl\nsteps: 2\nteacher_weights: fp8\n' >alone.yaml
run train --config alone.yaml --out none
exits 5
err_has 'retort train has no teacher; leave --teacher-weights out'
check "nothing was begun" test ! -e none
finish
