# small.sh - the pair of `make demo`: a word that a student never saw, taught by a teacher that saw it.
#
# A teacher learns from 4 MB of this repository's C sources. Two students of a quarter its size, with the same initial
# weights, learn from the same batches of another 200 KB, out of which every line with `return` was taken: one from the
# teacher's probabilities, the other alone. All are measured on 80 KB more. docs/demo.md says why the settings are what
# they are.
# shellcheck shell=sh disable=SC2034,SC2154 # sourced after common.sh
demo=${DEMO:-build/demo}
word='return'                        # what the students never see
teacher_steps=${TEACHER_STEPS:-1200} # a third of a pass over its part
student_steps=${STUDENT_STEPS:-800}
# What all runs have in common; the one prompt of the page is continued by the finished models.
shared='--seq-len 128 --batch 4 --sample-prompts none'
# The best rate of the student alone, and the range of its held-out loss over three seeds or that of the distilled
# student's, whichever is larger: tools/demo_sweep.sh measures both.
student_lr=0.002
spread=0.0048

# Every C source of the repository but one, which is a table of numbers. Found by name, so a tarball will do as well as a
# clone; the list is sorted, so it is the same everywhere.
list_sources() { find bench examples include src tests -name '*.[ch]' ! -name tok_unicode_generated.h | sort; }

# split_sources DIR: of 20 files 18 for the teacher, one without the word for the students, one held out. The checksum of a
# file's name decides, so a file stays where it is while others come and go; a part that is full takes no more, so the text
# does not grow with the repository.
split_sources() {
    rm -rf "$1"
    mkdir -p "$1/teacher" "$1/student" "$1/held-out"
    list_sources | while read -r path; do
        sum=$(printf %s "$path" | cksum)
        echo "${sum%% *} $path"
    done | sort -n | {
        teacher_left=4000000 student_left=200000 held_left=80000
        while read -r sum path; do
            name=$(echo "$path" | tr / -).txt
            case $((sum % 20)) in
            0)
                test $held_left -gt 0 || continue
                cp "$path" "$1/held-out/$name"
                held_left=$((held_left - $(wc -c <"$path")))
                ;;
            1)
                test $student_left -gt 0 || continue
                grep -v "$word" "$path" >"$1/student/$name" || die "$path has nothing but lines with '$word'"
                student_left=$((student_left - $(wc -c <"$1/student/$name")))
                ;;
            *)
                test $teacher_left -gt 0 || continue
                cp "$path" "$1/teacher/$name"
                teacher_left=$((teacher_left - $(wc -c <"$path")))
                ;;
            esac
        done
    }
    ! grep -r "$word" "$1/student" >/dev/null || die "the students' text still has '$word' in it"
}

# new_model SHAPE SEED OUT: random weights and the committed tokenizer.
new_model() {
    "$retort" init --config "tools/demo/$1.json" --tokenizer tools/demo/tokenizer.json --dtype f32 --seed "$2" "$3" \
        --force >/dev/null
}

train_teacher() {
    new_model teacher 1 "$demo/teacher0"
    # shellcheck disable=SC2086 # shared is several words
    watch "$demo/teacher.log" "$retort" train --student "$demo/teacher0" --data "$demo/data/teacher" \
        --eval-data "$demo/data/held-out" --out "$demo/teacher" $shared --steps "$teacher_steps" --eval-every 20% \
        --save-every 100% --seed 1
}

# train_student OUT SEED LR [--teacher T]: the same initial weights, batches and steps with and without a teacher.
train_student() {
    out=$1 seed=$2 lr=$3
    shift 3
    command=train
    test $# = 0 || command=distill
    new_model student "$seed" "$demo/student0-$seed"
    # shellcheck disable=SC2086
    watch "$out.log" "$retort" $command "$@" --student "$demo/student0-$seed" --data "$demo/data/student" \
        --eval-data "$demo/data/held-out" --out "$out" $shared --steps "$student_steps" --lr "$lr" --eval-every 20% \
        --save-every 100% --seed "$seed"
}

# measure MODEL: MODEL.measured is its held-out loss, the probability of the word, and at how many places that was.
measure() {
    "$retort" eval "$1" --data "$demo/data/held-out" --seq-len 128 --word "$word" >"$1.eval"
    awk '$1 == "cross-entropy" { loss = $2 } $1 == "word" { places = $(NF - 1) } $1 == "probability" { p = $2 }
         END { print loss, p, places }' "$1.eval" >"$1.measured"
}

# ---- the steps of tools/demo.sh ----

prepare() {
    rm -rf "$demo/data" "$demo/teacher" "$demo/distilled" "$demo/alone" "$demo/page" "$demo/sweep" "$demo/report.html"
    split_sources "$demo/data"
    for part in teacher student held-out; do
        set -- "$demo/data/$part"/*
        say "$part: $# files, $(cat "$@" | wc -c) bytes"
    done
    say "the teacher learns, $teacher_steps steps (held-out cross-entropy below)"
    train_teacher
}

teach() {
    say "a student learns from it, $student_steps steps, without ever seeing '$word'"
    train_student "$demo/distilled" 1 "$student_lr" --teacher "$demo/teacher"
    say "the same student alone, the same batches"
    train_student "$demo/alone" 1 "$student_lr"
}

prompt='static int read_all(const char *path, rt_err *e)\n{\n    int rc = read_head(path, e);\n    if (rc < 0)'

# sample MODEL WHO: a line of samples.jsonl. The text is taken over as the JSON string that it is; the step is that of the
# model, as its training said at the end.
sample() {
    "$retort" generate "$1" --raw --quiet --json --max-new 40 --prompt "$(printf %b "$prompt")" >"$1.sample"
    text=$(sed -n 's/^  "text": \(".*"\),$/\1/p' "$1.sample")
    step=$(sed -n 's/.* of step \([0-9]*\) (the .*/\1/p' "$1.log")
    printf '{"step": %d, "prompt": "%s", "who": "%s", "text": %s, "stopped": false}\n' "$step" "$prompt" "$2" "$text"
}

# The page is made from copies, so that the runs stay as they were written: both over each other, the word as bars, and
# one prompt continued by all three.
compare() {
    say "measuring all three on files that none of them saw"
    for who in alone distilled teacher; do measure "$demo/$who"; done
    read -r alone_loss alone_p places <"$demo/alone.measured"
    read -r distilled_loss distilled_p places <"$demo/distilled.measured"
    read -r teacher_loss teacher_p places <"$demo/teacher.measured"
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
}

claims() {
    sh tools/demo/claims.sh "$spread" "$alone_loss" "$distilled_loss" "$teacher_loss" "$alone_p" "$distilled_p" \
        "$teacher_p"
}
