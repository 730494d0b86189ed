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
STOP_LOG=run/control/run/metrics.jsonl stop INT 3 late distill $base --steps 12 --control
if [ "$status" = 130 ]; then
    older late
    run distill --resume --out late
    exits 0
    if [ -d late/control ]; then curve late/control >late.curve; else curve late/run/control >late.curve; fi
    check "the control resumes where it lies" cmp control.curve late.curve
fi

# ---- a run that has not ended ----
if [ ! -d part-way ]; then stop INT 4 part-way distill $base --steps 12; fi
exits 130
newest=$(ls -d part-way/run/checkpoints/checkpoint-* | tail -n 1)
for command in "convert part-way x.gguf" "generate part-way --prompt a" "inspect part-way" "export part-way --to x" \
    "eval part-way --data d.jsonl"; do
    run $command
    exits 3
    err_one_line
    err_has "part-way has no finished model: .*to finish it: retort [a-z]+ --resume --out part-way; or name its newest checkpoint: $newest\$"
done
run generate "$newest" --prompt the --max-new 2 --quiet
exits 0
# From another folder: its models are looked for where it began. A run that does not say where that was says so.
mkdir elsewhere
cp -r part-way unknown
rm unknown/run/began-in.txt
(
    cd elsewhere || exit 1
    run distill --resume --out ../unknown
    exits 3
    err_one_line
    err_has '^\.\./unknown/run/settings.json has --student s, relative to the folder in which the run began; resume from there'
    run distill --resume --out ../unknown --student ../s --teacher ../t --override
    exits 0
    run distill --resume --out ../part-way
    exits 0
    test "$failed" = 0
)
check "resumed from another folder" test $? = 0
for run in part-way unknown; do
    curve $run >part.curve
    check "$run: to the same curve" cmp whole.curve part.curve
done

# ---- disk ----
run distill $base --steps 12 --out light
exits 0
out_has '^disk +light/run takes [0-9.]+ [KM]iB, of it [0-9.]+ [KM]iB for checkpoints, of which the model needs none:$'
out_has '^ +rm -r light/run/checkpoints$'
out_has '^ +\(retort verify then no longer compares the model with a checkpoint\)$'
check "git leaves the run out" sh -c 'cd light && git init -q . && git add . && git ls-files >../listed && ! grep -E "^(run|merged)/" ../listed &&
    grep -qx model.safetensors ../listed'
rm -rf light/.git light/run/checkpoints
run verify light
exits 0
out_has '^checkpoints +not checked +none is there any more: the model cannot be compared with what was trained$'
out_has '^parameters moved +not checked +it needs the checkpoint of the last step$'
echo mine >light/.gitignore
run distill --resume --out light
exits 0
check "somebody's .gitignore stays" grep -qx mine light/.gitignore

# ---- export ----
run export whole --to copy
exits 0
out_has '^output +copy \(model\), 6 files, .* as they were$'
out_has '^upload +hf upload ORG/NAME copy$'
check "the model alone" test "$(ls -A copy | tr '\n' ' ')" = \
    "README.md config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json "
check "as it is" sh -c 'for f in copy/*; do cmp "$f" "whole/${f#copy/}" || exit 1; done'
run export whole --to copy
exits 5
err_has 'copy is there already; --force replaces it'
run export whole --to copy --force --json
exits 0
json_is 'j["kind"] == "model" and j["files"] == 6 and j["format"] == "hf"'
echo mine >copy/thesis.tex
run export whole --to copy --force
exits 5
err_has 'copy holds what was not written there by retort'
check "it stays" grep -qx mine copy/thesis.tex
run export whole --to whole --force
exits 5
err_has 'whole holds the input'
run export whole --to m.gguf --dtype q8_0
exits 0
run convert whole c.gguf --dtype q8_0
check "a file is what convert writes" cmp m.gguf c.gguf
check "with its Modelfile" test -f m.Modelfile
run export whole
exits 2
err_has '--to is needed'
run export c.gguf --to y
exits 5
err_has 'c.gguf is a file; retort convert'
run export gone --to y
exits 3
check "nothing was made" test ! -e x -a ! -e y -a -z "$(find . -maxdepth 1 -name '.*retort-tmp*')"

# ---- a suffix that is none ----
for name in x.ggfu x.safetensor x.bin; do
    run convert whole $name
    exits 2
    err_one_line
    err_has "^$name: no format has the suffix .*put a slash at its end"
    check "nothing was made" test ! -e $name
done
run convert whole x.ggfu
err_has 'did you mean .gguf\?'
for name in model.v2 qwen2.5-0.5b x.ggfu/; do
    run convert whole $name
    exits 0
    check "a folder" test -f "$name/config.json"
done
run quantize whole y.gufg --dtype q8_0
exits 2
err_has '--to gives a file of any name a format'

# ---- an adapter and its base ----
mkdir models runs
cp -r s models/base
run train --student models/base --data d.jsonl --batch 4 --seq-len 64 --threads 1 --steps 4 --lora-rank 2 --out runs/lo
exits 0
check "the base by its path from / on" grep -q "\"base_model_name_or_path\": \"$(realpath models/base)\"" runs/lo/adapter_config.json
check "the card has no path" sh -c '! grep -q "$0" runs/lo/README.md' "$(realpath .)"
(cd elsewhere && run generate ../runs/lo --prompt the --max-new 2 --quiet && exits 0 && test "$failed" = 0)
check "found again from another folder" test $? = 0
for folder in runs/lo $(ls -d runs/lo/run/checkpoints/checkpoint-*); do
    run inspect "$folder"
    exits 0
done
mkdir moved
mv models/base runs/lo moved
(cd elsewhere && run generate ../moved/lo --prompt the --max-new 2 --quiet && exits 0 && test "$failed" = 0)
check "both moved: found beside it" test $? = 0
sed -i 's/"base_model_name_or_path": "[^"]*"/"base_model_name_or_path": "base"/' moved/lo/adapter_config.json # as it was written before
(cd elsewhere && run generate ../moved/lo --prompt the --max-new 2 --quiet && exits 0 && test "$failed" = 0)
check "by name alone: found beside it" test $? = 0
run generate moved/lo/adapter_model.safetensors --prompt the
exits 5
err_has 'adapter_model.safetensors holds the matrices of a LoRA adapter alone: name the folder that it is in'
run export moved/lo --to just-adapter
exits 0
check "an adapter stays one" test "$(ls -A just-adapter | tr '\n' ' ')" = "README.md adapter_config.json adapter_model.safetensors generation_config.json tokenizer.json tokenizer_config.json "
run init --from s --layers 0 shallow
run merge moved/lo m1 --base shallow
exits 5
err_has 'moved/lo is the adapter of a model with at least 2 layers, and shallow has 1'
run train --student shallow --data d.jsonl --batch 4 --seq-len 64 --threads 1 --steps 2 --lora-rank 2 --out lo1
run merge lo1 m1 --base s
exits 5
err_has 'lo1 is the adapter of a model with 1 layer, and s has [0-9]+'
rm -r moved/base
run generate moved/lo --prompt the
exits 3
err_has "its base model 'base' is not there, .*give it with --base"

finish
