# api.sh - the C API as a user has it: header, library and example alone; what it exports; the same bits as the binary.
: "${BUILD:?names the build folder}"
root=$(pwd)
case $BUILD in /*) ;; *) BUILD=$root/$BUILD ;; esac
case $RETORT in /*) ;; *) RETORT=$root/$RETORT ;; esac
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"
lib=$BUILD/lib/libretort.a
warnings="-Wall -Wextra -Wpedantic -Werror"

# does COMMAND...: runs anything as the harness runs the binary.
does() {
    shown="$*"
    status=0
    "$@" >"$out" 2>"$err" </dev/null || status=$?
}

# ---- the header ----
echo '#include <retort.h>' >header.c
# shellcheck disable=SC2086
for standard in c11 c99; do
    does ${CC:-gcc} -std=$standard $warnings -Wstrict-prototypes -I"$root/include" -fsyntax-only header.c
    exits 0
    err_empty
done
for cxx in g++ clang++; do
    command -v $cxx >/dev/null || continue
    # shellcheck disable=SC2086
    does $cxx -x c++ -std=c++11 $warnings -I"$root/include" -fsyntax-only header.c
    exits 0
    err_empty
done

# ---- names: those of the header, and no others ----
check "the library is there" test -s "$lib"
${NM:-nm} -g --defined-only "$lib" | awk 'NF == 3 { print $3 }' | sort >exported
grep -oE '\bretort_[a-z_]+\(' "$root/include/retort.h" | tr -d '(' | sort -u >declared
cp exported "$out"
check "every exported name is in the header, and every declared one is exported" cmp exported declared
check "functions" test "$(wc -l <declared)" -ge 20
check "the API calls nothing that prints or ends" sh -c '! "$0" -u "$1"/src/api/*.o | grep -wE "printf|puts|exit|abort|getenv"' \
    "${NM:-nm}" "$BUILD"

# ---- the example ----
# shellcheck disable=SC2046,SC2086
does ${CC:-gcc} -std=c11 $warnings ${SAN_FLAGS:-} -I"$root/include" "$root/examples/distill.c" "$lib" $(cat "$BUILD/lib/libs") \
    -o example
exits 0
err_empty
texts d.jsonl 60 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 t
run init --preset tiny-llama --seed 2 --dtype f32 s

# ---- installed ----
# What was built is taken as it is, whatever it was built with.
does env -u MAKEFLAGS -u MAKELEVEL make -s -C "$root" -o "$BUILD/retort" -o "$lib" BUILD="$BUILD" PREFIX="$work/usr" install
exits 0
err_empty
check "the binary" cmp "$RETORT" usr/bin/retort
check "man pages" test -s usr/share/man/man1/retort.1 -a -s usr/share/man/man1/retort-distill.1
check "completions" test -s usr/share/bash-completion/completions/retort -a -s usr/share/zsh/site-functions/_retort \
    -a -s usr/share/fish/vendor_completions.d/retort.fish
cp usr/lib/pkgconfig/retort.pc "$out"
check "nothing is left to fill in" sh -c '! grep -q @ "$0"' "$out"
out_has "^Version: $(sed -n 's/^#define RETORT_VERSION "\(.*\)"$/\1/p' "$root/include/retort.h")\$"
if command -v pkg-config >/dev/null; then
    # shellcheck disable=SC2046,SC2086
    does ${CC:-gcc} -std=c11 $warnings ${SAN_FLAGS:-} "$root/examples/distill.c" \
        $(PKG_CONFIG_PATH=usr/lib/pkgconfig pkg-config --cflags --libs retort) -o installed
    exits 0
    err_empty
else
    echo "skipped: the example with what pkg-config says (there is none)"
fi

example() {
    shown="example $*"
    status=0
    # shellcheck disable=SC2086
    ${EMU:-} ./example "$@" >"$out" 2>"$err" </dev/null || status=$?
}
example t s d.jsonl api steps=6 batch=4 seq-len=64 lr=3e-3 eval_every=3 save_every=3 threads=2
exits 0
err_empty
out_has '^plan: [0-9.]+ MiB, 6 steps of 4 rows$'
out_has '^step 6/6  loss [0-9.]+  agreement [0-9.]+$'
out_has '^KL\(teacher\|\|student\): [0-9.]+ before, [0-9.]+ after$'
out_has '^cross-entropy on d.jsonl: [0-9.]+ \+- [0-9.]+$'
out_has '^sample: '
out_has '^saved api.gguf$'
check "nothing is printed besides" test "$(grep -cvE '^(plan|step|KL|cross-entropy|sample|saved)' "$out")" = 0
run distill --teacher t --student s --data d.jsonl --out cli --steps 6 --batch 4 --seq-len 64 --lr 3e-3 --eval-every 3 \
    --save-every 3 --threads 2
exits 0
check "the same model as the command line's" cmp api/model.safetensors cli/model.safetensors
curve api >a
curve cli >b
check "the same curve" cmp a b
run inspect api.gguf --json
exits 0
json_is 'j["format"] == "gguf" and j["tokenizer"]'

example t s d.jsonl api steps=6 batch=4 seq-len=64
exits 5
out_lacks '^step'
err_has '^distill: api is not empty'
example t s d.jsonl x lrr=1
exits 2
err_has "^distill: 'lrr' is not a setting; did you mean lr"
example t nowhere d.jsonl x
exits 3
err_has 'nowhere'
example t t d.jsonl x
exits 5
check "nothing was made" test ! -e x
run --version
out_has "^retort $(sed -n 's/^#define RETORT_VERSION "\(.*\)"$/\1/p' "$root/include/retort.h") "
finish
