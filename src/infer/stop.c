/* stop.c - see stop.h. */
#include "infer/stop.h"

#include <string.h>

/* How many of the last bytes of text (len) are the beginning of string. */
static size_t overlap(const char *text, size_t len, const char *string)
{
    size_t most = strlen(string) - 1;
    for (size_t n = most < len ? most : len; n > 0; n--)
        if (memcmp(text + len - n, string, n) == 0) return n;
    return 0;
}

int rt_stop_text_push(rt_stop_text *s, const char *text, size_t len, rt_str *shown, rt_err *e)
{
    size_t keep = 0, end;
    if (s->found || !len) return RT_OK;
    rt_str_append_n(&s->held, text, len);
    if (s->held.failed) return rt_no_memory(e, "an answer");
    end = s->held.len;
    for (uint32_t i = 0; i < s->count; i++) {
        const char *at = memmem(s->held.data, s->held.len, s->strings[i], strlen(s->strings[i]));
        size_t n = overlap(s->held.data, s->held.len, s->strings[i]);
        if (at && (size_t)(at - s->held.data) < end) {
            end = (size_t)(at - s->held.data);
            s->which = i;
        }
        s->found = s->found || at;
        keep = n > keep ? n : keep;
    }
    if (!s->found) end -= keep;
    rt_str_append_n(shown, s->held.data, end);
    memmove(s->held.data, s->held.data + end, s->held.len - end);
    s->held.len = s->found ? 0 : s->held.len - end;
    return shown->failed ? rt_no_memory(e, "an answer") : RT_OK;
}

int rt_stop_text_end(rt_stop_text *s, rt_str *shown, rt_err *e)
{
    if (s->held.len) rt_str_append_n(shown, s->held.data, s->held.len);
    s->held.len = 0;
    return shown->failed ? rt_no_memory(e, "an answer") : RT_OK;
}

void rt_stop_text_free(rt_stop_text *s) { rt_str_free(&s->held); }
