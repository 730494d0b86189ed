"""tokenizer_client.py - our tokenizer behind a pipe (tok_cli.c), and the count of differences from another's ids and texts."""
import struct
import subprocess

from interop import Pipe, count, program

ENCODE, SPECIAL, PLAIN, DECODE, SKIP, STREAM = range(6)
SHOWN = 5


class Refused(Exception):
    """Ours does not load the file."""


class Ours:
    """A tokenizer.json, or a GGUF file with a vocabulary."""

    def __init__(self, path):
        shown = subprocess.run([program("tok"), "show", path], capture_output=True, text=True)
        if shown.returncode != 0:
            raise Refused(shown.stderr.strip())
        self.pipe = Pipe([program("tok"), "serve", path])

    def ask(self, requests):
        """Answers of (operation, bytes) requests: a list of ids or bytes, or None for an error."""
        def read(output, i):
            head = output.read(8)
            if len(head) < 8:
                raise RuntimeError("tok_cli ended")
            status, number = struct.unpack("<II", head)
            ids = requests[i][0] <= PLAIN
            data = output.read(number * (4 if ids else 1))
            if status:
                return None
            return list(struct.unpack(f"<{number}I", data)) if ids else data
        return self.pipe.ask([struct.pack("<II", op, len(data)) + data for op, data in requests], read)

    def encode(self, texts, op=ENCODE):
        return self.ask([(op, text) for text in texts])

    def decode(self, lists, op=DECODE):
        """Texts, or None for an error."""
        answers = self.ask([(op, struct.pack(f"<{len(ids)}I", *ids)) for ids in lists])
        return [a if a is None else a.decode("utf-8") for a in answers]

    def close(self):
        return self.pipe.close()


class Tally:
    """What was compared of one tokenizer. It is one case."""

    def __init__(self, name):
        self.name, self.encoded, self.decoded, self.different, self.incomparable = name, 0, 0, 0, 0

    def differ(self, what, given, ours, theirs):
        self.different += 1
        if self.different <= SHOWN:
            print(f"{self.name}: {what} of {given!r}:\n  ours   {ours!r}\n  theirs {theirs!r}", flush=True)

    def compare(self, what, given, ours, theirs):
        for g, o, t in zip(given, ours, theirs, strict=True):
            if o != t:
                self.differ(what, g, o, t)

    def done(self, seconds):
        left_out = f", {self.incomparable} not comparable" if self.incomparable else ""
        print(f"{self.name:<24} {self.encoded:>7} encoded, {self.decoded:>6} decoded, {self.different} differ{left_out}, "
              f"{seconds:.1f} s", flush=True)
        ok = self.different == 0 and self.encoded > 0
        count(ok, not ok)
