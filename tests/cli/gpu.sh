# gpu.sh - the scripts of `make test-gpu`, where there may be no GPU: what they say then, and the parts that a processor can
# run, so that they work when a GPU is there to be tested.
. "$(dirname "$0")/harness"
: "${BUILD:?names the build folder}"
gpu=$(cd "$(dirname "$0")/../gpu" && pwd)/run.py

# try ARGS...: the scripts with the binary under test, which a wrapper runs where it is emulated.
try() {
    shown="tests/gpu/run.py $*"
    status=0
    python3 "$gpu" --retort "$wrapper" --build "$BUILD" "$@" >"$out" 2>"$err" </dev/null || status=$?
}
wrapper=$work/retort
printf '#!/bin/sh\nexec %s %s "$@"\n' "${EMU:-}" "$(realpath "$RETORT")" >"$wrapper"
chmod +x "$wrapper"

try --device cpu --only bits,invariants --json "$work/result.json"
exits 0
out_has '^ok +bits: two runs: curve, weights and moments are the same bits$'
out_has '^ok +invariants: f32: 8 micro-batches of 1 row against 1 of 8: loss differs by '
out_has '^ok +invariants: f32: control: '
out_has '^bits +5 ok +0 failed +0 skipped +[0-9.]+ s$'
check "the last line counts" sh -c 'tail -n 1 "$0" | grep -E -x "[1-9][0-9]* passed, 0 failed"' "$out"
check "the same as JSON" python3 -c 'import json, sys
j = json.load(open(sys.argv[1]))
assert j["failed"] == 0 and j["passed"] == len(j["checks"]) > 5 and set(j["parts"]) == {"bits", "invariants"}' "$work/result.json"

# What needs a GPU is skipped with a reason, and a run in which nothing passed has not passed.
try --device cpu --only refusals,sanitize,order,large
exits 1
out_has '^skipped +sanitize: compute-sanitizer: it is for GPUs$'
out_has '^0 passed, 0 failed$'

# A binary that fails must not pass.
printf '#!/bin/sh\ncase "$1" in distill) exit 3;; esac\nexec %s %s "$@"\n' "${EMU:-}" "$(realpath "$RETORT")" >"$wrapper"
try --device cpu --only bits
exits 1
out_has '^FAIL +bits: it could not go on: '
out_has '^0 passed, 1 failed$'

try --device cuda:99
exits 1
out_has '^there is no cuda:99 here: '
out_lacks ' passed, '
try --only nonsense
exits 2
err_has 'no such part: nonsense; there are memory, verify, large'
finish
