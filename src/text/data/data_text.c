/* data_text.c - what datasets need of a model's text, with the model's template or another one. */
#include "text/data/data_internal.h"
#include "text/data/model_text.h"

#include <string.h>

/* The first token of text, white space left out, if it is special; else -1. */
static int first_special(const rt_tokenizer *t, const char *text, size_t len, int64_t *id, rt_err *e)
{
    rt_tok_scratch *scratch = NULL;
    rt_tok_ids ids = { 0 };
    rt_token_info info;
    int rc;
    *id = -1;
    for (; len > 0 && strchr(" \t\r\n", *text); len--) text++;
    RT_TRY(rt_tok_scratch_new(&scratch, t, e));
    RT_TRY(rt_tokenizer_encode(t, scratch, text, len, 0, &ids, e));
    if (ids.count > 0 && rt_tokenizer_token(t, ids.ids[0], &info) && (info.special || info.added)) *id = ids.ids[0];
out:
    rt_free(ids.ids);
    rt_tok_scratch_free(scratch);
    return rc;
}

/* What a template puts behind the assistant's words; -1: nothing special, or it does not render a plain turn. */
static int end_of_turn(const rt_data_text *t, int64_t *id, rt_err *e)
{
    static const char answer[] = "Qvzx";
    rt_jinja_result result = { 0 };
    rt_err why = { 0 };
    rt_chat_options o = { .special = t->special, .extra = t->extra, .now = t->now, .utc_offset = t->utc_offset };
    json_t *chat =
        json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "user", "content", "Hwyj", "role", "assistant", "content", answer);
    int rc = chat ? rt_chat_render(t->tmpl, chat, &o, &result, &why) : RT_NOMEM;
    *id = -1;
    if (rc == RT_OK) {
        const char *at = NULL, *end = result.text.data + result.text.len;
        for (const char *p = result.text.data; p && (p = memmem(p, (size_t)(end - p), answer, sizeof answer - 1));)
            at = p += sizeof answer - 1;
        if (at) rc = first_special(t->tok, at, (size_t)(end - at), id, e);
    } else if (rc == RT_NOMEM) {
        rt_fail(e, RT_NOMEM, "out of memory for a chat template");
    } else {
        rc = RT_OK;
    }
    rt_jinja_result_free(&result);
    json_decref(chat);
    return rc;
}

int rt_data_text_from(rt_data_text *out, const rt_text_source *s, const rt_chat_template *tmpl, rt_err *e)
{
    *out = (rt_data_text){
        .tok = s->tokenizer, .tmpl = s->chat, .special = s->special, .bos = s->bos, .eos = s->eos, .eot = s->end_of_turn
    };
    if (!tmpl) return RT_OK;
    out->tmpl = tmpl;
    int64_t id;
    int rc = end_of_turn(out, &id, e);
    if (rc == RT_OK && id >= 0) out->eot = id;
    return rc;
}
