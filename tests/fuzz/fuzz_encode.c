/* fuzz_encode.c - any bytes as text for tokenizers of every kind: ids that exist, the same ids from a fresh scratch,
 * and back to the same text where nothing is lost.
 *
 * The first byte chooses the tokenizer, the second the flags. With -DRT_FUZZ_REPLAY it has a main() of its own
 * (replay.h). */
#include "base/mem.h"
#include "text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

/* JSON with ` for the quotes, to be readable here. */
#define SPLIT(pattern) "{`type`: `Split`, `pattern`: {`Regex`: `" pattern "`}, `behavior`: `Isolated`, `invert`: false}"
#define BYTE_LEVEL(regex)                                                                                              \
    "{`type`: `ByteLevel`, `add_prefix_space`: false, `trim_offsets`: true, `use_regex`: " regex "}"
#define METASPACE "{`type`: `Metaspace`, `replacement`: `\\u2581`, `prepend_scheme`: `first`, `split`: true}"
#define REPLACE(from, to) "{`type`: `Replace`, `pattern`: {`String`: `" from "`}, `content`: `" to "`}"
#define TYPE(name) "{`type`: `" name "`}"
#define SEQUENCE(of, list) "{`type`: `Sequence`, `" of "`: [" list "]}"
#define ADDED(id, text, word, strip, special)                                                                          \
    "{`id`: " #id ", `content`: `" text "`, `single_word`: " word ", `lstrip`: " strip ", `rstrip`: false, "           \
    "`normalized`: " word ", `special`: " special "}"
#define LLAMA3                                                                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}|"                              \
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define CASED "[^\\\\r\\\\n\\\\p{L}]?[\\\\p{Lu}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lo}\\\\p{M}]+|\\\\p{N}|\\\\s+(?!\\\\S)"

/* What stands around a byte-level vocabulary, or around one of characters; lossless: decoding gives the text back. */
/* clang-format off */
static const struct {
    bool bytes, lossless;
    const char *parts;
} kinds[] = {
    { true, true, "`pre_tokenizer`: " BYTE_LEVEL("true") ", `decoder`: " BYTE_LEVEL("true") },
    { true, true,
      "`pre_tokenizer`: " SEQUENCE("pretokenizers", SPLIT(LLAMA3) ", " BYTE_LEVEL("false")) ", "
      "`decoder`: " BYTE_LEVEL("true") },
    { true, false,
      "`normalizer`: " TYPE("NFC") ", "
      "`pre_tokenizer`: " SEQUENCE("pretokenizers",
          "{`type`: `Digits`, `individual_digits`: true}, " SPLIT(CASED) ", " BYTE_LEVEL("false")) ", "
      "`decoder`: " BYTE_LEVEL("true") },
    { false, false,
      "`normalizer`: " SEQUENCE("normalizers",
          "{`type`: `Prepend`, `prepend`: `\\u2581`}, " REPLACE(" ", "\\u2581")) ", "
      "`decoder`: " SEQUENCE("decoders",
          REPLACE("\\u2581", " ") ", " TYPE("ByteFallback") ", " TYPE("Fuse") ", "
          "{`type`: `Strip`, `content`: ` `, `start`: 1, `stop`: 0}") },
    { false, false, "`pre_tokenizer`: " METASPACE ", `decoder`: " METASPACE },
    { false, false,
      "`normalizer`: " SEQUENCE("normalizers",
          TYPE("NFKD") ", " TYPE("StripAccents") ", " TYPE("Lowercase") ", "
          "{`type`: `Strip`, `strip_left`: true, `strip_right`: true}, " TYPE("Nmt") ", " TYPE("NFKC")) ", "
      "`pre_tokenizer`: " SEQUENCE("pretokenizers",
          "{`type`: `Punctuation`, `behavior`: `MergedWithNext`}, " TYPE("Whitespace")) },
};
/* clang-format on */
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const char byte_pairs[] =
    "`ab`: 257, `aa`: 258, `aaaa`: 259, `\\u0120a`: 260, `\\u00e4\\u00b8`: 261, `ba`: 262, `aab`: 263, `abe`: 264}, "
    "`merges`: [[`a`, `b`], [`a`, `a`], [`aa`, `aa`], [`\\u0120`, `a`], [`\\u00e4`, `\\u00b8`], [`b`, `a`], "
    "[`a`, `ab`]]";
static const char char_pairs[] =
    "`a`: 257, `b`: 258, `e`: 259, `\\u2581`: 260, `\\u4e2d`: 261, `ab`: 262, `aa`: 263, `\\u2581a`: 264}, "
    "`merges`: [[`a`, `b`], [`a`, `a`], [`\\u2581`, `a`]]";

/* The character that stands for a byte, in JSON. */
static void spell(rt_str *out, unsigned byte, unsigned *next)
{
    bool itself = (byte >= 0x21 && byte <= 0x7E && byte != '`') || (byte >= 0xA1 && byte != 0xAD);
    rt_str_printf(out, "\\u%04x", itself || byte == '`' ? byte : 0x100 + (*next)++);
}

static rt_tokenizer *make(int kind)
{
    rt_err e = { 0 };
    rt_str text = { 0 };
    rt_tokenizer *t = NULL;
    unsigned next = 0;
    rt_str_append(&text,
                  "{`model`: {`unk_token`: `[U]`, `fuse_unk`: true, `byte_fallback`: true, `vocab`: {`[U]`: 0, ");
    for (unsigned b = 0; b < 256; b++) {
        rt_str_append(&text, "`");
        if (kinds[kind].bytes)
            spell(&text, b, &next);
        else
            rt_str_printf(&text, "<0x%02X>", b);
        rt_str_printf(&text, "`: %u, ", b + 1);
    }
    rt_str_append(&text, kinds[kind].bytes ? byte_pairs : char_pairs);
    rt_str_append(&text, "}, `added_tokens`: [" ADDED(265, "<s>", "false", "true", "true") ", ");
    rt_str_append(&text, ADDED(266, "be", "true", "false", "false") "], ");
    rt_str_append(&text, kinds[kind].parts);
    rt_str_append(&text, "}");
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] == '`') text.data[i] = '"';
    if (rt_tokenizer_from_json(&t, text.data, text.len, &e) < 0) {
        fprintf(stderr, "fuzz_encode: kind %d: %s\n", kind, e.text);
        __builtin_trap();
    }
    rt_str_free(&text);
    return t;
}

static void check_decode(const rt_tokenizer *t, const rt_tok_ids *ids, rt_str *whole)
{
    rt_err e = { 0 };
    rt_str parts = { 0 };
    rt_tok_stream *stream = NULL;
    require(rt_tokenizer_decode(t, ids->ids, ids->count, 0, whole, &e) == RT_OK);
    require(rt_tok_stream_new(&stream, t, 0, &e) == RT_OK);
    for (uint32_t i = 0; i < ids->count; i++) {
        size_t before = parts.len;
        require(rt_tok_stream_push(stream, ids->ids[i], &parts, &e) == RT_OK);
        require(parts.len == before || ((unsigned char)parts.data[before] & 0xC0) != 0x80);
    }
    require(rt_tok_stream_end(stream, &parts, &e) == RT_OK);
    bool broken = whole->data && memmem(whole->data, whole->len, "\xEF\xBF\xBD", 3);
    require(broken ||
            (parts.len == whole->len && (whole->len == 0 || memcmp(parts.data, whole->data, whole->len) == 0)));
    rt_tok_stream_free(stream);
    rt_str_free(&parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rt_tokenizer *tokenizers[KINDS];
    static rt_tok_scratch *used[KINDS]; /* with a cache full of other inputs */
    if (size < 2) return 0;
    int kind = data[0] % KINDS;
    unsigned flags = data[1] & (RT_ENCODE_SPECIAL | RT_ENCODE_PLAIN);
    rt_err e = { 0 };
    if (!tokenizers[kind]) {
        tokenizers[kind] = make(kind);
        require(rt_tok_scratch_new(&used[kind], tokenizers[kind], &e) == RT_OK);
    }
    const rt_tokenizer *t = tokenizers[kind];
    const char *text = (const char *)data + 2;
    size_t len = size - 2;
    rt_tok_scratch *fresh = NULL;
    rt_tok_ids a = { 0 }, b = { 0 };
    rt_str whole = { 0 };
    require(rt_tok_scratch_new(&fresh, t, &e) == RT_OK);
    require(rt_tokenizer_encode(t, used[kind], text, len, flags, &a, &e) == RT_OK);
    require(rt_tokenizer_encode(t, fresh, text, len, flags, &b, &e) == RT_OK);
    require(a.count == b.count && (a.count == 0 || memcmp(a.ids, b.ids, a.count * sizeof *a.ids) == 0));
    for (uint32_t i = 0; i < a.count; i++) require(a.ids[i] < rt_tokenizer_size(t));
    check_decode(t, &a, &whole);
    /* Spaces before <s> are stripped, so plain text is what must come back. */
    bool plain = (flags & RT_ENCODE_PLAIN) || !memmem(text, len, "<s>", 3);
    if (kinds[kind].lossless && plain && !(whole.data && memmem(whole.data, whole.len, "\xEF\xBF\xBD", 3)))
        require(whole.len == len && (len == 0 || memcmp(whole.data, text, len) == 0));
    rt_free(a.ids);
    rt_free(b.ids);
    rt_str_free(&whole);
    rt_tok_scratch_free(fresh);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
