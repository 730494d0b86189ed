"""alter.py - for evidence.sh: alters a copy of a finished run in one way after another; `retort verify` must find each.

Usage: alter.py RUN COPY NAME makes COPY as RUN with the alteration NAME; alter.py --list prints the names.
Needs the standard library alone.
"""
import glob
import json
import os
import shutil
import sys

ALTERATIONS = {}


def alteration(f):
    ALTERATIONS[f.__name__] = f
    return f


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def replace(path, old, new, count=1):
    data = read(path)
    assert old in data, f"{path} has no {old}"
    write(path, data.replace(old, new, count))


def lines(path):
    return read(path).decode().splitlines(keepends=True)


def put_lines(path, kept):
    write(path, "".join(kept).encode())


def change_line(number, key, by):
    """One number of one line of the log."""
    path = "run/metrics.jsonl"
    all_lines = lines(path)
    j = json.loads(all_lines[number])
    j[key] = [by(j[key][0]), j[key][1]] if isinstance(j[key], list) else by(j[key])
    all_lines[number] = json.dumps(j, separators=(",", ":")) + "\n"
    put_lines(path, all_lines)


def flip(path, at):
    data = bytearray(read(path))
    data[at] ^= 1
    write(path, bytes(data))


# ---- a metrics line ----

@alteration
def a_loss():
    change_line(3, "loss", lambda x: x * 0.9)


@alteration
def a_rate():
    change_line(4, "lr", lambda x: x * 2)


@alteration
def tokens():
    change_line(5, "tokens", lambda x: x + 1)


@alteration
def trained_rows():
    change_line(5, "rows", lambda x: x * 2)


@alteration
def last_evaluation():
    change_line(-1, "ce", lambda x: x * 0.5)


@alteration
def first_evaluation():
    change_line(0, "forward_kl", lambda x: x * 2)


@alteration
def line_removed():
    put_lines("run/metrics.jsonl", [line for i, line in enumerate(lines("run/metrics.jsonl")) if i != 6])


@alteration
def line_twice():
    kept = lines("run/metrics.jsonl")
    put_lines("run/metrics.jsonl", kept[:7] + kept[6:])


@alteration
def lines_swapped():
    kept = lines("run/metrics.jsonl")
    kept[3], kept[4] = kept[4], kept[3]
    put_lines("run/metrics.jsonl", kept)


@alteration
def line_added():
    put_lines("run/metrics.jsonl", lines("run/metrics.jsonl") + ['{"event":"note"}\n'])


@alteration
def log_cut():
    write("run/metrics.jsonl", read("run/metrics.jsonl")[:-5])


@alteration
def a_space():
    replace("run/metrics.jsonl", b'"step":3,', b'"step": 3,')


# ---- a weight byte ----

@alteration
def first_weight():
    size = int.from_bytes(read("model.safetensors")[:8], "little")
    flip("model.safetensors", 8 + size)


@alteration
def last_weight():
    flip("model.safetensors", -1)


@alteration
def weights_emptied():
    write("model.safetensors", b"")


@alteration
def weights_removed():
    os.remove("model.safetensors")


@alteration
def checkpoint_weight():
    flip(sorted(glob.glob("run/checkpoints/checkpoint-*/model.safetensors"))[-1], -1)


@alteration
def checkpoint_state():
    flip(sorted(glob.glob("run/checkpoints/checkpoint-*/state.safetensors"))[-1], -1)


@alteration
def checkpoint_record():
    flip(sorted(glob.glob("run/checkpoints/checkpoint-*/state.json"))[-1], 40)


@alteration
def configuration():
    replace("config.json", b'"bos_token_id"' if b'"bos_token_id"' in read("config.json") else b'"vocab_size"', b'"x"')


@alteration
def tokenizer():
    flip("tokenizer.json", 100)


# ---- the manifest's hashes ----

def change_manifest(f):
    j = json.loads(read("run/manifest.json"))
    f(j)
    write("run/manifest.json", (json.dumps(j, indent=2) + "\n").encode())


@alteration
def file_hash():
    change_manifest(lambda j: j["files"].update({"model.safetensors": "0" * 32}))


@alteration
def student_hash():
    change_manifest(lambda j: j["student"].update({"content_hash": "0" * 32}))


@alteration
def data_hash():
    change_manifest(lambda j: j["data"]["train"][0]["shards"][0].update({"hash": "0" * 32}))


@alteration
def own_hash():
    change_manifest(lambda j: j.update({"hash": "0" * 32}))


@alteration
def one_digit_of_a_hash():
    data = read("run/manifest.json")
    at = data.index(b'"content_hash": "') + 20
    digit = b"0" if data[at:at + 1] != b"0" else b"1"
    write("run/manifest.json", data[:at] + digit + data[at + 1:])


@alteration
def measured():
    change_manifest(lambda j: j["measured"]["rows"].update({"trained": 1}))


@alteration
def file_left_out():
    change_manifest(lambda j: j["files"].pop("run/metrics.jsonl"))


@alteration
def device():
    change_manifest(lambda j: j["sessions"][0]["device"].update({"name": "a faster one"}))


@alteration
def manifest_emptied():
    write("run/manifest.json", b"")


@alteration
def manifest_removed():
    os.remove("run/manifest.json")


# ---- a verdict ----

@alteration
def verdict_turned():
    replace("run/verdict.json", b'"pass"', b'"fail"')


@alteration
def verdict_measured():
    replace("run/verdict.json", b" before, ", b" before; ")


@alteration
def verdict_removed():
    j = json.loads(read("run/verdict.json"))
    j["falsifiers"].pop()
    write("run/verdict.json", json.dumps(j, indent=2).encode())


# ---- what the run was made of ----

@alteration
def setting():
    replace("run/settings.json", b'"batch": 4', b'"batch": 8')


@alteration
def resolved():
    replace("run/resolved.yaml", b"batch", b"match")


@alteration
def token_shard():
    flip("run/data/train-00.tokens", -1)


@alteration
def tensorboard():
    flip(glob.glob("run/events.out.tfevents.*")[0], -6)


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(ALTERATIONS))
        return
    run, copy, name = sys.argv[1:]
    shutil.copytree(run, copy)
    os.chdir(copy)
    ALTERATIONS[name]()


main()
