"""tokenizer_kinds.py - tokenizers trained on the spot with published configurations, as the text of tokenizer.json.

Each kind is a function of a corpus that returns a dict. The configurations (patterns, normalizers, flags, added tokens)
are those that the models ship; only the vocabulary is small. `random_kind` puts components together at random.
"""
import json
import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CASES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CASES + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CASES + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = (CASES + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER_LOWER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
UPPER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")
DEEPSEEK_V3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
               r"|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK_LETTERS = (r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ"
                    r"Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\x{1F7D}ᾀ-ᾴᾶ-ᾼ\x{1FBE}ῂ-ῄῆ-ῌῐ-\x{1FD3}ῖ-\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ"
                    r"\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ"
                    r"\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}"
                    r"\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+")
LIMIT = 1 << 30  # the most tokens that a vocabulary gets; golden files lower it
DEEPSEEK_CJK = "[一-龥ࠀ-一가-\ud7ff]+"


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(use_regex=False, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def train(corpus, pre, norm=None, size=1500, special=(), alphabet=True, **bpe):
    """A tokenizer with a vocabulary of its own, as a dict."""
    prefix, suffix = bpe.get("continuing_subword_prefix"), bpe.get("end_of_word_suffix")
    tok = Tokenizer(models.BPE(**bpe))
    if norm:
        tok.normalizer = norm
    tok.pre_tokenizer = pre
    extra = {k: v for k, v in (("continuing_subword_prefix", prefix), ("end_of_word_suffix", suffix)) if v}
    trainer = trainers.BpeTrainer(vocab_size=min(size, LIMIT), special_tokens=list(special), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet else [], **extra)
    tok.train_from_iterator(corpus, trainer)
    return json.loads(tok.to_str())


def add(conf, content, special=True, normalized=None, **flags):
    """One more added token, numbered as the package numbers it."""
    vocab = conf["model"]["vocab"]
    taken = [t["id"] for t in conf["added_tokens"] if t["content"] not in vocab]
    token = {"id": vocab.get(content, max(taken + [len(vocab) - 1]) + 1), "content": content, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": not special if normalized is None else normalized, "special": special}
    token.update(flags)
    conf["added_tokens"].append(token)
    return token["id"]


def part(component):
    """The JSON of a component."""
    return json.loads(component.__getstate__())


def finish(conf, decoder=None, post=None):
    if decoder:
        conf["decoder"] = part(decoder)
    if post:
        conf["post_processor"] = part(post)
    return conf


def gpt2(corpus):
    conf = train(corpus, byte_level(True))
    add(conf, "<|endoftext|>")
    return finish(conf, decoders.ByteLevel(), processors.ByteLevel(trim_offsets=False))


def roberta(corpus):
    conf = train(corpus, byte_level(True, True), special=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>")
    for t in conf["added_tokens"]:
        t["normalized"] = True
    add(conf, "<mask>", lstrip=True)
    return finish(conf, decoders.ByteLevel(), processors.RobertaProcessing(("</s>", 2), ("<s>", 0)))


def llama3(corpus):
    conf = train(corpus, pre_tokenizers.Sequence([split(LLAMA3), byte_level()]), ignore_merges=True)
    bos = add(conf, "<|begin_of_text|>")
    for name in ("end_of_text", "start_header_id", "end_header_id", "eot_id", *[f"reserved_special_token_{i}" for i in range(200)]):
        add(conf, f"<|{name}|>")
    template = processors.TemplateProcessing("<|begin_of_text|> $A", "<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                             [("<|begin_of_text|>", bos)])
    return finish(conf, decoders.ByteLevel(), processors.Sequence([processors.ByteLevel(), template]))


def qwen(corpus, pattern, thinking):
    conf = train(corpus, pre_tokenizers.Sequence([split(pattern), byte_level()]), normalizers.NFC())
    for name in ("endoftext", "im_start", "im_end", "object_ref_start", "box_end", "vision_start", "vision_pad", "image_pad"):
        add(conf, f"<|{name}|>")
    for name in ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|repo_name|>"] + (
            ["<tool_response>", "</tool_response>", "<think>", "</think>"] if thinking else []):
        add(conf, name, special=False, normalized=False)
    return finish(conf, decoders.ByteLevel(), processors.ByteLevel(trim_offsets=False))


def deepseek_coder(corpus):
    pre = pre_tokenizers.Sequence([split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(DEEPSEEK_CJK),
                                   pre_tokenizers.Digits(True), byte_level()])
    conf = train(corpus, pre)
    for letter in "õ÷ÁýÀÿøúþüùöûó":
        add(conf, letter, special=False, normalized=True)
    return deepseek_tokens(conf)


def deepseek_tokens(conf):
    bos = add(conf, "<｜begin▁of▁sentence｜>", special=True, normalized=True)
    add(conf, "<｜end▁of▁sentence｜>", special=True, normalized=True)
    for name in ("fim▁hole", "fim▁begin", "fim▁end", "User", "Assistant", "▁pad▁"):
        add(conf, f"<｜{name}｜>", special=False, normalized=True)
    add(conf, "<|EOT|>", special=True, normalized=True)
    template = processors.TemplateProcessing("<bos> $A", "<bos> $A $B", [("<bos>", bos)])
    return finish(conf, decoders.ByteLevel(), template)


def deepseek_llm(corpus):
    pre = pre_tokenizers.Sequence([split("[\r\n]"), split(DEEPSEEK_LETTERS), split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"),
                                   split(DEEPSEEK_CJK), pre_tokenizers.Digits(True), byte_level()])
    return deepseek_tokens(train(corpus, pre))


def deepseek_v3(corpus):
    pre = pre_tokenizers.Sequence([split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK_V3), byte_level()])
    return deepseek_tokens(train(corpus, pre))


def starcoder(corpus):
    conf = train(corpus, pre_tokenizers.Sequence([pre_tokenizers.Digits(True), byte_level(True)]), special=["<|endoftext|>", "<fim_prefix>"])
    for name in ("<fim_middle>", "<filename>", "<gh_stars>", "<issue_start>"):
        add(conf, name)
    return finish(conf, decoders.ByteLevel())


def regex_kind(pattern, **bpe):
    def make(corpus):
        conf = train(corpus, pre_tokenizers.Sequence([split(pattern), byte_level()]), **bpe)
        add(conf, "<s>")
        return finish(conf, decoders.ByteLevel())
    return make


def falcon(corpus):
    pre = pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), byte_level(True), pre_tokenizers.Digits(False),
                                   split("[0-9][0-9][0-9]")])
    conf = train(corpus, pre)
    for name in (">>TITLE<<", ">>ABSTRACT<<", ">>SUFFIX<<"):
        add(conf, name)
    add(conf, " ", special=False, normalized=True, single_word=True)
    return finish(conf, decoders.ByteLevel())


def clip(corpus):
    norm = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    pre = pre_tokenizers.Sequence([split(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "removed", True), byte_level()])
    conf = train(corpus, pre, norm, special=["<|endoftext|>"], unk_token="<|endoftext|>", end_of_word_suffix="</w>")
    add(conf, "<|startoftext|>", special=True, normalized=True)
    return finish(conf, decoders.ByteLevel())


def sentencepiece(corpus, byte_fallback=True, fuse_unk=True, **kind):
    """A BPE of characters as converted from SentencePiece: unknown, BOS, EOS, 256 byte tokens, then pieces."""
    conf = train(corpus, pre_tokenizers.Metaspace(), alphabet=False, size=1200)
    names = ["<unk>", "<s>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if byte_fallback else [])
    pieces = sorted(conf["model"]["vocab"], key=conf["model"]["vocab"].get)
    conf["model"].update(vocab={p: i for i, p in enumerate(names + pieces)}, unk_token="<unk>", fuse_unk=fuse_unk, byte_fallback=byte_fallback)
    conf.update({"added_tokens": [], "normalizer": None, "pre_tokenizer": None, **kind})
    for name in names[:3]:
        add(conf, name)
    template = processors.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", 1)])
    return finish(conf, None, template)


def llama_decoder(strip=True):
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()] + ([decoders.Strip(" ", 1, 0)] if strip else [])
    return part(decoders.Sequence(steps))


def llama2(corpus):
    norm = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return sentencepiece(corpus, normalizer=part(norm), decoder=llama_decoder())


def mistral(corpus):
    return sentencepiece(corpus, pre_tokenizer=part(pre_tokenizers.Metaspace("▁", "first", False)), decoder=llama_decoder())


def gemma(corpus):
    conf = sentencepiece(corpus, normalizer=part(normalizers.Replace(" ", "▁")),
                         pre_tokenizer=part(pre_tokenizers.Split(" ", "merged_with_previous", False)), decoder=llama_decoder(False))
    for text in ("\n\n", "\n\n\n", "▁▁", "▁▁▁▁", "\t\t"):
        add(conf, text, special=False, normalized=False)
    return conf


def metaspace(scheme, split_it, byte_fallback):
    def make(corpus):
        step = pre_tokenizers.Metaspace("▁", scheme, split_it)
        conf = sentencepiece(corpus, byte_fallback, pre_tokenizer=part(step), decoder=part(decoders.Metaspace("▁", scheme, split_it)))
        add(conf, "[A]", rstrip=True)
        add(conf, "[B]", special=False, normalized=True, lstrip=True)
        return conf
    return make


def unknown(fuse):
    def make(corpus):
        conf = train(corpus[:40], pre_tokenizers.Whitespace(), normalizers.NFKC(), alphabet=False, size=400, special=["[UNK]"],
                     unk_token="[UNK]", fuse_unk=fuse)
        return finish(conf, decoders.Fuse())
    return make


def subword(corpus):
    conf = train(corpus, pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]),
                 normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]), alphabet=False, size=900,
                 special=["[UNK]"], unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>")
    add(conf, "word", special=False, single_word=True)
    return finish(conf, decoders.BPEDecoder())


KINDS = {
    "gpt2": gpt2, "roberta": roberta, "llama3": llama3,
    "qwen2": lambda c: qwen(c, QWEN2, False), "qwen3": lambda c: qwen(c, QWEN2, True), "qwen35": lambda c: qwen(c, QWEN35, True),
    "deepseek-coder": deepseek_coder, "deepseek-llm": deepseek_llm, "deepseek-v3": deepseek_v3, "starcoder": starcoder,
    "tekken": regex_kind(UPPER_LOWER + "|" + UPPER + r"|\p{N}" + REST, ignore_merges=True),
    "gpt-4o": regex_kind(UPPER_LOWER + CASES + "?|" + UPPER + CASES + r"?|\p{N}{1,3}" + REST),
    "cl100k": regex_kind(CL100K), "falcon": falcon, "clip": clip, "llama2": llama2, "mistral": mistral, "gemma": gemma,
    "metaspace-always": metaspace("always", True, False), "metaspace-first": metaspace("first", True, True),
    "metaspace-never": metaspace("never", False, True), "unknown": unknown(False), "unknown-fused": unknown(True), "subword": subword,
}
# The configurations that the project promises; the others keep the components honest.
PUBLISHED = ["gpt2", "llama3", "qwen2", "qwen3", "deepseek-coder", "deepseek-llm", "deepseek-v3", "starcoder", "llama2", "mistral"]

PATTERNS = [GPT2, LLAMA3, QWEN35, CL100K, r"\s+", r"\p{N}{1,3}", r"\w+", r"[^\w\s]", r"\d", r"[\p{L}\p{M}]+", r"^.", r".$", r"[^\S\r\n]+", r"\S+",
            r"(?<=\s)\p{Lu}", r"\P{L}+", r"[0-9a-fA-F]{2,4}", r"\h+", r"(?>\s+)\p{L}", r"(?m:.)x", r"\p{P}|\p{S}", r"[^(\s|[.,!?])]+"]
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]


def random_kind(corpus, seed):
    r = random.Random(seed)
    norms = [normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Lowercase, normalizers.StripAccents, normalizers.Nmt,
             lambda: normalizers.Strip(r.random() < .5, r.random() < .5), lambda: normalizers.Replace(" ", r.choice(["▁", "", "  "])),
             lambda: normalizers.Replace(Regex(r"\s+|\p{P}{2}"), r.choice([" ", "x", "▁▁"])), lambda: normalizers.Prepend(r.choice(["▁", " ", "ab"]))]
    pres = [lambda: split(r.choice(PATTERNS), r.choice(BEHAVIORS), r.random() < .3), lambda: pre_tokenizers.Digits(r.random() < .5),
            pre_tokenizers.Whitespace, pre_tokenizers.WhitespaceSplit, lambda: pre_tokenizers.Punctuation(r.choice(BEHAVIORS)),
            lambda: pre_tokenizers.Metaspace("▁", r.choice(["always", "first", "never"]), r.random() < .6),
            lambda: byte_level(r.random() < .5, r.random() < .5), lambda: pre_tokenizers.Split(r.choice([" ", "a", ". "]), r.choice(BEHAVIORS), False)]
    norm = normalizers.Sequence([r.choice(norms)() for _ in range(r.choice([0, 1, 1, 2, 3]))])
    bytes_last = r.random() < .5
    pre = pre_tokenizers.Sequence([r.choice(pres)() for _ in range(r.choice([0, 1, 2, 3]))] + ([byte_level(r.random() < .5)] if bytes_last else []))
    bpe = {"unk_token": "[UNK]", "fuse_unk": r.random() < .5, "ignore_merges": r.random() < .3} if r.random() < .7 else {}
    if r.random() < .2:
        bpe["continuing_subword_prefix"] = r.choice(["##", "@"])
    if r.random() < .2:
        bpe["end_of_word_suffix"] = "</w>"
    fallback = [f"<0x{b:02X}>" for b in range(256)] if r.random() < .3 else []
    conf = train(corpus[:120], pre, norm, size=r.choice([300, 700]) + len(fallback), special=["[UNK]"] + fallback, alphabet=bytes_last, **bpe)
    conf["model"]["byte_fallback"] = bool(fallback)
    conf["added_tokens"] = conf["added_tokens"][:1]
    # Tokens that strip on both sides, or are space themselves, make the package panic or eat all memory.
    left = r.random() < .5
    for text in r.sample(["<s>", "</s>", "<|im_end|>", "the", "  ", "É", "a b", "A", "\n", "ab", "🙂", "_", "0"], r.randint(0, 6)):
        strips = r.random() < .4 and bool(text.strip())
        add(conf, text, special=r.random() < .4, normalized=r.random() < .5, single_word=r.random() < .3, lstrip=left and strips,
            rstrip=not left and strips)
    dec = r.choice([decoders.ByteLevel(), decoders.Fuse(), decoders.Metaspace(), decoders.BPEDecoder(), None,
                    decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
                    decoders.Sequence([decoders.Replace(Regex(r"\s"), "_"), decoders.ByteFallback()])])
    conf["decoder"] = part(dec) if dec else None
    return conf
