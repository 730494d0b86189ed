# vulkan.sh - the Vulkan backend on the device that is here, which in CI is Mesa's software driver: its ops on quick cases,
# and the tiny pair distilled beside the CPU, then stopped and resumed. Where there is no device it says so and why. GEMMs of
# packed weights, whose shaders take a software driver half a minute to compile, are .ci/run's.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

# Mesa's own cache stays where it is: compiling takes longer than all else here.
export MESA_SHADER_CACHE_DIR="${MESA_SHADER_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/mesa_shader_cache}"
export XDG_CACHE_HOME="$work/cache"

run doctor --json
exits 0
json_is '[b["name"] for b in j["backends"]] == ["cuda", "vulkan", "cpu", "ref"]'
json_is 'all(b["devices"] or b["reason"] for b in j["backends"] if b["name"] == "vulkan")'
texts d.jsonl 60 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
learn="--teacher t --student s --data d.jsonl --batch 4 --seq-len 64 --lr 1e-3 --eval-every 4 --threads 2"

# What is missing is said plainly: a driver; a loader.
lacks() {
    # shellcheck disable=SC2086
    run distill $learn --steps 2 --out none --device vulkan
    exits 9
    err_has "$1"
}
echo "no library" >libvulkan.so.1
export VK_DRIVER_FILES=/nowhere VK_ICD_FILENAMES=/nowhere
lacks 'Vulkan loader finds no driver: install|built without|left out'
unset VK_DRIVER_FILES VK_ICD_FILENAMES
LD_LIBRARY_PATH=$work lacks 'no Vulkan loader: libvulkan.so.1|built without|left out'
rm libvulkan.so.1

if "$RETORT" doctor | grep -q '^ *vulkan no device'; then
    # shellcheck disable=SC2086
    run distill $learn --steps 2 --out none --device vulkan
    exits 9
    err_has 'Vulkan|shaders'
    finish
fi

run doctor
out_has '^ *vulkan 0: .*Vulkan 1\.[2-9].*subgroups of [0-9]+.*16-bit storage.*8-bit storage.*taken only when it is named'
run distill $learn --steps 2 --out auto
exits 0
check "nobody is given it who did not name it" sh -c '! grep -q "\"backend\": \"vulkan\"" auto/run/manifest.json'

for op in embed_fwd embed_bwd rmsnorm_fwd rmsnorm_bwd add_rmsnorm_fwd add_rmsnorm_bwd bias_grad rope_fwd rope_bwd attn_fwd attn_bwd \
    attn_decode swiglu_fwd swiglu_bwd add scale cast copy fill dequant kd_loss adamw norm_sq clip topk sample dropout quant quant_rows \
    draw mix_logits; do
    run verify --backend vulkan --quick --op $op
    exits 0
    out_has '^[1-9][0-9]* passed, 0 failed$'
    out_has '^backend vulkan, 0 unsupported'
done
run verify --backend vulkan --quick --op matmul --case matmul/f32.f32.f32.f32
exits 0
out_has '^[1-9][0-9]* passed, 0 failed$'

# One curve on both devices: their sums have other orders, so f32 differs in its last digits. Samples, which cost a software
# driver more than the steps, are made in one run.
# shellcheck disable=SC2086
{
    run distill $learn --steps 8 --out cpu --device cpu
    exits 0
    run distill $learn --steps 8 --out one --device vulkan
    exits 0
    out_has '^code +[1-9][0-9]* pipelines; compiled or loaded after seal: 0$'
    stop INT 6 half distill $learn --steps 8 --device vulkan --sample-prompts none
    exits 130
    run distill --resume --out half
    exits 0
}
# Pipelines are kept below the cache of the user; a file that is not whole is passed over and replaced.
kept=$(ls "$work"/cache/retort/vulkan-*.bin)
check "one file of pipelines" test -f "$kept"
cp "$kept" whole
printf x | dd of="$kept" bs=1 seek=40 conv=notrunc 2>/dev/null
# shellcheck disable=SC2086
run distill $learn --steps 2 --out again --device vulkan --sample-prompts none
exits 0
check "a damaged file is replaced" cmp whole "$kept"
# A teacher whose weights are read from disk at every pass gives the same bits.
# shellcheck disable=SC2086
run distill $learn --steps 2 --out streamed --device vulkan --sample-prompts none --teacher-memory disk
exits 0
check "a teacher on disk, the same bits" cmp again/model.safetensors streamed/model.safetensors
check "the manifest names the device" grep -q vulkan one/run/manifest.json
check "a run that was stopped and resumed has the same bits" cmp one/model.safetensors half/model.safetensors
check "the curve is the CPU's" python3 - cpu/run/metrics.jsonl one/run/metrics.jsonl <<'PY'
import json, sys
cpu, vulkan = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
steps = [(a, b) for a, b in zip(cpu, vulkan) if a["event"] == "step"]
assert len(cpu) == len(vulkan) and len(steps) == 8
for a, b in steps:
    for name in ("loss", "ce", "divergence", "grad_norm"):
        assert abs(a[name] - b[name]) <= 1e-5 * abs(a[name]), (name, a, b)
PY
# shellcheck disable=SC2086
run distill $learn --steps 2 --out sync --device vulkan --sync --sample-prompts none
exits 0
run generate one --raw --prompt the --max-new 4 --temperature 0 --device vulkan
exits 0
finish
