#!/usr/bin/env python3
"""gen_tokenizer_golden.py [DIR] - writes tests/golden/tokenizers/*.json: small tokenizers, texts, and what `tokenizers` makes of them.

A file holds the version that wrote it, a whole tokenizer.json under "tokenizer", and cases: the bytes of a text in hexadecimal,
its ids without and with special tokens, and the text that the ids decode to. unicode.json holds one number per class of code
points, over all of them, and per normalizer.
"""
import json
import os
import random
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "interop"))

import tokenizers  # noqa: E402
from tokenizers import Regex, normalizers, pre_tokenizers  # noqa: E402

import tokenizer_kinds  # noqa: E402
import tokenizer_texts  # noqa: E402

KINDS = ["gpt2", "roberta", "llama3", "qwen3", "qwen35", "deepseek-coder", "deepseek-v3", "starcoder", "gpt-4o", "falcon", "clip", "llama2",
         "mistral", "gemma", "metaspace-first", "unknown-fused", "subword"]
CASES = 40
POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def number_of(data):
    """FNV-1a, 64 bits, as decimal digits: JSON's numbers are too small for it."""
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return str(h)


def removed(step):
    out = bytearray()
    for i in range(0, len(POINTS), 4096):
        chunk = POINTS[i:i + 4096]
        kept = set("".join(p for p, _ in step.pre_tokenize_str("".join(map(chr, chunk)))))
        out += bytes(chr(c) not in kept for c in chunk)
    return number_of(out)


def matched(pattern):
    return removed(pre_tokenizers.Split(Regex(pattern), "removed"))


def normalized(step):
    return number_of("\n".join(step.normalize_str(chr(c)) for c in POINTS).encode())


def unicode_numbers():
    classes = {name: matched(pattern) for name, pattern in (
        ("L", r"\p{L}"), ("N", r"\p{N}"), ("M", r"\p{M}"), ("s", r"\s"), ("S", r"\S"), ("w", r"\w"), ("d", r"\d"), ("P", r"\p{P}"), ("Sc", r"\p{S}"),
        ("Lu", r"\p{Lu}"), ("Ll", r"\p{Ll}"), ("Lm", r"\p{Lm}"), ("Lo", r"\p{Lo}"), ("i", r"(?i:[skd])"), ("nS", r"[^\S\r\n]"))}
    classes["punct"] = removed(pre_tokenizers.Punctuation("removed"))
    classes["space"] = removed(pre_tokenizers.WhitespaceSplit())
    forms = {name: normalized(getattr(normalizers, name)()) for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")}
    # Sequences, for order and composition.
    r = random.Random(11)
    pool = [c for c in POINTS if normalizers.NFKD().normalize_str(chr(c)) != chr(c)] + list(range(0x300, 0x370)) + list(range(0x1100, 0x1200)) * 2
    strings = ["".join(chr(r.choice(pool)) if r.random() < .7 else r.choice("aeiouAEOUq\u0915\u05d0 ") for _ in range(r.randint(2, 6))) for _ in range(250)]
    # Compositions that are newer than the package's tables.
    strings += ["\U00011935\U00011930", "\U000105d2\u0307", "\U00011382\U000113c9", "\U0001611e\U0001611e"]
    sequences = [[s] + [getattr(normalizers, f)().normalize_str(s) for f in ("NFC", "NFD", "NFKC", "NFKD")] for s in strings]
    return {"tokenizers": tokenizers.__version__, "classes": classes, "forms": forms, "sequences": sequences}


def golden(name):
    conf = tokenizer_kinds.KINDS[name](tokenizer_texts.corpus(300))
    conf["added_tokens"] = [t for t in conf["added_tokens"] if "reserved" not in t["content"] or t["content"].endswith(("_1|>", "_17|>"))]
    vocab = conf["model"]["vocab"]
    next_id = len(vocab)
    for t in conf["added_tokens"]:  # numbered again, where some were left out
        if t["content"] not in vocab:
            t["id"], next_id = next_id, next_id + 1
    tok = tokenizers.Tokenizer.from_str(json.dumps(conf))
    cases = []
    for data in tokenizer_texts.texts(CASES, len(name)):
        text = data.decode("utf-8", "replace")
        ids = tok.encode(text, add_special_tokens=False).ids
        special, decoded, plain = tok.encode(text).ids, tok.decode(ids, skip_special_tokens=False), tok.decode(ids)
        # null: the same as the one before
        cases.append([data.hex(), ids, None if special == ids else special, decoded, None if plain == decoded else plain])
    return {"tokenizers": tokenizers.__version__, "kind": name, "tokenizer": conf, "cases": cases}


def write(folder, name, value):
    with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "tests", "golden", "tokenizers")
    os.makedirs(folder, exist_ok=True)
    tokenizer_kinds.LIMIT = 460
    for name in KINDS:
        write(folder, name, golden(name))
    write(folder, "unicode", unicode_numbers())


if __name__ == "__main__":
    main()
