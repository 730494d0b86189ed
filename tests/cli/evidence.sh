# evidence.sh - manifest.json and verdict.json of a run, and `retort verify RUN`: an untouched run passes, every alteration
# of it is found, a run that has not finished is told as such, and planted defects turn their falsifiers.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

# verdict OUT ID: what was found on a claim.
verdict() {
    python3 -c 'import json, sys
print(next(f["verdict"] for f in json.load(open(sys.argv[1] + "/run/verdict.json"))["falsifiers"] if f["id"] == sys.argv[2]))' "$@"
}

texts d.jsonl 160 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
base="--data d.jsonl --batch 4 --seq-len 64 --threads 2 --eval-every 10 --save-every 10"
run train --student t $base --out taught --steps 60
exits 0
out_has '^verdict: 5 of 5 claims hold$'
out_has '^evidence: taught/run/manifest.json, checksum [0-9a-f]{32}; retort verify taught checks it$'
run distill --teacher taught --student s $base --out o --steps 20
exits 0
out_has '^verdict: 8 of 8 claims hold$'

# ---- what is written ----
shown="o/run/manifest.json"
check "everything by its hash, and nothing by its path" python3 -c '
import json, os
j = json.load(open("o/run/manifest.json"))
assert j["finished"] is True and j["command"] == "distill" and j["seed"] == 0
for who, name in (("teacher", "taught"), ("student", "s")):
    assert j[who]["name"] == name and len(j[who]["content_hash"]) == 32
assert j["teacher"]["content_hash"] != j["student"]["content_hash"] != j["output"]["content_hash"]
assert len(j["tokenizer"]["hash"]) == 32 and len(j["data"]["train"][0]["shards"][0]["hash"]) == 32
s = j["sessions"][0]
assert s["binary"]["version"] and s["binary"]["build"] and s["device"]["backend"] == "cpu" and len(s["programs"]) == 32
assert j["settings"]["lr"] > 0 and j["settings"]["steps"] == 20 and j["settings"]["student"] == "s"
there = {os.path.relpath(os.path.join(d, f), "o") for d, _, files in os.walk("o") for f in files}
left = {f for f in there if f.startswith("run/checkpoints/checkpoint-") and not f.endswith("/state.json")}
assert set(j["files"]) == there - left - {"run/manifest.json", "run/report.html", "run/retort.lock", ".gitignore"}, set(j["files"]) ^ there
assert "/" not in json.dumps({k: v for k, v in j.items() if k not in ("files", "sessions")})'
run inspect s --json
check "the content hash is that of inspect" python3 -c 'import json, sys
j = json.load(open(sys.argv[1]))
assert json.load(open("o/run/manifest.json"))["student"]["content_hash"] in json.dumps(j)' "$out"
check "the page shows the verdict" grep -q 'agreement with the teacher rose' o/run/report.html
check "in words, without ids" sh -c '! grep -q "<code>F-DISTILL" o/run/report.html'
check "and the manifest" grep -q 'id="manifest"' o/run/report.html

# ---- untouched, it passes; nothing is written ----
before=$(sums o)
run verify o
exits 0
err_empty
out_has '^16 passed, 0 failed, 0 not checked$'
out_has '^first step +pass '
out_has '^device +cpu: '
check "verify writes nothing" test "$before" = "$(sums o)"
run verify o/run --json
exits 0
json_is 'j["passed"] == 16 and j["failed"] == 0 and len(j["manifest"]) == 32 and len(j["checks"]) == 16'
json_is 'j["device"]["backend"] == "cpu" and j["device"]["name"] and j["device"]["why"] is None'
run verify o --device cpu --threads 1
exits 0
out_has '^16 passed, 0 failed, 0 not checked$'
run verify o --device cpuu
exits 9
run verify --op add --device cpu
exits 2
err_has '^--device is for a run; --backend names the backend whose ops are proved$'
run report o
run verify o
exits 0
run verify taught
exits 0
out_has '^15 passed, 0 failed, 0 not checked$'

# ---- altered in any one way, it fails ----
python3 "$here/alter.py" --list >names
check "at least 20 alterations" test "$(wc -l <names)" -ge 20
while read -r name; do
    rm -rf altered
    python3 "$here/alter.py" o altered "$name" || failed=$((failed + 1))
    run verify altered
    shown="a run altered by $name"
    exits 5
done <names
cp -r o copied
run verify copied
exits 0

# ---- what is not there any more is not checked, and said so ----
mv taught elsewhere
run verify o
exits 0
out_has '^teacher +not checked  taught is not where the run found it'
out_has '^held-out after +pass .*KL and agreement not checked'
mv elsewhere taught
rm -rf copied/run/checkpoints
run verify copied
exits 0
out_has '^checkpoints +not checked '
out_has '^parameters moved +not checked '

# ---- other kinds of runs ----
run distill --teacher taught --student s $base --out adapters --steps 10 --lora-rank 4 --merge
exits 0
run verify adapters
exits 0
out_has ' 0 failed, 0 not checked$'
run init --preset tiny-qwen2 --seed 1 --dtype bf16 sb
run distill --teacher taught --student sb $base --out last --steps 12 --save last --freeze '*norm*'
exits 0
check "frozen by wish is no defect" test "$(verdict last F-RUN-MOVED-001)" = pass
run verify last
exits 0
out_has ' 0 failed, 0 not checked$'
stop INT 12 stopped distill --teacher taught --student s $base --steps 200
exits 130
run verify stopped
exits 5
out_empty
err_one_line
err_has 'stopped has not finished.*retort distill --resume --out stopped'
run distill --resume --out stopped
exits 0
run verify stopped
exits 0
out_has ' 0 failed, 0 not checked$'
check "two sessions" python3 -c 'import json; s = json.load(open("stopped/run/manifest.json"))["sessions"]
assert len(s) == 2 and s[0]["from_step"] == 0 and s[1]["from_step"] > 0'
stop KILL 5 killed distill --teacher taught --student s $base --steps 2000
run verify killed
exits 5
err_has 'has not finished'

# ---- planted defects: refused before, or their falsifier fails ----
run distill --teacher s --student s $base --out same --steps 10
exits 5
err_has 'the same values'
run distill --teacher s --student s $base --out same --steps 10 --allow-degenerate
exits 0
out_lacks 'F-DISTILL'
out_has '^  FAILED  the teacher is not the student itself$'
check "teacher == student" test "$(verdict same F-DISTILL-V2-001-TEACHER-DIVERGENCE)" = fail
run verify same
exits 0
out_has '^verdict +pass .* [1-9] fail,'
run train --student s $base --out still --steps 6 --lr 0
exits 0
check "nothing was learned" test "$(verdict still F-DISTILL-SMOKE-001)" = fail
check "nothing moved" test "$(verdict still F-RUN-MOVED-001)" = fail
python3 -c 'import json
for i in range(40): print(json.dumps({"messages": [{"role": "user", "content": f"question {i}"}]}))' >masked.jsonl
run distill --teacher taught --student s --data masked.jsonl --batch 4 --seq-len 64 --steps 4 --out masked
exits 5
check "all-masked data begins no run" test ! -e masked/run/verdict.json

# ---- refused ----
run verify nowhere
exits 3
err_has 'nowhere is not there'
run verify s
exits 3
err_has 's holds no run'
run verify d.jsonl
exits 4
run verify o --quick
exits 2
err_has '--quick is for the cases of ops'
run verify o taught
exits 2
finish
