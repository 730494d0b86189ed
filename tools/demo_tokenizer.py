#!/usr/bin/env python3
"""Trains the tokenizer of `make demo`: byte-level BPE over the C sources of this repository.

    tools/demo_tokenizer.py tools/demo/tokenizer.json

Text is cut into words as GPT-2 cuts it, a word keeping the space before it; then the most frequent pair of neighbours
becomes a token, again and again, until there are SIZE ids: bytes, merges, <|endoftext|>. Ties go to the pair that sorts
first, so one state of the sources gives one tokenizer. It was run once: the demo reads the committed file, whatever has
become of the sources since, and needs no Python.
"""
import collections
import json
import pathlib
import re
import sys

SIZE = 1024
FOLDERS = ("bench", "examples", "include", "src", "tests")
END = "<|endoftext|>"
# The pattern of the ByteLevel pre-tokenizer, in what the re module knows; \w is letters, digits and the underscore.
WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def byte_letters():
    """The letters by which tokenizer.json spells bytes: printable ones are themselves."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


def read_words(root):
    letters = byte_letters()
    counts = collections.Counter()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.[ch]")):
            counts.update(WORDS.findall(path.read_text(encoding="utf-8")))
    return {tuple(letters[b] for b in word.encode()): n for word, n in counts.items()}


def join(word, pair):
    out, i = [], 0
    while i < len(word):
        both = word[i : i + 2] == pair
        out.append(word[i] + word[i + 1] if both else word[i])
        i += 2 if both else 1
    return tuple(out)


def train(words, merges_wanted):
    """Pairs are counted once; a merge then counts again only the words that have its pair."""
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for word, n in words.items():
        for pair in zip(word, word[1:]):
            pairs[pair] += n
            where[pair].add(word)
    merges = []
    while len(merges) < merges_wanted:
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        for old in where.pop(best):
            if old not in words:  # was joined by an earlier merge
                continue
            n, new = words.pop(old), join(old, best)
            words[new] = words.get(new, 0) + n
            for pair in zip(old, old[1:]):
                pairs[pair] -= n
            for pair in zip(new, new[1:]):
                pairs[pair] += n
                where[pair].add(new)
    return merges


def main():
    letters = sorted(byte_letters().values())
    merges = train(read_words(pathlib.Path(__file__).resolve().parent.parent), SIZE - len(letters) - 1)
    tokens = [*letters, *("".join(m) for m in merges), END]
    assert len(set(tokens)) == SIZE, "a merge made a token that was there"
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": SIZE - 1, "content": END, "single_word": False, "lstrip": False, "rstrip": False}
    spec = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [end | {"normalized": False, "special": True}],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {t: i for i, t in enumerate(tokens)},
            "merges": [" ".join(m) for m in merges],
        },
    }
    text = json.dumps(spec, ensure_ascii=False, indent=1)
    pathlib.Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    main()
