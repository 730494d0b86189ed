# tokenize.sh - `retort tokenize`: ids and back, samples with the mask, shards, and what bad data get.
. "$(dirname "$0")/harness"

# feed TEXT ARGS...: like run, with TEXT on standard input.
feed() {
    shown="printf '$1' | retort"
    text=$1
    shift
    shown="$shown $*"
    status=0
    # shellcheck disable=SC2086
    printf "$text" | ${EMU:-} "$RETORT" "$@" >"$out" 2>"$err" || status=$?
}
# nothing_at PATH: neither it nor a temporary name beside it is there.
nothing_at() { check "nothing should be at $1" sh -c '! ls -a "$(dirname "$0")" | grep -F -e "$(basename "$0")"' "$1"; }
same() { check "$1 and $2 should be equal" cmp "$1" "$2"; }

run init --preset tiny "$work/tiny"
exits 0
model=$work/tiny

# ---- one text ----
feed 'h\303\251 <|im_end|>' tokenize --model "$model" --ids
exits 0
check 'expected ids' test "$(cat "$out")" = '104 195 169 32 258'
feed '104 195 169 32 258' tokenize --model "$model" --decode
exits 0
check 'expected text' test "$(cat "$out")" = "$(printf 'h\303\251 <|im_end|>')"
feed '104 258' tokenize --model "$model" --decode --no-special
check 'expected text' test "$(cat "$out")" = 'h'
feed '104 9999' tokenize --model "$model" --decode
exits 5
err_has '9999'
feed '104 x' tokenize --model "$model" --decode
exits 5
err_has "'x' at byte 4"
feed 'a' tokenize --model "$model/tokenizer.json" --ids
exits 0
feed 'a' tokenize --model "$work/none" --ids
exits 3
err_has 'none'
run tokenize --model "$model"
exits 2
run tokenize x.jsonl
exits 3
run tokenize --ids --decode --model "$model"
exits 2
run tokenize --ids
exits 2
err_has '--model'

# ---- samples ----
cat >"$work/all.jsonl" <<'DATA'
{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"},{"role":"user","content":"Bye"},{"role":"assistant","content":"So long"}]}
{"text":"plain"}
{"prompt":"2+2=","completion":"4"}
{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}]}
{"instruction":"Add","input":"1 2","output":"3"}
DATA
run tokenize "$work/all.jsonl" --model "$model" --show 9
exits 0
err_empty
out_has '^⟦Hello<\|im_end\|>⟧$'
out_has '^⟦So long<\|im_end\|>⟧$'
out_has '^p⟦lain<\|im_end\|>⟧$'
out_has '^2\+2=⟦4<\|im_end\|>⟧$'
out_has '^⟦3<\|im_end\|>⟧$'
out_has 'all\.jsonl:4: chat, '
run tokenize "$work/all.jsonl" --model "$model" --show 2 --loss-on all
exits 0
out_has '⟦user'
out_lacks 'all\.jsonl:3'
run tokenize "$work/all.jsonl" --model "$model" --show 1 --json
exits 0
json_is 'len(j["samples"]) == 1 and j["samples"][0]["trained"] == 14 and "⟦Hello" in j["samples"][0]["text"]'
run tokenize "$work/all.jsonl" --model "$model" --loss-on some
exits 2
err_has '--loss-on is turns or all'
run tokenize "$work/all.jsonl" --model "$model" --loss all
exits 2
err_has '--loss-on'
# Nothing that a terminal would act on comes through.
printf '{"text":"a\\u001b[31mb\\u009bc"}\n' >"$work/escape.jsonl"
run tokenize "$work/escape.jsonl" --model "$model" --show 1
exits 0
out_has 'x1b\[31mb.x9bc'

# ---- templates ----
printf '%s' "{% for m in messages %}[{{ m.role }}{{ mode }}]{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}[assistant{{ mode }}]{% endif %}" >"$work/t.jinja"
run tokenize "$work/all.jsonl" --model "$model" --chat-template "$work/t.jinja" --template-var mode=7 --show 1
exits 0
out_has '^\[user7\]Hi<\|im_end\|>\[assistant7\]⟦Hello<\|im_end\|>⟧'
printf '%s' "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}" >"$work/open.jinja"
run tokenize "$work/all.jsonl" --model "$model" --chat-template "$work/open.jinja" --show 1
exits 5
err_has 'all\.jsonl:1: .*end-of-turn.*--chat-template'
run tokenize "$work/all.jsonl" --model "$model" --template-var oops --show 1
exits 2
run tokenize "$work/all.jsonl" --model "$model" --chat-template "$work/none.jinja" --show 1
exits 3
cp "$model/tokenizer.json" "$work/tokenizer.json"
run tokenize "$work/all.jsonl" --model "$work/tokenizer.json" --show 1
exits 5
err_has 'all\.jsonl:1: .*--chat-template'
printf '{"text":"x"}\n' >"$work/x.jsonl"
run tokenize "$work/x.jsonl" --model "$work/tokenizer.json" --show 1
exits 5
err_has '--eos'
run tokenize "$work/x.jsonl" --model "$work/tokenizer.json" --eos '<|endoftext|>' --show 1
exits 0
out_has '^x⟦<\|endoftext\|>⟧'
run tokenize "$work/x.jsonl" --model "$work/tokenizer.json" --eos 'nope!' --show 1
exits 5

# ---- shards ----
run tokenize "$work/all.jsonl" --model "$model" --now 1700000000 -o "$work/one.rtok" --threads 1 --json
exits 0
json_is 'j["records"] == 5 and j["kinds"] == {"text": 1, "completion": 1, "chat": 3} and j["bad"] == 0'
json_is 'j["trained"] == 14 + 5 + 2 + 2 + 2 and j["shards"] == 1'
gzip -c "$work/all.jsonl" >"$work/all.jsonl.gz"
run tokenize "$work/all.jsonl" --model "$model" --now 1700000000 -o "$work/two.rtok" --threads 3
exits 0
out_has '^tokens .* 25 trained'
same "$work/one.rtok" "$work/two.rtok"
run tokenize "$work/one.rtok" --model "$model" --verify --show 1
exits 0
out_has '⟦Hello<\|im_end\|>⟧'
out_has '5 records'
run tokenize "$work/all.jsonl.gz" --model "$model" -o "$work/folder" --shard-tokens 50
exits 0
check 'expected several shards' test -e "$work/folder/shard-00001.rtok"
run tokenize "$work/folder" --model "$model" --verify --json
exits 0
json_is 'j["records"] == 5 and j["trained"] == 25 and j["verified"]'
run tokenize "$work/all.jsonl" --model "$model" -o "$work/one.rtok"
exits 5
err_has 'there already.*--force'
run tokenize "$work/all.jsonl" --model "$model" -o "$work/folder"
check 'a directory with something in it is kept' test "$status" != 0
check 'a directory with something in it is kept' test -e "$work/folder/shard-00001.rtok"
run tokenize "$work/one.rtok" --model "$model" -o "$work/again.rtok"
exits 5
err_has 'tokens already'
# One byte changed.
cp "$work/one.rtok" "$work/bad.rtok"
printf 'Z' | dd of="$work/bad.rtok" bs=1 seek=300 conv=notrunc 2>/dev/null
run tokenize "$work/bad.rtok" --model "$model" --verify
exits 4
err_has 'bad\.rtok: a damaged token shard'
printf '\001\0\0\0\002\0\0\0\003\0\0\0' >"$work/x.u32"
run tokenize "$work/x.u32"
exits 5
err_has '--vocab'
run tokenize "$work/x.u32" --vocab 3 --verify
exits 4
err_has 'id 3, outside the vocabulary of 3'
run tokenize "$work/x.u32" --vocab 4 --verify
exits 0

# ---- rows ----
run tokenize "$work/all.jsonl" --model "$model" --seq-len 48 --json
exits 0
json_is 'j["rows"]["cut"] == 1 and j["rows"]["too_long"] == 0'
run tokenize "$work/all.jsonl" --model "$model" --seq-len 24 -o "$work/short.rtok"
exits 5
err_has 'too long for rows of 24.*--allow-drop'
nothing_at "$work/short.rtok"
run tokenize "$work/all.jsonl" --model "$model" --seq-len 24 --allow-drop -o "$work/short.rtok"
exits 0

# ---- bad data: what, where, what to do; and no output ----
printf '{"text":"a"}\n{"text":\n{"text":"b"}\n{"foo":1,"bar":2}\n' >"$work/broken.jsonl"
run tokenize "$work/broken.jsonl" --model "$model" -o "$work/novel.rtok"
exits 4
err_one_line
err_has 'broken\.jsonl:2: broken JSON.*--skip-bad'
nothing_at "$work/novel.rtok"
run tokenize "$work/broken.jsonl" --model "$model" -o "$work/newdir" --skip-bad 1
exits 5
err_has 'broken\.jsonl:4: .*foo, bar'
nothing_at "$work/newdir"
run tokenize "$work/broken.jsonl" --model "$model" -o "$work/novel.rtok" --skip-bad 2
exits 0
out_has 'skipped +2 bad records; the first: .*broken\.jsonl:2'
: >"$work/empty.jsonl"
run tokenize "$work/empty.jsonl" --model "$model" -o "$work/fresh.rtok"
exits 5
err_has 'empty\.jsonl.*empty'
nothing_at "$work/fresh.rtok"
printf '{"messages":[{"role":"user","content":"anyone?"}]}\n' >"$work/asked.jsonl"
run tokenize "$work/asked.jsonl" --model "$model" -o "$work/fresh.rtok"
exits 5
err_has 'asked\.jsonl: no token of it is trained'
nothing_at "$work/fresh.rtok"
printf 'PAR1' >"$work/t.parquet"
run tokenize "$work/t.parquet" --model "$model"
exits 4
err_has 't\.parquet: this is no Parquet file'
run tokenize tests/golden/tables/chat.parquet --model "$model" --skip-bad 1 --json
exits 0
json_is 'j["records"] == 2 and j["kinds"]["chat"] == 2 and j["bad"] == 1'
printf 'id,text\n1,"one, ""two"""\n2,three\n' >"$work/t.csv"
run tokenize "$work/t.csv" --model "$model" --show 2
exits 0
out_has '^o⟦ne, "two"'
printf 'id,text\n1,one,two\n' >"$work/t.csv"
run tokenize "$work/t.csv" --model "$model"
exits 4
err_has 't\.csv:2: more fields'
run tokenize "$work/none.jsonl" --model "$model"
exits 3
err_has 'none\.jsonl'
run tokenize "$work/all.jsonl,weight=0.5" --model "$model"
exits 5
err_has 'weight'
run tokenize "$work/all.jsonl,wieght=0.5" --model "$model"
exits 5
err_has 'wieght'
run tokenize "$work/all.jsonl" --model "$model" -o "$work/no/such/folder/x.rtok"
exits 3
if [ -c /dev/full ]; then
    shown="retort tokenize --show > /dev/full"
    status=0
    : >"$out"
    ${EMU:-} "$RETORT" tokenize "$work/all.jsonl" --model "$model" --show 1 >/dev/full 2>"$err" </dev/null || status=$?
    exits 7
fi

# ---- org/name in the local cache ----
hub=$work/hub/datasets--who--chats
mkdir -p "$hub/refs" "$hub/snapshots/abc"
printf abc >"$hub/refs/main"
cp "$work/all.jsonl" "$hub/snapshots/abc/train.jsonl"
cp "$work/x.jsonl" "$hub/snapshots/abc/test.jsonl"
echo '# a card' >"$hub/snapshots/abc/README.md"
HF_HUB_CACHE=$work/hub
export HF_HUB_CACHE
run tokenize who/chats --model "$model" --json
exits 0
err_has 'note: .*left out'
json_is 'j["records"] == 5'
run tokenize who/chats,split=test --model "$model" --json
exits 0
json_is 'j["records"] == 1'
run tokenize who/nothing --model "$model"
exits 3
err_has 'who/nothing'
finish
