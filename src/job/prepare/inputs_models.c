/* inputs_models.c - one model of a run, student or teacher: opened, and compared with the student. See inputs.h. */
#include "infer/load.h"
#include "job/prepare/inputs_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rt_note(rt_notes *n, const char *format, ...)
{
    va_list args;
    if (n->count == RT_NOTES) return;
    va_start(args, format);
    vsnprintf(n->text[n->count], sizeof n->text[0], format, args);
    rt_text_tame(n->text[n->count++]);
    va_end(args);
}

int rt_inputs_open_model(rt_inputs *in, const char *spec, const char *who, const char *part, const rt_hub_env *env,
                         rt_model_file **file, rt_text_source **text, rt_err *e)
{
    int rc;
    RT_TRY(rt_model_file_open(file, spec, env, e));
    rt_model_file *m = *file;
    if (!part || strcmp(part, spec) != 0) RT_TRY(rt_model_file_check(m, e));
    for (uint32_t i = 0; i < m->note_count; i++) rt_note(&in->notes, "%s: %s", who, m->notes[i]);
    if (m->text.tokenizer_json.data || m->text.has_vocab)
        RT_TRY(rt_text_from_model(text, &m->text, &m->config, m->path, e));
out:
    if (rc < 0) rt_err_context(e, "%s", who);
    return rc;
}

int rt_inputs_refuse_same(const rt_inputs *in, const rt_model_file *b, const rt_settings *s, rt_pool *pool, rt_err *e)
{
    int rc = RT_OK;
    const rt_model_file *a = in->student;
    rt_hash128 x, y;
    if (a->tensor_count != b->tensor_count || s->allow_degenerate) return RT_OK;
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        const rt_tensor *t = &a->tensors[i], *u = &b->tensors[i];
        if (strcmp(t->name, u->name) != 0 || t->rank != u->rank ||
            memcmp(t->shape, u->shape, t->rank * sizeof *t->shape))
            return RT_OK;
    }
    RT_TRY(rt_model_content_hash(a, pool, &x, NULL, e));
    RT_TRY(rt_model_content_hash(b, pool, &y, NULL, e));
    if (x.hi == y.hi && x.lo == y.lo)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "teacher and student hold the same values, so there is nothing to learn; name "
                       "another pair, or give --allow-degenerate"));
out:
    return rc;
}

int rt_inputs_dtypes(rt_dtype **out, const rt_model_file *m, rt_arena *a, rt_err *e)
{
    *out = rt_arena_alloc(a, rt_param_count(&m->config) * sizeof **out);
    return *out ? rt_load_dtypes(*out, m, e) : rt_no_memory(e, "a model");
}
