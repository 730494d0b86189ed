# doctor.sh - `retort doctor` tells about the binary, the machine and each backend, for people and as JSON.
. "$(dirname "$0")/harness"

run doctor
exits 0
err_empty
out_has 'retort [0-9]+\.[0-9]+'
out_has '^ *cpu '
out_has '^ *ref '
out_has '^memory '
out_has 'features'

run doctor --json
exits 0
err_empty
json_is 'isinstance(j, dict)'
json_is '{"binary", "cpu", "memory", "backends"} <= set(j)'
json_is '{b["name"] for b in j["backends"]} >= {"cpu", "ref"}'
json_is 'all(b["devices"] or b["reason"] for b in j["backends"])'
json_is 'all(d["name"] for b in j["backends"] for d in b["devices"])'
json_is 'j["memory"]["total"] >= j["memory"]["available"] > 0'
json_is 'j["cpu"]["cores"] >= 1'
json_is 'j["mpi"].startswith(("Open MPI", "MPICH", "not found: "))'

# The GEMM library's kernels are those of this CPU, whichever it is; lesser ones are used only when asked for, and never
# without a word: by doctor, and at the device of a run.
unset OPENBLAS_CORETYPE
run doctor
out_lacks 'warning'
run doctor --json
json_is 'all(d["warning"] is None for b in j["backends"] for d in b["devices"])'
features=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["cpu"]["features"])' "$out")
mkdir "$work/shape"
echo '{"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 16, "num_hidden_layers": 1,
"num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 32, "vocab_size": 64, "hidden_act": "silu",
"rms_norm_eps": 1e-6, "rope_theta": 1e4, "max_position_embeddings": 64}' >"$work/shape/config.json"
for seed in 1 2; do
    run init --config "$work/shape/config.json" --seed $seed "$work/m$seed"
    exits 0
done
python3 -c 'import random, struct, sys
r = random.Random(0)
sys.stdout.buffer.write(b"".join(struct.pack("<I", r.randrange(64)) for _ in range(4096)))' >"$work/t.bin"
distill="distill --teacher $work/m1 --student $work/m2 --data $work/t.bin --vocab 64 --seq-len 16 --held-out 1 --steps 1 --device cpu"
# shellcheck disable=SC2086
run $distill --out "$work/plain"
exits 0
out_lacks '^warning'
case $features in
*avx*)
    OPENBLAS_CORETYPE=Prescott
    export OPENBLAS_CORETYPE
    warning='warning:? +OpenBLAS computes with core Prescott, without the AVX.* set OPENBLAS_CORETYPE='
    run doctor
    exits 0
    err_empty
    out_has "$warning"
    run doctor --json
    json_is 'any("OPENBLAS_CORETYPE" in (d["warning"] or "") for b in j["backends"] for d in b["devices"])'
    # shellcheck disable=SC2086
    run $distill --out "$work/slow"
    exits 0
    check "one line of warning" test "$(grep -c -E "^$warning" "$out")" = 1
    unset OPENBLAS_CORETYPE
    ;;
esac

# The cores that this process may use, not those of the machine.
if command -v taskset >/dev/null 2>&1 && [ -z "${EMU:-}" ]; then
    shown="taskset -c 0 retort doctor --json"
    status=0
    taskset -c 0 "$RETORT" doctor --json >"$out" 2>"$err" </dev/null || status=$?
    exits 0
    json_is 'j["cpu"]["cores"] == 1'
fi

# A reader that goes away, or a disk that is full, is an error and not a success.
if [ -c /dev/full ]; then
    shown="retort doctor > /dev/full"
    status=0
    : >"$out"
    ${EMU:-} "$RETORT" doctor >/dev/full 2>"$err" </dev/null || status=$?
    exits 7
fi
finish
