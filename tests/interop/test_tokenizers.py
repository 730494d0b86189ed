#!/usr/bin/env python3
"""test_tokenizers.py - our ids and texts beside those of the `tokenizers` package.

Trains tokenizers with published configurations (tokenizer_kinds.py), encodes generated texts (tokenizer_texts.py) with both
and compares ids; decodes and compares texts, at once and as a stream. Without LIGHT: 200,000 texts for each kind.

  --count N    texts for each kind     --kinds a,b   only these     --random N  kinds put together at random
  --seed S     another set of texts    --files a,b   tokenizer.json files instead of kinds
"""
import argparse
import json
import os
import tempfile
import time

import tokenizers
import tokenizer_kinds
import tokenizer_texts
from interop import LIGHT, count, finish
from tokenizer_client import DECODE, ENCODE, PLAIN, SKIP, SPECIAL, STREAM, Ours, Refused, Tally

BATCH, DOCUMENTS = 2000, 100
PANIC = object()


class Comparison(Tally):
    def __init__(self, name, conf, folder):
        super().__init__(name)
        path = os.path.join(folder, name + ".json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(conf, f, ensure_ascii=False)
        self.ours = Ours(path)
        self.theirs = tokenizers.Tokenizer.from_file(path)

    def their_ids(self, strings, special):
        """Lists of ids, None where the package fails, PANIC where it breaks down: then there is nothing to compare with."""
        try:
            return [e.ids for e in self.theirs.encode_batch_fast(strings, add_special_tokens=special)]
        except BaseException as error:  # a panic is no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            if len(strings) == 1:
                return [None if isinstance(error, Exception) else PANIC]
            half = len(strings) // 2
            return self.their_ids(strings[:half], special) + self.their_ids(strings[half:], special)

    def encode(self, batch):
        strings = [b.decode("utf-8", "replace") for b in batch]
        op = (ENCODE, SPECIAL, ENCODE, PLAIN)[self.encoded // BATCH % 4]
        self.theirs.encode_special_tokens = op == PLAIN
        theirs = self.their_ids(strings, op == SPECIAL)
        for text, got, want in zip(batch, self.ours.encode(batch, op), theirs, strict=True):
            if want is PANIC:
                self.incomparable += 1
            elif got != want:
                self.differ("ids", text, got, want)
        self.encoded += len(batch)
        return [ids for ids in theirs if ids and ids is not PANIC]

    def decode(self, lists):
        want = self.theirs.decode_batch(lists, skip_special_tokens=False)
        self.compare("text", lists, self.ours.decode(lists, DECODE), want)
        self.compare("text without specials", lists, self.ours.decode(lists, SKIP),
                     self.theirs.decode_batch(lists, skip_special_tokens=True))
        for ids, got, text in zip(lists, self.ours.decode(lists, STREAM), want, strict=True):
            if got != text and "\ufffd" not in text:
                self.differ("stream", ids, got, text)
        self.decoded += len(lists)

    def run(self, texts):
        start = time.monotonic()
        for i in range(0, len(texts), BATCH):
            lists = self.encode(texts[i:i + BATCH])
            if i // BATCH % 8 == 0:
                # Cut lists begin and end inside characters.
                self.decode([ids[n % 3:len(ids) - n % 2] for n, ids in enumerate(lists)])
        if self.ours.close() != 0:
            self.differ("exit status", "tok_cli", "not 0", 0)
        self.done(time.monotonic() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10000 if LIGHT else 200000)
    parser.add_argument("--random", type=int, default=20 if LIGHT else 200)
    parser.add_argument("--kinds")
    parser.add_argument("--files")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    print(f"tokenizers {tokenizers.__version__}, {args.count} texts for each kind, seed {args.seed}", flush=True)
    corpus = tokenizer_texts.corpus()
    # Long documents at the end, so that every kind has some.
    texts = list(tokenizer_texts.texts(args.count - DOCUMENTS, args.seed)) + list(tokenizer_texts.documents(DOCUMENTS, args.seed))
    makers = {name: make for name, make in tokenizer_kinds.KINDS.items() if not args.kinds or name in args.kinds.split(",")}
    if args.files:
        makers = {os.path.basename(p)[:-5]: lambda c, p=p: json.load(open(p, encoding="utf-8")) for p in args.files.split(",")}
    elif not args.kinds:
        makers.update({f"random-{s}": lambda c, s=s: tokenizer_kinds.random_kind(c, s) for s in range(args.random)})
    total = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, make in makers.items():
            at_random = name.startswith("random-")
            try:
                comparison = Comparison(name, make(corpus), folder)
            except Refused as refusal:
                # What is put together at random may be ambiguous; what is published must load.
                print(f"{name}: {str(refusal).split(': ', 1)[1]}", flush=True)
                refused += at_random
                count(0, not at_random)
                continue
            comparison.run(texts[-DOCUMENTS - max(2000, args.count // 20):20 - DOCUMENTS] if at_random else texts)
            total += comparison.encoded
    print(f"{total} texts, {len(makers)} kinds, {refused} refused")
    finish()


if __name__ == "__main__":
    main()
