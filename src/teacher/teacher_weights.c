/* teacher_weights.c - see teacher_weights.h. */
#include "teacher/teacher_weights.h"

#include <string.h>

static const char *const names[] = { "native", "bf16", "fp8", "fp8-native", "auto" };

const char *rt_weights_name(rt_teacher_weights w) { return names[w]; }

bool rt_weights_parse(const char *name, rt_teacher_weights *out)
{
    for (int i = 0; i <= RT_WEIGHTS_AUTO; i++)
        if (strcmp(name, names[i]) == 0) return *out = (rt_teacher_weights)i, true;
    return false;
}

/* ---- dtypes ---- */

static bool is_matrix(const rt_model_config *c, uint32_t param, rt_role *role, uint32_t *layer)
{
    uint64_t shape[2];
    return rt_param_at(c, param, role, layer) && rt_role_shape(c, *role, shape) == 2;
}

static bool among(const uint32_t *layers, uint32_t count, uint32_t layer)
{
    while (count && layers[count - 1] != layer) count--;
    return count > 0;
}

void rt_weights_fp8(rt_dtype *to, const rt_dtype *stored, const rt_model_config *c, const uint32_t *kept,
                    uint32_t count)
{
    rt_role role;
    uint32_t layer;
    for (uint32_t i = 0, n = rt_param_count(c); i < n; i++) {
        to[i] = stored[i];
        if (!is_matrix(c, i, &role, &layer)) continue;
        bool code = rt_role_per_layer(role) && !among(kept, count, layer);
        to[i] = code ? RT_DTYPE_E4M3 : RT_DTYPE_BF16;
    }
}

/* Layers below the first and behind the last in fp8. Of fewer layers, two would be most of what fp8 saves. */
static uint32_t kept_at_an_end(const rt_model_config *c)
{
    enum { LEAST = 8 };
    return c->layers >= LEAST;
}

rt_layer_range rt_weights_coded(const rt_model_config *c, rt_teacher_weights w)
{
    uint32_t kept = kept_at_an_end(c);
    return w == RT_WEIGHTS_FP8_NATIVE ? (rt_layer_range){ kept, c->layers - kept } : (rt_layer_range){ 0, 0 };
}

void rt_weights_dtypes(rt_dtype *to, const rt_dtype *stored, const rt_model_config *c, rt_teacher_weights w)
{
    const uint32_t ends[] = { 0, c->layers - 1 };
    rt_role role;
    uint32_t layer;
    if (w == RT_WEIGHTS_FP8) {
        rt_weights_fp8(to, stored, c, ends, 2 * kept_at_an_end(c));
        return;
    }
    for (uint32_t i = 0, n = rt_param_count(c); i < n; i++)
        to[i] = w == RT_WEIGHTS_BF16 && is_matrix(c, i, &role, &layer) ? RT_DTYPE_BF16 : stored[i];
}

bool rt_weights_differ(const rt_dtype *stored, const rt_model_config *c, const rt_policy *p)
{
    rt_role role;
    uint32_t layer;
    bool plain_too = p->act != RT_DTYPE_BF16; /* decoder_params.c keeps plain matrices in a 16-bit policy's dtype */
    for (uint32_t i = 0, n = rt_param_count(c); i < n; i++)
        if (is_matrix(c, i, &role, &layer) && stored[i] != RT_DTYPE_BF16 && (plain_too || rt_dtype_is_quant(stored[i])))
            return true;
    return false;
}

/* ---- decisions ---- */

bool rt_fp8_may(const rt_fp8 *f)
{
    /* false too where a figure is not a number */
    return f->state == RT_FP8_LATER || (f->state == RT_FP8_MEASURED && f->fp8 < f->student / 10);
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
        out = (rt_weights_choice){ RT_WEIGHTS_BF16, RT_WEIGHTS_GAIN, *c, { 0 } };
    return out;
}

/* ---- words ---- */

static void say_figures(rt_str *out, const rt_fp8 *f)
{
    rt_str_printf(out, "KL(bf16 || fp8) is %.4f on %llu held-out positions, %s a tenth of the student's %.4f", f->fp8,
                  (unsigned long long)f->positions, rt_fp8_may(f) ? "below" : "not below", f->student);
}

/* Why they are not fp8 where they could be. */
static void say_not_fp8(rt_str *out, const rt_fp8 *f)
{
    if (f->state == RT_FP8_NO) return;
    rt_str_append(out, "; not fp8: ");
    if (f->state == RT_FP8_NO_ROOM)
        rt_str_append(out, "it is taken where it is measured, which does not fit beside the teacher");
    else if (rt_fp8_may(f))
        rt_str_append(out, "with it the run would take more time, or not fit");
    else
        say_figures(out, f);
}

void rt_weights_say(rt_str *out, const rt_weights_choice *c)
{
    static const char *const how[] = { [RT_WEIGHTS_NATIVE] = "the teacher's stay as they are stored",
                                       [RT_WEIGHTS_BF16] = "the teacher's are dequantised to bf16 once",
                                       [RT_WEIGHTS_FP8] = "the teacher's are quantised to fp8 once",
                                       [RT_WEIGHTS_FP8_NATIVE] = ("the teacher's stay as they are stored, and are "
                                                                  "quantised to fp8 at every use") };
    const rt_weights_case *f = &c->facts;
    char a[32], b[32], d[32];
    if (c->why == RT_WEIGHTS_UNSAID) return;
    rt_str_append(out, how[c->weights]);
    switch (c->why) {
    case RT_WEIGHTS_ASKED: rt_str_append(out, ", as the settings say"); break;
    case RT_WEIGHTS_AWAY: rt_str_append(out, ": its layers are copied to the device at every pass"); break;
    case RT_WEIGHTS_SAME: rt_str_append(out, ": nothing in them needs dequantising"); break;
    case RT_WEIGHTS_NO_GAIN: rt_str_append(out, ": this device multiplies them so"); break;
    case RT_WEIGHTS_NO_ROOM:
        rt_str_printf(out, ": with bf16 the run would take %s, and the limit is %s", rt_format_bytes(a, f->bf16),
                      rt_format_bytes(b, f->limit));
        break;
    case RT_WEIGHTS_FASTER:
        rt_str_append(out, c->fp8.state == RT_FP8_LATER ? ", if that is near enough when it is measured before step 1"
                                                        : ": ");
        if (c->fp8.state == RT_FP8_MEASURED) say_figures(out, &c->fp8);
        break;
    default:
        rt_str_printf(out, ": the run takes %s instead of %s, and a step moves %s less", rt_format_bytes(a, f->bf16),
                      rt_format_bytes(b, f->native), rt_format_bytes(d, f->native_dequant - f->bf16_dequant));
    }
    if (c->weights < RT_WEIGHTS_FP8) say_not_fp8(out, &c->fp8);
}
