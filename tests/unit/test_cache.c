/* test_cache.c - keys of blocks whatever the packing; each way of keeping a position comes back, with the error that is
 * stated; what no teacher says is refused. */
#include "cache_case.h"

#include "teacher/cache_source.h"

/* ---- keys ---- */

enum { ROW = 300 };

typedef struct row {
    int32_t ids[ROW], start[ROW], target[ROW];
    uint32_t used;
} row;

/* A document of its own: ids by seed; each third position is no target. */
static void put_document(row *r, uint64_t seed, uint32_t tokens)
{
    uint32_t first = r->used;
    for (uint32_t i = 0; i < tokens; i++, r->used++) {
        r->ids[r->used] = (int32_t)(rt_philox(seed, 0, i).v[0] % 50000);
        r->start[r->used] = (int32_t)first;
        r->target[r->used] = i + 1 < tokens && i % 3 ? 1 : -1;
    }
}

static void test_keys(void **state)
{
    (void)state;
    row alone = { .used = 0 }, packed = { .used = 0 }, other = { .used = 0 };
    rt_cache_place a[ROW], b[ROW], c[ROW];
    put_document(&alone, 1, 150);
    put_document(&packed, 2, 70);
    put_document(&packed, 1, 150);
    put_document(&packed, 3, 80);
    put_document(&other, 1, 140);
    assert_int_equal(rt_cache_places(alone.ids, alone.start, alone.target, alone.used, a), 3);
    uint32_t n = rt_cache_places(packed.ids, packed.start, packed.target, packed.used, b);
    assert_int_equal(n, 2 + 3 + 2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(rt_hash_equal(a[i].key, b[2 + i].key));
        assert_int_equal(a[i].first + 70, b[2 + i].first);
        assert_int_equal(a[i].count, b[2 + i].count);
        assert_true(a[i].wanted == b[2 + i].wanted);
        assert_int_equal(a[i].first, 64 * i);
    }
    assert_int_equal(a[2].count, 150 - 128);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++) assert_false(rt_hash_equal(b[i].key, b[j].key));
    /* One that is cut earlier has the same whole blocks, and another last one. */
    assert_int_equal(rt_cache_places(other.ids, other.start, other.target, other.used, c), 3);
    assert_true(rt_hash_equal(a[1].key, c[1].key) && !rt_hash_equal(a[2].key, c[2].key));
    /* A token that is another changes its block and all behind it. */
    alone.ids[64]++;
    rt_cache_places(alone.ids, alone.start, alone.target, alone.used, c);
    assert_true(rt_hash_equal(a[0].key, c[0].key));
    assert_true(!rt_hash_equal(a[1].key, c[1].key) && !rt_hash_equal(a[2].key, c[2].key));
}

/* The definition, spelled out. */
static void test_key_bytes(void **state)
{
    (void)state;
    int32_t ids[65], start[65] = { 0 }, target[65];
    uint8_t bytes[16 + 64 * 4] = { 0 }, more[20];
    rt_cache_place places[65];
    for (int i = 0; i < 65; i++) {
        ids[i] = 1000 * i;
        target[i] = i == 64 ? 0 : -1; /* the first block has none and is left out */
    }
    for (int i = 0; i < 64; i++) rt_store_le(bytes + 16 + 4 * i, (uint64_t)ids[i], 4);
    rt_hash128 first = rt_hash(bytes, sizeof bytes);
    for (int i = 0; i < 8; i++) {
        more[i] = (uint8_t)(first.hi >> (56 - 8 * i));
        more[8 + i] = (uint8_t)(first.lo >> (56 - 8 * i));
    }
    rt_store_le(more + 16, 64000, 4);
    assert_int_equal(rt_cache_places(ids, start, target, 65, places), 1);
    assert_true(rt_hash_equal(places[0].key, rt_hash(more, sizeof more)));
    assert_int_equal(places[0].first, 64);
    assert_int_equal(places[0].count, 1);
    assert_true(places[0].wanted == 1);
    char text[33];
    assert_string_equal(rt_hash_text(text, places[0].key), "3bd68a7accdc5c004307bf2e88708722");
}

/* Where targets are kept a block is found by the last one too: the definition, spelled out. */
static void test_key_of_targets(void **state)
{
    (void)state;
    const rt_cache_section with = { RT_KEEP_TOPK, 4, .T = 1, .target = true }, without = { RT_KEEP_TOPK, 4, .T = 1 };
    const int32_t ids[3] = { 7, 8, 9 }, start[3] = { 0 };
    int32_t target[3] = { 8, 9, 11 };
    rt_cache_place p;
    uint8_t bytes[24];
    for (int last = 0; last < 2; last++) {
        target[2] = last ? -1 : 11;
        assert_int_equal(rt_cache_places(ids, start, target, 3, &p), 1);
        rt_store_le(bytes, p.key.hi, 8);
        rt_store_le(bytes + 8, p.key.lo, 8);
        rt_store_le(bytes + 16, last ? UINT64_MAX : 11, 8);
        assert_true(rt_hash_equal(rt_keep_key(&with, &p, target), rt_hash(bytes, sizeof bytes)));
        assert_true(rt_hash_equal(rt_keep_key(&without, &p, target), p.key));
    }
}

static void test_keep_words(void **state)
{
    (void)state;
    rt_keep_plan k;
    ok(rt_keep_parse(&k, "draws:1024", 50000, &case_err));
    assert_true(k.form == RT_FORM_DRAWS && k.n == 1024 && k.held_n == 64);
    refused(rt_keep_parse(&k, "draws:1025", 50000, &case_err), RT_USAGE, "draws:N (1 to 1024)");
    ok(rt_keep_parse(&k, "topk:4096", 50000, &case_err));
    assert_true(k.form == RT_FORM_TOPK && k.n == 4096 && k.held_n == 4096 && !k.exact);
    refused(rt_keep_parse(&k, "topk:4097", 50000, &case_err), RT_USAGE, "topk:K (1 to 4096)");
    refused(rt_keep_parse(&k, "topk:300", 259, &case_err), RT_USAGE, "259 ids that count");
    ok(rt_keep_parse(&k, "topk:259", 259, &case_err));
    assert_true(k.exact);
}

/* ---- top-k ---- */

/* The stated error of one position, and that its mass is 1; returns KL of what was written to what was read. */
static double check_position(const rt_cache_section *s, const int32_t *id, const float *logp, float rest,
                             const int32_t *id2, const float *logp2, float rest2)
{
    double mass = (double)rest2, kl = 0, spread = 0;
    uint32_t count = 0;
    while (count < s->n && id[count] >= 0) count++;
    if (count) spread = (double)logp[0] - (double)logp[count - 1];
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t was = 0;
        if (i >= count) {
            assert_int_equal(id2[i], -1);
            continue;
        }
        while (was < count && id[was] != id2[i]) was++;
        assert_true(was < count);
        double off = fabs((double)logp[was] - (double)logp2[i]), x = (double)logp[0] - (double)logp[was];
        double most = (x + spread / 13.3) / 512 + spread / 13.3 / 512 + 0.002 + 1e-6 * fabs((double)logp[was]);
        if (s->exact ? off != 0 : off > most)
            fail_msg("%g is read as %g, %g off of %g", (double)logp[was], (double)logp2[i], off, most);
        if (i > 0) assert_true(logp2[i] < logp2[i - 1] || (logp2[i] == logp2[i - 1] && id2[i] > id2[i - 1]));
        mass += exp((double)logp2[i]);
        kl += exp((double)logp[was]) * ((double)logp[was] - (double)logp2[i]);
    }
    if (fabs(mass - 1) > 1e-6) fail_msg("the mass is %.9g", mass);
    if (s->exact) assert_true(rest == rest2);
    if (fabs((double)rest - (double)rest2) > 5e-4 * fmin((double)rest, 1 - (double)rest) + 3e-7)
        fail_msg("a rest of %g is read as %g", (double)rest, (double)rest2);
    if (rest > 0 && rest2 > 0) kl += (double)rest * log((double)rest / (double)rest2);
    return kl;
}

static void check_blocks(const rt_cache_section *s, dist kind, uint32_t V, uint64_t have)
{
    rt_cache *c = new_cache(s, 1);
    rt_cache_block b = new_block(s), r = new_block(s);
    uint32_t count = (uint32_t)__builtin_popcountll(have);
    write_one(c, 0, kind, V, 5, have);
    reopen(&c);
    rt_hash128 key = key_of(5);
    fill_block(s, kind, V, 5, have, &b);
    assert_true(rt_cache_have(c, 0, &key) == have);
    ok(rt_cache_get(c, 0, &key, have, &r, &case_err));
    assert_true(r.have == have);
    for (uint32_t j = 0; j < count; j++) {
        uint32_t at = j * s->n;
        double kl = check_position(s, b.id + at, b.logp + at, b.rest[j], r.id + at, r.logp + at, r.rest[j]);
        if (kl > 2e-5 || kl < -1e-6) fail_msg("kind %d: KL of what was written to what was read is %g", (int)kind, kl);
        if (s->target) assert_int_equal(b.target[j], r.target[j]);
        if (s->target) assert_true(b.target_logp[j] == r.target_logp[j]);
    }
    free_block(&b);
    free_block(&r);
    rt_cache_close(c);
}

static void test_topk(void **state)
{
    (void)state;
    for (dist kind = 0; kind < DIST_KINDS; kind++)
        for (int i = 0; i < 4; i++) {
            rt_cache_section s = { RT_KEEP_TOPK, i == 2 ? 1 : 64, .T = 1, .target = i & 1, .exact = i == 3 };
            check_blocks(&s, kind, 4000, UINT64_C(0xfedcba9876543210));
        }
}

/* Every id is listed, and more entries than there are ids; nothing is left, or next to nothing by rounding. */
static void test_whole_vocabulary(void **state)
{
    (void)state;
    for (dist kind = 0; kind < DIST_KINDS; kind++)
        for (int exact = 0; exact < 2; exact++) {
            rt_cache_section s = { RT_KEEP_TOPK, 1500, .T = 2, .exact = exact };
            check_blocks(&s, kind, 1500, 0xf);
            check_blocks(&s, kind, 1000, 0x11);
        }
}

/* Log-probabilities of neighbouring f32, the likelier ones of higher ids: where what is read is equal, lower ids come
 * first. */
static void test_nearest_numbers(void **state)
{
    (void)state;
    rt_cache_section s = { RT_KEEP_TOPK, 64, .T = 1 };
    rt_cache_writer *w;
    rt_cache *c = new_cache(&s, 1);
    rt_cache_block b = new_block(&s), r = new_block(&s);
    b.key = key_of(1);
    b.have = UINT64_MAX;
    for (uint32_t j = 0; j < 64; j++) {
        float logp = -8 + 1e-5f * (float)(j + 1); /* what is read may lie below -8, where numbers lie less closely */
        double mass = 0;
        for (uint32_t i = 0; i < 64; i++) {
            b.id[j * 64 + i] = (int32_t)(1000 - i);
            b.logp[j * 64 + i] = logp;
            mass += exp((double)logp);
            logp = nextafterf(logp, -INFINITY);
        }
        b.rest[j] = (float)(1 - mass);
    }
    ok(rt_cache_writer_new(&w, c, 0, &case_err));
    ok(rt_cache_writer_add(w, &b, &case_err));
    ok(rt_cache_writer_commit(w, &case_err));
    rt_cache_writer_free(w);
    ok(rt_cache_get(c, 0, &b.key, b.have, &r, &case_err));
    for (uint32_t j = 0; j < 64; j++)
        check_position(&s, b.id + j * 64, b.logp + j * 64, b.rest[j], r.id + j * 64, r.logp + j * 64, r.rest[j]);
    free_block(&b);
    free_block(&r);
    rt_cache_close(c);
}

/* What is left of a position that is all but certain is little, and not nothing. */
static void test_little_rest(void **state)
{
    (void)state;
    rt_cache_section s = { RT_KEEP_TOPK, 2, .T = 1 };
    rt_cache_writer *w;
    rt_cache *c = new_cache(&s, 1);
    rt_cache_block b = new_block(&s), r = new_block(&s);
    static const float rest[4] = { 1e-12f, 1e-14f, 1e-40f, 0 };
    b.key = key_of(1);
    b.have = 0xf;
    for (int j = 0; j < 4; j++) {
        b.id[2 * j] = 5, b.logp[2 * j] = 0;
        b.id[2 * j + 1] = 3, b.logp[2 * j + 1] = -25;
        b.rest[j] = rest[j];
    }
    ok(rt_cache_writer_new(&w, c, 0, &case_err));
    ok(rt_cache_writer_add(w, &b, &case_err));
    ok(rt_cache_writer_commit(w, &case_err));
    rt_cache_writer_free(w);
    ok(rt_cache_get(c, 0, &b.key, b.have, &r, &case_err));
    assert_true(fabs((double)r.rest[0] - 1e-12) < 3e-13);
    assert_true(r.rest[1] > 0 && r.rest[1] < 1e-12f && r.rest[2] == r.rest[1] && r.rest[3] == 0);
    free_block(&b);
    free_block(&r);
    rt_cache_close(c);
}

static void test_topk_refused(void **state)
{
    (void)state;
    rt_cache_section s = { RT_KEEP_TOPK, 4, .T = 1, .target = true };
    rt_cache *c = new_cache(&s, 1);
    rt_cache_writer *w;
    int32_t id[4] = { 5, 3, 9, -1 }, target[1] = { 3 };
    float half = logf(0.5f), logp[4] = { half, logf(0.25f), logf(0.125f), NAN }, rest[1] = { 0.125f }, of[1] = { -1 };
    rt_cache_block b = { .have = 1, .id = id, .logp = logp, .rest = rest, .target = target, .target_logp = of };
    ok(rt_cache_writer_new(&w, c, 0, &case_err));
    rest[0] = 0.2f;
    refused(rt_cache_writer_add(w, &b, &case_err), RT_INVALID, "do not add up to 1");
    rest[0] = NAN;
    refused(rt_cache_writer_add(w, &b, &case_err), RT_NONFINITE, "rest");
    rest[0] = 0.125f;
    id[3] = 5, logp[3] = -20;
    refused(rt_cache_writer_add(w, &b, &case_err), RT_INVALID, "twice");
    id[3] = 6, logp[3] = -INFINITY;
    refused(rt_cache_writer_add(w, &b, &case_err), RT_NONFINITE, "id 6");
    logp[3] = -1e9f;
    refused(rt_cache_writer_add(w, &b, &case_err), RT_INVALID, "span more than 10 bits");
    id[3] = -1, target[0] = -1;
    refused(rt_cache_writer_add(w, &b, &case_err), RT_INVALID, "no target");
    target[0] = 0, of[0] = NAN;
    refused(rt_cache_writer_add(w, &b, &case_err), RT_NONFINITE, "target");
    of[0] = -3;
    ok(rt_cache_writer_add(w, &b, &case_err));
    rt_cache_writer_free(w);
    rt_cache_close(c);
}

/* ---- draws, hidden states ---- */

static void test_draws(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 500; n = n == 1 ? 50 : n * 10)
        for (dist kind = 0; kind < DIST_KINDS; kind++) {
            rt_cache_section s = { RT_KEEP_DRAWS, n, .T = 1 };
            rt_cache *c = new_cache(&s, 1);
            rt_cache_block b = new_block(&s), r = new_block(&s);
            rt_hash128 key = key_of(9);
            write_one(c, 0, kind, 2000, 9, 0x8000000000000107);
            fill_block(&s, kind, 2000, 9, 0x8000000000000105, &b);
            ok(rt_cache_get(c, 0, &key, 0x8000000000000105, &r, &case_err));
            assert_memory_equal(b.id, r.id, 4 * n * sizeof *b.id);
            assert_memory_equal(b.logp, r.logp, 4 * n * sizeof *b.logp);
            assert_memory_equal(b.entropy, r.entropy, 4 * sizeof *b.entropy);
            free_block(&b);
            free_block(&r);
            rt_cache_close(c);
        }
}

static void test_draws_refused(void **state)
{
    (void)state;
    rt_cache_section s = { RT_KEEP_DRAWS, 4, .T = 1 };
    rt_cache *c = new_cache(&s, 1);
    rt_cache_writer *w;
    int32_t id[4] = { 5, 3, -1, -1 };
    float logp[4] = { logf(0.5f), logf(0.25f) }, entropy[1] = { 1 };
    rt_cache_block b = { .have = 1, .id = id, .logp = logp, .entropy = entropy };
    ok(rt_cache_writer_new(&w, c, 0, &case_err));
    refused(rt_cache_writer_add(w, &b, &case_err), RT_INVALID, "has 3 draws, not 4");
    logp[1] = logf(0.4f);
    refused(rt_cache_writer_add(w, &b, &case_err), RT_INVALID, "not a count of 4 draws");
    logp[1] = logp[0];
    id[1] = 5;
    refused(rt_cache_writer_add(w, &b, &case_err), RT_INVALID, "twice");
    id[1] = 4, entropy[0] = INFINITY;
    refused(rt_cache_writer_add(w, &b, &case_err), RT_NONFINITE, "entropy");
    entropy[0] = 2;
    ok(rt_cache_writer_add(w, &b, &case_err));
    rt_cache_writer_free(w);
    rt_cache_close(c);
}

static void test_hidden(void **state)
{
    (void)state;
    const rt_dtype dtypes[] = { RT_DTYPE_F32, RT_DTYPE_BF16, RT_DTYPE_F16 };
    for (int i = 0; i < 3; i++) {
        rt_cache_section s = { RT_KEEP_HIDDEN, 96, .T = 1, .dtype = dtypes[i] };
        rt_cache *c = new_cache(&s, 1);
        rt_cache_block b = new_block(&s), r = new_block(&s);
        rt_hash128 key = key_of(3);
        write_one(c, 0, DIST_REAL, 0, 3, 0xf0f0);
        reopen(&c);
        fill_block(&s, DIST_REAL, 0, 3, 0x3030, &b);
        ok(rt_cache_get(c, 0, &key, 0x3030, &r, &case_err));
        assert_memory_equal(b.hidden, r.hidden, 4 * rt_dtype_bytes(s.dtype, s.n));
        refused(rt_cache_get(c, 0, &key, 0x1, &r, &case_err), RT_INVALID, "does not have");
        rt_cache_writer *w;
        ok(rt_cache_writer_new(&w, c, 0, &case_err));
        for (int bad = 0; bad < 3; bad++) { /* infinities and NaN, of the last value */
            const size_t each = (size_t)rt_dtype_bytes(s.dtype, 1), end = 4 * 96 * each;
            uint8_t *top = (uint8_t *)b.hidden + end - 2;
            fill_block(&s, DIST_REAL, 0, 4, 0x3030, &b);
            top[0] = dtypes[i] == RT_DTYPE_F16 ? (bad == 2) : bad == 2 ? 0xc0 : 0x80;
            top[1] = (uint8_t)((dtypes[i] == RT_DTYPE_F16 ? 0x7c : 0x7f) | (bad == 1 ? 0x80 : 0));
            refused(rt_cache_writer_add(w, &b, &case_err), RT_NONFINITE, "a hidden state of the teacher is not finite");
        }
        rt_cache_writer_free(w);
        free_block(&b);
        free_block(&r);
        rt_cache_close(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),         cmocka_unit_test(test_key_bytes),
        cmocka_unit_test(test_topk),         cmocka_unit_test(test_whole_vocabulary),
        cmocka_unit_test(test_topk_refused), cmocka_unit_test(test_nearest_numbers),
        cmocka_unit_test(test_draws),        cmocka_unit_test(test_draws_refused),
        cmocka_unit_test(test_hidden),       cmocka_unit_test(test_key_of_targets),
        cmocka_unit_test(test_keep_words),   cmocka_unit_test(test_little_rest),
    };
    return cmocka_run_group_tests(tests, open_case, close_case);
}
