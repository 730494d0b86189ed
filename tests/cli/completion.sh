# completion.sh - what bash offers after `retort ...`: completions/retort.bash asked as bash asks it.
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/harness"
cd "$work" || exit 1
mkdir models "a folder"
touch chats.jsonl "two words.jsonl" models/m.gguf

# offered WORD...: $out gets what completes the last word, a line each. Words are cut at = and :, as bash cuts them.
offered() {
    shown="completion of: $*"
    status=0
    bash -c 'source "$0"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _retort "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        ((${#COMPREPLY[@]})) && printf "%s\n" "${COMPREPLY[@]}"
        exit 0' "$root/completions/retort.bash" "$@" >"$out" 2>"$err" || status=$?
    exits 0
    err_empty
}
# gives LINE...: all that was offered, in that order.
gives() {
    printf '%s\n' "$@" >"$work/expected"
    check "expected: $*" cmp "$out" "$work/expected"
}

offered retort d
gives distill doctor
offered retort ''
out_has '^verify$'
out_has '^help$'
offered retort --
gives --help --version
offered retort help tr
gives train
offered retort help train ''
out_empty
offered retort nothing --
out_empty

# Flags: those of the command, and those given only once where they may be.
offered retort distill --te
gives --teacher --temperature --teacher-batch --teacher-weights --teacher-memory --template-var
offered retort train --te
gives --template-var
offered retort distill --teacher t --te
gives --temperature --teacher-batch --teacher-weights --teacher-memory --template-var
offered retort distill --data a --da
gives --data
offered retort doctor --json --j
out_empty
offered retort report -
gives --out --json --help

# Values: the words of the table, files, folders, or nothing.
offered retort distill --divergence ''
gives forward-kl reverse-kl jsd skew-forward skew-reverse tv
offered retort distill --divergence skew
gives skew-forward skew-reverse
offered retort plan --schedule c
gives constant cosine
offered retort convert a b --dtype q4_k_
gives q4_k_m q4_k_s
offered retort generate m --device c
gives cuda cpu
offered retort init --preset tiny-q
gives tiny-qwen2 tiny-qwen3
offered retort train --save ''
gives best last
offered retort distill --divergence = ''
gives forward-kl reverse-kl jsd skew-forward skew-reverse tv
offered retort distill --divergence =
gives forward-kl reverse-kl jsd skew-forward skew-reverse tv
offered retort distill --divergence = j
gives jsd
offered retort distill --data c
gives chats.jsonl
offered retort distill --data t
gives 'two words.jsonl'
offered retort distill --teacher models/
gives models/m.gguf
offered retort distill --out ''
check "folders" grep -qx models "$out"
check "folders with a space" grep -qx 'a folder' "$out"
out_lacks chats
offered retort distill --lr ''
out_empty
offered retort eval m --chat-template s
gives student
offered retort tokenize d --chat-template s
out_empty

# Arguments: files where the command takes any.
offered retort inspect mod
gives models
offered retort convert models/m
gives models/m.gguf
offered retort inspect -- mod
gives models
offered retort inspect -- --js
out_empty
offered retort doctor ''
out_empty
offered retort distill ''
out_empty

# Every command and every flag is known.
python3 - "$RETORT" >every <<'PY'
import json, os, shlex, subprocess, sys
def ask(*args):
    return json.loads(subprocess.check_output(shlex.split(os.environ.get("EMU", "")) + [sys.argv[1], *args, "--help=json"]))
for name in [c["name"] for c in ask()["commands"]]:
    print(name, *[f["name"] for f in ask(name)["flags"]])
PY
check "commands" test "$(wc -l <every)" -gt 10
while read -r name flags; do
    offered retort "$name" -
    # shellcheck disable=SC2086
    gives $flags
done <every
finish
