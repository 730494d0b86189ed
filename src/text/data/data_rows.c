/* data_rows.c - rows: which units come in a pass, packed window by window, and the cursor.
 *
 * Owns: the order of a pass over several sources, packing, what a row holds. What of a record is used is data_units.c.
 *
 * A cursor is small because a window is packed anew from its first draw whenever it is needed: nothing of the packer's
 * state outlives a window. */
#include "text/data/data_rows_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW_UNITS = 8192,
    /* Streams of random numbers; those of the sources' passes follow from 2^32. */
    STREAM_EPOCH = 1 << 8,
    STREAM_ROWS = 1 << 9,
};

typedef struct draw {
    uint32_t source;
    rt_unit unit;
    uint32_t row, next; /* the row it is packed into; the next draw of that row, in order (UINT32_MAX: none) */
} draw;

typedef struct bin {
    uint32_t left;        /* tokens that still fit */
    uint32_t first, last; /* draws */
} bin;

struct rt_rows {
    rt_rows_opts o;
    rt_units *sources;
    uint32_t count;
    uint64_t per_epoch;
    rt_cursor at; /* draw: the first of the window; row: the next of it */
    draw *draws;  /* (WINDOW_UNITS) the window */
    uint32_t *by_length;
    bin *bins;
    uint32_t draw_count, bin_count;
    uint64_t window_epoch, window_draw; /* what is in draws; epoch UINT64_MAX: nothing */
    rt_row_doc *docs;
    uint32_t docs_cap;
};

/* ---- opening ---- */

static rt_hash128 identity(const rt_rows *r, const rt_rows_source *sources)
{
    rt_hash128 h = { 0 };
    struct {
        rt_hash128 before;
        double held_out;
        uint64_t seq_len, seed, flags, version;
    } head = { h,
               r->o.held_out,
               r->o.seq_len,
               r->o.seed,
               (uint64_t)r->o.in_order | (uint64_t)r->o.one_each << 1 | (uint64_t)r->o.side << 2 |
                   (uint64_t)r->o.stretch << 4,
               RT_CURSOR_VERSION };
    h = rt_hash(&head, sizeof head);
    for (uint32_t i = 0; i < r->count; i++)
        for (uint32_t k = 0; k < sources[i].count; k++) {
            struct {
                rt_hash128 before, content;
                uint64_t source, per_epoch;
            } one = { h, rt_shard_about(sources[i].shards[k])->content, i, r->sources[i].n.per_epoch };
            h = rt_hash(&one, sizeof one);
        }
    return h;
}

static int open_source(rt_rows *r, uint32_t i, const rt_rows_source *s, rt_err *e)
{
    rt_units *u = &r->sources[i];
    double weight = s->weight == 0 ? 1 : s->weight;
    int rc;
    RT_TRY(rt_units_open(u, s, &r->o, e));
    RT_TRY(rt_rows_judge(&u->n, s->name, &r->o, e));
    if (!(weight > 0) || !isfinite(weight) || (double)u->n.units * weight > 0x1p53)
        RT_TRY(rt_fail(e, RT_INVALID, "%s: a weight of %g; it must be above 0", s->name, weight));
    u->n.per_epoch = (uint64_t)llround((double)u->n.units * weight);
    if (u->n.per_epoch == 0 && u->n.units > 0) u->n.per_epoch = 1;
    r->per_epoch += u->n.per_epoch;
out:
    return rc;
}

int rt_rows_open(rt_rows **out, const rt_rows_source *sources, uint32_t count, const rt_rows_opts *o, rt_err *e)
{
    int rc;
    rt_rows *r = rt_alloc_zero(sizeof *r, 64);
    *out = NULL;
    if (!r) return rt_no_memory(e, "rows of data");
    r->o = *o;
    r->window_epoch = UINT64_MAX;
    if (count == 0) RT_TRY(rt_fail(e, RT_INVALID, "no data were given"));
    if (o->seq_len < 2) RT_TRY(rt_fail(e, RT_INVALID, "rows of %u tokens; there must be at least 2", o->seq_len));
    rt_rows_settle(sources, count, &r->o);
    r->sources = rt_alloc_zero(count * sizeof *r->sources, 64);
    r->draws = rt_alloc(WINDOW_UNITS * sizeof *r->draws, 64);
    r->by_length = rt_alloc(WINDOW_UNITS * sizeof *r->by_length, 64);
    r->bins = rt_alloc(WINDOW_UNITS * sizeof *r->bins, 64);
    if (!r->sources || !r->draws || !r->by_length || !r->bins) RT_TRY(rt_no_memory(e, "rows of data"));
    for (; r->count < count; r->count++) {
        /* Counted before it is opened, so that what a failed one holds is freed. */
        rc = open_source(r, r->count, &sources[r->count], e);
        if (rc < 0) r->count++;
        if (rc < 0) goto out;
    }
    if (r->per_epoch == 0)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "%s: no record is left to %s when a part is held out; give more records, or name a file for "
                       "evaluation with --eval-data",
                       sources[0].name, o->side == RT_SIDE_HELD ? "evaluate" : "train"));
    r->at.data = identity(r, sources);
    *out = r;
    return RT_OK;
out:
    rt_rows_close(r);
    return rc;
}

void rt_rows_close(rt_rows *r)
{
    if (!r) return;
    for (uint32_t i = 0; i < r->count; i++) rt_units_close(&r->sources[i]);
    rt_free(r->sources);
    rt_free(r->draws);
    rt_free(r->by_length);
    rt_free(r->bins);
    rt_free(r->docs);
    rt_free(r);
}

const rt_rows_count *rt_rows_of_source(const rt_rows *r, uint32_t source) { return &r->sources[source].n; }

bool rt_rows_is_stretch(const rt_rows *r) { return r->o.stretch; }

void rt_rows_parts(const rt_rows *r, rt_row_parts *p) { rt_units_parts(r->sources, r->count, p); }

/* ---- the order of a pass ---- */

/* The j-th unit of an epoch. A source's units come in passes of their own, each in another order, so that a weight of
 * 0.3 meets every record once in ten of three epochs. */
static draw draw_at(const rt_rows *r, uint64_t epoch, uint64_t j)
{
    uint32_t i = 0;
    if (!r->o.in_order) j = rt_permute(r->o.seed, STREAM_EPOCH + (epoch << 16), r->per_epoch, j);
    while (j >= r->sources[i].n.per_epoch) j -= r->sources[i++].n.per_epoch;
    const rt_rows_count *n = &r->sources[i].n;
    uint64_t at = epoch * n->per_epoch + j, pass = at / n->units, unit = at % n->units;
    if (!r->o.in_order) unit = rt_permute(r->o.seed, (((uint64_t)i + 1) << 32) ^ (pass << 1), n->units, unit);
    return (draw){ .source = i, .unit = rt_units_find(&r->sources[i], unit), .next = UINT32_MAX };
}

/* ---- packing ---- */

/* Longest first, equal ones in the order of drawing. */
static int longest_first(const void *a, const void *b, void *draws)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint32_t n = ((const draw *)draws)[x].unit.len, m = ((const draw *)draws)[y].unit.len;
    return n != m ? (n > m ? -1 : 1) : (x > y) - (x < y);
}

/* The row with the least room that is enough; the first of equal ones; bin_count: none. */
static uint32_t best_fit(const rt_rows *r, uint32_t len)
{
    uint32_t best = r->bin_count, room = UINT32_MAX;
    for (uint32_t b = 0; b < r->bin_count; b++)
        if (r->bins[b].left >= len && r->bins[b].left < room) {
            room = r->bins[b].left;
            best = b;
        }
    return best;
}

static void pack(rt_rows *r)
{
    for (uint32_t k = 0; k < r->draw_count; k++) r->by_length[k] = k;
    qsort_r(r->by_length, r->draw_count, sizeof *r->by_length, longest_first, r->draws);
    r->bin_count = 0;
    for (uint32_t k = 0; k < r->draw_count; k++) {
        draw *d = &r->draws[r->o.one_each ? k : r->by_length[k]];
        uint32_t b = r->o.one_each ? r->bin_count : best_fit(r, d->unit.len);
        if (b == r->bin_count) r->bins[r->bin_count++] = (bin){ r->o.seq_len, UINT32_MAX, UINT32_MAX };
        r->bins[b].left -= d->unit.len;
        d->row = b;
    }
    /* In a row, documents stand in the order of drawing. */
    for (uint32_t k = 0; k < r->draw_count; k++) {
        bin *b = &r->bins[r->draws[k].row];
        if (b->first == UINT32_MAX)
            b->first = k;
        else
            r->draws[b->last].next = k;
        b->last = k;
    }
}

/* Fills the window that begins with a draw of an epoch; *end: the draw behind it. */
static void make_window(rt_rows *r, uint64_t epoch, uint64_t first, uint64_t *end)
{
    uint64_t j = first, tokens = 0, most = (uint64_t)RT_WINDOW_ROWS * r->o.seq_len;
    if (r->window_epoch != epoch || r->window_draw != first) {
        r->draw_count = 0;
        while (j < r->per_epoch && tokens < most && r->draw_count < WINDOW_UNITS) {
            draw *d = &r->draws[r->draw_count++];
            *d = draw_at(r, epoch, j++);
            tokens += d->unit.len;
        }
        pack(r);
        r->window_epoch = epoch;
        r->window_draw = first;
    }
    *end = first + r->draw_count;
}

/* ---- rows ---- */

static int check_id(const rt_shard *s, uint64_t record, uint64_t id, rt_err *e)
{
    const rt_shard_info *about = rt_shard_about(s);
    uint64_t vocab = about->vocab ? about->vocab : INT32_MAX;
    if (id < vocab && id <= INT32_MAX) return RT_OK;
    return rt_fail(e, RT_FORMAT,
                   "%s: record %llu has id %llu, outside the vocabulary of %llu; the shard belongs to "
                   "another tokenizer, or is damaged",
                   about->path, (unsigned long long)record, (unsigned long long)id, (unsigned long long)vocab);
}

/* Puts a unit at the document's place in the row. */
static int put_unit(const rt_rows *r, const draw *d, rt_row *row, rt_row_doc *doc, rt_err *e)
{
    const rt_shard *s = r->sources[d->source].source.shards[d->unit.shard];
    rt_shard_record rec;
    int rc = RT_OK;
    uint32_t at = doc->begin;
    rt_shard_get(s, d->unit.record, &rec);
    doc->number = rec.source;
    for (uint32_t i = 0; i < d->unit.len; i++) {
        uint64_t k = (uint64_t)d->unit.first + i;
        uint32_t id = rt_shard_id(&rec, (uint32_t)k);
        RT_TRY(check_id(s, d->unit.record, id, e));
        row->ids[at + i] = (int32_t)id;
        row->start[at + i] = (int32_t)at;
        row->pos[at + i] = (int32_t)i;
        /* A turn that was cut off is no target; the next piece of a text is, if it is on this side. */
        bool inside = i + 1 < d->unit.len || (rec.kind == RT_RECORD_TEXT && k + 1 < d->unit.end);
        int64_t next = inside ? rt_shard_id(&rec, (uint32_t)k + 1) : k + 1 == rec.count ? rec.next : -1;
        if (next >= 0) RT_TRY(check_id(s, d->unit.record, (uint64_t)next, e));
        bool target = next >= 0 && (!inside || !rec.target || rt_bit(rec.target, k + 1));
        row->target[at + i] = target ? (int32_t)next : -1;
        row->trained += target;
    }
out:
    return rc;
}

static int fill_row(rt_rows *r, uint32_t which, rt_row *row, rt_err *e)
{
    int rc = RT_OK;
    uint32_t at = 0, n = 0;
    row->trained = 0;
    for (uint32_t k = r->bins[which].first; k != UINT32_MAX; k = r->draws[k].next) {
        const draw *d = &r->draws[k];
        if (!rt_grow((void **)&r->docs, &r->docs_cap, n + 1, sizeof *r->docs)) return rt_no_memory(e, "rows of data");
        r->docs[n++] = (rt_row_doc){ .begin = at,
                                     .len = d->unit.len,
                                     .source = d->source,
                                     .shard = d->unit.shard,
                                     .record = d->unit.record,
                                     .first = d->unit.first,
                                     .group = r->sources[d->source].source.group };
        RT_TRY(put_unit(r, d, row, &r->docs[n - 1], e));
        at += d->unit.len;
    }
    for (uint32_t i = at; i < r->o.seq_len; i++) {
        row->ids[i] = r->o.pad;
        row->target[i] = -1;
        row->start[i] = (int32_t)at;
        row->pos[i] = (int32_t)(i - at);
    }
    row->tokens = at;
    row->docs = r->docs;
    row->doc_count = n;
out:
    return rc;
}

void rt_row_groups(const rt_row *row, uint32_t T, int32_t *group)
{
    for (uint32_t i = 0; i < T; i++) group[i] = 0;
    for (uint32_t k = 0; k < row->doc_count; k++)
        for (uint32_t i = 0; i < row->docs[k].len; i++) group[row->docs[k].begin + i] = (int32_t)row->docs[k].group;
}

/* To the next row's window; false when the last epoch is over. */
static bool find_window(rt_rows *r)
{
    for (;;) {
        uint64_t end;
        if (r->o.epochs && r->at.epoch >= r->o.epochs) return false;
        make_window(r, r->at.epoch, r->at.draw, &end);
        if (r->at.row < r->bin_count) return true;
        r->at.row = 0;
        r->at.draw = end;
        if (end == r->per_epoch) {
            r->at.draw = 0;
            r->at.epoch++;
        }
    }
}

int rt_rows_next(rt_rows *r, rt_row *row, rt_err *e)
{
    if (!find_window(r)) return 0;
    uint64_t which = r->at.row;
    /* Best fit puts long units into early rows; an order of their own hides that from training. */
    if (!r->o.in_order && !r->o.one_each)
        which = rt_permute(r->o.seed, STREAM_ROWS + (r->at.epoch << 16) + (r->at.draw << 40), r->bin_count, which);
    int rc = fill_row(r, (uint32_t)which, row, e);
    if (rc < 0) return rc;
    row->epoch = r->at.epoch;
    r->at.row++;
    r->at.rows++;
    r->at.tokens += row->tokens;
    r->at.trained += row->trained;
    return 1;
}

int rt_rows_in_epoch(rt_rows *r, uint64_t epoch, uint64_t *rows, rt_err *e)
{
    (void)e;
    *rows = 0;
    for (uint64_t j = 0; j < r->per_epoch;) {
        make_window(r, epoch, j, &j);
        *rows += r->bin_count;
    }
    return RT_OK;
}

/* ---- the cursor ---- */

rt_cursor rt_rows_tell(const rt_rows *r) { return r->at; }

int rt_rows_seek(rt_rows *r, const rt_cursor *c, rt_err *e)
{
    if (c->data.hi != r->at.data.hi || c->data.lo != r->at.data.lo)
        return rt_fail(e, RT_INVALID,
                       "the saved place in the data belongs to other data, or to another row length, seed, "
                       "weight or held-out share; resume with those of the run");
    uint64_t end = 0;
    bool ok = c->draw < r->per_epoch && (!r->o.epochs || c->epoch <= r->o.epochs) && c->epoch < 1ull << 32;
    if (ok && !(r->o.epochs && c->epoch == r->o.epochs)) {
        make_window(r, c->epoch, c->draw, &end);
        ok = c->row <= r->bin_count;
    }
    if (!ok) return rt_fail(e, RT_FORMAT, "the saved place in the data is damaged");
    r->at = *c;
    return RT_OK;
}

json_t *rt_cursor_to_json(const rt_cursor *c)
{
    char data[33];
    return json_pack("{s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "version", RT_CURSOR_VERSION, "data",
                     rt_hash_text(data, c->data), "epoch", (json_int_t)c->epoch, "draw", (json_int_t)c->draw, "row",
                     (json_int_t)c->row, "rows", (json_int_t)c->rows, "tokens", (json_int_t)c->tokens, "trained",
                     (json_int_t)c->trained);
}

static bool read_hash(const char *text, rt_hash128 *h)
{
    uint64_t half[2] = { 0, 0 };
    if (!text || strlen(text) != 32) return false;
    for (int i = 0; i < 32; i++) {
        const char *digits = "0123456789abcdef", *d = strchr(digits, text[i]);
        if (!d) return false;
        half[i / 16] = half[i / 16] << 4 | (uint64_t)(d - digits);
    }
    *h = (rt_hash128){ half[0], half[1] };
    return true;
}

int rt_cursor_from_json(rt_cursor *c, const json_t *j, rt_err *e)
{
    static const char *const names[] = { "epoch", "draw", "row", "rows", "tokens", "trained" };
    uint64_t *to[] = { &c->epoch, &c->draw, &c->row, &c->rows, &c->tokens, &c->trained };
    const json_t *version = json_object_get(j, "version");
    *c = (rt_cursor){ 0 };
    if (json_is_integer(version) && json_integer_value(version) != RT_CURSOR_VERSION)
        return rt_fail(e, RT_UNSUPPORTED, "a saved place in the data of version %lld; this program reads version %d",
                       (long long)json_integer_value(version), RT_CURSOR_VERSION);
    bool ok = json_is_integer(version) && read_hash(json_string_value(json_object_get(j, "data")), &c->data);
    for (int i = 0; i < 6 && ok; i++) {
        const json_t *value = json_object_get(j, names[i]);
        ok = json_is_integer(value) && json_integer_value(value) >= 0;
        if (ok) *to[i] = (uint64_t)json_integer_value(value);
    }
    return ok ? RT_OK : rt_fail(e, RT_FORMAT, "the saved place in the data is damaged");
}
