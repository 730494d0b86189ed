/* teacher_weights.c - see teacher_weights.h. */
#include "teacher/teacher_weights.h"

#include <string.h>

static const char *const names[] = { "native", "bf16", "auto" };

const char *rt_weights_name(rt_teacher_weights w) { return names[w]; }

bool rt_weights_parse(const char *name, rt_teacher_weights *out)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) return *out = (rt_teacher_weights)i, true;
    return false;
}

static bool is_matrix(const rt_model_config *c, uint32_t param)
{
    rt_role role;
    uint32_t layer;
    uint64_t shape[2];
    return rt_param_at(c, param, &role, &layer) && rt_role_shape(c, role, shape) == 2;
}

void rt_weights_bf16(rt_dtype *to, const rt_dtype *stored, const rt_model_config *c)
{
    for (uint32_t i = 0, n = rt_param_count(c); i < n; i++) to[i] = is_matrix(c, i) ? RT_DTYPE_BF16 : stored[i];
}

bool rt_weights_differ(const rt_dtype *stored, const rt_model_config *c, const rt_policy *p)
{
    bool plain_too = p->act != RT_DTYPE_BF16; /* decoder_params.c keeps plain matrices in a 16-bit policy's dtype */
    for (uint32_t i = 0, n = rt_param_count(c); i < n; i++)
        if (is_matrix(c, i) && stored[i] != RT_DTYPE_BF16 && (plain_too || rt_dtype_is_quant(stored[i]))) return true;
    return false;
}

rt_weights_choice rt_weights_decide(const rt_weights_case *c)
{
    rt_weights_choice out = { .weights = RT_WEIGHTS_NATIVE, .facts = *c };
    if (!c->differ)
        out.why = RT_WEIGHTS_SAME;
    else if (c->bf16_dequant >= c->native_dequant)
        out.why = RT_WEIGHTS_NO_GAIN;
    else if (c->bf16 > c->limit)
        out.why = RT_WEIGHTS_NO_ROOM;
    else
        out = (rt_weights_choice){ RT_WEIGHTS_BF16, RT_WEIGHTS_GAIN, *c };
    return out;
}

void rt_weights_say(rt_str *out, const rt_weights_choice *c)
{
    const rt_weights_case *f = &c->facts;
    char a[32], b[32], d[32];
    if (c->why == RT_WEIGHTS_UNSAID) return;
    rt_str_append(out, c->weights == RT_WEIGHTS_BF16 ? "the teacher's are dequantised to bf16 once"
                                                     : "the teacher's stay as they are stored");
    switch (c->why) {
    case RT_WEIGHTS_ASKED: rt_str_append(out, ", as the settings say"); break;
    case RT_WEIGHTS_SAME: rt_str_append(out, ": nothing in them needs dequantising"); break;
    case RT_WEIGHTS_NO_GAIN: rt_str_append(out, ": this device multiplies them so"); break;
    case RT_WEIGHTS_NO_ROOM:
        rt_str_printf(out, ": with bf16 the run would take %s, and the limit is %s", rt_format_bytes(a, f->bf16),
                      rt_format_bytes(b, f->limit));
        break;
    default:
        rt_str_printf(out, ": the run takes %s instead of %s, and a step moves %s less", rt_format_bytes(a, f->bf16),
                      rt_format_bytes(b, f->native), rt_format_bytes(d, f->native_dequant - f->bf16_dequant));
    }
}
