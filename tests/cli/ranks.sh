# ranks.sh - a run of several ranks, by Open MPI on this machine: the curve of one process, the same bits for the same
# number of ranks, resumed with another; ranks that are killed or stopped, and what cannot be a run of several.
# Waits: beside the others.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

for name in $(env | sed -n 's/^\(OMPI_[A-Z_]*\|PMI_[A-Z]*\|PMIX_[A-Z_]*\|SLURM_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done

# ---- without an MPI, or without ranks of one ----

run train --student nowhere --data nothing --out o --restarts 2
exits 2
err_has '--restarts needs --devices'

shown="torchrun's variables"
WORLD_SIZE=2 RANK=0 LOCAL_RANK=0 run train --student nowhere --data nothing --out o
exits 5
err_has 'torchrun has started 2 processes, .* start them with mpirun -n 2'
SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0 run train --student nowhere --data nothing --out o
exits 5
err_has 'srun has started 3 tasks without an MPI'
before=$PATH PATH=/nowhere
run train --student nowhere --data nothing --out o --devices 2
PATH=$before
exits 9
err_has '--devices 2 starts ranks with mpirun, and that cannot be run'

run doctor
out_has '^mpi '

if ! command -v mpirun >/dev/null || [ -n "${EMU:-}" ]; then
    echo "ranks.sh: no mpirun here, so no ranks were started (tools/setup.sh --mpi)"
    finish
fi

# As root, on fewer cores than ranks, as containers are.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_base_warn_component_unused=0
export OMPI_MCA_mpi_yield_when_idle=1

# ranks N ARGS...: the binary as so many ranks.
ranks() {
    n=$1
    shift
    shown="mpirun -n $n retort $*"
    status=0
    timeout 100 mpirun -n "$n" "$RETORT" "$@" >"$out" 2>"$err" </dev/null || status=$?
}

"$RETORT" init --preset tiny-qwen2 --seed 1 student >/dev/null
"$RETORT" init --preset tiny-qwen2 --seed 2 teacher >/dev/null
texts data.jsonl 120 words
# Seven rows over two, three and four ranks never divide; the micro-batch makes some of them accumulate.
set -- distill --teacher teacher --student student --data data.jsonl --seq-len 64 --batch 7 --steps 12 --lr 2e-3 \
    --eval-every 6 --save-every 6 --threads 1 --seed 3

run "$@" --out one
exits 0
for zero in 0 2; do
    ranks 3 "$@" --zero $zero --out zero$zero
    exits 0
    check "with --zero $zero, $(near one zero$zero 1e-3)" near one zero$zero 1e-3
done
ranks 2 "$@" --zero 3 --out wrong
exits 2
err_has '--zero 3 is out of range'
for n in 2 3 4; do
    ranks $n "$@" --out many$n
    exits 0
    out_has "$n ranks on 1 host"
    check "the curve of one process, $(near one many$n 1e-3)" near one many$n 1e-3
done
ranks 2 "$@" --out again2
check 'the same bits' cmp many2/model.safetensors again2/model.safetensors
curve many2 >a
curve again2 >b
check 'the same curve' cmp a b
ranks 1 "$@" --out single
exits 0
check 'one rank is one process' cmp one/model.safetensors single/model.safetensors

# The plan of ranks that are not there is the plan that they had.
shift
run plan "$@" --devices 3
exits 0
out_has '^ranks     3, of 3 rows of a step or fewer'
out_has ' with --zero 1, sends .*; taken'
out_has 'of communication, by arithmetic over NVLink'
check 'the same memory' test "$(grep '^memory' "$out")" = "$(grep '^memory' many3/run/plan.txt)"
set -- distill "$@"

# A teacher's cache, which every rank opens, and two teachers of the same rows.
"$RETORT" cache --teacher teacher --student student --data data.jsonl --seq-len 64 --keep topk:8 --threads 1 --out cache >/dev/null
"$RETORT" init --preset tiny-qwen2 --seed 4 other_teacher >/dev/null
for more in '--teacher cache' '--teacher teacher --teacher other_teacher,weight=0.3'; do
    set_aside=$*
    # shellcheck disable=SC2086
    set -- distill $more --student student --data data.jsonl --seq-len 64 --batch 7 --steps 6 --lr 2e-3 --threads 1
    rm -rf alone several
    run "$@" --out alone
    exits 0
    ranks 3 "$@" --out several
    exits 0
    check "the curve of one process, $(near alone several 1e-3)" near alone several 1e-3
    # shellcheck disable=SC2086
    set -- $set_aside
done

# A control has programs of its own; --time tries steps and undoes them.
ranks 2 "$@" --out controlled --control
exits 0
rm -rf alone
run "$@" --out alone --control
check "the control's curve, $(near alone/run/control controlled/run/control 1e-3)" \
    near alone/run/control controlled/run/control 1e-3
ranks 2 distill --teacher teacher --student student --data data.jsonl --seq-len 64 --batch 7 --time 6s --threads 1 --out timed
exits 0
out_has '[0-9]+ steps took .* each: --time 6s is --steps'

# --devices is the same, in one word.
run "$@" --out devices --devices 2
exits 0
check 'the same bits' cmp many2/model.safetensors devices/model.safetensors
ranks 2 "$@" --out wrong --devices 3
exits 2
err_has '--devices 3, and a launcher has started 2 ranks'

# ---- resumed with another number of ranks ----

# The state of each rank is in the checkpoint, whose files are those of one process.
ranks 4 "$@" --out first
exits 0
check 'a checkpoint has the tensors of one process' \
    python3 - one/run/checkpoints/checkpoint-000006 first/run/checkpoints/checkpoint-000006 <<'PY'
import json, struct, sys
def head(folder):
    with open(folder + "/state.safetensors", "rb") as f:
        return f.read(struct.unpack("<Q", f.read(8))[0])
assert head(sys.argv[1]) == head(sys.argv[2])
PY
for n in 1 2 3 4; do
    cp -r first resumed$n
    rm -r resumed$n/run/checkpoints/checkpoint-000012 resumed$n/model.safetensors
    ranks $n distill --resume --out resumed$n
    exits 0
    out_has 'resuming from checkpoint-000006'
    check "the curve goes on, $(near first resumed$n 1e-3)" near first resumed$n 1e-3
done
check 'the same bits' cmp first/model.safetensors resumed4/model.safetensors

# Blocks of 8-bit moments and their exponents, of adapters: by three ranks, and further by two.
set -- distill --teacher teacher --student student --data data.jsonl --seq-len 64 --batch 7 --steps 6 --save-every 3 --lr 2e-3 \
    --threads 1 --optimizer adamw-8bit --lora
run "$@" --out narrow
exits 0
ranks 3 "$@" --out narrow3
exits 0
check "the curve of one process, $(near narrow narrow3 1e-3)" near narrow narrow3 1e-3
rm -r narrow3/run/checkpoints/checkpoint-000006 narrow3/*model.safetensors
ranks 2 distill --resume --out narrow3
exits 0
out_has 'resuming from checkpoint-000003'
check "the curve goes on, $(near narrow narrow3 1e-3)" near narrow narrow3 1e-3

# ---- what cannot be ----

ranks 3 "$@" --batch 2 --out few
err_has 'given twice'
ranks 3 distill --teacher teacher --student student --data data.jsonl --seq-len 64 --batch 2 --steps 2 --out few
exits 5
err_has '--batch 2 is less than one row for each of 3 ranks'
ranks 2 "$@" --dump-step 2 --out dumped
exits 5
err_has '--dump-step is of a run with one rank'

# Ranks of another binary, or with another model under the same name, are named before weights are read.
cp "$RETORT" other
echo more >>other
mkdir elsewhere
cp -r teacher elsewhere
"$RETORT" init --preset tiny-qwen2 --seed 5 elsewhere/student >/dev/null
# apart COMMAND FOLDER: rank 0 here, rank 1 by another command or in another folder.
apart() {
    shown="two ranks, one of $1 in $2"
    command=$1 folder=$2
    shift 2
    status=0
    timeout 100 mpirun -n 1 -wdir "$work" "$RETORT" "$@" : -n 1 -wdir "$folder" "$command" "$@" >"$out" 2>"$err" </dev/null || status=$?
}
apart "$work/other" "$work" "$@" --out apart
exits 5
err_has 'rank 1 on .*: this is another retort than rank 0'
apart "$RETORT" "$work/elsewhere" "$@" --out apart
exits 5
err_has 'rank 1 on .* has another student or teacher'
rm -r elsewhere/student
apart "$RETORT" "$work/elsewhere" "$@" --out apart
exits 3
err_has "rank 1 on .*: student: 'student' is neither a file nor a folder"
check 'nothing is left of a run that was refused' test ! -e apart

# What is not finite ends all, with the exit code of one process.
ranks 2 distill --teacher teacher --student student --data data.jsonl --seq-len 64 --batch 7 --steps 5 --lr 1e30 \
    --max-grad-norm 0 --threads 1 --out infinite
exits 12
err_has 'step [0-9], rank [01] on .*not finite'

ranks 2 distill --teacher http://127.0.0.1:9 --student student --data data.jsonl --seq-len 64 --steps 2 --out asked
exits 5
err_has 'a server is asked by a run of one rank'
check 'nothing is left of it' test ! -e asked.teacher

# ---- stopped, and saved ----

# stop_ranks SIGNAL COMMAND...: after the first checkpoint.
stop_ranks() {
    shown="ranks, stopped by $*"
    status=0
    rm -rf stopped
    python3 - "$out" "$err" "$@" <<'PY' || status=$?
import glob, signal, subprocess, sys, time
out, err, name, *command = sys.argv[1:]
args = ["distill", "--teacher", "teacher", "--student", "student", "--data", "data.jsonl", "--seq-len", "64", "--batch", "6",
        "--steps", "100000", "--lr", "1e-4", "--eval-every", "100000", "--save-every", "10", "--threads", "1", "--out", "stopped"]
at = command.index("ARGS")
p = subprocess.Popen(command[:at] + args + command[at + 1:], stdout=open(out, "w"), stderr=open(err, "w"),
                     stdin=subprocess.DEVNULL)
deadline = time.time() + 60
while not glob.glob("stopped/run/checkpoints/checkpoint-*/state.json") and time.time() < deadline:
    time.sleep(0.05)
p.send_signal(getattr(signal, name))
try:
    sys.exit(p.wait(60))
except subprocess.TimeoutExpired:
    p.kill()
PY
}
stop_ranks SIGINT "$RETORT" ARGS --devices 2
exits 130
err_has 'stopped after step [0-9]+ of 100000; to resume'
stop_ranks SIGUSR1 mpirun -n 2 "$RETORT" ARGS
exits 130
err_has 'stopped after step [0-9]+ of 100000; to resume'

# ---- restarts: a rank is killed, and the run goes on by itself to the bits of one that was left alone ----

set -- distill --teacher teacher --student student --data data.jsonl --seq-len 64 --batch 6 --steps 60 --lr 1e-4 --eval-every 60 \
    --save-every 10 --threads 1
run "$@" --out left_alone --devices 2
exits 0
shown='a rank is killed under --restarts 2'
status=0
python3 - "$out" "$err" "$RETORT" "$@" --out restarted --devices 2 --restarts 2 <<'PY' || status=$?
import glob, os, signal, subprocess, sys, time
out, err, *args = sys.argv[1:]
p = subprocess.Popen(args, stdout=open(out, "w"), stderr=open(err, "w"), stdin=subprocess.DEVNULL)
deadline = time.time() + 60
while not glob.glob("restarted/run/checkpoints/checkpoint-*/state.json") and time.time() < deadline:
    time.sleep(0.02)
parent = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        parent[int(pid)] = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        pass
ranks = sorted(pid for pid in parent if parent.get(parent[pid]) == p.pid)
os.kill(ranks[-1], signal.SIGKILL)
sys.exit(p.wait(120))
PY
exits 0
err_has 'the ranks have ended with exit code 137: resumed from the last checkpoint, 1 of 2 times'
check 'the same bits' cmp left_alone/model.safetensors restarted/model.safetensors

# ---- a rank that is lost ends all of them ----

# kill_rank SIGNAL: of a run that would take long; says how many seconds it took to end.
kill_rank() {
    shown="mpirun -n 3, a rank gets $1"
    status=0
    rm -rf lost
    python3 - "$out" "$err" "$RETORT" "$1" <<'PY' || status=$?
import glob, os, signal, subprocess, sys, time
out, err, binary, name = sys.argv[1:]
args = ["mpirun", "-n", "3", binary, "distill", "--teacher", "teacher", "--student", "student", "--data", "data.jsonl",
        "--seq-len", "64", "--batch", "6", "--steps", "100000", "--lr", "1e-4", "--eval-every", "100000", "--save-every", "10",
        "--threads", "1", "--out", "lost"]
p = subprocess.Popen(args, stdout=open(out, "w"), stderr=open(err, "w"), stdin=subprocess.DEVNULL)
deadline = time.time() + 60
while not glob.glob("lost/run/checkpoints/checkpoint-*/state.json") and time.time() < deadline:
    time.sleep(0.05)
mine = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1] == str(p.pid):
            mine.append(int(pid))
    except (OSError, IndexError):
        pass
assert len(mine) == 3, mine
os.kill(sorted(mine)[1], getattr(signal, name))
begun = time.time()
try:
    p.wait(90)
except subprocess.TimeoutExpired:
    for pid in mine + [p.pid]:
        os.kill(pid, signal.SIGKILL)
    p.wait()
print(round(time.time() - begun, 1), file=open("took", "w"))
sys.exit(p.returncode if p.returncode >= 0 else 128 - p.returncode)
PY
}
kill_rank SIGKILL
check 'it has failed' test "$status" -gt 0
check "within 60 seconds: $(cat took)" less "$(cat took)" 60
kill_rank SIGSTOP
exits 8
err_has 'rank [0-9] on .*: nothing was heard of it for 30 s'
check "within 60 seconds: $(cat took)" less "$(cat took)" 60
run distill --resume --out lost --override --steps 20
exits 0
out_has 'resuming from checkpoint-'

finish
