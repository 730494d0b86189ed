#!/bin/sh
# claims.sh - what the demo claims, checked: prints its last lines, and which claim does not hold.
#
#   tools/demo/claims.sh SPREAD  ALONE DISTILLED TEACHER  P_ALONE P_DISTILLED P_TEACHER
#
# SPREAD: how far the held-out loss of a student moves from seed to seed; then held-out losses, then probabilities of the
# word. Status 1 when a claim does not hold; what is no number is no proof either.
set -eu
test $# = 7 || {
    echo "usage: claims.sh SPREAD ALONE DISTILLED TEACHER P_ALONE P_DISTILLED P_TEACHER" >&2
    exit 2
}
exec awk -v spread="$1" -v alone="$2" -v distilled="$3" -v teacher="$4" -v p_alone="$5" -v p_distilled="$6" \
    -v p_teacher="$7" '
function number(v) { return v ~ /^[0-9.]+(e[-+]?[0-9]+)?$/ }
function claim(holds, text) {
    if (holds) return
    print "demo: DOES NOT HOLD: " text
    failed = 1
}
BEGIN {
    printf "demo: held-out loss with teacher %s, without %s, teacher %s\n", distilled, alone, teacher
    printf "demo: a word the student never saw: alone %s, distilled %s, teacher %s\n", p_alone, p_distilled, p_teacher
    claim(number(spread) && number(alone) && number(distilled) && number(teacher) && number(p_alone) &&
          number(p_distilled) && number(p_teacher), "every measure is a number")
    claim(teacher + 0 < distilled + 0, "the teacher is better than the distilled student")
    claim(distilled + 0 < alone + 0, "the distilled student is better than the one alone")
    claim(alone - distilled >= 5 * spread, "the margin, " alone - distilled ", is at least 5 times the spread over " \
          "seeds, " spread)
    claim(p_distilled + 0 > 0 && p_distilled >= 1000 * p_alone,
          "the distilled student gives the word at least 1,000 times the probability that the one alone does")
    exit failed
}'
