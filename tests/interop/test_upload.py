"""What huggingface_hub uploads of an OUT: the closing screen's `hf upload` line through its own filter, and upload_folder of the whole
OUT against a stand-in for the hub. Either way the model, or the adapter, goes, and none of the run's folders.

The library hands the .gitignore of a folder to the hub, which answers for each file whether it is ignored; the stand-in asks git.
"""
import http.server
import json
import os
import shlex
import subprocess
import tempfile
import threading

for _name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):  # the stand-in is on this machine
    os.environ.pop(_name, None)

from huggingface_hub import HfApi  # noqa: E402
from huggingface_hub.utils import filter_repo_objects  # noqa: E402

from interop import RETORT, check, finish


def retort(*args):
    done = subprocess.run([RETORT, *args], capture_output=True, text=True)
    check(done.returncode == 0, f"retort {' '.join(args)}: {done.stdout}{done.stderr}")
    return done.stdout


def sent(out, *more):
    """What the line that the run prints would upload, and everything that is there."""
    screen = retort("train", "--student", "s", "--data", "d.jsonl", "--out", out, "--steps", "4", "--batch", "2", "--seq-len", "32",
                    "--save-every", "2", "--eval-every", "2", "--sample-prompts", "none", *more)
    lines = [line.split("   (")[0] for line in screen.splitlines() if line.startswith("          hf upload ")]
    if not check(len(lines) == 1, f"{out}: no one line to upload it:\n{screen}"):
        return set(), set()
    words = shlex.split(lines[0])
    check(words[:6] == ["hf", "upload", "ORG/NAME", out, ".", "--exclude"] and len(words) == 7, f"{out}: {words}")
    there = {os.path.relpath(os.path.join(folder, name), out) for folder, _, names in os.walk(out) for name in names}
    return set(filter_repo_objects(there, ignore_patterns=words[6:])), there


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub as an upload asks for; what was committed is in `committed`."""
    committed = set()

    def answer(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def ignored(self, rules, paths):
        with tempfile.TemporaryDirectory() as repository:
            subprocess.run(["git", "init", "-q", repository], check=True)
            with open(os.path.join(repository, ".gitignore"), "w", encoding="utf-8") as f:
                f.write(rules)
            done = subprocess.run(["git", "-C", repository, "check-ignore", "--stdin"], input="\n".join(paths), text=True,
                                  capture_output=True)
            return set(done.stdout.splitlines())

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts).decode()

    def do_GET(self):
        self.answer({"id": "me/model", "sha": "0" * 40, "siblings": []})

    def do_POST(self):
        body = self.body()
        if "/preupload/" in self.path:
            ask = json.loads(body)
            paths = [f["path"] for f in ask["files"]]
            ignored = self.ignored(ask.get("gitIgnore", ""), paths)
            self.answer({"files": [{"path": p, "uploadMode": "regular", "shouldIgnore": p in ignored} for p in paths]})
            return
        if "/commit/" not in self.path:  # the card is looked at
            self.answer({"warnings": [], "errors": []})
            return
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.committed.add(line["value"]["path"])
        self.answer({"success": True, "commitOid": "1" * 40, "hookOutput": "",
                     "commitUrl": f"http://{self.headers['Host']}/me/model/commit/1"})

    def log_message(self, *args):
        pass


def uploaded(out):
    """What upload_folder of all of OUT commits."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Hub.committed = set()
    HfApi(endpoint=f"http://127.0.0.1:{server.server_port}", token="hf_x").upload_folder(repo_id="me/model", folder_path=out)
    server.shutdown()
    return Hub.committed


with tempfile.TemporaryDirectory() as temporary:
    os.chdir(temporary)
    with open("d.jsonl", "w", encoding="utf-8") as f:
        for i in range(60):
            print(json.dumps({"text": f"the quick brown fox {i} jumps over the lazy dog {i * i}"}), file=f)
    retort("init", "--preset", "tiny-llama", "--dtype", "f32", "s")
    went, there = sent("model")
    check(went >= {"README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}, f"model: {went}")
    check(not any("/" in name for name in went), f"model: {went}")
    check({name.split("/")[0] for name in there - went} == {"run"}, f"model: {there - went}")
    check(uploaded("model") == went, f"model: {Hub.committed}")
    os.rename("model/.gitignore", "aside")
    check(uploaded("model") == there - {".gitignore"}, "without .gitignore everything goes")
    went, there = sent("adapter one", "--lora-rank", "2", "--merge")
    check(went == {".gitignore", "README.md", "adapter_config.json", "adapter_model.safetensors", "generation_config.json",
                   "tokenizer.json", "tokenizer_config.json"}, f"adapter: {went}")
    check({name.split("/")[0] for name in there - went} == {"run", "merged"}, f"adapter: {there - went}")
    check(uploaded("adapter one") == went, f"adapter: {Hub.committed}")
finish()
