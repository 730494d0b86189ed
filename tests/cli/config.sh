# config.sh - settings from a YAML file: the same run as from flags, the command line over it, names of other tools, what
# is refused, and resolved.yaml, which is such a file again.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

texts d.jsonl 60 and
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t
cat >run.yaml <<'Y'
teacher: t
student: s
data: [d.jsonl]
batch: 4
seq-len: 64
steps: 4
held_out: 5
learning_rate: 1e-3
Y

run distill --teacher t --student s --data d.jsonl --batch 4 --seq-len 64 --steps 4 --held-out 5 --lr 1e-3 --out flags
exits 0
run distill --config run.yaml --out file
exits 0
out_has '^config    learning_rate -> --lr 1e-3$'
check "a file and flags give one curve" test "$(curve flags)" = "$(curve file)"
run distill --config run.yaml --steps 2 --out over
exits 0
out_has '^step 2/2 '
run distill --config file/run/resolved.yaml --out again
exits 0
check "resolved.yaml gives the run again" test "$(curve file)" = "$(curve again)"

printf 'studnet: s\n' >bad.yaml
run distill --config bad.yaml --out x
exits 5
err_has 'bad.yaml:1: .*did you mean student'
printf 'teacher: t\nstudent: s\ndata: d.jsonl\ndump_stp: 3\n' >bad.yaml
run distill --config bad.yaml --out x
exits 5
err_has 'bad.yaml:4: .*did you mean dump_step'
printf 'teacher: t\nstudent: s\ndata: d.jsonl\nsteps: 3\nepochs: 2\n' >bad.yaml
run distill --config bad.yaml --out x
exits 2
err_has '--steps, --tokens, --epochs and --time exclude one another'
printf 'teacher: t\nstudent: s\ndata: d.jsonl\nbeta: 0.3\n' >bad.yaml
run distill --config bad.yaml --out x
exits 2
err_has '^--beta needs --divergence jsd$'
printf 'student: [\n' >bad.yaml
run distill --config bad.yaml --out x
exits 4
run distill --config nothing.yaml --out x
exits 3
run train --config run.yaml --out x
exits 5
err_has 'retort train has no teacher; leave --teacher out'
check "nothing was left behind" test ! -e x
# A run without a teacher records the settings of one at rest, and its file begins another such run.
run train --student s --data d.jsonl --batch 4 --seq-len 64 --steps 2 --held-out 5 --out plain
exits 0
run train --config plain/run/resolved.yaml --out plain2
exits 0
check "one curve" test "$(curve plain)" = "$(curve plain2)"
printf 'student: s\ndata: d.jsonl\ntemperature: 2\n' >bad.yaml
run train --config bad.yaml --out x
exits 5
err_has 'leave --temperature out'
run plan --student s --data d.jsonl --temperature 2
exits 2
err_has '^--temperature needs --teacher$'
finish
