/* data_shard_write.c - writes a token shard from one end to the other, in memory that grows with the records alone.
 *
 * Owns: the order of writing: records as they come, then the index, then the text, and the header last of all. */
#include "text/data/data_shard_internal.h"

#include "base/file.h"

#include <string.h>

enum { BUFFER = 4 << 20 };

struct rt_shard_writer {
    rt_writer *file;
    char *buffer;
    size_t used;
    uint64_t at; /* where the buffer goes */
    rt_hasher *content, *record;
    rt_shard_header h;
    rt_shard_entry *index;
    uint32_t count, cap;
    bool open; /* the last entry waits for more parts */
};

int rt_shard_writer_new(rt_shard_writer **out, const char *path, const rt_shard_identity *id, rt_err *e)
{
    int rc;
    rt_shard_writer *w = rt_alloc_zero(sizeof *w, 64);
    *out = NULL;
    if (!w) return rt_no_memory(e, "a token shard");
    w->content = rt_hasher_new();
    if (!w->content) RT_TRY(rt_no_memory(e, "a token shard"));
    RT_TRY(rt_writer_open(&w->file, path, e));
    w->at = sizeof w->h;
    memcpy(w->h.magic, RT_SHARD_MAGIC, sizeof w->h.magic);
    w->h.version = RT_SHARD_VERSION;
    w->h.header_bytes = sizeof w->h;
    w->h.tokenizer = id->tokenizer;
    w->h.vocab = id->vocab;
    *out = w;
    return RT_OK;
out:
    rt_shard_writer_free(w);
    return rc;
}

void rt_shard_writer_new_only(rt_shard_writer *w) { rt_writer_new_only(w->file); }

void rt_shard_writer_free(rt_shard_writer *w)
{
    if (!w) return;
    rt_writer_free(w->file);
    rt_hasher_free(w->content);
    rt_hasher_free(w->record);
    rt_free(w->buffer);
    rt_free(w->index);
    rt_free(w);
}

static int flush(rt_shard_writer *w, rt_err *e)
{
    int rc = w->used ? rt_writer_put(w->file, w->at, w->buffer, w->used, e) : RT_OK;
    if (rc < 0) return rc;
    w->at += w->used;
    w->used = 0;
    return RT_OK;
}

static int put(rt_shard_writer *w, const void *data, size_t bytes, rt_err *e)
{
    const char *from = data;
    if (!w->buffer && !(w->buffer = rt_alloc(BUFFER, 64))) return rt_no_memory(e, "a token shard");
    rt_hasher_add(w->content, data, bytes);
    while (bytes > 0) {
        if (w->used == BUFFER) {
            int rc = flush(w, e);
            if (rc < 0) return rc;
        }
        size_t n = bytes < BUFFER - w->used ? bytes : BUFFER - w->used;
        memcpy(w->buffer + w->used, from, n);
        w->used += n;
        from += n;
        bytes -= n;
    }
    return RT_OK;
}

static int check_ids(const rt_shard_writer *w, const rt_encoded *r, rt_err *e)
{
    for (uint32_t i = 0; i < r->ids.count; i++)
        if (r->ids.ids[i] >= w->h.vocab)
            return rt_fail(e, RT_INVALID, "token %u of a record has id %u, outside the vocabulary of %u", i,
                           r->ids.ids[i], w->h.vocab);
    return RT_OK;
}

static int begin(rt_shard_writer *w, const rt_encoded *r, uint32_t source, rt_err *e)
{
    if (w->count == UINT32_MAX || !rt_grow((void **)&w->index, &w->cap, w->count + 1, sizeof *w->index))
        return rt_no_memory(e, "a token shard");
    if (source > UINT16_MAX) return rt_fail(e, RT_INVALID, "more than 65536 sources in one token shard");
    w->index[w->count++] = (rt_shard_entry){
        .at = w->at + w->used,
        .source = (uint16_t)source,
        .kind = (uint8_t)r->kind,
        .flags = (uint8_t)((r->all_targets ? RT_SHARD_ALL_TARGETS : 0) | (r->has_stops ? RT_SHARD_STOPS : 0)),
    };
    w->open = true;
    return RT_OK;
}

/* The bits behind the last token are always zero, so that equal records are equal bytes. */
static int put_bits(rt_shard_writer *w, const uint32_t *bits, uint32_t count, rt_err *e)
{
    uint32_t whole = count / 32, rest = count % 32;
    int rc = put(w, bits, whole * sizeof *bits, e);
    if (rc < 0 || rest == 0) return rc;
    uint32_t last = bits[whole] & ((1u << rest) - 1);
    return put(w, &last, sizeof last, e);
}

/* Records of one part, by far the most, need no state for their hash. */
static int add_hash(rt_shard_writer *w, rt_shard_entry *x, const rt_encoded *r, unsigned parts, rt_err *e)
{
    size_t bytes = r->ids.count * sizeof *r->ids.ids;
    if ((parts & RT_PART_WHOLE) == RT_PART_WHOLE) {
        x->hash = rt_hash(r->ids.ids, bytes).lo;
        return RT_OK;
    }
    if (parts & RT_PART_FIRST) w->record = rt_hasher_new();
    if (!w->record) return rt_no_memory(e, "a token shard");
    rt_hasher_add(w->record, r->ids.ids, bytes);
    if (parts & RT_PART_LAST) {
        x->hash = rt_hasher_digest(w->record).lo;
        rt_hasher_free(w->record);
        w->record = NULL;
    }
    return RT_OK;
}

int rt_shard_writer_add(rt_shard_writer *w, const rt_encoded *r, uint32_t source, unsigned parts, rt_err *e)
{
    int rc;
    if (w->open != !(parts & RT_PART_FIRST)) return rt_fail(e, RT_INTERNAL, "parts of a record are out of order");
    if (parts != RT_PART_WHOLE && (!r->all_targets || r->has_stops))
        return rt_fail(e, RT_INTERNAL, "only a text comes in parts");
    RT_TRY(check_ids(w, r, e));
    if (parts & RT_PART_FIRST) RT_TRY(begin(w, r, source, e));
    rt_shard_entry *x = &w->index[w->count - 1];
    if (r->ids.count > UINT32_MAX - x->count)
        RT_TRY(rt_fail(e, RT_INVALID, "a text of more than 4294967295 tokens; split the file"));
    RT_TRY(add_hash(w, x, r, parts, e));
    x->count += r->ids.count;
    x->trained += r->trained;
    RT_TRY(put(w, r->ids.ids, r->ids.count * sizeof *r->ids.ids, e));
    if (!r->all_targets) RT_TRY(put_bits(w, r->target, r->ids.count, e));
    if (r->has_stops) RT_TRY(put_bits(w, r->stop, r->ids.count, e));
    w->h.tokens += r->ids.count;
    w->h.trained += r->trained;
    if (parts & RT_PART_LAST) w->open = false;
out:
    return rc;
}

uint64_t rt_shard_writer_tokens(const rt_shard_writer *w) { return w->h.tokens; }

int rt_shard_writer_rest(rt_shard_writer *w, rt_err *e)
{
    int rc = flush(w, e);
    if (rc < 0) return rc;
    rt_free(w->buffer);
    w->buffer = NULL;
    return RT_OK;
}

rt_hash128 rt_shard_header_hash(const rt_shard_header *h)
{
    rt_shard_header copy = *h;
    copy.header = (rt_hash128){ 0 };
    return rt_hash(&copy, sizeof copy);
}

int rt_shard_writer_commit(rt_shard_writer *w, const char *text, rt_err *e)
{
    static const char zeros[8];
    size_t len = strlen(text);
    int rc;
    if (w->open) return rt_fail(e, RT_INTERNAL, "a record is not finished");
    if (w->count == 0) return rt_fail(e, RT_INVALID, "a token shard without a record is not written");
    RT_TRY(put(w, zeros, (8 - (w->at + w->used) % 8) % 8, e));
    w->h.index_at = w->at + w->used;
    RT_TRY(put(w, w->index, w->count * sizeof *w->index, e));
    w->h.text_at = w->at + w->used;
    w->h.text_bytes = len;
    RT_TRY(put(w, text, len, e));
    RT_TRY(flush(w, e));
    w->h.records = w->count;
    w->h.content = rt_hasher_digest(w->content);
    w->h.header = rt_shard_header_hash(&w->h);
    RT_TRY(rt_writer_put(w->file, 0, &w->h, sizeof w->h, e));
    rc = rt_writer_commit(w->file, e);
out:
    return rc;
}
