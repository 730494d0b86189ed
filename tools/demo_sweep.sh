#!/bin/sh
# demo_sweep.sh - where the demo's learning rate and its spread over seeds come from: the tables of docs/demo.md.
#
#   make demo && tools/demo_sweep.sh
#
# The student alone at several rates with seed 1; then, at the best of them by held-out loss, both students with seeds 1,
# 2 and 3. A seed is that of the initial weights and of the order of the batches; data and teacher are those of the demo
# that ran before. Ends with the figures that tools/demo/small.sh has, and with status 1 when the claims do not hold for
# every seed.
cd "$(dirname "$0")/.."
. tools/demo/common.sh
. tools/demo/small.sh

rates=${RATES:-0.001 0.002 0.004 0.008}
seeds=${SEEDS:-1 2 3}
sweep=$demo/sweep
test -e "$demo/teacher.measured" || die "$demo/teacher is not there; run make demo first"
rm -rf "$sweep"
mkdir -p "$sweep"

echo '| learning rate | alone, held-out loss |'
echo '|---|---|'
for rate in $rates; do
    train_student "$sweep/alone-$rate" 1 "$rate" >/dev/null
    measure "$sweep/alone-$rate"
    read -r loss _ <"$sweep/alone-$rate.measured"
    echo "| $rate | $loss |"
    echo "$loss $rate" >>"$sweep/rates"
done
best=$(sort -n "$sweep/rates" | sed -n '1s/.* //p')

read -r teacher_loss teacher_p places <"$demo/teacher.measured"
echo
echo "At $best (teacher: $teacher_loss, $teacher_p; $places places):"
echo
echo "| seed | alone | distilled | P($word) alone | P($word) distilled |"
echo '|---|---|---|---|---|'
for seed in $seeds; do
    train_student "$sweep/alone-seed-$seed" "$seed" "$best" >/dev/null
    train_student "$sweep/distilled-seed-$seed" "$seed" "$best" --teacher "$demo/teacher" >/dev/null
    measure "$sweep/alone-seed-$seed"
    measure "$sweep/distilled-seed-$seed"
    read -r alone alone_p _ <"$sweep/alone-seed-$seed.measured"
    read -r distilled distilled_p _ <"$sweep/distilled-seed-$seed.measured"
    echo "| $seed | $alone | $distilled | $alone_p | $distilled_p |"
    echo "$alone $distilled $alone_p $distilled_p" >>"$sweep/seeds"
done

# range COLUMN: the highest less the lowest over seeds.
range() { sort -n -k "$1,$1" "$sweep/seeds" | awk -v c="$1" 'NR == 1 { low = $c } END { print $c - low }'; }
spread=$(printf '%s\n' "$(range 1)" "$(range 2)" | sort -n | tail -n 1)
echo
echo "student_lr=$best"
echo "spread=$spread"
status=0
while read -r alone distilled alone_p distilled_p; do
    sh tools/demo/claims.sh "$spread" "$alone" "$distilled" "$teacher_loss" "$alone_p" "$distilled_p" "$teacher_p" ||
        status=1
done <"$sweep/seeds"
exit $status
