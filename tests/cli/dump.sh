# dump.sh - `--dump-step N`: the files of one step, and that they agree with one another: the loss is that of the logits, the
# norm that of the gradients, the weights those before the step. tests/interop/test_dump_torch.py has transformers compute it.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 120 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
# One row of 64 tokens: every trained position is among the 64 whose logits are written.
small="--teacher t --student s --data d.jsonl --batch 1 --seq-len 64 --steps 4 --threads 1 --eval-every 4 --save-every 2"

cat >consistent.py <<'PY'
"""consistent.py DUMP STUDENT METRICS [STEP]: exit status 0 when the dump agrees with itself and with the run."""
import json, math, struct, sys
def tensors(path):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {k: (v["shape"], struct.unpack(f"<{(v['data_offsets'][1] - v['data_offsets'][0]) // 4}f", data[slice(*v["data_offsets"])]))
            for k, v in head.items() if k != "__metadata__"}
dump, student, metrics, *step = sys.argv[1:]
j = json.load(open(dump + "/step.json"))
line = next(x for x in map(json.loads, open(metrics)) if x["event"] == "step" and x["step"] == j["step"])
result, objective = j["result"], j["objective"]
def close(a, b, limit, what):
    if not abs(a - b) <= limit * abs(b):
        sys.exit(f"{what}: {a} is not {b}")
for key in "loss", "ce", "divergence", "agreement", "grad_norm", "clip", "trained":
    assert result[key] == line[key], key
assert j["lr"] == line["lr"]
# Rows: positions and starts of packed documents, targets that are the next token.
trained = []
for number, row in enumerate(j["rows"]):
    n = len(row["ids"])
    assert all(len(row[key]) == n for key in ("position", "start", "target"))
    for k in range(n):
        if row["position"][k] != k - row["start"][k]:
            sys.exit("a position is not that in its document")
        if row["target"][k] >= 0:
            trained.append([number, k])
            if k + 1 < n and row["start"][k + 1] == row["start"][k] and row["target"][k] != row["ids"][k + 1]:
                sys.exit("a target is not the next token")
assert result["trained"] == len(trained)
assert j["logits"] == sorted(j["logits"]) and all(at in trained for at in j["logits"])
# The loss from the logits, where they are all there.
logits = tensors(dump + "/logits.safetensors")
(count, V), s = logits["student"]
(_, W), t = logits["teacher"]
assert count == len(j["logits"]) == min(64, len(trained))
shared = [i for i in range(V) if not j["shared_ids"] or j["shared_ids"][i // 32] >> i % 32 & 1]
assert len(shared) == 259
def log_softmax(x):
    top = max(x)
    total = top + math.log(sum(math.exp(v - top) for v in x))
    return [v - total for v in x]
if count == len(trained):
    ce = kl = same = 0.0
    for i, (row, k) in enumerate(j["logits"]):
        ours, theirs = s[i * V:(i + 1) * V], t[i * W:(i + 1) * W]
        ce -= log_softmax(ours)[j["rows"][row]["target"][k]]
        q, p = (log_softmax([x[v] for v in shared]) for x in (ours, theirs))
        kl += sum(math.exp(a) * (a - b) for a, b in zip(p, q))
        same += max(range(259), key=q.__getitem__) == max(range(259), key=p.__getitem__)
    close(ce / count, result["ce"], 2e-6, "cross-entropy")
    close(kl / count, result["divergence"], 2e-5, "divergence")
    close(same / count, result["agreement"], 1e-12, "agreement")
    close(objective["ce_weight"] * ce / count + objective["kd_weight"] * kl / count, result["loss"], 2e-6, "loss")
# Gradients, and the weights before the step.
close(math.sqrt(sum(v * v for v in j["gradient_norms"].values())), result["grad_norm"], 2e-6, "norm of the gradient")
if student != "-":
    assert tensors(dump + "/student/model.safetensors") == tensors(student + "/model.safetensors"), "weights"
    assert j["gradient_norms"].keys() == tensors(student + "/model.safetensors").keys()
PY

# consistent ...: runs it; its complaint is shown as standard error.
consistent() {
    shown="consistent.py $*"
    status=0
    python3 consistent.py "$@" >"$out" 2>"$err" || status=$?
}

run distill $small --out plain
exits 0
run distill $small --out o --dump-step 1
exits 0
out_has '^note +step 1 is written down in o/run/dump-000001; tools/check_step\.py computes it again$'
check "looking does not change the run" sh -c 'cmp plain/model.safetensors o/model.safetensors && cmp plain/run/checkpoints/checkpoint-000004/state.safetensors o/run/checkpoints/checkpoint-000004/state.safetensors'
check "nor its curve" test "$(curve plain)" = "$(curve o)"
consistent o/run/dump-000001 s o/run/metrics.jsonl
exits 0
check "a model that retort reads" sh -c '"$0" inspect o/run/dump-000001/student >/dev/null' "$RETORT"

# The weights are those of the checkpoint before, also in the middle and with rows in several micro-batches.
run distill $small --out o3 --dump-step 3
exits 0
consistent o3/run/dump-000003 o3/run/checkpoints/checkpoint-000002 o3/run/metrics.jsonl
exits 0
more="--teacher t --student s --data d.jsonl --batch 5 --micro-batch 2 --seq-len 64 --steps 2 --threads 1"
run distill $more --out several --dump-step 2 --divergence forward-kl
exits 0
consistent several/run/dump-000002 - several/run/metrics.jsonl
exits 0
check "logits of every micro-batch" python3 -c '
import json
rows = {row for row, _ in json.load(open("several/run/dump-000002/step.json"))["logits"]}
assert rows == set(range(5)), rows'

# ---- negative controls: a dump that was altered does not agree with itself ----
# altered EXPRESSION: changes j, the step, or says what to do to the bytes of the logits.
altered() {
    rm -rf bad
    cp -r o/run/dump-000001 bad
    python3 - "$1" <<'PY'
import json, sys
j = json.load(open("bad/step.json"))
data = bytearray(open("bad/logits.safetensors", "rb").read())
exec(sys.argv[1])
json.dump(j, open("bad/step.json", "w"))
open("bad/logits.safetensors", "wb").write(data)
PY
    consistent bad s o/run/metrics.jsonl
    check "altered ($1): expected a complaint" test "$status" != 0
}
altered 'r = j["rows"][0]; k = next(i for i, t in enumerate(r["target"]) if t >= 0); r["target"][k] = (r["target"][k] + 1) % 259'
altered 'r = j["rows"][0]; k = next(i for i, t in enumerate(r["target"]) if t >= 0); r["target"][k] = -1'
altered 'j["rows"][0]["position"][5] += 1'
altered 'k = next(iter(j["gradient_norms"])); j["gradient_norms"][k] *= 1.01'
altered 'j["objective"]["kd_weight"] = 0.8'
altered 'data[-1 - 4 * (272 * 3 + 100)] ^= 0x20'
altered 'j["shared_ids"][3] ^= 1'

# ---- resumed; adapters; no teacher ----
run distill --teacher t --student s --data d.jsonl --batch 1 --seq-len 64 --steps 8 --threads 1 --save-every 1 --out late
exits 0
run distill --resume --out late --dump-step 3
exits 0
out_has '^note +step 3 was run before it was asked for'
check "nothing is written" test ! -e late/run/dump-000003
run distill $more --out lora --dump-step 2 --lora-rank 4
exits 0
check "adapters, and their gradients" python3 -c '
import json, os
j = json.load(open("lora/run/dump-000002/step.json"))
assert j["lora"] == {"rank": 4, "alpha": 8.0} and os.path.exists("lora/run/dump-000002/student/adapter_model.safetensors")
assert j["gradient_norms"] and all(".lora_" in name for name in j["gradient_norms"])'
run train --student s --data d.jsonl --batch 1 --seq-len 64 --steps 2 --threads 1 --out alone --dump-step 1
exits 0
check "no teacher, no divergence" python3 -c '
import json
j = json.load(open("alone/run/dump-000001/step.json"))
assert j["teacher"] is False and "divergence" not in j["result"] and j["shared_ids"] is None'

# ---- refused ----
run distill $small --out x --dump-step 5
exits 5
err_has '--dump-step 5 is out of range .1 to 4, the last step.'
run distill $small --out x --dump-step 0
exits 5
run distill $small --out x --dump-step some
exits 2
check "nothing was made" test ! -e x
# Without the packages, or with a folder that is no dump, the checker says so.
python3 "$here/../../tools/check_step.py" s >"$out" 2>"$err" </dev/null
status=$?
shown="check_step.py s"
exits 2
err_has '^check_step\.py: '
finish
