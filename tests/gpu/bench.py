"""bench.py - what the parts of `make test-gpu` share: running programs, counting checks, small models and data.

A part is a function that is given a Bench. It reports with check(), skips with skip(); what it raises is a failed check.
Parts run at the same time, in threads; programs wait for one of `jobs` places. Standard library only.
"""
import collections
import concurrent.futures
import json
import os
import random
import signal
import struct
import subprocess
import threading
import time

Done = collections.namedtuple("Done", "status out err seconds")
LIMIT = 240  # seconds after which a program hangs
SMALL_VOCAB = 512
LATE = "compiled or loaded after seal: "
QWEN2 = dict(model_type="qwen2", architectures=["Qwen2ForCausalLM"], hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1e6,
             max_position_embeddings=2048, initializer_range=0.02, tie_word_embeddings=True)


class Fault(Exception):
    """What kept a part from going on."""


def shape(width, layers, heads, kv_heads, hidden, vocab):
    return dict(QWEN2, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
                intermediate_size=hidden, vocab_size=vocab)


class Bench:
    """One run of the tests. `part` names who reports; at() gives a part its own view of the same bench."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.retort, self.device = os.path.abspath(args.retort), args.device
        self.cuda = args.device.startswith("cuda")
        self.build = os.path.abspath(args.build)
        self.root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        self.places = threading.BoundedSemaphore(args.jobs)
        self.lock = threading.Lock()
        self.results, self.facts, self.part = [], {}, ""

    def at(self, part):
        other = object.__new__(Bench)
        other.__dict__.update(self.__dict__, part=part)
        return other

    # ---- reports ----

    def report(self, outcome, name, detail, seconds=None):
        took = f"  ({seconds:.1f} s)" if seconds is not None else ""
        with self.lock:
            self.results.append(dict(part=self.part, check=name, outcome=outcome, detail=detail, seconds=seconds))
            print(f"{outcome:<8}{self.part}: {name}{': ' if detail else ''}{detail}{took}", flush=True)

    def check(self, ok, name, detail="", seconds=None):
        self.report("ok" if ok else "FAIL", name, detail, seconds)
        return bool(ok)

    def skip(self, name, why):
        self.report("skipped", name, why)

    def note(self, text):
        with self.lock:
            print(f"        {self.part}: {text}", flush=True)

    # ---- programs ----

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def run(self, command, env=None, timeout=LIMIT):
        """Waits for a place, runs, answers what came back. A program that hangs has the status 'timeout'."""
        with self.places:
            begun = time.monotonic()
            process = subprocess.Popen([str(c) for c in command], cwd=self.folder, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env=dict(os.environ, XDG_CACHE_HOME=self.path("cache"), **(env or {})),
                                       start_new_session=True, text=True, errors="replace")
            try:
                out, err = process.communicate(timeout=timeout)
                status = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
                status = "timeout"
            return Done(status, out, err, time.monotonic() - begun)

    def call(self, *args, **more):
        return self.run([self.retort, *args], **more)

    def must(self, *args, **more):
        done = self.call(*args, **more)
        if done.status != 0:
            raise Fault(f"retort {' '.join(map(str, args))}: status {done.status}: {last_line(done)}")
        return done

    def each(self, function, items):
        """At the same time; the first exception, if any, is raised when all are done."""
        items = list(items)
        with concurrent.futures.ThreadPoolExecutor(max(1, len(items))) as pool:
            return [f.result() for f in [pool.submit(function, item) for item in items]]

    # ---- models, data, runs ----

    def model(self, name, seed, dtype, **config):
        with open(self.path(name + ".config.json"), "w") as f:
            json.dump(config, f)
        self.must("init", "--config", name + ".config.json", "--dtype", dtype, "--seed", seed, "--force", name)
        return name

    def tokens(self, name, count, vocab, seed):
        """Ids that follow one another by a rule more often than not, so that there is something to learn."""
        rng, at, ids = random.Random(seed), 0, []
        for _ in range(count):
            at = (at * 5 + 17) % vocab if rng.random() < 0.7 else int(vocab * rng.random() ** 2)
            ids.append(at)
        with open(self.path(name), "wb") as f:
            f.write(struct.pack(f"<{count}I", *ids))
        return name

    def pair(self, prefix, dtype="bf16", teacher=None):
        """Flags of a small run: two layers, heads 64 wide, so that a GPU's tensor cores have work; rows of 64 tokens."""
        self.tokens(prefix + "-data.u32", 64 * 64, SMALL_VOCAB, 1)
        self.tokens(prefix + "-held.u32", 2 * 64, SMALL_VOCAB, 2)
        return ["--student", self.model(prefix + "-s", 1, dtype, **shape(128, 2, 2, 1, 320, SMALL_VOCAB)),
                "--teacher", self.model(teacher or prefix + "-t", 2, "q8_0" if teacher else dtype,
                                        **shape(192, 2, 3, 1, 512, SMALL_VOCAB)),
                "--data", prefix + "-data.u32", "--eval-data", prefix + "-held.u32", "--vocab", SMALL_VOCAB, "--seq-len", 64,
                "--lr", "2e-3", "--schedule", "constant", "--warmup", "0", "--sample-prompts", "none"]

    def distill(self, out, *args, env=None, device=None):
        """A run that must go well; what it loaded after seal must be nothing."""
        done = self.must("distill", "--out", out, "--device", device or self.device, *args, env=env)
        late = [line.split(LATE)[1] for line in done.out.splitlines() if LATE in line]
        if self.cuda and device != "cpu" and late != ["0"]:
            raise Fault(f"{out}: {LATE}{late or 'not said'}")
        return done


def last_line(done):
    lines = [line for line in (done.err + "\n" + done.out).splitlines() if line.strip()]
    errors = [line for line in done.err.splitlines() if line.strip()]
    return (errors or lines or ["it said nothing"])[-1][:300]


def metrics(folder):
    """The lines of metrics.jsonl without times."""
    with open(os.path.join(folder, "run", "metrics.jsonl")) as f:
        return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in f]


def curve(folder):
    return [line["loss"] for line in metrics(folder) if line["event"] == "step"]


def same_file(a, b):
    with open(a, "rb") as f, open(b, "rb") as g:
        return f.read() == g.read()
