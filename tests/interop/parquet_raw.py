"""parquet_raw.py - a Parquet file from its parts, for shapes that no package writes: lists of two levels, other codecs, faults.

A schema is a list of Element in depth-first order, the root first. A column is a list of entries (repetition level, definition
level, value); values of entries below the highest definition level are not written. Plain encoding, one page a column.
"""
import collections
import struct

REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
UTF8, MAP, MAP_KEY_VALUE, LIST = 0, 1, 2, 3
I32, I64, BINARY, LIST_OF, STRUCT = 5, 6, 8, 9, 12

Element = collections.namedtuple("Element", "name repetition type children converted", defaults=(REQUIRED, None, 0, None))


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def zigzag(n):
    return varint(n << 1 if n >= 0 else (-n << 1) - 1)


def thrift(fields):
    """A struct of (id, type, value); a value of None is left out, a list is (type of its elements, values)."""
    out, last = bytearray(), 0
    for number, kind, value in fields:
        if value is None:
            continue
        out.append((number - last) << 4 | kind)
        last = number
        out += of_type(kind, value)
    return bytes(out) + b"\0"


def of_type(kind, value):
    if kind in (I32, I64):
        return zigzag(value)
    if kind == BINARY:
        return varint(len(value)) + value
    if kind == LIST_OF:
        element, values = value
        head = bytes([len(values) << 4 | element]) if len(values) < 15 else bytes([0xF0 | element]) + varint(len(values))
        return head + b"".join(of_type(element, v) for v in values)
    return value  # a struct, as bytes


def plain(kind, values):
    if kind == BYTE_ARRAY:
        return b"".join(struct.pack("<I", len(v)) + v for v in values)
    if kind == BOOLEAN:
        bits = sum(int(v) << i for i, v in enumerate(values))
        return bits.to_bytes((len(values) + 7) // 8, "little")
    if kind == INT96:
        return b"\0" * 12 * len(values)
    return b"".join(struct.pack({INT32: "<i", INT64: "<q", FLOAT: "<f", DOUBLE: "<d"}[kind], v) for v in values)


def levels(values, most):
    """Runs of one value each, with their length before them; nothing where there is but one level."""
    if most == 0:
        return b""
    body = b"".join(varint(1 << 1) + bytes([v]) for v in values)
    return struct.pack("<I", len(body)) + body


def leaves(schema):
    """(element, highest definition level, highest repetition level, path) of each leaf."""
    found, at = [], 1

    def walk(deepest, repeated, path):
        nonlocal at
        e = schema[at]
        at += 1
        deepest += e.repetition != REQUIRED
        repeated += e.repetition == REPEATED
        path = path + [e.name]
        if e.type is not None:
            found.append((e, deepest, repeated, path))
        for _ in range(e.children):
            walk(deepest, repeated, path)
    for _ in range(schema[0].children):
        walk(0, 0, [])
    return found


def build(schema, rows, columns, codec=0, encoding=0, page=None, chunk=(), values=None):
    """The file. page: the bytes of every page instead; chunk: fields of ColumnChunk besides; values: counts to be claimed."""
    out, chunks = bytearray(b"PAR1"), []
    for (e, deepest, repeated, path), entries in zip(leaves(schema), columns, strict=True):
        body = page if page is not None else (
            levels([r for r, _, _ in entries], repeated) + levels([d for _, d, _ in entries], deepest) +
            plain(e.type, [v for _, d, v in entries if d == deepest]))
        claimed = len(entries) if values is None else values
        data = thrift([(1, I32, claimed), (2, I32, encoding), (3, I32, 3), (4, I32, 3)])
        header = thrift([(1, I32, 0), (2, I32, len(body)), (3, I32, len(body)), (5, STRUCT, data)])
        place = len(out)
        out += header + body
        meta = thrift([(1, I32, e.type), (2, LIST_OF, (I32, [0, 3])), (3, LIST_OF, (BINARY, [p.encode() for p in path])), (4, I32, codec),
                       (5, I64, claimed), (6, I64, len(out) - place), (7, I64, len(out) - place), (9, I64, place)])
        chunks.append(thrift(sorted([(2, I64, place), (3, STRUCT, meta), *chunk])))
    elements = [thrift([(1, I32, e.type), (2, I32, 4 if e.type == FIXED else None), (3, I32, e.repetition if i else None),
                        (4, BINARY, e.name.encode()), (5, I32, e.children or None), (6, I32, e.converted)]) for i, e in enumerate(schema)]
    group = thrift([(1, LIST_OF, (STRUCT, chunks)), (2, I64, len(out)), (3, I64, rows)])
    footer = thrift([(1, I32, 1), (2, LIST_OF, (STRUCT, elements)), (3, I64, rows), (4, LIST_OF, (STRUCT, [group]))])
    return bytes(out) + footer + struct.pack("<I", len(footer)) + b"PAR1"


def text(*strings):
    """A required column of texts."""
    return [(0, 0, s if isinstance(s, bytes) else s.encode()) for s in strings]


ROOT = Element("schema", children=1)
TEXT = Element("text", REQUIRED, BYTE_ARRAY, converted=UTF8)

# name -> (schema, rows, columns, what the rows are)
LISTS = {
    # A list whose repeated field is its element.
    "two_level": ([ROOT, Element("turns", OPTIONAL, children=1, converted=LIST), Element("array", REPEATED, BYTE_ARRAY, converted=UTF8)], 4,
                  [[(0, 2, b"a"), (1, 2, b"b"), (0, 1, None), (0, 0, None), (0, 2, b"")]],
                  [{"turns": ["a", "b"]}, {"turns": []}, {"turns": None}, {"turns": [""]}]),
    # The repeated group has several fields: it is the element.
    "two_level_struct": ([ROOT, Element("messages", REQUIRED, children=1, converted=LIST), Element("item", REPEATED, children=2),
                          Element("role", REQUIRED, BYTE_ARRAY, converted=UTF8), Element("content", OPTIONAL, BYTE_ARRAY, converted=UTF8)], 2,
                         [[(0, 1, b"user"), (1, 1, b"assistant"), (0, 0, None)], [(0, 2, b"hi"), (1, 1, None), (0, 0, None)]],
                         [{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None}]}, {"messages": []}]),
    # One field, but the group is called as old writers call an element.
    "array_of_one": ([ROOT, Element("messages", OPTIONAL, children=1, converted=LIST), Element("array", REPEATED, children=1),
                      Element("value", OPTIONAL, BYTE_ARRAY, converted=UTF8)], 2, [[(0, 3, b"x"), (1, 2, None), (0, 0, None)]],
                     [{"messages": [{"value": "x"}, {"value": None}]}, {"messages": None}]),
    "tuple_of_one": ([ROOT, Element("m", OPTIONAL, children=1, converted=LIST), Element("m_tuple", REPEATED, children=1),
                      Element("value", REQUIRED, BYTE_ARRAY, converted=UTF8)], 1, [[(0, 2, b"x"), (1, 2, b"y")]],
                     [{"m": [{"value": "x"}, {"value": "y"}]}]),
    # No annotation at all: a repeated field is a list.
    "bare_repeated": ([ROOT, Element("words", REPEATED, BYTE_ARRAY, converted=UTF8)], 3, [[(0, 1, b"a"), (1, 1, b"b"), (0, 0, None), (0, 1, b"c")]],
                      [{"words": ["a", "b"]}, {"words": []}, {"words": ["c"]}]),
    "bare_group": ([ROOT, Element("pairs", REPEATED, children=2), Element("from", REQUIRED, BYTE_ARRAY, converted=UTF8),
                    Element("n", OPTIONAL, INT32)], 2, [[(0, 1, b"a"), (1, 1, b"b"), (0, 0, None)], [(0, 2, 7), (1, 1, None), (0, 0, None)]],
                   [{"pairs": [{"from": "a", "n": 7}, {"from": "b", "n": None}]}, {"pairs": []}]),
}
