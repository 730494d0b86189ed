# distill.sh - `retort distill` and `retort train`: that they learn and when they must not, resuming to the bit, what is
# refused, and that nothing good is lost when something fails.
# Files on disk.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 160 and
texts e.jsonl 24 but
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
run init --preset tiny-llama --seed 9 --dtype f32 noise
base="--data d.jsonl --batch 4 --seq-len 64 --threads 2"

# ---- words ----
for command in distill train; do
    run $command --help
    exits 0
    err_empty
    out_has "^usage: retort $command"
    out_has '^example:'
    out_has '^  --lr R +Peak learning rate \(by the distance'
    out_has '^  --resume '
done
check "a run without a teacher has no flags for one" sh -c '! grep -E -e "--(teacher|divergence|alpha|temperature) " "$0"' "$out"
run distill --student s --data d.jsonl --out x
exits 2
err_one_line
err_has 'retort distill needs --teacher; retort train'
run train --student s --data d.jsonl
exits 2
err_has '--out'
run train --data d.jsonl --out x
exits 2
err_has '--student'
run train --student s --out x
exits 2
err_has '--data'
run distill --teacher t --student s $base --out x --divergance tv
exits 2
err_has "unknown flag '--divergance'; did you mean --divergence"
run train --teacher t --student s $base --out x
exits 2
err_has '--teacher'
run distill --teacher t --student s $base --out x --lr 1 --lr 2
exits 2
err_has '--lr is given twice'
run distill --teacher t --student s $base --out x --lr fast
exits 2
err_has "--lr takes a number, not 'fast'"
run distill --teacher t --student s $base --out x --override
exits 2
err_has '--override needs --resume'
mkdir in-here
(cd in-here && ${EMU:-} "$RETORT" distill --teacher ../t --student ../s --data ../d.jsonl --out '' --steps 1 >"$out" 2>"$err")
status=$?
shown="retort distill --out ''"
exits 2
err_has '--out is missing'
check "nothing was made, here or there" sh -c 'test ! -e x && test -z "$(ls -A in-here)" && test ! -e /checkpoint-000001'

# ---- it learns ----
run train --student t $base --out taught --steps 60 --eval-every 60 --save-every 60
exits 0
err_empty
out_has '^student +t: llama, 133440 parameters'
out_has '^objective loss = 1\.00 CE, 98 % of tokens trained$'
out_has '^eval 60 +ce [0-9.]+ \+- [0-9.]+  best$'
out_has '^taught: the model of step 60 \(the best\), read back$'
check "CE fell" less "$(metric taught last ce)" "$(metric taught 0 ce)"
run inspect taught --json
json_is 'j["random_init"] is False and j["tokenizer"]["chat_template"]'
run distill --teacher taught --student s $base --out o --steps 60 --eval-every 20 --save-every 20
exits 0
out_has '^disk      o/run takes [1-9][0-9.]* [KM]iB, of it [1-9][0-9.]* [KM]iB for checkpoints'
out_has '^pair +259 ids in common, padding left out \(13 rows of the student, 13 of the teacher\)$'
out_has '^objective loss = 0\.10 CE \+ 0\.90 KL\(teacher\|\|student\), T 1, 98 % of tokens trained$'
out_has '^step 10/60  loss .*div .*agree .*norm .*tok/s  teacher [0-9]+ %.*left '
check "a line for each step and each evaluation, and one for its documents" test "$(wc -l <o/run/metrics.jsonl)" = 65
check "KL fell to a third" sh -c 'python3 -c "import sys; sys.exit(0 if 3 * float(sys.argv[1]) < float(sys.argv[2]) else 1)" "$1" "$2"' - \
    "$(metric o last forward_kl)" "$(metric o 0 forward_kl)"
check "agreement rose" less "$(metric o 0 agreement)" "$(metric o last agreement)"
check "the floor is the teacher's own, and stays" test "$(metric o 0 teacher_ce)" = "$(metric o last teacher_ce)"
check "checkpoints are models too" test -f o/run/checkpoints/checkpoint-000060/config.json -a -f o/run/checkpoints/checkpoint-000060/model.safetensors
run inspect o/run/checkpoints/checkpoint-000060
exits 0

# Controls: a rate of 0 learns nothing, and noise teaches nothing of a real teacher.
run distill --teacher taught --student s $base --out still --steps 10 --eval-every 10 --save-every 10 --lr 0
exits 0
for key in ce forward_kl agreement divergence; do
    check "$key is as it was" test "$(metric still 0 $key)" = "$(metric still last $key)"
done
check "KL did not fall to a third" sh -c '! python3 -c "import sys; sys.exit(0 if 3 * float(sys.argv[1]) < float(sys.argv[2]) else 1)" "$1" "$2"' - \
    "$(metric still last forward_kl)" "$(metric still 0 forward_kl)"
run distill --teacher noise --student s $base --out noisy --steps 60 --eval-every 60 --save-every 60 --alpha 1
exits 0
run eval s --teacher taught --data e.jsonl --json
cp "$out" before.json
run eval noisy --teacher taught --data e.jsonl --json
cp "$out" noisy.json
run eval o --teacher taught --data e.jsonl --json
cp "$out" after.json
shown="agreement of three students with a real teacher"
check "noise does not raise it, a real teacher does" python3 -c '
import json
a = {n: json.load(open(n + ".json"))["agreement"] for n in ("before", "noisy", "after")}
error = (a["before"]["error"] ** 2 + a["noisy"]["error"] ** 2) ** 0.5
assert a["noisy"]["mean"] <= a["before"]["mean"] + 2 * error, a
assert a["after"]["mean"] > a["before"]["mean"] + 2 * error, a'

# ---- one teacher in two containers, and threads ----
small="$base --steps 6 --eval-every 3 --save-every 3 --teacher"
run convert taught taught.gguf
run distill $small taught --student s --out plain
exits 0
run distill $small taught.gguf --student s --out gguf
exits 0
curve plain >plain.curve
curve gguf >gguf.curve
check "the same values in GGUF give the same bits" cmp plain.curve gguf.curve
check "and the same weights" cmp plain/model.safetensors gguf/model.safetensors
run convert s s.gguf
run distill $small taught --student s.gguf --out from-gguf --recompute block
exits 0
curve from-gguf >from-gguf.curve
check "a student in GGUF, recomputed: the same bits" cmp plain.curve from-gguf.curve
check "it gets a tokenizer.json" test -f from-gguf/tokenizer.json
run generate from-gguf --prompt 'the' --max-new 3 --quiet
exits 0

# ---- stopped and resumed ----
long="--teacher taught --student s $base --steps 40 --eval-every 7 --save-every 9"
run distill $long --out whole
exits 0
curve whole >whole.curve
for name in INT TERM; do
    stop $name 12 part-$name distill $long
    exits 130
    err_one_line
    err_has 'stopped after step [0-9]+ of 40; to resume: retort distill --resume --out '
    step=$(ls part-$name/run/checkpoints | sed -n 's/checkpoint-0*//p' | tail -n 1)
    check "the step that was finished is saved" grep -q "after step $step of" "$err"
    check "no model at the root yet" test ! -e part-$name/config.json
    echo '{"event": "step", "step": 99, "seconds": 1}' >>part-$name/run/metrics.jsonl # as if more steps had been lost
    run distill --resume --out part-$name
    exits 0
    out_has "resuming from checkpoint-0*$step, step $step of 40"
    curve part-$name >part.curve
    check "the curve is that of the whole run" cmp whole.curve part.curve
    check "and so is the model" cmp whole/model.safetensors part-$name/model.safetensors
    check "and the optimizer's state" cmp whole/run/checkpoints/checkpoint-000040/state.safetensors part-$name/run/checkpoints/checkpoint-000040/state.safetensors
done
# Again, when all is done: it says so, and no file changes.
sums whole >sums.1
run distill --resume --out whole
exits 0
sums whole >sums.2
check "resuming what is finished changes nothing" cmp sums.1 sums.2
check "and finds nothing damaged" sh -c '! cat "$0" "$1" | grep damaged' "$out" "$err"
out_has '^whole: this run ended before, at step 40 of 40; its model is that of step [0-9]+. Nothing was done.$'
out_has '^To train it further: retort distill --resume --out whole --override --steps 80$'
run distill --resume --out whole --json
exits 0
check "for programs: what it ended with" python3 -c '
import json, sys
end = json.loads(open(sys.argv[1]).read().splitlines()[-1])
log = [j for j in map(json.loads, open("whole/run/metrics.jsonl")) if j["event"] == "eval"]
assert end["event"] == "end" and end["ended_before"] is True and end["exit_code"] == 0
assert abs(end["before"]["ce"][0] - log[0]["ce"][0]) < 1e-12 and end["after"]["forward_kl"][0] > 0' "$out"
run distill --resume --out whole --save-dtype bf16
exits 0
out_has '^cross-entropy +[1-9]'
check "what is asked for anew is done" test "$(stat -c %s whole/model.safetensors)" -lt "$(stat -c %s part-INT/model.safetensors)"
# Its checkpoints may go when it has ended; then it is not begun anew.
cp -r part-INT light
rm -r light/run/checkpoints
sums light >sums.1
run distill --resume --out light
exits 0
out_has '^light: this run ended before'
run distill --resume --override --steps 50 --out light
exits 5
err_has '^light has ended and its checkpoints were removed.* retort distill --teacher taught --student light --data DATA --out NEW$'
sums light >sums.2
check "the model is as it was" cmp sums.1 sums.2

# ---- settings of a resumed run ----
stop INT 12 changed distill $long
exits 130
sums changed >sums.1
run distill --resume --out changed --lr 1e-3 --batch 8 --keep 3
exits 5
err_has '^--lr: was 0\.007, now 0\.001$'
err_has '^--batch: was 4, now 8$'
err_has '--override'
sums changed >sums.2
check "nothing was touched" cmp sums.1 sums.2
cp -r changed freely
run distill --resume --out freely --keep 3 --threads 1
exits 0
curve freely >freely.curve
check "what is free does not change the curve" cmp whole.curve freely.curve
cp -r changed altered
run distill --resume --override --out altered --lr 1e-3 --alpha 0.5 --epochs 1
exits 0
check "the new rate is used, and kept in the record" grep -q '"lr": 0.001' altered/run/settings.json
check "so is alpha, against the weights that were resolved from the old one" grep -q '"kd_weight": 0.5,' altered/run/settings.json
check "and the length, in other words" sh -c 'grep -q epochs "$0" && ! grep -q "\"steps\"" "$0"' altered/run/settings.json
sums changed >sums.1
run distill --resume --override --out changed --data e.jsonl
exits 5
err_has '^--data: was \["d\.jsonl"\], now \["e\.jsonl"\]; the tokens of a run are made already'
sums changed >sums.2
check "nothing was touched" cmp sums.1 sums.2
run distill --resume --override --out changed --seq-len 32
exits 5
err_has 'row length'
sums changed >sums.2
check "nothing was touched" cmp sums.1 sums.2
run distill --resume --out nowhere
exits 3
err_has 'nowhere holds no run to resume'
run distill --resume --out s
exits 3

# ---- refused before anything is made ----
run distill $long --out o
exits 5
err_has 'o is not empty; --resume'
run distill --teacher s --student s $base --out x
exits 5
err_one_line
err_has 'nothing to learn.*--allow-degenerate'
run convert s s.apr
run distill --teacher s.apr --student s $base --out x
exits 5
err_has '--allow-degenerate'
python3 - <<'PY'
import json
j = json.load(open("s/tokenizer.json"))
v = j["model"]["vocab"]
a, b = (next(k for k, i in v.items() if i == n) for n in (97, 98))
v[a], v[b] = 98, 97
json.dump(j, open("swapped.json", "w"))
PY
run init --preset tiny-llama --seed 3 --tokenizer swapped.json swapped
exits 0
run distill --teacher swapped --student s $base --out x
exits 5
err_one_line
err_has "2 ids differ: id 97 is 'a' to the student and 'b' to the teacher; id 98"
run distill --teacher taught --student s --data d.jsonl --seq-len 64 --out x --batch 200
exits 5
err_has 'the data makes [0-9]+ rows of 64 tokens, less than one --batch of 200; give more data, or lower'
run distill --teacher gone --student s $base --out x
exits 3
err_has 'gone'
run distill --teacher taught --student s $base --out x --data gone.jsonl
exits 3
err_has 'gone\.jsonl'
run distill --teacher taught --student s $base --out x --freeze 'model.layer.*'
exits 5
err_has "--freeze 'model\.layer\.\*' matches no parameter"
check "nothing was left" test ! -e x/config.json -a ! -e x/run/checkpoints/checkpoint-000001
rm -rf x
run train --student s $base --out x --freeze '*'
exits 5
err_has 'every parameter of the student is frozen'
rm -rf x

# ---- a value that is not finite: in a file, and at step 7 ----
cp -r s bad
python3 "$here/plant.py" nan bad/model.safetensors model.layers.1.mlp.up_proj.weight 5 3
for pair in 'taught bad' 'bad s'; do
    run distill --teacher "${pair% *}" --student "${pair#* }" $base --out x
    exits 12
    err_one_line
    err_has 'bad: tensor model\.layers\.1\.mlp\.up_proj\.weight has a value that is not finite at row 5, column 3'
    check "nothing was trained" test ! -e x/run/checkpoints/checkpoint-000001 -a ! -e x/config.json
    rm -rf x
done
run init --preset tiny-llama --seed 5 --dtype f32 planted
python3 "$here/plant.py" overflow planted/model.safetensors 126 # the byte ~
python3 - <<'PY'
import json
words = "the quick brown fox jumps over the lazy dog while seven wizards box in quiet zones".split()
with open("planted.jsonl", "w") as f:
    for i in range(24): # the order of rows is fixed by the seed: this one is taken in step 7
        text = f" record {i} " + " ".join(words[(i * 3 + k) % 16] for k in range(8))
        f.write(json.dumps({"text": ("~" if i == 10 else "-") + text}) + "\n")
PY
run train --student planted --data planted.jsonl --eval-data e.jsonl --out seven --steps 12 --batch 1 --seq-len 64 \
    --freeze 'model.layers.*' --freeze 'model.embed*' --save-every 3 --eval-every 6 --threads 1
exits 12
err_one_line
err_has '^step 7: the logits of row 0, position 0 of a micro-batch are not finite'
err_has 'checkpoints are as they were.*--lr'
check "six steps are in the metrics" test "$(grep -c '"step","step"' seven/run/metrics.jsonl)" = 6
check "the last good checkpoint is of step 6" test "$(ls seven/run/checkpoints | grep checkpoint | tail -n 1)" = checkpoint-000006
check "no model at the root" test ! -e seven/config.json
sums seven/run/checkpoints/checkpoint-000003 seven/run/checkpoints/checkpoint-000006 >sums.1
run train --resume --out seven
exits 12
err_has '^step 7: '
sums seven/run/checkpoints/checkpoint-000003 seven/run/checkpoints/checkpoint-000006 >sums.2
check "they are untouched" cmp sums.1 sums.2

# ---- files that vanish ----
cp -r taught leaving
stop INT 12 vanish distill --student s $long
exits 2 # given twice
rm -rf vanish
vanishing="--student s $base --steps 40 --eval-every 7 --save-every 9 --teacher leaving"
stop INT 12 vanish distill $vanishing
exits 130
mv leaving left
sums vanish >sums.1
run distill --resume --out vanish
exits 3
err_has 'leaving'
sums vanish >sums.2
check "the run is as it was" cmp sums.1 sums.2
mv left leaving
mv d.jsonl d.gone
run distill --resume --out vanish
exits 0
curve vanish >vanish.curve
check "without the text: its tokens are in the run, and the curve is the same" cmp whole.curve vanish.curve
mv d.gone d.jsonl
# While it runs: the weights are in memory, so the run does not notice.
stop USR1 5 running distill $vanishing
check "a signal that is not for stopping is not caught" test "$status" != 0
rm -rf running
python3 - "$RETORT" $vanishing <<'PY'
import os, shlex, shutil, subprocess, sys, time
p = subprocess.Popen(shlex.split(os.environ.get("EMU", "")) + [sys.argv[1], "distill", *sys.argv[2:], "--out", "running"],
                     stdout=subprocess.DEVNULL)
while p.poll() is None and not os.path.exists("running/run/checkpoints/checkpoint-000009"):
    time.sleep(0.001)
shutil.rmtree("leaving")
sys.exit(p.wait())
PY
status=$?
shown="a teacher that vanishes while it teaches"
exits 0
curve running >running.curve
check "the run goes on from memory" cmp whole.curve running.curve

# ---- a damaged checkpoint ----
for name in model.safetensors state.safetensors state.json config.json; do
    rm -rf damaged
    cp -r changed damaged
    newest=$(ls damaged/run/checkpoints | grep checkpoint | tail -n 1)
    file=damaged/run/checkpoints/$newest/$name
    python3 - "$file" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(0, 2)
    at = f.tell() // 2
    f.seek(at)
    byte = f.read(1)[0]
    f.seek(at)
    f.write(bytes([byte ^ 4]))
PY
    sums damaged >sums.1
    run distill --resume --out damaged
    exits 4
    err_one_line
    err_has "$newest: $name is damaged.*remove this checkpoint"
    sums damaged >sums.2
    check "nothing else was touched" cmp sums.1 sums.2
done
rm -r "damaged/run/checkpoints/$newest"
run distill --resume --out damaged
exits 0
curve damaged >damaged.curve
check "from the one before it, the same curve" cmp whole.curve damaged.curve

# ---- nowhere to write ----
echo file >in-the-way
run distill $long --out in-the-way
check "a file in the way: input/output, or invalid" test "$status" = 7 -o "$status" = 5
err_has 'in-the-way'
check "the file is as it was" grep -q file in-the-way
run distill $long --out /proc/nowhere
check "expected 3 or 7" test "$status" = 7 -o "$status" = 3
err_has '/proc/nowhere'
mkdir small
if [ -z "${EMU:-}" ] && mount -t tmpfs -o size=6m tmpfs "$work/small" 2>/dev/null; then
    # Room for a checkpoint of 1.9 MB and a part of the next, until something fills the disk.
    stop INT 12 small/o distill $long
    exits 130
    sums small/o/run/checkpoints/checkpoint* >sums.1
    dd if=/dev/zero of=small/filler bs=64k 2>/dev/null
    run distill --resume --out small/o
    exits 7
    err_one_line
    err_has 'small/o'
    sums small/o/run/checkpoints/checkpoint* >sums.2
    check "the good checkpoint is untouched, and there is no other" cmp sums.1 sums.2
    check "no temporary folder is left" test -z "$(find small/o -name '.*tmp*')"
    rm small/filler
    mount -o remount,size=64m "$work/small"
    run distill --resume --out small/o
    exits 0
    curve small/o >small.curve
    check "with room again: the same curve" cmp whole.curve small.curve
    mount -o remount,ro "$work/small" && {
        run distill $long --out small/new
        exits 7
        err_has 'small/new'
    }
    umount "$work/small"
else
    echo "skipped: full and read-only disks (mounting a tmpfs is not permitted here, or programs are emulated)"
fi
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod 555 locked
    run distill $long --out locked/o
    exits 7
    err_has 'locked'
    chmod 755 locked
else
    echo "skipped: a directory without write permission (root may write everywhere)"
fi

# ---- conversations ----
python3 - <<'PY'
import json
words = "the quick brown fox jumps over the lazy dog while seven wizards box in quiet zones".split()
with open("chat.jsonl", "w") as f:
    for i in range(120):
        f.write(json.dumps({"messages": [{"role": "user", "content": f"{words[i % 16]} {i}?"},
                                         {"role": "assistant", "content": words[i * 3 % 16]}]}) + "\n")
PY
run distill --teacher taught --student s --data chat.jsonl --out chats --steps 4 --batch 4 --seq-len 64 --threads 1
exits 0
out_has '^template +teacher$'
share=$(sed -n 's/^objective .*, \([0-9]*\) % of tokens trained$/\1/p' "$out")
check "only what the assistant says is trained: $share %" test "${share:-100}" -lt 40 -a "${share:-0}" -gt 5
# A base student without a template gets the teacher's, and stops at its end of turn.
cp -r s base
python3 - <<'PY'
import json
j = json.load(open("base/tokenizer_config.json"))
del j["chat_template"]
json.dump(j, open("base/tokenizer_config.json", "w"))
c = json.load(open("base/config.json"))
c["eos_token_id"] = 256
json.dump(c, open("base/config.json", "w"))
PY
rm -f base/generation_config.json
run distill --teacher taught --student base --data chat.jsonl --out based --steps 4 --batch 4 --seq-len 64 --threads 1
exits 0
check "the end of turn ends a text" python3 -c '
import json
assert json.load(open("based/generation_config.json"))["eos_token_id"] == [256, 258]'
run inspect based --json --no-hash
json_is 'j["tokenizer"]["chat_template"]'
run distill --teacher taught --student base --data chat.jsonl --out x --chat-template student
exits 5
err_has 'the student has no chat template'
run distill --teacher taught --student base --data chat.jsonl --out x --chat-template none.jinja
exits 3
err_has 'none\.jinja'
check "nothing was left" test ! -e x

# ---- tokens without a tokenizer ----
run convert s bare-s --no-tokenizer
run convert taught bare-t --no-tokenizer
run tokenize d.jsonl --model s -o d.rtok
bare="--teacher bare-t --student bare-s --batch 4 --seq-len 64 --threads 2 --steps 6 --eval-every 3 --save-every 3"
run distill $bare --data d.rtok --out x
exits 5
err_has 'neither model has a tokenizer.*--vocab N'
run distill $bare --data d.jsonl --vocab 259 --out x
exits 5
err_has 'd\.jsonl is text, and neither model has a tokenizer'
run distill $bare --data d.rtok --vocab 259 --out bare
exits 0
out_has '259 ids in common \(not measured'
curve bare >bare.curve
# Without a tokenizer there are no samples; every other number is the same.
check "no samples without a tokenizer" test ! -e bare/run/samples.jsonl
sed 's/, "\(stop\|repetition\)_rate": [^,}]*//g' plain.curve >plain.unsaid
check "the same tokens give the same bits" cmp plain.unsaid bare.curve
run distill --resume --out bare
exits 0 # the shard is found where it was, not in the run's folder
python3 -c 'import struct; open("far.u32", "wb").write(b"".join(struct.pack("<I", (i * 7) % 1000) for i in range(4000)))'
far="--student bare-s --vocab 1000 --batch 2 --seq-len 64"
run train $far --data far.u32 --eval-data d.rtok --out x
exits 5
err_has 'id [0-9]+ is in the data, and an embedding has 272 rows'
rm -rf x
run train $far --data d.rtok --eval-data far.u32 --out x
exits 5
err_has 'id [0-9]+ is in the held-out data, and an embedding has 272 rows'
finish
