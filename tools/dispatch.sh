#!/bin/sh
# dispatch.sh - a run on another machine, over ssh: checked there, sent, started, followed, brought back.
#
#   tools/dispatch.sh [OPTIONS] HOST -- distill|train FLAGS      the flags as they would be given here
#   tools/dispatch.sh [OPTIONS] HOST --status|--fetch|--stop OUT   a run that was dispatched before
#
# Run with --help for the options, and see docs/dispatch.md. Files are mirrored: what is /a/b here is DIR/files/a/b there,
# and the run is started in the mirror of this directory, so every path in the command can be a relative one that means
# the same file on both machines. Needs ssh here, and there sh, tar, find, df, setsid and tail as Linux has them.
# shellcheck disable=SC2015,SC2016,SC2088,SC2317
set -eu
unset CDPATH # with it `cd` prints where it went

usage() {
    cat <<'EOF'
usage: tools/dispatch.sh [OPTIONS] HOST -- distill|train FLAGS
       tools/dispatch.sh [OPTIONS] HOST --status|--fetch|--stop OUT

Runs retort on another Linux machine: checks it (doctor, plan, disk), sends the binary and the files it does not have yet,
starts the run detached, shows its log, brings the run directory back to --out and ends with the run's exit code. When
the connection or this machine goes away, the run goes on.

  --status OUT      what became of a run that was dispatched before, and the end of its log
  --fetch OUT       follow it to its end and bring it back, again if need be
  --stop OUT        have it save and stop
options:
  --dry-run         print every step; connect to nothing, write nothing
  --ssh COMMAND     how to connect (ssh); for example 'ssh -p 2222 -i key'
  --binary FILE     the retort to send (build/retort of this repository, else the one in PATH)
  --remote-dir DIR  where things go there (~/.retort)
  --patience N      seconds without an answer after which to give up (600)
  --help            this text

example:
  tools/dispatch.sh gpu1 -- distill --teacher teacher --student student --data chats.jsonl --out out
EOF
}

# ---- small things ----

say() { printf 'dispatch: %s\n' "$*"; }
# die CODE MESSAGE...: codes are those of retort: 2 usage, 3 not found, 5 invalid, 7 I/O, 8 device, 10 network.
die() {
    code=$1
    shift
    printf 'dispatch.sh: %s\n' "$*" >&2
    exit "$code"
}
# quote WORD: the word as a shell reads it.
quote() { printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"; }
quote_all() { for word; do printf ' %s' "$(quote "$word")"; done; }
# json_text WORD: line breaks too, and no other control character.
json_text() {
    printf '"%s"' "$(printf '%s' "$1" | sed -e ':all' -e '$!{' -e 'N' -e 'b all' -e '}' -e 's/\\/\\\\/g; s/"/\\"/g' \
        -e 's/	/\\t/g; s/\n/\\n/g; s/[[:cntrl:]]/?/g')"
}
json_list() {
    comma=
    printf '['
    for word; do
        printf '%s%s' "$comma" "$(json_text "$word")"
        comma=', '
    done
    printf ']'
}
# size BYTES [UNIT]
size() {
    awk -v n="$1" -v by="${2:-1}" 'BEGIN {
        split("B KiB MiB GiB TiB", unit)
        for (n *= by; n >= 1024 && i < 4; i++) n /= 1024
        printf i ? "%.1f %s\n" : "%d %s\n", n, unit[i + 1]
    }'
}
now() { date -u +%Y-%m-%dT%H:%M:%SZ; }
# whole_path PATH: from the root. The last part stays what it is called, even when it is a link: models go by that name.
whole_path() {
    path=${1%/}
    case $path in
    '' | . | .. | */. | */..) (cd -- "$1" && pwd -P) ;;
    */*) printf '%s/%s\n' "$(cd -- "${path%/*}/" && pwd -P | sed 's,^/$,,')" "${path##*/}" ;;
    *) printf '%s/%s\n' "${here%/}" "$path" ;;
    esac
}

# ---- the other machine ----

# connect LINE: has the host's shell run a line. Status 255 is ssh's own: no connection, or no longer one.
connect() {
    line=$1
    eval "set -- $ssh"
    $bounded "$@" -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15 -o ServerAliveCountMax=3 "$host" "$line"
}
# remote SCRIPT ARGS...: a script in the host's sh, whatever the login shell; begins in the home directory.
remote() {
    script=$1
    shift
    connect "exec sh -c $(quote "$script") dispatch$(quote_all "$@")"
}
no_answer() {
    sed 's/^/ssh: /' "$tmp/ssh" >&2
    die 10 "$host does not answer over ssh. Try: $ssh -o BatchMode=yes $host true" \
        "(it must work without a password; see docs/dispatch.md). $1"
}
# persist COMMAND...: again while the connection is what fails, until patience is at its end.
persist() {
    waited=0 pause=1
    while :; do
        began=$(date +%s)
        code=0
        "$@" || code=$?
        [ "$code" = 255 ] || return "$code"
        took=$(($(date +%s) - began))
        [ "$took" -le 20 ] || waited=0 pause=1
        waited=$((waited + took + pause))
        [ "$waited" -le "$patience" ] || no_answer "$lost"
        say "no connection to $host; trying again in $pause s"
        sleep "$pause"
        pause=$((pause < 16 ? pause * 2 : 30))
    done
}

# The scripts that run there. Of a run: $1 is its directory, $2 the folder beside it with log, process ids and exit code.
state_of_run='alive() { [ -s "$1/pid" ] && kill -0 "$(cat "$1/pid")" 2>/dev/null; }
state() {
    if alive "$2" && [ ! -s "$2/status" ]; then echo running
    elif [ -s "$2/status" ]; then echo "ended $(cat "$2/status")"
    elif [ -d "$2" ]; then echo lost
    elif [ -e "$1" ]; then echo taken
    else echo none; fi
}
'
space='space() { df -Pk "$1" | tail -n 1 | sed "s/^.* \([0-9][0-9]*\)  *[0-9][0-9]*%.*$/\1/"; }
'
probe=$state_of_run$space'at=$3
while [ ! -d "$at" ]; do
    case $at in */?*) at=${at%/*} at=${at:-/} ;; *) at=. ;; esac
done
echo "@machine $(uname -sm)"
echo "@free $(space "$at")"
echo "@state $(state "$1" "$2")"
[ ! -x "$4" ] || echo "@binary there"'
take_binary='umask 022
mkdir -p "$1" && cat >"$1/.$2.$$" && chmod 755 "$1/.$2.$$" && mv "$1/.$2.$$" "$1/$2"'
doctor='"$1" doctor'
list_mirror='cd "$1" 2>/dev/null || exit 0
find . -type f -printf "%s %T@ %P\n"'
# What begins with a dot is not finished.
list_run='cd "$1" && find . -name ".?*" -prune -o -type f -printf "%s %T@ %P\n"'
take_files='mkdir -p "$1" && tar -xf - -C "$1"'
give_files='cd "$1" && tar -cf - --null -T -'
enter='top=$(cd "$1" && pwd) && bin=$top/bin/$2 && mkdir -p "$top/files$3" || exit 7
'
plan=$enter$space'cd "$top/files$3" || exit 7
echo "@free $(space .)"
shift 3
"$bin" --help | grep -q "^  plan " || { echo "@no plan"; exit 0; }
"$bin" plan "$@" --json'
# The run is a session of its own, so that it outlives the connection; the exit code appears in one piece.
run='job=$1
echo $$ >"$job/pid"
date -u +%Y-%m-%dT%H:%M:%SZ >"$job/started"
shift
"$@" &
echo $! >"$job/child"
wait $!
echo $? >"$job/status.new"
date -u +%Y-%m-%dT%H:%M:%SZ >"$job/finished"
mv "$job/status.new" "$job/status"'
start=$enter'cd "$top/files$3" || exit 7
[ "$5" != again ] || rm -rf "$4"
mkdir -p "$(dirname "$4")" && mkdir "$4" || exit 5
job=$(cd "$4" && pwd)
printf "%s\n" "$6" >"$job/facts"
run=$7
shift 7
setsid nohup sh -c "$run" retort "$job" "$bin" "$@" >"$job/log" 2>&1 </dev/null &
for i in 1 2 3 4 5 6 7 8 9 10; do
    [ ! -s "$job/pid" ] || exit 0
    sleep 1
done
exit 8'
follow='[ -s "$2/pid" ] || exit 3
exec tail -c "+$3" -s 0.3 -f --pid="$(cat "$2/pid")" "$2/log"'
outcome=$state_of_run'echo "@state $(state "$1" "$2")"
for fact in started finished facts; do
    [ ! -s "$2/$fact" ] || printf "@%s %s\n" "$fact" "$(cat "$2/$fact")"
done
[ ! -d "$1" ] || echo "@out there"'
show_status=$state_of_run'echo "state     $(state "$1" "$2")"
[ ! -s "$2/started" ] || echo "started   $(cat "$2/started")"
[ ! -s "$2/finished" ] || echo "finished  $(cat "$2/finished")"
[ ! -s "$2/log" ] || tail -n 5 "$2/log"'
stop=$state_of_run'alive "$2" && kill -TERM "$(cat "$2/child")" || exit 3'

# ask SCRIPT ARGS...: runs it; its lines `@key text` are in $tmp/answer for `told KEY`.
ask() { remote "$@" </dev/null >"$tmp/answer" 2>"$tmp/ssh"; }
told() { sed -n "s/^@$1 //p" "$tmp/answer"; }

# ---- the command: paths, and which files they are ----

# config_paths FILE: the paths in a configuration, as `--flag TAB value` lines; `!` and a name where it is not understood.
config_paths() {
    awk '
    BEGIN {
        split("teacher student data eval_data sample_prompts chat_template out", names)
        for (i in names) { flag[names[i]] = "--" names[i]; gsub("_", "-", flag[names[i]]) }
        flag["teacher_model_name_or_path"] = "--teacher"; flag["model_name_or_path"] = "--student"
        flag["dataset_name"] = flag["train_file"] = "--data"; flag["validation_file"] = "--eval-data"
        flag["output_dir"] = "--out"
    }
    function value(text) {
        sub(/^[ \t]+/, "", text)
        open_quote = text ~ /^(".*[^"]|\x27.*[^\x27])[ \t\r]*$/ && text !~ /["\x27][ \t]+#/
        if (text ~ /^[[{&*!|>%@`]/ || text ~ /\\/ || text ~ /\x27\x27/ || open_quote) { print "!\t" key; return }
        if (text ~ /^["\x27]/) {
            quote = substr(text, 1, 1); text = substr(text, 2); sub(quote "[^" quote "]*$", "", text)
        } else { sub(/^#.*|[ \t]+#.*/, "", text); sub(/[ \t\r]+$/, "", text) }
        if (text != "" && text != "~" && text != "null") print flag[key] "\t" text
    }
    /^[ \t]*(#|$)/ { next }
    /^[ \t]*-[ \t]/ { if (key in flag) { sub(/^[ \t]*-/, ""); value($0) } next }
    { key = $0; sub(/[ \t]*:.*/, "", key); gsub(/["\x27 \t]/, "", key); gsub("-", "_", key); sub(/^[^:]*:/, "")
      if (key in flag) value($0) }' "$1"
}

# add_files PATH: the file, or the files below it, as `size time path` in $tmp/here; links are followed.
add_files() {
    case $1 in
    *"
"*) die 5 "$(quote "$1"): a line break in a file's name" ;;
    esac
    find -L "$1" \( -name '.?*' -o -name 'checkpoint-*' \) ! -path "$1" -prune -o -type f -printf '%s %T@ %p\n' \
        >>"$tmp/found" || die 7 "$1 cannot be read"
    # A file with weights needs the small ones that lie beside it.
    case $1 in
    *.safetensors | *.apr)
        find -L "${1%/*}" -maxdepth 1 -type f \( -name '*.json' -o -name '*.jinja' -o -name '*.model' -o -name '*.txt' \) \
            -printf '%s %T@ %p\n' >>"$tmp/found"
        ;;
    esac
}

# place PATH: how the command says it, from the mirror of this directory as well as from here.
place() {
    case $1 in
    "${here%/}"/*) printf '%s' "${1#"${here%/}"/}" ;;
    "$here") printf . ;;
    *) printf '%s%s' "$up" "${1#/}" ;;
    esac
}

# take_path FLAG VALUE: adds the files, and leaves what the command says instead in $word.
take_path() {
    word=$2 source=$2 options=
    if [ "$1" = --data ] || [ "$1" = --eval-data ]; then
        [ -e "$source" ] || source=${source%%,weight=*}
        [ -e "$source" ] || source=${source%%,split=*}
        options=${2#"$source"}
    fi
    case $1=$source in
    --chat-template=teacher | --chat-template=student | --chat-template=auto | --sample-prompts=none | --sample-prompts=auto)
        return
        ;;
    esac
    if [ -e "$source" ]; then
        path=$(whole_path "$source")
        add_files "$path"
        word=$(place "$path")$options
        return
    fi
    case $1=$source in
    --data=*[*?[]* | --eval-data=*[*?[]*)
        fixed=${source%%[*?[]*}
        case $fixed in */*) folder=${fixed%/*}/ ;; *) folder=./ ;; esac
        [ -d "$folder" ] || die 3 "$1 $source: there is no $folder"
        path=$(whole_path "$folder")
        rest=${source#"${fixed%"${fixed##*/}"}"}
        found=0
        # The pattern is to be expanded, but not split.
        saved=$IFS
        IFS=
        # shellcheck disable=SC2231
        for one in $folder$rest; do
            [ ! -e "$one" ] || { add_files "$(whole_path "$one")"; found=$((found + 1)); }
        done
        IFS=$saved
        [ "$found" != 0 ] || die 3 "$1 $source: no file has such a name"
        word=$(place "${path%/}/$rest")$options
        ;;
    --teacher=[!./]*/*/* | --student=[!./]*/*/*) die 3 "$1 $source: not found here" ;;
    --teacher=[!./]*/* | --student=[!./]*/* | --data=[!./]*/* | --eval-data=[!./]*/*)
        say "$1 $source is not here; it is looked up in the Hugging Face cache of $host"
        ;;
    *) die 3 "$1 $source: not found here" ;;
    esac
}

# ---- steps ----

# missing HERE THERE: what the first list has and the second has not, by size and time.
missing() {
    sort "$1" >"$tmp/a"
    sort "$2" >"$tmp/b"
    comm -23 "$tmp/a" "$tmp/b"
}
# tidy: times in whole seconds, which is all that tar keeps; each file once.
tidy() { sed 's/^\([0-9]* [0-9]*\)[.][0-9]* /\1 /' | sort -u; }
total() { awk '{ n += $1 } END { printf "%.0f\n", n }' "$1"; }
names() { sed 's/^[0-9]* [0-9]* //' "$1" | tr '\n' '\0'; }

look() { ask "$probe" "$far" "$job" "$dir" "$dir/bin/$sent_binary"; }
list_there() {
    remote "$1" "$2" </dev/null >"$tmp/raw" 2>"$tmp/ssh" || return
    tidy <"$tmp/raw" >"$tmp/there"
}
send_files() {
    for try in 1 2 3 4; do
        persist list_there "$list_mirror" "$dir/files" || die 7 "$host: $shown/files cannot be read: $(cat "$tmp/ssh")"
        missing "$tmp/here" "$tmp/there" >"$tmp/send"
        [ -s "$tmp/send" ] || return 0
        [ "$try" != 1 ] || check_disk "$(total "$tmp/send")" "the files to send"
        say "send      $(wc -l <"$tmp/send") of $(wc -l <"$tmp/here") files, $(size "$(total "$tmp/send")")"
        code=0
        names "$tmp/send" | tar -chf - -C / --null -T - | remote "$take_files" "$dir/files" 2>"$tmp/ssh" || code=$?
        [ "$code" = 0 ] || [ "$code" = 255 ] || break
    done
    cat "$tmp/ssh" >&2
    die 7 "the files did not all arrive on $host in $shown/files; what is there whole is not sent again"
}
send_binary() {
    remote "$take_binary" "$dir/bin" "$sent_binary" <"$binary" 2>"$tmp/ssh"
}
# check_disk BYTES WHAT: against $free, as the last look found it.
check_disk() {
    case $free in '' | *[!0-9]*) die 7 "$host: df does not say how much space there is for $shown" ;; esac
    # With awk: shells may count to 2^31 only.
    awk -v need="$1" -v free="$free" 'BEGIN { exit !(need <= free * 1024) }' ||
        die 7 "$host has too little disk space in $shown: $(size "$free" 1024) free, $(size "$1") needed for $2." \
            "Make room there, or choose another place with --remote-dir"
}

follow_log() {
    got=$(wc -c <"$tmp/log")
    { code=0; remote "$follow" "$far" "$job" $((got + 1)) </dev/null 2>"$tmp/ssh" || code=$?; echo "$code" >"$tmp/code"; } |
        tee -a "$tmp/log"
    return "$(cat "$tmp/code")"
}

# fetch_files: the remote run directory as $staging, whole files only. Only a folder that was made here is removed again.
fetch_files() {
    mkdir -p "${full%/*}" && mkdir "${full%/*}/.${full##*/}.fetching-$$" ||
        die 7 "${full%/*}/.${full##*/}.fetching-$$ cannot be made"
    staging=${full%/*}/.${full##*/}.fetching-$$
    for try in 1 2 3 4 5 6 7 8 9; do
        persist list_there "$list_run" "$far" || die 7 "$host: $far cannot be read: $(cat "$tmp/ssh")"
        (cd "$staging" && find . -type f -printf '%s %T@ %P\n') | tidy >"$tmp/have"
        missing "$tmp/there" "$tmp/have" >"$tmp/want"
        [ -s "$tmp/want" ] || return 0
        say "fetch     $(wc -l <"$tmp/want") files, $(size "$(total "$tmp/want")")"
        names "$tmp/want" | remote "$give_files" "$far" 2>"$tmp/ssh" | tar -xf - -C "$staging" 2>"$tmp/tar" || true
    done
    cat "$tmp/ssh" "$tmp/tar" >&2
    die 7 "the run directory did not arrive whole after $try attempts; the run is on $host in $far"
}

# write_record FILE: dispatch.json. No environment, no key, no password: what was run, where, when, how it ended.
write_record() {
    cat >"$1" <<EOF
{
  "format": "retort.dispatch.1",
  "host": $(json_text "$host"),
  "directory": $(json_text "$far"),
  $(told facts),
  "started": "$(told started)",
  "finished": "$(told finished)",
  "fetched": "$(now)",
  "exit": $result
}
EOF
}

# added OLD NEW: files of the old copy that the run has not, but for checkpoints and best models, which come and go there.
added() {
    (cd "$1" && find . ! -type d | sort) >"$tmp/a"
    (cd "$2" && find . ! -type d | sort) >"$tmp/b"
    model='((generation_|tokenizer_|adapter_)?config|tokenizer|state|special_tokens_map|vocab|added_tokens)\.json'
    model="$model|((adapter_)?model[-0-9of]*|state)\.safetensors(\.index\.json)?|chat_template\.jinja|merges\.txt|tokenizer\.model"
    comm -23 "$tmp/a" "$tmp/b" | grep -vE "^\./((run/)?control/)?(run/checkpoints/)?(checkpoint|best)-[0-9]+/($model)\$" || true
}

# bring_back: waits for the end of the run and ends with its exit code.
bring_back() {
    lost="The run goes on there; tools/dispatch.sh $host --fetch $(quote "$out") brings it back, --stop ends it early"
    trap 'printf "\ndispatch.sh: no longer watching. %s\n" "$lost" >&2; exit 130' INT TERM HUP
    : >"$tmp/log"
    persist follow_log || true
    persist ask "$outcome" "$far" "$job" || die 7 "$host: $(cat "$tmp/ssh")"
    case $(told state) in
    ended*) result=$(told state | sed 's/^ended //') ;;
    running) die 7 "$host: the log of the run cannot be read: $(cat "$tmp/ssh")" ;;
    *) die 8 "the run on $host is gone without an exit code: the machine was restarted, or the process was killed." \
        "What it saved is there in $far; the same command with --resume goes on from it" ;;
    esac
    if [ -z "$(told out)" ]; then
        say "the run ended with exit code $result and left nothing to bring back"
        exit "$result"
    fi
    cp "$tmp/answer" "$tmp/facts"
    fetch_files
    cp "$tmp/facts" "$tmp/answer"
    mkdir -p "$staging/run"
    [ -e "$staging/run/log.txt" ] || cp "$tmp/log" "$staging/run/log.txt"
    write_record "$staging/run/dispatch.json"
    if [ -d "$out" ] && ! rmdir "$out" 2>/dev/null; then
        old=$staging.old
        mv "$out" "$old"
        if [ -n "$(added "$old" "$staging")" ]; then
            number=1
            while [ -e "$out.before-$number" ] || [ -L "$out.before-$number" ]; do number=$((number + 1)); done
            say "kept      $out.before-$number, as it was: the run has no $(added "$old" "$staging" | head -n 3 | tr '\n' ' ')"
            mv "$old" "$out.before-$number"
        fi
    fi
    mv "$staging" "$out"
    [ ! -d "${old:-}" ] || rm -rf "$old"
    say "back      $out, exit code $result"
    exit "$result"
}

# refuse_full: a directory with files in it is replaced only by another copy of the very run that it is.
refuse_full() {
    [ -e "$out" ] || [ -L "$out" ] || return 0
    [ -d "$out" ] || die 5 "$out is not a directory"
    [ -n "$(ls -A "$out")" ] || return 0
    if [ "$1" = again ] && grep -qF "\"host\": $(json_text "$host")," "$out/run/dispatch.json" 2>/dev/null &&
        grep -qF "\"directory\": $(json_text "$far")," "$out/run/dispatch.json"; then
        return 0
    fi
    die 5 "$out is not empty; give another --out, or remove it"
}

# ---- the command line ----

here=$(pwd -P)
root=$(cd "$(dirname "$0")/.." && pwd)
host='' action='' out='' dry=0 ssh=ssh binary=${RETORT:-} dir=.retort patience=600 bounded='' command=''
while [ $# -gt 0 ]; do
    case $1 in
    --help)
        usage
        exit 0
        ;;
    --dry-run) dry=1 ;;
    --ssh | --binary | --remote-dir | --patience | --status | --fetch | --stop)
        [ $# -ge 2 ] && [ -n "$2" ] || die 2 "$1 needs a value; see --help"
        case $1 in
        --ssh) ssh=$2 ;;
        --binary) binary=$2 ;;
        --remote-dir) dir=${2%/} ;;
        --patience) patience=$2 ;;
        *)
            [ -z "$action" ] || die 2 "one of --status, --fetch and --stop; see --help"
            action=${1#--} out=$2
            ;;
        esac
        shift
        ;;
    --)
        shift
        command=${1:-}
        break
        ;;
    -*) die 2 "unknown option '$1'; see --help. The flags of the run stand behind --" ;;
    *)
        [ -z "$host" ] || die 2 "two hosts, '$host' and '$1'; the command stands behind --"
        host=$1
        ;;
    esac
    shift
done
[ -n "$host" ] || die 2 "no host; see --help"
case $patience in '' | *[!0-9]*) die 2 "--patience takes seconds, not '$patience'" ;; esac
case $dir in '~') dir=. ;; '~/'*) dir=${dir#??} ;; esac
if [ -n "$action" ]; then
    [ -z "$command" ] || die 2 "--$action is about a run that was dispatched before; there is nothing to start"
else
    case $command in
    distill | train) shift ;;
    '') die 2 "no command; tools/dispatch.sh $host -- distill --teacher T --student S --data D --out OUT" ;;
    *) die 2 "it runs distill and train, not '$command'" ;;
    esac
fi

tmp=$(mktemp -d)
staging=
trap 'rm -rf "$tmp" ${staging:+"$staging"}' EXIT
: >"$tmp/found"
up=$(printf '%s' "${here%/}" | sed 's,/[^/]*,../,g')

# The settings of a file that are paths become flags, which win over the file; so all paths are treated alike.
again=new
count=$#
given=' '
config=
while [ "$count" -gt 0 ]; do
    case $1 in
    --teacher=* | --student=* | --data=* | --eval-data=* | --config=* | --sample-prompts=* | --chat-template=* | --out=*)
        flag=${1%%=*} words=1
        set -- "$@" "$flag" "${1#*=}"
        ;;
    --teacher | --student | --data | --eval-data | --config | --sample-prompts | --chat-template | --out)
        [ "$count" -ge 2 ] || die 2 "$1 needs a value"
        flag=$1 words=2
        set -- "$@" "$1" "$2"
        ;;
    *) flag=$1 words=1 && set -- "$@" "$1" ;;
    esac
    # The last word is the value, if the flag has one.
    for value; do :; done
    [ "$flag" != --config ] || config=$value
    [ "$flag" != --resume ] || again=again
    given="$given$flag "
    shift "$words"
    count=$((count - words))
done
if [ -n "$config" ]; then
    [ -f "$config" ] || die 3 "--config $config: not found here"
    config_paths "$config" >"$tmp/config"
    while IFS='	' read -r flag value; do
        [ "$flag" != ! ] ||
            die 5 "$config: $value is written in a way that is not understood here; write plain text, one to a line"
        case $given in *" $flag "*) ;; *) set -- "$@" "$flag" "$value" ;; esac
    done <"$tmp/config"
fi

count=$#
while [ "$count" -gt 0 ]; do
    case $1 in
    --out)
        [ -z "$out" ] || [ "$out" = "$2" ] || die 2 "--out is given twice"
        out=$2
        shift 2
        count=$((count - 2))
        ;;
    --teacher | --student | --data | --eval-data | --config | --sample-prompts | --chat-template)
        take_path "$1" "$2"
        set -- "$@" "$1" "$word"
        shift 2
        count=$((count - 2))
        ;;
    *)
        set -- "$@" "$1"
        shift
        count=$((count - 1))
        ;;
    esac
done
[ -n "$out" ] || die 2 "--out is missing: where the run is brought back to"
case $out in */) out=${out%/} ;; esac
case ${out##*/} in
'' | . | .. | *"
"*) die 2 "--out '$out': a run needs a directory with a name" ;;
esac
case $out in
/*) full=$out out_there=$up${out#/} ;;
*) full=${here%/}/$out out_there=$out ;;
esac
far=$dir/files$full
job=${far%/*}/.${far##*/}.job
case $dir in /*) shown=$dir ;; *) shown=\~/$dir ;; esac
lost="Nothing was started there, and nothing was written here"

if [ -n "$action" ]; then
    [ "$dry" = 0 ] || die 2 "--dry-run shows how a run would be started; --$action starts none"
    [ "$action" != fetch ] || refuse_full again
    bounded='timeout 60'
    code=0
    case $action in
    status) ask "$show_status" "$far" "$job" || code=$? ;;
    stop) ask "$stop" "$far" "$job" || code=$? ;;
    fetch) ask "$outcome" "$far" "$job" || code=$? ;;
    esac
    bounded=
    case $action=$code in
    *=124 | *=255) no_answer 'Nothing was written here' ;;
    status=0) cat "$tmp/answer" ;;
    stop=0) say "asked the run on $host to save and stop; --fetch $(quote "$out") brings it back" ;;
    stop=*) die 3 "$host: no run of $out is going on in $shown" ;;
    fetch=0)
        case $(told state) in
        none | taken) die 3 "$host has no run of $out in $shown (was it dispatched from here, with this --remote-dir?)" ;;
        esac
        bring_back
        ;;
    *) die 7 "$host: $(cat "$tmp/ssh")" ;;
    esac
    exit 0
fi

refuse_full "$again"
if [ -z "$binary" ]; then
    if [ -x "$root/build/retort" ]; then binary=$root/build/retort; else binary=$(command -v retort || true); fi
fi
[ -n "$binary" ] && [ -f "$binary" ] ||
    die 3 "${binary:-retort}: there is no such binary; build it with make, or name it with --binary"
sum=$(sha256sum <"$binary" | cut -d ' ' -f 1)
sent_binary=retort-$(printf %.16s "$sum")
tidy <"$tmp/found" | sed 's,^\([0-9]* [0-9]*\) /,\1 ,' >"$tmp/here"
set -- "$@" --out "$out_there"

if [ "$dry" = 1 ]; then
    cat <<EOF
connect   $ssh $host, without a password
look      machine, free space, whether there is a run $far already
binary    $binary ($(size "$(wc -c <"$binary")")), to $shown/bin/$sent_binary unless it is there; retort doctor
send      of these $(wc -l <"$tmp/here") files, $(size "$(total "$tmp/here")"), those not in $shown/files with the same size and time:
$(sed 's,^[0-9]* [0-9]* ,          /,' "$tmp/here")
plan      retort plan: pair, data, memory; the disk space that the run needs
start     detached, in $shown/files$here:
          retort $command$(quote_all "$@")
follow    $job/log, connecting again when the connection is lost
fetch     $far to $out, with run/log.txt and run/dispatch.json
EOF
    exit 0
fi

bounded='timeout 60'
code=0
look || code=$?
case $code in
0) ;;
124 | 255) no_answer "$lost" ;;
*) die 7 "$host: $(cat "$tmp/ssh")" ;;
esac
bounded=
machine=$(told machine) free=$(told free)
case $(told state)=$again in
none=new) ;;
ended*=again | lost=again) ;;
running=*) die 5 "the run is going on on $host; tools/dispatch.sh $host --fetch $(quote "$out") follows it" ;;
none=again) die 3 "--resume: $host has no run $far" ;;
taken=*) die 5 "$host has files in $far already; give another --out, or remove them there" ;;
*) die 5 "$host has a run of $out that ended; --fetch $(quote "$out") brings it back." \
    "For a new one give another --out, or remove $far and $job there" ;;
esac
say "host      $host: $machine, $(size "$free" 1024) free"

if [ -z "$(told binary)" ]; then
    say "binary    $binary, $(size "$(wc -c <"$binary")")"
    check_disk "$(wc -c <"$binary")" "the binary"
    persist send_binary || die 7 "$host: the binary could not be written to $shown/bin: $(cat "$tmp/ssh")"
fi
persist ask "$doctor" "$dir/bin/$sent_binary" || {
    cat "$tmp/ssh" >&2
    die 9 "$binary does not run on $host ($machine, here $(uname -sm)); build one for it and name it with --binary"
}
version=$(sed -n 's/^binary  *//p' "$tmp/answer")
grep -E '^(cpu|memory) ' "$tmp/answer" | while read -r line; do say "$line"; done

send_files
if [ "$again" = new ]; then
    persist ask "$plan" "$dir" "$sent_binary" "$here" "$@" || {
        code=$?
        cat "$tmp/ssh" >&2
        die "$code" "retort plan on $host refuses the run (above); it was not started"
    }
    if grep -q '^@no plan' "$tmp/answer"; then
        say "plan      this binary has none; the run itself checks pair and data when it starts"
        need=$(total "$tmp/here")
        what="the results, guessed from what was sent"
    else
        need=$(tr -d ' \n' <"$tmp/answer" | sed -n 's/.*"disk":{[^}]*"most":\([0-9]*\).*/\1/p')
        what="the model and the checkpoints"
    fi
    free=$(told free)
    check_disk "${need:-0}" "$what"
    say "disk      $(size "${need:-0}") for $what"
fi

facts="\"command\": $(json_list retort "$command" "$@")"
facts="$facts, \"binary\": {\"sha256\": \"$sum\", \"version\": $(json_text "$version")}"
job_there=$(dirname "$out_there")/.${out_there##*/}.job
ask "$start" "$dir" "$sent_binary" "$here" "$job_there" "$again" "$facts" "$run" "$command" "$@" || {
    code=$?
    lost="Whether the run was started is not known: tools/dispatch.sh $host --status $(quote "$out") says so"
    [ "$code" != 255 ] || no_answer "$lost"
    [ "$code" != 5 ] || die 5 "a run of $out was started on $host this very moment"
    die 8 "$host: the run could not be started: $(cat "$tmp/ssh")"
}
say "started   $out on $host; it goes on when the connection does not"
bring_back
