# plan_time.sh - the seconds of a step that `retort plan` says are those that the run takes.
# Times runs: alone.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

# A step of a tenth of a second. In one of a few milliseconds what is not an op counts too, and a plan says less than it
# takes (docs/plan.md).
texts d.jsonl 400 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 tiny
cat >shape.json <<'JSON'
{"model_type": "qwen2", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
 "intermediate_size": 768, "vocab_size": 512, "max_position_embeddings": 512}
JSON
for model in s t; do
    run init --config shape.json --seed "$(test $model = s && echo 1 || echo 2)" --dtype f32 $model
    cp tiny/tokenizer*.json $model/
done
pair="--teacher t --student s --data d.jsonl --batch 8 --seq-len 64 --threads 2 --held-out 8"

# Time is that of the machine, which other tests load while they run: a plan between two runs is judged when the runs agree
# with one another, and one of three such plans must be right. A machine that never is steady measures nothing.
shown="seconds of a step"
check "within 25 % of the run" python3 -c '
import json, os, shlex, statistics, subprocess, sys
retort = shlex.split(os.environ.get("EMU", "")) + [sys.argv[1]]
def seconds(name):
    subprocess.run(retort + ["distill", "--out", name] + sys.argv[2:], check=True, stdout=subprocess.DEVNULL)
    return statistics.median(x["seconds"] for x in map(json.loads, open(name + "/run/metrics.jsonl")) if x["event"] == "step")
steady = 0
for i in range(8):
    a = seconds(f"before{i}")
    said = json.loads(subprocess.run(retort + ["plan", "--json"] + sys.argv[2:], check=True, capture_output=True).stdout)
    b = seconds(f"after{i}")
    if abs(a - b) > 0.1 * a: continue
    steady += 1
    step = said["seconds"]["step"]
    print(f"a step took {a:.4f} s and {b:.4f} s, the plan says {step:.4f} s", file=sys.stderr)
    if abs(step / ((a + b) / 2) - 1) <= 0.25: sys.exit(0)
    if steady == 3: sys.exit(1)
print(f"only {steady} plans on a steady machine: not measured")' "$RETORT" $pair --steps 8 --eval-every 8 --save-every 8
finish
