# usage.sh - help, versions, and what a wrong word on the command line gets: status 2 and the nearest known word.
. "$(dirname "$0")/harness"

run --help
exits 0
out_has '^usage: retort'
out_has '^  doctor '
out_has '^  verify '
err_empty

run --version
exits 0
out_has '^retort [0-9]+\.[0-9]+\.[0-9]+'

run
exits 2
out_empty
err_has 'usage: retort'

for command in convert doctor init inspect quantize verify; do
    run $command --help
    exits 0
    out_has "retort $command"
    out_has '[Ee]xample'
    out_has '--json'
    err_empty
done

# `retort help COMMAND` is `retort COMMAND --help`.
run help
exits 0
out_has '^usage: retort COMMAND'
for command in distill verify; do
    run $command --help
    cp "$out" "$work/help"
    run help $command
    exits 0
    err_empty
    check "the same as $command --help" cmp "$out" "$work/help"
done
run help verfy
exits 2
out_empty
err_has 'did you mean verify'
run help verify doctor
exits 2
err_has "'doctor' is one argument too many"

# The same for programs.
run --help=json
exits 0
json_is '[c["name"] for c in j["commands"]] == sorted(c["name"] for c in j["commands"]) and len(j["commands"]) > 10'
json_is '{s["code"]: s["text"] for s in j["statuses"]}[13] == "out of memory"'
run distill --help=json
exits 0
json_is 'j["usage"].startswith("retort distill ") and j["example"] and j["arguments"] == [0, 0]'
json_is '{f["name"]: f["kind"] for f in j["flags"]}["--lr"] == "real"'
json_is '{f["name"]: f["kind"] for f in j["flags"]}["--data"] == "list"'
json_is '{f["name"]: f["kind"] for f in j["flags"]}["--lora"] == "switch"'
json_is '{f["name"]: f.get("choices") for f in j["flags"]}["--t2"] == ["on", "off"]'
json_is '[f["name"] for f in j["flags"] if f.get("path")][:2] == ["--teacher", "--student"]'
run convert --help=json
json_is 'j["arguments"] == [2, 2]'
run doctor --help=yaml
exits 2
err_has '--help=yaml'

# What is given twice is refused, unless it is a list.
twice() {
    flag=$1
    shift
    run "$@"
    exits 2
    out_empty
    err_one_line
    err_has "retort $1: $flag is given twice"
}
twice --lr distill --lr 1e-4 --lr 1e-5
twice --lora train --lora --lora
twice --json plan --json --student s --json
twice --threads verify --list --threads 2 --threads=2
twice --backend verify --list --backend cpu --backend ref
twice --seed init --preset tiny --seed 1 --seed 2 x
twice --temperature generate m --temperature 0 --temperature 1
twice --shard-size convert a b --shard-size 1G --shard-size 2G
twice --json doctor --json --json
twice -o report r -o a -o b
run eval m --data a --data b --template-var a=1 --template-var b=2
err_has "'m' is neither a file"

run verfy
exits 2
out_empty
err_one_line
err_has "verfy"
err_has "verify"

run distill
exits 2
err_has "distill"

run doctor --jsn
exits 2
out_empty
err_one_line
err_has '--jsn'
err_has '--json'

run verify --bakend cpu
exits 2
out_empty
err_one_line
err_has '--bakend'
err_has '--backend'

run verify --quik
exits 2
err_has '--quick'

# Nothing is near this one, so nothing is suggested; it is still named.
run verify --zzzzzzzzzzzzzzz
exits 2
err_has '--zzzzzzzzzzzzzzz'

run verify --backend
exits 2
err_has '--backend'

run doctor extra
exits 2
err_has 'extra'

run verify --threads none
exits 2
err_has '--threads'

run verify --threads -1
exits 2
err_has '--threads'
finish
