#!/usr/bin/env python3
"""remote.py - `--teacher http://...`: caches filled over a network beside those that were made here, runs beside runs with the
teacher in the step, servers that are slow, talk nonsense or are of another teacher, and vLLM's API. What is asked while a run
goes on, and servers that die and come back in it, are remote_run.py's.

Needs the standard library, libcurl and $RETORT; ends with `N passed, N failed`.
"""
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import time

from remote_between import ASK, DATA, LEARN, SMALL, Between, about, content, ends, inputs, near
from serve_client import COMMAND, SLOW, Server, call, check, make, run

# ---- what is kept is what a teacher here says ----

def same_bits(server):
    for keep, more in (("topk:16", []), ("topk:16", ["--temperature", "2"]), ("draws:20", ["--temperature", "1.5"]), ("hidden", []),
                       ("topk:9", ["--student", "s"])):
        name = re.sub(r"\W", "", keep + "".join(more))
        make("cache", "--teacher", "t", *ASK, *more, "--keep", keep, "--out", f"here-{name}")
        done = call("cache", "--teacher", server.url, *ASK, *more, "--keep", keep, "--out", f"there-{name}")
        ends(done, 0)
        check(content(f"here-{name}") == content(f"there-{name}"), f"{keep} {more}: other bits over the network")
        a, b = about(f"here-{name}"), about(f"there-{name}")
        check(all(a.get(k) == b.get(k) for k in ("teacher", "tokenizer", "template", "ids", "seq_len", "batch", "held_out", "keep")),
              f"{keep}: the caches say {a} and {b}")
    done = call("cache", "--teacher", f"{server.url}/,requests=1", *ASK, "--keep", "topk:16", "--out", "alone")
    ends(done, 0)
    check(content("alone") == content("here-topk16"), "one request at a time gives other bits")


def learn(server):
    """The loss is the one of the teacher in the step."""
    ids = about("here-topk16")["ids"]["count"]
    held = about("here-topk16")["held_out"]
    held = f"{held['value']!r}%" if held["percent"] else f"{held['value']!r}"
    make("distill", "--teacher", "t", *LEARN, *DATA, "--held-out", held, "--out", "live")
    for keep in (f"topk:{ids}", "hidden"):
        name = keep[:4]
        ends(call("distill", "--teacher", f"{server.url},keep={keep}", *LEARN, *DATA, "--held-out", held, "--out", f"far-{name}"), 0)
        near("live", f"far-{name}", 2e-5)
    check(os.path.isdir("far-topk.teacher"), "the cache lies beside the run")
    posts = server.posts
    ends(call("distill", "--teacher", f"{server.url},keep=topk:{ids},cache=far-topk.teacher", *LEARN, *DATA, "--max-grad-norm", "0.5",
              "--out", "again"), 0)
    check(server.posts == posts, "another run over the same rows asks for nothing again")
    ends(call("distill", "--teacher", f"{server.url},keep=topk:{ids},cache=far-topk.teacher", *LEARN, *DATA, "--seed", 5,
              "--out", "other"), 0)
    posts = server.posts
    ends(call("verify", "far-topk"), 0)
    done = call("distill", "--teacher", server.url, *LEARN, *DATA, "--out", "far-topk")
    ends(done, 5, "not empty")
    check(server.posts == posts, "a run that cannot begin asks nothing")


def planned(server):
    posts = server.posts
    done = call("plan", "--teacher", server.url, "--student", "s", *DATA)
    ends(done, 0)
    check("from a cache: topk:64" in done.stdout and "are still to be asked" in done.stdout, done.stdout)
    check(server.posts == posts, "a plan asks nothing")
    check(not os.path.exists("c.teacher"), "a plan leaves nothing")
    ends(call("plan", "--teacher", f"{server.url},cache=far-topk.teacher", "--student", "s", *DATA), 0)
    done = call("distill", "--teacher", server.url, *LEARN, *DATA, "--smoke", "--out", "smoke")
    ends(done, 5, "asks a server nothing")


# ---- a client that dies ----

def killed_client(server):
    """kill -9 of the client: what was written down is not asked again, and the cache is the same."""
    whole = Between(server.server)
    ends(call("cache", "--teacher", whole.url, *ASK, "--keep", "topk:16", "--out", "whole"), 0)
    total = whole.posts
    between = Between(server.server, lambda b, h, number, body: time.sleep(0.4) if number else None)
    command = ["cache", "--teacher", f"{between.url},requests=2", *ASK, "--keep", "topk:16", "--out", "cut"]
    process = subprocess.Popen(COMMAND + command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60 * SLOW
    while not os.path.exists("cut/part-0/00000001.rtcache") and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    cut = between.posts
    check(0 < cut < total, f"killed after {cut} of {total} requests")
    again = Between(server.server)
    ends(call(*[a.replace(between.url, again.url) for a in command], "--fill"), 0)
    check(content("cut") == content("here-topk16"), "a cache that was filled after a kill has other bits")
    check(again.posts < total, f"{again.posts} requests of {total} after a kill that lost some of {cut}")
    ends(call(*[a.replace(between.url, again.url) for a in command], "--fill"), 0)
    posts = again.posts
    done = call("cache", "--teacher", "http://127.0.0.1:9", *ASK, "--keep", "topk:16", "--out", "cut", "--fill")
    ends(done, 0)  # nothing is missing, so nobody is asked
    check(posts == again.posts, "a full cache asks for nothing")


def interrupted(server):
    between = Between(server.server, lambda b, h, number, body: time.sleep(0.5) if number > 3 else None)
    command = ["cache", "--teacher", f"{between.url},requests=1", *ASK, "--keep", "topk:16", "--out", "stopped"]
    process = subprocess.Popen(COMMAND + command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60 * SLOW
    while between.posts < 5 and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    check(process.returncode == 130 and "--fill adds the rest" in said, f"interrupted: {process.returncode}, {said}")
    check(json.loads(call("cache", "stopped", "--json").stdout)["positions"] > 100, "what had been answered is kept")


# ---- servers that are none ----

def bad_servers(server):
    cache = lambda url, *more, out="none": call("cache", "--teacher", url, *ASK, "--keep", "topk:16", *more, "--out", out)
    begun = time.monotonic()
    ends(cache("http://127.0.0.1:9"), 10, "does not answer.*is the server running")
    check(time.monotonic() - begun < 20 * SLOW, "a server that is down is given up soon")
    check(not os.path.exists("none"), "and nothing is left")
    ends(call("distill", "--teacher", "http://127.0.0.1:9", *LEARN, *DATA, "--out", "none"), 10, "does not answer")
    check(not os.path.exists("none") and not os.path.exists("none.teacher"), "nor of a run")
    slow = Between(server.server, lambda b, h, number, body: time.sleep(5))
    ends(cache(f"{slow.url},timeout=0.3"), 10, "does not answer.*(timed out|Timeout|time)")
    for name, reply in (("text", b"<html>hello</html>"), ("empty", b""), ("short", b"RTTEACH1" + bytes(24)),
                        ("long", b"RTTEACH1" + b"\xff" * 24), ("json", b'{"status": "ok"}')):
        bad = Between(None, lambda b, h, number, body, reply=reply: h.reply(200, reply) or True)
        ends(cache(bad.url), 10, "answers what is of no use: its answer does not describe a teacher")
    lost = Between(None, lambda b, h, number, body: h.reply(404, b"no such page") or True)
    ends(cache(lost.url), 10, "no such server .status 404")
    wrong = Between(server.server, lambda b, h, number, body: number > 4 and (h.reply(200, b"RTSAID01 or not") or True))
    ends(cache(f"{wrong.url}", out="half"), 10, "answers what is of no use: its answer is none")
    ends(cache(server.url, "--fill", out="half"), 0)
    check(content("half") == content("here-topk16"), "a cache that met nonsense has other bits")

    def refuses(mine):
        """The first question is refused; before that somebody may put a file of his own into the new cache."""
        def reply(b, h, number, body):
            if body and mine:
                open(mine, "w").close()
            return bool(body) and (h.reply(400, b'{"error": {"message": "no"}}') or True)
        return Between(server.server, reply).url

    ends(cache(refuses(None), out="shared"), 5, "refuses .status 400.: no")
    check(not os.path.exists("shared"), "a cache that was refused at once is left")
    ends(cache(refuses("shared/mine"), out="shared"), 5, "refuses .status 400.: no")
    check(os.path.exists("shared/mine"), "a cache is removed with somebody's file in it")
    refused = Between(server.server, lambda b, h, number, body: number > 4 and (h.reply(400, b'{"error": {"message": "no more"}}') or True))
    ends(cache(refused.url, out="refused"), 5, "refuses .status 400.: no more")
    ends(cache(server.url, "--fill", out="refused"), 0)

    def altered(b, h, number, body):
        """Every third answer is damaged once on its way."""
        if number % 3 or not number:
            return False
        c = http.client.HTTPConnection("127.0.0.1", b.server.port, timeout=60)
        c.request("POST", h.path, body)
        data = bytearray(c.getresponse().read())
        data[len(data) // 2] ^= 4
        h.reply(200, bytes(data))
        return True
    ends(cache(Between(server.server, altered).url, out="noisy"), 0)
    check(content("noisy") == content("here-topk16"), "a cache over a bad line has other bits")
    ends(cache("http://127.0.0.1:9,what=7"), 2, "'what=7' is not an option of a server")
    ends(cache("http://127.0.0.1:9,requests=99"), 2, "'requests=99' is not an option")
    ends(cache("http://"), 2, "the address of a server is")
    ends(cache(server.url, "--device", "cpu"), 5, "is of a teacher that is computed here")
    ends(call("distill", "--teacher", server.url, "--teacher", "t", *LEARN, *DATA, "--out", "none"), 5, "only teacher of a run")
    ends(call("distill", "--teacher", f"{server.url},keep=draws:9", "--divergence", "jsd", *LEARN, *DATA, "--out", "none"), 5,
         "draws serve forward-kl alone")
    ends(call("eval", "s", "--teacher", server.url, "--data", "d.jsonl"), 5, "is a server")


def other_teachers(server):
    # Another model under the address of one that a cache is of.
    other = Server("t2", "--context", 128, "--slots", 1, "--threads", 1)
    shutil.copytree("there-topk16", "part")
    for name in os.listdir("part/part-0"):
        os.remove(f"part/part-0/{name}")
    cache = ["cache", *ASK, "--keep", "topk:16", "--out", "part", "--fill"]
    ends(call(*cache, "--teacher", f"http://127.0.0.1:{other.port}"), 5, "another teacher than part is of: its values are not the same")
    # It changes while it is asked.
    def change(between, handler, number, body):
        if number == 4:
            between.server = other
        return False
    between = Between(server.server, change)
    ends(call(*cache, "--teacher", f"{between.url},requests=1"), 5, "status 409.: the question is to another teacher")
    check(json.loads(call("cache", "part", "--json").stdout)["positions"] > 100, "what the first one said is kept")
    ends(call(*cache, "--teacher", server.url), 0)
    check(content("part") == content("here-topk16"), "a cache that met another teacher has other bits")
    other.stop()
    # Its tokenizer means something else by some ids.
    shutil.copytree("t", "swapped")
    tokenizer = json.load(open("swapped/tokenizer.json"))
    vocab = tokenizer["model"]["vocab"]
    a, b = [k for k, v in vocab.items() if 65 <= v <= 122][:2]
    vocab[a], vocab[b] = vocab[b], vocab[a]
    json.dump(tokenizer, open("swapped/tokenizer.json", "w"))
    other = Server("swapped", "--context", 128, "--slots", 1, "--threads", 1)
    url = f"http://127.0.0.1:{other.port}"
    local = call("distill", "--teacher", "swapped", *LEARN, *DATA, "--out", "none")
    far = call("distill", "--teacher", url, *LEARN, *DATA, "--out", "none")
    ends(local, 5)
    ends(far, 5)
    check(local.stderr.split(":")[-1] == far.stderr.split(":")[-1], f"another vocabulary: {local.stderr}\n{far.stderr}")
    other.stop()
    same = Server("s", "--context", 128, "--slots", 1, "--threads", 1)
    ends(call("distill", "--teacher", f"http://127.0.0.1:{same.port}", *LEARN, *DATA, "--out", "none"), 5, "is the student itself")
    same.stop()


def tokens():
    with open("token", "w") as f:
        f.write("sesame\n")
    guarded = Server("t", "--context", 128, "--slots", 1, "--threads", 1, "--token-file", "token")
    url = f"http://127.0.0.1:{guarded.port}"
    ends(call("cache", "--teacher", url, *ASK, "--out", "closed"), 5, "wants a token")
    ends(call("cache", "--teacher", f"{url},token-file=token", *ASK, "--keep", "topk:16", "--out", "open"), 0)
    check(content("open") == content("here-topk16"), "a token changes bits")
    guarded.stop()


def questions(server):
    """What is no question is refused, and the server answers on."""
    real = server.server
    for body in (b"", b"RTASKED1", b"RTASKED1" + bytes(88), b"RTASKED1" + b"\xff" * 400, b"{}", os.urandom(3000)):
        reply = real.ask("/teacher/answers", body, method="POST")
        check(reply.status in (400, 409), f"{body[:9]!r}: {reply.status} {reply.text[:200]}")
    check(real.ask("/teacher/answers").status == 405 and real.ask("/teacher", b"x", method="POST").status == 405, "methods")
    check(real.ask("/health").status == 200, "the server is well")


# ---- vLLM ----

def vllm():
    """`retort serve` has the part of vLLM's API that is asked for; what no vLLM gives is refused. Of models whose ids all count: what
    padding has of the mass is told otherwise."""
    for name in "st":
        config = {**json.load(open(f"{name}/config.json")), "vocab_size": 259}
        json.dump(config, open("whole.json", "w"))
        make("init", "--config", "whole.json", "--tokenizer", "s", "--seed", ord(name), "--dtype", "f32", f"{name}-whole")
    learn = [*LEARN[2:], "--student", "s-whole"]
    server = Server("t-whole", "--context", 128, "--slots", 4, "--threads", 2, "--top-logprobs", 20, "--name", "big")
    between = Between(server)
    ask = lambda *more, word="", out="v", keep="topk:20": call(
        "cache", "--teacher", f"{between.url},api=vllm{word}", *DATA, "--threads", "2", "--keep", keep, *more, "--out", out)
    ends(ask("--student", "s-whole"), 0)
    make("cache", "--teacher", "t-whole", *DATA, "--threads", "2", "--keep", "topk:20", "--student", "s-whole", "--out", "v-here")
    a, b = (json.loads(call("cache", c, "--json").stdout) for c in ("v", "v-here"))
    check((a["positions"], a["held_out"]) == (b["positions"], b["held_out"]), f"{a} and {b}")
    make("distill", "--teacher", "v-here", *learn, *DATA, "--out", "from-here")
    ends(call("distill", "--teacher", "v", *learn, *DATA, "--out", "from-v"), 0)
    steps = [[j["divergence"] for j in map(json.loads, open(f"{run}/run/metrics.jsonl")) if j["event"] == "step"] for run in ("from-here", "from-v")]
    check(all(abs(x - y) < 2e-3 * abs(x) + 1e-6 for x, y in zip(*steps)) and len(steps[0]) == len(steps[1]) == 8, f"losses: {steps}")
    ends(ask("--temperature", "2", "--student", "s", out="none"), 5, "at temperature 1")
    ends(ask("--student", "s", keep="draws:20", out="none"), 5, "and no draws")
    ends(ask("--student", "s", keep="hidden", out="none"), 5, "and no hidden states")
    ends(ask("--student", "s", keep="topk:50", out="none"), 5, "refuses .status 400")
    check(not os.path.exists("none"), "a refused cache is left")
    ends(ask(out="none"), 2, "tokenizer=MODEL")
    ends(ask("--student", "s", word=",model=small", out="none"), 5, "no model small")
    ends(ask(word=",tokenizer=swapped", out="none"), 5, "another vocabulary: id ")
    server.stop()


def recordings():
    """A stand-in that answers as vLLM documents it: every member of a reply, placeholders at ends, the log-probability of what a
    mask has left, choices out of order."""
    def choice(index, ids):
        places = [None] + [{str(i): {"logprob": -0.5, "rank": 7, "decoded_token": chr(i)} if i > 32 and i < 127 else
                            {"logprob": -0.5, "rank": 7, "decoded_token": None},
                            "66": {"logprob": -1.5, "rank": 1, "decoded_token": "B"},
                            "67": {"logprob": -9999.0, "rank": 2, "decoded_token": "C"}} for i in ids[1:]]
        return {"index": index, "text": "", "logprobs": None, "finish_reason": "length", "stop_reason": None, "prompt_logprobs": places,
                "prompt_token_ids": None}

    def act(between, handler, number, body):
        if handler.path == "/v1/models":
            reply = {"object": "list", "data": [{"id": "org/big", "object": "model", "created": 1, "owned_by": "vllm",
                                                 "root": "org/big", "parent": None, "max_model_len": 4096, "permission": []}]}
        else:
            asked = json.loads(body)
            between.asked = asked
            reply = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": asked["model"],
                     "choices": [choice(i, p) for i, p in enumerate(asked["prompt"])][::-1],
                     "usage": {"prompt_tokens": 1, "total_tokens": 2, "completion_tokens": 1, "prompt_tokens_details": None},
                     "kv_transfer_params": None}
        handler.reply(200, json.dumps(reply).encode(), "application/json")
        return True
    between = Between(None, act)
    ends(call("cache", "--teacher", f"{between.url},api=vllm", *DATA, "--student", "s", "--keep", "topk:4", "--out", "played"), 0)
    asked = between.asked
    check(asked["model"] == "org/big" and asked["prompt_logprobs"] == 4 and asked["max_tokens"] == 1, f"asked: {asked}")
    check(all(isinstance(i, int) for p in asked["prompt"] for i in p), "prompts are ids")
    check(about("played")["teacher"]["name"] == "org/big", f"{about('played')}")
    ends(call("distill", "--teacher", "played", *LEARN, *DATA, "--out", "from-played"), 0)


def main():
    inputs()
    server = Server("t", "--context", 128, "--slots", 2, "--threads", 2)
    between = Between(server)
    same_bits(between)
    learn(between)
    planned(between)
    killed_client(between)
    interrupted(between)
    bad_servers(between)
    other_teachers(between)
    questions(between)
    check(server.stop() == (0, ""), "the server ends well")
    tokens()
    vllm()
    recordings()


run(main)
