# rate.sh - what a run decides by itself: its learning rate from the first evaluation, how often it evaluates and on how
# much, when to stop; and what it says when the rate is too high or rounding undoes what was learned.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

setting() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1] + "/run/settings.json")).get(sys.argv[2]))' "$@"; }
lines() { check "$1 of them: $2" test "$(grep -c -E -e "$2" "$out")" = "$1"; }

texts d.jsonl 240 and
run init --preset tiny-llama --seed 2 --dtype f32 t
run train --student t --data d.jsonl --batch 4 --seq-len 64 --steps 120 --out taught --sample-prompts none
exits 0
check "random weights have their class and its rate" test "$(setting taught lr_class) $(setting taught lr)" = "random 0.007"
# The first layer alone is almost its teacher here, the second alone is not.
run init --from taught --layers 0 first
run init --from taught --layers 1 second
base="--data d.jsonl --batch 4 --seq-len 64 --threads 2 --sample-prompts none"
rare="--teacher taught --student second $base --held-out 24"
pair="$rare --eval-every 4"

# ---- the class is measured ----
run distill $pair --steps 8 --out far
exits 0
out_has '^train .* lr 0\.00182 or 0\.0182 \(near or far, measured before step 1\) cosine'
lines 1 '^note      lr 1\.82e-02: the student is far from the teacher \(KL [0-9.]+ nats at the start\)$'
check "KL at the start is a nat or more" less 0.9999 "$(metric far 0 forward_kl)"
check "class and rate are in the record" test "$(setting far lr_class)" = far
check "the rate is that of the class" python3 -c 'import json
j = json.load(open("far/run/manifest.json"))["settings"]
assert abs(j["lr"] - 1.3e-3 * 896 / 64) < 1e-12 and j["lr_class"] == "far"
steps = [json.loads(l) for l in open("far/run/metrics.jsonl")]
assert max(s["lr"] for s in steps if s["event"] == "step") <= j["lr"]'
run verify far
exits 0
run distill --teacher taught --student first $base --held-out 24 --eval-every 4 --steps 8 --out near
exits 0
out_has '^note      lr 1\.82e-03: the student is near the teacher \(KL 0\.[0-9]+ nats at the start\)$'
check "near" test "$(setting near lr_class)" = near
run distill --teacher taught --student first $base --held-out 24 --eval-every 4 --steps 8 --lora --out adapters
out_has '^note      lr 3\.64e-03: the student is near the teacher'
# Without a teacher: cross-entropy against the vocabulary's logarithm.
run train --student second $base --held-out 24 --eval-every 4 --steps 8 --out alone
out_has '^note      lr (1\.82e-02: the student is far from|5\.00e-05: the student is already) trained \(cross-entropy [0-9.]+ nats at the start\)$'
run train --student taught $base --held-out 24 --eval-every 4 --steps 8 --out more
out_has '^note      lr 5\.00e-05: the student is already trained \(cross-entropy [0-9.]+ nats at the start\)$'

# ---- what is said wins, and a class stands for its rate to the bit ----
run distill $pair --steps 8 --lr 1e-3 --out given
out_lacks '^note      lr '
check "no class is recorded" test "$(setting given lr_class) $(setting given lr)" = "None 0.001"
run distill $pair --steps 8 --lr-class far --out told
out_lacks '^note      lr '
check "the same curve" test "$(curve told)" = "$(curve far)"
run distill $pair --steps 8 --lr-class wide --out x
exits 2
err_has "--lr-class 'wide' is unknown; use one of near, far, random"
run plan $pair --steps 8
out_has '^train .* lr 0\.00182 or 0\.0182 \(near or far, measured before step 1\)'
run plan $pair --steps 8 --json
json_is 'abs(j["lr"]["near"] - 0.00182) < 1e-9 and abs(j["lr"]["far"] - 0.0182) < 1e-9'
run distill $pair --steps 20 --smoke
exits 0
out_has '^note      lr 1\.82e-02: the student is far'

# ---- a resumed run never chooses again ----
for lines in 1 3 7; do
    rm -rf stopped
    stop KILL $lines stopped distill $pair --steps 12 --save-every 3
    run distill --resume --out stopped
    exits 0
    test $lines = 7 && out_lacks '^note      lr '
    test -d whole || run distill $pair --steps 12 --save-every 3 --out whole
    check "the same curve, stopped after $lines lines" test "$(curve stopped)" = "$(curve whole)"
    check "and weights" cmp stopped/model.safetensors whole/model.safetensors
    check "and rate" test "$(setting stopped lr)$(setting stopped lr_class)" = "$(setting whole lr)far"
done
run distill --resume --out whole --lr 1e-3
exits 5
err_has '^--lr: was 0\.0182, now 0\.001$'
# The control has the rate of its run, though by itself it would get another.
run distill --teacher taught --student first $base --held-out 24 --eval-every 4 --steps 8 --control --out both
exits 0
lines 1 '^note      lr '
check "one rate" test "$(setting both/run/control lr)" = "$(setting both lr)"

# ---- a rate that is too high ----
run distill $rare --steps 12 --eval-every 2 --lr 5 --out high
exits 0
out_has '^note      --lr 5 is more than ten times the highest default, 0\.0182: .*leave --lr out'
lines 1 '^note      held-out KL is [0-9.]+ after step [0-9]+, worse than the [0-9.]+ before the first step .*: --lr 0\.0182$'
run train --student taught $base --held-out 24 --steps 40 --eval-every 40 --warmup 40 --lr 0.15 --out jumps
lines 1 '^note      the loss rises: its mean over the last 20 steps is .*: --lr '
out_lacks 'more than ten times'

# ---- --stop-if-worse ----
worse="$rare --steps 40 --eval-every 2 --lr 0.5 --warmup 40 --stop-if-worse 3"
run distill $worse --out early
exits 0
out_has '^stopped   at step [0-9]+ of 40: the last 3 evaluations were worse than the best by more than its standard error \(--stop-if-worse\)$'
out_has '^early: the model of step [0-9]+ \(the best\), read back'
check "the end is where three in a row were worse, and the best is at the root" python3 -c 'import json
evals = [j for j in map(json.loads, open("early/run/metrics.jsonl")) if j["event"] == "eval"]
kl = [e["forward_kl"] for e in evals]
best = min(range(len(kl)), key=lambda i: kl[i][0])
worse = [k[0] > min(kl[:i + 1])[0] + min(kl[:i + 1])[1] for i, k in enumerate(kl)]
assert worse[-3:] == [True] * 3 and not any(worse[i:i + 3] == [True] * 3 for i in range(len(worse) - 3)), kl
m = json.load(open("early/run/manifest.json"))
assert m["finished"] and m["measured"]["stopped"] == {"why": "stop_if_worse", "of": 40}
assert m["measured"]["steps"] == evals[-1]["step"] < 40 and m["output"]["step"] == evals[best]["step"] > 0'
run verify early
exits 0
out_lacks 'fail  '
run report early
out_has 'step [0-9]+ of 40, stopped early'
check "the page says why it ended" grep -q 'of 40 steps: --stop-if-worse ended the run' early/run/report.html
before=$(curve early)
run distill --resume --out early
exits 0
out_lacks '^step '
check "a resumed one does not run on" test "$(curve early)" = "$before"
run verify early
exits 0
stop KILL 12 early-killed distill $worse --save-every 3
run distill --resume --out early-killed
exits 0
check "killed and resumed, it ends at the same step" test "$(curve early-killed)" = "$before"
# By epochs the number of steps is not in the settings, and the audit still knows the schedule.
run distill $rare --epochs 1 --eval-every 2 --lr 0.5 --warmup 40 --stop-if-worse 3 --out passes
out_has '^stopped   at step '
run verify passes
exits 0
# A log that ends early without such evaluations is not believed.
cp -r early forged
python3 - <<'PY'
import json
lines = open("forged/run/metrics.jsonl").read().splitlines()
j = json.loads(lines[-1])
assert j["event"] == "eval"
j["forward_kl"][0] = 0.0
open("forged/run/metrics.jsonl", "w").write("\n".join(lines[:-1] + [json.dumps(j)]) + "\n")
PY
run verify forged
exits 5
out_has 'the log ends at step [0-9]+, the run at 40'
run distill $pair --steps 12 --lr 1e-3 --stop-if-worse 3 --out calm
out_lacks '^stopped '

# ---- how much is evaluated ----
texts many.jsonl 4000 with
run distill --teacher taught --student second --data many.jsonl --batch 4 --seq-len 64 --threads 2 --steps 60 --sample-prompts none --out short
exits 0
out_has '^evaluate  at the start and every 60 steps, on 15 of [0-9]+ rows of 32 held-out records, about (9\.[0-9]+|10) % of the run.s arithmetic$'
out_lacks '^note      evaluations are about [0-9]+ %'
out_has '^time .* with evaluations and saves: [0-9:]+, evaluations [0-9]+ % of it$'
check "what was chosen is in the record" test "$(setting short held_out) $(setting short eval_every) $(setting short eval_rows)" = "0.8% 60 15"
run plan --teacher taught --student second --data many.jsonl --batch 4 --seq-len 64 --steps 8000
out_has '^evaluate  at the start and every 400 steps, on 128 held-out records, about [0-9.]+ % of the run.s arithmetic$'
out_has '^time .* an evaluation takes .*, all of them [0-9]+ %; a checkpoint '
run plan $rare --steps 12 --eval-every 1
out_has '^note      evaluations are about [0-9]+ % of the run.s arithmetic; --eval-rows [0-9]+ --eval-every (50|100)% takes less$'

# ---- rounding ----
run init --from taught --layers 1 --dtype bf16 coarse
run distill --teacher taught --student coarse $base --held-out 160 --steps 3 --eval-every 3 --lr 4e-5 --warmup 0 --schedule constant --out lost
exits 0
out_has '^saved     rounding to bf16 undid small updates: held-out cross-entropy was [0-9.]+ in memory and is [0-9.]+ from the files; --save-dtype f32 keeps them$'
# What the run said of itself is no alteration; one that comes on top is.
run verify lost
exits 5
out_has '^held-out logged +FAIL .* its verdict says that this is too far$'
out_has '^verdict +pass .* [1-9] fail,'
err_has '^lost: the files are as the run left them, and its claim F-OUTPUT-RELOAD-001 does not hold, as its verdict said: 1 of [0-9]+ checks failed$'
cp -r lost altered
printf ' ' >>altered/config.json
run verify altered
exits 5
err_has '^altered is not as the run left it: 2 of [0-9]+ checks failed$'
run distill --teacher taught --student coarse $base --held-out 160 --steps 3 --eval-every 3 --lr 4e-5 --warmup 0 --schedule constant --save-dtype f32 --out kept
exits 0
out_lacks '^saved     rounding'
check "and it does" less "$(python3 -c 'import json; print(json.load(open("kept/run/manifest.json"))["measured"]["saved"]["ce"][0])')" "$(python3 -c 'import json; print(json.load(open("lost/run/manifest.json"))["measured"]["saved"]["ce"][0])')"

finish
