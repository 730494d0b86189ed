#!/usr/bin/env python3
"""test_vocabularies.py - vocabularies in GGUF files beside the packages that they come from.

SentencePiece models trained on the spot and put into a GGUF file, against `sentencepiece`; byte-level BPE likewise, against
`tokenizers`. Tokens that a user has defined are not compared with sentencepiece: behind one, llama.cpp puts a space, and so do we.
Where the folder with published vocabularies is present (../shared/data/tokenizers), those too: with the packages on generated
texts, and with the ids listed beside them.
"""
import glob
import io
import json
import os
import struct
import tempfile
import time

import gguf
import sentencepiece
import tokenizers
import tokenizer_kinds
import tokenizer_texts
from interop import LIGHT, ROOT, check, finish
from tokenizer_client import DECODE, ENCODE, PLAIN, Ours, Tally

COUNT = 8000 if LIGHT else 200000
PUBLISHED = os.path.join(ROOT, "..", "shared", "data", "tokenizers")
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
MARK = "\n__ggml_vocab_test__\n"


def write_gguf(path, model, tokens, types, scores=None, merges=None, **keys):
    """keys: more of tokenizer.ggml."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if scores is not None:
        writer.add_token_scores(scores)
    if merges is not None:
        writer.add_token_merges(merges)
    for key, value in keys.items():
        add = writer.add_bool if isinstance(value, bool) else writer.add_uint32 if isinstance(value, int) else writer.add_string
        add("tokenizer.ggml." + key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def texts(seed):
    """Generated texts as bytes and as strings."""
    data = list(tokenizer_texts.texts(COUNT - 40, seed)) + list(tokenizer_texts.documents(40, seed))
    return data, [d.decode("utf-8", "replace") for d in data]


# ---- SentencePiece --------------------------------------------------------------------------------------------------

def train(**options):
    # Trained on lines, in which no space is doubled or at the end.
    lines = [" ".join(line.split()) for line in "\n".join(tokenizer_texts.SENTENCES * 8).replace("\0", "").split("\n")]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=1400, character_coverage=.98, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, num_threads=1, minloglevel=2, hard_vocab_limit=False, **options)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def type_of(sp, i):
    return (UNKNOWN if sp.is_unknown(i) else CONTROL if sp.is_control(i) else BYTE if sp.is_byte(i) else UNUSED if sp.is_unused(i)
            else NORMAL)


def compare_sentencepiece(name, path, sp, seed):
    start, tally, ours = time.monotonic(), Tally(name), Ours(path)
    data, strings = texts(seed)
    theirs = sp.encode(strings)
    tally.compare("ids", data, ours.encode(data, PLAIN), theirs)
    tally.encoded = len(data)
    lists = theirs[::8]
    tally.compare("text", lists, ours.decode(lists, DECODE), sp.decode(lists))
    tally.decoded = len(lists)
    check(ours.close() == 0, f"{name}: tok_cli failed")
    tally.done(time.monotonic() - start)


def sentencepiece_kinds(folder):
    for name, options in (("llama", {"split_digits": True}), ("no-prefix", {"add_dummy_prefix": False}),
                          ("whitespace", {"allow_whitespace_only_pieces": True, "split_by_whitespace": False}),
                          ("scripts", {"split_by_unicode_script": False, "max_sentencepiece_length": 24})):
        sp = train(**options)
        tokens = [sp.id_to_piece(i) for i in range(sp.vocab_size())]
        path = write_gguf(os.path.join(folder, f"spm-{name}.gguf"), "llama", tokens, [type_of(sp, i) for i in range(len(tokens))],
                          scores=[sp.get_score(i) for i in range(len(tokens))], bos_token_id=1, eos_token_id=2,
                          add_space_prefix=options.get("add_dummy_prefix", True))
        compare_sentencepiece(f"sentencepiece {name}", path, sp, len(name))


def message(*fields):
    """A protobuf message of (number, value): bytes and strings by length, floats in 4 bytes, the rest as varints."""
    def varint(n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])
    out = b""
    for number, value in fields:
        if isinstance(value, (str, bytes)):
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
        elif isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            out += varint(number << 3) + varint(int(value))
    return out


def sentencepiece_model(tokens, scores, types):
    """A SentencePiece model with this vocabulary, as Llama 2 had it: no normalization, a space before the text."""
    pieces = [(1, message((1, t), (2, float(s)), (3, int(k)))) for t, s, k in zip(tokens, scores, types, strict=True)]
    trainer = message((3, 2), (4, len(tokens)), (35, True), (40, 0), (41, 1), (42, 2), (43, 2 ** 64 - 1))
    normalizer = message((1, "identity"), (3, True), (4, False), (5, True))
    return sentencepiece.SentencePieceProcessor(model_proto=message(*pieces, (2, trainer), (3, normalizer)))


# ---- byte-level BPE -------------------------------------------------------------------------------------------------

def compare_tokenizers(name, path, theirs, seed, op=ENCODE):
    start, tally, ours = time.monotonic(), Tally(name), Ours(path)
    data, strings = texts(seed)
    lists = [e.ids for e in theirs.encode_batch_fast(strings, add_special_tokens=False)]
    tally.compare("ids", data, ours.encode(data, op), lists)
    tally.encoded = len(data)
    lists = [ids for ids in lists[::8] if ids]
    tally.compare("text", lists, ours.decode(lists, DECODE), theirs.decode_batch(lists, skip_special_tokens=False))
    tally.decoded = len(lists)
    check(ours.close() == 0, f"{name}: tok_cli failed")
    tally.done(time.monotonic() - start)


def bpe_kinds(folder):
    """The same tokenizer in both containers. GGUF has no normalizer, so none is compared, and knows no flags of added tokens."""
    corpus = tokenizer_texts.corpus()
    for kind, pre in (("gpt2", "gpt-2"), ("llama3", "llama-bpe"), ("qwen2", "qwen2"), ("qwen35", "qwen35"), ("starcoder", "starcoder"),
                      ("deepseek-coder", "deepseek-coder"), ("deepseek-v3", "deepseek-v3"), ("tekken", "tekken"), ("gpt-4o", "gpt-4o")):
        conf = tokenizer_kinds.KINDS[kind](corpus)
        conf["normalizer"] = None
        vocab = dict(conf["model"]["vocab"])
        types = {}
        for t in conf["added_tokens"]:
            t.update(normalized=False)
            vocab[t["content"]] = t["id"]
            types[t["id"]] = CONTROL if t["special"] else USER_DEFINED
        tokens = sorted(vocab, key=vocab.get)
        path = write_gguf(os.path.join(folder, f"bpe-{kind}.gguf"), "gpt2", tokens, [types.get(i, NORMAL) for i in range(len(tokens))],
                          merges=[" ".join(m) for m in conf["model"]["merges"]], pre=pre, add_bos_token=False)
        compare_tokenizers(f"GGUF {kind}", path, tokenizers.Tokenizer.from_str(json.dumps(conf)), len(kind))


# ---- published vocabularies -----------------------------------------------------------------------------------------

def fields(path):
    """tokenizer.ggml.* of a file."""
    reader = gguf.GGUFReader(path)
    return {key[15:]: field.contents() for key, field in reader.fields.items() if key.startswith("tokenizer.ggml.")}


def listed(path):
    """The texts of .inp, and the ids of .out, a line each."""
    ours = Ours(path)
    with open(path + ".inp", encoding="utf-8") as f:
        inputs = f.read().split(MARK)
    with open(path + ".out", encoding="utf-8") as f:
        lines = [[int(i) for i in line.split()] for line in f.read().split("\n")]
    for text, got, want in zip(inputs, ours.encode([t.encode() for t in inputs], PLAIN), lines):
        check(got == want, f"{path}: {text!r}: {got}, listed are {want}")
    check(len(inputs) > 40 and ours.close() == 0, f"{path}: {len(inputs)} texts")


def published():
    paths = sorted(glob.glob(os.path.join(PUBLISHED, "*.gguf")))
    if not paths:
        print("no published vocabularies here")
    for path in paths:
        name, keys = os.path.basename(path)[:-5], fields(path)
        listed(path)
        if keys["model"] == "llama":
            compare_sentencepiece(name, path, sentencepiece_model(keys["tokens"], keys["scores"], keys["token_type"]), 3)
        else:
            model = tokenizers.models.BPE({t: i for i, t in enumerate(keys["tokens"])}, [tuple(m.split(" ")) for m in keys["merges"]])
            theirs = tokenizers.Tokenizer(model)
            theirs.pre_tokenizer = tokenizer_kinds.byte_level(True)
            theirs.decoder = tokenizers.decoders.ByteLevel()
            compare_tokenizers(name, path, theirs, 3, PLAIN)


def main():
    print(f"sentencepiece {sentencepiece.__version__}, tokenizers {tokenizers.__version__}, {COUNT} texts for each vocabulary", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        sentencepiece_kinds(folder)
        bpe_kinds(folder)
    published()
    finish()


if __name__ == "__main__":
    main()
