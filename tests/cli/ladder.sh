# ladder.sh - a run that survives its device: a Vulkan loader that has the software driver fail (tests/vulkan/faults.c), and
# the CPU below it. Faults at random moments are tools/ladder_test.py's.
. "$(dirname "$0")/harness"
: "${BUILD:?names the build folder}"
loader=$(realpath "$BUILD")/tests/faults # before the working folder is another
. "$(dirname "$0")/run_case"
real=$(ldconfig -p 2>/dev/null | sed -n 's/.*libvulkan\.so\.1 .*=> //p' | head -n 1)

texts d.jsonl 40 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 tiny
cat >shape.json <<'JSON'
{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
 "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 272, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
 "rope_theta": 10000, "tie_word_embeddings": true, "hidden_act": "silu"}
JSON
run init --config shape.json --tokenizer tiny --seed 1 --dtype f32 s
learn="train --student s --data d.jsonl --batch 2 --seq-len 16 --lr 1e-3 --held-out 4 --eval-every 4 --threads 1 --steps 8 --sample-prompts none"

# What a user says, where there is no device to fail.
# shellcheck disable=SC2086
{
    run $learn --out none --on-device-failure perhaps
    exits 2
    err_has '^--on-device-failure perhaps is none of degrade, stop, retry:N'
    run $learn --out cpu --device cpu --save-every 2
    exits 0
}

if test ! -e "$loader/libvulkan.so.1" || test -z "$real" || "$RETORT" doctor | grep -q '^ *vulkan no device'; then
    echo "no Vulkan device here: nothing to fail"
    finish
fi

# faulty LINES ARGS...: with the fault of a line for each process that opens a device.
faulty() {
    printf '%b' "$1" >faults
    rm -f faults.log
    shift
    FAULTS_METRICS=$(echo "$*" | sed 's/.*--out \([a-z]*\).*/\1/')/run/metrics.jsonl
    FAULTS_REAL=$real FAULTS_FILE=$work/faults LD_LIBRARY_PATH=$loader
    export FAULTS_METRICS FAULTS_REAL FAULTS_FILE LD_LIBRARY_PATH
    run "$@"
    unset LD_LIBRARY_PATH
}
# same OUT: every step is there once, in order, with the tokens that the CPU's run has, and its losses.
same() {
    check "the curve is the one that would have been" python3 - cpu/run/metrics.jsonl "$1/run/metrics.jsonl" <<'PY'
import json, sys
cpu, moved = ([j for j in map(json.loads, open(path)) if j["event"] in ("step", "eval")] for path in sys.argv[1:])
assert [(j["event"], j["step"]) for j in cpu] == [(j["event"], j["step"]) for j in moved]
for a, b in zip(cpu, moved):
    assert a.get("tokens") == b.get("tokens") and a.get("trained") == b.get("trained") and a.get("lr") == b.get("lr")
    for name in ("ce", "grad_norm"):
        if name in a:
            x, y = (v[name][0] if isinstance(v[name], list) else v[name] for v in (a, b))
            assert abs(x - y) <= 1e-5 * abs(x), (name, a, b)
PY
}

# Lost in the middle: the CPU goes on from the newest checkpoint, and everything that is kept says so.
# shellcheck disable=SC2086
faulty 'step 6 lost\n' $learn --out lost --device vulkan --on-device-failure degrade --save-every 4
exits 0
out_has '^device +vulkan:0 failed after step 5: .*the device was lost.*; the run is resumed on the next device$'
out_has '^note +from step 5 on cpu:0 computes; before, vulkan:0 failed after step 5: '
same lost
check "a line of the log" grep -q '^{"event":"device","step":4,"device":"cpu:0",' lost/run/metrics.jsonl
check "the manifest has both" python3 -c 'import json
a, b = json.load(open("lost/run/manifest.json"))["sessions"]
assert a["device"]["backend"] == "vulkan" and a["from_step"] == 0 and "in_place_of" not in a
assert b["device"]["backend"] == "cpu" and b["from_step"] == 4 and b["in_place_of"].startswith("vulkan:0 failed after step ")'
check "so does the report" grep -q 'After step 4: .*(cpu), in the place of vulkan:0 failed' lost/run/report.html
run verify lost
exits 0
sed -i 's/"event":"device","step":4/"event":"device","step":3/' lost/run/metrics.jsonl
run verify lost
exits 5

# A device that never answers, in a run that has no checkpoint yet but a copy in memory; as events.
# shellcheck disable=SC2086
faulty 'step 6 hang\n' $learn --out hung --device vulkan --on-device-failure degrade --save-every 8 --keep-host-copy 1 \
    --device-timeout 1 --json
exits 0
same hung
out_has '"event":"device_failed",.*vulkan:0 failed after step [45]: it has not answered for 1'
err_has '^note +the copy of step [45] in memory is hung/run/checkpoints/checkpoint-00000[45] now$'
err_has '^note +resuming from checkpoint-00000[45], step [45] of 8$'

# A device that was named ends the run, with the newest state on disk; somebody resumes it elsewhere.
# shellcheck disable=SC2086
faulty 'step 6 oom\n' $learn --out named --device vulkan --save-every 8 --keep-host-copy 2
exits 13
err_has 'out of device memory'
check "what was newer in memory is a checkpoint" test -e named/run/checkpoints/checkpoint-000004/state.json
run train --resume --out named --device cpu
exits 0
same named

# --device auto, with two that say they are GPUs: the second takes the place of the first and fails where it was; then the CPU.
# shellcheck disable=SC2086
{
    export VK_ICD_FILENAMES="$(ls /usr/share/vulkan/icd.d/lvp_icd.*.json)" FAULTS_TYPE=discrete FAULTS_DEVICES=2
    faulty 'step 6 lost\nstep 8 lost\nstep 6 lost\n' $learn --out two --save-every 4
    unset VK_ICD_FILENAMES FAULTS_TYPE FAULTS_DEVICES
}
exits 0
out_has '^device +vulkan:0 failed after step 5: .*on the next device$'
out_has '^device +vulkan:1 failed after step [678]: .*on the next device$'
out_has '^note +from step 5 on cpu:0 computes; before, vulkan:1 failed'
same two
check "each was taken once" sh -c 'test "$(wc -l <faults)" = 1'
check "three sessions" python3 -c 'import json
s = json.load(open("two/run/manifest.json"))["sessions"]
assert [(x["from_step"], x["device"]["backend"]) for x in s] == [(0, "vulkan"), (4, "vulkan"), (4, "cpu")], s'

# The same device once more; and what is not a number, which is no fault of the device.
# shellcheck disable=SC2086
{
    faulty 'step 2 lost\nnone\n' $learn --out again --device vulkan --on-device-failure retry:1 --save-every 4
    exits 0
    out_has '; the run (is resumed|begins anew) on the same device$'
    check "no other took its place" sh -c '! grep -q "\"backend\": \"cpu\"" again/run/manifest.json'
    same again
    faulty 'step 3 nan\n' $learn --out nan --device vulkan --on-device-failure degrade
    exits 12
    out_lacks 'on the next device'
}
finish
