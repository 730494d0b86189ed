# streamed.sh - a teacher whose layers are not on the device: the same run to the bit from disk as from memory, what plan
# and distill say of it, auto where nothing else fits, --resume, and what is refused. In the host's memory beside a GPU:
# test_cuda_queue.c, test_cuda_train.c.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 200 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
run convert t t-q4.gguf --dtype q4_k
exits 0
run convert t t-bf16.gguf --dtype bf16 # rows of q and k in the order of llama.cpp
exits 0
base="--student s --data d.jsonl --steps 8 --batch 4 --micro-batch 2 --teacher-batch 2 --seq-len 64 --threads 2 --lr 1e-3"
base="$base --eval-every 4 --save-every 4"
# weights OUT: the bytes of its tensors, without what the file says of the run.
weights() {
    python3 - "$1/model.safetensors" <<'PY'
import hashlib, struct, sys
b = open(sys.argv[1], "rb").read()
print(hashlib.sha256(b[8 + struct.unpack("<Q", b[:8])[0]:]).hexdigest())
PY
}

# ---- the same run ----
for teacher in t t-q4.gguf t-bf16.gguf; do
    for memory in device disk; do
        run distill --teacher $teacher $base --teacher-memory $memory --out $memory
        exits 0
        cp "$out" log-$memory
        curve $memory > curve-$memory
        weights $memory > weights-$memory
        test $memory = disk || rm -rf device
        rm -rf run-$memory
    done
    check "$teacher: the same losses and norms from disk" cmp curve-device curve-disk
    check "$teacher: and the same weights" cmp weights-device weights-disk
    check "of a run that learned" test "$(wc -l < curve-disk)" -gt 8
    check "it says where they are" grep -q "^streamed  the teacher's layers are on disk, as the settings say; while one is computed" log-disk
    check "and of others nothing" sh -c '! grep -q ^streamed log-device'
    check "recorded" grep -q '"teacher_memory": "disk"' disk/run/settings.json
    rm -rf disk
done
run distill --teacher t-bf16.gguf $base --teacher-memory disk --out other
run distill --teacher t-q4.gguf $base --teacher-memory disk --out disk
check "another teacher is another run" sh -c '! cmp -s other/run/metrics.jsonl disk/run/metrics.jsonl'

# ---- several of them ----
for memory in device disk; do
    run distill --teacher t,weight=0.3 --teacher t-q4.gguf,weight=0.7 $base --teacher-memory $memory --out two-$memory
    exits 0
    curve two-$memory > curve-$memory
done
check "two teachers, both from disk" cmp curve-device curve-disk

# ---- resumed to the same bits, from disk or not ----
stop KILL 4 killed distill --teacher t-q4.gguf $base --teacher-memory disk
run distill --resume --out killed
exits 0
weights disk > weights-disk
weights killed > weights-killed
check "to the bit" cmp weights-disk weights-killed

# ---- measured again, asked once ----
run verify disk
exits 0
out_has '^held-out after +pass '
for memory in device disk; do
    run cache --teacher t-q4.gguf --data d.jsonl --seq-len 64 --teacher-batch 4 --threads 2 --teacher-memory $memory \
        --keep topk:8 --out c-$memory
    exits 0
done
check "the same answers" sh -c 'cat c-device/*/*.rtcache | cksum > a; cat c-disk/*/*.rtcache | cksum > b; cmp a b'
run cache --teacher t-q4.gguf --data d.jsonl --seq-len 64 --teacher-memory host --out none
exits 2
err_has 'use device or disk'

# ---- plan ----
run plan --teacher t $base --teacher-memory disk --json
exits 0
cp "$out" plan.json
json_is 'j["transfer"]["memory"] == "disk" and j["transfer"]["hidden"] is None and j["transfer"]["positions"] == 128'
json_is 'j["transfer"]["bytes"] == j["memory"]["classes"]["disk parameter"] > 0'
json_is 'j["memory"]["total"] < sum(j["memory"]["classes"].values())'
json_is 'j["fit"]["chosen"]["teacher_memory"] == "disk"'
disk=$(python3 -c 'import json; print(json.load(open("plan.json"))["memory"]["total"])')
run plan --teacher t $base --teacher-memory disk
exits 0
out_has "^streamed +the teacher's layers are on disk, as the settings say$"
out_has '^ +[0-9.]+ KiB  copied in for every pass of 128 positions, the next layer is read ahead while one is computed$'
out_has '^ +[0-9.]+ KiB  disk parameters, not on the device$'
run plan --teacher t $base --json
json_is 'j["transfer"] is None and j["fit"]["chosen"]["teacher_memory"] == "device"'
cp "$out" plan.json
device=$(python3 -c 'import json; print(json.load(open("plan.json"))["memory"]["total"])')
check "less of the device's memory" test "$disk" -lt "$device"
run plan --teacher t $base --teacher-memory disk --ops
out_has 'copy +.*weights of layer 1'

# ---- auto: where nothing else fits ----
fixed="--recompute none --head-chunk 128"
run plan --teacher t $base $fixed --json
cp "$out" plan.json
device=$(python3 -c 'import json; print(json.load(open("plan.json"))["memory"]["total"])')
run plan --teacher t $base $fixed --memory-limit $((device))B --json
json_is 'j["fit"]["fits"] and j["transfer"] is None'
run plan --teacher t $base $fixed --memory-limit $((device - 1))B
exits 0
out_has "^streamed +the teacher's layers are on disk: on the device the run would take at least [0-9.]+ MiB, and the limit is "
out_has '^verdict +fits with --teacher-memory disk, chosen because [0-9.]+ MiB would be needed without'
run distill --teacher t $base $fixed --memory-limit $((device - 1))B --out auto
exits 0
out_has "^streamed +the teacher's layers are on disk: on the device the run would take at least "
curve auto > curve-auto
run distill --teacher t $base $fixed --out plenty
curve plenty > curve-plenty
check "the very run that more memory gives" cmp curve-auto curve-plenty
run distill --teacher t $base $fixed --memory-limit $((device - 1))B --teacher-memory device --out refused
exits 13
err_has 'what fits'

# ---- what is refused ----
run distill --teacher t $base --teacher-memory ram --out none
exits 2
err_has "--teacher-memory 'ram' is unknown; use one of auto, device, host or disk"
run distill --teacher t $base --teacher-memory host --out none
exits 5
err_has "--teacher-memory host needs a device with memory of its own, and cpu uses the host's; use device, or disk"
run distill --teacher t $base --teacher-memory disk --teacher-weights bf16 --out none
exits 2
err_has '--teacher-memory disk reads weights as they are stored at every pass, and --teacher-weights bf16 converts them'
run cache --teacher t --data d.jsonl --seq-len 64 --out c
exits 0
run distill --teacher c --student s --data d.jsonl --steps 2 --seq-len 64 --teacher-memory disk --out none
exits 5
err_has '--teacher-memory needs a model as teacher'
run plan --teacher t $base --fit --teacher-memory disk
exits 2
err_has '--fit chooses --micro-batch, --recompute, --teacher-weights and --teacher-memory'
check "nothing is left of what was refused" test ! -e none
finish
