/* jinja.c - a template's life: compiled, rendered with variables, freed.
 *
 * Owns: the limits and the memory of both. The work is done by the lexer, the parser and the evaluator. */
#include "text/jinja/jinja.h"

#include "text/jinja/jinja_eval.h"

#include <string.h>

enum {
    COMPILE_BYTES = 1 << 20, /* of a template's text; the longest that models ship has some 30 KiB */
    COMPILE_MEMORY = 512 << 20,
    COMPILE_STEPS = 50000000,
    COMPILE_DEPTH = 400,
    STEPS = 10000000,
    OUTPUT_BYTES = 64 << 20,
    MEMORY_BYTES = 256 << 20,
    DEPTH = 600,
};

int rt_jinja_compile(rt_jinja **out, const char *text, size_t bytes, rt_err *e)
{
    rt_err err = { 0 };
    rt_jrun r = { .memory_left = COMPILE_MEMORY, .steps_left = COMPILE_STEPS, .depth_left = COMPILE_DEPTH, .e = &err };
    rt_jtokens tokens = { 0 };
    *out = NULL;
    if (bytes > COMPILE_BYTES) return rt_fail(e, RT_INVALID, "a template of %zu bytes is too long", bytes);
    rt_jinja *t = rt_alloc_zero(sizeof *t, 16);
    if (!t) return rt_fail(e, RT_NOMEM, "out of memory for a template");
    int rc = rt_jinja_lex(&r, text, bytes, &tokens);
    if (rc == RT_OK) rc = rt_jinja_parse(&r, &tokens, t);
    t->small = r.small;
    t->large = r.large;
    if (rc < 0) {
        rt_jinja_free(t);
        return rt_fail(e, rc, "%s", err.text);
    }
    *out = t;
    return RT_OK;
}

void rt_jinja_free(rt_jinja *t)
{
    if (!t) return;
    rt_arena_free(&t->small);
    rt_arena_free(&t->large);
    rt_free(t);
}

bool rt_jinja_has_generation(const rt_jinja *t) { return t->has_generation; }

/* ---- rendering ---- */

/* Values of the names that the template mentions; what it does not mention is not even converted. */
static int set_globals(rt_jrun *r, const rt_jinja *t, const rt_jinja_render_args *args)
{
    r->globals = rt_j_alloc(r, t->n_symbols * sizeof *r->globals);
    if (!r->globals) return rt_j_status(r);
    int rc = RT_OK;
    for (uint32_t i = 0; i < t->n_symbols && rc == RT_OK; i++) {
        const rt_jstr *name = t->symbols[i];
        const rt_jbuiltin *fn = rt_j_global_find(name->data, name->len);
        const rt_jinja_var *var = NULL;
        for (uint32_t v = 0; v < args->n_vars; v++)
            if (rt_jstr_is(name, args->vars[v].name)) var = &args->vars[v];
        if (var && var->value) {
            bool cut = var->cut && json_is_array(var->value);
            rc = cut ? rt_j_from_json_head(r, var->value, var->head, &r->globals[i])
                     : rt_j_from_json(r, var->value, &r->globals[i]);
        } else {
            r->globals[i] = fn ? (rt_jval){ .type = RT_J_FUNCTION, .fn = fn } : rt_jv(RT_J_MISSING);
        }
    }
    return rc;
}

static uint64_t limit(uint64_t asked, uint64_t def) { return asked ? asked : def; }

int rt_jinja_render(const rt_jinja *t, const rt_jinja_render_args *args, rt_jinja_result *result, rt_err *e)
{
    static const rt_jinja_limits defaults;
    const rt_jinja_limits *limits = args->limits ? args->limits : &defaults;
    rt_err err = { 0 };
    rt_jrun r = { .memory_left = limit(limits->memory_bytes, MEMORY_BYTES),
                  .steps_left = limit(limits->steps, STEPS),
                  .output_left = limit(limits->output_bytes, OUTPUT_BYTES),
                  .depth_left = (uint32_t)limit(limits->depth, DEPTH),
                  .line = 1,
                  .e = &err,
                  .out = &result->text,
                  .tmpl = t,
                  .result = result,
                  .now = args->now + args->utc_offset };
    rt_jflow flow = RT_JF_NEXT;
    result->text.len = 0;
    result->text.failed = false;
    result->n_ranges = 0;
    result->ranges_lost = false;
    int rc = set_globals(&r, t, args);
    if (rc == RT_OK) rc = rt_j_exec(&r, t->body, &flow);
    if (rc == RT_OK) rc = rt_j_put(&r, "", 0); /* so that even an empty text is terminated */
    rt_arena_free(&r.small);
    rt_arena_free(&r.large);
    if (rc == RT_OK) return RT_OK;
    result->text.len = 0;
    if (result->text.data) result->text.data[0] = '\0';
    result->n_ranges = 0;
    return rt_fail(e, rc, "%s", err.text);
}

void rt_jinja_result_free(rt_jinja_result *r)
{
    if (!r) return;
    rt_str_free(&r->text);
    rt_free(r->ranges);
    *r = (rt_jinja_result){ 0 };
}
