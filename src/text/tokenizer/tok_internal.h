/* tok_internal.h - the parts of a tokenizer and of its scratch, for the tok_*.c files.
 *
 * Owns: the structs. Text passes through them in this order: added tokens found as spelled (tok_added.c), normalizers
 * (tok_normalize.c), added tokens found in normalized text, pre-tokenizers (tok_pretokenize.c), the model (tok_bpe.c),
 * the post-processor (tokenizer.c); and back through the decoders (tok_decode.c). */
#ifndef RT_TOKENIZER_TOK_INTERNAL_H
#define RT_TOKENIZER_TOK_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8

#include "base/mem.h"
#include "text/tokenizer/tok_unicode.h"
#include "text/tokenizer/tokenizer.h"

#include <pcre2.h>

enum {
    RT_TOK_MAX_STEPS = 64, /* of one kind, nested sequences counted; bounds recursion */
    RT_TOK_MAX_TEXTS = 8,  /* times that a template uses its text; its parts are RT_TOK_MAX_STEPS at most */
    RT_TOK_NONE = UINT32_MAX,
};

/* ---- vocabulary (tok_vocab.c) ---------------------------------------------------------------------------------------
 */

enum {
    RT_TOKEN_MODEL = 1,   /* in the vocabulary of the model */
    RT_TOKEN_ADDED = 2,   /* found in the text before the model sees it */
    RT_TOKEN_SPECIAL = 4, /* left out when special tokens are skipped */
    RT_TOKEN_UNUSED = 8,  /* padding */
};

typedef struct rt_tok_entry {
    rt_tok_text text;   /* data is null when the id is a hole */
    rt_tok_text decode; /* what the decoders are given: text, or its normalized form for some added tokens */
    rt_tok_text bytes;
    uint32_t flags;
    uint32_t added; /* index into the added tokens + 1; 0: it is none */
} rt_tok_entry;

/* From a string to an id: open addressing over ids, whose keys are in the entries. */
typedef struct rt_tok_map {
    uint32_t *slots; /* id + 1; 0 is empty */
    uint32_t mask, used;
} rt_tok_map;

typedef struct rt_tok_vocab {
    rt_arena arena; /* every string of the tokenizer */
    rt_tok_entry *entries;
    uint32_t size, cap; /* ids are below size */
    uint32_t model_count, added_count, special_count;
    rt_tok_map model, added; /* by text */
    rt_tok_text *raw;        /* (size) bytes of byte-level tokens; null data when it is not one */
    rt_tok_map by_raw;
} rt_tok_vocab;

void rt_tok_vocab_free(rt_tok_vocab *v);
/* Copies s into the arena. data is null when out of memory. */
rt_tok_text rt_tok_keep(rt_tok_vocab *v, const char *data, size_t len);
/* The entry of an id, made room for; null when out of memory. */
rt_tok_entry *rt_tok_vocab_at(rt_tok_vocab *v, uint32_t id);
bool rt_tok_map_reserve(rt_tok_map *m, uint32_t count); /* once, before the first add; without it the map grows */
/* key_of: which key of an entry the map is by. */
typedef enum { RT_KEY_TEXT, RT_KEY_RAW } rt_tok_key;
int rt_tok_map_add(rt_tok_map *m, const rt_tok_vocab *v, rt_tok_key by, uint32_t id, rt_err *e);
uint32_t rt_tok_map_find(const rt_tok_map *m, const rt_tok_vocab *v, rt_tok_key by, const char *data, size_t len);
/* Fills raw and by_raw. */
int rt_tok_vocab_make_raw(rt_tok_vocab *v, rt_err *e);

static inline uint32_t rt_tok_vocab_find(const rt_tok_vocab *v, const char *data, size_t len)
{
    return rt_tok_map_find(&v->model, v, RT_KEY_TEXT, data, len);
}

static inline uint64_t rt_tok_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 m = (unsigned __int128)(a ^ 0x9E3779B97F4A7C15u) * (b ^ 0xE7037ED1A0B428DBu);
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}
uint64_t rt_tok_hash(const char *data, size_t len);
/* Slots that are looked at for one key. In tables that are at most half full no other keys than ones made to fall
 * together need as many: of a million some 100. */
enum { RT_TOK_MAX_PROBES = 256 };
int rt_tok_crowded(rt_err *e);

/* ---- patterns (tok_regex.c, tok_match.c) ----------------------------------------------------------------------------
 */

/* Published patterns that have a matcher of their own; the words are those of tok_match.c. */
typedef enum { RT_MATCH_NONE, RT_MATCH_GPT2, RT_MATCH_LLAMA3, RT_MATCH_QWEN2, RT_MATCH_QWEN35 } rt_tok_matcher;

typedef struct rt_tok_pattern {
    rt_tok_text literal; /* not a regex when data is not null */
    rt_tok_matcher matcher;
    pcre2_code *code;
    bool jit;
    uint32_t weight; /* of a step that is counted; 0: a pattern whose work is known to be in proportion to the text */
} rt_tok_pattern;

/* A pattern of the tokenizers package (Oniguruma's dialect) said in PCRE2's, appended to out. RT_UNSUPPORTED names what
 * has no equal. where is the place in the file, for messages. loops, if not null: becomes the number of repetitions,
 * and the pattern gets a callout at every place that can be come to again and again without the text moving on: behind
 * repetitions and groups, and where a look ahead or behind begins. */
int rt_tok_regex_translate(const char *pattern, size_t len, const char *where, uint32_t *loops, rt_str *out, rt_err *e);
/* matchers: whether a matcher of our own may stand in. */
int rt_tok_pattern_compile(rt_tok_pattern *p, const char *pattern, size_t len, bool matchers, const char *where,
                           rt_err *e);
void rt_tok_pattern_free(rt_tok_pattern *p);

/* What matching needs besides the pattern. */
typedef struct rt_tok_regex_scratch {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    uint64_t left;        /* steps that patterns may still take */
    uint32_t weight;      /* of the pattern that is being matched */
    size_t attempt, last; /* where its attempt began, and where its last step was */
} rt_tok_regex_scratch;

/* Steps that patterns may take in all: a number for every byte of text, and some more for a short one. Published
 * patterns take few: that of GPT-4o, if it were counted, 4 a byte of code and prose. A step is a callout, or a byte
 * that was read to get to it. */
enum { RT_TOK_STEPS = 1 << 14, RT_TOK_STEPS_A_BYTE = 256, RT_TOK_MAX_PATTERN = 4096 };
static inline uint64_t rt_tok_steps(size_t bytes) { return RT_TOK_STEPS + (uint64_t)RT_TOK_STEPS_A_BYTE * bytes; }
int rt_tok_regex_scratch_new(rt_tok_regex_scratch *r, rt_err *e);
void rt_tok_regex_scratch_free(rt_tok_regex_scratch *r);

/* Matches of a pattern in a text, from left to right, not overlapping. */
typedef struct rt_tok_matches {
    const rt_tok_pattern *pattern;
    const uint16_t *table;
    rt_tok_regex_scratch *scratch;
    const char *text;
    size_t len, at, last_end; /* last_end: SIZE_MAX before the first match */
    size_t start, end;        /* the match that was found */
} rt_tok_matches;
/* 1: found; 0: no more; negative: a status. */
int rt_tok_match_next(rt_tok_matches *m, rt_err *e);
/* The end of the match that starts at at: the well-known patterns match everywhere. at < len. */
size_t rt_tok_match_known(rt_tok_matcher which, const uint16_t *table, const char *text, size_t len, size_t at);
rt_tok_matcher rt_tok_matcher_of(const char *pattern, size_t len);
const char *rt_tok_matcher_pattern(rt_tok_matcher which); /* the exact text that selects it */

/* ---- steps ----------------------------------------------------------------------------------------------------------
 */

typedef enum {
    RT_NORM_NFC,
    RT_NORM_NFD,
    RT_NORM_NFKC,
    RT_NORM_NFKD,
    RT_NORM_LOWER,
    RT_NORM_STRIP,
    RT_NORM_STRIP_ACCENTS,
    RT_NORM_REPLACE,
    RT_NORM_PREPEND,
    RT_NORM_NMT,
    RT_NORM_BYTE_LEVEL,
} rt_norm_kind;

typedef struct rt_tok_norm {
    rt_norm_kind kind;
    bool left, right;       /* Strip */
    rt_tok_pattern pattern; /* Replace */
    rt_tok_text content;    /* Replace, Prepend */
} rt_tok_norm;

typedef enum {
    RT_SPLIT_REMOVED,
    RT_SPLIT_ISOLATED,
    RT_SPLIT_WITH_PREVIOUS,
    RT_SPLIT_WITH_NEXT,
    RT_SPLIT_CONTIGUOUS
} rt_split_behavior;

typedef enum {
    RT_PRE_BYTE_LEVEL,
    RT_PRE_BYTE_MAP, /* behind a ByteLevel that is not the last: later steps see the characters for the bytes */
    RT_PRE_SPLIT,
    RT_PRE_DIGITS,
    RT_PRE_WHITESPACE,
    RT_PRE_WHITESPACE_SPLIT,
    RT_PRE_PUNCTUATION,
    RT_PRE_METASPACE,
} rt_pre_kind;

typedef enum { RT_PREPEND_ALWAYS, RT_PREPEND_FIRST, RT_PREPEND_NEVER } rt_prepend_scheme;

typedef struct rt_tok_pre {
    rt_pre_kind kind;
    rt_tok_pattern pattern; /* Split, ByteLevel with its regex */
    rt_split_behavior behavior;
    bool invert;              /* Split */
    bool prefix_space;        /* ByteLevel */
    bool use_regex;           /* ByteLevel */
    rt_prepend_scheme scheme; /* Metaspace */
    bool split;               /* Metaspace */
    rt_tok_text replacement;  /* Metaspace: one character */
} rt_tok_pre;

typedef enum {
    RT_DEC_BYTE_LEVEL,
    RT_DEC_BYTE_FALLBACK,
    RT_DEC_METASPACE,
    RT_DEC_FUSE,
    RT_DEC_STRIP,
    RT_DEC_REPLACE,
    RT_DEC_BPE
} rt_dec_kind;

typedef struct rt_tok_dec {
    rt_dec_kind kind;
    rt_tok_pattern pattern; /* Replace */
    rt_tok_text content;    /* Replace; Strip and Metaspace: one character; BPEDecoder: the suffix */
    uint32_t start, stop;   /* Strip */
    bool keep_first;        /* Metaspace: the scheme is never */
} rt_tok_dec;

/* ---- added tokens (tok_added.c) -------------------------------------------------------------------------------------
 */

typedef struct rt_tok_added {
    uint32_t id;
    rt_tok_text content;
    bool single_word, lstrip, rstrip, normalized, special;
} rt_tok_added;

typedef struct rt_tok_trie_node {
    uint32_t child, sibling; /* 0: none */
    uint32_t match;          /* index into added + 1 */
    uint8_t byte;
} rt_tok_trie_node;

typedef struct rt_tok_trie {
    rt_tok_trie_node *nodes; /* 0 is the root */
    uint32_t count, cap;
    uint32_t patterns;
    int only_first;       /* the one byte that all patterns begin with, or -1 */
    uint32_t root[256];   /* child of the root by byte */
    uint64_t pairs[1024]; /* bit: some pattern begins with these two bytes, or is the first alone */
} rt_tok_trie;

/* RT_FORMAT when the pattern is empty or there already. */
int rt_tok_trie_add(rt_tok_trie *t, rt_tok_text pattern, uint32_t index, rt_err *e);
void rt_tok_trie_finish(rt_tok_trie *t);

/* ---- the tokenizer --------------------------------------------------------------------------------------------------
 */

typedef struct rt_tok_merge {
    uint32_t left, right, rank, result; /* rank RT_TOK_NONE: the slot is empty */
} rt_tok_merge;

typedef struct rt_tok_model {
    bool spm; /* merges by score of the joined text; else by rank of the pair of ids */
    rt_tok_merge *merges;
    uint32_t merge_mask, merge_count;
    uint32_t *score_rank; /* (size) spm: scores in descending order as ranks */
    bool has_unk;
    rt_tok_text unk;
    uint32_t unk_id; /* RT_TOK_NONE when the vocabulary lacks it */
    bool fuse_unk, byte_fallback, ignore_merges;
    rt_tok_text prefix, suffix; /* continuing_subword_prefix, end_of_word_suffix; empty when there is none */
    bool byte_level;            /* words come as bytes, not as the characters that stand for them */
    bool bytes_known;           /* every byte has an id in byte_id */
    bool cut_space;             /* no merge joins a character with a following U+2581: words may be cut before it */
    uint32_t byte_id[256];      /* byte_level: of the character for the byte; spm: of "<0x..>" */
    uint32_t max_len;           /* bytes of the longest token */
} rt_tok_model;

enum { RT_TOK_SEQUENCE = UINT32_MAX }; /* in a template: the text itself */

struct rt_tokenizer {
    rt_tok_vocab vocab;
    rt_tok_model model;
    uint16_t *table; /* classes of code points */
    rt_tok_added *added;
    uint32_t added_len, added_cap;
    rt_tok_trie *raw_trie, *norm_trie; /* null when empty */
    rt_tok_norm *norms;
    uint32_t norm_count, norm_cap;
    rt_tok_pre *pres;
    uint32_t pre_count, pre_cap;
    rt_tok_dec *decs;
    uint32_t dec_count, dec_cap;
    bool has_decoder; /* without one, tokens are joined by spaces */
    uint32_t *post;   /* ids and RT_TOK_SEQUENCE */
    uint32_t post_count, post_cap;
    uint32_t prefix_count, suffix_count; /* ids before the first and after the last sequence */
    rt_hash128 hash;
};

/* ---- scratch --------------------------------------------------------------------------------------------------------
 */

enum { RT_WORD_KEY = 24, RT_WORD_IDS = 9, RT_WORD_FIRST_SLOTS = 1 << 9, RT_WORD_SLOTS = 1 << 16 };

/* One line of cache: a word of at most RT_WORD_KEY bytes and its ids. len 0: empty. */
typedef struct rt_cached_word {
    uint64_t key[RT_WORD_KEY / 8];
    uint8_t len, count;
    uint16_t unused;
    uint32_t ids[RT_WORD_IDS];
} rt_cached_word;

typedef struct rt_tok_sym {
    uint32_t id, start, len; /* len 0: merged away */
    uint32_t prev, next;     /* RT_TOK_NONE at the ends */
    uint32_t rank, result;   /* of this symbol with the next */
} rt_tok_sym;

struct rt_tok_scratch {
    const rt_tokenizer *t;
    rt_tok_regex_scratch regex;
    rt_str repaired, normal[2], mapped, spelled_bytes;
    rt_str *step;          /* (pre_count) text that a pre-tokenizer made */
    rt_cached_word *words; /* (word_slots), in sets of two; grows to RT_WORD_SLOTS */
    uint32_t word_slots, word_count;
    rt_tok_sym *syms;
    uint32_t sym_count, sym_cap;
    uint64_t *heap;
    uint32_t heap_count, heap_cap;
    uint32_t *points; /* code points of a stretch being normalized */
    uint32_t point_cap;
    rt_tok_ids *out;
    rt_err *e;
    unsigned flags;
    size_t given, made; /* bytes of the text, and of what pre-tokenizers made of it */
};

/* A part of the text on its way through the steps. zero: how many of its leading bytes come from the first character of
 * the original text (Metaspace's "first" asks). */
typedef struct rt_tok_piece {
    const char *text;
    size_t len, zero;
} rt_tok_piece;

static inline rt_tok_piece rt_tok_cut(rt_tok_piece p, size_t start, size_t end)
{
    return (rt_tok_piece){ p.text + start, end - start, start < p.zero ? p.zero - start : 0 };
}

int rt_tok_out_of_memory(rt_err *e);
/* How long the steps of a tokenizer may make a text: NFKD makes 11 bytes of one at most, a mark for a space 3, bytes as
 * characters 2; a file of a stranger's may ask for gigabytes. RT_INVALID when `made` bytes of `given` are more. */
static inline size_t rt_tok_most(size_t given) { return 1024 + 64 * given; }
int rt_tok_within(size_t made, size_t given, rt_err *e);
int rt_tok_emit(rt_tok_scratch *s, uint32_t id);

/* Calls piece for each part that is text and emits the id of each added token in between. */
int rt_tok_added_split(rt_tok_scratch *s, const rt_tok_trie *trie, rt_tok_piece p,
                       int (*piece)(rt_tok_scratch *, rt_tok_piece));
/* Runs the normalizers; *p then points into s (or still to where it was). */
int rt_tok_normalize(rt_tok_scratch *s, rt_tok_piece *p);
/* One normalisation form, out of tok_nfc.c: appends to out. */
int rt_tok_nf(rt_tok_scratch *s, rt_norm_kind form, rt_tok_piece *p, rt_str *out);
int rt_tok_pretokenize(rt_tok_scratch *s, rt_tok_piece p);
int rt_tok_word_encode(rt_tok_scratch *s, const char *text, size_t len);

/* ---- building -------------------------------------------------------------------------------------------------------
 */

rt_tokenizer *rt_tok_new(void);
int rt_tok_vocab_add(rt_tokenizer *t, uint32_t id, const char *data, size_t len, const char *where, rt_err *e);
int rt_tok_merges_reserve(rt_tokenizer *t, uint32_t count, rt_err *e);
int rt_tok_merge_add(rt_tokenizer *t, uint32_t rank, rt_tok_text left, rt_tok_text right, const char *where, rt_err *e);
int rt_tok_scores_set(rt_tokenizer *t, const float *scores, rt_err *e);
int rt_tok_added_add(rt_tokenizer *t, const rt_tok_added *a, const char *where, rt_err *e);
int rt_tok_norm_add(rt_tokenizer *t, const rt_tok_norm *n, const char *where, rt_err *e);
int rt_tok_pre_add(rt_tokenizer *t, const rt_tok_pre *p, const char *where, rt_err *e);
int rt_tok_dec_add(rt_tokenizer *t, const rt_tok_dec *d, const char *where, rt_err *e);
int rt_tok_post_add(rt_tokenizer *t, uint32_t id, rt_err *e);
/* Once everything is there: tries, bytes of tokens, hash, shortcuts. */
int rt_tok_finish(rt_tokenizer *t, rt_err *e);
int rt_tok_model_finish(rt_tokenizer *t, rt_err *e);
/* The bytes that a token stands for, by the decoders that look at one token alone. spare is for the function's own use.
 */
int rt_tok_token_bytes(const rt_tokenizer *t, rt_tok_regex_scratch *r, rt_tok_text token, rt_str *out, rt_str *spare,
                       rt_err *e);

#endif
