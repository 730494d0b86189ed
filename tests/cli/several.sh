# several.sh - several teachers of one run: a mixture beside one teacher, each source of the data asked of its own teachers, what
# is printed and written down, resuming, verifying, and what is refused. The arithmetic: test_several.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 160 and
texts code.jsonl 80 but
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
run init --preset tiny-llama --seed 3 --dtype f32 t2
few="--student s --lr 1e-3 --batch 4 --seq-len 64 --threads 2"
learn="$few --data d.jsonl --steps 8 --eval-every 4"
two="--teacher t,weight=0.7 --teacher t2,weight=0.3"

# ---- a mixture ----
run distill --teacher t $learn --out one
exits 0
run distill --teacher t,weight=3 --teacher t,weight=7 $learn --out same
exits 0
out_has '^          share 0\.3$'
out_has '^          share 0\.7$'
check "a teacher mixed with itself is that teacher" near one same 2e-5
run distill $two $learn --out mix
exits 0
out_has '^teacher +t: llama'
out_has '^teacher +t2: llama'
check "two teachers are not one" sh -c '! "$@"' - near one mix 1e-3
check "no line about the teachers is wider than 80 columns" sh -c '! grep -E "^(teacher |          share).{73}" "$0"' "$out"
check "the card names both, with their shares" grep -q 'the probabilities of `t` (0\.7) and `t2` (0\.3) on' mix/README.md
check "so does the page" grep -q 'teachers <b>t</b> (weight 0\.7) + <b>t2</b> (weight 0\.3)' mix/run/report.html
check "the manifest has both by their values" python3 - <<'PY'
import json
m = json.load(open("mix/run/manifest.json"))
(other,) = m["other_teachers"]
assert (m["teacher"]["name"], m["teacher"]["weight"], other["name"], other["weight"]) == ("t", 0.7, "t2", 0.3)
assert len({m["teacher"]["content_hash"], other["content_hash"], m["student"]["content_hash"]}) == 3
assert m["settings"]["teacher"] == ["t,weight=0.7", "t2,weight=0.3"]
PY
check "nobody speaks for a mixture" sh -c '! grep -q "\"teacher\"" mix/run/samples.jsonl'
run verify mix
exits 0
out_has '^teacher +pass +t holds'
out_has '^teacher 2 +pass +t2 holds'
out_has '^held-out before +pass .*KL [0-9.]+'
out_has '^first step +pass'
mv t2 t2-away
run verify mix
out_has '^teacher 2 +not checked +t2 is not where the run found it'
out_has '^held-out before +pass .*the teacher is not there$'
cp -r t t2
run verify mix
exits 5
out_has '^teacher 2 +FAIL +t2 holds other values now'
rm -r t2
mv t2-away t2
run eval mix --teacher t --data code.jsonl --threads 2
exits 0
# Rows at a time, rows that teachers read at once, chunks of the head: the same run.
run distill $two $learn --micro-batch 1 --teacher-batch 4 --head-chunk 32 --out rows
exits 0
check "whatever the rows at a time" near mix rows 2e-5
run distill $two $learn --teacher-memory disk --out on-disk
exits 0
check "wherever their layers are" near mix on-disk 2e-5
run distill $two $learn --teacher-weights bf16 --divergence jsd --temperature 2 --out words
exits 0

# ---- a plan ----
run plan $two --student s --data d.jsonl --seq-len 64
exits 0
out_has '^teachers  2, whose forwards share their activations$'
out_has '^ +[0-9.]+ [KM]iB  weights of t, share 0\.7$'
out_has '^ +[0-9.]+ [KM]iB  weights of t2, share 0\.3$'
run plan $two --student s --data d.jsonl --seq-len 64 --json
exits 0
json_is '[(t["name"], t["share"]) for t in j["teachers"]] == [("t", "0.7"), ("t2", "0.3")] and j["teachers"][0]["weights"] > 500000'
json_is 'j["settings"]["teacher"] == ["t,weight=0.7", "t2,weight=0.3"]'
run plan --teacher t --student s --data d.jsonl --seq-len 64 --json
json_is '"teachers" not in j and j["settings"]["teacher"] == "t"'
cat >run.yaml <<'YAML'
teacher:
  - t,weight=0.7
  - t2,weight=0.3
YAML
run plan --config run.yaml --student s --data d.jsonl --seq-len 64 --json
exits 0
json_is 'len(j["teachers"]) == 2'

# ---- each source of its own teacher ----
both="$few --data d.jsonl --data code.jsonl --steps 4 --eval-every 2"
run distill --teacher t $both --out all-t
run distill --teacher t2 $both --out all-t2
run distill --teacher t --teacher t2,weight=0.3,data=code.jsonl $both --json --out routed
exits 0
err_has '--teacher t2: weight=0\.3 has no effect, since it is the only teacher of its data'
check "the event of the plan has both" python3 - "$out" <<'PY'
import json, sys
plan = next(j for j in map(json.loads, open(sys.argv[1])) if j["event"] == "plan")
assert [(t["name"], t["share"]) for t in plan["teachers"]] == [("t", "1 of d.jsonl"), ("t2", "1 of code.jsonl")]
PY
check "each part is measured beside its teacher, and not beside the other" python3 - <<'PY'
import json
def parts(run):
    line = next(j for j in map(json.loads, open(run + "/run/metrics.jsonl")) if j["event"] == "eval" and j["step"] == 0)
    return {p["name"]: (p["forward_kl"][0], p["teacher_ce"][0]) for p in line["parts"]}
t, t2, routed = parts("all-t"), parts("all-t2"), parts("routed")
for name, own, other in ("d.jsonl", t, t2), ("code.jsonl", t2, t):
    for a, b, c in zip(routed[name], own[name], other[name]):
        assert abs(a - b) < 1e-5 * b < abs(a - c)
PY
run verify routed
exits 0
run distill --teacher t,data=d.jsonl --teacher t2,data=code.jsonl --teacher t2,weight=3,data=d.jsonl $both --out threes
exits 0
out_has '^          share 0\.25 of d\.jsonl$'
out_has '^          share 1 of code\.jsonl$'
out_has '^          share 0\.75 of d\.jsonl$'
run distill --teacher t --teacher t2,data=code.jsonl $few --data d.jsonl --data code.jsonl --eval-data code.jsonl --steps 2 --out held
exits 0

# ---- a prompt of its own ----
python3 - <<'PY'
import json
words = "the quick brown fox jumps over the lazy dog while seven wizards box in quiet zones".split()
with open("chats.jsonl", "w") as plain, open("system.jsonl", "w") as system, open("p.txt", "w") as prompt:
    said = "Answer as a wizard would, in one short line."
    prompt.write(said + "\n")
    for i in range(60):
        turns = [{"role": "user", "content": f"say {words[i % 16]} {i}"},
                 {"role": "assistant", "content": " ".join(words[(i * 7 + k * k) % 16] for k in range(3 + i % 4))}]
        plain.write(json.dumps({"messages": turns}) + "\n")
        system.write(json.dumps({"messages": [{"role": "system", "content": said}] + turns}) + "\n")
PY
chat="--student s --lr 1e-3 --batch 4 --seq-len 256 --threads 2 --data chats.jsonl --eval-data chats.jsonl --steps 6 --eval-every 3"
run distill --teacher t $chat --out silent
exits 0
run distill --teacher t,prompt=p.txt $chat --out prompted
exits 0
out_has '--teacher t reads [0-9]+ ids of p\.txt before 60 of 60 held-out documents'
check "it is another teacher" sh -c '! "$@"' - near silent prompted 1e-3
# By another way: the model on the same conversations with the prompt as their system message.
run eval t --data system.jsonl --seq-len 256 --threads 2 --json
exits 0
check "which has the prompt in its context" python3 - "$out" "$(metric prompted 0 teacher_ce)" "$(metric silent 0 teacher_ce)" <<'PY'
import json, sys
want, got, without = json.load(open(sys.argv[1]))["cross_entropy"]["mean"], float(sys.argv[2]), float(sys.argv[3])
sys.exit(not abs(got - want) < 1e-5 * want < abs(without - want))
PY
run verify prompted
exits 0
out_has '^held-out before +pass .*KL [0-9.]+'
mv p.txt p-away.txt
run verify prompted
exits 0
run distill --teacher t,prompt=p-away.txt,weight=0.5 --teacher t2,weight=0.5 $chat --micro-batch 1 --out one-prompted
exits 0
out_has '^teacher +t2: llama'
run verify one-prompted
exits 0
cp p-away.txt p.txt
run distill --teacher t,prompt=p.txt $chat --micro-batch 1 --out by-row
exits 0
check "whatever the rows at a time" near prompted by-row 2e-5
run distill --teacher t,prompt=p.txt $chat --teacher-memory disk --out from-disk
exits 0
check "and wherever its layers are" near prompted from-disk 2e-5
stop KILL 5 cut3 distill --teacher t,prompt=p.txt $chat --save-every 1
rm p.txt
cp -r cut3 altered
sed -i 's/"skip": *[0-9]*/"skip": 1/' altered/run/data/prompt-00.json
run distill --resume --out altered
exits 4
err_has 'remove it to have it made again from prompt=p\.txt'
cp -r cut3 other
echo "Answer at length, and never as a wizard." >q.txt
run distill --resume --out other --teacher t,prompt=q.txt
exits 5
run distill --resume --out other --teacher t,prompt=q.txt --override
exits 0
out_has '--teacher t reads [0-9]+ ids of q\.txt before'
run verify other
out_has '^held-out after +pass'
run distill --resume --out cut3
exits 0
run distill --teacher t,prompt=p-away.txt $chat --save-every 1 --out whole3
check "resumed without its file it is the same run" sh -c 'test "$1" = "$2"' - "$(curve cut3)" "$(curve whole3)"
run plan --teacher t,prompt=p-away.txt $chat
exits 0
run distill --teacher t,prompt=p-away.txt $few --data d.jsonl --steps 2 --out before-text
exits 0
out_has 'reads [0-9]+ ids of p-away\.txt before 16 of 16 held-out documents'
run distill --teacher t,prompt=p-away.txt --student s --threads 2 --data system.jsonl --seq-len 256 --steps 2 --out no
exits 5
err_has 'none of the [0-9]+ held-out documents is a conversation without a system message, so the prompt would never be read'
run distill --teacher t,prompt=none.txt $chat --out no
exits 3
err_has 'none\.txt'
printf '%s' "{% if messages[0].role != 'system' %}[system] Be kind.<|im_end|>{% endif %}{% for m in messages %}[{{ m.role }}] {{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}" >kind.jinja
printf '%s' "{% for m in messages if m.role != 'system' %}[{{ m.role }}] {{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}" >deaf.jinja
echo 'Be kind.' >kind.txt
run distill --teacher t,prompt=kind.txt $chat --chat-template kind.jinja --out no
exits 5
err_has 'prompt=kind\.txt is the system message that the chat template writes where there is none'
run distill --teacher t,prompt=kind.txt $chat --chat-template deaf.jinja --out no
exits 5
err_has 'the chat template does not write a system message before the first turn'
: >empty.txt
run distill --teacher t,prompt=empty.txt $chat --out no
exits 5
err_has 'prompt=empty\.txt is empty'
run distill --teacher t,prompt=p-away.txt $chat --teacher-batch 8 --out no
exits 5
err_has '--teacher-batch and prompt= exclude one another'
run eval prompted --teacher t,prompt=p-away.txt --data chats.jsonl --threads 2
exits 5
err_has 'retort eval does not support prompt='
check "nothing is half written" test ! -e no

# ---- a step written down ----
run distill $two --student s --lr 1e-3 --seq-len 64 --threads 2 --data d.jsonl --batch 1 --steps 2 --temperature 2 --dump-step 2 --out dumped
exits 0
check "the logits of the mixture give the step's loss" python3 - <<'PY'
import json, math, struct
with open("dumped/run/dump-000002/logits.safetensors", "rb") as f:
    head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    data = f.read()
s, t = (struct.unpack(f"<{(o[1] - o[0]) // 4}f", data[slice(*o)]) for o in (head[k]["data_offsets"] for k in ("student", "teacher")))
j = json.load(open("dumped/run/dump-000002/step.json"))
V, W = head["student"]["shape"][1], head["teacher"]["shape"][1]
shared = [i for i in range(V) if not j["shared_ids"] or j["shared_ids"][i // 32] >> i % 32 & 1]
def log_softmax(x):
    total = math.log(sum(math.exp(v / 2) for v in x))
    return [v / 2 - total for v in x]
kl, n = 0.0, len(j["logits"])
for i in range(n):
    p, q = (log_softmax([x[i * w + v] for v in shared]) for x, w in ((t, W), (s, V)))
    kl += sum(math.exp(a) * (a - b) for a, b in zip(p, q)) / n
assert n == j["result"]["trained"] and abs(kl - j["result"]["divergence"]) < 1e-4 * kl
PY

# ---- stopped and resumed ----
long="$two $few --data d.jsonl --steps 40 --eval-every 8 --save-every 4"
run distill $long --out whole
stop KILL 20 cut distill $long
run distill --resume --out cut
exits 0
check "resumed, it is the same run" sh -c 'test "$1" = "$2"' - "$(curve cut)" "$(curve whole)"
stop KILL 20 cut2 distill $long
run distill --resume --out cut2 --teacher t
exits 5
err_has '--teacher: was \["t,weight=0\.7","t2,weight=0\.3"\], now "t"'
mv t2 t2-away
run distill --resume --out cut2
exits 3
err_has 'has --teacher t2'
cp -r t t2
run distill --resume --out cut2
exits 5
err_has 'teacher 2: its values have changed since the run began'
rm -r t2
mv t2-away t2
mkdir far
cd far || exit 1
run distill --resume --out ../cut2
exits 0
cd ..
check "from another folder too" sh -c 'test "$1" = "$2"' - "$(curve cut2)" "$(curve whole)"
run distill $two $learn --control --out controlled
exits 0
run verify controlled
exits 0

# ---- refused ----
sums d.jsonl code.jsonl s t t2 >before
run distill --teacher t --teacher t2,data=none.jsonl $learn --out no
exits 5
err_has '--teacher t2: data=none\.jsonl is not one of --data; spell it as it is there, such as data=d\.jsonl'
run distill --teacher t2,data=d.jsonl $few --data d.jsonl --data code.jsonl --steps 2 --out no
exits 5
err_has 'code\.jsonl has no teacher'
run distill --teacher t --teacher t2,data=d.jsonl $learn --out no
exits 5
err_has '--teacher t has no data to teach'
for bad in weight=0 weight=-1 weight=many colour=red prompt= data=; do
    run distill --teacher t --teacher "t2,$bad" $learn --out no
    exits 2
    err_has "--teacher t2,$bad: "
done
run distill --teacher t --teacher s $learn --out no
exits 5
err_has 'the same values'
run init --preset tiny-llama --seed 4 --dtype f32 odd
python3 - <<'PY'
import json
path = "odd/tokenizer.json"
j = json.load(open(path))
v = j["model"]["vocab"]
a, b = (k for k, i in v.items() if i in (70, 71))
v[a], v[b] = v[b], v[a]
json.dump(j, open(path, "w"))
PY
run distill --teacher t --teacher odd $learn --out no
exits 5
err_has '--teacher odd shares its vocabulary neither with the student nor with t, the first teacher'
run cache --teacher t --data d.jsonl --seq-len 64 --threads 2 --out c
exits 0
run distill --teacher t2 --teacher c $learn --out no
exits 5
err_has '--teacher c is a cache, and a cache cannot be one of several teachers'
run cache --teacher t --teacher t2 --data d.jsonl --out no
exits 2
err_has 'a cache has one teacher'
run cache --teacher t,weight=0.5 --data d.jsonl --out no
exits 2
err_has 'weight=, data= and prompt= do not apply to a cache'
run distill --teacher t --teacher t2 --student s --student s --data d.jsonl --out no
exits 2
err_has '--student is given twice'
run distill --teacher t --teacher t --teacher t --teacher t --teacher t --teacher t --teacher t --teacher t --teacher t $learn --out no
exits 2
err_has '--teacher is given 9 times, and a run has 8 teachers at most'
check "nothing is half written" test ! -e no
sums d.jsonl code.jsonl s t t2 >after
check "and nothing of theirs changed" cmp before after
finish
