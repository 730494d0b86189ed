#!/usr/bin/env python3
"""test_parquet.py - tables that pyarrow, polars and duckdb write, row by row beside what pyarrow reads of them.

Every codec and encoding that the three offer for texts, numbers, booleans, structs and lists; shapes put together at random; old
kinds of lists that none of them writes (parquet_raw.py); CSV and TSV. Without LIGHT: ten times as many at random.

  --seed S     other shapes and values     --keep DIR   the files stay there
"""
import argparse
import csv
import gzip
import json
import math
import os
import random
import subprocess
import sys
import tempfile

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

import parquet_raw as raw
from interop import LIGHT, ROOT, check, finish, program

MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
WORDS = ["", "a", "hello", "Hello, world", "line\nbreak", "quote \" and \\ slash", "tab\t\r\x00\x01\x1f\x7f", "\u00e9\u4e2d\U0001f600", "x" * 900,
         "the quick brown fox jumps over the lazy dog"]
CODECS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]
seen = {"files": 0, "rows": 0, "not pyarrow": 0, "encodings": set(), "codecs": set()}


# ---- comparing ----

def ours(kind, path, *columns):
    done = subprocess.run([program("table"), "rows", kind, path, *columns], capture_output=True)
    return done.returncode, done.stdout, done.stderr.decode()


def as_json(value, kind):
    """A value of pyarrow as the JSON that it should be."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if pa.types.is_map(kind):
        return [{"key": as_json(k, kind.key_type), "value": as_json(v, kind.item_type)} for k, v in value]
    if pa.types.is_struct(kind):
        return {f.name: as_json(value[f.name], f.type) for f in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [as_json(v, kind.value_type) for v in value]
    return value.decode() if isinstance(value, bytes) else value


def compare(name, path, columns=()):
    code, out, err = ours("parquet", path, *columns)
    try:
        table = pq.read_table(path, columns=list(columns) or None)
    except OSError as error:  # pyarrow 26 refuses deltas of 33 bits, which duckdb 2 writes of 32-bit numbers
        check("duckdb" in name, f"{name}: pyarrow: {error}")
        table = duckdb.sql(f"SELECT * FROM '{path}'").to_arrow_table()
        seen["not pyarrow"] += 1
    want = [{f.name: as_json(row[f.name], f.type) for f in table.schema} for row in table.to_pylist()]
    got = [json.loads(line) for line in out.splitlines()] if code == 0 else None
    same = code == 0 and got == want
    first = next((i for i, (a, b) in enumerate(zip(got or [], want)) if a != b), min(len(got or []), len(want)))
    check(same, f"{name}: status {code}, {err.strip()}" if code else
          f"{name}: {len(got)} rows of {len(want)}; row {first}:\n  {str(got[first:first + 1])[:600]}\n  {str(want[first:first + 1])[:600]}")
    meta = pq.ParquetFile(path).metadata
    for g in range(meta.num_row_groups):
        for c in range(meta.num_columns):
            seen["encodings"] |= set(meta.row_group(g).column(c).encodings)
            seen["codecs"].add(meta.row_group(g).column(c).compression)
    seen["files"] += 1
    seen["rows"] += len(want)


# ---- tables ----

def words(rng, n, nulls=0.1):
    return [None if rng.random() < nulls else rng.choice(WORDS) + (str(rng.randrange(50)) if rng.random() < 0.5 else "") for _ in range(n)]


def texts(rng, n=3000):
    return pa.table({"text": words(rng, n), "required": pa.array(words(rng, n, 0)), "same": ["one"] * n, "null": pa.array([None] * n, pa.string()),
                     "long": [rng.choice(WORDS) * rng.randrange(40) for _ in range(n)], "sorted": [f"prefix/{i:07d}/{i % 7}" for i in range(n)]})


def required(table):
    return table.cast(pa.schema([f.with_nullable(table[f.name].null_count > 0) for f in table.schema]))


def numbers(rng, n=3000):
    def some(make):
        return [None if rng.random() < 0.1 else make() for _ in range(n)]
    integers = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}
    columns = {name: pa.array(some(lambda b=bits, s=sign: rng.randrange(2**b) - (0 if s else 2**(b - 1))), getattr(pa, name)())
               for name, (sign, bits) in integers.items()}
    columns["float32"] = pa.array(some(lambda: rng.choice([rng.randrange(-999, 999) / 8, math.inf, math.nan])), pa.float32())
    columns["float64"] = pa.array(some(lambda: rng.choice([rng.gauss(0, 1), 1e300, -0.0, math.nan])))
    columns["bool"] = pa.array(some(lambda: rng.random() < 0.5))
    columns["bools"] = pa.array([i % 300 < 150 for i in range(n)])
    columns["steps"] = pa.array([i * 3 + rng.randrange(2) for i in range(n)])
    columns["constant"] = pa.array([7] * n, pa.int32())
    return pa.table(columns)


def chats(rng, n=1500):
    def turn(a, b):
        return {a: rng.choice(["user", "assistant", "system"]), b: words(rng, 1)[0]}
    part = pa.struct([("type", pa.string()), ("text", pa.string()), ("image", pa.struct([("url", pa.string())]))])

    def piece():
        return rng.choice([None, {"type": "text", "text": words(rng, 1)[0], "image": rng.choice([None, {"url": None}, {"url": "x"}])}])

    def some(make):
        return rng.choice([None, []]) if rng.random() < 0.15 else [None if rng.random() < 0.05 else make() for _ in range(rng.randrange(1, 6))]
    return pa.table({
        "messages": pa.array([some(lambda: turn("role", "content")) for _ in range(n)], pa.list_(MESSAGE)),
        "conversations": pa.array([some(lambda: turn("from", "value")) for _ in range(n)], pa.list_(pa.struct([("from", pa.string()),
                                                                                                               ("value", pa.string())]))),
        "prompt": pa.array([some(lambda: {"role": "user", "content": some(piece)}) for _ in range(n)],
                           pa.list_(pa.struct([("role", pa.string()), ("content", pa.list_(part))]))),
        "tags": pa.array([some(lambda: words(rng, 1)[0]) for _ in range(n)], pa.list_(pa.string())),
        "history": pa.array([some(lambda: some(lambda: words(rng, 1)[0])) for _ in range(n)], pa.list_(pa.list_(pa.string()))),
        "completion": words(rng, n)})


def maps(rng, n=500):
    return pa.table({"m": pa.array([None if rng.random() < 0.2 else [(f"k{i}", rng.randrange(9)) for i in range(rng.randrange(4))]
                                    for _ in range(n)], pa.map_(pa.string(), pa.int64())),
                     "large": pa.array(words(rng, n), pa.large_string()), "dictionary": pa.array(words(rng, n)).dictionary_encode(),
                     "fixed": pa.array([[i, i + 1] for i in range(n)], pa.list_(pa.int32(), 2)), "nothing": pa.nulls(n)})


def random_type(rng, depth=0):
    kind = rng.randrange(8 if depth < 4 else 5)
    if kind < 5:
        return [pa.string(), pa.string(), pa.int64(), pa.bool_(), pa.float64()][kind]
    if kind == 5:
        return pa.list_(pa.field("element", random_type(rng, depth + 1), rng.random() < 0.7))
    return pa.struct([pa.field(f"f{i}", random_type(rng, depth + 1), rng.random() < 0.7) for i in range(rng.randrange(1, 4))])


def random_value(rng, kind, nullable):
    if nullable and rng.random() < 0.2:
        return None
    if pa.types.is_list(kind):
        return [random_value(rng, kind.value_type, kind.value_field.nullable) for _ in range(rng.choice([0, 0, 1, 2, 5]))]
    if pa.types.is_struct(kind):
        return {f.name: random_value(rng, f.type, f.nullable) for f in kind}
    if kind == pa.string():
        return rng.choice(WORDS)
    return {pa.int64(): rng.randrange(-9, 9), pa.bool_(): rng.random() < 0.5, pa.float64(): rng.randrange(9) / 4}[kind]


def random_table(rng):
    schema = pa.schema([pa.field(f"c{i}", random_type(rng), rng.random() < 0.7) for i in range(rng.randrange(1, 5))])
    rows = [{f.name: random_value(rng, f.type, f.nullable) for f in schema} for _ in range(rng.choice([0, 1, 7, 300, 2000]))]
    return pa.Table.from_pylist(rows, schema)


# ---- writers ----

def with_pyarrow(folder, rng):
    tables = {"texts": required(texts(rng)), "numbers": numbers(rng), "chats": chats(rng), "maps": maps(rng)}

    def write(name, table, **options):
        path = os.path.join(folder, f"pyarrow-{name}.parquet")
        pq.write_table(table, path, **options)
        compare(f"pyarrow-{name}", path)
    for kind, table in tables.items():
        for i, codec in enumerate(CODECS):
            for page in ("1.0", "2.0"):
                write(f"{kind}-{codec}-v{page[0]}", table, compression=codec, data_page_version=page, write_page_checksum=i % 2 == 0,
                      row_group_size=[None, 700][i % 2], data_page_size=[None, 4096][i // 2 % 2], use_dictionary=i != 3)
    of_text, of_int, split = ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"), "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"
    plain = numbers(rng)
    integers = plain.select([n for n in plain.column_names if "int" in n or n in ("steps", "constant")])
    floats = plain.select(["float32", "float64", "int32", "int64"])
    for page in ("1.0", "2.0"):
        rest = {"use_dictionary": False, "data_page_version": page, "data_page_size": 8192}
        for encoding in of_text:
            write(f"texts-{encoding}-v{page[0]}", tables["texts"], column_encoding=encoding, compression="zstd", **rest)
            write(f"tags-{encoding}-v{page[0]}", tables["chats"].select(["tags"]), column_encoding={"tags.list.element": encoding}, **rest)
        write(f"integers-delta-v{page[0]}", integers, column_encoding=of_int, **rest)
        write(f"floats-split-v{page[0]}", floats, column_encoding=split, **rest)
        write(f"bools-rle-v{page[0]}", plain.select(["bool", "bools"]), column_encoding="RLE", **rest)
    write("small-dictionary", tables["texts"], dictionary_pagesize_limit=2000)
    write("old-names", tables["chats"], use_compliant_nested_type=False, store_schema=False)
    write("version-1.0", tables["texts"], version="1.0")
    write("no-rows", tables["chats"].slice(0, 0))
    write("one-row", tables["chats"].slice(0, 1))
    write("many-groups", tables["chats"], row_group_size=3)
    name = os.path.join(folder, "pyarrow-chats-zstd-v2.parquet")
    compare("some columns", name, ("completion", "messages"))
    compare("one column", name, ("tags",))


def with_polars(folder, rng):
    tables = {"texts": texts(rng), "numbers": numbers(rng), "chats": chats(rng)}
    for kind, table in tables.items():
        for codec in ("uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4"):
            path = os.path.join(folder, f"polars-{kind}-{codec}.parquet")
            polars.from_arrow(table).write_parquet(path, compression=codec, row_group_size=rng.choice([None, 400]), data_page_size=rng.choice([None, 5000]))
            compare(f"polars-{kind}-{codec}", path)


def with_duckdb(folder, rng):
    tables = {"texts": texts(rng, 5000), "numbers": numbers(rng), "chats": chats(rng)}
    base = duckdb.connect()
    for kind, table in tables.items():
        base.register(kind, table)
        for codec in ("uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4_raw"):
            for version in ("V1", "V2"):
                path = os.path.join(folder, f"duckdb-{kind}-{codec}-{version}.parquet")
                base.execute(f"COPY {kind} TO '{path}' (FORMAT parquet, COMPRESSION {codec}, PARQUET_VERSION {version}, ROW_GROUP_SIZE 2048)")
                compare(f"duckdb-{kind}-{codec}-{version}", path)


def at_random(folder, rng, n):
    for i in range(n):
        table = random_table(rng)
        path = os.path.join(folder, f"random-{i}.parquet")
        pq.write_table(table, path, compression=rng.choice(CODECS), data_page_version=rng.choice(["1.0", "2.0"]), use_dictionary=rng.random() < 0.5,
                       row_group_size=rng.choice([None, 5, 100]), data_page_size=rng.choice([None, 100, 1000]), write_batch_size=rng.choice([1, 16, 1024]),
                       write_page_checksum=rng.random() < 0.5, store_schema=rng.random() < 0.5)
        compare(f"random-{i} {table.schema}", path)


def old_lists(folder):
    for name, (schema, count, columns, rows) in raw.LISTS.items():
        path = os.path.join(folder, f"raw-{name}.parquet")
        with open(path, "wb") as f:
            f.write(raw.build(schema, count, columns))
        compare(f"raw-{name}", path)
        check(pq.read_table(path).to_pylist() == rows, f"raw-{name}: pyarrow reads {pq.read_table(path).to_pylist()}")


def golden_files(folder):
    """Those in the tree are what the tool writes today."""
    again, kept = os.path.join(folder, "golden"), os.path.join(ROOT, "tests", "golden", "tables")
    subprocess.run([sys.executable, os.path.join(ROOT, "tools", "gen_table_golden.py"), again], check=True)
    difference = subprocess.run(["diff", "-rq", kept, again], capture_output=True, text=True)
    check(difference.returncode == 0, f"tools/gen_table_golden.py writes other files:\n{difference.stdout}{difference.stderr}")


# ---- what is refused, what is left out ----

def refusals(folder, rng):
    when = pa.array([1, 2], pa.timestamp("us"))
    table = pa.table({"text": ["a", "b"], "when": when, "day": pa.array([1, 2], pa.date32()), "price": pa.array([1, 2], pa.decimal128(9, 2)),
                      "half": pa.array([1, 2], pa.float16()), "id": pa.array([b"1234", b"5678"], pa.binary(4))})
    path = os.path.join(folder, "odd.parquet")
    for options, words in (({}, "annotated"), ({"use_deprecated_int96_timestamps": True}, "INT96")):
        pq.write_table(table, path, **options)
        code, out, err = ours("parquet", path)
        check(code == 0 and [json.loads(x) for x in out.splitlines()] == [{"text": "a"}, {"text": "b"}], f"odd: {code} {out} {err}")
        check("left out: when, day, price, half, id" in err, f"odd: {err}")
        code, _, err = ours("parquet", path, "text", "when")
        check(code == 6 and "column when" in err and words in err, f"odd, asked: {code} {err}")
    data = bytearray(open(path, "rb").read())
    check(ours("parquet", path, "text")[0] == 0, "odd: its text alone is not read")
    with open(path, "wb") as f:
        f.write(data[:len(data) - 9])
    check(ours("parquet", path)[0] == 4, "a file without its end is read")


# ---- CSV ----

def tables_of_text(folder, rng):
    rows = [{"text": w or "", "n": str(i), "with \"quotes\", commas": rng.choice(WORDS)} for i, w in enumerate(words(rng, 3000))]
    for row in rows:  # the csv package makes a lone carriage return and a newline of some; a zero byte it refuses to read
        for key in row:
            row[key] = row[key].replace("\x00", "")
    for kind, separator in (("csv", ","), ("tsv", "\t")):
        for end in ("\n", "\r\n"):
            for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
                for start, opener in (("", open), ("\ufeff", gzip.open)):
                    path = os.path.join(folder, f"rows.{kind}")
                    with opener(path, "wt", encoding="utf-8", newline="") as f:
                        f.write(start)
                        writer = csv.DictWriter(f, list(rows[0]), delimiter=separator, lineterminator=end, quoting=quoting)
                        writer.writeheader()
                        writer.writerows(rows)
                    code, out, err = ours(kind, path)
                    check(code == 0 and [json.loads(x) for x in out.splitlines()] == rows, f"{kind} {end!r} {quoting}: {code} {err}")
    base = duckdb.connect()
    base.register("texts", texts(rng))
    path = os.path.join(folder, "duckdb.csv")
    base.execute(f"COPY (SELECT text, long FROM texts WHERE text NOT LIKE '%' || chr(0) || '%') TO '{path}' (FORMAT csv, HEADER)")
    with open(path, encoding="utf-8", newline="") as f:
        want = list(csv.DictReader(f))
    code, out, err = ours("csv", path)
    check(code == 0 and [json.loads(x) for x in out.splitlines()] == want, f"duckdb.csv: {code} {err}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--keep")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    print(f"pyarrow {pa.__version__}, polars {polars.__version__}, duckdb {duckdb.__version__}, seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = args.keep or folder
        os.makedirs(folder, exist_ok=True)
        with_pyarrow(folder, rng)
        with_polars(folder, rng)
        with_duckdb(folder, rng)
        at_random(folder, rng, 40 if LIGHT else 400)
        old_lists(folder)
        golden_files(folder)
        refusals(folder, rng)
        tables_of_text(folder, rng)
    wanted = {"PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY", "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"}
    check(wanted <= seen["encodings"], f"no file has {wanted - seen['encodings']}")
    check({"UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4"} <= {c.replace("LZ4_RAW", "LZ4") for c in seen["codecs"]}, f"codecs {seen['codecs']}")
    print(f"{seen['files']} files, {seen['rows']} rows ({seen['not pyarrow']} files beside duckdb alone); {', '.join(sorted(seen['encodings']))}")
    finish(os._exit)


if __name__ == "__main__":
    main()
