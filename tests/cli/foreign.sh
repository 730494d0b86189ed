# foreign.sh - files of other tools: a cache written as one and read again trains as the cache does; what is not measured
# then is said; and what is no such file. Formats byte by byte: test_cache_foreign.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 160 and
texts other.jsonl 40 but
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
run init --preset tiny-llama --seed 3 --dtype f32 t2
learn="--student s --lr 1e-3 --threads 2 --data d.jsonl --eval-data other.jsonl --batch 4 --steps 8 --eval-every 4"

# Held-out text of its own, so that all of d.jsonl is trained on: what a file for another tool has.
run cache --teacher t --data d.jsonl --eval-data other.jsonl --seq-len 64 --keep topk:16 --threads 2 --out c
exits 0
run distill --teacher c $learn --seq-len 64 --out own
exits 0

# steps_near A B PART: the losses of all steps, to so much of themselves
steps_near() {
    python3 - "$@" <<'PY'
import json, sys
a, b = ([json.loads(line)["loss"] for line in open(f"{run}/run/metrics.jsonl") if '"step"' in line and '"loss"' in line] for run in sys.argv[1:3])
worst = max(abs(x - y) / x for x, y in zip(a, b))
print(worst)
sys.exit(not (len(a) == len(b) == 8 and worst <= float(sys.argv[3])))
PY
}

for format in axolotl vllm surogate; do
    tokens=
    if test $format = surogate; then tokens="--tokens tokens.bin"; fi
    run cache c --data d.jsonl --to $format.file --format $format $tokens
    exits 0
    out_has "^note +$format.file has [0-9]+ positions; 0 that are trained on are not in the cache$"
    out_has '^note +held-out positions and the mass of the rest are not written, and that the temperature is 1 is said nowhere in it$'
    run cache --from $format.file --format $format $tokens --teacher t --keep topk:16 --out in-$format
    exits 0
    out_has '^note +[0-9]+ positions of [0-9]+ documents, of up to [0-9]+ tokens; taken for t at temperature 1, which no such file tells$'
    out_has 'cross-entropy on held-out text is not measured$'
    out_has '^keeps +topk:16 at temperature 1'
    run cache in-$format
    exits 0
    # Other text is not in it, and a run says what it does not find.
    run distill --teacher in-$format $learn --seq-len 64 --out never
    exits 5
    err_has 'lacks 0 of [0-9]+ training positions and [0-9]+ of [0-9]+ held-out ones'
    check "never is not there" test ! -e never
done

# All of both files: nothing is held out of what is written.
run cache --teacher t --data d.jsonl --data other.jsonl --eval-data d.jsonl --seq-len 64 --keep topk:16 --threads 2 --out all
exits 0
for format in axolotl vllm surogate; do
    tokens=
    part=2e-4 # log-probabilities of 10 bits twice, and ties; f16 in .kd
    if test $format = surogate; then tokens="--tokens all.bin" part=2e-3; fi
    run cache all --data d.jsonl --data other.jsonl --to all.$format --format $format $tokens
    exits 0
    run cache --from all.$format --format $format $tokens --teacher t --keep topk:16 --out from-$format
    exits 0
    run distill --teacher from-$format $learn --seq-len 64 --out run-$format
    exits 0
    out_has 'teacher ce not measured'
    check "losses of both within $part" steps_near own run-$format $part
    run verify run-$format
    exits 0
    run report run-$format -o page.html
    exits 0
    check "the card says what is not measured" grep -q 'not measured' run-$format/README.md
done
null_teacher_ce() {
    python3 - <<'PY'
import json
evals = [j for j in map(json.loads, open("run-vllm/run/metrics.jsonl")) if j["event"] == "eval"]
assert len(evals) == 3 and all(j["teacher_ce"] is None and j["forward_kl"][0] > 0 for j in evals), evals
PY
}
check "metrics.jsonl has null for it" null_teacher_ce

# ---- refused ----
run cache --from d.jsonl --format axolotl --teacher t --out no
exits 4
err_has 'd.jsonl, line 1.*"logprobs"'
check "no is not there" test ! -e no
run cache --from all.vllm --format vllm --teacher t --temperature 2 --out no
exits 5
run cache --from all.vllm --format vllm --out no
exits 2
err_has '--from needs --teacher'
run cache --from all.vllm --format parquet --teacher t --out no
exits 2
err_has 'axolotl, vllm or surogate'
run cache --from all.surogate --format surogate --teacher t --out no
exits 2
err_has '--tokens'
run cache --from all.vllm --format vllm --teacher t --data d.jsonl --out no
exits 2
err_has '--data has no effect'
run cache --from all.surogate --format surogate --tokens all.bin --teacher t --keep topk:4 --out no
exits 2
err_has 'topk:16 or more'
run cache --from all.vllm --format vllm --teacher t --out from-vllm
exits 5
err_has 'already a cache'
run cache all --to x --format vllm
exits 2
err_has '--to needs --data'
run cache all --data d.jsonl --to all.vllm --format vllm
exits 5
err_has 'all.vllm exists'
run cache --teacher t --data d.jsonl --seq-len 64 --keep draws:8 --threads 2 --out dr
run cache dr --data d.jsonl --to x --format vllm
exits 5
err_has 'draws'
printf 'unheard of by any cache at all\n' >else.txt
run cache all --data else.txt --to x --format vllm
check "x is not there" test ! -e x
python3 -c 'import json
j = json.loads(open("all.vllm").readline()); j["prompt_token_ids"][3] = 70000
open("wide.jsonl", "w").write(json.dumps(j) + "\n")'
run cache --from wide.jsonl --format vllm --teacher t --out no
exits 5
err_has 'wide.jsonl, line 1.*id 70000'
check "no is not there" test ! -e no
run distill --teacher from-vllm $learn --temperature 2 --seq-len 64 --out no
exits 5
head -c 2000 all.surogate >cut.kd
run cache --from cut.kd --format surogate --tokens all.bin --teacher t --out no
exits 4
check "no is not there" test ! -e no
finish
