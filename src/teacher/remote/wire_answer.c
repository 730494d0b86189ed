/* wire_answer.c - an answer as bytes. See wire.h.
 *
 * at  type       answer, 64 bytes, then lists one after the other: ids (count,n i32), log-probabilities (count,n f32),
 *  0  8 bytes    RTSAID01           rest or entropy (count f32), log-probabilities of targets (count f32) where it has
 *  8  hash       of the teacher     them; or hidden states (count rows)
 * 24  u32 x 2    count, lists
 * 32  u32 x 2    n of the first and of the second list; 0: it is not there
 * 40  u32 x 2    bytes of a hidden state; zero
 * 48  hash       of all that follows */
#include "teacher/remote/wire.h"

#include <math.h>
#include <string.h>

enum { HEADER = 64 };
static const char magic[8] = "RTSAID01";

/* ---- its arrays ---- */

typedef struct part {
    void **at;
    size_t bytes;
} part;
enum { PARTS = 5 };

/* The arrays of a list in their order; unused ones have no bytes. */
static uint32_t parts_of(rt_wire_list *l, uint32_t count, part out[PARTS])
{
    const size_t all = (size_t)count * l->n * 4, each = (size_t)count * 4;
    out[0] = (part){ (void **)&l->id, all };
    out[1] = (part){ (void **)&l->logp, all };
    out[2] = (part){ (void **)&l->rest, each };
    out[3] = (part){ (void **)&l->entropy, each };
    out[4] = (part){ (void **)&l->target_logp, each };
    return PARTS;
}

/* Sizes alone. */
static int lay_out(rt_wire_answer *a, const rt_wire_question *q, uint32_t row, rt_err *e)
{
    const uint32_t n = q->held ? q->held_n : q->n;
    *a = (rt_wire_answer){ .count = q->count };
    if (q->keep == RT_KEEP_HIDDEN)
        a->row = row;
    else
        a->lists = q->held && q->temperature != 1 ? 2 : 1;
    for (uint32_t i = 0; i < a->lists; i++) a->list[i].n = n;
    const uint64_t bytes = (uint64_t)q->count * (a->lists ? a->lists * (8 * (uint64_t)n + 8) : row);
    if (bytes <= RT_WIRE_MOST) return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "the answer would take %llu bytes, and the most is %llu; ask fewer positions at once "
                   "(--teacher-batch)",
                   (unsigned long long)bytes, (unsigned long long)RT_WIRE_MOST);
}

/* Whether list i has the k-th of parts_of. */
static bool has(const rt_wire_question *q, uint32_t i, uint32_t k)
{
    const bool draws = !q->held && q->keep == RT_KEEP_DRAWS;
    return k < 2 || (k == 2 ? !draws : k == 3 ? draws : q->held && i == 0);
}

int rt_wire_answer_over(rt_wire_answer *a, const rt_wire_question *q, uint32_t row,
                        const rt_wire_list lists[RT_WIRE_LISTS], void *hidden, rt_err *e)
{
    const int rc = lay_out(a, q, row, e);
    if (rc < 0) return rc;
    if (!a->lists) a->hidden = hidden;
    for (uint32_t i = 0; i < a->lists; i++) {
        part to[PARTS], from[PARTS];
        rt_wire_list all = lists[i];
        parts_of(&all, a->count, from);
        for (uint32_t k = 0; k < parts_of(&a->list[i], a->count, to); k++)
            if (has(q, i, k)) *to[k].at = *from[k].at;
    }
    return RT_OK;
}

int rt_wire_answer_new(rt_wire_answer *a, const rt_wire_question *q, uint32_t row, rt_err *e)
{
    part p[PARTS];
    const int rc = lay_out(a, q, row, e);
    if (rc < 0) return rc;
    bool whole = a->lists || (a->hidden = rt_alloc((size_t)q->count * row, 64));
    for (uint32_t i = 0; i < a->lists; i++)
        for (uint32_t k = 0; k < parts_of(&a->list[i], a->count, p); k++)
            if (has(q, i, k)) whole = (*p[k].at = rt_alloc(p[k].bytes, 64)) && whole;
    if (whole) return RT_OK;
    rt_wire_answer_free(a);
    return rt_no_memory(e, "a teacher's answer");
}

void rt_wire_answer_free(rt_wire_answer *a)
{
    part p[PARTS];
    for (uint32_t i = 0; i < RT_WIRE_LISTS; i++)
        for (uint32_t k = 0; k < parts_of(&a->list[i], a->count, p); k++) rt_free(*p[k].at);
    rt_free(a->hidden);
    *a = (rt_wire_answer){ 0 };
}

/* ---- as bytes ---- */

void rt_wire_put_answer(const rt_wire_answer *a, const rt_hash128 *teacher, rt_str *out)
{
    part p[PARTS];
    char h[HEADER] = { 0 };
    const size_t first = out->len;
    const uint32_t numbers[] = { a->count, a->lists, a->list[0].n, a->list[1].n, a->row };
    memcpy(h, magic, sizeof magic);
    rt_store_le(h + 8, teacher->hi, 8);
    rt_store_le(h + 16, teacher->lo, 8);
    for (int i = 0; i < 5; i++) rt_store_le(h + 24 + 4 * i, numbers[i], 4);
    rt_str_append_n(out, h, sizeof h);
    for (uint32_t i = 0; i < a->lists; i++) {
        rt_wire_list l = a->list[i];
        for (uint32_t k = 0; k < parts_of(&l, a->count, p); k++)
            if (*p[k].at) rt_str_append_n(out, *p[k].at, p[k].bytes);
    }
    if (a->hidden) rt_str_append_n(out, a->hidden, (size_t)a->count * a->row);
    if (out->failed) return;
    const rt_hash128 all = rt_hash(out->data + first + HEADER, out->len - first - HEADER);
    rt_store_le(out->data + first + 48, all.hi, 8);
    rt_store_le(out->data + first + 56, all.lo, 8);
}

static int bad(rt_err *e, const char *what) { return rt_fail(e, RT_FORMAT, "its answer is none: %s", what); }

static int check_header(const rt_wire_answer *a, const rt_wire_question *q, const char *h, size_t len, rt_err *e)
{
    const uint32_t want[] = { a->count, a->lists, a->list[0].n, a->list[1].n, a->row };
    if (len < HEADER || memcmp(h, magic, sizeof magic) != 0) return bad(e, "it does not begin with RTSAID01");
    const rt_hash128 of = { rt_load_le(h + 8, 8), rt_load_le(h + 16, 8) };
    const rt_hash128 was = { rt_load_le(h + 48, 8), rt_load_le(h + 56, 8) };
    if (!rt_hash_equal(of, q->teacher)) return rt_fail(e, RT_INVALID, "it is of another teacher");
    for (int i = 0; i < 5; i++)
        if (rt_load_le(h + 24 + 4 * i, 4) != want[i]) return bad(e, "it is to another question");
    if (!rt_hash_equal(rt_hash(h + HEADER, len - HEADER), was)) return bad(e, "it was altered on its way");
    return RT_OK;
}

static bool is_logp(float x) { return x <= 1e-3f && isfinite(x); }

/* Numbers that no softmax has given are of no use to any loss. */
static int check_list(const rt_wire_list *l, uint32_t count, uint32_t vocab, rt_err *e)
{
    for (size_t i = 0; i < (size_t)count * l->n; i++) {
        if (l->id[i] < -1 || l->id[i] >= (int64_t)vocab) return bad(e, "it has ids that the teacher has not");
        if (l->id[i] >= 0 && !is_logp(l->logp[i])) return bad(e, "it has log-probabilities that are none");
    }
    for (uint32_t i = 0; i < count; i++) {
        const bool good = l->id[(size_t)i * l->n] >= 0 && (!l->rest || (l->rest[i] >= 0 && l->rest[i] <= 1.001f)) &&
                          (!l->entropy || (isfinite(l->entropy[i]) && l->entropy[i] >= -1e-3f)) &&
                          (!l->target_logp || is_logp(l->target_logp[i]));
        if (!good) return bad(e, "it has probabilities that are none");
    }
    return RT_OK;
}

int rt_wire_get_answer(rt_wire_answer *a, const rt_wire_question *q, uint32_t vocab, const void *data, size_t len,
                       rt_err *e)
{
    int rc;
    part p[PARTS];
    size_t want = HEADER + (a->hidden ? (size_t)a->count * a->row : 0);
    const char *at = (const char *)data + HEADER;
    RT_TRY(check_header(a, q, data, len, e));
    for (uint32_t i = 0; i < a->lists; i++)
        for (uint32_t k = 0; k < parts_of(&a->list[i], a->count, p); k++) want += *p[k].at ? p[k].bytes : 0;
    if (len != want) RT_TRY(bad(e, "its length is another than it says"));
    for (uint32_t i = 0; i < a->lists; i++) {
        for (uint32_t k = 0; k < parts_of(&a->list[i], a->count, p); k++) {
            if (!*p[k].at) continue;
            memcpy(*p[k].at, at, p[k].bytes);
            at += p[k].bytes;
        }
        RT_TRY(check_list(&a->list[i], a->count, vocab, e));
    }
    if (a->hidden) memcpy(a->hidden, at, (size_t)a->count * a->row);
out:
    return rc;
}
