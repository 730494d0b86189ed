/* preview.c - see preview.h. */
#include "job/preview.h"

#include <math.h>
#include <stdio.h>

/* Training text that is compared with the held-out text: some seconds of reading. */
static const uint64_t most_tokens = 1ull << 27;
/* Above this share of its positions held-out text measures memory as much as skill. */
static const double high_overlap = 0.2;

/* ---- the objective ---- */

/* 0.10, 0.90, and all digits where two are not enough. */
static void put_weight(rt_str *s, double w)
{
    rt_str_printf(s, fabs(w * 100 - round(w * 100)) < 1e-9 ? "%.2f" : "%.4g", w);
}

static void put_objective(rt_str *s, const rt_loss_opts *l, bool teacher, const rt_rows_count *c)
{
    static const char *const titles[RT_DIV_COUNT] = {
#define X(name, word, label, title, mix) title,
        RT_DIVERGENCE_LIST(X)
#undef X
    };
    static const char *const mixes[] = { [RT_MIX_BETA] = "beta", [RT_MIX_SKEW] = "skew" };
    rt_str_append(s, "loss = ");
    put_weight(s, l->ce_weight);
    rt_str_append(s, " CE");
    if (teacher) {
        rt_str_append(s, " + ");
        put_weight(s, l->kd_weight);
        rt_str_printf(s, " %s%s, T %.4g", l->t2 && l->temperature != 1 ? "T^2 " : "", titles[l->divergence],
                      l->temperature);
        rt_div_mix mix = rt_divergence_mix(l->divergence);
        if (mix != RT_MIX_NONE) rt_str_printf(s, ", %s %.4g", mixes[mix], l->mix);
    }
    rt_str_printf(s, ", %.0f %% of tokens trained", c->tokens ? 100.0 * (double)c->trained / (double)c->tokens : 0.0);
}

/* ---- samples ---- */

/* The text of a piece, without most of its middle when it is long; cut between characters. */
static const char *shorten(rt_arena *a, const char *text, size_t len)
{
    enum { HEAD = 160, TAIL = 60, MOST = HEAD + TAIL + 40 };
    size_t head = HEAD, tail = len - TAIL;
    if (len <= MOST) return rt_arena_printf(a, "%.*s", (int)len, text);
    while (head && ((unsigned char)text[head] & 0xC0) == 0x80) head--;
    while (tail < len && ((unsigned char)text[tail] & 0xC0) == 0x80) tail++;
    return rt_arena_printf(a, "%.*s [...] %.*s", (int)head, text, (int)(len - tail), text + tail);
}

static int add_piece(rt_preview *p, rt_preview_sample *s, bool trained, rt_str *text, rt_err *e)
{
    const char *copy = shorten(&p->arena, text->data ? text->data : "", text->len);
    if (text->failed || !copy) return rt_no_memory(e, "a preview");
    s->pieces[s->count++] = (rt_preview_piece){ trained, copy };
    text->len = 0;
    return RT_OK;
}

/* Document [0, n) of ids. A token is trained when the position before it has a target. */
static int take_sample(rt_preview *p, const rt_tokenizer *tok, const rt_row *row, rt_err *e)
{
    int rc = RT_OK;
    rt_tok_stream *stream = NULL;
    rt_str text = { 0 };
    rt_preview_sample *s = &p->samples[p->sample_count];
    uint32_t n = row->doc_count ? row->docs[0].len : 0, k = 0;
    rt_token_info known;
    bool inside = false;
    if (tok) RT_TRY(rt_tok_stream_new(&stream, tok, 0, e));
    for (uint32_t i = 0; i + 1 < n; i++) s->trained += row->target[i] >= 0;
    s->tokens = n;
    for (; k < n; k++) {
        bool trained = k > 0 && row->target[k - 1] >= 0;
        if (trained != inside && k > 0) {
            /* Characters that wait for another token are given out on the side of the token that completes them. */
            RT_TRY(add_piece(p, s, inside, &text, e));
            if (s->count == RT_PREVIEW_PIECES) break;
        }
        inside = trained;
        if (!tok || !rt_tokenizer_token(tok, (uint32_t)row->ids[k], &known))
            rt_str_printf(&text, "<%d>", row->ids[k]);
        else
            RT_TRY(rt_tok_stream_push(stream, (uint32_t)row->ids[k], &text, e));
    }
    s->left = n - k;
    if (stream) RT_TRY(rt_tok_stream_end(stream, &text, e));
    if (s->count < RT_PREVIEW_PIECES && n) RT_TRY(add_piece(p, s, inside, &text, e));
    p->sample_count += n > 0;
out:
    rt_tok_stream_free(stream);
    rt_str_free(&text);
    return rc;
}

/* ---- reading the rows that the run will read ---- */

static int read_rows(rt_preview *p, const rt_run *r, rt_err *e)
{
    int rc;
    const rt_inputs *in = rt_run_inputs(r);
    const rt_resolved *v = rt_run_resolved(r);
    rt_overlap *overlap = NULL;
    rt_batch held = rt_eval_set_all(rt_run_held(r));
    size_t T = v->seq_len;
    int32_t *rows = rt_alloc(4 * T * sizeof *rows, 64);
    rt_row row = { .ids = rows, .target = rows + T, .start = rows + 2 * T, .pos = rows + 3 * T };
    uint64_t tokens = 0, all = (uint64_t)v->steps * v->batch;
    if (!rows) RT_TRY(rt_no_memory(e, "a preview"));
    p->rows_all = all < p->rows ? all : p->rows;
    RT_TRY(rt_overlap_new(&overlap, &held, p->held_rows, v->seq_len, RT_OVERLAP_GRAMS, e));
    for (; p->rows_read < p->rows_all && tokens < most_tokens; p->rows_read++) {
        RT_TRY(rt_rows_next(in->train, &row, e));
        if (rc == 0) break;
        rt_overlap_read(overlap, row.ids, row.start, row.tokens);
        if (p->sample_count < RT_PREVIEW_SAMPLES)
            RT_TRY(take_sample(p, in->text ? in->text->tokenizer : NULL, &row, e));
        tokens += row.tokens;
    }
    p->overlap = rt_overlap_count(overlap);
    p->looked = true;
    rc = RT_OK;
out:
    rt_overlap_free(overlap);
    rt_free(rows);
    return rc;
}

static int look(rt_preview *p, const rt_run *r, rt_err *e)
{
    rt_rows *train = rt_run_inputs(r)->train;
    rt_cursor at = rt_rows_tell(train);
    int rc = read_rows(p, r, e), back = rt_rows_seek(train, &at, rc < 0 ? NULL : e);
    return rc < 0 ? rc : back;
}

/* How many records evaluation is on, and whose. */
static void count_held(rt_preview *p, const rt_run *r)
{
    const rt_inputs *in = rt_run_inputs(r);
    bool file = in->eval_count > 0;
    uint32_t count = file ? in->eval_count : in->train_count;
    if (rt_rows_is_stretch(in->held)) return;
    p->held_records = rt_eval_set_records(rt_run_held(r));
    p->held_copies = file ? 0 : in->counted.copies;
    for (uint32_t i = 0; i < count; i++) {
        const rt_rows_count *c = rt_rows_of_source(in->held, i);
        uint64_t n = file ? c->records - c->too_long - c->no_target : c->held;
        p->held_all += n;
        if (count > 1 && count <= RT_PARTS_MOST)
            p->held_sources[p->held_source_count++] =
                (rt_preview_source){ rt_path_base((file ? in->eval_sources : in->train_sources)[i].name), n };
    }
}

int rt_preview_new(rt_preview **out, const rt_run *r, rt_err *e)
{
    int rc = RT_OK;
    rt_str objective = { 0 };
    const rt_inputs *in = rt_run_inputs(r);
    rt_preview *p = rt_alloc_zero(sizeof *p, 16);
    if (!p) RT_TRY(rt_no_memory(e, "a preview"));
    p->data = in->counted;
    p->eval = in->eval_counted;
    p->rows = rt_run_known(r)->rows_per_epoch;
    p->held_rows = rt_run_held_rows(r);
    p->held_positions = rt_eval_set_positions(rt_run_held(r));
    count_held(p, r);
    put_objective(&objective, &rt_run_resolved(r)->loss, in->teacher != NULL, &p->data);
    p->objective = objective.failed ? NULL : rt_arena_strdup(&p->arena, objective.data);
    if (!p->objective) RT_TRY(rt_no_memory(e, "a preview"));
    if (rt_run_state(r)->step == 0) RT_TRY(look(p, r, e));
    *out = p;
    p = NULL;
out:
    rt_str_free(&objective);
    rt_preview_free(p);
    return rc;
}

void rt_preview_free(rt_preview *p)
{
    if (!p) return;
    rt_arena_free(&p->arena);
    rt_free(p);
}

bool rt_preview_overlap_high(const rt_preview *p)
{
    return p->overlap.grams && (double)p->overlap.shared > high_overlap * (double)p->overlap.grams;
}

/* ---- for programs ---- */

static json_t *sample_json(const rt_preview_sample *s)
{
    json_t *pieces = json_array();
    for (uint32_t i = 0; i < s->count; i++)
        json_array_append_new(pieces,
                              json_pack("{s:b, s:s}", "trained", s->pieces[i].trained, "text", s->pieces[i].text));
    return json_pack("{s:I, s:I, s:I, s:o}", "tokens", (json_int_t)s->tokens, "trained", (json_int_t)s->trained, "left",
                     (json_int_t)s->left, "pieces", rt_json_complete(pieces, s->count));
}

static json_t *samples_json(const rt_preview *p)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < p->sample_count; i++) json_array_append_new(all, sample_json(&p->samples[i]));
    return rt_json_complete(all, p->sample_count);
}

static json_t *overlap_json(const rt_preview *p)
{
    const rt_overlap_result *o = &p->overlap;
    if (!p->looked) return json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "grams", (json_int_t)o->grams, "shared",
                     (json_int_t)o->shared, "texts", (json_int_t)o->texts, "touched", (json_int_t)o->touched, "one_in",
                     (json_int_t)o->one_in, "rows_read", (json_int_t)p->rows_read, "rows", (json_int_t)p->rows_all,
                     "high", rt_preview_overlap_high(p));
}

static json_t *sources_json(const rt_preview *p)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < p->held_source_count; i++)
        json_array_append_new(all, json_pack("{s:s, s:I}", "name", p->held_sources[i].name, "records",
                                             (json_int_t)p->held_sources[i].records));
    return rt_json_complete(all, p->held_source_count);
}

json_t *rt_preview_json(const rt_preview *p)
{
    const rt_rows_count *c = &p->data, *v = &p->eval;
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:o, s:o}",
        "objective", p->objective, "records", (json_int_t)c->records, "rows", (json_int_t)p->rows, "trained",
        (json_int_t)c->trained, "masked", (json_int_t)(c->tokens - c->trained), "split", (json_int_t)c->split,
        "shortened", (json_int_t)c->cut, "dropped", (json_int_t)(c->too_long + c->no_target), "targets_lost",
        (json_int_t)c->lost, "held_rows", (json_int_t)p->held_rows, "held_positions", (json_int_t)p->held_positions,
        "held_records", (json_int_t)p->held_records, "held_all", (json_int_t)p->held_all, "held_copies",
        (json_int_t)p->held_copies, "held_sources", sources_json(p), "held_split", (json_int_t)v->split,
        "held_shortened", (json_int_t)v->cut, "held_dropped", (json_int_t)(v->too_long + v->no_target), "overlap",
        overlap_json(p), "samples", samples_json(p));
}
