# doctor.sh - `retort doctor` tells about the binary, the machine and each backend, for people and as JSON.
. "$(dirname "$0")/harness"

run doctor
exits 0
err_empty
out_has 'retort [0-9]+\.[0-9]+'
out_has '^ *cpu '
out_has '^ *ref '
out_has '^memory '
out_has 'features'

run doctor --json
exits 0
err_empty
json_is 'isinstance(j, dict)'
json_is '{"binary", "cpu", "memory", "backends"} <= set(j)'
json_is '{b["name"] for b in j["backends"]} >= {"cpu", "ref"}'
json_is 'all(b["devices"] or b["reason"] for b in j["backends"])'
json_is 'all(d["name"] for b in j["backends"] for d in b["devices"])'
json_is 'j["memory"]["total"] >= j["memory"]["available"] > 0'
json_is 'j["cpu"]["cores"] >= 1'

# The cores that this process may use, not those of the machine.
if command -v taskset >/dev/null 2>&1 && [ -z "${EMU:-}" ]; then
    shown="taskset -c 0 retort doctor --json"
    status=0
    taskset -c 0 "$RETORT" doctor --json >"$out" 2>"$err" </dev/null || status=$?
    exits 0
    json_is 'j["cpu"]["cores"] == 1'
fi

# A reader that goes away, or a disk that is full, is an error and not a success.
if [ -c /dev/full ]; then
    shown="retort doctor > /dev/full"
    status=0
    : >"$out"
    ${EMU:-} "$RETORT" doctor >/dev/full 2>"$err" </dev/null || status=$?
    exits 7
fi
finish
