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
rm mine/run/checkpoints/checkpoint-000002/config.json
mkdir mine/run/checkpoints/checkpoint-000002/config.json
echo theirs >mine/run/checkpoints/checkpoint-000002/config.json/notes
run distill --resume --override --out mine --steps 12 --keep 1
exits 0
check "a folder under the name of a checkpoint's file stays" grep -qx theirs mine/run/checkpoints/checkpoint-000002/config.json/notes
check "each of the seven files is there and says what it said" test "$(find mine elsewhere -type f | xargs grep -lx mine | wc -l)" = 7
check "the link is there" test -h mine/run/checkpoints/checkpoint-000003
check "a checkpoint of the run's alone went" test ! -e mine/run/checkpoints/checkpoint-000006

# ---- what is somebody's in OUT itself ----
# An edited card survives a run that goes on.
cp -r killed card
echo 'a day of work' >>card/README.md
cp card/README.md card.md
run distill --resume --override --out card --steps 8
exits 0
out_has 'card/README.md is not as the run wrote it and stays as it is; the card of this run is card/run/README.md'
check "the card is the user's" cmp card.md card/README.md
check "the new one is below run" grep -q 'step' card/run/README.md
check "the manifest does not call it the run's" sh -c '! grep -q "\"README.md\"" card/run/manifest.json'
run verify card
exits 0
run distill --resume --override --out card --steps 10
exits 0
check "again" cmp card.md card/README.md
cp -r killed card-own
run distill --resume --override --out card-own --steps 8
exits 0
out_lacks 'stays as it is'
check "a card that was not edited is the new one" sh -c '! cmp killed/README.md card-own/README.md'
run verify card-own
exits 0
# Files under a model's names, between a stop and the resume: refused before a step, and untouched.
stop KILL 8 half distill --teacher t $base --steps 60 --save-every 4 --warmup 0
for name in config.json tokenizer.json model.safetensors chat_template.jinja adapter_config.json model.safetensors.index.json \
    added_tokens.json special_tokens_map.json vocab.json; do
    rm -rf case/half
    cp -r half case/half
    echo mine >case/half/$name
    sums case/half | grep -v retort.lock >sums.1 # it named the process that was killed
    run distill --resume --override --out case/half
    exits 4
    err_has "in case/half there is $name, which this run did not write.*move it away"
    err_one_line
    sums case/half | grep -v retort.lock >sums.2
    check "nothing changed" cmp sums.1 sums.2
done
rm -rf case/half
cp -r half case/half
mkdir case/half/config.json case/half/README.md
echo mine | tee case/half/config.json/notes >case/half/README.md/notes
run distill --resume --out case/half
exits 4
err_has 'there is config.json, which'
rm -rf case/half/config.json
ln -s nowhere case/half/.gitignore
run distill --resume --out case/half
exits 0
check "a folder and a link that are somebody's stay" test "$(cat case/half/README.md/notes) $(readlink case/half/.gitignore)" = "mine nowhere"
run verify case/half
exits 0
# Of a run that has ended: an edited file of the model, and one that is added.
cp -r killed edited
echo ' ' >>edited/config.json
run distill --resume --override --out edited --steps 8
exits 4
err_has 'in edited there is config.json'
cp -r killed added
echo '{{ messages }}' >added/chat_template.jinja
run verify added
exits 5
out_has 'chat_template.jinja is not of the run'
# They come while the run goes on: kept under another name.
${EMU:-} "$RETORT" distill --teacher t $base --steps 400 --save-every 4 --out during >during.out 2>&1 &
while [ ! -d during/run/checkpoints/checkpoint-000004 ] && kill -0 $! 2>/dev/null; do sleep 0.01; done
for name in config.json added_tokens.json README.md notes; do echo "mine: $name" >during/$name; done
echo older >during/config.json.yours-1
status=0
wait $! || status=$?
exits 0
check "each is there" sh -c 'cd during && cat config.json.yours-2 added_tokens.json.yours-1 README.md notes config.json.yours-1 | tr "\n" " " |
    grep -qx "mine: config.json mine: added_tokens.json mine: README.md mine: notes older "'
check "and was told" test "$(grep -cE 'is now called|stays as it is' during.out)" = 3
check "the model has no part of them" test ! -e during/added_tokens.json -a -f during/config.json
check "and the manifest none" sh -c '! grep -E "notes|yours|added_tokens|\"README" during/run/manifest.json'
run verify during
exits 0
# A run of a version without root.json goes on, and one that was killed after that.
cp -r killed before
rm before/run/root.json
python3 - before/run/manifest.json <<'PY'
import sys
text = open(sys.argv[1]).read()
assert "run/root.json" in text
PY
run distill --resume --override --out before --steps 8
exits 0
run verify before
exits 0
rm -rf again
cp -r killed again
stop KILL 8 again distill --resume --override --steps 400
check "killed" test "$status" != 0
run distill --resume --override --out again --steps 60
exits 0
out_lacks 'stays as it is'
run verify again
exits 0
cp -r again journal
echo x >>journal/run/root.json
run distill --resume --override --out journal --steps 70
exits 4
err_has 'root.json is damaged or was altered'
# OUT/merged is replaced as a whole, or not at all.
run distill --teacher t $base --steps 4 --save-every 2 --lora-rank 2 --merge --out lora
exits 0
run verify lora
exits 0
run distill --resume --override --out lora --steps 6
exits 0
run verify lora
exits 0
echo ' ' >>lora/merged/config.json
run distill --resume --override --out lora --steps 8
exits 4
err_has 'in lora there is merged/config.json'

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

# What comes under an output's name while it is made stays, without --force: one of several at once gets the name.
run init --preset tiny-qwen2 --seed 3 --dtype f32 src
texts many.jsonl 3000 and
for words in 'export src --to race' 'export src --to race.gguf' 'convert src race' 'convert src race.gguf' 'convert src race.apr' \
    'convert src race.safetensors' 'quantize src race.gguf --dtype q8_0' 'convert lora race.gguf --adapter' \
    'init --preset tiny race' 'tokenize --model s many.jsonl -o race.rtok'; do
    at_once 4 $words
    out_has '^statuses 0 5 5 5$'
    check "nothing half-made is left" sh -c '! ls -d .race* 2>/dev/null'
    rm -rf race*
done

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
# Nobody else writes into the record of a run, nor beside it while it goes on.
at_once --beside going $long --out going -- convert t going/t.gguf
out_has '^first 0 second 5$'
out_has '^said .*going is in use by process'
at_once --beside going3 $long --out going3 -- export going3 --to exported
out_has '^first 0 second 3$'
out_has '^said going3 has no finished model: its run is still going on; wait for it'
at_once --beside going2 $long --out going2 -- convert t going2/run/checkpoints/checkpoint-000040 --force
out_has '^first 0 second 5$'
ln -s going/run inside
cp -r going case/going
for target in case/going/run/t.gguf case/going/run/checkpoints/best-000009 case/going/run/checkpoints/checkpoint-000160 inside/t.gguf; do
    unchanged "convert --force to $target" convert t $target --force
    exits 5
    err_has 'where only the run itself writes: name another place'
    unchanged "init --force to $target" init --preset tiny-qwen2 --force $target
    exits 5
done
unchanged "tokenize into the record" tokenize --model t d.jsonl --out case/going/run/x.rtok
exits 5
run convert t going/t.gguf
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
