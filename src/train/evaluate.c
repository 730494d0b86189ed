/* evaluate.c - see evaluate.h. */
#include "train/evaluate.h"

#include "base/sys.h"
#include "text/tokenizer/tok_word.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A document, or the piece of one that stands in a row. */
typedef struct piece {
    uint64_t shard, record; /* pieces of one record count as one document */
    uint32_t at, len;       /* positions of the set */
    uint32_t first;         /* of the record's tokens */
    uint32_t part;          /* of the data */
} piece;

struct rt_eval_set {
    uint32_t B, T, rows, batches;
    int32_t *ids, *pos, *start, *target; /* (batches * B * T) */
    uint32_t cap;                        /* rows that the arrays have room for */
    piece *pieces;
    uint32_t piece_count, piece_cap;
    uint64_t positions;
    rt_row_parts parts;
    uint64_t places; /* of the word */
    int32_t *words;  /* (rows * T) ids of the word that begins at a position, -1: none; null: no word is measured */
};

static int grow_rows(rt_eval_set *s, rt_err *e)
{
    int32_t **arrays[] = { &s->ids, &s->pos, &s->start, &s->target };
    uint32_t cap = s->cap;
    size_t row = s->T * sizeof(int32_t);
    if (((uint64_t)s->rows + s->B) * s->T > UINT32_MAX)
        return rt_fail(e, RT_INVALID, "%u rows of %u tokens are more than one evaluation takes; limit the rows",
                       s->rows + s->B, s->T);
    for (int i = 0; i < 4; i++) {
        cap = s->cap;
        if (!rt_grow((void **)arrays[i], &cap, s->rows + s->B, row))
            return rt_fail(e, RT_NOMEM, "no memory for %u rows of evaluation", s->rows + s->B);
    }
    s->cap = cap;
    return RT_OK;
}

static int add_pieces(rt_eval_set *s, const rt_row *row, rt_err *e)
{
    for (uint32_t i = 0; i < row->doc_count; i++) {
        const rt_row_doc *d = &row->docs[i];
        if (!rt_grow((void **)&s->pieces, &s->piece_cap, s->piece_count + 1, sizeof *s->pieces))
            return rt_no_memory(e, "the documents of evaluation");
        s->pieces[s->piece_count++] = (piece){ .shard = (uint64_t)d->source << 32 | d->shard,
                                               .record = d->record,
                                               .at = s->rows * s->T + d->begin,
                                               .len = d->len,
                                               .first = d->first,
                                               .part = rt_row_part(&s->parts, d) };
    }
    return RT_OK;
}

/* Rows that fill up the last batch: padding, nothing to learn. */
static void fill_up(rt_eval_set *s)
{
    s->batches = (s->rows + s->B - 1) / s->B;
    for (uint32_t i = s->rows * s->T; i < s->batches * s->B * s->T; i++) {
        s->ids[i] = s->start[i] = 0;
        s->pos[i] = (int32_t)(i % s->T);
        s->target[i] = -1;
    }
}

static int by_document(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
    if (x->record != y->record) return x->record < y->record ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

int rt_eval_set_new(rt_eval_set **out, rt_rows *rows, uint32_t B, uint32_t T, uint32_t most, rt_err *e)
{
    int rc;
    rt_eval_set *s = rt_alloc_zero(sizeof *s, 16);
    if (!s) RT_TRY(rt_no_memory(e, "evaluation"));
    s->B = B;
    s->T = T;
    rt_rows_parts(rows, &s->parts);
    for (;;) {
        RT_TRY(grow_rows(s, e));
        size_t at = (size_t)s->rows * T;
        rt_row row = { .ids = s->ids + at, .target = s->target + at, .start = s->start + at, .pos = s->pos + at };
        if (most && s->rows == most) break;
        RT_TRY(rt_rows_next(rows, &row, e));
        if (rc == 0) break;
        RT_TRY(add_pieces(s, &row, e));
        s->positions += row.trained;
        s->rows++;
    }
    if (!s->positions)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "the held-out part has no position to measure; raise --held-out or give --eval-data"));
    fill_up(s);
    qsort(s->pieces, s->piece_count, sizeof *s->pieces, by_document);
    rc = RT_OK;
    *out = s;
    s = NULL;
out:
    rt_eval_set_free(s);
    return rc;
}

void rt_eval_set_free(rt_eval_set *s)
{
    if (!s) return;
    rt_free(s->ids);
    rt_free(s->pos);
    rt_free(s->start);
    rt_free(s->target);
    rt_free(s->pieces);
    rt_free(s->words);
    rt_free(s);
}

void rt_eval_set_batch(rt_eval_set *s, uint32_t B)
{
    s->B = B;
    fill_up(s);
}

uint32_t rt_eval_set_rows(const rt_eval_set *s) { return s->rows; }
uint64_t rt_eval_set_positions(const rt_eval_set *s) { return s->positions; }
rt_batch rt_eval_set_all(const rt_eval_set *s) { return (rt_batch){ s->ids, s->pos, s->start, s->target }; }

uint64_t rt_eval_set_records(const rt_eval_set *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->piece_count; i++)
        n += i == 0 || s->pieces[i].shard != s->pieces[i - 1].shard || s->pieces[i].record != s->pieces[i - 1].record;
    return n;
}

void rt_eval_set_absent(const rt_eval_set *s, rt_str *names)
{
    for (uint32_t part = 0; part < s->parts.count; part++) {
        uint32_t i = 0;
        while (i < s->piece_count && s->pieces[i].part != part) i++;
        if (i == s->piece_count) rt_str_printf(names, "%s%s", names->len ? ", " : "", s->parts.name[part]);
    }
}

uint32_t rt_eval_set_documents(const rt_eval_set *s) { return s->piece_count; }

void rt_eval_set_document(const rt_eval_set *s, uint32_t i, rt_eval_document *out)
{
    const piece *p = &s->pieces[i];
    *out = (rt_eval_document){ s->ids + p->at, s->target + p->at, p->len, p->first == 0 };
}

bool rt_eval_set_within(const rt_eval_set *s, const uint32_t *mask, uint32_t rows, int32_t *bad)
{
    for (uint32_t i = 0; i < s->rows * s->T; i++) {
        int32_t v = s->target[i];
        if (v >= 0 && ((uint32_t)v >= rows || !(mask[v / 32] >> (v % 32) & 1))) return *bad = v, false;
    }
    return true;
}

bool rt_eval_set_below(const rt_eval_set *s, uint32_t rows, int32_t *bad)
{
    for (uint32_t i = 0; i < s->rows * s->T; i++)
        if ((uint32_t)s->ids[i] >= rows || s->target[i] >= (int64_t)rows)
            return *bad = (uint32_t)s->ids[i] >= rows ? s->ids[i] : s->target[i], false;
    return true;
}

static void mark_places(rt_eval_set *s, const rt_tok_word *w)
{
    for (uint32_t i = 0; i < s->rows * s->T; i++) s->words[i] = -1;
    s->places = 0;
    for (uint32_t i = 0; i < s->piece_count; i++) {
        const piece *p = &s->pieces[i];
        for (uint32_t k = 0; k < p->len; k++) {
            uint32_t at = p->at + k, len = rt_tok_word_at(w, s->ids[at], s->target + at, p->len - k);
            if (!len) continue;
            s->words[at] = (int32_t)len;
            s->places++;
        }
    }
}

int rt_eval_set_word(rt_eval_set *s, const rt_tokenizer *t, const char *word, rt_err *e)
{
    int rc;
    rt_tok_word *w = NULL;
    RT_TRY(rt_tok_word_new(&w, t, word, e));
    if (!s->words) s->words = rt_alloc((size_t)s->rows * s->T * sizeof *s->words, 64);
    if (!s->words) RT_TRY(rt_no_memory(e, "the places of a word"));
    mark_places(s, w);
    if (!s->places)
        RT_TRY(rt_fail(e, RT_INVALID, "the word '%s' stands nowhere among the %" PRIu64 " positions that are measured",
                       word, s->positions));
out:
    rt_tok_word_free(w);
    return rc;
}

/* ---- measuring ---- */

enum { CE, DIV, KL, TOP1, TEACHER_CE, MEASURES };

_Static_assert((int)RT_EVAL_PARTS == (int)RT_PARTS_MOST && (int)RT_EVAL_NAME == (int)RT_PART_NAME,
               "a result has room for all parts");

static int measure_all(rt_trainer *t, const rt_eval_set *s, float *values[MEASURES], rt_err *e)
{
    int rc = RT_OK;
    uint32_t n = s->B * s->T;
    for (uint32_t b = 0; b < s->batches; b++) {
        size_t at = (size_t)b * n;
        RT_TRY(rt_watch_step(t->watch, "evaluating", b, s->batches, e));
        rt_batch batch = { s->ids + at, s->pos + at, s->start + at, s->target + at };
        rt_eval_out out = { values[CE] + at, values[DIV] + at, values[KL] + at, values[TOP1] + at,
                            values[TEACHER_CE] + at };
        RT_TRY(rt_trainer_eval(t, &batch, &out, e));
    }
out:
    return rc;
}

enum { WHOLE = UINT16_MAX }; /* not a part */

static bool is_of(const piece *p, uint32_t part) { return part == WHOLE || p->part == part; }

typedef struct measured {
    rt_measure m;
    uint64_t positions, documents;
} measured;

/* Over documents, as in the header, of the part's positions where counted is not negative. Pieces are sorted by
 * document. */
static measured over_documents(const rt_eval_set *s, uint32_t part, const float *values, const int32_t *counted)
{
    double sum = 0, spread = 0;
    uint64_t count = 0, docs = 0;
    for (uint32_t i = 0; i < s->piece_count; i++)
        for (uint32_t k = 0; k < s->pieces[i].len && is_of(&s->pieces[i], part); k++)
            if (counted[s->pieces[i].at + k] >= 0) sum += values[s->pieces[i].at + k], count++;
    double mean = sum / (double)count;
    for (uint32_t i = 0; i < s->piece_count;) {
        const piece *first = &s->pieces[i];
        double sd = 0, nd = 0;
        for (; i < s->piece_count && s->pieces[i].shard == first->shard && s->pieces[i].record == first->record; i++)
            for (uint32_t k = 0; k < s->pieces[i].len && is_of(first, part); k++)
                if (counted[s->pieces[i].at + k] >= 0) sd += values[s->pieces[i].at + k], nd++;
        if (nd == 0) continue;
        docs++;
        spread += (sd - mean * nd) * (sd - mean * nd);
    }
    double error = docs > 1 ? sqrt((double)docs / (double)(docs - 1) * spread) / (double)count : NAN;
    return (measured){ { mean, error }, count, docs };
}

/* Parts of which there is no position are left out. */
static void measure_parts(const rt_eval_set *s, float *const values[MEASURES], rt_eval_result *out)
{
    for (uint32_t i = 0; i < s->parts.count; i++) {
        measured ce = over_documents(s, i, values[CE], s->target);
        rt_eval_part *p = &out->parts[out->part_count];
        if (!ce.positions) continue;
        *p = (rt_eval_part){ .positions = ce.positions, .documents = ce.documents, .ce = ce.m };
        memcpy(p->name, s->parts.name[i], sizeof p->name);
        if (out->teacher) {
            p->kl = over_documents(s, i, values[KL], s->target).m;
            p->agreement = over_documents(s, i, values[TOP1], s->target).m;
            p->teacher_ce = over_documents(s, i, values[TEACHER_CE], s->target).m;
        }
        out->part_count++;
    }
    if (out->part_count < 2) out->part_count = 0; /* it is the whole */
}

static void take_each(const rt_eval_set *s, const float *kl, float *each)
{
    for (uint32_t i = 0; i < s->rows * s->T; i++)
        if (s->target[i] >= 0) *each++ = kl[i];
}

/* The probability of a word is that of its ids after one another: exp(-sum of their CE). */
static rt_measure word_probability(const rt_eval_set *s, const float *ce, float *scratch)
{
    for (uint32_t i = 0; i < s->rows * s->T; i++) {
        double sum = 0;
        for (int32_t k = 0; k < s->words[i]; k++) sum += ce[i + (uint32_t)k];
        scratch[i] = (float)exp(-sum);
    }
    return over_documents(s, WHOLE, scratch, s->words).m;
}

/* An op that makes such a number records a fault, which is told of before; this one was never computed. */
static int check_finite(const rt_eval_result *r, rt_err *e)
{
    const char *what = !isfinite(r->ce.mean)                             ? "cross-entropy"
                       : !isfinite(r->kl.mean) || !isfinite(r->div.mean) ? "divergence"
                       : !isfinite(r->teacher_ce.mean)                   ? "cross-entropy of the teacher"
                       : !isfinite(r->agreement.mean)                    ? "agreement"
                                                                         : NULL;
    if (!what) return RT_OK;
    return rt_fail(e, RT_NONFINITE,
                   "evaluation: the %s is not finite, and no op says where it began: the device may not compute what "
                   "it is told; retort verify tries every op",
                   what);
}

int rt_evaluate(rt_trainer *t, const rt_eval_set *s, rt_eval_result *out, float *kl_each, rt_err *e)
{
    int rc;
    float *values[MEASURES] = { 0 };
    double begun = rt_now();
    size_t n = (size_t)s->batches * s->B * s->T;
    for (int i = 0; i < MEASURES; i++) {
        values[i] = rt_alloc_zero(n * sizeof(float), 64);
        if (!values[i]) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for %zu positions of evaluation", n));
    }
    RT_TRY(measure_all(t, s, values, e));
    *out = (rt_eval_result){ .teacher = t->plan->teacher != NULL, .positions = s->positions };
    measured ce = over_documents(s, WHOLE, values[CE], s->target);
    out->ce = ce.m;
    out->documents = ce.documents;
    if (out->teacher) {
        out->div = over_documents(s, WHOLE, values[DIV], s->target).m;
        out->kl = over_documents(s, WHOLE, values[KL], s->target).m;
        out->agreement = over_documents(s, WHOLE, values[TOP1], s->target).m;
        out->teacher_ce = over_documents(s, WHOLE, values[TEACHER_CE], s->target).m;
        if (kl_each) take_each(s, values[KL], kl_each);
    }
    RT_TRY(check_finite(out, e));
    measure_parts(s, values, out);
    if (s->words) {
        out->places = s->places;
        out->word = word_probability(s, values[CE], values[DIV]);
        if (out->teacher) out->teacher_word = word_probability(s, values[TEACHER_CE], values[DIV]);
    }
    out->seconds = rt_now() - begun;
out:
    for (int i = 0; i < MEASURES; i++) rt_free(values[i]);
    return rc;
}
