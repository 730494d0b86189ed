# cache.sh - a teacher asked once and kept: what `retort cache` writes and says, runs from it beside runs with the live teacher,
# other orders of the data, filling, parts, joining, kills, damage, and what is refused. Codes and files: test_cache*.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 160 and
texts other.jsonl 40 but
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
run init --preset tiny-llama --seed 3 --dtype f32 t2
ask="--teacher t --data d.jsonl --seq-len 64 --threads 2"
few="--student s --lr 1e-3 --threads 2"
learn="$few --data d.jsonl --batch 4 --steps 8 --eval-every 4"

# flip FILE BYTE: changes one bit of it
flip() {
    python3 -c 'import sys
f = open(sys.argv[1], "r+b"); f.seek(int(sys.argv[2])); x = f.read(1)[0]; f.seek(int(sys.argv[2])); f.write(bytes([x ^ 4]))' "$1" "$2"
}
# content CACHE: the hash of what it keeps; lines(RUN): its steps and evaluations, to be compared
content() { "$RETORT" cache "$1" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["content_hash"])'; }

# ---- made, and looked at ----
run cache $ask --out c
exits 0
out_has '^keeps +topk:64 at temperature 1, rows of 64 tokens$'
out_has '^positions +[0-9]+ for training, [0-9]+ held out$'
out_has '^next      retort distill --teacher c --student STUDENT --data d.jsonl --out OUT$'
run cache c --json
exits 0
json_is 'j["keep"] == "topk:64" and j["seq_len"] == 64 and j["positions"] > 1000 and j["held_out"] > 100'
check "nothing temporary is left" sh -c '! find c | grep -E "tmp"'

# ---- a run without the teacher's files ----
mv t t-away
run distill --teacher c $learn --out topk
exits 0
out_has '^teacher +t, from a cache: topk:64 at temperature 1, [0-9.]+ bytes per position; '
out_has '^KL, 65 outcomes '
out_has 'a lower bound of KL over all ids$'
check "the card says over how many outcomes" grep -q 'over 65 outcomes, a lower bound' topk/README.md
check "so does the page" grep -q 'over 65 outcomes, a lower bound' topk/run/report.html
check "it learns" less "$(metric topk last forward_kl)" "$(metric topk 0 forward_kl)"
check "the manifest names the model that was asked" grep -q '"cache"' topk/run/manifest.json
run verify topk
exits 0
out_has '^teacher +pass '
out_has 'not measured again$'
run plan --teacher c --student s --data d.jsonl --ops
exits 0
out_has '^teacher +t, from a cache'
check "the teacher's layers are nowhere" sh -c '! grep -q "teacher forward" "$0"' "$out"
# What is looked up before --time has said how many steps there are is the data, once.
check "--time ends" timeout 300 "$RETORT" distill --teacher c $few --data d.jsonl --batch 4 --time 3s --out timed
# Any order of the same positions.
run distill --teacher c $few --data d.jsonl --seed 7 --batch 6 --micro-batch 2 --steps 40 --out orders
exits 0
check "what is held out is the cache's, whatever the seed" grep -q '"held_seed": 0' orders/run/settings.json
head -n 60 d.jsonl >fewer.jsonl
run distill --teacher c $few --data fewer.jsonl --eval-data other.jsonl --steps 4 --out none
exits 5
err_has 'lacks 0 of [0-9]+ training positions and [0-9]+ of [0-9]+ held-out ones'
mv t-away t

# ---- beside the live teacher ----
held="$(python3 -c 'import json; h = json.load(open("c/cache.json"))["held_out"]; print(("%r%%" if h["percent"] else "%r") % h["value"])')"
run distill --teacher t $learn --seq-len 64 --held-out "$held" --out live
exits 0
ids=$(python3 -c 'import json; print(json.load(open("c/cache.json"))["ids"]["count"])')
run cache $ask --keep topk:$ids --out whole
exits 0
run distill --teacher whole $learn --out all
exits 0
check "lists of all ids give the live teacher's losses" near live all 2e-5
out_has '^KL\(teacher\|\|student\) '
run cache $ask --keep hidden --out h
exits 0
for d in forward-kl reverse-kl jsd tv; do
    run distill --teacher t $learn --seq-len 64 --held-out "$held" --divergence $d --temperature 2 --out live-$d
    run distill --teacher h $learn --divergence $d --temperature 2 --out hidden-$d
    exits 0
    check "hidden states give the live teacher's losses: $d" near live-$d hidden-$d 2e-5
done
# At another temperature evaluation reads two lists of each position: at 1, and at the loss's.
run cache $ask --keep topk:$ids --temperature 2 --out whole2
run distill --teacher whole2 $learn --out all2
exits 0
check "lists of all ids at temperature 2, too" near live-forward-kl all2 2e-5
run cache $ask --temperature 1.3 --out c13
run distill --teacher c13 $learn --temperature 1.3 --out at13
exits 0
check "the temperature is the one that was given" grep -q '"temperature": 1.3,' at13/run/settings.json
run verify at13
exits 0
# A head that is longer than what is written at a time, of packed rows that do not divide it.
python3 - <<'PY'
import array, json, random
json.dump(dict(model_type="qwen2", architectures=["Qwen2ForCausalLM"], hidden_size=96, intermediate_size=64, num_hidden_layers=1,
               num_attention_heads=2, num_key_value_heads=2, vocab_size=1000, max_position_embeddings=128, rms_norm_eps=1e-6,
               rope_theta=1e4, hidden_act="silu", tie_word_embeddings=True), open("wide.json", "w"))
rng = random.Random(5)
array.array("I", (rng.randrange(1000) for _ in range(4096))).tofile(open("wide.u32", "wb"))
PY
run init --config wide.json --dtype q8_0 --no-tokenizer --seed 4 wide.gguf
run init --config wide.json --dtype f32 --no-tokenizer --seed 5 narrow
wide="--data wide.u32 --vocab 1000 --seq-len 64 --held-out 1 --threads 2"
run cache --teacher wide.gguf $wide --keep hidden --out ch
exits 0
for t in wide.gguf ch; do
    run distill --teacher $t --student narrow $wide --batch 4 --steps 6 --eval-every 3 --lr 1e-3 --out of-$t
    exits 0
done
run distill --teacher h $learn --dump-step 2 --out dumped
exits 0
check "a head of packed rows, kept as what it stands for" near of-wide.gguf of-ch 2e-5
check "64 ids of 259 give another" sh -c '! cmp live/model.safetensors topk/model.safetensors'
run cache $ask --keep draws:50 --out dr
exits 0
run distill --teacher dr $learn --out drawn
exits 0
check "draws are near it, though their divergence is an estimate" near live drawn 3
run distill --teacher dr $learn --out again
check "the same draws each time" cmp drawn/model.safetensors again/model.safetensors
run cache $ask --keep topk:32 --temperature 2 --out c2
exits 0
run distill --teacher c2 $learn --out at2
exits 0
check "the cache's temperature is the run's" grep -q '"temperature": 2' at2/run/settings.json
run verify at2
exits 0

# A temperature that f32 does not have exactly is the one that was given.
run cache --teacher t --data other.jsonl --seq-len 64 --keep topk:8 --temperature 0.7 --out c07
exits 0
run distill --teacher c07 $few --data other.jsonl --steps 2 --batch 2 --temperature 0.7 --out at07
exits 0
check "and is written down so" python3 -c 'import json; assert json.load(open("at07/run/settings.json"))["temperature"] == 0.7'

# ---- stopped and resumed ----
curve topk >topk.curve
stop KILL 9 part distill --teacher c $learn
run distill --resume --out part
exits 0
curve part >part.curve
check "the same bits after a kill" cmp topk/model.safetensors part/model.safetensors
check "and the same curve" cmp topk.curve part.curve
cp -r c moved
stop KILL 9 late distill --teacher moved $learn
rm -r moved
run distill --resume --out late
exits 3
cp -r h moved
run distill --resume --out late
exits 5
rm -r moved

# ---- filled: after kills, in parts, by several at once, joined ----
want=$(content c)
# Kills at any moment, the first ones too, in which the folder is begun; the model's files are made again in some.
kills() {
    WANT=$want ASK=$ask python3 - <<'PY'
import glob, json, os, random, shutil, subprocess, time
random.seed(os.environ.get("SEED", "20"))
command = [os.environ["RETORT"], "cache", *os.environ["ASK"].split(), "--out", "k", "--json"]
begun = time.time()
subprocess.run(command, check=True, capture_output=True)
span = time.time() - begun
killed = whole = 0
while killed < 30:
    shutil.rmtree("k", True)
    for _ in range(3):
        fill = ["--fill"] if os.path.exists("k/cache.json") else []
        process = subprocess.Popen(command + fill, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.random() * span)
        process.kill()
        killed += process.wait() == -9
    fill = ["--fill"] if os.path.exists("k/cache.json") else []
    done = subprocess.run(command + fill, check=True, capture_output=True)
    assert json.loads(done.stdout)["content_hash"] == os.environ["WANT"], done
    left = [p for p in glob.glob("k/**", recursive=True, include_hidden=True) if ".retort-tmp-" in p]
    assert not left, left
    whole += 1
print(killed, "kills,", whole, "caches: each filled to what one has that was made in one go, nothing left over")
PY
}
check "killed thirty times and filled: what one has that was made in one go" kills
at_once() {
    "$RETORT" cache $ask --part 1/3 --out p >/dev/null 2>&1 &
    one=$!
    "$RETORT" cache $ask --part 2/3 --out p >/dev/null 2>&1 &
    two=$!
    "$RETORT" cache $ask --part 3/3 --out p >/dev/null 2>&1
    wait "$one" "$two"
    "$RETORT" cache $ask --fill --out p >/dev/null && test "$(content p)" = "$want"
}
check "three processes at once, and what is left" at_once
# Four that begin one folder together, as the documents say; two of different kinds; one folder filled twice.
together() {
    pids=
    for i in 1 2 3 4; do
        "$RETORT" cache $ask --part $i/4 --out new >/dev/null 2>&1 &
        pids="$pids $!"
    done
    for process in $pids; do wait "$process" || return 1; done
    test "$(content new)" = "$want"
}
for i in 1 2 3; do
    rm -rf new
    check "four processes begin one cache" together
done
kinds() {
    "$RETORT" cache $ask --part 1/1 --out both >/dev/null 2>&1 &
    one=$!
    "$RETORT" cache $ask --part 1/1 --keep draws:9 --out both >/dev/null 2>&1
    two=$?
    wait "$one"
    one=$?
    test $one$two = 05 || test $one$two = 50 && "$RETORT" cache both
}
for i in 1 2 3; do
    rm -rf both
    check "of two that are not the same one is refused, and nothing of it is there" kinds
done
"$RETORT" cache $ask --part 1/9 --out twice >/dev/null
"$RETORT" cache $ask --fill --out twice >/dev/null 2>&1 &
run cache $ask --fill --out twice
exits 0
wait $!
cp -r twice/part-0 twice/part-77 && rm twice/part-77/retort.lock
positions() { "$RETORT" cache "$1" --json | python3 -c 'import json, sys; j = json.load(sys.stdin); print(j["positions"], j["held_out"])'; }
check "what is there twice is counted once" test "$(positions twice)" = "$(positions c)"
check "and is the same" test "$(content twice)" = "$want"
check "with one thread" sh -c '"$RETORT" cache $0 --threads 1 --out one >/dev/null' "${ask% --threads 2}"
check "one thread gives the same" test "$(content one)" = "$want"
run cache $ask --part 1/2 --out x
run cache $ask --part 2/2 --out y
exits 0
check "each has a part" test "$(content x)" != "$(content y)"
run cache --join x --join y --out z
exits 0
check "joined they are the whole" test "$(content z)" = "$want"
cat d.jsonl other.jsonl >more.jsonl
run cache --teacher t --data more.jsonl --fill --out z
exits 0
run distill --teacher z --student s --data more.jsonl --steps 30 --batch 4 --lr 1e-3 --out wider
exits 0
run distill --teacher z $learn --out none
exits 0

# ---- damage ----
damage() {
    python3 - <<'PY'
import glob, os, random, shutil, subprocess
random.seed(os.environ.get("SEED", "18"))
command = [os.environ["RETORT"], "distill", "--teacher", "bad", "--student", "s", "--data", "few.jsonl", "--lr", "1e-3",
           "--steps", "3", "--batch", "4", "--threads", "2", "--out", "flipped"]
want = {c: open(f"sound-{c}/model.safetensors", "rb").read() for c in ("small", "states")}
refused = same = 0
for i in range(int(os.environ.get("FLIPS", "40"))):
    shutil.rmtree("bad", True), shutil.rmtree("flipped", True)
    cache = ("small", "states")[i % 2]
    shutil.copytree(cache, "bad")
    path = random.choice(sorted(p for p in glob.glob("bad/**", recursive=True) if os.path.isfile(p) and not p.endswith(".lock")))
    data = bytearray(open(path, "rb").read())
    if i % 8 in (6, 7):
        del data[random.randrange(len(data)):]
    else:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    open(path, "wb").write(data)
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode >= 0, (path, done)
    if done.returncode:
        refused += 1
        assert done.stderr.count(b"\n") <= 3, done
    else:
        assert open("flipped/model.safetensors", "rb").read() == want[cache], path
        same += 1
print(refused, same)
assert refused > 10
PY
}
head -n 24 d.jsonl >few.jsonl
for name in small states; do
    keep=topk:16
    [ $name = states ] && keep=hidden
    run cache --teacher t --data few.jsonl --seq-len 64 --keep $keep --out $name
    run distill --teacher $name --student s --data few.jsonl --lr 1e-3 --steps 3 --batch 4 --threads 2 --out sound-$name
    exits 0
done
check "a changed byte is refused or harmless" damage
# The head that hidden states go through is in the teacher's folder, and what is altered is not joined either.
cp -r states altered
flip altered/teacher/model.safetensors 9000
run distill --teacher altered --student s --data few.jsonl --lr 1e-3 --steps 3 --batch 4 --out none2
exits 4
err_has 'altered/teacher/model.safetensors is damaged or was altered'
run cache --join altered --out none2
exits 4
check "nothing was joined" test ! -e none2
rm -r altered/teacher
run cache --teacher t --data few.jsonl --seq-len 64 --fill --out altered
exits 0
run distill --teacher altered --student s --data few.jsonl --lr 1e-3 --steps 3 --batch 4 --threads 2 --out mended
exits 0
check "filled again it is what it was" cmp mended/model.safetensors sound-states/model.safetensors

# ---- refused ----
run distill --teacher c $learn --seq-len 32 --out none2
exits 5
err_has 'perhaps it was made with --seq-len 64'
run distill --teacher c2 $learn --temperature 1 --out none2
exits 5
err_has 'the cache was made at 2'
run distill --teacher dr $learn --divergence reverse-kl --out none2
exits 5
err_has 'a cache of draws serves only --divergence forward-kl'
run distill --teacher c $learn --teacher-weights bf16 --out none2
exits 5
err_has '^(retort distill: )?teacher: --teacher-weights needs a model as teacher'
run distill --teacher c --student t --data d.jsonl --steps 2 --out none2
exits 5
err_has 'the cache was made with the student itself'
for long in "--steps 2" "--epochs 3" "--time 3s"; do
    run distill --teacher c --student s --data other.jsonl $long --batch 4 --out none2
    exits 5
    err_has 'perhaps it was made from other data'
done
run distill --teacher c $learn --dump-step 1 --out none2
exits 5
err_has 'a cache of top-k has none'
check "nothing was begun" test ! -e none2
run eval s --data d.jsonl --teacher c
exits 5
err_has 'is a cache'
run cache --teacher t2 --data d.jsonl --fill --out c
exits 5
err_has 'the teacher is not the same'
run cache $ask --keep draws:9 --fill --out c
exits 5
err_has '--keep draws:9: c stores topk:64'
run cache $ask --out c
exits 5
err_has 'add what is missing with --fill'
run cache $ask --fill --out c --teacher-batch 5
exits 5
err_has '--teacher-batch 5: c was made with 32'
run cache $ask --fill --out c --seed 5
exits 5
err_has '--seed 5: c was made with 0'
run cache $ask --fill --out nowhere
exits 3
run cache --join c --join dr --out none2
exits 5
err_has 'what is kept is not the same'
for keep in topk topk:0 topk:99999 draws hidden:2 top:3 topk:3x; do
    run cache $ask --keep $keep --out none2
    exits 2
    err_has '--keep'
done
for part in 3/2 0/2 1 -1/2 ' 1/2' 1/2x; do
    run cache $ask --part "$part" --out none2
    exits 2
    err_has '^(retort cache: )?--part '
done
for batch in 0 67108864 4294967297; do # the positions of the second are 2^32
    run cache $ask --teacher-batch $batch --out none2
    exits 2
    err_has "--teacher-batch $batch is out of range \(1 to 33554431 rows of 64 tokens\)"
done
run cache $ask --teacher-batch 30000000 --out none2
exits 13
err_has 'teacher-batch'
check "no folder is left of a teacher that does not fit" test ! -e none2
# Flags that would do nothing.
for flag in --fill "--teacher t" "--keep topk:3" "--join c" "--part 1/2" --allow-drop; do
    run cache c $flag
    exits 2
    err_has 'only shows the cache'
done
for flag in "--teacher t" "--keep topk:3" "--seq-len 9" "--part 1/2"; do
    run cache --join c --out none2 $flag
    exits 2
    err_has '--join runs no teacher'
done
run cache s
exits 3
err_has 's is not a cache: it has no cache.json'
echo x >a-file
run cache $ask --out a-file
exits 5
err_has 'a-file exists and is not an empty folder but a file'
for T in 1e-60 1e60; do # not in f32
    run cache $ask --temperature $T --out none2
    exits 2
    err_has 'temperature'
done
run cache $ask --keep hidden --temperature 2 --out none2
exits 2
err_has 'no effect on hidden states'
run cache $ask --temperature 1.00000001 --out near1
exits 0
run distill --teacher near1 $learn --out near1-o
exits 0
run cache $ask --temperature 1e-30 --out cold
exits 5
err_has 'a higher temperature'
run cache --teacher c --data d.jsonl --out none2
exits 5
mkdir mine && echo x >mine/file
run cache $ask --out mine
exits 5
check "a folder of somebody's stays as it is" sh -c 'test "$(ls mine)" = file'
check "nothing is left of what was refused" test ! -e none2
check "the cache is what it was" test "$(content c)" = "$want"
finish
