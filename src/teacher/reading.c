/* reading.c - see reading.h. */
#include "teacher/reading.h"

#include "base/mem.h"

#include <string.h>

bool rt_prompt_applies(const rt_teacher_prompt *p, const int32_t *ids, uint32_t count)
{
    return count >= p->begin_count && (!p->begin_count || !memcmp(ids, p->begin, p->begin_count * sizeof *ids));
}

rt_hash128 rt_prompt_hash(const rt_teacher_prompt *p)
{
    const rt_hash128 parts[] = { rt_hash(p->begin, p->begin_count * sizeof *p->begin),
                                 rt_hash(p->put, p->put_count * sizeof *p->put),
                                 { p->skip, p->begin_count } };
    return rt_hash(parts, sizeof parts);
}

/* A document in the student's rows. */
typedef struct document {
    uint32_t at, count; /* positions of the batch, up to its last target */
    bool prompted;
} document;

/* Where documents go. */
typedef struct cursor {
    uint32_t row, used; /* over all passes; positions of the row */
} cursor;

static int grow(rt_reading *r, uint32_t passes, rt_err *e)
{
    int32_t **arrays[] = { &r->ids, &r->pos, &r->start, &r->place };
    uint32_t cap = r->cap;
    size_t pass = (size_t)r->rows * r->len * sizeof(int32_t);
    for (int i = 0; i < 4; i++) {
        cap = r->cap;
        if (!rt_grow((void **)arrays[i], &cap, passes, pass)) return rt_no_memory(e, "a teacher's rows");
    }
    r->cap = cap;
    return RT_OK;
}

/* The rest of a row is a document of its own, which is nobody's. */
static void pad(rt_reading *r, const cursor *c)
{
    for (uint32_t i = c->used; i < r->len; i++) {
        size_t k = (size_t)c->row * r->len + i;
        r->ids[k] = 0;
        r->pos[k] = (int32_t)(i - c->used);
        r->start[k] = (int32_t)c->used;
        r->place[k] = -1;
    }
}

static int next_row(rt_reading *r, cursor *c, rt_err *e)
{
    pad(r, c);
    *c = (cursor){ c->row + 1, 0 };
    r->passes = c->row / r->rows + 1;
    return grow(r, r->passes, e);
}

static void put(rt_reading *r, const cursor *c, uint32_t i, int32_t id, int32_t place)
{
    size_t k = (size_t)c->row * r->len + c->used + i;
    r->ids[k] = id;
    r->pos[k] = (int32_t)i;
    r->start[k] = (int32_t)c->used;
    r->place[k] = place;
}

static int add(rt_reading *r, const rt_teacher_prompt *p, const rt_reading_of *of, const document *d, cursor *c,
               rt_err *e)
{
    int rc;
    uint32_t skip = d->prompted ? p->skip : 0, ahead = d->prompted ? p->put_count : 0;
    uint32_t length = ahead + d->count - skip;
    if (length > r->len)
        return rt_fail(e, RT_INTERNAL, "a teacher reads %u ids of a document in rows of %u", length, r->len);
    if (c->used + length > r->len) RT_TRY(next_row(r, c, e));
    for (uint32_t i = 0; i < ahead; i++)
        put(r, c, i, p->put[i], skip && i + 1 == ahead ? (int32_t)(d->at + skip - 1) : -1);
    for (uint32_t i = skip; i < d->count; i++) put(r, c, ahead + i - skip, of->ids[d->at + i], (int32_t)(d->at + i));
    c->used += length;
    rc = RT_OK;
out:
    return rc;
}

/* The document that begins at a position, up to its last target; count 0: it has none. *end: where the next begins. */
static document document_at(const rt_teacher_prompt *p, const rt_reading_of *of, uint32_t at, uint32_t *end)
{
    uint32_t row_end = (at / of->T + 1) * of->T, last = at;
    for (*end = at; *end < row_end && of->start[*end] == of->start[at]; ++*end)
        if (of->target[*end] >= 0) last = *end + 1;
    return (document){ at, last - at, rt_prompt_applies(p, of->ids + at, *end - at) };
}

/* What the prompt replaces before its last position has no counterpart. */
static int check_targets(const rt_teacher_prompt *p, const rt_reading_of *of, const document *d, rt_err *e)
{
    for (uint32_t i = 0; d->prompted && i + 1 < p->skip; i++)
        if (of->target[d->at + i] >= 0)
            return rt_fail(e, RT_INVALID,
                           "a teacher's prompt replaces a position that is trained (before the first turn); leave out "
                           "--loss-on all, or prompt=");
    return RT_OK;
}

int rt_reading_make(rt_reading *r, const rt_teacher_prompt *p, const rt_reading_of *of, rt_err *e)
{
    int rc;
    cursor c = { 0 };
    r->documents = r->prompted = 0;
    r->passes = 1;
    RT_TRY(grow(r, 1, e));
    for (uint32_t at = 0, end; at < of->B * of->T; at = end) {
        document d = document_at(p, of, at, &end);
        if (!d.count) continue;
        RT_TRY(check_targets(p, of, &d, e));
        RT_TRY(add(r, p, of, &d, &c, e));
        r->documents++;
        r->prompted += d.prompted;
    }
    for (; c.row < r->passes * r->rows; c = (cursor){ c.row + 1, 0 }) pad(r, &c);
out:
    return rc;
}

void rt_reading_free(rt_reading *r)
{
    rt_free(r->ids);
    rt_free(r->pos);
    rt_free(r->start);
    rt_free(r->place);
    *r = (rt_reading){ .rows = r->rows, .len = r->len };
}
