"""serve_client.py - starts `retort serve` on a free port and asks it, for the tests of the server. Needs the standard library."""
import atexit
import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time

COMMAND = shlex.split(os.environ.get("EMU", "")) + [os.path.abspath(os.environ["RETORT"])]
SLOW = 20 if os.environ.get("EMU") else 1  # an emulated processor takes its time
counts = {"passed": 0, "failed": 0}


def check(condition, what):
    counts["passed" if condition else "failed"] += 1
    if not condition:
        print(what, flush=True)
    return condition


def run(main):
    """Calls main in a folder of its own, which is gone afterwards; prints what was counted and ends the program."""
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # it may have been given from where we were
        os.chdir(folder)
        main()
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    sys.exit(0 if counts["failed"] == 0 and counts["passed"] > 0 else 1)


def call(*args, **how):
    return subprocess.run(COMMAND + [str(a) for a in args], stdin=subprocess.DEVNULL, capture_output=True, text=True, **how)


def make(*args):
    done = call(*args)
    if done.returncode != 0:
        raise SystemExit(f"retort {' '.join(map(str, args))}: {done.stderr}")


def wide_model():
    """A model that is wide enough that a long answer takes seconds: what happens meanwhile can be seen. Needs the model s."""
    json.dump({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 256, "intermediate_size": 1024,
               "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 272,
               "max_position_embeddings": 8192, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True,
               "bos_token_id": 256, "eos_token_id": 257, "torch_dtype": "float32"}, open("wide.json", "w"))
    make("init", "--config", "wide.json", "--tokenizer", "s", "--seed", 2, "--dtype", "f32", "wide")


class Reply:
    def __init__(self, response):
        self.status, self.headers = response.status, dict(response.getheaders())
        self.text = response.read().decode("utf-8", "replace")

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def events(self):
        """The events of a stream; the last line has to be [DONE]."""
        lines = [line[6:] for line in self.text.split("\n\n") if line.startswith("data: ")]
        check(lines and lines[-1] == "[DONE]", f"the stream ends with {lines[-1:]}")
        return [json.loads(line) for line in lines[:-1]]


class Server:
    def __init__(self, *args):
        self.process = subprocess.Popen(COMMAND + ["serve", *map(str, args), "--port", "0"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            found = re.match(r"serving +http://127\.0\.0\.1:(\d+)$", line)
            if found:
                self.port = int(found.group(1))
                return
        raise SystemExit(f"retort serve {args}: {lines} {self.process.stderr.read()}")

    def connect(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SLOW)

    def ask(self, path, body=None, headers=None, method=None, connection=None):
        c = connection or self.connect()
        raw = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
        c.request(method or ("GET" if raw is None else "POST"), path, raw, headers or {})
        reply = Reply(c.getresponse())
        if not connection:
            c.close()
        return reply

    def complete(self, prompt, **fields):
        reply = self.ask("/v1/completions", {"prompt": prompt, **fields})
        if reply.status != 200:
            raise AssertionError(f"{reply.status}: {reply.text[:400]}")
        return reply.json["choices"]

    def raw(self, data, timeout=20):
        """Bytes as they are, and then the end; what comes back until the server closes."""
        got = b""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=timeout * SLOW) as s:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                while part := s.recv(65536):
                    got += part
        except OSError:
            pass
        return got

    def metric(self, name):
        text = self.ask("/metrics").text
        return float(re.search(rf"^retort_{re.escape(name)} (\S+)$", text, re.M).group(1))

    def until(self, name, test, seconds=20):
        end = time.monotonic() + seconds * SLOW
        while time.monotonic() < end:
            if test(self.metric(name)):
                return True
            time.sleep(0.02)
        return False

    def stop(self, sig=signal.SIGTERM, seconds=30):
        """Its exit status, and what it said on standard error."""
        self.process.send_signal(sig)
        return self.wait(seconds)

    def wait(self, seconds=30):
        try:
            status = self.process.wait(seconds * SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = "never"
        return status, self.process.stderr.read()
