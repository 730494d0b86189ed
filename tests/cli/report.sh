# report.sh - `retort report`: of a run that retort has made, of several, of runs that are cut off, and what it refuses.
. "$(dirname "$0")/harness"
cd "$work" || exit 1

i=0
while [ $i -lt 40 ]; do
    i=$((i + 1))
    echo "{\"text\": \"line $i: the quick brown fox jumps over the lazy dog and sleeps until step $i is done\"}"
done >text.jsonl
run init --preset tiny-qwen2 --seed 1 s
exits 0
run init --preset tiny-qwen2 --seed 2 t
exits 0
run distill --teacher t --student s --data text.jsonl --out a --steps 6 --batch 2 --seq-len 64 --eval-every 3
exits 0
run train --student s --data text.jsonl --out b --steps 4 --batch 2 --seq-len 64
exits 0

run report a
exits 0
err_empty
out_has '^a +step 6 of 6, finished, held-out CE [0-9.]+ -> [0-9.]+ \(teacher [0-9.]+\)$'
out_has '^report +.*a/run/report\.html, '
check "a page" grep -q '</html>' a/run/report.html
check "its numbers" python3 -c 'import json, re, sys
page = open("a/run/report.html", encoding="utf-8").read()
runs = json.loads(re.search("id=\"data\">(.*?)</script>", page, re.S)[1])["runs"]
assert len(runs) == 1 and runs[0]["name"] == "a" and runs[0]["train"]["loss"][0] == [1, 2, 3, 4, 5, 6]
lines = [json.loads(line) for line in open("a/run/metrics.jsonl")]
losses = [line["loss"] for line in lines if line["event"] == "step"]
assert all(abs(x - y) < 1e-4 * abs(x) for x, y in zip(losses, runs[0]["train"]["loss"][1]))
assert [p[0] for p in runs[0]["held"]["ce"]] == [0, 3, 6]'

run train --student s --data text.jsonl --out whole --epochs 1 --batch 2 --seq-len 64
exits 0
run report whole
exits 0
out_has '^whole +step ([0-9]+) of \1, finished'
check "the page says so too" grep -q 'badge done">finished' whole/run/report.html

check "after is the saved model" python3 -c 'import json
saved = json.load(open("a/run/manifest.json"))["measured"]["saved"]
page = open("a/run/report.html", encoding="utf-8").read()
assert "data-label=\"after\">%.4f" % saved["ce"][0] in page and "data-label=\"after\">%.4f" % saved["forward_kl"][0] in page'

run report a/run -o page.html
exits 0
check "the same page" cmp a/run/report.html page.html

run report a --json
exits 0
json_is 'j["bytes"] > 1000 and j["report"].endswith("a/run/report.html") and len(j["runs"]) == 1'
json_is 'j["runs"][0]["finished"] and not j["runs"][0]["cut"] and j["runs"][0]["evaluations"] == 3'
json_is 'j["runs"][0]["before"]["step"] == 0 and j["runs"][0]["after"]["forward_kl"]["mean"] > 0'

run report a b
exits 0
out_has '^b +step 4 of 4, finished, held-out CE [0-9.]+ -> [0-9.]+$'
check "beside the first run" test -s a/run/compare.html
check "two runs" grep -q '<h1>a and b</h1>' a/run/compare.html

# Interrupted, or still going: the lock tells.
mkdir -p c/run
cp a/run/settings.json c/run/
run report c
exits 0
out_has '^c +step 0 of 6: interrupted$'
head -n 5 a/run/metrics.jsonl >c/run/metrics.jsonl
printf '{"event":"step","step":4,"lo' >>c/run/metrics.jsonl
run report c
exits 0
out_has 'step 3 of 6: interrupted, .*ends in the middle of a line'
head -n 3 a/run/metrics.jsonl >c/run/metrics.jsonl
run report c
exits 0
out_has 'step 1 of 6: interrupted, held-out CE [0-9.]+, not evaluated again yet'
head -n 5 a/run/metrics.jsonl >c/run/metrics.jsonl
check "the page says so" grep -q 'the run was interrupted; --resume continues it' c/run/report.html

check "one that another process has locked is still going" python3 - "$RETORT" <<'PY'
import fcntl, os, shlex, struct, subprocess, sys
with open("c/run/retort.lock", "w") as f:
    fcntl.fcntl(f, 37, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
    said = subprocess.run(shlex.split(os.environ.get("EMU", "")) + [sys.argv[1], "report", "c"], capture_output=True, text=True).stdout
assert "step 3 of 6: still going" in said, said
PY

# Refused, and nothing is written.
run report
exits 2
err_has 'usage: retort report RUN'
run report nowhere
exits 3
err_one_line
err_has 'nowhere is not there; name the --out of a run'
mkdir empty
run report empty
exits 3
err_has 'empty holds no run'
run report s
exits 3
run report text.jsonl
exits 4
err_has 'text.jsonl is a file'
run report a nowhere -o never.html
exits 3
check "no page" test ! -e never.html
printf '{"event":"step","step":1}\nnonsense\n{"event":"step","step":2}\n' >c/run/metrics.jsonl
run report c -o never.html
exits 4
err_has 'c/run/metrics.jsonl, line 2: '
check "no page" test ! -e never.html
rm c/run/metrics.jsonl
mkdir c/run/metrics.jsonl
run report c -o never.html
check "metrics that are a folder: status $status" test "$status" = 4 -o "$status" = 7
err_has 'metrics\.jsonl'
rmdir c/run/metrics.jsonl
cp a/run/metrics.jsonl c/run/metrics.jsonl
printf '{"steps": ' >c/run/settings.json
run report c -o never.html
exits 4
err_has 'c/run/settings\.json, line 1: '
printf '{"steps": 6}' >c/run/settings.json
printf '{"event":"step","step":2,"loss":1}\n' >>c/run/metrics.jsonl
run report c -o never.html
exits 4
err_has 'step 2 comes after step 6; the file was altered, or two runs wrote to it'
check "no page" test ! -e never.html
cp s/model.safetensors kept.safetensors
run report a -o s/model.safetensors
exits 5
err_has 's/model.safetensors exists and is not a page of retort report; name another --out'
check "it is as it was" cmp kept.safetensors s/model.safetensors
run report a -o page.html
exits 0
run report a -o no/such/folder/page.html
check "expected a failure" test "$status" = 3 -o "$status" = 7
err_has 'no/such/folder'
run report a --jsn
exits 2
err_has 'did you mean --json'
if [ "$(id -u)" != 0 ]; then
    mkdir locked
    chmod 0 locked
    run report locked
    exits 7
    err_has 'locked'
    chmod 700 locked
fi
finish
