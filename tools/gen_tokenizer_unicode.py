#!/usr/bin/env python3
"""gen_tokenizer_unicode.py OUT - writes src/text/tokenizer/tok_unicode_generated.h: what the `tokenizers` package takes each code point for.

The package mixes four Unicode versions: its regular expressions, its Rust strings, its punctuation table and its
normalisation each have their own. The libraries that we link have yet others. So the classes are asked for, code point by
code point, and pinned. Needs `pip install tokenizers`; the Python that runs it should have Unicode 14, the version that
the properties of PCRE2 are corrected from.
"""
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
CHUNK = 4096
BASE_VERSION = "14.0.0"


def removed_by(step):
    """Code points that a step removes from a text, asked in chunks."""
    out = set()
    for i in range(0, len(POINTS), CHUNK):
        chunk = POINTS[i:i + CHUNK]
        kept = set("".join(piece for piece, _ in step.pre_tokenize_str("".join(map(chr, chunk)))))
        out.update(c for c in chunk if chr(c) not in kept)
    return out


def matched_by(pattern):
    return removed_by(pre_tokenizers.Split(Regex(pattern), "removed"))


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def word_points():
    step = pre_tokenizers.Whitespace()
    return {c for c in POINTS if [p for p, _ in step.pre_tokenize_str("a" + chr(c))] == ["a" + chr(c)]}


def numeric_points():
    step = pre_tokenizers.Digits(True)
    return {c for c in POINTS if len(step.pre_tokenize_str("a" + chr(c))) == 2}


def norm_sets():
    """Per form, the code points that are not left alone: they change, are reordered, or join the one before."""
    forms = {f: getattr(normalizers, f)() for f in ("NFC", "NFD", "NFKC", "NFKD")}
    alone = {f: {c: n.normalize_str(chr(c)) for c in POINTS} for f, n in forms.items()}
    nfd = forms["NFD"]
    # Of two marks the one of the lower class comes first; these two have the lowest and a high class.
    marks = {c for c in POINTS if nfd.normalize_str("a" + chr(c) + "\u0334") == "a\u0334" + chr(c)
             or nfd.normalize_str("a\u0315" + chr(c)) == "a" + chr(c) + "\u0315"}
    second = {ord(alone["NFD"][c][-1]) for c in POINTS if len(alone["NFD"][c]) > 1 and alone["NFC"][c] == chr(c)}
    out = {}
    for f in forms:
        out[f] = {c for c in POINTS if alone[f][c] != chr(c)} | marks
        if f.endswith("C"):
            out[f] |= second
    return out


def lower_pairs():
    """Simple lower case that Unicode 14 does not have; U+0130 becomes two code points and is left to the code."""
    lower = normalizers.Lowercase()
    out = []
    for c in POINTS:
        low = lower.normalize_str(chr(c))
        if low != chr(c).lower():
            assert len(low) == 1, hex(c)
            out.append((c, ord(low)))
    assert [c for c in POINTS if len(lower.normalize_str(chr(c))) != 1] == [0x130]
    return out


def newer_categories():
    """Code points whose general category came after the base version, with the category that the regex engine gives."""
    out = []
    for gc in ("Lu Ll Lt Lm Lo Mc Me Mn Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cf").split():
        now = matched_by(r"\p{%s}" % gc)
        was = {c for c in POINTS if unicodedata.category(chr(c)) == gc}
        # U+1171E moved from Mn to Mc; a correction can only add, so Mn alone is refused in patterns.
        assert gc == "Mn" or was <= now, gc
        out += [(a, b, gc) for a, b in ranges(now - was)]
    return sorted(out)


def write_runs(out, classes):
    """One table for all classes: where the bits of the code points change, and what they are from there on."""
    bits = [0] * 0x110000
    for i, points in enumerate(classes):
        for c in points:
            bits[c] |= 1 << i
    changes = [c for c in range(len(bits)) if c == 0 or bits[c] != bits[c - 1]]
    items = [f"{{0x{c:X},{hex(bits[c]) if bits[c] else 0}}}" for c in changes]
    write_items(out, "rt_cp_run", "runs", items, "bits of RT_CP_* from a code point to that of the next run")


def write_items(out, kind, name, items, comment):
    out.append(f"/* {comment} */")
    out.append(f"static const {kind} {name}[] = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 118:
            out.append(line)
            line = "   "
        line += f" {item},"
    out.append(line)
    out.append("};")


def main():
    assert unicodedata.unidata_version == BASE_VERSION, f"this Python has Unicode {unicodedata.unidata_version}"
    letters, numbers, marks = (matched_by(r"\p{%s}" % gc) for gc in "LNM")
    space = matched_by(r"\s")
    assert space == removed_by(pre_tokenizers.WhitespaceSplit())
    word, regex_word = word_points(), matched_by(r"\w")
    punctuation = removed_by(pre_tokenizers.Punctuation("removed"))
    strip = normalizers.StripAccents()
    accents = {c for c in POINTS if strip.normalize_str(chr(c)) == ""}
    forms = norm_sets()
    # In the order of the bits of RT_CP_*.
    classes = [letters, numbers, marks, space, numeric_points(), word, punctuation, accents, forms["NFC"], forms["NFD"],
               forms["NFKC"], forms["NFKD"], regex_word]
    write(classes, lower_pairs(), newer_categories())


def write(classes, lower, categories):
    out = ["/* tok_unicode_generated.h - what the tokenizers package takes each code point for. Written by",
           f" * tools/gen_tokenizer_unicode.py with tokenizers {tokenizers.__version__}; not edited by hand.",
           " *",
           " * Owns: the pinned classes. Several Unicode versions are at work in that package, and the linked libraries have yet",
           " * others; equal ids need equal classes. Included by tok_unicode.c alone. */",
           "#ifndef RT_TOKENIZER_TOK_UNICODE_GENERATED_H", "#define RT_TOKENIZER_TOK_UNICODE_GENERATED_H", "",
           '#include "text/tokenizer/tok_unicode.h"', "", "/* clang-format off */"]
    write_runs(out, classes)
    write_items(out, "rt_tok_lower", "newer_lower", [f"{{0x{a:X},0x{b:X}}}" for a, b in lower],
                f"lower case that Unicode {BASE_VERSION} does not have")
    write_items(out, "rt_tok_category", "newer_category",
                [f'{{0x{a:X},0x{b:X},"{gc}"}}' for a, b, gc in categories],
                f"general categories that Unicode {BASE_VERSION} does not have")
    out += ["/* clang-format on */", "", "#endif"]
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
