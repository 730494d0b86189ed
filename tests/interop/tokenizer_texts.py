"""tokenizer_texts.py - texts to compare tokenizers on: many scripts, emoji, control characters, special tokens, bytes that are
not UTF-8. Everything follows from the seed."""
import random

SENTENCES = [
    "The quick brown fox doesn't jump over 12345 lazy dogs; I'll say they've done it.",
    "def encode(self, text: str) -> list[int]:\n        return [self.vocab.get(c, 0) for c in text]  # O(n)",
    "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", 0x7fffffff); return 0; }",
    "{\"role\": \"user\", \"content\": \"What's 3.14159 * 2?\", \"id\": null, \"list\": [1, 2, 3]}",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Ο καλύμνιος σφουγγαράς ψιθύρισε πως θα βουτήξει χωρίς να διστάζει.",
    "Portez ce vieux whisky au juge blond qui fume; l'été, Noël, cœur, naïve façade.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Straße, STRASSE, ẞ.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy. Zażółć gęślą jaźń.",
    "Tiếng Việt có nhiều dấu: ế ề ể ễ ệ, ư ơ đ.",
    "我想在apple工作1314151天～ 中文分词并不容易，你说呢？「引用」",
    "日本語のテキストをトークン化する。ひらがなとカタカナ、ﾊﾝｶｸもある。",
    "한국어 텍스트를 토큰으로 나눕니다. 각 글자는 조합됩니다. 한글",
    "نص عربي مع أرقام ١٢٣٤٥ وعلامات؟ اَلْعَرَبِيَّةُ",
    "עברית עם ניקוד: שָׁלוֹם עוֹלָם",
    "हिन्दी में कुछ पाठ, संख्या १२३ और विराम। क्षत्रिय",
    "বাংলা লেখা ২০২৪ সালে। தமிழ் எழுத்து. తెలుగు రాయడం. ಕನ್ನಡ. മലയാളം.",
    "ภาษาไทยไม่มีช่องว่างระหว่างคำ ๑๒๓ ภาษาลาว ພາສາລາວ ភាសាខ្មែរ កាន់តែពិសេសអាច",
    "ქართული ენა და ᲛᲗᲐᲕᲠᲣᲚᲘ. Հայերեն լեզու։ አማርኛ ቋንቋ። ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ",
    "😀 😶‍🌫️ 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇯🇵 👍🏽 ✅ ❤️ 1️⃣ 🚀🚀 ☺",
    "'RE you sure? 'M not sure I'll make it, 'D you like? We'Ve a'lL 'ſ 'S 'T can’t",
    "x = a+b-c*d/e%f; !!! ... ??? --> <-- === !== &&& ||| ~~~ ``` \"\"\"doc\"\"\" '''s''' @@ $$ ^^",
    "\t\tindented\n\n\n  two\r\n\r\nlines \u00a0nbsp\u3000wide\u2028sep\u0085nel\u180emvs\u200bzw\x1c\x1d\x1e\x1f\x00\x07",
    "\u212b \u212a \u2126 \u1f7d \ufb01 \u0340 \u0344 \u0958 e\u0301 o\u0302\u0301 \u1100\u1161\u11a8 \uac00\u11a8 \u0fb3\u0f71\u0f72 \U0001d15e",
    "ﬁ ﬂ ﬀ ſt ½ ² ³ ① Ⅳ ™ Å K Ω ㎏ ﷺ ゛ À̖́ ạ̈ q̣̇ 각 ế Ǆ ǅ İı",
    "𝒳𝓎𝔷 𝟘𝟙 𐐀𐐨 𠀀𠀁 𪚥 𐎠 𓀀 🀄 ℝ ∑ ∫ √ ≠ ≤ ∞ → ⇒ █ ░ ☃ ©®",
]
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>", "<mask>", "<|begin_of_text|>", "<|eot_id|>", "<think>", "</think>",
            "<tool_call>", "<｜begin▁of▁sentence｜>", "<｜User｜>", "<fim_prefix>", "<|reserved_special_token_17|>", "<|reserved_special_token_1", "[A]",
            "[B]", "[UNK]", "[DAY]", "<0x0A>", "<0xE4>", "<|", "|>", "▁", "▁▁", "Ġ", "##a", "</w>", ">>TITLE<<", "the", "word", "<|startoftext|>", "õ"]
BLOCKS = [(0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0x11FF), (0x1200, 0x1FFF), (0x2000, 0x2BFF),
          (0x2E80, 0x33FF), (0x3400, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7FF), (0xE000, 0xFAFF), (0xFB00, 0xFFFF), (0x10000, 0x11FFF),
          (0x12000, 0x1FFFF), (0x1F300, 0x1FAFF), (0x20000, 0x323AF), (0xE0000, 0xE01FF), (0x10D40, 0x10D90), (0x11380, 0x113E2), (0x16EA0, 0x16EC0),
          (0x300, 0x36F), (0x0, 0x1F), (0x7F, 0xA0)]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\r", " \n", "\n ", "\u00a0", "\u3000", "\u2009", "\u0085", "\u2028", "\u180e", "\x1c", "\u200b", "\x0b", "\x0c"]
BAD = [b"\xff", b"\xc3", b"\xe4\xbd", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\x80", b"\xf4\x90\x80\x80", b"\xe2\x28\xa1", b"\xfe\xfe", b"\xf0\x80\x80\x80"]


def piece(r):
    kind = r.random()
    if kind < .30:
        words = r.choice(SENTENCES).split(" ")
        start = r.randrange(len(words))
        return " ".join(words[start:start + r.randint(1, 5)])
    if kind < .38:
        s = r.choice(SENTENCES)
        a = r.randrange(len(s))
        return s[a:a + r.randint(1, 12)]
    if kind < .50:
        return r.choice(SPACES) * r.choice([1, 1, 1, 2, 3, 7])
    if kind < .58:
        return r.choice(["'s", "'S", "'t", "'re", "'RE", "'ll", "'ſ", "'d", "'M", "'x", "’s", "''", "'", "it's", "WE'VE"])
    if kind < .66:
        digits = r.choice(["0123456789", "0123456789", "٠١٢٣٤٥", "०१२३", "²³½", "Ⅳⅻ", "𝟘𝟙𝟚", "０１２", "①②"])
        return "".join(r.choice(digits) for _ in range(r.randint(1, 9)))
    if kind < .74:
        return r.choice(SPECIALS)
    if kind < .80:
        return "".join(r.choice("!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~。，、！？¿¡«»…—–•·") for _ in range(r.randint(1, 6)))
    if kind < .92:
        low, high = r.choice(BLOCKS)
        return "".join(chr(r.randint(low, high)) for _ in range(r.randint(1, 5)))
    if kind < .95:
        return "".join(chr(c) for c in (r.randrange(0x110000) for _ in range(r.randint(1, 4))) if not 0xD800 <= c <= 0xDFFF)
    if kind < .97:
        return r.choice("aéx 🙂漢ـ") * r.choice([5, 30, 90])
    return r.choice("aeiouAEIOUnq") + "".join(chr(r.choice([0x300, 0x301, 0x302, 0x323, 0x327, 0x308, 0x30A, 0x345, 0x5B0, 0x93C, 0x1161, 0x11A8]))
                                             for _ in range(r.randint(1, 4)))


def texts(count, seed):
    """Byte strings; about one in ten is not valid UTF-8."""
    r = random.Random(seed)
    for _ in range(count):
        data = b"".join(piece(r).encode() for _ in range(r.choice([0, 1, 1, 2, 2, 3, 4, 6, 9])))
        if r.random() < .1:
            for _ in range(r.randint(1, 3)):
                at = r.randint(0, len(data))
                data = data[:at] + r.choice(BAD) + data[at:]
        yield data


def documents(count, seed):
    """Long texts: many pieces, and words of thousands of characters."""
    r = random.Random(seed + 1)
    for i in range(count):
        if i % 4 == 0:
            alphabet = r.choice(["ab", "abcdefghijklmnopqrstuvwxyz", "0123456789abcdef", "漢字仮名", "aé", "🙂x", "=-", "the "[:3]])
            yield "".join(r.choice(alphabet) for _ in range(r.randint(500, 6000))).encode()
        else:
            yield b"".join(piece(r).encode() for _ in range(r.randint(100, 1500)))


def corpus(count=400, seed=1):
    """Text to train on."""
    r = random.Random(seed)
    # A vocabulary with the NUL character is refused by our reader of JSON.
    return [" ".join(r.choice(SENTENCES) for _ in range(4)).replace("\0", "") for _ in range(count)]
