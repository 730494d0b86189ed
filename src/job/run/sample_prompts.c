/* sample_prompts.c - which prompts a run's samples begin with: those of a file, or of held-out documents. */
#include "job/run/samples.h"

#include "job/prepare/inputs.h"
#include "text/data/data_prompt.h"

#include <string.h>

/* FILE_PROMPTS are read aloud at every evaluation, so there cannot be thousands. A held-out document whose prompt is
 * longer than HELD_TOKENS is passed over; of plain text TEXT_TOKENS begin the sample. */
enum { FILE_PROMPTS = 64, HELD_PROMPTS = 2, HELD_TOKENS = 512, TEXT_TOKENS = 16 };

/* What the shortest of the models can read. */
static uint32_t longest(const rt_inputs *in)
{
    uint32_t most = in->student->config.context;
    for (uint32_t i = 0; i < in->teachers.count; i++) {
        uint32_t context = rt_inputs_teacher(in, i)->config.context;
        if (context < most) most = context;
    }
    return most;
}

static int check_ids(const rt_samples *s, const rt_tok_ids *ids, rt_err *e)
{
    uint32_t most = longest(s->in), rows = rt_inputs_id_rows(s->in);
    if (ids->count == 0) return rt_fail(e, RT_INVALID, "the prompt has no tokens");
    if (ids->count >= most)
        return rt_fail(e, RT_INVALID, "the prompt has %u tokens, and a model reads %u at most", ids->count, most);
    for (uint32_t i = 0; i < ids->count; i++)
        if (ids->ids[i] >= rows)
            return rt_fail(e, RT_INVALID, "id %u is in the prompt, and an embedding has %u rows", ids->ids[i], rows);
    return RT_OK;
}

static int add_prompt(rt_samples *s, const rt_str *text, const rt_tok_ids *ids, rt_err *e)
{
    char *copy = rt_arena_alloc(&s->arena, text->len + 1);
    uint32_t *own = rt_arena_alloc(&s->arena, ids->count * sizeof *own);
    if (!copy || !own || !rt_grow((void **)&s->prompts, &s->cap, s->count + 1, sizeof *s->prompts))
        return rt_no_memory(e, "the prompts of samples");
    memcpy(copy, text->data ? text->data : "", text->len);
    memcpy(own, ids->ids, ids->count * sizeof *own);
    s->prompts[s->count++] = (rt_sample_prompt){ .text = { copy, text->len }, .ids = own, .count = ids->count };
    return RT_OK;
}

/* ---- of a file ---- */

static int take_line(rt_samples *s, const rt_data_text *t, const rt_prompt_line *line, rt_err *e)
{
    int rc;
    rt_str shown = { 0 };
    rt_tok_ids ids = { 0 };
    if (s->count == FILE_PROMPTS)
        RT_TRY(rt_fail(e, RT_INVALID, "more than %d prompts would take too long at every evaluation; keep the best",
                       FILE_PROMPTS));
    RT_TRY(line->json ? rt_prompt_from_json(t, line->text, line->len, &shown, &ids, e)
                      : rt_prompt_from_line(t, line->text, line->len, &shown, &ids, e));
    RT_TRY(check_ids(s, &ids, e));
    RT_TRY(add_prompt(s, &shown, &ids, e));
out:
    rt_str_free(&shown);
    rt_free(ids.ids);
    return rc;
}

static int read_file(rt_samples *s, const char *path, int64_t now, rt_err *e)
{
    int rc;
    rt_prompt_file *f = NULL;
    rt_prompt_line line;
    const rt_data_text how = rt_inputs_text(s->in, now);
    RT_TRY(rt_prompt_file_open(&f, path, false, e));
    while ((rc = rt_prompt_file_next(f, &line, e)) == 1) {
        rc = take_line(s, &how, &line, e);
        if (rc < 0) rt_err_context(e, "%s, line %llu", path, (unsigned long long)line.number);
        RT_TRY(rc);
    }
    RT_TRY(rc);
    if (!s->count) RT_TRY(rt_fail(e, RT_INVALID, "%s holds no prompt", path));
out:
    rt_prompt_file_close(f);
    if (rc < 0) rt_err_context(e, "--sample-prompts");
    return rc;
}

/* ---- of held-out documents ---- */

/* Tokens of the document that stand before what is trained of it; of plain text, which is trained from its first
 * token on, its first words. 0: it would make no prompt. */
static uint32_t prompt_length(const rt_eval_document *d)
{
    uint32_t n = 0;
    if (!d->begins) return 0;
    while (n < d->len && d->target[n] < 0) n++; /* position n predicts the first token that is trained */
    if (n == d->len || n + 1 > HELD_TOKENS) return 0;
    if (n) return n + 1;
    return d->len / 2 < TEXT_TOKENS ? d->len / 2 : TEXT_TOKENS;
}

static int take_document(rt_samples *s, const rt_eval_document *d, rt_err *e)
{
    int rc;
    rt_str shown = { 0 };
    rt_tok_ids ids = { .count = prompt_length(d) };
    if (!ids.count) return 0;
    if (!(ids.ids = rt_alloc(ids.count * sizeof *ids.ids, 16))) RT_TRY(rt_no_memory(e, "the prompts of samples"));
    for (uint32_t i = 0; i < ids.count; i++) ids.ids[i] = (uint32_t)d->ids[i];
    rc = rt_tokenizer_decode(s->in->text->tokenizer, ids.ids, ids.count, 0, &shown, e);
    if (rc >= 0) rc = check_ids(s, &ids, e);
    /* Tokens that the tokenizer has no text for, or more than a model reads: another document will do. */
    if (rc == RT_INVALID)
        rc = 0;
    else if (rc >= 0 && (rc = add_prompt(s, &shown, &ids, e)) >= 0)
        rc = 1;
out:
    rt_str_free(&shown);
    rt_free(ids.ids);
    return rc;
}

int rt_samples_from_held(rt_samples *s, const rt_eval_set *held, rt_err *e)
{
    int rc = RT_OK;
    rt_eval_document d;
    if (!s || !s->from_held) return RT_OK;
    uint32_t all = rt_eval_set_documents(held);
    /* One of each half, so that they are not neighbours. */
    for (uint32_t k = 0; k < HELD_PROMPTS; k++) {
        uint32_t begin = (uint32_t)((uint64_t)all * k / HELD_PROMPTS),
                 end = (uint32_t)((uint64_t)all * (k + 1) / HELD_PROMPTS);
        for (rc = 0; rc == 0 && begin < end; begin++) {
            rt_eval_set_document(held, begin, &d);
            RT_TRY(take_document(s, &d, e));
        }
    }
    rc = RT_OK;
out:
    return rc;
}

/* ---- opening ---- */

int rt_samples_open(rt_samples **out, const rt_settings *s, const rt_inputs *in, int64_t now, rt_err *e)
{
    int rc = RT_OK;
    const char *from = s->sample_prompts;
    rt_samples *p = NULL;
    bool file = from && strcmp(from, "auto") != 0;
    *out = NULL;
    if (file && strcmp(from, "none") == 0) return RT_OK;
    if (s->sample_tokens < 1 || s->sample_tokens > 65536)
        return rt_fail(e, RT_USAGE, "--sample-tokens is from 1 to 65536; --sample-prompts none leaves samples out");
    if (!in->text && !file) return RT_OK;
    if (!in->text) return rt_fail(e, RT_INVALID, "--sample-prompts is text, and neither model has a tokenizer");
    if (!(p = rt_alloc_zero(sizeof *p, 16))) RT_TRY(rt_no_memory(e, "the prompts of samples"));
    p->in = in;
    p->tokens = (uint32_t)s->sample_tokens;
    p->from_held = !file;
    const rt_data_text how = rt_inputs_text(in, now);
    p->student_stops = rt_stops_of(&in->student->config, how.eos, how.eot);
    if (in->teacher) p->teacher_stops = rt_stops_of(&in->teacher->config, how.eos, how.eot);
    if (file) RT_TRY(read_file(p, from, now, e));
    *out = p;
    p = NULL;
out:
    rt_samples_close(p);
    return rc;
}

void rt_samples_close(rt_samples *s)
{
    if (!s) return;
    rt_append_close(&s->file);
    rt_free(s->prompts);
    rt_arena_free(&s->arena);
    rt_free(s);
}

uint32_t rt_samples_context(const rt_samples *s)
{
    uint64_t need = 0;
    for (uint32_t i = 0; s && i < s->count; i++)
        if (s->prompts[i].count > need) need = s->prompts[i].count;
    if (!need) return 0;
    need += s->tokens;
    return need < longest(s->in) ? (uint32_t)need : longest(s->in);
}
