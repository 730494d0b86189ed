/* jinja_call.c - calling: arguments to parameters, the tables of builtins by name, and the global functions.
 *
 * Owns: the binder. What a filter, test or method does is in its table's file. */
#include "text/jinja/jinja_eval.h"

#include <string.h>
#include <time.h>

/* ---- binding ---- */

typedef struct param {
    const char *name;
    size_t len;
    bool optional, by_name;
} param;

static uint32_t read_params(const char *spec, param out[RT_J_MAX_PARAMS])
{
    uint32_t n = 0;
    while (*spec) {
        size_t len = strcspn(spec, " ");
        if (*spec == '/') {
            for (uint32_t i = 0; i < n; i++) out[i].by_name = false;
        } else if (n < RT_J_MAX_PARAMS) {
            bool optional = spec[len - 1] == '=';
            out[n++] = (param){ spec, len - optional, optional, true };
        }
        spec += len;
        spec += *spec == ' ';
    }
    return n;
}

static int bind(rt_jrun *r, const rt_jbuiltin *fn, const rt_jargs *args, rt_jval *out)
{
    param params[RT_J_MAX_PARAMS];
    uint32_t n = read_params(fn->params, params);
    if (args->n_pos > n) return rt_j_fail(r, "%s takes at most %u argument(s), %u given", fn->name, n, args->n_pos);
    for (uint32_t i = 0; i < RT_J_MAX_PARAMS; i++) out[i] = i < args->n_pos ? args->pos[i] : rt_jv(RT_J_MISSING);
    for (uint32_t k = 0; k < args->n_kw; k++) {
        const rt_jstr *name = args->kw[k].name;
        uint32_t i = 0;
        while (i < n &&
               (!params[i].by_name || params[i].len != name->len || memcmp(params[i].name, name->data, name->len) != 0))
            i++;
        int len = name->len < 60 ? (int)name->len : 60;
        if (i == n) return rt_j_fail(r, "%s has no keyword argument '%.*s'", fn->name, len, name->data);
        if (out[i].type != RT_J_MISSING)
            return rt_j_fail(r, "%s got multiple values for argument '%.*s'", fn->name, len, name->data);
        out[i] = args->kw[k].value;
    }
    for (uint32_t i = 0; i < n; i++)
        if (out[i].type == RT_J_MISSING && !params[i].optional)
            return rt_j_fail(r, "%s lacks its argument '%.*s'", fn->name, (int)params[i].len, params[i].name);
    return RT_OK;
}

int rt_j_call_builtin(rt_jrun *r, const rt_jbuiltin *fn, rt_jval self, const rt_jargs *args, rt_jval *out)
{
    rt_jcall c = { .fn = fn, .self = self, .args = args };
    int rc = fn->params ? bind(r, fn, args, c.a) : RT_OK;
    if (rc == RT_OK) rc = rt_j_enter(r);
    if (rc < 0) return rc;
    rc = fn->run(r, &c, out);
    rt_j_leave(r);
    return rc;
}

const rt_jval *rt_jargs_kw(const rt_jargs *args, const char *name)
{
    for (uint32_t i = 0; i < args->n_kw; i++)
        if (rt_jstr_is(args->kw[i].name, name)) return &args->kw[i].value;
    return NULL;
}

static int call_joiner(rt_jrun *r, rt_jjoiner *joiner, const rt_jargs *args, rt_jval *out)
{
    if (args->n_pos + args->n_kw > 0) return rt_j_fail(r, "a joiner takes no arguments");
    if (!joiner->used) {
        joiner->used = true;
        return rt_jstr_literal(r, "", out);
    }
    *out = joiner->sep;
    return RT_OK;
}

int rt_j_call(rt_jrun *r, rt_jval callee, const rt_jargs *args, rt_jval *out)
{
    switch (callee.type) {
    case RT_J_UNDEFINED: return rt_jundef_fail(r, callee);
    case RT_J_FUNCTION: return rt_j_call_builtin(r, callee.fn, rt_jv(RT_J_MISSING), args, out);
    case RT_J_METHOD: return rt_j_call_builtin(r, callee.method->fn, callee.method->self, args, out);
    case RT_J_MACRO: return rt_j_call_macro(r, callee.macro, args, out);
    case RT_J_JOINER: return call_joiner(r, callee.joiner, args, out);
    case RT_J_LOOP: return rt_j_unsupported(r, "recursive loops are not supported");
    default: return rt_j_fail(r, "'%s' object is not callable", rt_jtype_name(callee.type));
    }
}

int rt_jarg_index(rt_jrun *r, const rt_jcall *c, int i, int64_t def, int64_t *out)
{
    *out = def;
    if (!rt_jarg_given(c, i) || rt_jv_index(c->a[i], out)) return RT_OK;
    if (c->a[i].type == RT_J_UNDEFINED) return rt_jundef_fail(r, c->a[i]);
    return rt_j_fail(r, "%s: '%s' object cannot be interpreted as an integer", c->fn->name,
                     rt_jtype_name(c->a[i].type));
}

bool rt_jarg_truth(const rt_jcall *c, int i, bool def) { return rt_jarg_given(c, i) ? rt_j_truth(c->a[i]) : def; }

int rt_jarg_str(rt_jrun *r, const rt_jcall *c, int i, rt_jstr **out)
{
    *out = NULL;
    if (!rt_jarg_given(c, i) || c->a[i].type == RT_J_NONE) return RT_OK;
    if (c->a[i].type != RT_J_STR)
        return rt_j_fail(r, "%s: argument %d must be str, not %s", c->fn->name, i + 1, rt_jtype_name(c->a[i].type));
    *out = c->a[i].s;
    return RT_OK;
}

/* ---- tables ---- */

const rt_jbuiltin *rt_j_table_find(const rt_jbuiltin *table, const char *name, size_t len)
{
    for (; table->name; table++)
        if (strlen(table->name) == len && memcmp(table->name, name, len) == 0) return table;
    return NULL;
}

const rt_jbuiltin *rt_j_filter_find(const char *name, size_t len, bool *known)
{
    static const char *const not_here[] = { "filesizeformat", "pprint",   "random",  "striptags", "urlencode",
                                            "urlize",         "wordwrap", "xmlattr", NULL };
    const rt_jbuiltin *const tables[] = { rt_j_text_filters, rt_j_sequence_filters, rt_j_select_filters,
                                          rt_j_other_filters };
    *known = true;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const rt_jbuiltin *fn = rt_j_table_find(tables[i], name, len);
        if (fn) return fn;
    }
    for (const char *const *n = not_here; *n; n++)
        if (strlen(*n) == len && memcmp(*n, name, len) == 0) return NULL;
    *known = false;
    return NULL;
}

int rt_j_no_builtin(rt_jrun *r, const char *what, const char *name, size_t len, bool known)
{
    int shown = len < 60 ? (int)len : 60;
    if (known) return rt_j_unsupported(r, "the %s '%.*s' is not supported", what, shown, name);
    return rt_j_fail(r, "no %s named '%.*s'", what, shown, name);
}

/* ---- global functions ---- */

static int fn_range(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    enum { MAX = 100000 }; /* the sandbox's own limit */
    int64_t a[3] = { 0, 0, 1 };
    int n = 0;
    for (; n < 3 && rt_jarg_given(c, n); n++) {
        int rc = rt_jarg_index(r, c, n, 0, &a[n]);
        if (rc < 0) return rc;
    }
    if (n == 1) {
        a[1] = a[0];
        a[0] = 0;
    }
    if (a[2] == 0) return rt_j_fail(r, "range() arg 3 must not be zero");
    /* The number of items, in 128 bits so that no argument overflows. */
    __int128 span = a[2] > 0 ? (__int128)a[1] - a[0] : (__int128)a[0] - a[1], step = a[2] > 0 ? a[2] : -(__int128)a[2];
    __int128 count = span > 0 ? (span + step - 1) / step : 0;
    if (count > MAX) return rt_j_fail(r, "range too big: the sandbox blocks ranges larger than %d", MAX);
    rt_jrange *range = rt_j_alloc(r, sizeof *range);
    if (!range) return rt_j_status(r);
    *range = (rt_jrange){ a[0], a[1], a[2], (int64_t)count };
    *out = (rt_jval){ .type = RT_J_RANGE, .range = range };
    return RT_OK;
}

/* dict(mapping or pairs, key=value...) */
static int make_dict(rt_jrun *r, const rt_jcall *c, rt_jdict **out)
{
    const rt_jargs *args = c->args;
    int rc = rt_jdict_new(r, args->n_kw, out);
    if (rc == RT_OK && args->n_pos > 1) rc = rt_j_fail(r, "%s expected at most 1 argument", c->fn->name);
    if (rc == RT_OK && args->n_pos == 1) {
        rt_jval from = args->pos[0], item;
        rt_jiter *it;
        rt_jlist *pair;
        if (from.type == RT_J_UNDEFINED) return rt_jundef_fail(r, from);
        if (from.type == RT_J_DICT) {
            rt_jview *items = rt_j_alloc(r, sizeof *items);
            if (!items) return rt_j_status(r);
            *items = (rt_jview){ from.d, RT_J_ITEMS };
            from = (rt_jval){ .type = RT_J_VIEW, .view = items };
        }
        if ((rc = rt_j_iter(r, from, &it)) < 0) return rc;
        while ((rc = rt_j_next(r, it, &item)) > 0) {
            if ((rc = rt_j_to_list(r, item, &pair)) < 0) return rc;
            if (pair->n != 2) return rt_j_fail(r, "an item of %s has length %u; 2 is required", c->fn->name, pair->n);
            if ((rc = rt_jdict_set(r, *out, pair->items[0], pair->items[1])) < 0) return rc;
        }
    }
    for (uint32_t i = 0; i < args->n_kw && rc == RT_OK; i++) {
        rt_jval key;
        rc = rt_jstr_part(r, args->kw[i].name, 0, args->kw[i].name->len, &key);
        if (rc == RT_OK) rc = rt_jdict_set(r, *out, key, args->kw[i].value);
    }
    return rc;
}

static int fn_dict(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    out->type = RT_J_DICT;
    return make_dict(r, c, &out->d);
}

static int fn_namespace(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    out->type = RT_J_NAMESPACE;
    int rc = make_dict(r, c, &out->d);
    for (uint32_t i = 0; rc == RT_OK && i < out->d->n; i++) {
        rt_jval key = out->d->items[i].key;
        if (key.type == RT_J_STR && key.s->len > 0 && key.s->data[0] == '_')
            rc = rt_j_fail(r, "a namespace cannot hold an attribute whose name begins with an underscore");
    }
    return rc;
}

static int fn_cycler(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jcycler *cycler = rt_j_alloc(r, sizeof *cycler);
    if (!cycler) return rt_j_status(r);
    if (c->args->n_kw > 0 || c->args->n_pos == 0) return rt_j_fail(r, "cycler: at least one item has to be provided");
    int rc = rt_jlist_new(r, c->args->n_pos, &cycler->items);
    for (uint32_t i = 0; i < c->args->n_pos && rc == RT_OK; i++) rc = rt_jlist_push(r, cycler->items, c->args->pos[i]);
    *out = (rt_jval){ .type = RT_J_CYCLER, .cycler = cycler };
    return rc;
}

static int fn_joiner(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jjoiner *joiner = rt_j_alloc(r, sizeof *joiner);
    if (!joiner) return rt_j_status(r);
    joiner->sep = c->a[0];
    *out = (rt_jval){ .type = RT_J_JOINER, .joiner = joiner };
    return rt_jarg_given(c, 0) ? RT_OK : rt_jstr_literal(r, ", ", &joiner->sep);
}

static int fn_raise(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jval text;
    (void)out;
    int rc = rt_j_str(r, c->a[0], &text);
    if (rc < 0) return rc;
    return rt_j_fail(r, "%.*s", (int)(text.s->len < 350 ? text.s->len : 350), text.s->data);
}

/* The C library's strftime in the C locale, which is what Python calls; %f, %z and %Z are Python's own. */
static int fn_strftime(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    enum { MAX_FORMAT = 256, MAX_TEXT = 4096 };
    char format[3 * MAX_FORMAT + 2], text[MAX_TEXT];
    rt_jstr *f;
    struct tm tm = { 0 };
    time_t now = (time_t)r->now;
    int rc = rt_jarg_str(r, c, 0, &f);
    if (rc < 0) return rc;
    if (!f) return rt_j_fail(r, "strftime_now: the format must be str");
    if (f->len > MAX_FORMAT || memchr(f->data, '\0', f->len)) return rt_j_fail(r, "strftime_now: unusual format");
    if (!gmtime_r(&now, &tm)) return rt_j_fail(r, "strftime_now: the time is out of range");
    size_t n = 0;
    for (uint32_t i = 0; i < f->len; i++) {
        char directive = f->data[i] == '%' && i + 1 < f->len ? f->data[i + 1] : 0;
        if (directive == 'f')
            n += (size_t)sprintf(format + n, "000000");
        else if (directive == '%')
            n += (size_t)sprintf(format + n, "%%%%");
        else if (directive != 'z' && directive != 'Z') {
            format[n++] = f->data[i];
            continue;
        }
        i++;
    }
    format[n++] = '|'; /* so that an empty result is told from one that does not fit */
    format[n] = '\0';
    size_t len = strftime(text, sizeof text, format, &tm);
    if (len == 0) return rt_j_fail(r, "strftime_now: the result is too long");
    size_t mark = rt_j_mark(r);
    rc = rt_j_put(r, text, len - 1);
    return rc == RT_OK ? rt_j_cut(r, mark, out) : rc;
}

static const rt_jbuiltin globals[] = {
    { "range", "start stop= step= /", fn_range, 0 },
    { "dict", NULL, fn_dict, 0 },
    { "namespace", NULL, fn_namespace, 0 },
    { "cycler", NULL, fn_cycler, 0 },
    { "joiner", "sep=", fn_joiner, 0 },
    { "raise_exception", "message", fn_raise, 0 },
    { "strftime_now", "format", fn_strftime, 0 },
    { 0 },
};

const rt_jbuiltin *rt_j_global_find(const char *name, size_t len) { return rt_j_table_find(globals, name, len); }
