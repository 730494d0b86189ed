/* test_cache_foreign.c - what other tools write: into a cache and out of it again, their own layouts spelled out, and
 * what is not as they write it. */
#include "cache_case.h"

#include "teacher/cache/foreign.h"

enum { K = 3, VOCAB = 40, TOKENS = 150 };

static const rt_cache_section exact = { RT_KEEP_TOPK, 4, .T = 1, .exact = true };

/* A document of a seed, of which something is said but at each fifth token and at the last. */
static rt_foreign_doc make_doc(uint64_t seed, uint32_t tokens)
{
    rt_foreign_doc d;
    double logp[VOCAB];
    ok(rt_foreign_doc_new(&d, tokens, K, &case_err));
    for (uint32_t p = 0; p < tokens; p++) {
        d.ids[p] = (int32_t)(rt_philox(seed, 9, p).v[0] % VOCAB);
        if (p % 5 == 4 || p + 1 == tokens) continue;
        make_logp(DIST_REAL, seed + p, VOCAB, logp);
        make_topk(logp, VOCAB, K, d.id + p * K, d.logp + p * K, &d.rest[p]);
    }
    return d;
}

/* Equal, but for a rounding of log-probabilities, which may change the order, and what that does to the rest. */
static void expect_same(const rt_foreign_doc *a, const rt_foreign_doc *b, float off)
{
    assert_int_equal(a->tokens, b->tokens);
    assert_memory_equal(a->ids, b->ids, a->tokens * sizeof *a->ids);
    for (uint32_t p = 0; p < a->tokens; p++)
        for (uint32_t i = p * K; i < p * K + K; i++) {
            uint32_t j = off > 0 ? p * K : i;
            while (off > 0 && j + 1 < p * K + K && a->id[i] != b->id[j]) j++;
            assert_int_equal(a->id[i], b->id[j]);
            if (a->id[i] < 0) continue;
            assert_true(fabsf(a->logp[i] - b->logp[j]) <= off * (1 - a->logp[i]));
            assert_true(fabsf(a->rest[p] - b->rest[p]) <= 2 * off + 2e-6f);
        }
}

static rt_foreign_doc through_cache(const rt_foreign_doc *d)
{
    rt_cache_section s = exact;
    s.n = K;
    rt_cache *c = new_cache(&s, 1);
    rt_cache_writer *w;
    rt_foreign_doc back;
    ok(rt_cache_writer_new(&w, c, 0, &case_err));
    ok(rt_foreign_put(w, &s, d, &case_err));
    ok(rt_cache_writer_commit(w, &case_err));
    rt_cache_writer_free(w);
    ok(rt_foreign_doc_new(&back, d->tokens, K, &case_err));
    memcpy(back.ids, d->ids, d->tokens * sizeof *d->ids);
    ok(rt_foreign_take(c, 0, &back, &case_err));
    rt_cache_close(c);
    return back;
}

static void test_lines(void **state)
{
    (void)state;
    for (rt_foreign_lines kind = RT_FOREIGN_AXOLOTL; kind <= RT_FOREIGN_VLLM; kind++) {
        rt_str line = { 0 };
        rt_foreign_doc d = make_doc(3, TOKENS), back, cached, given;
        rt_foreign_line_write(&line, kind, &d);
        assert_false(line.failed);
        ok(rt_foreign_line_read(&back, kind, line.data, line.len, NULL, 0, K, &case_err));
        expect_same(&d, &back, 0);
        ok(rt_foreign_line_read(&given, kind, line.data, line.len, d.ids, d.tokens, K, &case_err));
        expect_same(&d, &given, 0);
        cached = through_cache(&back);
        expect_same(&d, &cached, 0);
        rt_foreign_doc_free(&d);
        rt_foreign_doc_free(&back);
        rt_foreign_doc_free(&cached);
        rt_foreign_doc_free(&given);
        rt_str_free(&line);
    }
}

static int read_text(rt_foreign_doc *d, rt_foreign_lines kind, const char *text)
{
    case_err = (rt_err){ 0 };
    return rt_foreign_line_read(d, kind, text, strlen(text), NULL, 0, 2, &case_err);
}

/* As these tools write them. */
static void test_line_layouts(void **state)
{
    (void)state;
    rt_foreign_doc d;
    ok(read_text(&d, RT_FOREIGN_AXOLOTL,
                 "{\"messages\":[],\"input_ids\":[5,6,7,8],\"logprobs\":[[{\"token\":\"token_id:7\",\"logprob\":-0.5},"
                 "{\"token\":\"token_id:9\",\"logprob\":-2}],[{\"token\":\"token_id:1\",\"logprob\":-9999}]]}"));
    assert_int_equal(d.id[1 * 2], 7); /* two rows for four tokens: of tokens 2 and 3, said after 1 and 2 */
    assert_int_equal(d.id[1 * 2 + 1], 9);
    assert_true(d.logp[2] == -0.5f && fabs((double)d.rest[1] - (1 - exp(-0.5) - exp(-2))) < 1e-6);
    assert_int_equal(d.id[0], -1);
    assert_int_equal(d.id[2 * 2], -1); /* what a mask has left */
    rt_foreign_doc_free(&d);
    ok(read_text(
        &d, RT_FOREIGN_VLLM,
        "{\"id\":\"x\",\"choices\":[{\"index\":0,\"text\":\"\",\"prompt_logprobs\":[null,{\"8\":{\"logprob\":-3.5,"
        "\"rank\":12,\"decoded_token\":\"a\"},\"4\":{\"logprob\":-0.25,\"rank\":1,\"decoded_token\":\"b\"},"
        "\"3\":{\"logprob\":-2,\"rank\":2,\"decoded_token\":\"c\"}}],\"prompt_token_ids\":[2,8]}]}"));
    assert_int_equal(d.tokens, 2);
    assert_int_equal(d.id[0], 4); /* the two highest of three */
    assert_int_equal(d.id[1], 3);
    assert_int_equal(d.id[2], -1);
    rt_foreign_doc_free(&d);
    static const char *const wrong[] = {
        "",
        "[]",
        "{}",
        "{\"logprobs\":[]}",
        "{\"input_ids\":[1],\"logprobs\":[[],[]]}",
        "{\"input_ids\":[],\"logprobs\":[]}",
        "{\"input_ids\":[1,-2],\"logprobs\":[[]]}",
        "{\"input_ids\":[1,2.5],\"logprobs\":[[]]}",
        "{\"input_ids\":[1,2],\"logprobs\":[{}]}",
        "{\"input_ids\":[1,2],\"logprobs\":[[{\"token\":\"7\",\"logprob\":-1}]]}",
        "{\"input_ids\":[1,2],\"logprobs\":[[{\"token\":\"token_id:7x\",\"logprob\":-1}]]}",
        "{\"input_ids\":[1,2],\"logprobs\":[[{\"token\":\"token_id:7\",\"logprob\":null}]]}",
        "{\"input_ids\":[1,2],\"logprobs\":[[{\"token\":\"token_id:7\",\"logprob\":0.5}]]}",
        "{\"input_ids\":[1,2],\"logprobs\":[[{\"token\":\"token_id:4294967303\",\"logprob\":-1}]]}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(read_text(&d, RT_FOREIGN_AXOLOTL, wrong[i]), RT_FORMAT);
        assert_true(case_err.text[0] && !d.ids);
    }
}

static void test_kd(void **state)
{
    (void)state;
    char shard[100], kd[104];
    rt_foreign_doc docs[3] = { make_doc(1, 70), make_doc(50, 1), make_doc(90, TOKENS) }, back;
    rt_foreign_kd *f = NULL;
    snprintf(shard, sizeof shard, "%s/train-000.bin", case_root);
    snprintf(kd, sizeof kd, "%s.kd", shard);
    ok(rt_foreign_kd_write(shard, kd, docs, 3, VOCAB, "0123456789abcdef", &case_err));
    rt_map m;
    ok(rt_map_open(&m, kd, &case_err)); /* the layout, spelled out */
    assert_int_equal(m.size, 1024 + 6 * K * (71 + TOKENS));
    assert_memory_equal(m.data, "KD.LOGP\n\1\0\0\0\3\0\0\0\xdd\0\0\0\x28\0\0\0\0\0\0\0\0\0\0\0", 32);
    assert_memory_equal(m.data + 64, "0123456789abcdef", 16);
    assert_int_equal(rt_load_le(m.data + 1024 + 4 * K * 71, 4), docs[2].id[0]);
    assert_int_equal(rt_load_le(m.data + 1024 + 4 * K * (71 + TOKENS) + 2 * K * 71, 2),
                     rt_f16_from_f32(docs[2].logp[0]));
    rt_map_close(&m);
    ok(rt_foreign_kd_open(&f, shard, kd, 0, &case_err));
    assert_int_equal(rt_foreign_kd_k(f), K);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rt_foreign_kd_next(f, &back, &case_err), 1);
        expect_same(&docs[i], &back, 1.0f / 2048);
        rt_foreign_doc cached = through_cache(&back);
        expect_same(&back, &cached, 0);
        rt_foreign_doc_free(&cached);
        rt_foreign_doc_free(&back);
    }
    assert_int_equal(rt_foreign_kd_next(f, &back, &case_err), 0);
    rt_foreign_kd_close(f);
    ok(rt_foreign_kd_open(&f, shard, kd, 64, &case_err)); /* 221 tokens: 64, 6, 1, 57, 64, 29 */
    const uint32_t windows[] = { 64, 6, 1, 57, 64, 29 };
    for (int i = 0; i < 6; i++) {
        assert_int_equal(rt_foreign_kd_next(f, &back, &case_err), 1);
        assert_int_equal(back.tokens, windows[i]);
        rt_foreign_doc_free(&back);
    }
    rt_foreign_kd_close(f);
    refused(rt_foreign_kd_open(&f, kd, kd, 0, &case_err), RT_FORMAT, "not a token shard");
    refused(rt_foreign_kd_open(&f, shard, shard, 0, &case_err), RT_FORMAT, "not a .kd file");
    for (off_t n = 1024 + 6 * K * (71 + TOKENS) - 1; n >= 0; n -= 97) {
        assert_int_equal(truncate(kd, n), 0);
        assert_int_equal(rt_foreign_kd_open(&f, shard, kd, 0, &case_err), RT_FORMAT);
    }
    for (int i = 0; i < 3; i++) rt_foreign_doc_free(&docs[i]);
}

static void test_refused(void **state)
{
    (void)state;
    rt_cache_section s = { RT_KEEP_TOPK, 2, .T = 1 };
    rt_cache *c = new_cache(&s, 1);
    rt_cache_writer *w;
    rt_foreign_doc d = make_doc(1, 5), none;
    ok(rt_cache_writer_new(&w, c, 0, &case_err));
    const rt_cache_section wrong[] = { s, { RT_KEEP_DRAWS, 3, .T = 1 }, { RT_KEEP_TOPK, 3, .T = 1, .target = true } };
    for (int i = 0; i < 3; i++)
        refused(rt_foreign_put(w, &wrong[i], &d, &case_err), RT_INVALID, "without targets");
    refused(rt_foreign_take(c, 0, &d, &case_err), RT_INVALID, "top-3");
    refused(rt_foreign_doc_new(&none, 0, 1, &case_err), RT_FORMAT, "out of range");
    refused(rt_foreign_doc_new(&none, 1, 5000, &case_err), RT_FORMAT, "out of range");
    rt_cache_writer_free(w);
    rt_cache_close(c);
    rt_foreign_doc_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines), cmocka_unit_test(test_line_layouts),
                                        cmocka_unit_test(test_kd), cmocka_unit_test(test_refused) };
    return cmocka_run_group_tests(tests, open_case, close_case);
}
