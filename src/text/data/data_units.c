/* data_units.c - what of each record is used at a row length: whole, in pieces, cut after a turn, or not at all.
 *
 * Owns: the rules for records that are too long, the held-out side, the counts. One pass over the index makes sparse
 * marks; after that a unit is found by a search and a short walk. */
#include "text/data/data_held.h"
#include "text/data/data_rows_internal.h"

#include <math.h>
#include <stdio.h>

/* What a record gives at a row length. */
typedef struct use {
    uint32_t pieces; /* 0: dropped */
    uint32_t first;  /* of the record's tokens */
    uint32_t len;    /* tokens used */
    uint32_t end;    /* of a text: the end of what this side has */
    uint32_t trained;
    bool cut, too_long;
} use;

static uint32_t count_targets(const rt_shard_record *r, uint32_t len)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < len; i++) n += !r->target || rt_bit(r->target, i);
    return n;
}

/* Tokens up to the last place that fits where the conversation may end; 0: none. */
static uint32_t last_stop(const rt_shard_record *r, uint32_t most)
{
    for (uint32_t i = most; r->stop && i > 0; i--)
        if (rt_bit(r->stop, i - 1)) return i;
    return 0;
}

/* A text that can be on both sides: each has a target. */
static bool can_stretch(const rt_shard_record *r) { return r->kind == RT_RECORD_TEXT && r->count >= 4; }

/* Narrows a text to what this side has of it. The last token before the held-out stretch predicts nothing: its target
 * is held out. */
static void take_side(use *u, const rt_shard_record *r, const rt_rows_opts *o, bool *followed)
{
    if (!o->stretch || o->side == RT_SIDE_ALL) return;
    uint32_t held = (uint32_t)ceil(o->held_out * r->count);
    held = held < 2 ? 2 : held > r->count - 2 ? r->count - 2 : held;
    if (o->side == RT_SIDE_HELD) {
        u->first = r->count - held;
        u->len = held;
    } else {
        u->len = r->count - held;
        *followed = false;
    }
    u->trained = u->len - 1 + *followed;
}

static use use_of(const rt_shard_record *r, const rt_rows_opts *o)
{
    uint32_t seq_len = o->seq_len;
    use u = { .pieces = 1, .len = r->count, .trained = r->trained };
    if (r->trained == 0) {
        u.pieces = 0;
    } else if (r->kind == RT_RECORD_TEXT) {
        bool followed = r->next >= 0;
        take_side(&u, r, o, &followed);
        u.end = u.first + u.len;
        /* The last token of a piece predicts the first of the next, so nothing is lost; the last of all predicts
         * nothing and needs no piece of its own. */
        u.pieces = (u.len - 2 + followed) / seq_len + 1;
        uint64_t most = (uint64_t)u.pieces * seq_len;
        if (u.len > most) u.len = (uint32_t)most;
    } else if (r->count > seq_len) {
        u.len = last_stop(r, seq_len);
        u.trained = count_targets(r, u.len);
        u.too_long = u.len == 0;
        u.cut = u.len > 0;
        if (u.trained == 0) u.pieces = 0;
    }
    return u;
}

static double place_of(const rt_shard *s, uint64_t record)
{
    return (double)(rt_shard_record_hash(s, record) >> 11) * 0x1p-53;
}

/* Of a text that both sides have a part of: whichever side this is. */
static rt_held_kind kind_of(const rt_shard *s, uint64_t record, const rt_rows_opts *o)
{
    if (o->held) return rt_held_look(o->held, s, record);
    bool held = o->stretch ? o->side == RT_SIDE_HELD : o->held_out > 0 && place_of(s, record) < o->held_out;
    return held ? RT_HELD_OUT : RT_HELD_NOT;
}

static bool on_side(const rt_rows_opts *o, rt_held_kind kind)
{
    return o->side == RT_SIDE_ALL || kind == (o->side == RT_SIDE_HELD ? RT_HELD_OUT : RT_HELD_NOT);
}

void rt_rows_count_record(rt_rows_count *c, const rt_shard_record *r, const rt_rows_opts *o, rt_held_kind kind)
{
    use u = use_of(r, o);
    c->records++;
    c->split += u.pieces > 1;
    c->cut += u.cut && u.pieces > 0;
    c->too_long += u.too_long;
    c->no_target += u.pieces == 0 && !u.too_long;
    c->targets += r->trained;
    if (r->kind != RT_RECORD_TEXT) c->lost += r->trained - (u.pieces ? u.trained : 0);
    c->held += kind == RT_HELD_OUT;
    c->copies += kind == RT_HELD_COPY && u.pieces > 0;
    if (!on_side(o, kind) || u.pieces == 0) return;
    c->units += u.pieces;
    c->tokens += u.len;
    c->trained += u.trained;
}

static void count_one(const rt_shard *s, uint64_t record, const rt_rows_opts *o, rt_rows_count *c)
{
    rt_shard_record r;
    rt_shard_get(s, record, &r);
    rt_rows_count_record(c, &r, o, kind_of(s, record, o));
}

/* Units that a record gives to this side. */
static uint32_t units_of(const rt_shard *s, uint64_t record, const rt_rows_opts *o)
{
    rt_shard_record r;
    rt_shard_get(s, record, &r);
    uint32_t pieces = use_of(&r, o).pieces;
    return pieces && on_side(o, kind_of(s, record, o)) ? pieces : 0;
}

int rt_rows_survey(rt_shard *const *shards, uint32_t count, const rt_rows_opts *o, rt_rows_count *out, rt_err *e)
{
    *out = (rt_rows_count){ 0 };
    if (o->seq_len < 2) return rt_fail(e, RT_INVALID, "rows of %u tokens; there must be at least 2", o->seq_len);
    for (uint32_t k = 0; k < count; k++)
        for (uint64_t i = 0; i < rt_shard_about(shards[k])->records; i++) count_one(shards[k], i, o, out);
    return RT_OK;
}

void rt_rows_settle(const rt_rows_source *sources, uint32_t count, rt_rows_opts *o)
{
    double least = 1, most = 0, trained = 1; /* the lowest and highest place; the lowest that is trained */
    bool texts = true;
    o->stretch = false;
    if (o->held_out <= 0 || o->held) return;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < sources[i].count; k++) {
            const rt_shard *s = sources[i].shards[k];
            for (uint64_t n = rt_shard_about(s)->records, record = 0; record < n; record++) {
                rt_shard_record r;
                rt_shard_get(s, record, &r);
                if (use_of(&r, o).pieces == 0) continue;
                double at = place_of(s, record);
                if (at < least) least = at;
                if (at > most) most = at;
                if (at >= o->held_out && at < trained) trained = at;
                if (least < o->held_out && trained < 1) return; /* both sides have a record */
                texts = texts && can_stretch(&r);
            }
        }
    if (least > most) return; /* no record at all */
    o->stretch = texts && least == most;
    if (!o->stretch) o->held_out = least + 0x1p-53;
}

int rt_rows_judge(const rt_rows_count *c, const char *name, const rt_rows_opts *o, rt_err *e)
{
    uint64_t dropped = c->too_long + c->no_target;
    char why[120];
    snprintf(why, sizeof why, "%llu have no target", (unsigned long long)c->no_target);
    if (c->too_long)
        snprintf(why, sizeof why, "%llu are too long for rows of %u tokens, %llu have no target",
                 (unsigned long long)c->too_long, o->seq_len, (unsigned long long)c->no_target);
    if (c->records == 0) return rt_fail(e, RT_INVALID, "%s: no record in it; the data are empty", name);
    if (dropped == c->records)
        return rt_fail(e, RT_INVALID,
                       "%s: no token of it is trained: of %llu records %s; look at them with retort tokenize --show 3",
                       name, (unsigned long long)c->records, why);
    if (!o->allow_drop && (double)dropped > 0.05 * (double)c->records)
        return rt_fail(e, RT_INVALID, "%s: %.1f %% of %llu records would be dropped: %s; %sagree with --allow-drop",
                       name, 100.0 * (double)dropped / (double)c->records, (unsigned long long)c->records, why,
                       c->too_long ? "take longer rows, or " : "");
    return RT_OK;
}

/* ---- by number ---- */

int rt_units_open(rt_units *u, const rt_rows_source *s, const rt_rows_opts *o, rt_err *e)
{
    *u = (rt_units){ .source = *s, .o = *o };
    u->shard_first = rt_alloc_zero(((size_t)s->count + 1) * sizeof *u->shard_first, 64);
    if (!u->shard_first) return rt_no_memory(e, "the order of the data");
    for (uint32_t k = 0; k < s->count; k++)
        u->shard_first[k + 1] = u->shard_first[k] + rt_shard_about(s->shards[k])->records;
    u->records = u->shard_first[s->count];
    u->marks = rt_alloc((u->records / RT_UNITS_STEP + 1) * sizeof *u->marks, 64);
    if (!u->marks) return rt_no_memory(e, "the order of the data");
    uint64_t at = 0;
    for (uint32_t k = 0; k < s->count; k++)
        for (uint64_t i = 0, n = rt_shard_about(s->shards[k])->records; i < n; i++, at++) {
            if (at % RT_UNITS_STEP == 0) u->marks[at / RT_UNITS_STEP] = u->n.units;
            count_one(s->shards[k], i, o, &u->n);
        }
    return RT_OK;
}

void rt_units_close(rt_units *u)
{
    rt_free(u->marks);
    rt_free(u->shard_first);
    *u = (rt_units){ 0 };
}

rt_unit rt_units_find(const rt_units *u, uint64_t unit)
{
    uint64_t low = 0, high = (u->records - 1) / RT_UNITS_STEP; /* the last mark that is not above unit */
    while (low < high) {
        uint64_t mid = low + (high - low + 1) / 2;
        if (u->marks[mid] <= unit)
            low = mid;
        else
            high = mid - 1;
    }
    uint64_t record = low * RT_UNITS_STEP, before = u->marks[low];
    uint32_t k = 0;
    while (record >= u->shard_first[k + 1]) k++;
    for (;; record++) {
        while (record >= u->shard_first[k + 1]) k++;
        uint64_t i = record - u->shard_first[k];
        uint32_t pieces = units_of(u->source.shards[k], i, &u->o);
        if (unit >= before + pieces) {
            before += pieces;
            continue;
        }
        rt_shard_record r;
        rt_shard_get(u->source.shards[k], i, &r);
        use part = use_of(&r, &u->o);
        uint32_t skip = (uint32_t)(unit - before) * u->o.seq_len, left = part.len - skip;
        return (rt_unit){ .shard = k,
                          .record = i,
                          .first = part.first + skip,
                          .len = left < u->o.seq_len ? left : u->o.seq_len,
                          .end = part.end };
    }
}
