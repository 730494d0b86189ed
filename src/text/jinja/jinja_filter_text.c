/* jinja_filter_text.c - filters that make text: case, trimming, replacing, indenting, escaping.
 *
 * Owns: their rules about what is turned into a string first. The work on strings is shared with the methods. */
#include "text/jinja/jinja_call.h"
#include "text/jinja/jinja_unicode.h"

#include <string.h>

/* ---- case ---- */

static int f_case(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jval text;
    int rc = rt_j_str(r, c->self, &text);
    return rc == RT_OK ? rt_jstr_case(r, text.s, (rt_jcase)c->fn->how, out) : rc;
}

static bool separates(uint32_t c) { return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || rt_ju_space(c); }

/* Words are what stands between blanks, hyphens and opening brackets: not the words of str.title(). */
static int f_title(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jval text, part, mapped;
    int rc = rt_j_str(r, c->self, &text);
    size_t mark = rt_j_mark(r);
    for (size_t at = 0; rc == RT_OK && at < text.s->len;) {
        size_t from = at, next = at;
        bool gap = separates(rt_j_decode(text.s->data, text.s->len, &next));
        size_t second = next;
        for (at = next; at < text.s->len; at = next)
            if (separates(rt_j_decode(text.s->data, text.s->len, &next)) != gap) break;
        rc = rt_jstr_part(r, text.s, from, second, &part);
        if (rc == RT_OK) rc = rt_jstr_case(r, part.s, RT_J_UPPER, &mapped);
        if (rc == RT_OK) rc = rt_j_put_str(r, mapped);
        if (rc == RT_OK) rc = rt_jstr_part(r, text.s, second, at, &part);
        if (rc == RT_OK) rc = rt_jstr_case(r, part.s, RT_J_LOWER, &mapped);
        if (rc == RT_OK) rc = rt_j_put_str(r, mapped);
        if (rc == RT_OK) rc = rt_j_tick(r, 1);
    }
    return rc == RT_OK ? rt_j_cut(r, mark, out) : rc;
}

/* ---- parts ---- */

static int f_trim(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jval text;
    rt_jstr *chars;
    int rc = rt_j_str(r, c->self, &text);
    if (rc == RT_OK) rc = rt_jarg_str(r, c, 0, &chars);
    return rc == RT_OK ? rt_jstr_strip(r, text.s, chars, true, true, out) : rc;
}

static int f_replace(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jval text, old, with;
    int64_t count = -1;
    int rc = rt_j_str(r, c->self, &text);
    if (rc == RT_OK) rc = rt_j_str(r, c->a[0], &old);
    if (rc == RT_OK) rc = rt_j_str(r, c->a[1], &with);
    if (rc == RT_OK && c->a[2].type != RT_J_NONE) rc = rt_jarg_index(r, c, 2, -1, &count);
    return rc == RT_OK ? rt_jstr_replace(r, text.s, old.s, with.s, count, out) : rc;
}

static int need_str(rt_jrun *r, const rt_jcall *c)
{
    if (c->self.type == RT_J_STR) return RT_OK;
    if (c->self.type == RT_J_UNDEFINED) return rt_jundef_fail(r, c->self);
    return rt_j_fail(r, "%s needs a string, not %s", c->fn->name, rt_jtype_name(c->self.type));
}

/* What each line after the first begins with. */
static int indention(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    int64_t width;
    rt_jstr blank = { .data = " ", .len = 1, .chars = 1 };
    if (c->a[0].type == RT_J_STR) {
        *out = c->a[0];
        return RT_OK;
    }
    int rc = rt_jarg_index(r, c, 0, 4, &width);
    return rc == RT_OK ? rt_jstr_repeat(r, &blank, width, out) : rc;
}

static int f_indent(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jval indent, newline, whole;
    rt_jlist *lines;
    bool first = rt_jarg_truth(c, 1, false), blank = rt_jarg_truth(c, 2, false);
    int rc = need_str(r, c);
    if (rc == RT_OK) rc = indention(r, c, &indent);
    if (rc == RT_OK) rc = rt_jstr_literal(r, "\n", &newline);
    if (rc < 0) return rc;
    newline.s->markup = c->self.s->markup;
    rc = rt_jstr_concat(r, c->self.s, newline.s, &whole); /* so that an empty last line is a line */
    if (rc == RT_OK) rc = rt_jstr_splitlines(r, whole.s, false, &lines);
    size_t mark = rt_j_mark(r);
    for (uint32_t i = 0; rc == RT_OK && i < lines->n; i++) {
        const rt_jstr *line = lines->items[i].s;
        if (i > 0) rc = rt_j_put(r, "\n", 1);
        bool indented = i == 0 ? first : blank || line->len > 0;
        if (rc == RT_OK && indented) rc = rt_j_put(r, indent.s->data, indent.s->len);
        if (rc == RT_OK) rc = rt_j_put(r, line->data, line->len);
    }
    if (rc == RT_OK) rc = rt_j_cut(r, mark, out);
    if (rc == RT_OK) out->s->markup = c->self.s->markup;
    return rc;
}

static int f_center(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jval text;
    int64_t width;
    int rc = rt_j_str(r, c->self, &text);
    if (rc == RT_OK) rc = rt_jarg_index(r, c, 0, 80, &width);
    return rc == RT_OK ? rt_jstr_pad(r, text.s, width, NULL, '^', out) : rc;
}

static int f_truncate(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    enum { LENGTH, KILLWORDS, END, LEEWAY };
    int64_t length, leeway = 5, chars;
    rt_jstr dots = { .data = "...", .len = 3, .chars = 3 }, blank = { .data = " ", .len = 1, .chars = 1 }, *end;
    rt_jval head;
    int rc = rt_jarg_index(r, c, LENGTH, 255, &length);
    if (rc == RT_OK) rc = rt_jarg_str(r, c, END, &end);
    if (rc == RT_OK && c->a[LEEWAY].type != RT_J_NONE) rc = rt_jarg_index(r, c, LEEWAY, 5, &leeway);
    if (rc < 0) return rc;
    if (!end) end = &dots;
    int64_t room = rt_jstr_chars(r, end);
    if (length < room || leeway < 0)
        return rt_j_fail(r, "truncate: expected length >= %lld and leeway >= 0", (long long)room);
    /* Whatever is short enough is given back as it is, string or not. */
    *out = c->self;
    if (rt_j_length(r, c->self, &chars) && (chars <= length || chars - length <= leeway)) return RT_OK;
    if ((rc = need_str(r, c)) < 0) return rc;
    size_t cut = rt_jstr_offset(r, c->self.s, (uint32_t)(length - room)), last = SIZE_MAX;
    if (!rt_jarg_truth(c, KILLWORDS, false)) rc = rt_jstr_find(r, c->self.s, &blank, 0, cut, true, &last);
    if (rc == RT_OK) rc = rt_jstr_part(r, c->self.s, 0, last != SIZE_MAX ? last : cut, &head);
    return rc == RT_OK ? rt_jstr_concat(r, head.s, end, out) : rc;
}

static int f_wordcount(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jval text;
    int64_t n = 0;
    bool in_word = false;
    int rc = rt_j_str(r, c->self, &text);
    for (size_t at = 0; rc == RT_OK && at < text.s->len;) {
        uint32_t ch = rt_j_decode(text.s->data, text.s->len, &at);
        bool letter = ch == '_' || rt_ju_alnum(ch);
        n += letter && !in_word;
        in_word = letter;
    }
    *out = rt_jv_int(n);
    return rc == RT_OK ? rt_j_tick(r, text.s->len / 4) : rc;
}

static int f_format(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jval text, args;
    rt_jlist *l;
    rt_jdict *d;
    if (c->args->n_pos > 0 && c->args->n_kw > 0)
        return rt_j_fail(r, "format: can't handle positional and keyword arguments at the same time");
    int rc = rt_j_str(r, c->self, &text);
    if (rc == RT_OK && c->args->n_kw > 0) {
        rc = rt_jdict_new(r, c->args->n_kw, &d);
        for (uint32_t i = 0; rc == RT_OK && i < c->args->n_kw; i++) {
            rt_jval key;
            rc = rt_jstr_part(r, c->args->kw[i].name, 0, c->args->kw[i].name->len, &key);
            if (rc == RT_OK) rc = rt_jdict_set(r, d, key, c->args->kw[i].value);
        }
        args = (rt_jval){ .type = RT_J_DICT, .d = d };
    } else if (rc == RT_OK) {
        rc = rt_jlist_new(r, c->args->n_pos, &l);
        for (uint32_t i = 0; rc == RT_OK && i < c->args->n_pos; i++) rc = rt_jlist_push(r, l, c->args->pos[i]);
        args = rt_jv_list(RT_J_TUPLE, l);
    }
    return rc == RT_OK ? rt_j_percent(r, text.s, args, out) : rc;
}

/* ---- markup ---- */

static int f_string(rt_jrun *r, const rt_jcall *c, rt_jval *out) { return rt_j_str(r, c->self, out); }

static int f_safe(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jval text;
    int rc = rt_j_str(r, c->self, &text);
    if (rc == RT_OK) rc = rt_jstr_part(r, text.s, 0, text.s->len, out);
    if (rc == RT_OK) out->s->markup = true;
    return rc;
}

static int f_forceescape(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jval text;
    int rc = rt_j_str(r, c->self, &text);
    return rc == RT_OK ? rt_jstr_escape(r, text.s, out) : rc;
}

static int f_escape(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    if (c->self.type != RT_J_STR || !c->self.s->markup) return f_forceescape(r, c, out);
    *out = c->self;
    return RT_OK;
}

const rt_jbuiltin rt_j_text_filters[] = {
    { "upper", "", f_case, RT_J_UPPER },
    { "lower", "", f_case, RT_J_LOWER },
    { "capitalize", "", f_case, RT_J_CAPITALIZE },
    { "title", "", f_title, 0 },
    { "trim", "chars=", f_trim, 0 },
    { "replace", "old new count=", f_replace, 0 },
    { "indent", "width= first= blank=", f_indent, 0 },
    { "center", "width=", f_center, 0 },
    { "truncate", "length= killwords= end= leeway=", f_truncate, 0 },
    { "wordcount", "", f_wordcount, 0 },
    { "format", NULL, f_format, 0 },
    { "string", "", f_string, 0 },
    { "safe", "", f_safe, 0 },
    { "escape", "", f_escape, 0 },
    { "e", "", f_escape, 0 },
    { "forceescape", "", f_forceescape, 0 },
    { 0 },
};
