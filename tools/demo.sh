#!/bin/sh
# demo.sh - `make demo`: a word that a student never saw, taught by a teacher that saw it. docs/demo.md explains it.
#
# A teacher learns from 90 % of this repository's C sources. Two students of a quarter its size, with the same initial
# weights, learn from the same batches of another 5 %, out of which every line with `return` was taken: one from the
# teacher's probabilities, the other alone. All are measured on the last 5 %. Needs the binary and a shell, nothing else;
# leaves everything in build/demo; ends with status 1 when a claim does not hold.
cd "$(dirname "$0")/.."
. tools/demo/common.sh

test -x "$retort" || die "$retort is not there; make demo builds it"
rm -rf "$demo/data" "$demo/teacher" "$demo/distilled" "$demo/alone" "$demo/sweep" "$demo/report.html"
mkdir -p "$demo"

split_sources "$demo/data"
for part in teacher student held-out; do
    say "$part: $(ls "$demo/data/$part" | wc -l) files, $(cat "$demo/data/$part"/* | wc -c) bytes"
done

say "the teacher learns, $teacher_steps steps (held-out cross-entropy below)"
train_teacher
say "a student learns from it, $student_steps steps, without ever seeing '$word'"
train_student "$demo/distilled" 1 "$student_lr" --teacher "$demo/teacher"
say "the same student alone, the same batches"
train_student "$demo/alone" 1 "$student_lr"

say "measuring all three on files that none of them saw"
for who in alone distilled teacher; do
    measure "$demo/$who" >"$demo/$who.measured"
    read -r loss p places <"$demo/$who.measured"
    eval "${who}_loss=\$loss ${who}_p=\$p"
done

# The page: both runs over each other, the word as bars, one prompt continued by all three.
cat >"$demo/distilled/run/bars.json" <<JSON
[{"title": "Probability of '$word', which the students never saw", "log": true,
  "note": "Mean over the $places places of the held-out files where it stands.",
  "bars": [{"label": "alone", "value": $alone_p}, {"label": "distilled", "value": $distilled_p},
           {"label": "teacher", "value": $teacher_p}]}]
JSON
# sample MODEL WHO: a line of samples.jsonl; the text is taken over as the JSON string that it is.
prompt='static int read_all(const char *path, rt_err *e)\n{\n    int rc = read_head(path, e);\n    if (rc < 0)'
sample() {
    text=$("$retort" generate "$1" --raw --quiet --json --max-new 48 --prompt "$(printf %b "$prompt")" |
        sed -n 's/^  "text": \(".*"\),$/\1/p')
    printf '{"step": %d, "prompt": "%s", "who": "%s", "text": %s, "stopped": false}\n' "$student_steps" "$prompt" "$2" "$text"
}
sample "$demo/distilled" student >"$demo/distilled/run/samples.jsonl"
sample "$demo/teacher" teacher >>"$demo/distilled/run/samples.jsonl"
sample "$demo/alone" student >"$demo/alone/run/samples.jsonl"
"$retort" report "$demo/distilled" "$demo/alone" -o "$demo/report.html" >/dev/null

status=0
sh tools/demo/claims.sh "$spread" "$alone_loss" "$distilled_loss" "$teacher_loss" "$alone_p" "$distilled_p" "$teacher_p" ||
    status=$?
say "done"
echo "$demo/report.html"
exit $status
