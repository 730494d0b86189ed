# taken_away.sh - a run loses its folder while it is going on: its lock is removed, or OUT is moved or replaced. It ends by
# itself before it writes there again, harms nobody, and can be resumed where its folder is.
# Files on disk.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"
export RETORT

texts d.jsonl 80 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
long="distill --teacher t --student s --data d.jsonl --batch 4 --seq-len 64 --threads 1 --steps 40 --eval-every 10 --save-every 5"

# meanwhile LINES COMMAND ARGS...: the shell command, when metrics.jsonl of the run in OUT (the last of ARGS) has so many lines.
meanwhile() {
    for last in "$@"; do :; done
    shown="meanwhile, after $1 lines: $2"
    status=0
    python3 "$here/meanwhile.py" "$last/run/metrics.jsonl" "$@" >"$out" 2>"$err" || status=$?
}
# lost OUT: the run has ended by itself, and said why in one line.
lost() {
    exits 5
    out_has '^meanwhile 0$'
    err_one_line
    err_has "$1 no longer belongs to this process: its lock $1/run/retort.lock was removed, or the folder was moved or replaced"
    err_has 'resume there: retort distill --resume --out OUT'
}
# as_whole OUT: the curve of a run that was left alone, and a record that holds.
as_whole() {
    curve "$1" >as_whole.curve
    check "the curve of one left alone" cmp whole.curve as_whole.curve
    run verify "$1"
    exits 0
}

run $long --out whole
exits 0
curve whole >whole.curve
whole=$(wc -l <whole.curve)

# ---- the lock is removed, and nobody comes ----
meanwhile 13 'rm removed/run/retort.lock' $long --out removed
lost removed
check "no other lock was made" test ! -e removed/run/retort.lock
run distill --resume --out removed
exits 0
as_whole removed

# ---- it is removed, and another process resumes the run to its end: in the middle, in the steps after the last checkpoint,
# and while the model is written ----
for lines in 2 9 23 "$whole"; do
    meanwhile "$lines" 'rm two/run/retort.lock && "$RETORT" distill --resume --out two >/dev/null 2>&1
        status=$?; find two -type f | sort | xargs cksum >sums.1; exit $status' $long --out two
    lost two
    sums two >sums.2
    check "nothing was written after the other one" cmp sums.1 sums.2
    as_whole two
    rm -rf two
done

# ---- OUT is moved ----
for lines in 13 "$whole"; do
    rm -rf new
    meanwhile "$lines" 'mv moved new' $long --out moved
    lost moved
    check "nothing is where it was" test ! -e moved
    run distill --resume --out new
    exits 0
    as_whole new
done

# ---- OUT is moved, and another one is in its place: of somebody, or of another run ----
meanwhile 13 'mv other kept && mkdir -p other/run/checkpoints && echo mine >other/run/metrics.jsonl && echo mine >other/config.json' \
    $long --out other
lost other
check "what is somebody's is as it was" test "$(find other -type f | xargs grep -lx mine | wc -l)" = "$(find other -type f | wc -l)"
run distill --resume --out kept
exits 0
as_whole kept
meanwhile 13 'mv again old && "$RETORT" '"$long"' --out again >/dev/null 2>&1; find again -type f | sort | xargs cksum >sums.1' \
    $long --out again
lost again
sums again >sums.2
check "the other run is as it was" cmp sums.1 sums.2
as_whole again
run distill --resume --out old
exits 0
as_whole old

# ---- before the first step: while texts become tokens ----
texts many.jsonl 4000 and
shown="a start that loses its folder"
"$RETORT" distill --teacher t --student s --data many.jsonl --threads 1 --steps 4 --out early >"$out" 2>"$err" &
while [ ! -d early/run/data ] && kill -0 $! 2>/dev/null; do :; done
mv early later && mkdir -p early/run/data && echo mine >early/notes
status=0
wait $! || status=$?
exits 5
check "what is somebody's is as it was" test "$(cat early/notes)" = mine -a -d early/run/data -a "$(find early | wc -l)" = 4

# ---- during the control, the lock of the run itself ----
STOP_LOG=control/run/control/run/metrics.jsonl
shown="the lock of a run whose control is trained"
status=0
python3 "$here/meanwhile.py" $STOP_LOG 13 'rm control/run/retort.lock' $long --control --out control >"$out" 2>"$err" || status=$?
exits 5
err_has "control no longer belongs to this process: its lock control/run/retort.lock"
run distill --resume --out control
exits 0
run verify control
exits 0
finish
