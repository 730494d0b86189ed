#!/usr/bin/env python3
"""The text of `make demo-real`: what Python says of itself, which every machine with Python has.

    tools/demo/manual.py FOLDER

Writes FOLDER/train.jsonl and FOLDER/held-out.jsonl: the chapters of the language reference that pydoc shows, and the
docstrings of the standard library, in pieces of a paragraph or more. Whole chapters and modules are held out, until there
are HELD_OUT characters; a piece that shares twelve words in a row with them is not trained.
"""
import ast
import inspect
import json
import pathlib
import sys
import sysconfig
import zlib
from pydoc_data.topics import topics

PIECE, LEAST, HELD_OUT, WORDS = 1500, 120, 8000, 12
OTHERS = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages"}


def pieces(text):
    piece = ""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if piece and len(piece) + len(paragraph) > PIECE:
            yield piece.strip()
            piece = ""
        piece += paragraph + "\n\n"
    yield piece.strip()


def docstrings(path):
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):  # some files are there to be wrong
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield ast.get_docstring(node) or ""


def sources():
    """Names of chapters and modules with their texts."""
    for name, text in topics.items():
        yield name, [text]
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if not OTHERS & set(parts):
            yield ".".join(parts), docstrings(path)


def runs(text):
    words = text.split()
    return {tuple(words[i : i + WORDS]) for i in range(max(1, len(words) - WORDS + 1))}


def main(folder):
    held, trained, seen, known = [], [], set(), set()
    for _, texts in sorted(sources(), key=lambda source: zlib.crc32(source[0].encode())):
        found = [p for text in texts for p in pieces(text) if len(p) >= LEAST]
        found = [p for p in found if not (p in seen or seen.add(p))]
        (held if sum(map(len, held)) < HELD_OUT else trained).extend(found)
    for piece in held:
        known |= runs(piece)
    folder.mkdir(parents=True, exist_ok=True)
    for name, texts in ("train", [p for p in trained if not runs(p) & known]), ("held-out", held):
        lines = [json.dumps({"text": text}) + "\n" for text in texts]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    main(pathlib.Path(sys.argv[1]))
