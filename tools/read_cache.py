#!/usr/bin/env python3
"""read_cache.py FOLDER - prints a cache of a teacher, one position a line, with nothing but docs/teacher-cache.md and the
standard library: section, key, place in the block, kind, and its values; floats as the eight digits of their f32.

It checks no hash (there is no XXH3 in the standard library); positions that several files have are printed once.
"""
import json
import math
import os
import re
import struct
import sys


class Bits:
    """Bits of a record, the lowest of a byte first."""

    def __init__(self, data, start):
        self.value, self.start, self.size = int.from_bytes(data[start:], "little"), start, 8 * (len(data) - start)

    def get(self, at, width):
        return (self.value >> at) & ((1 << width) - 1)

    def unary(self, at):
        """(zeros before the next one, what follows it)"""
        rest = self.value >> at
        if rest == 0:
            raise ValueError("a record without an end")
        zeros = (rest & -rest).bit_length() - 1
        return zeros, at + zeros + 1

    def ids(self, count, low, low_at, high_at):
        """The sorted set, and the byte that follows it."""
        found, above = [], 0
        for i in range(count):
            zeros, high_at = self.unary(high_at)
            above += zeros
            found.append(above << low | self.get(low_at + i * low, low))
        return found, self.start + (high_at + 7) // 8


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def digits(x):
    return f"{struct.unpack('<I', struct.pack('<f', x))[0]:08x}"


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def mass(code):
    e, m = code >> 10 & 31, code & 1023
    value = m * 2.0**-41 if e == 0 else (1024 + m) * 2.0 ** (e - 42)
    return f32(1 - value if code & 0x8000 else value)


def topk(section, data):
    """(values of the record at the front of data, its length)"""
    low, count, at = data[0] & 31, section["n"], 1
    if data[0] & 32:
        count, at = varint(data, at)
    if section["exact"]:
        rest, at, width = struct.unpack_from("<f", data, at)[0], at + 4, 32
    else:
        scale, highest, code = struct.unpack_from("<BfH", data, at)
        rest, step, at, width = mass(code), (8 + scale % 8) * 2.0 ** (scale // 8 - 20) / 256, at + 7, 10
    if section["target"]:
        which, at = varint(data, at)
        target, at = (None, at) if which else (struct.unpack_from("<I", data, at)[0], at + 4)
        target_logp, at = struct.unpack_from("<f", data, at)[0], at + 4
    bits = Bits(data, at)
    ids, end = bits.ids(count, low, 0, count * (low + width))
    codes = [bits.get(count * low + i * width, width) for i in range(count)]
    if section["exact"]:
        logps = [struct.unpack("<f", struct.pack("<I", c))[0] for c in codes]
    else:
        logps = [f32(highest - f32(step * (((256 + c % 256) << c // 256) - 256))) for c in codes]
    values = [f"{i}:{digits(lp)}" for lp, i in sorted(zip(logps, ids), key=lambda x: (-x[0], x[1]))]
    if section["target"]:
        values += [f"target {ids[which - 1] if which else target}:{digits(target_logp)}"]
    return [f"rest {digits(rest)}"] + values, end


def draws(section, data):
    low, entropy = struct.unpack_from("<Bf", data)
    n, bits = section["n"], Bits(data, 5)
    count = bin(bits.get(0, n)).count("1")
    ids, end = bits.ids(count, low, n, n + count * low)
    times, at = [], 0
    for _ in range(count):
        zeros, at = bits.unary(at)
        times.append(zeros + 1)
    drawn = sorted(zip(times, ids), key=lambda x: (-x[0], x[1]))
    return [f"entropy {digits(entropy)}"] + [f"{i}:{digits(math.log(t / n))}" for t, i in drawn], end


def hidden(section, data):
    end = section["n"] * (4 if section["dtype"] == "f32" else 2)
    return [data[:end].hex()], end


def positions(path, cache):
    """(section, key, place, values) of a file of blocks."""
    with open(path, "rb") as f:
        data = f.read()
    magic, version, header, of = struct.unpack_from("<8sII16s", data)
    section, _, blocks, _, index, size = struct.unpack_from("<IIQQQQ", data, 32)
    if magic != b"RTBLOCKS" or version != 1 or header != 128 or size != len(data) or of.hex() != cache["hash"]:
        raise ValueError(f"{path} is no file of blocks of this cache")
    about = cache["sections"][section]
    for i in range(blocks):
        key, have, at, length, _ = struct.unpack_from("<16sQQII", data, index + 40 * i)
        block = data[at:at + length]
        for place in (p for p in range(64) if have >> p & 1):
            values, used = {"topk": topk, "draws": draws, "hidden": hidden}[about["keep"]](about, block)
            block = block[used:]
            yield section, key.hex(), place, values
        if block:
            raise ValueError(f"{path}: a block is longer than its records")


def main():
    folder, seen = sys.argv[1], set()
    with open(os.path.join(folder, "cache.json"), encoding="utf-8") as f:
        cache = json.load(f)
    if cache["format"] != "retort teacher cache" or cache["version"] != 1:
        sys.exit(f"{folder} is no cache of version 1")
    parts = sorted((int(name[5:]), name) for name in os.listdir(folder) if re.fullmatch(r"part-\d+", name))
    for _, part in parts:
        for name in sorted(n for n in os.listdir(os.path.join(folder, part)) if re.fullmatch(r"\d+\.rtcache", n)):
            for section, key, place, values in positions(os.path.join(folder, part, name), cache):
                if (section, key, place) not in seen:
                    seen.add((section, key, place))
                    print(section, key, place, cache["sections"][section]["keep"], *values)


if __name__ == "__main__":
    main()
