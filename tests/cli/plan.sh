# plan.sh - `retort plan`: what it says, that it leaves nothing behind, and that the run keeps to it: allocations, the
# peak of the process, sizes on disk; limits to the byte; smoke tests and runs by the clock. Its time: plan_time.sh.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 400 and
texts large.jsonl 1200 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
mkdir tmp
export TMPDIR="$work/tmp"
pair="--teacher t --student s --data d.jsonl --batch 8 --seq-len 64 --threads 2"
# fact NAME: of the plan in plan.json, as Python sees it.
fact() { python3 -c 'import json, sys; print(eval(sys.argv[1], {"j": json.load(open("plan.json"))}))' "$1"; }

# ---- words ----
run plan --help
exits 0
out_has '^usage: retort plan '
out_has '^example:'
out_has '^  --ops '
out_has '^  --memory-limit SIZE '
out_lacks '^  --resume'
run plan --data d.jsonl
exits 2
err_has '--student is missing'
run plan --student gone --data d.jsonl
exits 3
run plan $pair --memory-limit lots
exits 2
err_has "--memory-limit takes a size such as 22GiB or 500MB, not 'lots'"
run plan $pair --fit --micro-batch 2
exits 2
err_has '--fit chooses --micro-batch, --recompute, --teacher-weights and --teacher-memory'
run plan $pair --time 1x
exits 2
err_has '8h, 90m or 1h30m'
run plan $pair --time 1h --steps 3
exits 2
err_has '--steps, --tokens, --epochs and --time exclude one another'

# ---- what it says ----
run plan $pair --steps 100
exits 0
err_empty
cp "$out" plan.text
out_has '^memory +[0-9.]+ MiB on the device$'
out_has '^ +[0-9.]+ KiB  gradients$'
out_has "^ +fullest at op [0-9]+ of 'first micro-batch': kd_loss, head chunk 0, "
out_has '^step +[0-9.]+ MFLOP, about [0-9.]+ m?s '
out_has '^ +[0-9.]+ MFLOP  teacher, '
out_has '^time +[0-9]+:[0-9]+ for 100 steps; an evaluation takes '
out_has '^disk +[0-9.]+ MiB a checkpoint, [0-9.]+ MiB at most$'
out_has '^verdict +fits$'
out_lacks 'embed_fwd'
check "nothing is left" test -z "$(ls -A tmp)"
run plan $pair --steps 100 --ops
exits 0
out_has '^ +0  embed_fwd .*embedding'
out_has '^plan update: '
run plan --student s --data d.jsonl --batch 8 --seq-len 64 --json
exits 0
json_is 'j["flops"]["teacher"] == 0 and j["flops"]["student"] > 0 and j["fit"]["fits"]'
json_is 'sum(j["memory"]["classes"].values()) == j["memory"]["total"]'
run plan $pair --out kept --time 1h --json
exits 0
json_is 'j["batch"]["steps"] == 0 and 3000 < j["seconds"]["run"] <= 3600'
check "--out is not touched" test ! -e kept

# ---- the run keeps to it ----
run distill $pair --steps 12 --eval-every 12 --save-every 12 --out o
exits 0
out_has '^time +[0-9.]+ m?s a step over 10 steps; all 12 with evaluations and saves: 0:[0-9]+, evaluations [0-9]+ % of it$'
check "a projection once" test "$(grep -c 'with evaluations and saves' "$out")" = 1
sed -n '/^memory/,/^ *fullest/p' plan.text >planned
sed -n '/^memory/,/^ *fullest/p' o/run/plan.txt >written
check "the run's plan.txt has the plan's memory" cmp planned written
check "and every op" grep -q '^plan teacher forward: ' o/run/plan.txt
run plan $pair --steps 12 --json
cp "$out" plan.json
size=$(find o/run/checkpoints/checkpoint-000012 -type f ! -name state.json -printf '%s\n' | awk '{ n += $1 } END { print n }')
check "a checkpoint has the size of the plan" test "$size" = "$(fact 'j["disk"]["checkpoint"]')"

# The peak of the process, with enough memory for it to tell: without the activations it would be far below.
large="--student s --data large.jsonl --batch 64 --micro-batch 64 --recompute none --seq-len 512 --threads 2 --head-chunk 32768
    --steps 1 --eval-every 1 --save-every 1"
run plan $large --json
exits 0
cp "$out" plan.json
if [ -z "${EMU:-}${SAN_FLAGS:-}" ]; then
    shown="the peak of a process"
    check "within 5 % + 64 MiB of the plan" python3 -c '
import json, resource, subprocess, sys
m = json.load(open("plan.json"))["memory"]
plan = m["total"] + m["process"]
assert m["total"] > 128 << 20, m
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
assert abs(peak - plan) <= 0.05 * plan + (64 << 20), (peak, plan)' "$RETORT" train $large --out peak
fi

# ---- limits ----
fixed="$pair --steps 4 --micro-batch 8 --recompute none --teacher-memory device"
run plan $fixed --json
cp "$out" plan.json
need=$(fact 'j["memory"]["total"]')
run plan $fixed --memory-limit "$need"
exits 0
out_has '^limit .*, as given$'
run plan $fixed --memory-limit $((need - 1))
exits 13
err_one_line
out_has '^verdict +does not fit: 1 B too much$'
out_has '^would fit --recompute mlp:1 \('
run plan $fixed --memory-limit $((need - 1)) --json
exits 13
json_is 'not j["fit"]["fits"] and 0 < j["fit"]["would_fit"][0]["memory"] < j["memory"]["total"]'
cp "$out" plan.json
mix=$(fact 'j["fit"]["would_fit"][0]["recompute"]')
run distill $fixed --memory-limit $((need - 1)) --out refused
exits 13
err_one_line
err_has "the run allocates .*, and --memory-limit is .*; what fits: --recompute $mix \("
check "nothing was made" test ! -e refused
run distill $pair --steps 4 --recompute "$mix" --memory-limit $((need - 1)) --micro-batch 8 --out offered
exits 0
# What is not said is chosen, told, recorded and kept.
run distill $pair --steps 4 --memory-limit $((need - 1)) --out chosen
exits 0
out_has "^fit +--recompute $mix: .* would be needed without, and the limit is .*; a step takes about [0-9.]+ % more"
check "it is recorded" grep -q "\"recompute\": \"$mix\"" chosen/run/settings.json
curve chosen >chosen.curve
curve offered >offered.curve
check "as if it had been said" cmp chosen.curve offered.curve
run distill --resume --out chosen --memory-limit 1GiB --steps 6 --override
exits 0
check "a resumed run keeps it" grep -q "\"recompute\": \"$mix\"" chosen/run/settings.json
run plan $pair --recompute block:3
exits 5
err_has '--recompute names 3 layers, and backward reaches 2 of the student; lower it'

# ---- what is kept for backward ----
# Between nothing and every block: a mix of layers, sealed as planned, of fewer FLOPs than every block.
run plan $fixed --json
cp "$out" plan.json
most=$(fact 'j["memory"]["total"]')
run plan $pair --micro-batch 8 --recompute block --json
cp "$out" plan.json
least=$(fact 'j["memory"]["total"]')
flops=$(fact 'j["flops"]["student"]')
run plan $pair --micro-batch 8 --memory-limit $(((most + least) / 2)) --json
exits 0
json_is 'j["fit"]["fits"] and ":" in j["fit"]["chosen"]["recompute"] and 0 < j["fit"]["recomputing"] <= j["fit"]["slower"] + 1e-9'
json_is "j['memory']['total'] == j['fit']['chosen']['memory'] <= ($most + $least) // 2 and j['flops']['student'] < $flops"
run plan $pair --micro-batch 8 --memory-limit $(((most + least) / 2))
out_has '^batch +8 rows of 64 positions, 8 at a time, .* recomputed for backward, about [0-9.]+ % more of a step$'
out_has '^verdict +fits with --recompute [a-z:0-9,]+, chosen because .* would be needed without; a step takes about [0-9.]+ % more$'
run plan $pair --memory-limit 1MiB
exits 13
out_has '^would fit nothing that changes the run alone'

# ---- smoke, and the clock ----
run distill $pair --steps 300 --smoke
exits 0
out_has '^time +.* over 10 steps; all 300 with evaluations and saves: [0-9]+:[0-9]+, evaluations [0-9]+ % of it$'
check "nothing is left" test -z "$(ls -A tmp)"
run distill $pair --smoke --resume --out o
exits 2
err_has '--smoke and --resume exclude one another'
run train --student s --data d.jsonl --batch 8 --seq-len 64 --time 2s --out clock
exits 0
out_has '^note +[0-9]+ steps took .*s each: --time 2s is --steps [0-9]+$'
steps=$(sed -n 's/.*--time 2s is --steps //p' "$out")
check "the record holds the steps" sh -c 'grep -q "\"steps\": $1," "$0" && ! grep -q "\"time\"" "$0"' clock/run/settings.json "$steps"
check "they were made" test -d "clock/run/checkpoints/$(printf 'checkpoint-%06d' "$steps")"
run train --student s --data d.jsonl --batch 8 --seq-len 64 --time 2s --resume --out clock
exits 5
err_has '^--time: was not given, now "2s"$'
check "nothing is left" test -z "$(ls -A tmp)"
finish
