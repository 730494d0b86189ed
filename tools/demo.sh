#!/bin/sh
# demo.sh - `make demo` and `make demo-real`: a teacher, a student, what the one learned from the other. docs/demo.md
# explains both.
#
#   tools/demo.sh small   a word that a student never saw, from a teacher that saw it; the binary and a shell suffice
#   tools/demo.sh real    SmolLM2 with 135 million parameters into 18 of its 30 layers
#
# A pair is a file in tools/demo that says how each of the steps below is done with it. Everything is left in build/demo or
# build/demo-real; ends with the page to look at, and with status 1 when a claim does not hold.
cd "$(dirname "$0")/.."
pair=${1:-small}
test -e "tools/demo/$pair.sh" || {
    echo "demo.sh: '$pair' is no pair; it is small or real" >&2
    exit 2
}
. tools/demo/common.sh
# shellcheck source=tools/demo/small.sh
. "tools/demo/$pair.sh"

test -x "$retort" || die "$retort is not there; make demo builds it"
mkdir -p "$demo"
prepare
teach
compare
say "done"
status=0
claims || status=$?
echo "$demo/report.html"
exit $status
