/* tokenize_show.c - a record as a person should see it before a run: its text, with what is trained marked.
 *
 * The text comes from a stranger, so nothing in it reaches a terminal that the terminal would act on. */
#include "cli/tokenize.h"
#include "cli/visible.h"

#include "base/mem.h"

#include <string.h>

enum { MOST_TOKENS = 4096 };

int rt_tokenize_sample(rt_str *out, const rt_tokenizer *t, const rt_shard_record *r, bool colour, rt_err *e)
{
    rt_tok_stream *stream = NULL;
    rt_str text = { 0 };
    bool inside = false;
    uint32_t n = r->count < MOST_TOKENS ? r->count : MOST_TOKENS;
    int rc;
    RT_TRY(rt_tok_stream_new(&stream, t, 0, e));
    for (uint32_t i = 0; i < n; i++) {
        bool trained = i > 0 && (!r->target || rt_bit(r->target, i));
        /* Characters that wait for another token are given out on the side of the token that completes them. */
        if (trained != inside) rt_str_append(out, trained ? colour ? "\x1b[1;32m" : "⟦" : colour ? "\x1b[0m" : "⟧");
        inside = trained;
        size_t from = text.len;
        RT_TRY(rt_tok_stream_push(stream, rt_shard_id(r, i), &text, e));
        rt_visible_append(out, text.data + from, text.len - from);
    }
    size_t from = text.len;
    RT_TRY(rt_tok_stream_end(stream, &text, e));
    rt_visible_append(out, text.data + from, text.len - from);
    if (inside) rt_str_append(out, colour ? "\x1b[0m" : "⟧");
    if (n < r->count) rt_str_printf(out, "\n... and %u more tokens", r->count - n);
    if (out->failed) rc = rt_fail(e, RT_NOMEM, "out of memory to show a record");
out:
    rt_tok_stream_free(stream);
    rt_str_free(&text);
    return rc;
}
