#!/usr/bin/env python3
"""gen_table_golden.py [DIR] - writes tests/golden/tables: small Parquet files, and NAME.jsonl with their rows as pyarrow reads them.

What pyarrow cannot write comes from tests/interop/parquet_raw.py; its rows stand there, and pyarrow must read the same where it
can. Needs pyarrow; VERSION says which one wrote the files. Files of faults/ have no rows: each must be refused.
"""
import io
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "interop"))

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import parquet_raw as raw  # noqa: E402

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "tests", "golden", "tables")
SMALL = {"store_schema": False, "write_statistics": False}
MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])


def put(name, data):
    with open(os.path.join(FOLDER, name), "wb") as f:
        f.write(data)


def rows_text(rows):
    return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows).encode()


def write(name, table, read=None, **options):
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **{**SMALL, **options})
    put(name + ".parquet", buffer.getvalue())
    put(name + ".jsonl", rows_text(pq.read_table(io.BytesIO(buffer.getvalue()), columns=read).to_pylist()))


def chat():
    rows = [[{"role": "user", "content": "Hi \"you\"\n"}, {"role": "assistant", "content": "Hello \u00e9\u4e2d\U0001f600"}],
            [{"role": "system", "content": None}, {"role": "user", "content": "tab\t\\ \x01"}, {"role": "assistant", "content": ""}],
            [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]]
    return pa.table({"id": [1, 2, 3], "messages": pa.array(rows, pa.list_(MESSAGE))})


def nested():
    part = pa.struct([("type", pa.string()), ("text", pa.string())])
    message = pa.struct([("role", pa.string()), ("content", pa.list_(part))])
    text = {"type": "text", "text": "x"}
    rows = [None, [], [None], [{"role": "user", "content": None}], [{"role": "user", "content": []}, {"role": None, "content": [None, text]}],
            [{"role": "a", "content": [text, {"type": None, "text": None}]}, None]]
    return pa.table({"prompt": pa.array(rows, pa.list_(message)),
                     "meta": pa.array([None, {"n": 1, "tags": ["a", None]}, {"n": None, "tags": []}, None, {"n": 3, "tags": None},
                                       {"n": 4, "tags": ["b"]}], pa.struct([("n", pa.int64()), ("tags", pa.list_(pa.string()))]))})


def numbers(n):
    """5 n rows."""
    return pa.table({"i": pa.array([0, -1, 2**31 - 1, -2**31, None] * n, pa.int32()), "l": pa.array([0, -2**63, 2**63 - 1, None, 5] * n),
                     "f": pa.array([0.5, -1.25, None, 3.0, 1e10] * n, pa.float32()), "d": pa.array([0.1, -1e300, 2.5, None, 5e-324] * n),
                     "b": pa.array([True, False, None, True, True] * n), "u": pa.array([0, 255, 7, None, 9] * n, pa.uint8())})


def texts():
    return pa.table({"text": ["", "a", "ab", "abc", None, "abd", "b" * 70, "abd"] * 2, "n": [f"https://x.org/{i}" for i in range(16)]})


def main():
    os.makedirs(os.path.join(FOLDER, "faults"), exist_ok=True)
    write("chat", chat(), compression="zstd", data_page_version="2.0")
    write("nested", nested(), compression="snappy", write_page_checksum=True)
    write("numbers", numbers(3), compression="gzip", row_group_size=6)
    plain = {"use_dictionary": False}
    write("numbers_delta", numbers(9).select(["i", "l"]), compression="lz4", column_encoding="DELTA_BINARY_PACKED", **plain)
    write("numbers_split", numbers(3).select(["i", "l", "f", "d"]), compression="brotli", column_encoding="BYTE_STREAM_SPLIT", **plain)
    write("numbers_rle", numbers(9).select(["b"]), compression="none", column_encoding="RLE", data_page_version="2.0", **plain)
    write("texts", texts(), compression="snappy", row_group_size=7)
    write("texts_plain", texts(), compression="none", data_page_size=64, write_batch_size=4, **plain)
    write("texts_length", texts(), compression="zstd", column_encoding="DELTA_LENGTH_BYTE_ARRAY", **plain)
    write("texts_prefix", texts(), compression="snappy", column_encoding="DELTA_BYTE_ARRAY", data_page_version="2.0", **plain)
    write("empty", texts().slice(0, 0))
    fixed = pa.array([{"a": [b"1234"]}, {"a": []}], pa.struct([("a", pa.list_(pa.binary(4)))]))
    write("left_out", pa.table({"day": pa.array([1, 2], pa.date32()), "nested": fixed, "text": ["ab", "cd"]}), ["text"])
    for name, (schema, count, columns, rows) in raw.LISTS.items():
        put(name + ".parquet", raw.build(schema, count, columns))
        put(name + ".jsonl", rows_text(rows))
    for name, data in faults().items():
        put(os.path.join("faults", name + ".parquet"), data)
    put("VERSION", f"pyarrow {pa.__version__}\n".encode())


def faults():
    """Files that must be refused; what is said of each is in tests/unit/test_table.c."""
    one = [raw.ROOT, raw.TEXT]
    optional = [raw.ROOT, raw.Element("text", raw.OPTIONAL, raw.BYTE_ARRAY, converted=raw.UTF8)]
    pair = [raw.Element("schema", children=1), raw.Element("m", raw.REPEATED, children=2), raw.Element("a", raw.REQUIRED, raw.INT32),
            raw.Element("b", raw.REQUIRED, raw.INT32)]
    deep = [raw.ROOT] + [raw.Element("g", raw.OPTIONAL, children=1)] * 40 + [raw.TEXT]
    return {
        "lzo": raw.build(one, 1, [raw.text("a")], codec=3),
        "codec": raw.build(one, 1, [raw.text("a")], codec=9),
        "encrypted": raw.build(one, 1, [raw.text("a")], chunk=[(8, raw.STRUCT, b"\0")]),
        "elsewhere": raw.build(one, 1, [raw.text("a")], chunk=[(1, raw.BINARY, b"x.parquet")]),
        "int96": raw.build([raw.ROOT, raw.Element("text", raw.REQUIRED, raw.INT96)], 1, [[(0, 0, 0)]]),
        "decimal": raw.build([raw.ROOT, raw.Element("text", raw.REQUIRED, raw.INT32, converted=5)], 1, [[(0, 0, 1)]]),
        "bit_packed": raw.build(one, 1, [raw.text("a")], encoding=4),
        "no_dictionary": raw.build(one, 1, [raw.text("a")], encoding=8),
        "length": raw.build(one, 1, [raw.text("a")], page=b"\xff\xff\xff\x7fa"),
        "more_rows": raw.build(one, 3, [raw.text("a", "b")]),
        "fewer_rows": raw.build(one, 1, [raw.text("a", "b")]),
        "many_values": raw.build(optional, 1, [[(0, 1, b"a")]], values=2**31 - 1),
        "level": raw.build(optional, 1, [[(0, 3, b"a")]]),
        "uneven": raw.build(pair, 1, [[(0, 1, 1), (1, 1, 2)], [(0, 1, 3)]]),
        "unfitting": raw.build(pair, 2, [[(0, 1, 1), (0, 1, 2)], [(0, 1, 3), (0, 0, None)]]),
        "deep": raw.build(deep, 1, [[(0, 0, None)]]),
        "snappy_size": raw.build(one, 1, [raw.text("a")], codec=1, page=b"\xff\xff\xff\x7f\0a"),
    }


main()
sys.stdout.flush()
os._exit(0)  # pyarrow 26 aborts in one of some twenty regular ends: a thread of its pool is still there
