/* test_slices.c - what ranks share out: reduce_scatter and all_gather with slices that are not even, bit for bit in the
 * order of the ranks, threads being ranks; how the cut is made: between rows, all of it, to each the same; and that
 * what is added up of a layer waits for nothing but that layer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec/exec_internal.h"
#include "rank_device.h"
#include "train/step.h"

#include <stdio.h>

/* ---- the ops ---- */

typedef struct slice_case {
    const char *device;
    uint32_t elems, ranks;
    bool adds;                  /* to what is there */
    uint32_t end[THREAD_RANKS]; /* of each rank's slice */
    float *sum[THREAD_RANKS];   /* what its slice came to */
    float *all[THREAD_RANKS];   /* (elems) gathered */
    char why[THREAD_RANKS][200];
} slice_case;

static rt_slice slice_of(const slice_case *c, uint32_t rank)
{
    rt_slice s = { 0 };
    for (uint32_t r = 0, begin = 0; r < c->ranks; begin = c->end[r++]) {
        if (r == rank) s = (rt_slice){ begin, c->end[r] - begin, s.most };
        if (c->end[r] - begin > s.most) s.most = c->end[r] - begin;
    }
    return s;
}

/* Each rank's slice of the sum, put where it was and gathered. */
static int scatter_and_gather(rt_peers *p, slice_case *c, rt_err *e)
{
    int rc;
    rank_device r = { 0 };
    rt_slice s = slice_of(c, p->rank);
    float *x = rt_alloc(c->elems * sizeof *x, 64);
    for (uint32_t i = 0; i < c->elems; i++) x[i] = rank_value(p->rank, i);
    RT_TRY(rank_device_open(&r, c->device, e));
    rt_view from = rt_space_buf(r.space, RT_CLASS_STATE, RT_DTYPE_F32, 1, c->elems, "x"), own = RT_NONE, mine = from;
    if (s.count) own = rt_space_buf(r.space, RT_CLASS_OUTPUT, RT_DTYPE_F32, 1, s.count, "own");
    if (s.count && c->adds) {
        rt_emit_fill(r.plan, own, 0.5f);
        rt_emit_reduce_scatter(r.plan, own, from, s, p->size);
    } else {
        rt_emit_reduce_scatter(r.plan, own, from, s, p->size);
    }
    if (s.count) {
        mine = rt_view_cols(r.plan, from, s.first, s.count);
        rt_emit_copy(r.plan, mine, own, RT_NONE);
    }
    rt_emit_all_gather(r.plan, from, s, p->size);
    RT_TRY(rank_device_seal(&r, p, e));
    RT_TRY(rt_exec_write(r.x, from, x, c->elems * sizeof *x, e));
    RT_TRY(rt_exec_run(r.x, 0, NULL, e));
    if (s.count) RT_TRY(rt_exec_read(r.x, own, c->sum[p->rank], s.count * sizeof *x, e));
    RT_TRY(rt_exec_read(r.x, from, c->all[p->rank], c->elems * sizeof *x, e));
    RT_TRY(rt_exec_check(r.x, e));
out:
    rank_device_close(&r);
    rt_free(x);
    return rc;
}

/* Assertions jump out of a thread, so that it only says what was wrong. */
static void one_rank(rt_peers *p, void *ctx)
{
    slice_case *c = ctx;
    rt_err e = { 0 };
    if (scatter_and_gather(p, c, &e) < 0) snprintf(c->why[p->rank], sizeof c->why[0], "%.199s", e.text);
}

static void assert_bits(const slice_case *c, uint32_t rank, uint32_t i, float got)
{
    float sum = rank_value(0, i);
    for (uint32_t r = 1; r < c->ranks; r++) sum += rank_value(r, i);
    float want = c->adds ? 0.5f + sum : sum;
    if (memcmp(&got, &want, sizeof want) != 0)
        fail_msg("%s, rank %u of %u, element %u of %u: %a, expected %a", c->device, rank, c->ranks, i, c->elems,
                 (double)got, (double)want);
}

static void slices(const char *device, uint32_t ranks, uint32_t elems, const uint32_t *end, bool adds)
{
    slice_case c = { .device = device, .ranks = ranks, .elems = elems, .adds = adds };
    for (uint32_t r = 0; r < ranks; r++) {
        c.end[r] = end[r];
        c.sum[r] = rt_alloc(elems * sizeof(float), 64);
        c.all[r] = rt_alloc(elems * sizeof(float), 64);
    }
    thread_world_run(ranks, one_rank, &c);
    for (uint32_t r = 0; r < ranks; r++) {
        if (*c.why[r]) fail_msg("%s, rank %u of %u: %s", device, r, ranks, c.why[r]);
        rt_slice s = slice_of(&c, r);
        for (uint32_t i = 0; i < s.count; i++) assert_bits(&c, r, s.first + i, c.sum[r][i]);
        for (uint32_t i = 0; i < elems; i++) assert_bits(&c, r, i, c.all[r][i]);
        rt_free(c.sum[r]);
        rt_free(c.all[r]);
    }
}

static void test_ops(void **state)
{
    (void)state;
    static const char *const devices[] = { "ref", "cpu" };
    for (int d = 0; d < 2; d++)
        for (int adds = 0; adds < 2; adds++) {
            slices(devices[d], 1, 5, (uint32_t[]){ 5 }, adds);
            slices(devices[d], 2, 7, (uint32_t[]){ 3, 7 }, adds);
            slices(devices[d], 3, 133, (uint32_t[]){ 64, 64, 133 }, adds && d == 0); /* one has none */
            slices(devices[d], 4, 19, (uint32_t[]){ 0, 5, 18, 19 }, false);
        }
    slices("cpu", THREAD_RANKS, 1000, (uint32_t[]){ 100, 228, 356, 484, 612, 740, 868, 1000 }, true);
}

/* More than what goes over at once, by ranks that end at different times. */
static void test_pieces(void **state)
{
    (void)state;
    slices("cpu", 2, 1300007, (uint32_t[]){ 100, 1300007 }, true);
    slices("cpu", 3, 1200011, (uint32_t[]){ 400003, 800006, 1200011 }, false);
}

static void test_refused(void **state)
{
    rank_device r;
    rt_err e = { 0 };
    (void)state;
    assert_int_equal(rank_device_open(&r, "cpu", &e), RT_OK);
    rt_view v = rt_space_buf(r.space, RT_CLASS_STATE, RT_DTYPE_F32, 1, 6, "x");
    rt_emit_all_gather(r.plan, v, (rt_slice){ 2, 4, 4 }, 2);
    assert_int_equal(r.plan->ops[0].queue, RT_QUEUE_COMM);
    assert_int_equal(rank_device_seal(&r, &(rt_peers){ .size = 1 }, &e), RT_INTERNAL);
    assert_non_null(strstr(e.text, "2 ranks, and there are 1"));
    rt_emit_all_gather(r.plan, v, (rt_slice){ 3, 4, 4 }, 2);
    assert_int_equal(rt_plan_status(r.plan, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "does not lie in a row of 6"));
    rank_device_close(&r);
}

/* ---- the cut ---- */

static rt_dev *open_cpu(void)
{
    rt_dev *d = NULL;
    rt_err e = { 0 };
    const rt_backend *b;
    assert_int_equal(rt_backend_find("cpu", &b, &e), RT_OK);
    assert_int_equal(b->open(&d, 0, NULL, &e), RT_OK);
    return d;
}

/* A tiny student's programs for one rank, sealed dry. */
static rt_trainer *dry(rt_dev *d, const rt_model_config *c, uint32_t ranks, uint32_t rank, rt_zero zero,
                       rt_dtype moments, bool reuse)
{
    rt_trainer *t;
    rt_err e = { 0 };
    const rt_step_opts o = { .B = 2,
                             .T = 8,
                             .ranks = ranks,
                             .rank = rank,
                             .zero = zero,
                             .loss = { .ce_weight = 1, .temperature = 1 },
                             .beta1 = 0.9,
                             .beta2 = 0.9,
                             .eps = 1e-8,
                             .moments = moments,
                             .policy = rt_policy_f32,
                             .student = c };
    if (rt_trainer_open(&t, d, &o, &(rt_seal_opts){ .dry = true, .no_reuse = !reuse }, &e) < 0) fail_msg("%s", e.text);
    return t;
}

static uint64_t bytes_of(const rt_trainer *t, rt_class cls)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < t->plan->space->nbufs; i++)
        if (t->plan->space->bufs[i].cls == cls) n += t->plan->space->bufs[i].bytes;
    return n;
}

/* Rows that a rank owns of every parameter follow those of the rank before it, and are the elements of its slices. */
static void check_cut(rt_trainer *const *t, uint32_t ranks)
{
    const rt_decoder *d = t[0]->plan->student;
    uint32_t end[64] = { 0 };
    for (uint32_t r = 0; r < ranks; r++) {
        const rt_slices *s = &t[r]->plan->slices;
        uint64_t owned[64] = { 0 };
        for (uint32_t i = 0; i < d->param_count; i++) {
            const rt_param *p = &d->params[i];
            if (r == 0) assert_int_equal(rt_slices_first(s, i, 0), 0);
            if (r == ranks - 1) assert_int_equal(rt_slices_first(s, i, r) + rt_slices_rows(s, i, r), p->grad.rows);
            uint64_t rows = rt_slices_rows(s, i, r),
                     at = p->grad.off + rt_slices_first(s, i, r) * (uint64_t)p->grad.cols;
            owned[p->bucket] += rows * p->grad.cols;
            if (!rows) continue;
            assert_true(at >= s->bucket[p->bucket].first);
            assert_true(at + rows * p->grad.cols <= s->bucket[p->bucket].first + s->bucket[p->bucket].count);
        }
        for (uint32_t b = 0; b < d->bucket_count; b++) {
            assert_int_equal(s->bucket[b].count, owned[b]);
            assert_int_equal(s->bucket[b].first, end[b]);
            assert_true(s->bucket[b].most >= s->bucket[b].count &&
                        s->bucket[b].most == t[0]->plan->slices.bucket[b].most);
            end[b] += s->bucket[b].count;
        }
    }
    for (uint32_t b = 0; b < d->bucket_count; b++) assert_int_equal(end[b], d->bucket[b].grad.cols);
}

/* The state of a rank is its share of the whole, within two per cent; the plan says exactly how much that is. */
static void test_share(void **state)
{
    rt_dev *d = open_cpu();
    rt_model_config c;
    uint32_t count;
    const rt_preset *preset = rt_presets(&count);
    (void)state;
    for (uint32_t k = 0; k < count; k++) {
        if (strncmp(preset[k].name, "tiny-", 5) != 0) continue;
        rt_preset_fill(&preset[k], &c);
        for (int narrow = 0; narrow < 2; narrow++) {
            rt_dtype moments = narrow ? RT_DTYPE_U8 : RT_DTYPE_F32;
            rt_trainer *one = dry(d, &c, 1, 0, RT_ZERO_STATE, moments, true), *t[4];
            assert_int_equal(one->plan->slices.ranks, 0);
            double whole = (double)bytes_of(one, RT_CLASS_STATE);
            for (uint32_t ranks = 2; ranks <= 4; ranks++) {
                for (uint32_t r = 0; r < ranks; r++) {
                    t[r] = dry(d, &c, ranks, r, RT_ZERO_STATE, moments, true);
                    double share = (double)bytes_of(t[r], RT_CLASS_STATE) * ranks / whole;
                    if (!(share > 0.98 && share < 1.02))
                        fail_msg("%s, rank %u of %u has %.3f of its share", preset[k].name, r, ranks, share);
                }
                check_cut(t, ranks);
                for (uint32_t r = 0; r < ranks; r++) rt_trainer_free(t[r]);
            }
            rt_trainer_free(one);
        }
    }
    d->api->close(d);
}

/* What one layer cannot share out evenly the next ones make up for. */
static void test_many_layers(void **state)
{
    enum { LAYERS = 24, RANKS = 3 };
    rt_dev *d = open_cpu();
    rt_model_config c;
    uint64_t least = UINT64_MAX, most = 0;
    (void)state;
    rt_preset_fill(rt_preset_find("tiny-qwen2"), &c);
    c.layers = LAYERS;
    rt_config_usual_layers(&c);
    for (uint32_t r = 0; r < RANKS; r++) {
        rt_trainer *t = dry(d, &c, RANKS, r, RT_ZERO_STATE, RT_DTYPE_F32, true);
        uint64_t owned = 0;
        for (uint32_t b = 0; b < t->plan->student->bucket_count; b++) owned += t->plan->slices.bucket[b].count;
        least = owned < least ? owned : least;
        most = owned > most ? owned : most;
        rt_trainer_free(t);
    }
    if (most - least >= 2 * c.hidden) fail_msg("%llu elements more", (unsigned long long)(most - least));
    d->api->close(d);
}

/* Gradients are shared out as moments are, and those of a bucket have memory only while they are needed: of two layers
 * and the embedding at once. */
static void test_gradients(void **state)
{
    rt_dev *d = open_cpu();
    rt_model_config c;
    (void)state;
    rt_preset_fill(rt_preset_find("tiny-smollm3"), &c);
    rt_trainer *whole = dry(d, &c, 4, 0, RT_ZERO_STATE, RT_DTYPE_F32, true);
    for (uint32_t r = 0; r < 4; r++) {
        rt_trainer *t = dry(d, &c, 4, r, RT_ZERO_GRADS, RT_DTYPE_F32, true);
        double share = 4.0 * (double)bytes_of(t, RT_CLASS_GRAD) / (double)bytes_of(whole, RT_CLASS_GRAD);
        if (!(share > 0.98 && share < 1.02)) fail_msg("rank %u has %.3f of its share", r, share);
        if (r == 0) assert_int_equal(bytes_of(t, RT_CLASS_STATE), bytes_of(whole, RT_CLASS_STATE));
        rt_trainer_free(t);
    }
    rt_trainer_free(whole);
    d->api->close(d);
}

/* A bucket keeps its place while the next one's backward is computed. */
static void test_places(void **state)
{
    rt_dev *d = open_cpu();
    rt_model_config c;
    uint64_t before = UINT64_MAX;
    (void)state;
    rt_preset_fill(rt_preset_find("tiny-smollm3"), &c);
    rt_trainer *t = dry(d, &c, 4, 0, RT_ZERO_GRADS, RT_DTYPE_F32, true);
    const rt_sealed *s = &t->x->prog[t->plan->index[RT_PROGRAM_FIRST]];
    for (uint32_t i = 0; i < s->plan->nops; i++) {
        const rt_op *op = &s->plan->ops[i];
        if (op->kind != RT_OP_REDUCE_SCATTER) continue;
        uint64_t place = s->place[op->slot[RT_SCATTER_X].buf & ~RT_ACT_BIT];
        assert_true(place != before);
        before = place;
    }
    rt_trainer_free(t);
    d->api->close(d);
}

/* A device that computes one op a second, and adds a bucket up beside that in less time than the next one takes: what
 * is left at the end is the lowest layer's, of which the embedding's backward, one op, hides a second, and the
 * embedding's. */
static void test_beside(void **state)
{
    enum { SUM = 8 }; /* seconds; a layer's backward has more ops */
    rt_dev *d = open_cpu();
    rt_model_config c;
    uint32_t computed = 0, sums = 0;
    (void)state;
    rt_preset_fill(rt_preset_find("tiny-smollm3"), &c);
    rt_trainer *t = dry(d, &c, 4, 0, RT_ZERO_GRADS, RT_DTYPE_F32, false);
    const rt_sealed *s = &t->x->prog[t->plan->index[RT_PROGRAM_FIRST]];
    double *done = rt_alloc(s->plan->nops * sizeof *done, 16), at[RT_QUEUE_COUNT] = { 0 };
    for (uint32_t i = 0; i < s->plan->nops; i++) {
        const rt_op *op = &s->plan->ops[i];
        bool sum = op->kind == RT_OP_REDUCE_SCATTER;
        double begin = at[op->queue];
        assert_int_equal(sum, op->queue == RT_QUEUE_COMM);
        for (uint32_t q = 0; q < RT_QUEUE_COUNT; q++)
            if (s->after[i][q] && done[s->after[i][q] - 1] > begin) begin = done[s->after[i][q] - 1];
        done[i] = at[op->queue] = begin + (sum ? SUM : 1);
        computed += !sum;
        sums += sum;
    }
    assert_int_equal(sums, 6); /* head, four layers, embedding */
    assert_true(at[RT_QUEUE_COMPUTE] == computed);
    assert_true(at[RT_QUEUE_COMM] == computed - 1 + 2 * SUM);
    rt_free(done);
    rt_trainer_free(t);
    d->api->close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops),    cmocka_unit_test(test_pieces),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_share),  cmocka_unit_test(test_gradients),   cmocka_unit_test(test_places),
        cmocka_unit_test(test_beside), cmocka_unit_test(test_many_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
