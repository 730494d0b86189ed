/* data_shard.c - reads token shards in place: our own, llm.c's, and headerless u32.
 *
 * Owns: every check that a file from elsewhere needs before its offsets may be followed. Opening reads the header and
 * the index; rt_shard_check reads all bytes, rt_shard_verify also what they mean. */
#include "text/data/data_shard_internal.h"

#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    LLMC_U16 = 20240520, /* magic numbers of llm.c's headers, which are 256 int32 long */
    LLMC_U32 = 20240801,
    LLMC_HEADER = 1024,
    DEFAULT_BLOCK = 2048,
};

struct rt_shard {
    rt_map map;
    char *path;
    rt_shard_info info;
    const rt_shard_entry *index; /* own */
    const uint8_t *ids;          /* others: all of them */
    uint32_t block;
    const char *remedy;
};

static int damaged(const rt_shard *s, const char *what, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s: a damaged token shard (%s); %s", s->path, what, s->remedy);
}

/* ---- our own ---- */

static int check_entries(const rt_shard *s, const rt_shard_header *h, rt_err *e)
{
    uint64_t at = sizeof *h, tokens = 0, trained = 0;
    for (uint64_t i = 0; i < h->records; i++) {
        const rt_shard_entry *x = &s->index[i];
        uint64_t bytes = 4 * ((uint64_t)x->count + rt_shard_bit_words(x));
        bool ok = x->at == at && bytes <= h->index_at - at && x->kind < RT_RECORD_KINDS &&
                  x->flags <= (RT_SHARD_ALL_TARGETS | RT_SHARD_STOPS) && x->zero == 0 &&
                  x->trained <= (x->count ? x->count - 1 : 0);
        char what[40];
        snprintf(what, sizeof what, "index entry %" PRIu64, i);
        if (!ok) return damaged(s, what, e);
        at += bytes;
        tokens += x->count;
        trained += x->trained;
    }
    if (rt_align_up(at, 8) != h->index_at) return damaged(s, "bytes between the records and the index", e);
    if (tokens != h->tokens || trained != h->trained) return damaged(s, "the sums of the index", e);
    return RT_OK;
}

static int check_header(const rt_shard *s, const rt_shard_header *h, rt_err *e)
{
    uint64_t index_bytes, text_at, end;
    if (h->version != RT_SHARD_VERSION)
        return rt_fail(e, RT_UNSUPPORTED, "%s: a token shard of version %u; this program reads version %d; %s", s->path,
                       h->version, RT_SHARD_VERSION, s->remedy);
    rt_hash128 hash = rt_shard_header_hash(h);
    if (hash.hi != h->header.hi || hash.lo != h->header.lo) return damaged(s, "the hash of its header", e);
    if (h->header_bytes != sizeof *h || h->zero0 || h->vocab == 0) return damaged(s, "its header", e);
    if (h->index_at < sizeof *h || h->index_at % 8 || h->index_at > s->map.size) return damaged(s, "the index", e);
    if (!rt_mul_u64(h->records, sizeof *s->index, &index_bytes) || !rt_add_u64(h->index_at, index_bytes, &text_at) ||
        !rt_add_u64(text_at, h->text_bytes, &end) || text_at != h->text_at || h->records == 0)
        return damaged(s, "the index", e);
    if (end != s->map.size)
        return rt_fail(e, RT_FORMAT,
                       "%s: a token shard of %llu bytes should have %llu; it is cut off or something was "
                       "added; copy or write it again",
                       s->path, (unsigned long long)s->map.size, (unsigned long long)end);
    return RT_OK;
}

static int check_identity(const rt_shard *s, const rt_shard_header *h, const rt_shard_expect *x, rt_err *e)
{
    char was[33], is[33];
    if (x->tokenizer && (x->tokenizer->hi != h->tokenizer.hi || x->tokenizer->lo != h->tokenizer.lo))
        return rt_fail(e, RT_INVALID,
                       "%s: written with another tokenizer (%s) than that of the model (%s); tokenize "
                       "the text again",
                       s->path, rt_hash_text(was, h->tokenizer), rt_hash_text(is, *x->tokenizer));
    if (x->vocab && h->vocab > x->vocab)
        return rt_fail(e, RT_INVALID, "%s: written for a vocabulary of %u, which is more than %u", s->path, h->vocab,
                       x->vocab);
    return RT_OK;
}

static int open_own(rt_shard *s, const rt_shard_expect *x, rt_err *e)
{
    const rt_shard_header *h = (const rt_shard_header *)s->map.data;
    int rc;
    if (s->map.size < sizeof *h) return damaged(s, "it ends inside its header", e);
    RT_TRY(check_header(s, h, e));
    s->index = (const rt_shard_entry *)(s->map.data + h->index_at);
    RT_TRY(check_entries(s, h, e));
    RT_TRY(check_identity(s, h, x, e));
    s->info = (rt_shard_info){
        .own = true,
        .id_bytes = 4,
        .vocab = h->vocab,
        .tokenizer = h->tokenizer,
        .content = h->content,
        .records = h->records,
        .tokens = h->tokens,
        .trained = h->trained,
        .text = { (const char *)s->map.data + h->text_at, h->text_bytes },
    };
out:
    return rc;
}

/* ---- ids of others ---- */

/* Large files are not read to know them: their size and 64 pieces of them are. */
static rt_hash128 sample_hash(const rt_map *m)
{
    enum { PIECES = 64, PIECE = 64 << 10 };
    rt_hash128 all[PIECES + 1] = { { m->size, 0 } };
    if (m->size <= (uint64_t)PIECES * PIECE) return rt_hash(m->data, m->size);
    for (uint64_t i = 0; i < PIECES; i++) all[i + 1] = rt_hash(m->data + (m->size - PIECE) / (PIECES - 1) * i, PIECE);
    return rt_hash(all, sizeof all);
}

static int read_llmc(rt_shard *s, uint32_t magic, uint64_t *tokens, rt_err *e)
{
    int32_t head[3];
    if (s->map.size < LLMC_HEADER) return rt_fail(e, RT_FORMAT, "%s: ends inside the header of llm.c", s->path);
    memcpy(head, s->map.data, sizeof head);
    s->info.id_bytes = magic == LLMC_U16 ? 2 : 4;
    uint64_t have = (s->map.size - LLMC_HEADER) / s->info.id_bytes;
    if (head[2] < 0 || (uint64_t)head[2] != have || (s->map.size - LLMC_HEADER) % s->info.id_bytes)
        return rt_fail(e, RT_FORMAT, "%s: its header says %d tokens and %llu follow; it is cut off or not from llm.c",
                       s->path, head[2], (unsigned long long)have);
    s->ids = s->map.data + LLMC_HEADER;
    *tokens = have;
    return RT_OK;
}

static int open_other(rt_shard *s, const rt_shard_expect *x, rt_err *e)
{
    uint32_t magic = 0;
    uint64_t tokens = s->map.size / 4;
    if (s->map.size >= 4) memcpy(&magic, s->map.data, 4);
    if (magic == LLMC_U16 || magic == LLMC_U32) {
        int rc = read_llmc(s, magic, &tokens, e);
        if (rc < 0) return rc;
    } else {
        if (!rt_path_ends(s->path, ".bin") && !rt_path_ends(s->path, ".u32"))
            return rt_fail(e, RT_FORMAT, "%s: not a token shard (it does not begin with %s)", s->path, RT_SHARD_MAGIC);
        if (s->map.size % 4)
            return rt_fail(e, RT_FORMAT, "%s: %llu bytes are not a whole number of u32 ids", s->path,
                           (unsigned long long)s->map.size);
        if (x->vocab == 0)
            return rt_fail(e, RT_INVALID,
                           "%s: ids without a header do not say what vocabulary they are of; give "
                           "--vocab N",
                           s->path);
        s->info.id_bytes = 4;
        s->ids = s->map.data;
    }
    if (tokens < 2)
        return rt_fail(e, RT_INVALID, "%s: %llu tokens; nothing can be trained on it", s->path,
                       (unsigned long long)tokens);
    s->block = x->block ? x->block : DEFAULT_BLOCK;
    s->info.vocab = x->vocab;
    s->info.content = sample_hash(&s->map);
    s->info.tokens = tokens;
    s->info.trained = tokens - 1;
    s->info.records = (tokens - 2) / s->block + 1;
    return RT_OK;
}

/* ---- both ---- */

int rt_shard_open(rt_shard **out, const char *path, const rt_shard_expect *x, rt_err *e)
{
    int rc;
    size_t n = strlen(path) + 1;
    rt_shard *s = rt_alloc_zero(sizeof *s, 64);
    *out = NULL;
    if (!s || !(s->path = rt_alloc(n, 16))) {
        rt_free(s);
        return rt_fail(e, RT_NOMEM, "out of memory to open %s", path);
    }
    memcpy(s->path, path, n);
    s->remedy = x->remedy ? x->remedy : "write it again with retort tokenize";
    RT_TRY(rt_map_open(&s->map, path, e));
    bool own = s->map.size >= 8 && memcmp(s->map.data, RT_SHARD_MAGIC, 8) == 0;
    RT_TRY(own ? open_own(s, x, e) : open_other(s, x, e));
    s->info.path = s->path;
    *out = s;
    return RT_OK;
out:
    rt_shard_close(s);
    return rc;
}

void rt_shard_close(rt_shard *s)
{
    if (!s) return;
    rt_map_close(&s->map);
    rt_free(s->path);
    rt_free(s);
}

const rt_shard_info *rt_shard_about(const rt_shard *s) { return &s->info; }

static void get_own(const rt_shard *s, uint64_t i, rt_shard_record *out)
{
    const rt_shard_entry *x = &s->index[i];
    const uint32_t *ids = (const uint32_t *)(s->map.data + x->at), *bits = ids + x->count;
    *out = (rt_shard_record){ .kind = (rt_record_kind)x->kind,
                              .ids = ids,
                              .wide = true,
                              .count = x->count,
                              .trained = x->trained,
                              .next = -1,
                              .source = x->source };
    if (!(x->flags & RT_SHARD_ALL_TARGETS)) {
        out->target = bits;
        bits += ((uint64_t)x->count + 31) / 32;
    }
    if (x->flags & RT_SHARD_STOPS) out->stop = bits;
}

void rt_shard_get(const rt_shard *s, uint64_t i, rt_shard_record *out)
{
    if (s->info.own) {
        get_own(s, i, out);
        return;
    }
    uint64_t at = i * s->block, left = s->info.tokens - at;
    *out = (rt_shard_record){ .kind = RT_RECORD_TEXT,
                              .ids = s->ids + at * s->info.id_bytes,
                              .wide = s->info.id_bytes == 4,
                              .count = left < s->block ? (uint32_t)left : s->block,
                              .next = -1 };
    if (left > out->count)
        out->next = rt_shard_id(
            &(rt_shard_record){ .ids = s->ids + (at + out->count) * s->info.id_bytes, .wide = out->wide }, 0);
    out->trained = out->count - 1 + (out->next >= 0);
}

uint64_t rt_shard_record_hash(const rt_shard *s, uint64_t i)
{
    if (s->info.own) return s->index[i].hash;
    rt_shard_record r;
    rt_shard_get(s, i, &r);
    return rt_hash(r.ids, (size_t)r.count * s->info.id_bytes).lo;
}

/* ---- all of it ---- */

static int check_ids(const rt_shard *s, rt_err *e)
{
    uint64_t vocab = s->info.vocab ? s->info.vocab : s->info.id_bytes == 2 ? 1u << 16 : UINT64_MAX;
    for (uint64_t i = 0; i < s->info.records; i++) {
        rt_shard_record r;
        rt_shard_get(s, i, &r);
        for (uint32_t k = 0; k < r.count; k++)
            if (rt_shard_id(&r, k) >= vocab)
                return rt_fail(e, RT_FORMAT,
                               "%s: token %u of record %llu has id %u, outside the vocabulary of %llu; it "
                               "belongs to another tokenizer, or is damaged",
                               s->path, k, (unsigned long long)i, rt_shard_id(&r, k), (unsigned long long)vocab);
    }
    return RT_OK;
}

int rt_shard_check(rt_shard *s, rt_err *e)
{
    size_t from = s->info.own ? sizeof(rt_shard_header) : 0;
    s->info.hash = rt_hash(s->map.data + from, s->map.size - from);
    if (s->info.own && !rt_hash_equal(s->info.hash, s->info.content)) return damaged(s, "the hash of its content", e);
    return RT_OK;
}

int rt_shard_verify(rt_shard *s, rt_err *e)
{
    int rc = rt_shard_check(s, e);
    if (rc < 0) return rc;
    if (s->info.own) {
        /* What the index says of the targets is what the bits say. */
        for (uint64_t i = 0; i < s->info.records; i++) {
            rt_shard_record r;
            uint32_t trained = 0;
            rt_shard_get(s, i, &r);
            for (uint32_t k = 1; k < r.count; k++) trained += r.target ? rt_bit(r.target, k) : 1;
            if (trained != r.trained) return damaged(s, "targets that the index does not count", e);
        }
    }
    return check_ids(s, e);
}

int rt_shards_length(rt_shard *const *shards, uint32_t count, double share, uint32_t *out, rt_err *e)
{
    enum { LONGEST = 1 << 17 };
    uint64_t total = 0, seen = 0;
    uint64_t *of_length = rt_alloc_zero((LONGEST + 1) * sizeof *of_length, 64);
    if (!of_length) return rt_fail(e, RT_NOMEM, "out of memory to count the lengths of records");
    for (uint32_t k = 0; k < count; k++)
        for (uint64_t i = 0; i < shards[k]->info.records; i++, total++) {
            rt_shard_record r;
            rt_shard_get(shards[k], i, &r);
            of_length[r.count < LONGEST ? r.count : LONGEST]++;
        }
    uint32_t length = 0;
    while (length < LONGEST && (double)(seen += of_length[length]) < share * (double)total) length++;
    *out = length;
    rt_free(of_length);
    return RT_OK;
}
