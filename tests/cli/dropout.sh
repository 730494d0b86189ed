# dropout.sh - LoRA dropout: training differs, evaluation does not; one seed gives one curve whatever the threads, the
# micro-batches or a stop in between; what is written says it.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 160 word
run init --preset tiny-llama --seed 3 s
exits 0
base="--student s --data d.jsonl --eval-data d.jsonl --lora-rank 4 --lr 0.02 --steps 24 --batch 8 --seq-len 64
    --eval-every 8 --save-every 6"
train() {
    to=$1
    shift
    run train $base --out "$to" "$@"
    exits 0
    curve "$to" >"$to.curve"
}
# losses FILE: of every step.
losses() { python3 -c 'import json, sys
print([j["loss"] for j in map(json.loads, open(sys.argv[1])) if j["event"] == "step"])' "$1.curve"; }

train plain
train zero --lora-dropout 0
train half --lora-dropout 0.5
check "none is none" cmp plain.curve zero.curve
check "and the same adapter" cmp plain/adapter_model.safetensors zero/adapter_model.safetensors
check "the untrained model measures the same" test "$(metric plain 0 ce)" = "$(metric half 0 ce)"
check "training differs" sh -c '! cmp -s plain.curve half.curve'
check "and goes on learning" less "$(metric half last ce)" "$(metric half 0 ce)"
check "the card has it" grep -q "rank 4, alpha 8, dropout 0.5, targets all" half/README.md
check "adapter_config.json has it" python3 -c 'import json
assert json.load(open("half/adapter_config.json"))["lora_dropout"] == 0.5
assert json.load(open("plain/adapter_config.json"))["lora_dropout"] == 0.0'

# The evaluation of a run is that of its files, where nothing is dropped.
run eval half --data d.jsonl --seq-len 64 --json
exits 0
cp "$out" eval.json
check "the cross-entropy is the run's own" python3 -c 'import json, sys
a, b = json.load(open("eval.json"))["cross_entropy"]["mean"], float(sys.argv[1])
sys.exit(abs(a - b) > 1e-4 * b)' "$(metric half last ce)"

# ---- one seed, one curve ----
train again --lora-dropout 0.5
train one --lora-dropout 0.5 --threads 1
train two --lora-dropout 0.5 --threads 2
check "again" cmp half.curve again.curve
check "with two threads" cmp one.curve two.curve
check "and the same adapter" cmp one/adapter_model.safetensors two/adapter_model.safetensors
train other --lora-dropout 0.5 --seed 2
check "another seed drops others" sh -c '! cmp -s half.curve other.curve'
train recomputed --lora-dropout 0.5 --recompute block
train whole --lora-dropout 0.5 --micro-batch 8
train cut --lora-dropout 0.5 --micro-batch 2
for name in recomputed cut; do
    check "$name: the same elements are dropped, so losses differ by rounding alone" python3 -c 'import sys
a, b = eval(sys.argv[1]), eval(sys.argv[2])
sys.exit(len(a) != 24 or any(abs(x - y) > 2e-4 * x for x, y in zip(a, b)))' "$(losses whole)" "$(losses $name)"
done

# ---- stopped and resumed ----
stop INT 10 part train $base --lora-dropout 0.5
exits 130
run train --resume --out part
exits 0
curve part >part.curve
check "the curve is that of the whole run" cmp half.curve part.curve
check "and so is the adapter" cmp half/adapter_model.safetensors part/adapter_model.safetensors
stop INT 10 changed train $base --lora-dropout 0.5
exits 130
run train --resume --out changed --lora-dropout 0.1
exits 5
err_has '--lora-dropout'

# ---- the plan and what is refused ----
run plan $base --lora-dropout 0.5 --ops
exits 0
out_has '^ +[0-9]+ +dropout .* layer 0 '
out_has ' p=0\.5 '
run plan $base --ops
exits 0
out_lacks 'dropout'
for p in 1 -0.1 nan; do
    run train $base --out no --lora-dropout=$p
    exits 2
    err_has '--lora-dropout'
done
run train $base --out no --lora-dropout 0.1 --dump-step 2
exits 2
err_has '--dump-step and --lora-dropout exclude one another'
run train --student s --data d.jsonl --out no --lora-dropout 0.1
exits 2
err_has '--lora-dropout .*--lora'
finish
