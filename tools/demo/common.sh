# common.sh - for tools/demo.sh and tools/demo_sweep.sh, to be sourced in the root of the repository: the settings of the
# demo, its data, and the commands by which its models are made. docs/demo.md says why they are what they are.
# shellcheck shell=sh disable=SC2034 # settings are used by whoever sources this
set -eu
LC_ALL=C
export LC_ALL

retort=${RETORT:-build/retort}
demo=${DEMO:-build/demo}             # everything the demo leaves is in here
word='return'                        # what the students never see
teacher_steps=${TEACHER_STEPS:-1000} # most of a pass over its part
student_steps=${STUDENT_STEPS:-600}
# What all runs have in common; the one prompt of the page is continued by the finished models.
shared='--seq-len 128 --batch 8 --sample-prompts none'
# The best rate of the student alone, and the range of its held-out loss over three seeds or that of the distilled
# student's, whichever is larger: tools/demo_sweep.sh measures both.
student_lr=0.004
spread=0.0675

begun=$(date +%s)
say() { printf 'demo: %4d s  %s\n' $(($(date +%s) - begun)) "$*"; }
die() {
    echo "demo: $*" >&2
    exit 1
}

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
        teacher_left=4000000 student_left=200000 held_left=120000
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

# watch LOG COMMAND...: the command's output goes to LOG, and its evaluations are shown as they come.
watch() {
    log=$1
    shift
    { "$@" 2>&1 || echo "failed with status $?: $*"; } | tee "$log" | while IFS= read -r line; do
        case $line in eval\ *) echo "           step ${line#eval }" ;; esac
    done
    if grep '^failed with status' "$log" >/dev/null; then
        tail -n 5 "$log" >&2
        exit 1
    fi
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
        --eval-data "$demo/data/held-out" --out "$out" $shared --steps "$student_steps" --lr "$lr" --eval-every 10% \
        --save-every 100% --seed "$seed"
}

# measure MODEL: MODEL.measured is its held-out loss, the probability of the word, and at how many places that was.
measure() {
    "$retort" eval "$1" --data "$demo/data/held-out" --seq-len 128 --word "$word" >"$1.eval"
    awk '$1 == "cross-entropy" { loss = $2 } $1 == "word" { places = $(NF - 1) } $1 == "probability" { p = $2 }
         END { print loss, p, places }' "$1.eval" >"$1.measured"
}
