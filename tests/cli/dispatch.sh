# dispatch.sh - tools/dispatch.sh against an sshd of its own on 127.0.0.1: a run sent, started, followed and brought back
# with the bits of a local one; a connection that is lost; what is refused, and that nothing is half-written then.
root=$(pwd)
case $RETORT in /*) ;; *) RETORT=$root/$RETORT ;; esac
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"
export RETORT
unset OPENBLAS_CORETYPE # sshd passes no variables on: with another core here the bits would not be those of there

# dispatch ARGS...: runs the tool as the harness runs the binary.
dispatch() {
    shown="dispatch.sh $*"
    status=0
    timeout 200 sh "$root/tools/dispatch.sh" "$@" >"$out" 2>"$err" </dev/null || status=$?
}
# listing: every file here with its size and time, but for what the test itself writes.
listing() { find . -mindepth 1 ! -name out ! -name err ! -name before ! -name after -printf '%p %s %T@\n' | sort; }

# Names with what a shell would trip over.
mkdir "my models" "it's data"
texts "it's data/a b.jsonl" 100 and
texts "it's data/more.jsonl" 40 but
run init --preset tiny-qwen2 --seed 1 --dtype f32 "my models/s"
run init --preset tiny-llama --seed 2 --dtype f32 t
mkdir t/checkpoint-000001
echo large >t/checkpoint-000001/model.safetensors
settings="--batch 4 --seq-len 64 --threads 2 --sample-prompts none --eval-every 20 --save-every 20"

# ---- words ----
# JSON of any word, and no folder printed by `cd`.
shown="json_text of dispatch.sh"
word=$(printf 'a"b\\c\td\ne\033f\n\ng')
eval "$(sed -n '/^json_text()/,/^}/p' "$root/tools/dispatch.sh")"
json_text "$word" >"$out"
json_is 'j == "a\"b\\c\td\ne?f\n\ng"'
CDPATH=$work
export CDPATH
dispatch --dry-run somewhere -- train --student t --data "it's data" --out o
exits 0
out_has '^start  '
unset CDPATH
dispatch --help
exits 0
err_empty
out_has '^usage: tools/dispatch.sh '
out_has '^example:'
dispatch
exits 2
err_has 'no host'
dispatch somewhere
exits 2
err_has 'no command; tools/dispatch.sh somewhere -- distill'
dispatch somewhere -- eval m
exits 2
err_has "distill and train, not 'eval'"
dispatch --ssj x somewhere -- train
exits 2
err_has "unknown option '--ssj'"
dispatch somewhere -- train --student t --data "it's data"
exits 2
err_has '--out is missing'
dispatch somewhere -- train --student gone --data "it's data" --out o
exits 3
err_has '--student gone: not found here'
dispatch somewhere -- train --student t --data "it's data/*.txt" --out o
exits 3
err_has 'no file has such a name'
dispatch --binary gone somewhere -- train --student t --data "it's data" --out o
exits 3
err_has 'gone: there is no such binary'
mkdir full
echo mine >full/file
dispatch somewhere -- train --student t --data "it's data" --out full
exits 5
err_has 'full is not empty'
cat >flow.yaml <<'YAML'
student: t
data: [a, b]
YAML
dispatch somewhere -- train --config flow.yaml --out o
exits 5
err_has 'flow.yaml: data is written in a way'

# ---- --dry-run ----
cat >run.yaml <<'YAML'
# paths in a file are sent too
teacher: t  # the teacher
model_name_or_path: "my models/s"
data:
  - "it's data/none.jsonl"
lr: 1e-3
YAML
listing >before
dispatch --dry-run somewhere -- distill --config run.yaml --data="it's data/a b.jsonl,weight=1" --data "it's data/m*.jsonl" --out "back again"
exits 0
err_empty
out_has '^send +of these 11 files, '
out_has "^ +$work/it's data/a b.jsonl\$"
out_has "^ +$work/it's data/more.jsonl\$"
out_has "^ +$work/my models/s/model.safetensors\$"
out_has "^ +$work/run.yaml\$"
check "options of data stay, quotes survive" grep -F "'--data' 'it'\\''s data/a b.jsonl,weight=1'" "$out"
out_has "^ +retort distill '--config' 'run.yaml' .*'--teacher' 't' '--student' 'my models/s' '--out' 'back again'\$"
out_lacks 'checkpoint-000001'
listing >after
check "nothing was written" cmp before after

# ---- hosts that do not answer ----
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
if command -v ssh >/dev/null; then
    dispatch --ssh "ssh -p $port -F none" 127.0.0.1 -- train --student t --data "it's data" --out o
    exits 10
    err_has '^ssh: .*refused'
    err_has "127.0.0.1 does not answer over ssh. Try: ssh -p $port -F none -o BatchMode=yes 127.0.0.1 true"
    err_has 'Nothing was started there, and nothing was written here'
    dispatch --ssh "ssh -p $port -F none" 127.0.0.1 --status o
    exits 10
    dispatch --ssh "ssh -p $port -F none" 127.0.0.1 --fetch o
    exits 10
    # One that takes the connection and then says nothing.
    python3 -c 'import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(8); print(s.getsockname()[1], flush=True); time.sleep(60)' >silent &
    silent=$!
    while [ ! -s silent ]; do sleep 0.1; done
    dispatch --ssh "ssh -p $(cat silent) -F none -o ConnectTimeout=1" 127.0.0.1 -- train --student t --data "it's data" --out o
    kill $silent
    exits 10
    err_has '127.0.0.1 does not answer'
    check "nothing was made here" sh -c 'test ! -e o && ! ls -d .o.*'
else
    echo "skipped: hosts that do not answer (there is no ssh)"
fi

# ---- an sshd of our own ----
sshd=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v sshd)
skip() {
    echo "skipped: everything that needs a connection ($1)"
    finish
}
[ -z "${EMU:-}" ] || skip "programs are emulated"
[ -n "$sshd" ] || skip "there is no sshd; tools/setup.sh --ssh installs it"
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
for key in host user; do ssh-keygen -q -t ed25519 -N '' -f $key.key; done
mkdir there fake
cat >sshd.conf <<CONF
ListenAddress 127.0.0.1:$port
HostKey $work/host.key
AuthorizedKeysFile $work/user.key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
SetEnv PATH=$work/fake:/usr/local/bin:/usr/bin:/bin
CONF
"$sshd" -D -e -f sshd.conf >sshd.log 2>&1 &
server=$!
trap 'kill $server; rm -rf "$work"' EXIT
# Every question is a connection of its own: a key exchange that costs little.
connection="ssh -p $port -i $work/user.key -F none -o KexAlgorithms=curve25519-sha256 -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
for i in 1 2 3 4 5 6 7 8 9 10; do
    $connection -o BatchMode=yes 127.0.0.1 true 2>ssh.err && break
    sleep 0.3
done
$connection -o BatchMode=yes 127.0.0.1 true 2>ssh.err || skip "sshd does not let us in here: $(tail -n 1 sshd.log)"
far="$work/there/it's far" mirror="$work/there/it's far/files$work"
at() { dispatch --ssh "$connection" --remote-dir "$far" --patience 60 127.0.0.1 "$@"; }
if "$RETORT" --help | grep -q '^  plan '; then plan=1; else plan=0; fi

# A machine without room for it, and a pair that does not match: before anything is started.
cat >fake/df <<'DF'
echo 'Filesystem 1024-blocks Used Available Capacity Mounted on'
echo '/dev/some thing 2000000 1999990 10 100% /'
DF
chmod +x fake/df
at -- distill --teacher t --student "my models/s" --data "it's data" --out o $settings --steps 40
exits 7
err_has 'too little disk space .*: 10.0 KiB free, .* needed for the binary'
check "nothing was sent, nothing came" sh -c 'test ! -e "$0" && test ! -e o' "$far"
mv fake/df tight.df
python3 - <<'PY'
import json, shutil
shutil.copytree("t", "other")
j = json.load(open("other/tokenizer.json"))
vocab = j["model"]["vocab"]
a, b = list(vocab)[:2]
vocab[a], vocab[b] = vocab[b], vocab[a]
json.dump(j, open("other/tokenizer.json", "w"))
PY
at -- distill --teacher other --student "my models/s" --data "it's data" --out o $settings --steps 40
exits 5
check "nothing came" sh -c 'test ! -e o && ! ls -d .o.*'
if [ $plan = 1 ]; then
    err_has 'retort plan on 127.0.0.1 refuses the run'
    check "nothing was started" test ! -e "$mirror/.o.job"
    # Room for what is sent, but not for the checkpoints that the plan has counted.
    sed 's/1999990 10 /1998000 2000 /' tight.df >fake/df
    chmod +x fake/df
    at -- distill --teacher t --student "my models/s" --data "it's data" --out o $settings --steps 40
    exits 7
    err_has 'too little disk space .*: 2.0 MiB free, .* needed for the model and the checkpoints'
    check "nothing was started for want of room" test ! -e "$mirror/.o.job"
    rm fake/df
else
    echo "skipped: a pair that is refused before the start (this binary has no plan)"
    rm -r "$mirror/.o.job"
fi

# The whole way, with the connection cut in the middle: the run is held still meanwhile, so that it cannot end before.
run distill --teacher t --student "my models/s" --data "it's data/a b.jsonl" --out local $settings --steps 40
exits 0
at -- distill --teacher t --student "my models/s" --data "it's data/a b.jsonl" --out "back again" $settings --steps 40 &
dispatched=$!
python3 - "$mirror/.back again.job" $server "$out" $dispatched <<'PY'
import os, signal, sys, time
job, server, out, dispatched = sys.argv[1:]

def wait_for(what):
    end = time.time() + 120
    while not what():
        if time.time() > end or open(f"/proc/{dispatched}/stat").read().split(") ")[1][0] == "Z":
            sys.exit("it did not come to that")
        time.sleep(0.01)

def has(path, text=""):
    return os.path.exists(path) and os.path.getsize(path) and text in open(path).read()

wait_for(lambda: has(job + "/child"))
child = int(open(job + "/child").read())
os.kill(child, signal.SIGSTOP)
wait_for(lambda: has(out, "started"))
time.sleep(0.5)
children = open(f"/proc/{server}/task/{server}/children").read().split()
for pid in children:
    os.kill(int(pid), signal.SIGTERM)
wait_for(lambda: has(out, "no connection to 127.0.0.1; trying again"))
os.kill(child, signal.SIGCONT)
PY
check "the connection was cut" test $? = 0
wait $dispatched
status=$(tail -n 1 "$out" | sed 's/.*exit code //')
exits 0
err_empty
out_has '^dispatch: host +127.0.0.1: Linux '
out_has '^dispatch: no connection to 127.0.0.1; trying again in 1 s$'
out_has '^step 40/40 '
check "every line of the log once" test "$(grep -c '^step 1/40 ' "$out")" = 1
check "the model of a local run, bit for bit" cmp "back again/model.safetensors" local/model.safetensors
for file in config.json tokenizer.json tokenizer_config.json generation_config.json run/checkpoints/checkpoint-000040/model.safetensors; do
    check "$file of a local run" cmp "back again/$file" "local/$file"
done
curve "back again" >a
curve local >b
check "the same curve" cmp a b
check "the log came along" grep -q '^step 40/40 ' "back again/run/log.txt"
cp "back again/run/dispatch.json" "$out"
json_is 'j["format"] == "retort.dispatch.1" and j["host"] == "127.0.0.1" and j["exit"] == 0'
json_is 'j["command"][:4] == ["retort", "distill", "--teacher", "t"] and "it'"'"'s data/a b.jsonl" in j["command"]'
json_is 'j["started"] <= j["finished"] <= j["fetched"] and len(j["binary"]["sha256"]) == 64'
check "nothing of the key in it" sh -c '! grep -q user.key "$0"' "$out"
run verify "back again"
exits 0
check "every check could be made, as in a local run" sh -c '! grep -q "not found\|not there" "$0"' "$out"
check "nothing is left beside it" sh -c '! ls -d .back* 2>/dev/null'

# Again: refused as a new run, fetched as an old one; changes of another kind are not overwritten.
at -- distill --teacher t --student "my models/s" --data "it's data/a b.jsonl" --out "back again" $settings --steps 40
exits 5
err_has 'back again is not empty'
rm "back again/model.safetensors"
at --fetch "back again"
exits 0
check "the model is back" cmp "back again/model.safetensors" local/model.safetensors
check "nothing was to be kept" test ! -e "back again.before-1"
echo mine >"back again/run/checkpoints/checkpoint-000040/notes"
mkdir "back again/run/checkpoints/checkpoint-000001"
cp "back again/run/checkpoints/checkpoint-000040/state.json" "back again/run/checkpoints/checkpoint-000001" # as one that was removed there
at --fetch "back again"
exits 0
out_has 'kept +back again\.before-1, as it was: the run has no \./run/checkpoints/checkpoint-000040/notes $'
check "a file that was put there is kept" grep -qx mine "back again.before-1/run/checkpoints/checkpoint-000040/notes"
check "and the run is whole" cmp "back again/model.safetensors" local/model.safetensors
check "nothing hidden is left beside it" sh -c '! ls -d .back* 2>/dev/null'
at --fetch full
exits 5
err_has 'full is not empty'
check "what was there is still" grep -qx mine full/file
at --fetch never
exits 3
err_has 'has no run of never'
check "nothing was made" test ! -e never
at --status "back again"
exits 0
out_has '^state +ended 0$'
at --stop "back again"
exits 3

# --status, --dry-run and a --fetch that is refused, beside a --fetch that is held half-way: what it has so far stays.
mkdir slow
cat >slow/ssh <<SSH
#!/bin/sh
case "\$*" in
*'tar -cf'*) $connection "\$@" | { head -c 20000; touch slow/held; while [ ! -e slow/go ]; do sleep 0.05; done; cat; } ;;
*) exec $connection "\$@" ;;
esac
SSH
chmod +x slow/ssh
rm -rf "back again"
timeout 200 sh "$root/tools/dispatch.sh" --ssh "$work/slow/ssh" --remote-dir "$far" --patience 60 127.0.0.1 --fetch "back again" \
    >slow/out 2>&1 </dev/null &
fetching=$!
while [ ! -e slow/held ] && kill -0 $fetching 2>/dev/null; do sleep 0.05; done
check "a fetch is under way" sh -c 'kill -0 "$0" && ls -d ".back again.fetching-"*' $fetching
ls -d .back*fetching-* >before
at --status "back again"
exits 0
out_has '^state +ended 0$'
at --dry-run -- distill --resume --out "back again"
exits 0
ls -d .back*fetching-* >after
check "its folder is there" cmp before after
touch slow/go
status=0
wait $fetching || status=$?
exits 0
check "the run came whole" cmp "back again/model.safetensors" local/model.safetensors
check "nothing hidden is left beside it" sh -c '! ls -d .back* 2>/dev/null'

# --resume is the run that is there, and the exit code is what it is here: of a run with no steps left.
run distill --resume --out local
expected=$status
at -- distill --resume --out "back again"
exits "$expected"
check "the model is the same" cmp "back again/model.safetensors" local/model.safetensors
at -- distill --resume --out never
exits 3
err_has '--resume: 127.0.0.1 has no run'

# A second run sends nothing twice; --stop saves; the exit code comes through.
at -- distill --teacher t --student "my models/s" --data "it's data/a b.jsonl" --out long $settings --steps 100000 &
dispatched=$!
for i in $(seq 300); do
    grep -q '"step": *[0-9]' "$mirror/long/run/metrics.jsonl" 2>/dev/null && break
    sleep 0.1
done
timeout 60 sh "$root/tools/dispatch.sh" --ssh "$connection" --remote-dir "$far" 127.0.0.1 --stop long >stop.out 2>&1
check "asked to stop" grep -q 'save and stop' stop.out
wait $dispatched
status=$(tail -n 1 "$out" | sed 's/.*exit code //')
exits 130
out_lacks '^dispatch: (send|binary) '
check "what it saved is here" sh -c 'ls -d long/run/checkpoints/checkpoint-*/model.safetensors'
cp long/run/dispatch.json "$out"
json_is 'j["exit"] == 130'
finish
