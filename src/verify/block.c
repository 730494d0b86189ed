/* block.c - see block.h. */
#include "verify/block.h"

static const float CE_WEIGHT = 0.3f, KD_WEIGHT = 0.7f;

/* One layer; two with all that a family may have; a window on one of two; a tied head, a layer without rope, biases in
 * the MLP, backward from recomputed layers; adapters with dropout, kept and recomputed; every level of recomputing
 * beside the others, with q/k norms and with adapters. No bias on k without rope: it moves all scores of a row alike,
 * so that its gradient is 0 but for rounding. */
static const rt_block_shape shapes[] = {
    { .config = { RT_BLOCK_DIMS(1, 12, 2, 2, 8, 10, 19) },
      .B = 1,
      .T = 6,
      .chunk = 6,
      .divergence = RT_DIV_FORWARD_KL,
      .temperature = 1.0f },
    { .config = { RT_BLOCK_DIMS(2, 14, 4, 2, 8, 9, 23), .qkv_bias = true, .o_bias = true, .qk_norm = true },
      .B = 2,
      .T = 5,
      .chunk = 4,
      .documents = true,
      .divergence = RT_DIV_JSD,
      .temperature = 2.0f,
      .mix = 0.4f },
    { .config = { RT_BLOCK_DIMS(2, 10, 3, 1, 16, 11, 17), .qkv_bias = true, .window = 3,
                  .layer_flags = { RT_LAYER_WINDOW } },
      .B = 2,
      .T = 6,
      .chunk = 4,
      .divergence = RT_DIV_REVERSE_KL,
      .temperature = 1.5f },
    { .config = { RT_BLOCK_DIMS(2, 11, 4, 2, 8, 10, 21), .mlp_bias = true, .tied = true,
                  .layer_flags = { 0, RT_LAYER_NO_ROPE } },
      .B = 1,
      .T = 7,
      .chunk = 3,
      .recompute = { RT_RECOMPUTE_BLOCK, RT_RECOMPUTE_BLOCK },
      .divergence = RT_DIV_SKEW_FKL,
      .temperature = 1.0f,
      .mix = 0.2f },
    { .config = { RT_BLOCK_DIMS(2, 10, 2, 1, 8, 9, 17), .qkv_bias = true },
      .B = 2,
      .T = 4,
      .chunk = 5,
      .lora = { .rank = 3, .alpha = 4, .roles = RT_LORA_ROLES, .dropout = 0.25 },
      .divergence = RT_DIV_FORWARD_KL,
      .temperature = 1.0f,
      .h = 1e-4 },
    { .config = { RT_BLOCK_DIMS(2, 9, 2, 2, 8, 11, 15) },
      .B = 1,
      .T = 7,
      .chunk = 7,
      .recompute = { RT_RECOMPUTE_BLOCK, RT_RECOMPUTE_BLOCK },
      .lora = { .rank = 2, .alpha = 2, .roles = RT_LORA_ROLES & ~(1u << RT_ROLE_K), .dropout = 0.5 },
      .divergence = RT_DIV_FORWARD_KL,
      .temperature = 1.0f,
      .h = 1e-4 },
    { .config = { RT_BLOCK_DIMS(4, 10, 4, 2, 8, 9, 19), .qk_norm = true, .window = 3,
                  .layer_flags = { 0, RT_LAYER_WINDOW, 0, RT_LAYER_NO_ROPE } },
      .B = 2,
      .T = 5,
      .chunk = 6,
      .documents = true,
      .recompute = { RT_RECOMPUTE_BLOCK, RT_RECOMPUTE_MLP, RT_RECOMPUTE_NORMS, RT_RECOMPUTE_NONE },
      .divergence = RT_DIV_FORWARD_KL,
      .temperature = 1.0f },
    { .config = { RT_BLOCK_DIMS(2, 9, 2, 1, 8, 10, 15), .qk_norm = true },
      .B = 1,
      .T = 6,
      .chunk = 4,
      .recompute = { RT_RECOMPUTE_MLP, RT_RECOMPUTE_NORMS },
      .lora = { .rank = 2, .alpha = 3, .roles = RT_LORA_ROLES, .dropout = 0.25 },
      .divergence = RT_DIV_FORWARD_KL,
      .temperature = 1.0f,
      .h = 1e-4 },
};

const rt_block_shape *rt_block_gradient_shape(uint32_t index)
{
    return index < sizeof shapes / sizeof *shapes ? &shapes[index] : NULL;
}

/* Head and loss of n tokens from `first` on; with dhidden (N,C) their gradients too. */
static void record_chunk(const rt_block *b, rt_plan *p, rt_view hidden, rt_view dhidden, uint32_t first, uint32_t n)
{
    const rt_block_shape *s = &b->shape;
    rt_view h = rt_view_rows(p, hidden, first, n), logits = rt_act(p, p->policy.logits, n, s->config.vocab, "logits");
    rt_kd_io io = { .logits = logits,
                    .sums = b->sums,
                    .ce = rt_view_rows(p, b->each[0], first, n),
                    .div = rt_view_rows(p, b->each[1], first, n),
                    .top1 = rt_view_rows(p, b->each[2], first, n),
                    .fault = b->fault,
                    .step = b->stepval,
                    .target = rt_view_rows(p, b->target, first, n),
                    .teacher = rt_view_rows(p, b->teacher, first, n) };
    rt_kd_opts o = { .divergence = s->divergence,
                     .T = s->temperature,
                     .mix = s->mix,
                     .ce_weight = CE_WEIGHT,
                     .kd_weight = KD_WEIGHT,
                     .t2 = true,
                     .grad = dhidden.buf != 0 };
    rt_plan_label(p, "head from token %u", first);
    rt_decoder_logits(p, b->decoder, logits, h);
    rt_emit_kd_loss(p, &io, &o);
    if (o.grad) rt_decoder_logits_backward(p, b->decoder, logits, h, rt_view_rows(p, dhidden, first, n));
}

/* Without grad: forward and loss alone, of a forward that drops what the step's drops. */
static int record(const rt_block *b, rt_plan *p, bool grad, rt_err *e)
{
    uint32_t N = b->shape.B * b->shape.T, C = b->shape.config.width, chunk = b->shape.chunk;
    rt_view hidden = rt_act(p, p->policy.act, N, C, "hidden");
    rt_view dhidden = grad ? rt_act(p, p->policy.act, N, C, "dhidden") : RT_NONE;
    rt_trace *trace = NULL;
    int rc = rt_trace_new(&trace, b->decoder, b->shape.recompute, b->stepval, e);
    if (rc < 0) return rc;
    rt_decoder_forward(p, b->decoder, &b->tokens, trace, hidden);
    for (uint32_t i = 0; i < N; i += chunk) record_chunk(b, p, hidden, dhidden, i, N - i < chunk ? N - i : chunk);
    if (grad) rt_decoder_backward(p, b->decoder, &b->tokens, trace, dhidden, NULL);
    rt_trace_free(trace);
    return RT_OK;
}

static void random_values(void *out, rt_dtype d, uint64_t n, double spread, uint64_t seed)
{
    for (uint64_t k = 0; k < n; k++) {
        double x = spread * rt_test_normal(seed, k);
        rt_float_from_f64((uint8_t *)out + rt_dtype_bytes(d, k), &x, d, 1);
    }
}

static rt_view tokens(rt_block *b, const char *name)
{
    return rt_space_buf(b->space, RT_CLASS_INPUT, RT_DTYPE_I32, b->shape.B * b->shape.T, 1, name);
}

enum { IDS, POS, TARGET, STEP, FAULT, TEACHER, FREQ, START };

/* Room for the values of every input. */
static int declare_inputs(rt_block *b, const rt_policy *p, void **data, rt_err *e)
{
    int rc;
    const rt_block_shape *s = &b->shape;
    rt_space *sp = b->space;
    b->tokens = (rt_tokens){ .B = s->B, .T = s->T, .ids = tokens(b, "ids"), .pos = tokens(b, "pos") };
    if (s->documents) b->tokens.start = tokens(b, "start");
    b->target = tokens(b, "target");
    b->teacher = rt_space_buf(sp, RT_CLASS_INPUT, p->logits, s->B * s->T, s->config.vocab, "teacher");
    b->stepval = rt_space_buf(sp, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step");
    b->fault = rt_space_buf(sp, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault");
    for (int i = 0; i < 3; i++) b->each[i] = rt_space_buf(sp, RT_CLASS_OUTPUT, p->scalar, s->B * s->T, 1, "each");
    b->sums = rt_space_buf(sp, RT_CLASS_OUTPUT, p->scalar, 1, 4, "sums");
    RT_TRY(rt_space_status(sp, e));
    const rt_view view[RT_BLOCK_INPUTS] = { b->tokens.ids, b->tokens.pos, b->target,        b->stepval,
                                            b->fault,      b->teacher,    b->decoder->freq, b->tokens.start };
    b->inputs = s->documents ? RT_BLOCK_INPUTS : START;
    for (uint32_t i = 0; i < b->inputs; i++) {
        data[i] = rt_arena_alloc(&b->arena, sp->bufs[view[i].buf - 1].bytes);
        if (!data[i]) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the block's data"));
        b->input[i] = (rt_grad_data){ view[i], data[i] };
    }
out:
    return rc;
}

/* Every fifth target is masked. */
static int make_inputs(rt_block *b, const rt_policy *p, rt_err *e)
{
    int rc;
    const rt_block_shape *s = &b->shape;
    uint32_t N = s->B * s->T, V = s->config.vocab, half = s->config.head_dim / 2, trained = 0;
    void *data[RT_BLOCK_INPUTS];
    float *freq = rt_arena_alloc(&b->arena, half * sizeof *freq), scale;
    if (!freq) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the block's data"));
    if (N > V) RT_TRY(rt_fail(e, RT_INVALID, "a block of %u different tokens needs more ids than %u", N, V));
    RT_TRY(declare_inputs(b, p, data, e));
    for (uint32_t i = 0; i < N; i++) {
        uint32_t t = i % s->T, first = s->documents && t >= s->T / 2 ? s->T / 2 : 0;
        int32_t target = i % 5 == 4 ? -1 : (int32_t)((i * 7 + 3) % V);
        ((int32_t *)data[IDS])[i] = (int32_t)(V - 1 - i);
        ((int32_t *)data[POS])[i] = (int32_t)(t - first);
        ((int32_t *)data[TARGET])[i] = target;
        if (s->documents) ((int32_t *)data[START])[i] = (int32_t)first;
        trained += target >= 0;
    }
    *(rt_step *)data[STEP] = (rt_step){ .step = 1, .seed = 1, .lr = 1e-3f, .tokens = trained, .row = 64 };
    random_values(data[TEACHER], p->logits, (uint64_t)N * V, 1.5, 5);
    RT_TRY(rt_rope_freqs(freq, &scale, 2 * half, &b->decoder->config.rope, e));
    for (uint32_t i = 0; i < half; i++)
        rt_float_from_f64((uint8_t *)data[FREQ] + rt_dtype_bytes(p->scalar, i), &(double){ freq[i] }, p->scalar, 1);
    b->weights[0] = (double)CE_WEIGHT / trained;
    b->weights[1] = (double)KD_WEIGHT * s->temperature * s->temperature / trained;
out:
    return rc;
}

int rt_block_new(rt_block **out, const rt_block_shape *s, const rt_policy *policy, rt_err *e)
{
    int rc;
    rt_decoder_opts o = { .name = "block", .policy = policy, .train = true, .lora = s->lora, .both = true };
    rt_block *b = rt_alloc_zero(sizeof *b, 16);
    if (!b) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a block"));
    b->shape = *s;
    b->shape.config.context = s->T;
    b->shape.config.norm_eps = 1e-5;
    b->shape.config.rope = (rt_rope_scaling){ .kind = RT_ROPE_PLAIN, .theta = 100.0 };
    RT_TRY(rt_space_new(&b->space, e));
    RT_TRY(rt_decoder_new(&b->decoder, b->space, &b->shape.config, &o, e));
    RT_TRY(make_inputs(b, policy, e));
    RT_TRY(rt_plan_new(&b->step, b->space, "block step", policy, e));
    RT_TRY(rt_plan_new(&b->eval, b->space, "block evaluation", policy, e));
    RT_TRY(record(b, b->step, true, e));
    RT_TRY(record(b, b->eval, false, e));
    *out = b;
    b = NULL;
out:
    rt_block_free(b);
    return rc;
}

void rt_block_free(rt_block *b)
{
    if (!b) return;
    rt_plan_free(b->step);
    rt_plan_free(b->eval);
    rt_decoder_free(b->decoder);
    rt_space_free(b->space);
    rt_arena_free(&b->arena);
    rt_free(b);
}

int rt_block_fill(rt_exec *x, const rt_block *b, rt_err *e)
{
    int rc = RT_OK;
    void *stored = NULL;
    for (uint32_t i = 0; i < b->space->nbufs; i++) {
        const rt_buffer *f = &b->space->bufs[i];
        if (f->cls != RT_CLASS_PARAM) continue;
        rt_free(stored);
        stored = rt_alloc(f->bytes, 16);
        if (!stored) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the block's parameters"));
        random_values(stored, f->dtype, (uint64_t)f->rows * f->cols, 0.5, 2024 + 31 * (i + 1));
        RT_TRY(rt_exec_write(x, (rt_view){ i + 1, f->rows, f->cols, 0, f->cols }, stored, f->bytes, e));
    }
    for (uint32_t i = 0; i < b->inputs; i++)
        RT_TRY(rt_exec_write(x, b->input[i].v, b->input[i].data, rt_view_bytes(b->step, b->input[i].v), e));
out:
    rt_free(stored);
    return rc;
}

int rt_block_gradient_check(rt_dev *ref_double, const rt_block_shape *s, uint32_t samples, rt_grad_report *report,
                            rt_err *e)
{
    int rc;
    rt_block *b = NULL;
    char name[RT_GRAD_VARS][RT_NAME_BYTES];
    RT_TRY(rt_block_new(&b, s, &rt_policy_f64, e));
    rt_grad_problem g = { .space = b->space,
                          .forward = b->eval,
                          .backward = b->step,
                          .nvars = b->decoder->param_count,
                          .out = { { b->sums, RT_NONE, b->weights } },
                          .nouts = 1,
                          .ndata = b->inputs,
                          .seed = 4242 + s->config.vocab,
                          .spread = 0.7,
                          .h = s->h,
                          .samples = samples };
    if (g.nvars > RT_GRAD_VARS) RT_TRY(rt_fail(e, RT_INVALID, "%u parameters are too many to check", g.nvars));
    for (uint32_t i = 0; i < g.nvars; i++) {
        const rt_param *p = &b->decoder->params[i];
        g.var[i] = (rt_grad_var){ p->value, p->grad, rt_param_name(name[i], p) };
    }
    memcpy(g.data, b->input, sizeof b->input);
    RT_TRY(rt_grad_check(ref_double, &g, report, e));
out:
    rt_block_free(b);
    return rc;
}
