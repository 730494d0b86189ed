# out_folder.sh - what becomes of --out: nothing of anybody else's is removed or changed, and one process at a time
# writes there. out_states.py does the same over random folders: OUT_STATES=500 for more of them.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"
export RETORT

texts d.jsonl 80 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
base="--student s --data d.jsonl --batch 4 --seq-len 64 --threads 1 --eval-every 100"
good="distill --teacher t $base --steps 4 --save-every 2"
bad="distill --teacher /nope $base"

# at_once ARGS...: several processes; what they ended with is in $out.
at_once() {
    shown="at once: $*"
    status=0
    python3 "$here/at_once.py" "$@" >"$out" 2>"$err" || status=$?
}
# unchanged WHAT COMMAND...: the folder "case" has the same names and bytes after the command as before.
unchanged() {
    what=$1
    shift
    (cd case && find . | sort && sums .) >before.txt 2>/dev/null
    run "$@"
    (cd case && find . | sort && sums .) >after.txt 2>/dev/null
    check "unchanged: $what" cmp before.txt after.txt
}

# ---- a start that fails ----
mkdir -p case/proj/run
echo x >case/proj/run/notes
unchanged "a folder run of somebody's" $bad --out case/proj
exits 5
err_one_line
err_has 'case/proj is not empty and holds no run; .*--out'
mkdir case/empty case/empty-run case/empty-run/run
unchanged "an empty folder" $bad --out case/empty
exits 3
unchanged "an empty folder run" $bad --out case/empty-run
exits 3
unchanged "nothing, three folders deep" $bad --out case/a/b/c/
exits 3
mkdir case/a
unchanged "two folders deep in one that was there" $bad --out case/a/b/c
exits 3
unchanged "data that is not there" $good --data /nope.jsonl --out case/n
unchanged "found out when tokens had been made" $good --freeze 'no.such.*' --out case/n
exits 5
err_has 'no parameter'
mkdir case/here
(cd case/here && ${EMU:-} "$RETORT" distill --teacher /nope --student ../../s --data ../../d.jsonl --out . >"$out" 2>"$err")
check "the working directory is still there, and empty" test -d case/here -a -z "$(ls -A case/here)"
ln -s empty case/link
unchanged "a link to a folder" $bad --out case/link
exits 3
ln -s nowhere case/dangling
unchanged "a link to nothing" $bad --out case/dangling
check "expected 5 or 7" test "$status" = 5 -o "$status" = 7
echo x >case/file
unchanged "a file" $bad --out case/file
exits 5
err_has 'case/file is a file; --out names a folder'
for name in lock retort.lock settings.json resolved.yaml .settings.json.retort-tmp-1-1 data/train.json; do
    rm -rf case/one
    mkdir -p "$(dirname "case/one/run/$name")"
    echo mine >case/one/run/$name
    unchanged "run/$name of somebody's" $bad --out case/one
    exits 5
    unchanged "run/$name of somebody's, resumed" distill --resume --out case/one
    check "expected 3 or 4" test "$status" = 3 -o "$status" = 4
done
mkdir -p case/linked
ln -s ../empty case/linked/run
unchanged "a link called run" $good --out case/linked
exits 5
echo '{}' >case/one/run/settings.json
rm -rf case/one/run/data
unchanged "settings of something else, overridden" distill --resume --override --teacher t $base --out case/one
exits 4
err_has 'case/one/run/settings\.json'

# ---- a start that was killed before it had its settings ----
mkdir -p killed/run
: >killed/run/retort.lock
echo half >killed/run/.settings.json.retort-tmp-99-0
run distill --resume --out killed
exits 3
run $bad --out killed
exits 3
check "a start that fails leaves what is left of another" test -f killed/run/retort.lock
run $good --out killed
exits 0
check "nothing hidden is left" test -z "$(find killed -name '.*' ! -name .gitignore)"
run verify killed
exits 0
check "the manifest does not list the lock" sh -c '! grep -q retort.lock killed/run/manifest.json'
run $good --out case/empty-run
exits 0

# ---- what a run removes ----
cp -r killed mine
for name in run/checkpoints/checkpoint-000001/notes run/checkpoints/checkpoint-000004/notes run/checkpoints/best-000001/notes best-foo/x .x.tmp-1-1 .y.tmp-1-1/z; do
    mkdir -p "$(dirname "mine/$name")"
    echo mine >mine/$name
done
mkdir -p elsewhere
echo mine >elsewhere/state.json
ln -s ../../../elsewhere mine/run/checkpoints/checkpoint-000003
run distill --resume --override --out mine --steps 12 --keep 1
exits 0
check "each of the seven files is there and says what it said" test "$(find mine elsewhere -type f | xargs grep -lx mine | wc -l)" = 7
check "the link is there" test -h mine/run/checkpoints/checkpoint-000003
check "a checkpoint of the run's alone went" test ! -e mine/run/checkpoints/checkpoint-000002
cp -r s forced
echo mine >forced/thesis.tex
run init --preset tiny-qwen2 --force forced
exits 5
err_has "forced holds 'thesis.tex', which is no part of a model"
check "it is as it was" cmp s/model.safetensors forced/model.safetensors
rm forced/thesis.tex
run init --preset tiny-qwen2 --force forced
exits 0
: >.s.gguf.retort-tmp-1-0
: >.s.gguf.tmp-1-0
run convert s s.gguf
exits 0
check "outside of a run nobody's temporary name is removed" test -f .s.gguf.retort-tmp-1-0 -a -f .s.gguf.tmp-1-0

# ---- one writer ----
long="distill --teacher t $base --steps 160 --save-every 40"
run $long --out whole
exits 0
curve whole >whole.curve
check "the lock is free, and says nothing of whoever had it" sh -c '! grep -q process whole/run/retort.lock'
at_once 3 $long --out new
out_has '^statuses 0 5 5$'
check "the others name the one, or find its run there" test 2 = "$(grep -cE \
    '^said new is (in use by process [0-9]+ on host .* since .*distill.*wait for it|not empty; --resume)' "$out")"
curve new >new.curve
check "the run is that of one left alone" cmp whole.curve new.curve
run verify new
exits 0
at_once --beside beside $long --out beside -- distill --resume --out beside
out_has '^first 0 second 5$'
out_has '^said beside is in use by process [0-9]+ on host '
at_once --beside beside-bad $long --out beside-bad -- $bad --out beside-bad
out_has '^first 0 second 5$'
for name in beside beside-bad; do
    curve $name >beside.curve
    check "the run beside is that of one left alone" cmp whole.curve beside.curve
    run verify $name
    exits 0
done
stop KILL 60 two $long
check "killed" test "$status" != 0
check "the one that was killed is named in the file" grep -q '^process' two/run/retort.lock
at_once 2 distill --resume --out two
out_has '^statuses 0 5$'
out_has '^said two is in use by process'
curve two >two.curve
check "two resumes: the curve of one left alone" cmp whole.curve two.curve
run verify two
exits 0
# A run without a lock, as versions before this one left them.
rm two/run/retort.lock
sums two >sums.1
run distill --resume --out two --lr 1
exits 5
sums two >sums.2
check "a resume that is refused makes none" cmp sums.1 sums.2
run verify two
exits 0
run distill --resume --out two
exits 0
run verify two
exits 0
# The control has a lock of its own below that of its run.
run distill --teacher t $base --steps 4 --control --out both
exits 0
check "both are free" test -f both/run/retort.lock -a -f both/run/control/run/retort.lock
run verify both
exits 0

# ---- random folders ----
shown="out_states.py"
status=0
python3 "$here/out_states.py" --retort "$RETORT" --work "$work/states" >"$out" 2>"$err" || status=$?
head -n 1 "$out"
tail -n 2 "$out"
exits 0
finish
