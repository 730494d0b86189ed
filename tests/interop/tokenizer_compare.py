#!/usr/bin/env python3
"""tokenizer_compare.py --cli PROGRAM - our ids and texts beside those of the `tokenizers` package.

Trains tokenizers with published configurations (tokenizer_kinds.py), encodes generated texts (tokenizer_texts.py) with both
and compares ids; decodes and compares texts, at once and as a stream. PROGRAM is tok_cli, built from tok_cli.c.

  --count N    texts per kind (200000)       --kinds a,b   only these     --random N  kinds put together at random (60)
  --seed S     another set of texts          --files a,b   tokenizer.json files instead of kinds
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time

import tokenizers
import tokenizer_kinds
import tokenizer_texts

ENCODE, SPECIAL, PLAIN, DECODE, SKIP, STREAM = range(6)
BATCH = 2000
PANIC = object()


class Ours:
    """tok_cli behind a pipe."""

    def __init__(self, program, path):
        self.proc = subprocess.Popen([program, "serve", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, requests):
        """Answers of (operation, bytes) requests: bytes, or None for an error."""
        def write():
            for op, data in requests:
                self.proc.stdin.write(struct.pack("<II", op, len(data)) + data)
            self.proc.stdin.flush()
        writer = threading.Thread(target=write)
        writer.start()
        answers = []
        for op, _ in requests:
            head = self.proc.stdout.read(8)
            if len(head) < 8:
                raise RuntimeError("tok_cli ended")
            status, count = struct.unpack("<II", head)
            data = self.proc.stdout.read(count * (4 if op <= PLAIN else 1))
            answers.append(data if status == 0 else None)
        writer.join()
        return answers

    def close(self):
        self.proc.stdin.close()
        return self.proc.wait()


def ids_of(data):
    return list(struct.unpack(f"<{len(data) // 4}I", data))


class Refused(Exception):
    """Ours does not load the file."""


class Comparison:
    def __init__(self, name, conf, program, folder):
        self.name, self.bad, self.encoded, self.decoded, self.panics = name, 0, 0, 0, 0
        path = os.path.join(folder, name + ".json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(conf, f, ensure_ascii=False)
        shown = subprocess.run([program, "show", path], capture_output=True, text=True)
        if shown.returncode != 0:
            raise Refused(shown.stderr.strip())
        self.theirs = tokenizers.Tokenizer.from_file(path)
        self.ours = Ours(program, path)

    def differ(self, what, text, ours, theirs):
        self.bad += 1
        if self.bad <= 5:
            print(f"{self.name}: {what} of {text!r}:\n  ours   {ours!r}\n  theirs {theirs!r}")

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
        op = ENCODE
        if self.encoded // BATCH % 4 == 1:
            op = SPECIAL
        self.theirs.encode_special_tokens = plain = self.encoded // BATCH % 4 == 3
        if plain:
            op = PLAIN
        theirs = self.their_ids(strings, op == SPECIAL)
        for text, data, want in zip(batch, self.ours.ask([(op, b) for b in batch]), theirs):
            got = None if data is None else ids_of(data)
            if want is PANIC:
                self.panics += 1
            elif got != want:
                self.differ("ids", text, got, want)
        self.encoded += len(batch)
        return [ids for ids in theirs if ids and ids is not PANIC]

    def decode(self, lists):
        requests = []
        for ids in lists:
            data = struct.pack(f"<{len(ids)}I", *ids)
            requests += [(DECODE, data), (SKIP, data), (STREAM, data)]
        answers = self.ours.ask(requests)
        for i, ids in enumerate(lists):
            want, want_skip = self.theirs.decode(ids, skip_special_tokens=False), self.theirs.decode(ids, skip_special_tokens=True)
            plain, skip, stream = [a if a is None else a.decode("utf-8") for a in answers[3 * i:3 * i + 3]]
            if plain != want:
                self.differ("text", ids, plain, want)
            if skip != want_skip:
                self.differ("text without specials", ids, skip, want_skip)
            if stream != want and "\ufffd" not in want:
                self.differ("stream", ids, stream, want)
        self.decoded += len(lists)

    def run(self, texts):
        for i in range(0, len(texts), BATCH):
            lists = self.encode(texts[i:i + BATCH])
            if i // BATCH % 8 == 0:
                # Cut lists begin and end inside characters.
                self.decode([ids[n % 3:len(ids) - n % 2] for n, ids in enumerate(lists)])
        if self.ours.close() != 0:
            self.bad += 1
        return self.bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cli", required=True)
    parser.add_argument("--count", type=int, default=200000)
    parser.add_argument("--random", type=int, default=60)
    parser.add_argument("--kinds")
    parser.add_argument("--files")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    print(f"tokenizers {tokenizers.__version__}, {args.count} texts per kind")
    corpus = tokenizer_texts.corpus()
    texts = list(tokenizer_texts.texts(args.count, args.seed))
    makers = {name: make for name, make in tokenizer_kinds.KINDS.items() if not args.kinds or name in args.kinds.split(",")}
    if args.files:
        makers = {os.path.basename(p)[:-5]: lambda c, p=p: json.load(open(p, encoding="utf-8")) for p in args.files.split(",")}
    elif not args.kinds:
        makers.update({f"random-{s}": lambda c, s=s: tokenizer_kinds.random_kind(c, s) for s in range(args.random)})
    failed = refused = total = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, make in makers.items():
            start = time.time()
            try:
                comparison = Comparison(name, make(corpus), args.cli, folder)
            except Refused as refusal:
                # What is put together at random may be ambiguous; what is published must load.
                print(f"{name}: {str(refusal).split(': ', 1)[1]}")
                if name.startswith("random-"):
                    refused += 1
                else:
                    failed += 1
                continue
            bad = comparison.run(texts[:max(2000, args.count // 20)] if name.startswith("random-") else texts)
            total += comparison.encoded
            failed += bad > 0
            print(f"{name}: {comparison.encoded} encoded, {comparison.decoded} decoded, {bad} differ, {time.time() - start:.1f} s", flush=True)
    print(f"{total} texts, {len(makers) - failed - refused} kinds agree, {refused} refused, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
