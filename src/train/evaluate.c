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

enum { CE, DIV, KL, TOP1, TEACHER_CE, MEASURES, PAIRED = TEACHER_CE /* those before it change with the student */ };

struct rt_eval_set {
    uint32_t B, T, rows, batches;
    uint32_t of;                                 /* rows before some were picked */
    int32_t *ids, *pos, *start, *target, *group; /* (batches * B * T) */
    uint32_t cap;                                /* rows that the arrays have room for */
    piece *pieces;
    uint32_t piece_count, piece_cap;
    uint64_t positions;
    rt_row_parts parts;
    uint64_t places; /* of the word */
    int32_t *words;  /* (rows * T) ids of the word that begins at a position, -1: none; null: no word is measured */
    uint32_t documents;
    double *sum, *count; /* (documents) of what is measured just now */
    double *last, *base; /* (PAIRED * documents) sums of the last evaluation, and of the one that changes are from */
    bool based;
};

static int grow_rows(rt_eval_set *s, rt_err *e)
{
    int32_t **arrays[] = { &s->ids, &s->pos, &s->start, &s->target, &s->group };
    uint32_t cap = s->cap;
    size_t row = s->T * sizeof(int32_t);
    if (((uint64_t)s->rows + s->B) * s->T > UINT32_MAX)
        return rt_fail(e, RT_INVALID, "%u rows of %u tokens are more than one evaluation takes; limit the rows",
                       s->rows + s->B, s->T);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
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
        s->ids[i] = s->start[i] = s->group[i] = 0;
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

static bool same_document(const piece *a, const piece *b) { return a->shard == b->shard && a->record == b->record; }

static int count_documents(rt_eval_set *s, rt_err *e)
{
    qsort(s->pieces, s->piece_count, sizeof *s->pieces, by_document);
    s->documents = 0;
    for (uint32_t i = 0; i < s->piece_count; i++)
        s->documents += i == 0 || !same_document(&s->pieces[i], &s->pieces[i - 1]);
    size_t n = s->documents * sizeof(double);
    rt_free(s->sum);
    s->sum = rt_alloc_zero(2 * (1 + PAIRED) * n, 64);
    if (!s->sum) return rt_no_memory(e, "the documents of evaluation");
    s->count = s->sum + s->documents;
    s->last = s->count + s->documents;
    s->base = s->last + PAIRED * s->documents;
    return RT_OK;
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
        rt_row_groups(&row, T, s->group + at);
        s->positions += row.trained;
        s->rows++;
    }
    if (!s->positions)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "the held-out part has no position to measure; raise --held-out or give --eval-data"));
    s->of = s->rows;
    fill_up(s);
    RT_TRY(count_documents(s, e));
    rc = RT_OK;
    *out = s;
    s = NULL;
out:
    rt_eval_set_free(s);
    return rc;
}

/* ---- some of the rows ---- */

/* What it takes to choose; all (rows) but seen, which is (documents). */
typedef struct choice {
    uint32_t *order, *document, *turn, *taken, *seen;
} choice;

static void choose_rows(const rt_eval_set *s, const choice *c, uint32_t most, uint64_t seed)
{
    enum { STREAM = 0x65766c }; /* an order of its own */
    uint32_t n = s->rows, taken = 0, document = 0;
    for (uint32_t i = 0; i < s->piece_count; i++) {
        document += i > 0 && !same_document(&s->pieces[i], &s->pieces[i - 1]);
        if (s->pieces[i].at % s->T == 0) c->document[s->pieces[i].at / s->T] = document; /* it begins the row */
    }
    for (uint32_t i = 0; i < n; i++) c->order[rt_permute(seed, STREAM, n, i)] = i;
    for (uint32_t i = 0; i < n; i++) c->turn[c->order[i]] = c->seen[c->document[c->order[i]]]++;
    for (uint32_t turn = 0; taken < most; turn++)
        for (uint32_t i = 0; i < n && taken < most; i++)
            if (c->turn[c->order[i]] == turn) c->taken[c->order[i]] = 1, taken++;
}

/* The rows that were taken, moved to the front. */
static void keep_rows(rt_eval_set *s, const uint32_t *taken)
{
    int32_t *const arrays[] = { s->ids, s->pos, s->start, s->target, s->group };
    uint32_t kept = 0, pieces = 0;
    for (uint32_t i = 0; i < s->rows; i++) {
        if (!taken[i]) continue;
        for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++)
            memmove(arrays[k] + (size_t)kept * s->T, arrays[k] + (size_t)i * s->T, s->T * sizeof(int32_t));
        for (uint32_t k = 0; k < s->piece_count; k++) { /* what is kept stands before what is looked at */
            piece p = s->pieces[k];
            if (k < pieces || p.at / s->T != i) continue;
            p.at = kept * s->T + p.at % s->T;
            s->pieces[k] = s->pieces[pieces];
            s->pieces[pieces++] = p;
        }
        kept++;
    }
    s->rows = kept;
    s->piece_count = pieces;
    s->positions = 0;
    for (uint32_t i = 0; i < kept * s->T; i++) s->positions += s->target[i] >= 0;
}

int rt_eval_set_pick(rt_eval_set *s, uint32_t rows, uint64_t seed, rt_err *e)
{
    int rc = RT_OK;
    size_t n = s->rows;
    if (rows >= s->rows) return RT_OK;
    uint32_t *work = rt_alloc_zero((4 * n + s->documents) * sizeof *work, 64);
    if (!work) RT_TRY(rt_no_memory(e, "the rows of evaluation"));
    choice c = { work, work + n, work + 2 * n, work + 3 * n, work + 4 * n };
    choose_rows(s, &c, rows, seed);
    keep_rows(s, c.taken);
    if (!s->positions)
        RT_TRY(rt_fail(e, RT_INVALID, "the %u rows that are measured have no position to measure; raise --eval-rows",
                       rows));
    fill_up(s);
    RT_TRY(count_documents(s, e));
out:
    rt_free(work);
    return rc;
}

void rt_eval_set_free(rt_eval_set *s)
{
    if (!s) return;
    rt_free(s->ids);
    rt_free(s->pos);
    rt_free(s->start);
    rt_free(s->target);
    rt_free(s->group);
    rt_free(s->pieces);
    rt_free(s->words);
    rt_free(s->sum);
    rt_free(s);
}

void rt_eval_set_batch(rt_eval_set *s, uint32_t B)
{
    s->B = B;
    fill_up(s);
}

uint32_t rt_eval_set_rows(const rt_eval_set *s) { return s->rows; }
uint32_t rt_eval_set_of(const rt_eval_set *s) { return s->of; }
uint64_t rt_eval_set_positions(const rt_eval_set *s) { return s->positions; }
rt_batch rt_eval_set_all(const rt_eval_set *s) { return (rt_batch){ s->ids, s->pos, s->start, s->target, s->group }; }

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

_Static_assert((int)RT_EVAL_PARTS == (int)RT_PARTS_MOST && (int)RT_EVAL_NAME == (int)RT_PART_NAME,
               "a result has room for all parts");

static int measure_all(rt_trainer *t, const rt_eval_set *s, float *values[MEASURES], rt_err *e)
{
    int rc = RT_OK;
    uint32_t n = s->B * s->T;
    for (uint32_t b = 0; b < s->batches; b++) {
        size_t at = (size_t)b * n;
        RT_TRY(rt_watch_step(t->watch, "evaluating", b, s->batches, e));
        rt_batch batch = { s->ids + at, s->pos + at, s->start + at, s->target + at, s->group + at };
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

/* Sum and count of each document, of the part's positions where counted is not negative. Pieces are sorted by document.
 */
static void sum_documents(rt_eval_set *s, uint32_t part, const float *values, const int32_t *counted)
{
    uint32_t d = 0;
    memset(s->sum, 0, 2 * s->documents * sizeof *s->sum); /* counts, too */
    for (uint32_t i = 0; i < s->piece_count; i++) {
        const piece *p = &s->pieces[i];
        d += i > 0 && !same_document(p, p - 1);
        for (uint32_t k = p->at; k < p->at + p->len && is_of(p, part); k++)
            if (counted[k] >= 0) s->sum[d] += values[k], s->count[d]++;
    }
}

/* As in the header; of the differences from base where there is one. */
static measured mean_of(const rt_eval_set *s, const double *base)
{
    double sum = 0, count = 0, spread = 0;
    uint64_t docs = 0;
    for (uint32_t d = 0; d < s->documents; d++) {
        if (s->count[d] == 0) continue;
        sum += s->sum[d] - (base ? base[d] : 0);
        count += s->count[d];
        docs++;
    }
    double mean = sum / count;
    for (uint32_t d = 0; d < s->documents; d++) {
        double off = s->sum[d] - (base ? base[d] : 0) - mean * s->count[d];
        if (s->count[d] > 0) spread += off * off;
    }
    double error = docs > 1 ? sqrt((double)docs / (double)(docs - 1) * spread) / count : NAN;
    return (measured){ { mean, error, 0 }, (uint64_t)count, docs };
}

static measured over_documents(rt_eval_set *s, uint32_t part, const float *values, const int32_t *counted)
{
    sum_documents(s, part, values, counted);
    return mean_of(s, NULL);
}

/* One of the measures, with the error of its change where that is known. */
static measured measure_one(rt_eval_set *s, uint32_t part, float *const values[MEASURES], int which)
{
    measured m = over_documents(s, part, values[which], s->target);
    size_t at = (size_t)which * s->documents;
    if (which >= PAIRED) return m;
    if (s->based && m.documents > 1) m.m.paired = mean_of(s, s->base + at).m.error;
    if (part == WHOLE) memcpy(s->last + at, s->sum, s->documents * sizeof *s->sum);
    return m;
}

bool rt_eval_set_rebase(rt_eval_set *s)
{
    if (s->documents > RT_EVAL_PAIRS_MOST) return false;
    memcpy(s->base, s->last, PAIRED * (size_t)s->documents * sizeof *s->base);
    return s->based = true;
}

static const char *const paired_names[PAIRED] = { "ce", "divergence", "forward_kl", "agreement" };

json_t *rt_eval_base_json(const rt_eval_set *s)
{
    json_t *sums = json_object();
    for (int k = 0; k < PAIRED; k++) {
        json_t *list = json_array();
        for (uint32_t d = 0; d < s->documents; d++)
            json_array_append_new(list, json_real(s->base[(size_t)k * s->documents + d]));
        json_object_set_new(sums, paired_names[k], list);
    }
    return json_pack("{s:s, s:i, s:o}", "event", "documents", "step", 0, "sums", sums);
}

bool rt_eval_base_take_line(rt_eval_set *s, const json_t *line)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    const json_t *sums = json_object_get(line, "sums");
    if (!event || strcmp(event, "documents") != 0) return false;
    for (int k = 0; k < PAIRED; k++) {
        const json_t *list = json_object_get(sums, paired_names[k]);
        if (json_array_size(list) != s->documents) return false;
        for (uint32_t d = 0; d < s->documents; d++)
            s->base[(size_t)k * s->documents + d] = json_number_value(json_array_get(list, d));
    }
    return s->based = true;
}

/* Parts of which there is no position are left out. */
static void measure_parts(rt_eval_set *s, float *const values[MEASURES], rt_eval_result *out)
{
    for (uint32_t i = 0; i < s->parts.count; i++) {
        measured ce = measure_one(s, i, values, CE);
        rt_eval_part *p = &out->parts[out->part_count];
        if (!ce.positions) continue;
        *p = (rt_eval_part){ .positions = ce.positions, .documents = ce.documents, .ce = ce.m };
        memcpy(p->name, s->parts.name[i], sizeof p->name);
        if (out->teacher) {
            p->kl = measure_one(s, i, values, KL).m;
            p->agreement = measure_one(s, i, values, TOP1).m;
            p->teacher_ce = measure_one(s, i, values, TEACHER_CE).m;
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
static rt_measure word_probability(rt_eval_set *s, const float *ce, float *scratch)
{
    for (uint32_t i = 0; i < s->rows * s->T; i++) {
        double sum = 0;
        for (int32_t k = 0; k < s->words[i]; k++) sum += ce[i + (uint32_t)k];
        scratch[i] = (float)exp(-sum);
    }
    return over_documents(s, WHOLE, scratch, s->words).m;
}

/* An op that makes such a number records a fault, which is told of before; this one was never computed. */
static int check_finite(const rt_eval_result *r, bool blind, rt_err *e)
{
    const char *what = !isfinite(r->ce.mean)                             ? "cross-entropy"
                       : !isfinite(r->kl.mean) || !isfinite(r->div.mean) ? "divergence"
                       : !blind && !isfinite(r->teacher_ce.mean)         ? "cross-entropy of the teacher"
                       : !isfinite(r->agreement.mean)                    ? "agreement"
                                                                         : NULL;
    if (!what) return RT_OK;
    return rt_fail(e, RT_NONFINITE,
                   "evaluation: the %s is not finite, and no op says where it began: the device may not compute what "
                   "it is told; retort verify tries every op",
                   what);
}

/* ---- positions to which a model carries nothing ---- */

/* A sum of squares that overflows makes the norm of a row 0, here as in PyTorch, and from then on all ids are alike.
 * The CE of such a position is ln V, but for the roundings of an exponential and a logarithm in f32. */
static uint64_t count_even(const rt_eval_set *s, const float *ce, uint32_t vocab)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->rows * s->T; i++) n += s->target[i] >= 0 && fabs(ce[i] - log(vocab)) <= 4e-6;
    return n;
}

void rt_eval_say_even(rt_str *out, const rt_eval_result *v, const char *student, const char *teacher)
{
    enum { SHARE = 100 }; /* a CE that only happens to be ln V is much rarer */
    const char *name[] = { student, teacher };
    const uint64_t even[] = { v->even, v->teacher_even };
    for (int i = 0; i < 2; i++)
        if (even[i] && even[i] >= v->positions / SHARE)
            rt_str_printf(out,
                          "%s%s: every id is as likely as any other at %" PRIu64 " of %" PRIu64
                          " positions: the model's "
                          "last layers are 0, or its values overflow in a norm",
                          out->len ? "; " : "", name[i], even[i], v->positions);
}

/* ---- all of it ---- */

int rt_evaluate(rt_trainer *t, rt_eval_set *s, rt_eval_result *out, float *kl_each, rt_err *e)
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
    const rt_source_shape *source = &t->plan->opts.source;
    *out = (rt_eval_result){ .teacher = rt_step_plan_distils(t->plan), .positions = s->positions };
    if (rt_source_lists(source) && !source->whole) out->outcomes = source->held_n + 1;
    measured ce = measure_one(s, WHOLE, values, CE);
    out->ce = ce.m;
    out->documents = ce.documents;
    out->even = count_even(s, values[CE], t->plan->student->config.vocab);
    if (out->teacher) {
        if (t->plan->teacher) out->teacher_even = count_even(s, values[TEACHER_CE], t->plan->teacher->config.vocab);
        out->div = measure_one(s, WHOLE, values, DIV).m;
        out->kl = measure_one(s, WHOLE, values, KL).m;
        out->agreement = measure_one(s, WHOLE, values, TOP1).m;
        out->teacher_ce = measure_one(s, WHOLE, values, TEACHER_CE).m;
        if (kl_each) take_each(s, values[KL], kl_each);
    }
    RT_TRY(check_finite(out, source->blind, e));
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
