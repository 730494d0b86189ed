/* linear.c - projections that read one input, with bias and adapters: forward and backward.
 *
 *   y = x W' + bias, and for a part with an adapter  y_part += s (x A') B',  s = alpha / rank
 *   dW += dy' x;  dbias += column sums of dy;  dx = dy W
 *   with t = x A' kept by forward, or made again:  dB += s dy_part' t;  dt = s dy_part B;  dA += dt' x;  dx += dt A
 *
 * Where adapters drop out, x of an adapter is dropout(x), made again in backward, and dx += dropout(dt A) with the same
 * elements dropped. An adapter's stream of random words is the index of its A.
 *
 * Where the policy says int8, x is rounded to Q8_0 for those W that matmul_int8 takes, in forward alone.
 *
 * W may be quantised; it is then frozen, and only x W' and dy W are asked of it. Of W in e4m3 only x W', with x in e4m3
 * too: whoever makes x makes codes of it at once, or it is quantised by rows here, once for all parts that read it. W
 * may be e4m3 for the time of its GEMM alone: then its codes are made here, of all parts for one GEMM. */
#include "model/decoder_internal.h"

enum { DROPOUT_STREAM = 0x64726f70 }; /* "drop": apart from the streams of samples, which count from 0 */

static float adapter_scale(const rt_decoder *d) { return (float)(d->lora.alpha / d->lora.rank); }

static bool drops(const rt_decoder *d, rt_view step) { return d->lora.dropout > 0 && step.buf; }

/* y (N,in) = or += dropout(x) of adapter a */
static void adapter_dropout(rt_plan *p, const rt_decoder *d, uint32_t a, rt_view y, rt_view x, rt_view step)
{
    rt_emit_dropout(p, y, x, step, (float)d->lora.dropout, DROPOUT_STREAM + a);
}

/* What adapter a reads: x, or dropout(x). */
static rt_view adapter_input(rt_plan *p, const rt_decoder *d, uint32_t a, rt_view x, rt_view step)
{
    if (!drops(d, step)) return x;
    rt_view y = rt_act(p, p->policy.act, x.rows, x.cols, "dropped");
    adapter_dropout(p, d, a, y, x, step);
    return y;
}

/* x A' of what the adapter reads */
static rt_view adapter_low(rt_plan *p, const rt_decoder *d, uint32_t a, rt_view x)
{
    rt_view low = rt_act(p, p->policy.act, x.rows, d->lora.rank, "low");
    rt_emit_matmul(p, low, x, d->params[a].value, RT_NONE, "nt", 1.0f);
    return low;
}

static void adapter_forward(rt_plan *p, const rt_decoder *d, uint32_t a, rt_view y, rt_view x, rt_view step,
                            rt_low *low)
{
    low->value = adapter_low(p, d, a, adapter_input(p, d, a, x, step));
    rt_emit_matmul(p, y, low->value, d->params[a + 1].value, RT_NONE, "nt", adapter_scale(d)); /* += */
}

/* How many parts of l read codes. */
static uint32_t coded_parts(const rt_decoder *d, const rt_linear *l)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->parts; i++) n += l->coded || d->params[l->param[i]].scale.buf;
    return n;
}

static rt_input codes_of(rt_plan *p, uint32_t N, uint32_t in)
{
    return (rt_input){ .x = rt_act(p, RT_DTYPE_E4M3, N, in, "codes"),
                       .scale = rt_act(p, p->policy.scalar, N, 1, "scales") };
}

rt_input rt_linear_input(rt_plan *p, const rt_decoder *d, const rt_linear *l, uint32_t N, uint32_t in, const char *name)
{
    bool values = coded_parts(d, l) < l->parts;
    for (uint32_t i = 0; i < l->parts; i++) values = values || l->adapter[i] != RT_NO_PARAM;
    return values ? (rt_input){ .x = rt_act(p, p->policy.act, N, in, name) } : codes_of(p, N, in);
}

/* What GEMMs read: x, its codes where a weight wants them, and its blocks of 8 bits where the policy does. */
typedef struct operands {
    rt_input x, codes;
    rt_view blocks;
} operands;

static bool takes_blocks(const rt_plan *p, rt_view weight)
{
    return p->policy.int8 && rt_int8_takes(rt_plan_dtype(p, weight));
}

/* x (N,in) in Q8_0 */
static rt_view blocks_of(rt_plan *p, rt_view x)
{
    rt_view y = rt_act(p, RT_DTYPE_Q8_0, x.rows, x.cols, "x blocks");
    rt_emit_quant(p, y, x);
    return y;
}

static operands operands_of(rt_plan *p, const rt_decoder *d, const rt_linear *l, rt_input x)
{
    operands in = { x, x, RT_NONE };
    for (uint32_t i = 0; i < l->parts; i++)
        if (!in.blocks.buf && takes_blocks(p, rt_value(d, l->param[i]))) in.blocks = blocks_of(p, x.x);
    if (x.scale.buf || !coded_parts(d, l)) return in;
    in.codes = codes_of(p, x.x.rows, x.x.cols);
    rt_emit_quant_rows(p, in.codes.x, in.codes.scale, x.x);
    return in;
}

/* y = x W' + bias; scale: of the rows of W, where it is e4m3 */
static void multiply(rt_plan *p, rt_view y, const operands *in, rt_view weight, rt_view scale, rt_view bias)
{
    if (scale.buf)
        rt_emit_matmul_scaled(p, y, in->codes.x, in->codes.scale, weight, scale, bias);
    else if (takes_blocks(p, weight))
        rt_emit_matmul_int8(p, y, in->blocks, weight, bias);
    else
        rt_emit_matmul(p, y, in->x.x, weight, bias, "nt", 1.0f);
}

/* RT_NONE where it is on the device. */
static rt_view fetch(rt_plan *p, rt_view weight)
{
    const rt_buffer *b = rt_plan_buffer(p, weight);
    if (!b || !rt_class_is_away(b->cls)) return RT_NONE;
    rt_view slot = rt_act(p, b->dtype, weight.rows, weight.cols, b->name);
    rt_plan_queue(p, RT_QUEUE_COPY);
    rt_emit_copy(p, slot, weight, RT_NONE);
    rt_plan_queue(p, RT_QUEUE_COMPUTE);
    return slot;
}

rt_fetched rt_linear_fetch(rt_plan *p, const rt_decoder *d, const rt_linear *l)
{
    rt_fetched at = { 0 };
    for (uint32_t i = 0; i < (l->joined ? 1 : l->parts); i++)
        at.weight[i] = fetch(p, l->joined ? l->weight : rt_value(d, l->param[i]));
    return at;
}

void rt_linear_head(rt_plan *p, rt_view y, rt_view x, rt_view weight)
{
    const operands in = { .x = { .x = x }, .blocks = takes_blocks(p, weight) ? blocks_of(p, x) : RT_NONE };
    multiply(p, y, &in, weight, RT_NONE, RT_NONE);
}

static rt_view either(rt_view fetched, rt_view own) { return fetched.buf ? fetched : own; }

/* What one GEMM multiplies for all parts: the weights that lie so, or codes of them, made now. */
static rt_input weights_of(rt_plan *p, const rt_decoder *d, const rt_linear *l, const rt_fetched *at)
{
    if (!l->coded) return (rt_input){ either(at->weight[0], l->weight), l->scale };
    uint32_t rows = 0;
    for (uint32_t i = 0; i < l->parts; i++) rows += l->cols[i];
    rt_input to = codes_of(p, rows, rt_value(d, l->param[0]).cols);
    for (uint32_t i = 0, row = 0; i < (l->joined ? 1 : l->parts); i++) {
        rt_view w = either(at->weight[i], l->joined ? l->weight : rt_value(d, l->param[i]));
        rt_emit_quant_rows(p, rt_view_rows(p, to.x, row, w.rows), rt_view_rows(p, to.scale, row, w.rows), w);
        row += w.rows;
    }
    return to;
}

void rt_linear_forward(rt_plan *p, const rt_decoder *d, const rt_linear *l, const rt_fetched *at_device, rt_view y,
                       rt_input x, rt_view step, rt_low *low)
{
    const operands in = operands_of(p, d, l, x);
    const bool at_once = l->joined || l->coded;
    if (at_once) {
        const rt_input w = weights_of(p, d, l, at_device);
        multiply(p, y, &in, w.x, w.scale, l->bias);
    }
    for (uint32_t i = 0, at = 0; i < l->parts; at += l->cols[i++]) {
        rt_view part = rt_view_cols(p, y, at, l->cols[i]);
        rt_view bias = l->has_bias ? rt_view_cols(p, l->bias, at, l->cols[i]) : RT_NONE;
        if (!at_once)
            multiply(p, part, &in, either(at_device->weight[i], rt_value(d, l->param[i])), d->params[l->param[i]].scale,
                     bias);
        if (l->adapter[i] != RT_NO_PARAM) adapter_forward(p, d, l->adapter[i], part, x.x, step, &low[i]);
    }
}

/* dt, made by whichever half of backward comes first */
static void adapter_dlow(rt_plan *p, const rt_decoder *d, uint32_t a, rt_view dy, rt_low *low)
{
    if (low->grad.buf) return;
    low->grad = rt_act(p, p->policy.act, dy.rows, d->lora.rank, "dlow");
    rt_emit_matmul(p, low->grad, dy, d->params[a + 1].value, RT_NONE, "nn", adapter_scale(d)); /* = */
}

/* dx += dlow A, through dropout where there is one */
static void adapter_dx(rt_plan *p, const rt_decoder *d, uint32_t a, rt_view dlow, rt_view dx, rt_view step)
{
    bool through = drops(d, step);
    rt_view to = through ? rt_act(p, p->policy.act, dx.rows, dx.cols, "ddropped") : dx;
    rt_emit_matmul(p, to, dlow, d->params[a].value, RT_NONE, "nn", 1.0f); /* = into ddropped, += into dx */
    if (through) adapter_dropout(p, d, a, dx, to, step);                  /* += */
}

/* x is what the adapter reads */
static void adapter_dw(rt_plan *p, const rt_decoder *d, uint32_t a, rt_view dy, rt_view x, const rt_low *low)
{
    rt_view t = low->value.buf ? low->value : adapter_low(p, d, a, x);
    rt_emit_matmul(p, d->params[a + 1].grad, dy, t, RT_NONE, "tn", adapter_scale(d)); /* dB = or += */
    rt_emit_matmul(p, d->params[a].grad, low->grad, x, RT_NONE, "tn", 1.0f);          /* dA = or += */
}

bool rt_linear_reads_x(const rt_decoder *d, const rt_linear *l)
{
    for (uint32_t i = 0; i < l->parts; i++)
        if (rt_grad(d, l->param[i]).buf || l->adapter[i] != RT_NO_PARAM) return true;
    return false;
}

void rt_linear_dw(rt_plan *p, const rt_decoder *d, const rt_linear *l, rt_view dy, rt_view x, rt_view step, rt_low *low)
{
    if (l->dbias.buf) rt_emit_bias_grad(p, l->dbias, dy);                                 /* = or += */
    if (l->joined && l->grad.buf) rt_emit_matmul(p, l->grad, dy, x, RT_NONE, "tn", 1.0f); /* = or += */
    for (uint32_t i = 0, at = 0; i < l->parts; at += l->cols[i++]) {
        rt_view part = rt_view_cols(p, dy, at, l->cols[i]), grad = rt_grad(d, l->param[i]);
        uint32_t a = l->adapter[i];
        if (!l->joined && grad.buf) rt_emit_matmul(p, grad, part, x, RT_NONE, "tn", 1.0f); /* = or += */
        if (a == RT_NO_PARAM) continue;
        adapter_dlow(p, d, a, part, &low[i]);
        adapter_dw(p, d, a, part, adapter_input(p, d, a, x, step), &low[i]);
    }
}

void rt_linear_dx(rt_plan *p, const rt_decoder *d, const rt_linear *l, rt_view dy, rt_view dx, rt_view step,
                  rt_low *low)
{
    if (l->joined) rt_emit_matmul(p, dx, dy, l->weight, RT_NONE, "nn", 1.0f); /* = */
    for (uint32_t i = 0, at = 0; i < l->parts; at += l->cols[i++]) {
        rt_view part = rt_view_cols(p, dy, at, l->cols[i]);
        uint32_t a = l->adapter[i];
        if (!l->joined) rt_emit_matmul(p, dx, part, rt_value(d, l->param[i]), RT_NONE, "nn", 1.0f); /* =, then += */
        if (a == RT_NO_PARAM) continue;
        adapter_dlow(p, d, a, part, &low[i]);
        adapter_dx(p, d, a, low[i].grad, dx, step); /* += */
    }
}
