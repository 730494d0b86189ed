#!/usr/bin/env python3
"""bench_serve.py - `retort serve` in one run beside `retort eval` over the same texts: how fast prompts are scored and answers made.

  bench_serve.py --retort build/retort --model M [--texts 16] [--tokens 512] [--clients 16] [--new 128] [--target 0.9] [-- FLAGS]

Scoring: all texts in one request (echo, max_tokens 0), without and with likely ids, against the positions a second that eval reports
over rows of the same length. CPU seconds of both stand beside it, which say more where a machine is shared; they count what eval does before its first
row. Answers: so many clients, each with a short prompt. FLAGS go to both commands (--device, --threads). Turns alternate and the best of
each counts; exit status 1 when scoring is below the target.
"""
import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/cli"))
WORDS = "the quick brown fox jumps over lazy dogs while seven wizards box in quiet zones near a river where old trees stand".split()


def own_cpu(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def scoring(server, texts, likely):
    """Tokens a second, and a CPU second."""
    connection = server.connect(3600)
    cpu, begun = own_cpu(server.process.pid), time.perf_counter()
    reply = server.ask("/v1/completions", {"prompt": texts, "max_tokens": 0, "echo": True, "logprobs": likely}, connection=connection)
    tokens, took = reply.json["usage"]["prompt_tokens"], time.perf_counter() - begun
    return tokens / took, tokens / max(own_cpu(server.process.pid) - cpu, 1e-9)


def evaluation(args, path):
    cpu = children_cpu()
    done = subprocess.run([args.retort, "eval", args.model, "--data", path, "--seq-len", str(args.tokens + 64), "--batch", str(args.texts), "--json",
                           *args.flags], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    return found["positions"] / found["seconds"], found["positions"] / (children_cpu() - cpu)


def answers(server, clients, new):
    """Tokens a second of so many clients at once."""
    def client(i):
        server.complete(f"{i} the quick", max_tokens=new, ignore_eos=True, seed=i)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    begun = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return clients * new / (time.perf_counter() - begun)


def texts_of(server, count, tokens):
    r, texts = random.Random(1), []
    for _ in range(count):
        ids = server.ask("/tokenize", {"prompt": " ".join(r.choice(WORDS) for _ in range(tokens))}).json["tokens"]
        texts.append(server.ask("/detokenize", {"tokens": ids[:tokens]}).json["prompt"])
    return texts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--retort", default="build/retort")
    parser.add_argument("--model", required=True)
    for name, value in (("texts", 16), ("tokens", 512), ("clients", 16), ("new", 128), ("turns", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--target", type=float, default=0.9)
    parser.add_argument("flags", nargs="*")
    args = parser.parse_args()
    os.environ["RETORT"] = args.retort
    from serve_client import Server
    server = Server(args.model, "--name", "model", "--slots", args.clients, "--context", args.tokens + 64, *args.flags)
    texts = texts_of(server, args.texts, args.tokens)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        f.writelines(json.dumps({"text": t}) + "\n" for t in texts)
        f.flush()
        best = {"bare": (0, 0), "likely": (0, 0), "eval": (0, 0)}
        for _ in range(args.turns):
            for name, found in (("bare", scoring(server, texts, 0)), ("likely", scoring(server, texts, 5)), ("eval", evaluation(args, f.name))):
                best[name] = tuple(map(max, best[name], found))
    for name, label in (("eval", "eval"), ("bare", "serve, its own log-probabilities"), ("likely", "serve, 5 likely ids too")):
        print(f"{label:34} {best[name][0]:10.0f} tokens/s {best[name][1]:10.0f} a CPU second  {best[name][0] / best['eval'][0]:5.2f} of eval", flush=True)
    print(f"answers, {args.clients} clients of {args.new:4} tokens   {max(answers(server, args.clients, args.new) for _ in range(args.turns)):10.0f} tokens/s")
    server.stop()
    return best["bare"][0] < args.target * best["eval"][0]


sys.exit(main())
