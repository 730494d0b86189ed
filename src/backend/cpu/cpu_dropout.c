/* cpu_dropout.c - dropout: y = or += x times 1 / (1 - p) or 0, by random words that are made where they are used.
 *
 * A random word depends on the element's row and column in the step alone (op/args.h), so how rows are cut, and among
 * how many threads, changes nothing. */
#include "backend/cpu/cpu_random.h"
#include "backend/cpu/cpu_split.h"

enum { BLOCK = RT_RANDOM_WORDS };

typedef struct drop_job {
    rt_step step;
    uint64_t stream;
    uint32_t below;
    float scale;
} drop_job;

/* factor (BLOCK) of columns 4 group and on */
RT_INLINE void factors(float *factor, const drop_job *j, uint32_t row, uint32_t group)
{
    uint32_t word[BLOCK];
    random_words(word, j->step.seed, j->stream, row, group);
    for (uint32_t i = 0; i < BLOCK; i += VL)
        vstore(factor + i, vselect((vi)(vload_u(word + i) >= j->below), vset(j->scale), vset(0.0f)));
}

/* n elements of one row, from column col on */
RT_INLINE void drop_row(void *y, const void *x, uint64_t from, uint32_t n, const drop_job *j, uint32_t row,
                        uint32_t col, bool acc, rt_dtype d)
{
    float factor[BLOCK];
    for (uint32_t done = 0; done < n;) {
        uint32_t skip = (col + done) % 4, end = done + BLOCK - skip < n ? done + BLOCK - skip : n;
        const float *f = factor + skip;
        factors(factor, j, row, (col + done) / 4);
        for (; done + VL <= end; done += VL, f += VL) {
            vf v = vload_t(x, from + done, d) * vload(f);
            vstore_t(y, from + done, acc ? vload_t(y, from + done, d) + v : v, d);
        }
        for (; done < end; done++, f++) {
            float v = load_t(x, from + done, d) * *f;
            store_t(y, from + done, acc ? load_t(y, from + done, d) + v : v, d);
        }
    }
}

static void drop_span(const rt_bound_op *o, rt_cpu_span s, void *ctx)
{
    const drop_job *j = ctx;
    const uint64_t C = o->args.dropout.C, first = s.row * C + s.col; /* of a span over rows without gaps too */
    void *y = span_ptr(&o->slot[RT_DROP_Y], s);
    const void *x = span_ptr(&o->slot[RT_DROP_X], s);
    for (uint64_t done = 0; done < s.n;) {
        uint64_t row = (first + done) / C, col = (first + done) % C, n = C - col < s.n - done ? C - col : s.n - done;
        RT_FOR_FLOAT(o->slot[RT_DROP_Y].dtype, D,
                     drop_row(y, x, done, (uint32_t)n, j, j->step.row + (uint32_t)row, (uint32_t)col, o->acc & 1, D));
        done += n;
    }
}

void RT_CPU(dropout)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_dropout_args *a = &o->args.dropout;
    drop_job j = { .below = rt_dropout_below(a->p), .scale = (float)rt_dropout_scale(a->p) };
    memcpy(&j.step, rt_host_ptr(&o->slot[RT_DROP_STEP]), sizeof j.step);
    j.stream = (uint64_t)a->stream << 32 | j.step.step;
    split_run(c, o, 2, drop_span, &j);
}
RT_CPU_NO_WORK(dropout)
