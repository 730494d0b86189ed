/* source.c - see source.h. */
#include "teacher/source.h"

const char *rt_source_form_name(rt_source_form f)
{
    static const char *const names[] = { "live", "hidden states", "top-k", "draws" };
    return names[f];
}

/* At 0 the mixtures of JSD and of the skewed form are the student alone. */
static bool is_forward_kl(rt_divergence d, double mix)
{
    return d == RT_DIV_FORWARD_KL || ((d == RT_DIV_JSD || d == RT_DIV_SKEW_FKL) && mix == 0);
}

int rt_source_check(rt_source_form f, rt_divergence d, double mix, rt_err *e)
{
    static const char *const words[RT_DIV_COUNT] = {
#define X(name, word, label, title, m) word,
        RT_DIVERGENCE_LIST(X)
#undef X
    };
    if (f != RT_FORM_DRAWS || is_forward_kl(d, mix)) return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "a cache of draws serves only --divergence forward-kl, since it says nothing of the ids that %s "
                   "needs besides; use that, or a cache of hidden states (exact) or of top-k",
                   words[d]);
}
