#!/usr/bin/env python3
"""serve.py - `retort serve`: its numbers beside those of `retort eval` and `retort generate`, streams beside whole replies, many
clients at once, a full queue, clients that leave, refusals, shutting down, and requests made at random.

Needs the standard library and $RETORT; ends with `N passed, N failed`.
"""
import http.client
import json
import math
import random
import re
import signal
import socket
import threading
import time

from serve_client import SLOW, Server, call, check, make, run, wide_model

TEXT = "the quick brown fox jumps over the lazy dog while seven wizards box"


def models():
    make("init", "--preset", "tiny-qwen2", "--seed", 1, "--dtype", "f32", "s")
    wide_model()


# ---- numbers ----

def scores(server):
    """Of a text, as eval and generate have them."""
    with open("d.jsonl", "w") as f:
        f.write(json.dumps({"text": TEXT}) + "\n")
    done = json.loads(call("eval", "s", "--data", "d.jsonl", "--json").stdout)
    ids = server.ask("/tokenize", {"prompt": TEXT}).json["tokens"]
    info = server.ask("/tokenizer_info").json
    eos = server.ask("/tokenize", {"prompt": info["eos_token"]}).json["tokens"]
    check(len(eos) == 1, f"the token that ends a text is {eos}")
    scored = ids + eos if done["positions"] == len(ids) else ids
    check(done["positions"] == len(scored) - 1, f"eval has {done['positions']} positions of {len(ids)} ids")
    one = server.complete(scored, max_tokens=0, echo=True, logprobs=1)[0]["logprobs"]
    check(one["token_logprobs"][0] is None and one["top_logprobs"][0] is None, "the first id has no log-probability")
    mean = -sum(one["token_logprobs"][1:]) / (len(scored) - 1)
    check(abs(mean - done["cross_entropy"]["mean"]) < 1e-5, f"cross-entropy: {mean} here, {done['cross_entropy']} of eval")
    by_text = server.complete(TEXT, max_tokens=1, echo=True, logprobs=1, temperature=0)[0]
    by_ids = server.complete([ids], max_tokens=1, echo=True, logprobs=1, temperature=0)[0]
    check(by_text["logprobs"] == by_ids["logprobs"] and by_text["text"] == by_ids["text"], "text and ids have other numbers")
    check(by_text["text"].startswith(TEXT), f"the prompt is echoed: {by_text['text']!r}")
    lp = by_text["logprobs"]
    check(len(lp["tokens"]) == len(ids) + 1 == len(lp["text_offset"]), "one id more than the prompt has")
    check(all(by_text["text"][at:].startswith(t) for t, at in zip(lp["tokens"], lp["text_offset"]) if t != "\ufffd"),
          f"text_offset: {lp['text_offset']}")
    check(abs(sum(lp["token_logprobs"][1:-1]) + sum(-v for v in one["token_logprobs"][1:len(ids)])) < 1e-6,
          "two requests score a text differently")
    make("generate", "s", "--data", "d.jsonl", "--out", "g.jsonl", "--max-new", 9, "--logprobs", "--slots", 4, "--quiet")
    made = json.loads(open("g.jsonl").read())
    shown = server.complete(TEXT, max_tokens=9, logprobs=0, temperature=0)[0]
    check(shown["text"] == made["completion"], f"{shown['text']!r}, and generate writes {made['completion']!r}")
    check(max(abs(a - b) for a, b in zip(shown["logprobs"]["token_logprobs"], made["logps"])) < 1e-6,
          f"{shown['logprobs']['token_logprobs']}, and generate has {made['logps']}")


def digits(server):
    """What lm-eval compares: a token's value and the largest of its place; ids of one text do not hide one another."""
    ids = [5, 200, 201, 7, 202, 203, 9, 130, 131, 132, 11, 12]
    lp = server.complete([ids], max_tokens=6, temperature=0, echo=True, logprobs=20, prompt_logprobs=20)[0]
    tokens, top, by_id = lp["logprobs"]["token_logprobs"], lp["logprobs"]["top_logprobs"], lp["prompt_logprobs"]
    check(all(t == max(d.values()) for t, d in zip(tokens[len(ids):], top[len(ids):])), "greedy ids are not the largest")
    check(by_id[0] is None and len(by_id) == len(ids), "prompt_logprobs has an entry for each id")
    shared = 0
    for at in range(1, len(ids)):
        want = {}
        for entry in by_id[at].values():
            name = entry["decoded_token"]
            shared += name in want
            want[name] = max(want.get(name, -math.inf), entry["logprob"])
        check(top[at] == want, f"place {at}: {top[at]} and {want}")
        own = by_id[at][str(ids[at])]
        check(own["logprob"] == tokens[at] and list(by_id[at])[0] == str(ids[at]), f"place {at}: {own}, {tokens[at]}")
        ranked = sorted((e["rank"], e["logprob"]) for e in by_id[at].values() if e["rank"])
        check([r for r, _ in ranked] == list(range(1, 21)) and ranked == sorted(ranked, key=lambda r: -r[1]), f"ranks: {ranked}")
    check(shared > 0, "no two ids had one text, so nothing was shown")
    named = server.complete([ids], max_tokens=1, logprobs=2, return_tokens_as_token_ids=True, return_token_ids=True)[0]
    check(named["logprobs"]["tokens"] == [f"token_id:{named['token_ids'][0]}"] and named["prompt_token_ids"] == ids, f"{named}")
    one = server.complete([[77]], max_tokens=0, echo=True, logprobs=3, prompt_logprobs=1)[0]
    check(one["logprobs"]["token_logprobs"] == [None] and one["prompt_logprobs"] == [None], f"a prompt of one id: {one}")
    some = server.complete([[1, 2, 3], [4, 5]], max_tokens=2, temperature=0, n=2)
    check([c["index"] for c in some] == [0, 1, 2, 3] and some[0]["text"] == some[1]["text"], f"lists of ids: {some}")
    check(server.complete(["a", "b"], max_tokens=2, temperature=0)[1]["text"] == server.complete("b", max_tokens=2, temperature=0)[0]["text"],
          "a prompt among others has another answer")


# ---- answers ----

def joined(events):
    """A stream put together again: index -> what a whole reply has of it."""
    whole = {}
    for e in events:
        for c in e["choices"]:
            w = whole.setdefault(c["index"], {"text": "", "logprobs": None, "finish_reason": None})
            w["text"] += c["text"] if "text" in c else c["delta"].get("content", "")
            check(w["finish_reason"] is None, "something comes after the end")
            w["finish_reason"] = c["finish_reason"]
            for key, values in (c["logprobs"] or {}).items():
                w["logprobs"] = w["logprobs"] or {}
                w["logprobs"].setdefault(key, []).extend(values)
    return whole


def streams(server):
    for fields in ({"prompt": "one two", "logprobs": 2, "n": 3, "seed": 5}, {"prompt": "one two", "echo": True, "logprobs": 1},
                   {"prompt": [[1, 2], [3]], "echo": True, "temperature": 0}, {"prompt": "x", "stop": ["e", "\ufffd"], "seed": 1}):
        fields = {"max_tokens": 24, "seed": 3, **fields}
        whole = server.ask("/v1/completions", fields).json
        events = server.ask("/v1/completions", {**fields, "stream": True, "stream_options": {"include_usage": True}}).events
        parts = joined(events)
        for c in whole["choices"]:
            same = {k: c[k] for k in ("text", "logprobs", "finish_reason")}
            check(parts[c["index"]] == same, f"{fields}: streamed {parts[c['index']]}, whole {same}")
        check(events[-1]["usage"] == whole["usage"], f"{fields}: usage {events[-1]}")
    chat = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "hello"}]}],
            "max_tokens": 12, "seed": 4, "logprobs": True, "top_logprobs": 2}
    whole = server.ask("/v1/chat/completions", chat).json
    events = server.ask("/v1/chat/completions", {**chat, "stream": True}).events
    parts, c = joined(events), whole["choices"][0]
    check(events[0]["choices"][0]["delta"]["role"] == "assistant", "the first event says who speaks")
    check(parts[0] == {"text": c["message"]["content"], "logprobs": c["logprobs"], "finish_reason": c["finish_reason"]},
          f"chat: streamed {parts}, whole {c}")
    check(all(len(t["top_logprobs"]) == 2 and (t["bytes"] or "token_id" in t["token"]) for t in c["logprobs"]["content"]), f"chat: {c['logprobs']}")
    plain = {**chat, "messages": [chat["messages"][0], {"role": "user", "content": "hello"}]}
    check(server.ask("/v1/chat/completions", plain).json["choices"] == whole["choices"], "texts in parts are one text")
    ids = server.ask("/tokenize", {"messages": plain["messages"]}).json["tokens"]
    check(len(ids) == whole["usage"]["prompt_tokens"], "/tokenize of a conversation")
    check(server.ask("/detokenize", {"tokens": server.ask("/tokenize", {"prompt": TEXT}).json["tokens"]}).json["prompt"] == TEXT,
          "/detokenize")


def seeds(server):
    ask = dict(prompt="seed", max_tokens=16)
    texts = [server.complete(**ask, seed=s)[0]["text"] for s in (1, 2, 1)]
    check(texts[0] == texts[2] != texts[1], f"two seeds: {texts}")
    five = [c["text"] for c in server.complete(**ask, seed=1, n=5)]
    check(five[0] == texts[0] and len(set(five)) == 5, f"n: {five}")
    check(server.complete(**ask)[0]["text"] != server.complete(**ask)[0]["text"], "without a seed two answers are equal")
    both = server.complete(["seed", "seed"], max_tokens=16, seed=1, n=2)
    check([c["text"] for c in both] == five[:4], "equal prompts do not go on with their draws")


def stops(server):
    full = server.complete("stop", max_tokens=60, temperature=1, seed=9)[0]["text"]
    clean = [i for i in range(8, len(full) - 2) if "\ufffd" not in full[i:i + 2]]
    end = full[clean[0]:clean[0] + 2]
    cut = server.complete("stop", max_tokens=60, temperature=1, seed=9, stop=["nowhere to be seen", end])[0]
    check(cut["text"] == full[:full.index(end)] and cut["finish_reason"] == "stop" and cut["stop_reason"] == end, f"stop: {cut}")
    ids = server.complete("stop", max_tokens=60, temperature=1, seed=9, return_token_ids=True)[0]["token_ids"]
    by_id = server.complete("stop", max_tokens=60, temperature=1, seed=9, stop_token_ids=[ids[5]], return_token_ids=True)[0]
    check(by_id["token_ids"] == ids[:ids.index(ids[5]) + 1] and by_id["stop_reason"] == ids[5], f"stop_token_ids: {by_id}")
    long = server.complete("stop", max_tokens=10**6, ignore_eos=True)[0]
    check(long["finish_reason"] == "length", "the context ends an answer")


# ---- many ----

def crowd(server):
    """32 clients at once have what each has alone, in a bounded time; /health answers meanwhile."""
    asks = [dict(prompt=f"client {i} " * (1 + i % 5), max_tokens=8 + i % 9, seed=i, logprobs=1, echo=i % 3 == 0) for i in range(32)]
    alone = [server.complete(**a) for a in asks]
    got, slowest, begun = [None] * 32, [0], time.monotonic()

    def client(i):
        got[i] = [server.complete(**asks[i]) for _ in range(3)]

    threads = [threading.Thread(target=client, args=(i,)) for i in range(32)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        at = time.monotonic()
        check(server.ask("/health").status == 200, "no health among many clients")
        slowest[0] = max(slowest[0], time.monotonic() - at)
        time.sleep(0.05)
    took = time.monotonic() - begun
    check(all(g == [a] * 3 for g, a in zip(got, alone)), "answers depend on who else is there")
    check(took < 60 * SLOW and slowest[0] < 5 * SLOW, f"32 clients took {took:.1f} s, /health {slowest[0]:.2f} s")
    check(server.metric("sequences_running") == 0 and server.metric("cache_pages") == server.metric("cache_pages_free"),
          "slots or pages are not given back")


def begin(server, fields):
    """A request whose reply nobody reads yet."""
    c = server.connect()
    c.request("POST", "/v1/completions", json.dumps(fields))
    return c


def queue():
    """One slot is busy and two wait: whoever comes then is refused, until one of them has gone."""
    server = Server("wide", "--slots", 1, "--max-queue", 2, "--context", 8000, "--threads", 1)
    long = {"prompt": "q", "max_tokens": 7000, "ignore_eos": True}
    clients = [begin(server, long)]
    check(server.until("sequences_running", lambda n: n == 1), "it never began")
    clients += [begin(server, long) for _ in range(2)]
    check(server.until("sequences_waiting", lambda n: n == 2), "the others do not wait")
    for _ in range(5):
        reply = server.ask("/v1/completions", {"prompt": "q", "max_tokens": 1})
        check(reply.status == 429 and int(reply.headers["Retry-After"]) >= 1 and reply.json["error"]["type"] == "rate_limit_error",
              f"a full queue: {reply.status} {reply.text}")
    check(server.ask("/v1/models").status == 200, "a full queue refuses what needs no slot")
    for c in clients:
        c.close()
    check(server.until("sequences_waiting", lambda n: n == 0), "the queue stays full")
    check(server.complete("q", max_tokens=1)[0]["finish_reason"], "after that it answers again")
    check(server.stop() == (0, ""), "it ends well")


def leave():
    """Clients that go take their sequences with them; one that is too slow loses its own alone."""
    server = Server("wide", "--slots", 2, "--context", 8000, "--threads", 1, "--timeout", 600)
    long = {"prompt": "x", "max_tokens": 7000, "ignore_eos": True, "n": 4}
    for stream in (False, True):
        before = server.metric("requests_cancelled_total")
        c = begin(server, {**long, "stream": stream})
        check(server.until("sequences_running", lambda n: n == 2), "it never began")
        check(server.metric("sequences_waiting") == 2, "the others wait")
        c.sock.shutdown(socket.SHUT_RDWR)
        c.close()
        check(server.until("sequences_running", lambda n: n == 0) and server.metric("sequences_waiting") == 0,
              f"stream {stream}: nobody listens, and it goes on")
        check(server.metric("requests_cancelled_total") == before + 1, "a client that left is not counted")
    with socket.create_connection(("127.0.0.1", server.port)) as s:  # half-closed: as one that left
        body = json.dumps(long)
        s.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        check(server.until("sequences_running", lambda n: n == 2), "it never began")
        s.shutdown(socket.SHUT_WR)
        check(server.until("sequences_running", lambda n: n == 0), "a client that closed its side is waited for")
    check(server.metric("cache_pages") == server.metric("cache_pages_free"), "pages are lost")
    # The second signal ends it at once, whatever is under way.
    kept = begin(server, long)
    check(server.until("sequences_running", lambda n: n == 2), "it never began")
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    check(server.process.poll() is None, "the first signal does not wait for the answer")
    check(server.stop(seconds=5)[0] == -signal.SIGTERM, "the second signal does not end it")
    kept.close()


def time_out():
    server = Server("wide", "--slots", 1, "--context", 8000, "--threads", 1, "--timeout", "0.5", "--idle-timeout", "1")
    reply = server.ask("/v1/completions", {"prompt": "x", "max_tokens": 7000, "ignore_eos": True})
    check(reply.status == 503 and "longer than 0.5 seconds (--timeout)" in reply.text, f"--timeout: {reply.status} {reply.text}")
    reply = server.ask("/v1/completions", {"prompt": "x", "max_tokens": 7000, "ignore_eos": True, "stream": True})
    check(reply.status == 200 and "longer than 0.5 seconds" in reply.text and "[DONE]" not in reply.text, "--timeout in a stream")
    check(server.metric("requests_timed_out_total") == 2, "what took too long is not counted")
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=30 * SLOW) as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
        check(s.recv(100) == b"" and time.monotonic() - begun < 10 * SLOW, "who sends nothing is not let go")
    check(server.stop() == (0, ""), "it ends well")


def slow_reader():
    """A reply of megabytes to a client that does not read: it is let go, and others do not notice."""
    server = Server("s", "--slots", 8, "--context", 256, "--threads", 1, "--idle-timeout", "1")
    body = json.dumps({"prompt": [[i] * 250 for i in range(64)], "max_tokens": 1, "echo": True, "logprobs": 20})
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(30 * SLOW)
        s.connect(("127.0.0.1", server.port))
        s.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        head = s.recv(300)
        for _ in range(5):
            check(server.complete("a", max_tokens=1)[0]["index"] == 0, "others have to wait for who does not read")
        time.sleep(2.5 * SLOW)
        size = len(head)
        try:
            while part := s.recv(1 << 20):
                size += len(part)
        except OSError:
            pass
        length = int(re.search(rb"Content-Length: (\d+)", head)[1])
        check(length > 3 << 20 and size < length, f"{size} bytes of {length} were kept for who does not read")
    check(server.stop() == (0, ""), "it ends well")


def long_reply():
    """A reply that takes longer to be made than a client may be idle is not taken for one that nobody reads."""
    server = Server("s", "--slots", 8, "--context", 256, "--threads", 1, "--idle-timeout", 0.3 * SLOW)
    whole = 0
    for _ in range(5):  # on a busy machine a client may really read nothing for so long
        try:
            whole += len(server.complete([[i] * 250 for i in range(128)], max_tokens=1, echo=True, logprobs=20)) == 128
        except (OSError, http.client.HTTPException):
            pass
        if whole:
            break
    check(whole > 0, "a long reply never comes")
    check(server.stop() == (0, ""), "it ends well")


def ends():
    """SIGTERM in the middle: the answers come whole, nobody new is heard, and the status is 0."""
    server = Server("wide", "--slots", 2, "--context", 4000, "--threads", 1)
    begun = time.monotonic()
    server.complete("x", max_tokens=200, ignore_eos=True)
    rate = 200 / (time.monotonic() - begun)
    ask = {"prompt": "x", "max_tokens": int(min(3900, max(200, 1.5 * rate))), "ignore_eos": True, "seed": 1}
    alone = server.complete(**ask)[0]["text"]
    replies = [None] * 3

    def client(i):
        replies[i] = server.ask("/v1/completions", {**ask, "stream": i == 1})

    threads = [threading.Thread(target=client, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    check(server.until("sequences_running", lambda n: n == 2), "they never began")
    kept = server.connect()
    server.ask("/health", connection=kept)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.4)
    try:
        check(server.ask("/health", connection=kept).status == 503, "health of a server that ends")
    except OSError:
        check(False, "a connection that is kept is closed without a word")
    try:
        server.ask("/health")
        check(False, "a server that ends takes new clients")
    except OSError:
        check(True, "")
    for t in threads:
        t.join()
    check([r.status for r in replies] == [200] * 3 and replies[0].json["choices"][0]["text"] == alone and
          joined(replies[1].events)[0]["text"] == alone, "an answer is not finished")
    status, said = server.wait()
    check(status == 0 and re.fullmatch(r"stopping  when [23] requests have ended; Ctrl-C again ends at once\n", said), f"its end: {status} {said!r}")


# ---- refusals ----

REFUSED = [
    ("/v1/completions", {}, 400, "prompt", "prompt is missing"),
    ("/v1/completions", {"prompt": 5}, 400, "prompt", "a whole number"),
    ("/v1/completions", {"prompt": []}, 400, "prompt", "0 prompts"),
    ("/v1/completions", {"prompt": ""}, 400, "prompt", "the prompt is empty"),
    ("/v1/completions", {"prompt": [1, "a"]}, 400, "prompt", "item 1 of prompt is a string"),
    ("/v1/completions", {"prompt": [[1], {}]}, 400, "prompt", "prompt holds an object"),
    ("/v1/completions", {"prompt": [1, -1]}, 400, "prompt", "item 1 of prompt, -1, is not a token id"),
    ("/v1/completions", {"prompt": [1, 272]}, 400, "prompt", "id 272 of the prompt is outside the model's vocabulary of 272"),
    ("/v1/completions", {"prompt": [[1], [1] * 300]}, 400, "prompt", "prompt 1: the prompt has 300 tokens, and the context is 256"),
    ("/v1/completions", {"prompt": "a", "max_tokens": "5"}, 400, "max_tokens", "max_tokens is a string; it takes a whole number"),
    ("/v1/completions", {"prompt": "a", "max_tokens": 1.5}, 400, "max_tokens", "max_tokens is a number"),
    ("/v1/completions", {"prompt": "a", "max_tokens": -1}, 400, "max_tokens", "out of range"),
    ("/v1/completions", {"prompt": "a", "max_tokens": 0}, 400, "max_tokens", "nothing to do without echo"),
    ("/v1/completions", {"prompt": "a", "temperature": -1}, 400, "temperature", "temperature is -1, which is out of range (0 to 100)"),
    ("/v1/completions", {"prompt": "a", "temperature": True}, 400, "temperature", "true or false; it takes a number"),
    ("/v1/completions", {"prompt": "a", "top_p": 0}, 400, "top_p", "top_p is 0"),
    ("/v1/completions", {"prompt": "a", "n": 0}, 400, "n", "out of range (1 to 128)"),
    ("/v1/completions", {"prompt": ["a"] * 20, "n": 100}, 400, "prompt", "1 to 1024 answers"),
    ("/v1/completions", {"prompt": "a", "n": 2, "best_of": 3}, 400, "best_of", "best_of is not supported"),
    ("/v1/completions", {"prompt": "a", "logprobs": 21}, 400, "logprobs", "out of range (0 to 20)"),
    ("/v1/completions", {"prompt": "a", "logprobs": True}, 400, "logprobs", "takes a whole number"),
    ("/v1/completions", {"prompt": "a", "stream": 1}, 400, "stream", "true or false"),
    ("/v1/completions", {"prompt": "a", "stream": True, "prompt_logprobs": 1}, 400, "prompt_logprobs", "cannot be streamed"),
    ("/v1/completions", {"prompt": "a", "stream_options": []}, 400, "stream_options", "stream_options is a list; it takes an object"),
    ("/v1/completions", {"prompt": "a", "stop": 3}, 400, "stop", "nor a list of strings"),
    ("/v1/completions", {"prompt": "a", "stop": ["a\0b"]}, 400, "stop", "zero byte"),
    ("/v1/completions", {"prompt": "a", "stop": ["a"] * 65}, 400, "stop", "65 strings"),
    ("/v1/completions", {"prompt": "a", "logit_bias": {"5": 1}}, 400, "logit_bias", "logit_bias is not supported"),
    ("/v1/completions", {"prompt": "a", "presence_penalty": 0.5}, 400, "presence_penalty", "not supported"),
    ("/v1/completions", {"prompt": "a", "model": "gpt-4"}, 404, "model", "the model 'gpt-4' is not served here; this server has 's'"),
    ("/v1/completions", {"prompt": "a", "model": 4}, 400, "model", "model is a whole number"),
    ("/v1/chat/completions", {}, 400, "messages", "messages is missing"),
    ("/v1/chat/completions", {"messages": "hi"}, 400, "messages", "messages is a string; it takes a list"),
    ("/v1/chat/completions", {"messages": []}, 400, "messages", "messages is empty"),
    ("/v1/chat/completions", {"messages": [{"content": "a"}]}, 400, "messages", "message 0 has no role"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}, 400, "messages",
     "only text is supported"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2}, 400, "top_logprobs", "needs logprobs"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "echo": True}, 400, "echo", "echo is not available for chats"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 300}]}, 400, "messages", "and the context is 256"),
    ("/tokenize", {}, 400, "prompt", "prompt is missing"),
    ("/detokenize", {"tokens": "a"}, 400, "tokens", "tokens is a string; it takes a list"),
    ("/detokenize", {"tokens": [100000]}, 400, "tokens", "100000"),
]


def refusals(server):
    for path, body, status, param, says in REFUSED:
        reply = server.ask(path, body)
        error = reply.json["error"]
        check(reply.status == status == error["code"] and error["param"] == param and says in error["message"],
              f"{path} {json.dumps(body)[:80]}: {reply.status} {reply.text[:300]}")
    for body, says in ((b"", "the body is empty"), (b"[]", "the body is a list"), (b"{", "not JSON"), (b"{}{}", "not JSON"),
                       (b'{"prompt": "\xff"}', "not JSON"), (b"[" * 60000, "not JSON"), (b'{"seed": 1e999, "prompt": "a"}', "not JSON")):
        reply = server.ask("/v1/completions", body)
        check(reply.status == 400 and says in reply.text, f"{body[:40]}: {reply.status} {reply.text[:200]}")
    for method, path, status in (("GET", "/v1/completions", 405), ("POST", "/v1/models", 405), ("DELETE", "/health", 405),
                                 ("GET", "/nowhere", 404), ("POST", "/", 404), ("OPTIONS", "/v1/completions", 405),
                                 ("HEAD", "/health", 200), ("GET", "/health?x=1", 200)):
        reply = server.ask(path, method=method)
        check(reply.status == status and (status != 405 or reply.headers["Allow"]), f"{method} {path}: {reply.status}")
    reply = server.ask("/v1/completions", b" " * 70000 + b"{}")
    check(reply.status == 413, f"--max-body 64K: {reply.status}")
    check(server.ask("/v1/completions", json.dumps({"prompt": "a", "user": "x" * 50000, "max_tokens": 1})).status == 200, "just below")


def oddities(server):
    """Bytes that are no requests, or come in odd ways: it stays up, and answers what can be answered."""
    body = b'{"prompt":"a","max_tokens":1}'
    chunked = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20 * SLOW) as s:
        s.sendall(chunked)
        for i in range(len(body)):
            s.sendall(b"1\r\n" + body[i:i + 1] + b"\r\n")
        s.sendall(b"0\r\n\r\n")
        check(b"200 OK" in s.recv(65536), "a body in chunks of a byte")
    whole = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20 * SLOW) as s:
        s.sendall(whole * 5)
        got = b""
        while got.count(b"HTTP/1.1 200 OK") < 5 and (part := s.recv(65536)):
            got += part
        check(got.count(b"HTTP/1.1 200 OK") == 5, "five requests in one piece")
    for data in (b"\0" * 5000, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 3000, b"POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"GET /health HTTP/1.1\r\n" + b"a: b\r\n" * 30000 + b"\r\n",
                 chunked + b"ffffffffffffffff\r\nabc\r\n", whole[:-3], whole[:40]):
        server.raw(data)
        check(server.ask("/health").status == 200, f"after {data[:40]} it does not answer")


def tokens():
    open("token", "w").write("secret-1\nmore\n")
    server = Server("s", "--slots", 1, "--token-file", "token", "--name", "mine")
    bear = {"Authorization": "Bearer secret-1"}
    for headers, status in (({}, 401), ({"Authorization": "Bearer secret-2"}, 401), ({"Authorization": "Bearer secret-11"}, 401),
                            ({"Authorization": "secret-1"}, 401), (bear, 200)):
        for path, body in (("/v1/completions", {"prompt": "a", "max_tokens": 1, "model": "mine"}), ("/v1/models", None), ("/metrics", None)):
            check(server.ask(path, body, headers).status == status, f"{path} with {headers}")
    check(server.ask("/health").status == 200, "/health needs no token")
    check(server.ask("/v1/models", headers=bear).json["data"][0]["id"] == "mine", "--name")
    done = call("serve", "s", "--port", server.port)
    check(done.returncode == 7 and "Address already in use; give another --host or --port" in done.stderr, f"{done.stderr}")
    check(server.stop(signal.SIGINT) == (0, ""), "Ctrl-C ends it well")
    open("empty", "w").write("\n")
    for args, status, says in ((["s", "--port", "70000"], 2, "--port 70000 is out of range"), (["nowhere"], 3, "nowhere"),
                               (["s", "--token-file", "empty"], 5, "the first line of empty is empty"), (["s", "--token-file", "none"], 3, "none"),
                               (["s", "--context", "100", "--cache-positions", "50"], 5, "cannot hold one text of 100"),
                               (["s", "--max-body", "10"], 2, "--max-body"), (["s", "--idle-timeout", "0"], 2, "--idle-timeout")):
        done = call("serve", *args)
        check(done.returncode == status and says in done.stderr, f"serve {args}: {done.returncode} {done.stderr}")


# ---- at random ----

def anything(r, depth=0):
    kind = r.randrange(9 if depth < 3 else 7)
    return [None, True, r.randrange(-3, 400), r.random() * 10 - 3, "a" * r.randrange(4), "\ufffd\0\n", 10**r.randrange(25)][kind] if kind < 7 else \
        [anything(r, depth + 1) for _ in range(r.randrange(4))] if kind == 7 else \
        {r.choice(["a", "text", "type", "role", "content"]): anything(r, depth + 1) for _ in range(r.randrange(4))}


def fuzz(server, seconds=3, seed=20):
    """Requests with fields of any type and bodies with bytes changed: each has a reply of a known kind."""
    r, end, seen = random.Random(seed), time.monotonic() + seconds, {}
    fields = ["prompt", "messages", "max_tokens", "temperature", "top_p", "top_k", "min_p", "n", "stream", "stream_options", "logprobs", "echo",
              "stop", "seed", "prompt_logprobs", "top_logprobs", "stop_token_ids", "model", "tools", "chat_template_kwargs", "ignore_eos",
              "return_token_ids", "logit_bias", "tokens", "best_of", "add_special_tokens", "max_completion_tokens"]
    paths = ["/v1/completions"] * 3 + ["/v1/chat/completions", "/tokenize", "/detokenize"]
    while time.monotonic() < end or sum(seen.values()) < 50:
        body = {"prompt": r.choice(["abc", [1, 2], [[1], [2, 3]], ["x", "y"]]), "messages": [{"role": "user", "content": "q"}],
                "max_tokens": r.randrange(4), "tokens": [65]}
        for _ in range(r.randrange(4)):
            body[r.choice(fields)] = anything(r)
        raw = bytearray(json.dumps(body).encode())
        for _ in range(r.choice([0, 0, 1, 5])):
            raw[r.randrange(len(raw))] = r.randrange(256)
        try:
            status = server.ask(r.choice(paths), bytes(raw)).status
        except OSError as e:
            status = type(e).__name__
        seen[status] = seen.get(status, 0) + 1
    check(set(seen) <= {200, 400, 404} and seen.get(200, 0) > 5 and seen.get(400, 0) > 5, f"requests at random: {seen}")
    check(server.complete("a", max_tokens=1)[0]["index"] == 0 and server.metric("sequences_running") == 0, "after them it answers")


def main():
    models()
    server = Server("s", "--slots", 4, "--context", 256, "--max-body", "64K", "--threads", 1)
    for test in (scores, digits, streams, seeds, stops, crowd, refusals, oddities, fuzz):
        test(server)
    check(server.stop() == (0, ""), "it ends well")
    for test in (queue, leave, time_out, slow_reader, long_reply, ends, tokens):
        test()


run(main)
