# verify.sh - `retort verify`: selection, listing, totals, JSON, and the exit status of what it refuses.
. "$(dirname "$0")/harness"

run verify --list
exits 0
err_empty
check "at least 1500 cases" test "$(wc -l <"$out")" -ge 1500
check "no case twice" sh -c 'test -z "$(sort "$0" | uniq -d)"' "$out"
all=$(wc -l <"$out")

run verify --quick --list
exits 0
check "fewer cases than without --quick, but some" test "$(wc -l <"$out")" -lt "$all" -a "$(wc -l <"$out")" -gt 0

run verify --list --json
exits 0
json_is 'len(j) >= 1500 and all(c["name"] and c["op"] for c in j)'

run verify --list --op swiglu_fwd
exits 0
out_has 'swiglu_fwd'
out_lacks 'matmul'

run verify --quick --op swiglu_fwd
exits 0
check "the last line counts" sh -c 'tail -n 1 "$0" | grep -E -x "[1-9][0-9]* passed, 0 failed"' "$out"
out_has 'unsupported'

run verify --list --case /5x37x7
exits 0
check "every name has it" sh -c 'test -s "$0" && ! grep -v /5x37x7 "$0"' "$out"
run verify --op kd_loss --case /1x1x1
exits 0
out_has '^[1-9][0-9]* passed, 0 failed$'
run verify --op swiglu_fwd --case /5x37x7
exits 2
err_one_line
err_has "no case of those asked for has '/5x37x7' in its name; --list shows them"
run verify o --case x
exits 2
err_has '--case is for the cases of ops'

run verify --quick --op swiglu_fwd --json
exits 0
json_is 'j["passed"] > 0 and j["failed"] == 0 and j["passed"] == sum(c["outcome"] == "pass" for c in j["cases"])'
json_is 'all(c["op"] == "swiglu_fwd" for c in j["cases"])'

run verify --quick --op swiglu_fwd --backend ref
exits 0

run verify --quick --op swiglu_fwd --threads 3
exits 0

# The large ones are apart, and where memory is short each says what it would need.
run verify --large --list
exits 0
check "some cases, all of them large" sh -c 'test "$(wc -l <"$0")" -ge 20 && ! grep -v /repeated "$0"' "$out"
run verify --large --op add --memory-limit 1GiB
exits 0
out_has '^unsupported, 1 case: .*needs 12\.[0-9]+ GiB .*limit is 1\.0+ GiB'
out_has '^0 passed, 0 failed$'
run verify --large --op matmul
exits 2
err_has 'no large case'
run verify o --large
exits 2
err_has '--large is for the cases of ops'

# Refused: what, and what would do.
run verify --backend abacus
exits 9
out_lacks '^[0-9]+ passed'
err_one_line
err_has "'abacus'"
err_has 'cpu'

run verify --backend cuda --cublaslt /nowhere
exits 9
out_lacks '^[0-9]+ passed'
err_one_line

run verify --op swigul_fwd
exits 2
err_has 'swigul_fwd'
err_has 'swiglu_fwd'

run verify --list --op swigul_fwd
exits 2

run verify --memory-limit banana
exits 2
err_has 'banana'

run verify --quick --op matmul --memory-limit 1KiB
exits 13
err_has 'limit is 1(\.0+)? KiB'

run verify --quick --op swiglu_fwd --isa nosuch
check "expected a failure" test "$status" != 0
err_has 'nosuch'

# An interrupt ends the run between two cases with the status for it.
if [ -z "${EMU:-}" ] && command -v timeout >/dev/null 2>&1; then
    shown="retort verify, interrupted"
    status=0
    timeout --foreground --preserve-status -s INT 1 "$RETORT" verify >"$out" 2>"$err" </dev/null || status=$?
    exits 130
    check "no total that looks finished" sh -c '! grep -E -x "[0-9]+ passed, [0-9]+ failed" "$0"' "$out"
fi
finish
