#!/usr/bin/env python3
"""serve_fields.py - `retort serve`: fields that clients send as null or in a form of their own, where tokens lie in a text, what waiting
requests take of memory, HTTP's less common ways.

Needs the standard library and $RETORT; ends with `N passed, N failed`.
"""
import json
import os
import shutil
import socket
import threading
import time

from serve_client import SLOW, Server, call, check, make, run, wide_model

HI = [{"role": "user", "content": "hi"}]
CALLS = ("{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls or [] %}"
         "<{{ c.function.name }} {{ c.function.arguments | tojson }}>{% endfor %}\n{% endfor %}")


def sentencepiece():
    """A tokenizer as Llama 2 has it: a space before every text, letters beyond ASCII as bytes, a BOS."""
    vocab = {t: i for i, t in enumerate(["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + list("▁onetw") + ["▁o", "ne", "▁one"])}
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, t in enumerate(["<unk>", "<s>", "</s>"])]
    post = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                                                               {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
            "pre_tokenizer": None,
            "post_processor": {"type": "TemplateProcessing", "single": post, "pair": post + [{"Sequence": {"id": "B", "type_id": 1}}],
                               "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
            "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                                                         {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": vocab, "merges": ["▁ o", "n e", "▁o ne"]}}


def models():
    make("init", "--preset", "tiny-qwen2", "--seed", 1, "--dtype", "f32", "s")
    shutil.copytree("s", "calls")
    open("calls/chat_template.jinja", "w").write(CALLS)
    make("init", "--preset", "tiny-llama", "--seed", 1, "--dtype", "f32", "pieces")
    for name in os.listdir("pieces"):
        if "token" in name or "template" in name or name == "vocab.json" or name == "merges.txt":
            os.remove(f"pieces/{name}")
    json.dump(sentencepiece(), open("pieces/tokenizer.json", "w"))
    wide_model()


def lengths(server):
    """What is null is absent, whatever else is there."""
    for fields, tokens in (({"max_completion_tokens": None, "max_tokens": 3}, 3), ({"max_completion_tokens": 4, "max_tokens": 3}, 4),
                           ({"max_tokens": None, "max_completion_tokens": 2}, 2)):
        reply = server.ask("/v1/chat/completions", {"messages": HI, "ignore_eos": True, **fields})
        check(reply.status == 200 and reply.json["usage"]["completion_tokens"] == tokens, f"{fields}: {reply.status} {reply.text[-200:]}")
    every = {k: None for k in ("n", "stream", "stop", "seed", "temperature", "top_p", "top_k", "min_p", "logprobs", "top_logprobs", "echo",
                               "stream_options", "response_format", "tools", "tool_choice", "logit_bias", "best_of", "suffix", "model")}
    check(server.ask("/v1/completions", {"prompt": "a", "max_tokens": 1, **every}).status == 200, "every field null")


def refusals(server):
    for path, body, param, says in (
            ("/v1/chat/completions", {"messages": None}, "messages", "messages is missing"),
            ("/v1/chat/completions", {"messages": HI, "chat_template": "{{ 1 }}"}, "chat_template", "not supported"),
            ("/v1/chat/completions", {"messages": HI, "add_generation_prompt": False}, "add_generation_prompt", "always true"),
            ("/v1/chat/completions", {"messages": HI, "response_format": {"type": "json_object"}}, "response_format", "not supported"),
            ("/v1/chat/completions", {"messages": HI, "tools": [], "tool_choice": "required"}, "tool_choice", "\"auto\" or \"none\""),
            ("/v1/completions", {"prompt": "a", "repeat_penalty": 1.2}, "repeat_penalty", "called repetition_penalty"),
            ("/v1/completions", {"prompt": "a", "n_predict": 5}, "n_predict", "not supported"),
            ("/v1/completions", {"prompt": "a", "structured_outputs": {"json": {}}}, "structured_outputs", "not supported")):
        reply = server.ask(path, body)
        check(reply.status == 400 and reply.json["error"]["param"] == param and says in reply.json["error"]["message"],
              f"{body}: {reply.status} {reply.text}")
    for command in (("serve", "s", "--port", 0), ("generate", "s", "--raw", "--prompt", "a"), ("chat", "s")):
        done = call(*command, "--context", 513, timeout=60 * SLOW)
        check(done.returncode == 5 and "a context of 513 tokens was asked for, and the model's own is 512" in done.stderr,
              f"{command}: {done.returncode} {done.stderr}")
    done = call("serve", "s", "--port", 0, "--slots", 65537, timeout=60 * SLOW)
    check(done.returncode == 2 and "--slots 65537 is out of range (1 to 65536)" in done.stderr, f"{done.returncode} {done.stderr}")
    done = call("generate", "s", "--raw", "--prompt", "abc", "--max-new", 2**32 - 1, "--ids", "--quiet")
    check(done.returncode == 0 and len(done.stdout.split()) > 1, f"--max-new as large as it can be: {done.returncode} {done.stderr}")
    reply = server.ask("/v1/completions", {"prompt": [1] * 600, "max_tokens": 1})
    check("600 tokens, and the context is 512; it is the model's own" in reply.text, reply.text)


def tools():
    """The arguments of a tool's call: a text in what clients send, what it says in what a template is given."""
    server = Server("calls", "--slots", 1)

    def ids(arguments):
        turn = {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]}
        return server.ask("/tokenize", {"messages": HI + [turn]})

    said = ids('{"b": [1, 2.5], "a": "x\\u00e9"}')
    check(said.status == 200 and said.json == ids({"b": [1, 2.5], "a": "xé"}).json, f"arguments as a text: {said.text}")
    text = server.ask("/detokenize", {"tokens": said.json["tokens"]}).json["prompt"]
    check('<f {"b": [1, 2.5], "a": "xé"}>' in text, f"what the model reads: {text!r}")
    check(ids("").json == ids({}).json, "no arguments")
    check(ids("{").status == 400 and "tool call 0 of a message" in ids("{").text, f"arguments that are no JSON: {ids('{').text}")
    check(server.stop() == (0, ""), "it ends well")


def fit(reply, name):
    """Each token that is a text of its own stands at its offset."""
    lp, text = reply["logprobs"], reply["text"]
    off = [f"{t!r} at {at}" for t, at in zip(lp["tokens"], lp["text_offset"]) if "\ufffd" not in t and "token_id" not in t and
           not text.startswith(t.strip(" ") if at == 0 else t, at) and t not in ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>")]
    check(not off and lp["text_offset"] == sorted(lp["text_offset"]), f"{name}: {off[:5]} in {text[:200]!r}")
    return lp


def offsets(server):
    """Ids that are not shown, bytes that are no letters, a space that only the tokenizer puts there."""
    kept = server.complete("a", max_tokens=400, ignore_eos=True, seed=1, logprobs=0, n=4)
    check(any("<|" in t for c in kept for t in c["logprobs"]["tokens"]), "no special token was drawn, so nothing is shown")
    check(any("\ufffd" in c["text"] for c in kept), "no byte that is no letter was drawn, so nothing is shown")
    for c in kept:
        fit(c, "an answer")
    both = server.complete("naïve café ", max_tokens=300, ignore_eos=True, seed=2, logprobs=0, echo=True)[0]
    lp = fit(both, "echo")
    check(lp["text_offset"][:4] == [0, 1, 2, 2], f"a letter of two bytes: {lp['text_offset'][:8]}")
    events = server.ask("/v1/completions", {"prompt": "naïve café ", "max_tokens": 300, "ignore_eos": True, "seed": 2, "logprobs": 0, "echo": True,
                                            "stream": True}).events
    streamed = [at for e in events for at in (e["choices"][0]["logprobs"] or {"text_offset": []})["text_offset"]]
    check(streamed == lp["text_offset"], "a stream has other offsets")
    pieces = Server("pieces", "--slots", 1)
    for prompt in ("one two one", "one é one", [1, 259, 260, 261]):
        lp = fit(pieces.complete(prompt, max_tokens=8, seed=1, logprobs=0, echo=True)[0], f"{prompt!r}")
    at = pieces.complete("one one", max_tokens=1, logprobs=0, echo=True)[0]["logprobs"]["text_offset"]
    check(at[:4] == [0, 0, 3, 7], f"a BOS and the space before a text: {at}")
    check(pieces.stop() == (0, ""), "it ends well")


def memory():
    """A request that waits keeps what was asked for, and not the tree of its JSON."""
    server = Server("wide", "--slots", 1, "--context", 8000, "--threads", 1)
    long = {"prompt": "q", "max_tokens": 7000, "ignore_eos": True}

    def resident():
        return int(next(line for line in open(f"/proc/{server.process.pid}/status") if line.startswith("VmRSS")).split()[1]) >> 10

    def begin(fields):
        c = server.connect()
        c.request("POST", "/v1/completions", json.dumps(fields))
        return c

    clients = [begin(long)]
    check(server.until("sequences_running", lambda n: n == 1), "it never began")
    before = resident()
    for i in range(12):
        clients.append(begin({**long, "user": [0] * 1000000}))
        check(server.until("sequences_waiting", lambda n: n == i + 1), "the others do not wait")
    grown = resident() - before
    check(grown < 250, f"12 requests of 3 MB that wait take {grown} MB")
    for c in clients:
        c.close()
    check(server.until("sequences_running", lambda n: n == 0), "nobody listens, and it goes on")
    check(server.stop() == (0, ""), "it ends well")


def large():
    """A reply that takes longer to format than a client may be idle comes whole to who reads it."""
    server = Server("s", "--slots", 8, "--top-logprobs", 200, "--threads", 1, "--idle-timeout", "0.4")
    begun = time.monotonic()
    reply = server.ask("/v1/completions", {"prompt": [[i] * 500 for i in range(30)], "max_tokens": 0, "echo": True, "logprobs": 200})
    took = time.monotonic() - begun
    busy = server.metric("prompt_seconds_total")
    check(took - busy > 0.5, f"it was formatted in less than {took - busy:.2f} s, so nothing is shown")
    check([len(c["logprobs"]["tokens"]) for c in reply.json["choices"]] == [500] * 30, "a large reply")
    check(server.stop() == (0, ""), "it ends well")


# ---- HTTP ----

def read_until(s, end):
    got = b""
    while end not in got and (part := s.recv(65536)):
        got += part
    return got


def http(server):
    body = b'{"prompt":"a","max_tokens":3,"seed":1,"ignore_eos":true%s}'
    plain, stream = body % b"", body % b',"stream":true'

    def post(data, version=b"1.1", more=b""):
        return b"POST /v1/completions HTTP/%s\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s" % (version, more, len(data), data)

    def connect():
        return socket.create_connection(("127.0.0.1", server.port), timeout=20 * SLOW)

    with connect() as s:  # one connection: HEAD has no body, a stream leaves it usable
        s.sendall(b"HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n")
        head = read_until(s, b"\r\n\r\n")
        check(head.startswith(b"HTTP/1.1 200") and head.endswith(b"\r\n\r\n"), f"HEAD: {head}")
        s.sendall(post(stream))
        got = read_until(s, b"0\r\n\r\n")
        check(got.startswith(b"HTTP/1.1 200") and b"[DONE]" in got and b"chunked" in got, f"a stream after HEAD: {got[:300]}")
        s.sendall(post(plain))
        got = read_until(s, b"total_tokens")
        check(got.startswith(b"HTTP/1.1 200") and b"text_completion" in got, f"a reply after a stream: {got[:300]}")
    with connect() as s:
        s.sendall(post(plain, more=b"Expect: 100-continue\r\n")[:-len(plain)])
        got = read_until(s, b"\r\n\r\n")
        check(got.startswith(b"HTTP/1.1 100"), f"Expect: {got}")
        s.sendall(plain)
        check(b" 200 OK" in read_until(s, b"total_tokens"), "after 100 Continue")
    with connect() as s:  # a client of HTTP/1.0 knows no chunks: the stream ends with the connection
        s.sendall(post(stream, b"1.0"))
        got = b""
        while part := s.recv(65536):
            got += part
        check(b" 200 OK" in got and b"chunked" not in got and got.endswith(b"data: [DONE]\n\n"), f"HTTP/1.0: {got[-200:]}")
    for path, status in (("/v1/models?limit=3", 200), ("/v1/./models", 404), ("//v1/models", 404), ("/v1/models/", 404), ("/v1/models#a", 200)):
        check(server.ask(path).status in (status, 400), f"{path}: {server.ask(path).status}")
    for kind in ("application/json; charset=utf-8", "text/plain", None):
        reply = server.ask("/v1/completions", plain, {"Content-Type": kind} if kind else {})
        check(reply.status == 200, f"a body of type {kind}: {reply.status}")


def meanwhile(server, request):
    """The longest that /health took while the request was under way, as a share of the time that it took."""
    done, worst = {}, 0

    def ask():
        begun = time.monotonic()
        done["reply"] = request(server)
        done["seconds"] = time.monotonic() - begun
    thread = threading.Thread(target=ask)
    thread.start()
    while thread.is_alive():
        begun = time.monotonic()
        server.ask("/health")
        worst = max(worst, time.monotonic() - begun)
    check(done["reply"].status == 200, f"{done['reply'].status}")
    return worst / done["seconds"], done


def others_wait_for_none():
    """What takes long to read or to write is read and written beside the loop."""
    server = Server("s", "--slots", 8, "--context", 256, "--threads", 1, "--max-body", "64M")
    text = json.dumps({"prompt": "a few words and " * (1 << 20)})
    share, _ = meanwhile(server, lambda s: s.ask("/tokenize", text))
    check(share < 0.3, f"/health waited for {share:.2f} of the time in which 16 MB were tokenized")
    share, done = meanwhile(server, lambda s: s.ask("/v1/completions", {"prompt": [[i] * 250 for i in range(128)], "max_tokens": 1,
                                                                             "echo": True, "logprobs": 20}))
    check(share < 0.3 and len(done["reply"].json["choices"]) == 128, f"/health waited for {share:.2f} of the time of a long reply")
    # Whoever leaves while his request is read, or his reply is written, leaves nothing.
    for body in (text, json.dumps({"prompt": [[i] * 250 for i in range(64)], "max_tokens": 1, "echo": True, "logprobs": 20})):
        for wait in (0.01, 0.1, 0.3):
            with socket.create_connection(("127.0.0.1", server.port)) as s:
                path = b"/tokenize" if body is text else b"/v1/completions"
                s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path, len(body)) + body.encode())
                time.sleep(wait)
    # What came before the end is read to the end or told of it.
    sockets = []
    for _ in range(3):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=60 * SLOW)
        s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(text) + text.encode())
        sockets.append(s)
    server.process.terminate()
    got = [s.recv(64)[:12] for s in sockets]
    check(all(g in (b"HTTP/1.1 200", b"HTTP/1.1 503", b"") for g in got) and got[0] != b"", f"replies at the end: {got}")
    for s in sockets:
        s.close()
    check(server.wait()[0] == 0, "it ends well")


def uploads():
    """Requests that come in slowly are bounded in sum; small ones pass, and what was refused leaves nothing."""
    server = Server("s", "--slots", 1, "--threads", 1, "--max-body", "1M", "--max-uploads", "3M")
    body = b'{"prompt":"%s"}' % (b"a " * 450000)
    head = b"POST /tokenize HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n"
    part, chunk = body[:-50000], b"8000\r\n%s\r\n" % body[:32768]

    def begin(chunked):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=20 * SLOW)
        s.sendall(head % b"Transfer-Encoding: chunked" + chunk * 26 if chunked else head % (b"Content-Length: %d" % len(body)) + part)
        return s

    for chunked in (False, True):  # three have room, the fourth has not
        clients = [begin(chunked) for _ in range(3)]
        check(server.until("upload_bytes", lambda n: n > 2500000), "they are counted")
        check(server.ask("/tokenize", {"prompt": "a " * 20000}).status == 200, "a small request beside uploads")
        check(server.metric('replies_total{status="429"}') == chunked, "none of them is refused")
        late = begin(chunked)
        got = read_until(late, b"}}")
        check(got.startswith(b"HTTP/1.1 429") and b"--max-uploads" in got and b"Retry-After" in got, f"one too many: {got[:200]}")
        late.sendall(part)  # to nobody
        check(server.ask("/tokenize", {"prompt": "a " * 20000}).status == 200, "a small request after a refusal")
        for s in clients[1:]:
            s.close()
        clients[0].sendall(b"0\r\n\r\n" if chunked else body[len(part):])
        got = clients[0].recv(12)
        check(got == (b"HTTP/1.1 400" if chunked else b"HTTP/1.1 200"), f"one that had room: {got}")
        late.close(), clients[0].close()
        check(server.until("upload_bytes", lambda n: n < 1000), "what was refused or left is forgotten")
    with socket.create_connection(("127.0.0.1", server.port), timeout=20 * SLOW) as s:  # again and again on one connection
        for _ in range(6):
            s.sendall(head % (b"Content-Length: %d" % len(body)) + body)
            got = read_until(s, b"\r\n\r\n")
            left = int(got.split(b"Content-Length: ")[1].split(b"\r")[0]) - len(got.split(b"\r\n\r\n", 1)[1])
            while left > 0:
                left -= len(s.recv(min(left, 65536)))
            check(got.startswith(b"HTTP/1.1 200"), f"one after the other: {got[:100]}")
    check(server.stop() == (0, ""), "it ends well")
    done = call("serve", "s", "--max-body", "2M", "--max-uploads", "1M", "--port", 0)
    check(done.returncode == 2 and "--max-uploads 1048576 is less" in done.stderr, f"{done.returncode}: {done.stderr}")


def models_and_origins():
    shutil.copytree("s", "org/name")
    server = Server("org/name", "--threads", 1, "--slots", 1)
    for name in ("org/name", "org%2Fname", "org%2fname"):
        reply = server.ask(f"/v1/models/{name}")
        check(reply.status == 200 and reply.json["id"] == "org/name" and reply.json["object"] == "model", f"{name}: {reply.status} {reply.text}")
    for name in ("org", "org/name2", "", "%", "%2", "org%2Fname%", "org%2Fnam%6", "%00", "org/name/"):
        check(server.ask(f"/v1/models/{name}").status in (404, 400), f"a model {name!r}")
    check(server.ask("/v1/models/org/name", b"{}", method="POST").status == 405, "POST to a model")
    origin = {"Origin": "http://a.example", "Access-Control-Request-Method": "POST"}
    reply = server.ask("/v1/completions", headers=origin, method="OPTIONS")
    check(reply.status == 405 and "Access-Control-Allow-Origin" not in reply.headers, f"without --cors: {reply.status} {reply.headers}")
    check(server.stop() == (0, ""), "it ends well")
    with open("token", "w") as f:
        f.write("sesame\n")
    server = Server("s", "--threads", 1, "--slots", 1, "--cors", "http://a.example", "--token-file", "token")
    reply = server.ask("/v1/completions", headers=origin, method="OPTIONS")  # a browser sends no token with it
    check(reply.status == 204 and "Authorization" in reply.headers.get("Access-Control-Allow-Headers", "") and not reply.text, f"{reply.headers}")
    for reply in (reply, server.ask("/health"), server.ask("/v1/models"), server.ask("/nowhere"),
                  server.ask("/v1/completions", {"prompt": "a", "max_tokens": 2, "stream": True}, {"Authorization": "Bearer sesame"})):
        check(reply.headers.get("Access-Control-Allow-Origin") == "http://a.example", f"{reply.status}: {reply.headers}")
    check(server.stop() == (0, ""), "it ends well")
    done = call("serve", "s", "--cors", "a\nb", "--port", 0)
    check(done.returncode == 2 and "--cors takes one origin" in done.stderr, f"{done.returncode}: {done.stderr}")


def main():
    models()
    server = Server("s", "--slots", 4, "--threads", 1)
    for test in (lengths, refusals, offsets, http):
        test(server)
    check(server.stop() == (0, ""), "it ends well")
    tools()
    memory()
    large()
    others_wait_for_none()
    uploads()
    models_and_origins()


run(main)
