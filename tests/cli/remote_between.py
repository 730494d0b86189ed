"""remote_between.py - what the tests of a teacher behind HTTP share: models and data, looks at caches and runs, and what stands
between a client and its server. Needs the standard library, libcurl and $RETORT."""
import http.client
import http.server
import json
import re
import threading

from serve_client import SLOW, call, check, make

WORDS = "the quick brown fox jumps over the lazy dog while seven wizards box in quiet zones".split()
DATA = ["--data", "d.jsonl", "--seq-len", "64"]
SMALL = [*DATA, "--teacher-batch", "4"]
ASK = [*SMALL, "--threads", "2"]
LEARN = ["--student", "s", "--lr", "1e-3", "--threads", "2", "--batch", "4", "--steps", "8", "--eval-every", "4"]


def inputs():
    make("init", "--preset", "tiny-qwen2", "--seed", 1, "--dtype", "f32", "s")
    make("init", "--preset", "tiny-llama", "--seed", 2, "--dtype", "f32", "t")
    make("init", "--preset", "tiny-llama", "--seed", 3, "--dtype", "f32", "t2")
    with open("d.jsonl", "w") as f:
        for i in range(120):
            text = " ".join(WORDS[(i * 7 + k * k + k * i) % 16] for k in range(8))
            f.write(json.dumps({"text": f"{text} and {i}"}) + "\n")


def content(cache):
    return json.loads(call("cache", cache, "--json").stdout)["content_hash"]


def about(cache):
    return json.load(open(f"{cache}/cache.json"))


def ends(done, status, message=None):
    good = done.returncode == status and (message is None or re.search(message, done.stderr))
    return check(good, f"{' '.join(done.args[1:])}: status {done.returncode}, expected {status} with {message!r}\n{done.stdout}{done.stderr}")


def near(a, b, most):
    """The farthest that losses and measures of two runs are from one another."""
    both = [[j for j in map(json.loads, open(f"{run}/run/metrics.jsonl")) if j["event"] in ("step", "eval")] for run in (a, b)]
    worst = 0 if len(both[0]) == len(both[1]) > 4 else 1e9
    for x, y in zip(*both):
        for k in ("ce", "divergence", "forward_kl", "teacher_ce", "grad_norm"):
            if k in x:
                p, q = (v[0] if isinstance(v, list) else v for v in (x[k], y[k]))
                worst = max(worst, abs(p - q) / (1e-6 + abs(p)))
    return check(worst <= most, f"{a} and {b} are {worst} apart")


class Between(http.server.ThreadingHTTPServer):
    """Stands between the client and a server, counts what is asked, and does what `act` says: act(between, handler, number of
    the POST, body) -> True when it has answered by itself."""
    daemon_threads = True

    def __init__(self, server=None, act=None, token=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.server, self.act, self.token = server, act, token
        self.posts, self.gets, self.lock = 0, 0, threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reply(self, status, body, kind="application/octet-stream"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def drop(self):
        self.close_connection = True

    def pass_on(self, body):
        between = self.server
        try:
            c = http.client.HTTPConnection("127.0.0.1", between.server.port, timeout=60 * SLOW)
            c.request(self.command, self.path, body, {k: v for k, v in self.headers.items() if k in ("Content-Type", "Authorization")})
            answer = c.getresponse()
            self.reply(answer.status, answer.read())
            c.close()
        except OSError:
            self.drop()

    def handle_one(self, post):
        between = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) if post else None
        with between.lock:
            between.posts += post
            between.gets += not post
            number = between.posts
        if not (between.act and between.act(between, self, number if post else 0, body)):
            self.pass_on(body)

    def do_GET(self):
        self.handle_one(False)

    def do_POST(self):
        self.handle_one(True)
