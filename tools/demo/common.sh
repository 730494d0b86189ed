# common.sh - for tools/demo.sh and tools/demo_sweep.sh, to be sourced in the root of the repository: what every pair of the
# demo needs.
# shellcheck shell=sh disable=SC2034 # settings are used by whoever sources this
set -eu
LC_ALL=C
export LC_ALL

retort=${RETORT:-build/retort}
begun=$(date +%s)
say() { printf 'demo: %4d s  %s\n' $(($(date +%s) - begun)) "$*"; }
die() {
    echo "demo: $*" >&2
    exit 1
}

# watch LOG COMMAND...: the command's output goes to LOG, and its evaluations are shown as they come; where nothing
# was for ten seconds, also where it is.
watch() {
    log=$1
    shift
    { "$@" 2>&1 || echo "failed with status $?: $*"; } | tee "$log" | {
        told=$(date +%s)
        while IFS= read -r line; do
            now=$(date +%s)
            case $line in
            eval\ *) echo "           step ${line#eval }" ;;
            *\ tok/s\ * | *\ so\ far | *,\ left\ *)
                test $((now - told)) -ge 10 || continue
                case $line in *\ tok/s\ *) line="${line%%  lr *}  left ${line##*left }" ;; esac
                echo "           $line"
                ;;
            *) continue ;;
            esac
            told=$now
        done
    }
    if grep '^failed with status' "$log" >/dev/null; then
        tail -n 5 "$log" >&2
        exit 1
    fi
}
