# disk.sh - what lies where in OUT: the model at its root, everything of the run below OUT/run; runs that are laid out as before.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 120 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
base="--teacher t --student s --data d.jsonl --batch 4 --seq-len 64 --threads 1 --eval-every 4 --save-every 3"

# ---- the root is the model ----
run distill $base --steps 12 --control --out whole
exits 0
check "nothing but the model and run" test "$(ls whole | tr '\n' ' ')" = \
    "README.md config.json generation_config.json model.safetensors run tokenizer.json tokenizer_config.json "
check "checkpoints lie below run" test -f whole/run/checkpoints/checkpoint-000012/state.safetensors
check "and so does the control" test -f whole/run/control/config.json -a -f whole/run/control/run/checkpoints/checkpoint-000012/state.json
run verify whole
exits 0
run verify whole/run/control
exits 0

# ---- a run that is laid out as before ----
# older OUT: checkpoints and control moved to where they were.
older() {
    for run in "$1/run/control" "$1"; do
        test ! -d "$run/run/checkpoints" || mv "$run"/run/checkpoints/* "$run"/
        rmdir "$run/run/checkpoints"
    done 2>/dev/null
    test ! -d "$1/run/control" || {
        mv "$1/run/control" "$1/control"
        ln -sfn ../../run/data "$1/control/run/data"
    }
}
curve whole >whole.curve
curve whole/run/control >control.curve
stop INT 6 part distill $base --steps 12 --control
exits 130
older part
check "a checkpoint lies in OUT" sh -c 'ls -d part/checkpoint-0* && test ! -e part/run/checkpoints'
run distill --resume --out part
exits 0
curve part >part.curve
check "the curve is that of the whole run" cmp whole.curve part.curve
check "and so is the model" cmp whole/model.safetensors part/model.safetensors
check "checkpoints stay where they were" sh -c 'cmp part/checkpoint-000012/state.safetensors \
    whole/run/checkpoints/checkpoint-000012/state.safetensors && test ! -e part/run/checkpoints'
check "older ones were pruned there" test "$(ls part | grep -c '^checkpoint-')" = "$(ls whole/run/checkpoints | wc -l)"
check "no best is left there" sh -c '! ls part | grep best-'
run verify part
exits 0
out_has '^checkpoints +pass'
out_has '^output +pass'
cp -r whole ended
older ended
check "its control lies beside it" test -f ended/control/config.json -a ! -e ended/run/control
rm ended/run/report.html
run report ended
exits 0
check "the page has the control" grep -q control ended/run/report.html
stop INT 21 late distill $base --steps 12 --control
if [ "$status" = 130 ]; then
    older late
    run distill --resume --out late
    exits 0
    if [ -d late/control ]; then curve late/control >late.curve; else curve late/run/control >late.curve; fi
    check "the control resumes where it lies" cmp control.curve late.curve
fi

finish
