#!/bin/sh
# demo.sh - `make demo`: a word that a student never saw, taught by a teacher that saw it. docs/demo.md explains it.
#
# A teacher learns from 4 MB of this repository's C sources. Two students of a quarter its size, with the same initial
# weights, learn from the same batches of another 200 KB, out of which every line with `return` was taken: one from the
# teacher's probabilities, the other alone. All are measured on 120 KB more. Needs the binary and a shell, nothing else;
# leaves everything in build/demo; ends with status 1 when a claim does not hold.
cd "$(dirname "$0")/.."
. tools/demo/common.sh

test -x "$retort" || die "$retort is not there; make demo builds it"
rm -rf "$demo/data" "$demo/teacher" "$demo/distilled" "$demo/alone" "$demo/page" "$demo/sweep" \
    "$demo/report.html"
mkdir -p "$demo"

split_sources "$demo/data"
for part in teacher student held-out; do
    set -- "$demo/data/$part"/*
    say "$part: $# files, $(cat "$@" | wc -c) bytes"
done

say "the teacher learns, $teacher_steps steps (held-out cross-entropy below)"
train_teacher
say "a student learns from it, $student_steps steps, without ever seeing '$word'"
train_student "$demo/distilled" 1 "$student_lr" --teacher "$demo/teacher"
say "the same student alone, the same batches"
train_student "$demo/alone" 1 "$student_lr"

say "measuring all three on files that none of them saw"
for who in alone distilled teacher; do measure "$demo/$who"; done
read -r alone_loss alone_p places <"$demo/alone.measured"
read -r distilled_loss distilled_p places <"$demo/distilled.measured"
read -r teacher_loss teacher_p places <"$demo/teacher.measured"

# The page is made from copies, so that the runs stay as they were written: both over each other, the word as bars, and
# one prompt continued by all three.
prompt='static int read_all(const char *path, rt_err *e)\n{\n    int rc = read_head(path, e);\n    if (rc < 0)'
# sample MODEL WHO: a line of samples.jsonl. The text is taken over as the JSON string that it is; the step is that of the
# model, as its training said at the end.
sample() {
    "$retort" generate "$1" --raw --quiet --json --max-new 40 --prompt "$(printf %b "$prompt")" >"$1.sample"
    text=$(sed -n 's/^  "text": \(".*"\),$/\1/p' "$1.sample")
    step=$(sed -n 's/.* of step \([0-9]*\) (the .*/\1/p' "$1.log")
    printf '{"step": %d, "prompt": "%s", "who": "%s", "text": %s, "stopped": false}\n' "$step" "$prompt" "$2" "$text"
}
for who in distilled alone; do
    mkdir -p "$demo/page/$who"
    cp "$demo/$who/run/"*.json* "$demo/page/$who"
    sample "$demo/$who" student >"$demo/page/$who/samples.jsonl"
done
sample "$demo/teacher" teacher >>"$demo/page/distilled/samples.jsonl"
cat >"$demo/page/distilled/bars.json" <<JSON
[{"title": "Probability of '$word', which the students never saw", "log": true,
  "note": "Mean over the $places places of the held-out files where it stands.",
  "bars": [{"label": "alone", "value": $alone_p}, {"label": "distilled", "value": $distilled_p},
           {"label": "teacher", "value": $teacher_p}]}]
JSON
"$retort" report "$demo/page/distilled" "$demo/page/alone" -o "$demo/report.html" >/dev/null

say "done"
status=0
sh tools/demo/claims.sh "$spread" "$alone_loss" "$distilled_loss" "$teacher_loss" "$alone_p" "$distilled_p" \
    "$teacher_p" || status=$?
echo "$demo/report.html"
exit $status
