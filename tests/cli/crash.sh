# crash.sh - the power fails: disks that a run, a cache or answers could have left are continued to the same bits. With
# another seed in every call, which it prints; `make test-crash` makes a thousand disks.
: "${RETORT:?names the binary}" "${BUILD:?names the build folder}"
crash() { python3 tools/crash_test.py --seed new --retort "$RETORT" --recorder "$BUILD/tests/record_writes.so" "$@"; }
set -e
# A program that forgets its syncs is found out.
crash --trials 12 --kinds distill --forget 'metrics.jsonl'
crash --trials 24
