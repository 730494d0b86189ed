/* fuzz_config.c - any bytes as config.json: an error that says something, or a configuration that is written, read
 * again and still the same.
 *
 * With -DRT_FUZZ_REPLAY it has a main() of its own (replay.h). */
#include "format/config/config.h"
#include "format/config/names.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

static void require_error(int rc, const rt_err *e)
{
    require(rc == RT_FORMAT || rc == RT_UNSUPPORTED || rc == RT_INVALID || rc == RT_NOMEM);
    require(e->status == rc && strncmp(e->text, "fuzz/config.json", 16) == 0);
}

static void require_same(const rt_model_config *a, const rt_model_config *b)
{
    require(a->family == b->family && a->layers == b->layers && a->width == b->width && a->heads == b->heads);
    require(a->kv_heads == b->kv_heads && a->head_dim == b->head_dim && a->hidden == b->hidden && a->vocab == b->vocab);
    require(a->context == b->context && a->qkv_bias == b->qkv_bias && a->o_bias == b->o_bias);
    require(a->mlp_bias == b->mlp_bias && a->qk_norm == b->qk_norm && a->tied == b->tied);
    require(a->norm_eps == b->norm_eps && a->init_range == b->init_range && a->window == b->window);
    require(memcmp(a->layer_flags, b->layer_flags, a->layers) == 0);
    require(a->bos == b->bos && a->pad == b->pad && a->eos_count == b->eos_count);
    require(memcmp(a->eos, b->eos, a->eos_count * sizeof a->eos[0]) == 0);
    require(a->random_init == b->random_init && a->init_seed == b->init_seed);
    const rt_rope_scaling *p = &a->rope, *q = &b->rope;
    require(p->kind == q->kind && p->theta == q->theta && p->factor == q->factor && p->low_freq == q->low_freq);
    require(p->high_freq == q->high_freq && p->original_context == q->original_context);
    require(p->beta_fast == q->beta_fast && p->beta_slow == q->beta_slow && p->no_truncate == q->no_truncate);
    require(p->attention_factor == q->attention_factor && p->mscale == q->mscale);
    require(p->mscale_all_dim == q->mscale_all_dim);
}

static void use(const rt_model_config *c)
{
    static rt_model_config back;
    rt_err e = { 0 };
    rt_arena a = { 0 };
    rt_str one = { 0 }, two = { 0 };
    uint64_t parameters;
    require(rt_config_parameters(c, &parameters));
    require(rt_config_to_json(c, RT_DTYPE_BF16, &one, &e) == RT_OK);
    require(rt_config_from_json(&back, one.data, one.len, "fuzz/config.json", &a, &e) == RT_OK);
    require_same(c, &back);
    require(rt_config_to_json(&back, RT_DTYPE_BF16, &two, &e) == RT_OK);
    require(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
    rt_arena_free(&a);
    rt_str_free(&one);
    rt_str_free(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rt_model_config c;
    rt_err e = { 0 };
    rt_arena a = { 0 };
    int rc = rt_config_from_json(&c, (const char *)data, size, "fuzz/config.json", &a, &e);
    if (rc < 0)
        require_error(rc, &e);
    else
        use(&c);
    rt_arena_free(&a);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
