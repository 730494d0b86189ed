# plan_time.sh - the seconds of a step that `retort plan` says are those that the run takes.
# Times runs: alone.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 400 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
pair="--teacher t --student s --data d.jsonl --batch 8 --seq-len 64 --threads 2"

# Time is that of the machine, which other tests load while they run: a plan between two runs is judged when the runs agree
# with one another, and one of three such plans must be right. A machine that never is steady measures nothing.
shown="seconds of a step"
check "within 25 % of the run" python3 -c '
import json, os, shlex, statistics, subprocess, sys
retort = shlex.split(os.environ.get("EMU", "")) + [sys.argv[1]]
def seconds(name):
    subprocess.run(retort + ["distill", "--out", name] + sys.argv[2:], check=True, stdout=subprocess.DEVNULL)
    return statistics.mean(x["seconds"] for x in map(json.loads, open(name + "/run/metrics.jsonl")) if x["event"] == "step")
steady = 0
for i in range(8):
    a = seconds(f"before{i}")
    said = json.loads(subprocess.run(retort + ["plan", "--json"] + sys.argv[2:], check=True, capture_output=True).stdout)
    b = seconds(f"after{i}")
    if abs(a - b) > 0.1 * a: continue
    steady += 1
    if abs(said["seconds"]["step"] / ((a + b) / 2) - 1) <= 0.25: sys.exit(0)
    if steady == 3: sys.exit(1)
print(f"only {steady} plans on a steady machine: not measured")' "$RETORT" $pair --steps 20 --eval-every 20 --save-every 20
finish
