/* foreign_kd.c - surogate's .kd: a header of 1024 bytes, ids (tokens,k) u32, log-probabilities (tokens,k) f16, row i of
 * what follows token i; beside a token shard: a header of 1024 bytes, tokens and their positions in documents, i32. */
#include "base/file.h"
#include "teacher/cache/foreign_internal.h"

#include <math.h>
#include <string.h>

#define KD_MAGIC "KD.LOGP\n"
#define SHARD_MAGIC "BIN.TOK\n"
enum { HEADER_BYTES = 1024, HASH_AT = 64, HASH_BYTES = 16, KD_VERSION = 1, SHARD_VERSION = 3, TOKEN_BYTES = 4 };

struct rt_foreign_kd {
    rt_map shard, kd;
    uint32_t tokens, k, window, at;
};

static uint32_t field(const rt_map *m, uint32_t i) { return (uint32_t)rt_load_le(m->data + 4 * i, 4); }

static int check_pair(rt_foreign_kd *f, const char *shard, const char *kd, rt_err *e)
{
    if (f->shard.size < HEADER_BYTES || memcmp(f->shard.data, SHARD_MAGIC, 8) != 0)
        return rt_fail(e, RT_FORMAT, "%s is not a token shard of surogate", shard);
    if (f->kd.size < HEADER_BYTES || memcmp(f->kd.data, KD_MAGIC, 8) != 0)
        return rt_fail(e, RT_FORMAT, "%s is not a .kd file of surogate", kd);
    f->tokens = field(&f->kd, 4);
    f->k = field(&f->kd, 3);
    if (field(&f->shard, 2) != SHARD_VERSION || field(&f->shard, 3) != TOKEN_BYTES)
        return rt_fail(e, RT_FORMAT, "%s has version %u with %u bytes a token; version %d with %d is read", shard,
                       field(&f->shard, 2), field(&f->shard, 3), SHARD_VERSION, TOKEN_BYTES);
    if (field(&f->kd, 2) != KD_VERSION || field(&f->kd, 6) != 0)
        return rt_fail(e, RT_FORMAT, "%s has version %u; version %d with f16 is read", kd, field(&f->kd, 2),
                       KD_VERSION);
    if (field(&f->shard, 4) != f->tokens || f->tokens == 0 || f->tokens > INT32_MAX || f->k == 0 ||
        f->k > RT_FOREIGN_MOST_K || f->shard.size < HEADER_BYTES + 8 * (uint64_t)f->tokens ||
        f->kd.size != HEADER_BYTES + 6 * (uint64_t)f->k * f->tokens)
        return rt_fail(e, RT_FORMAT, "%s and %s do not belong together, or one is cut off", shard, kd);
    return RT_OK;
}

int rt_foreign_kd_open(rt_foreign_kd **out, const char *shard, const char *kd, uint32_t window, rt_err *e)
{
    int rc;
    rt_foreign_kd *f = rt_alloc_zero(sizeof *f, _Alignof(rt_foreign_kd));
    *out = NULL;
    if (!f) RT_TRY(rt_no_memory(e, "a token shard"));
    f->window = window;
    RT_TRY(rt_map_open(&f->shard, shard, e));
    RT_TRY(rt_map_open(&f->kd, kd, e));
    RT_TRY(check_pair(f, shard, kd, e));
    *out = f;
    f = NULL;
out:
    rt_foreign_kd_close(f);
    return rc;
}

uint32_t rt_foreign_kd_k(const rt_foreign_kd *f) { return f->k; }

void rt_foreign_kd_close(rt_foreign_kd *f)
{
    if (!f) return;
    rt_map_close(&f->shard);
    rt_map_close(&f->kd);
    rt_free(f);
}

static uint32_t token_at(const rt_foreign_kd *f, uint32_t i)
{
    return (uint32_t)rt_load_le(f->shard.data + HEADER_BYTES + 4 * (uint64_t)i, 4);
}

static uint32_t position_at(const rt_foreign_kd *f, uint32_t i)
{
    return (uint32_t)rt_load_le(f->shard.data + HEADER_BYTES + 4 * ((uint64_t)f->tokens + i), 4);
}

/* Row i; false when nothing is said there: rows that were not captured are zeros, k times id 0 at probability 1. */
static bool read_row(const rt_foreign_kd *f, uint32_t i, rt_foreign_entry *entries, uint32_t *count)
{
    const uint8_t *ids = f->kd.data + HEADER_BYTES + 4 * (uint64_t)f->k * i;
    const uint8_t *logps = f->kd.data + HEADER_BYTES + 4 * (uint64_t)f->k * f->tokens + 2 * (uint64_t)f->k * i;
    bool zeros = true;
    *count = 0;
    for (uint32_t k = 0; k < f->k; k++) {
        uint32_t id = (uint32_t)rt_load_le(ids + 4 * k, 4), half = (uint32_t)rt_load_le(logps + 2 * k, 2);
        float logp = rt_f16_to_f32((uint16_t)half);
        zeros = zeros && id == 0 && half == 0;
        if (isfinite(logp)) entries[(*count)++] = (rt_foreign_entry){ logp, id > INT32_MAX ? -1 : (int32_t)id };
    }
    return !zeros && *count > 0;
}

int rt_foreign_kd_next(rt_foreign_kd *f, rt_foreign_doc *d, rt_err *e)
{
    int rc;
    rt_foreign_entry entries[RT_FOREIGN_MOST_K];
    uint32_t first = f->at, end = first + 1, count;
    *d = (rt_foreign_doc){ 0 };
    if (first >= f->tokens) return 0;
    while (end < f->tokens && position_at(f, end) == position_at(f, end - 1) + 1 &&
           !(f->window && end % f->window == 0))
        end++;
    f->at = end;
    RT_TRY(rt_foreign_doc_new(d, end - first, f->k, e));
    for (uint32_t i = first; i < end; i++) {
        uint32_t id = token_at(f, i);
        if (id > INT32_MAX) RT_TRY(rt_fail(e, RT_FORMAT, "token %u of the shard is not a token id", i));
        d->ids[i - first] = (int32_t)id;
        if (read_row(f, i, entries, &count)) RT_TRY(rt_foreign_set(d, i - first, entries, count, e));
    }
    rc = 1;
out:
    if (rc < 0) rt_foreign_doc_free(d);
    return rc;
}

/* ---- writing ---- */

static int put_header(rt_writer *w, const char *magic, const uint32_t fields[6], const char *hash, rt_err *e)
{
    uint8_t header[HEADER_BYTES] = { 0 };
    memcpy(header, magic, 8);
    for (int i = 0; i < 6; i++) rt_store_le(header + 8 + 4 * i, fields[i], 4);
    memcpy(header + HASH_AT, hash, strnlen(hash, HASH_BYTES));
    return rt_writer_put(w, 0, header, sizeof header, e);
}

static int write_shard(const char *path, const rt_foreign_doc *docs, uint32_t count, uint32_t tokens, uint32_t vocab,
                       rt_err *e)
{
    int rc;
    rt_writer *w = NULL;
    uint64_t at = HEADER_BYTES;
    RT_TRY(rt_writer_open(&w, path, e));
    RT_TRY(put_header(w, SHARD_MAGIC, (const uint32_t[]){ SHARD_VERSION, TOKEN_BYTES, tokens, vocab, 0, 0 }, "", e));
    for (uint32_t j = 0; j < count; j++)
        for (uint32_t i = 0; i < docs[j].tokens; i++, at += 4) {
            uint8_t id[4], position[4];
            rt_store_le(id, (uint32_t)docs[j].ids[i], 4);
            rt_store_le(position, i, 4);
            RT_TRY(rt_writer_put(w, at, id, 4, e));
            RT_TRY(rt_writer_put(w, at + 4 * (uint64_t)tokens, position, 4, e));
        }
    rc = rt_writer_commit(w, e);
out:
    rt_writer_free(w);
    return rc;
}

/* A row of zeros where nothing is said; entries that are not used have the log-probability of nothing. */
static void make_row(const rt_foreign_doc *d, uint32_t p, uint8_t *ids, uint8_t *logps)
{
    const int32_t *id = d->id + (size_t)p * d->k;
    const float *logp = d->logp + (size_t)p * d->k;
    for (uint32_t i = 0; i < d->k; i++) {
        float x = id[i] >= 0 ? logp[i] : id[0] >= 0 ? -INFINITY : 0;
        rt_store_le(ids + 4 * i, id[i] >= 0 ? (uint32_t)id[i] : 0, 4);
        rt_store_le(logps + 2 * i, rt_f16_from_f32(x), 2);
    }
}

static int write_kd(const char *path, const rt_foreign_doc *docs, uint32_t count, uint32_t tokens, uint32_t vocab,
                    const char *hash, rt_err *e)
{
    int rc;
    rt_writer *w = NULL;
    uint8_t ids[4 * RT_FOREIGN_MOST_K], logps[2 * RT_FOREIGN_MOST_K];
    uint32_t k = docs[0].k, row = 0;
    RT_TRY(rt_writer_open(&w, path, e));
    RT_TRY(put_header(w, KD_MAGIC, (const uint32_t[]){ KD_VERSION, k, tokens, vocab, 0, 0 }, hash, e));
    for (uint32_t j = 0; j < count; j++)
        for (uint32_t i = 0; i < docs[j].tokens; i++, row++) {
            make_row(&docs[j], i, ids, logps);
            RT_TRY(rt_writer_put(w, HEADER_BYTES + 4 * (uint64_t)k * row, ids, 4 * k, e));
            RT_TRY(rt_writer_put(w, HEADER_BYTES + 4 * (uint64_t)k * tokens + 2 * (uint64_t)k * row, logps, 2 * k, e));
        }
    rc = rt_writer_commit(w, e);
out:
    rt_writer_free(w);
    return rc;
}

int rt_foreign_kd_write(const char *shard, const char *kd, const rt_foreign_doc *docs, uint32_t count, uint32_t vocab,
                        const char *hash, rt_err *e)
{
    uint64_t tokens = 0;
    bool same = count > 0;
    for (uint32_t j = 0; j < count; j++) {
        tokens += docs[j].tokens;
        same = same && docs[j].k == docs[0].k;
    }
    if (!same || tokens > INT32_MAX)
        return rt_fail(e, RT_INVALID, "%s cannot be written: documents of one k and fewer than 2^31 tokens are needed",
                       kd);
    int rc = write_shard(shard, docs, count, (uint32_t)tokens, vocab, e);
    return rc < 0 ? rc : write_kd(kd, docs, count, (uint32_t)tokens, vocab, hash, e);
}
