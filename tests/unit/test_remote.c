/* test_remote.c - a teacher behind HTTP: its name, questions, answers and descriptions as bytes, and vLLM's words for
 * them. Servers, lost connections and whole runs: tests/cli/remote.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "teacher/remote/http.h"
#include "teacher/remote/remote.h"
#include "teacher/remote/vllm.h"

#include <math.h>
#include <string.h>

enum { B = 2, T = 6, COUNT = 5, VOCAB = 300 };

/* Two rows, of which the second has two documents. */
static const int32_t ids[B * T] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
static const int32_t start[B * T] = { 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2 };
static const int32_t position[COUNT] = { 0, 1, 6, 8, 10 }, target[COUNT] = { 2, 3, 8, 10, 299 };
static const uint32_t key[2 * COUNT] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, mask[10] = { ~0u, 1, 0, 0, 0, 0, 0, 0, 0, 8 };

static rt_wire_question question(rt_keep keep, bool held, double temperature)
{
    return (rt_wire_question){ .teacher = { 5, 6 },
                               .keep = keep,
                               .held = held,
                               .B = B,
                               .T = T,
                               .n = keep == RT_KEEP_HIDDEN ? 0 : 2,
                               .held_n = keep == RT_KEEP_HIDDEN ? 0 : 3,
                               .temperature = temperature,
                               .seed = 77,
                               .ids = ids,
                               .start = start,
                               .count = COUNT,
                               .position = position,
                               .target = target,
                               .key = key,
                               .mask_words = 10,
                               .mask = mask };
}

/* ---- names ---- */

static void test_names(void **state)
{
    rt_arena a = { 0 };
    rt_remote_spec s;
    rt_err e = { 0 };
    static const char *const wrong[] = {
        "http://",        "http://x,y",         "http://x,wait=0",  "http://x,requests=17",  "http://x?q",
        "http://x,keep=", "http://x,api=other", "http://x,model=m", "http://x,keep=a,keep=b"
    };
    (void)state;
    assert_true(rt_remote_is("http://a") && rt_remote_is("HTTPS://a:1/b") && !rt_remote_is("org/http") &&
                !rt_remote_is("http:/x"));
    assert_int_equal(
        rt_remote_spec_parse(&s, "https://a:1/b//,keep=topk:9,cache=x y,wait=1.5,timeout=2,requests=16", &a, &e),
        RT_OK);
    assert_string_equal(s.url, "https://a:1/b");
    assert_string_equal(s.keep, "topk:9");
    assert_string_equal(s.cache, "x y");
    assert_true(s.wait == 1.5 && s.timeout == 2 && s.requests == 16 && !s.vllm && !s.model);
    assert_int_equal(rt_remote_spec_parse(&s, "http://a,api=vllm,model=org/m,tokenizer=t", &a, &e), RT_OK);
    assert_true(s.wait == 600 && s.timeout == 300 && s.requests == 4); /* as docs/teachers.md says */
    assert_true(s.vllm && strcmp(s.model, "org/m") == 0 && strcmp(s.tokenizer, "t") == 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(rt_remote_spec_parse(&s, wrong[i], &a, &e), RT_USAGE);
    rt_arena_free(&a);
}

/* ---- our own bytes ---- */

static void test_question(void **state)
{
    rt_err e = { 0 };
    rt_str s = { 0 };
    rt_wire_question q = question(RT_KEEP_DRAWS, true, 1.25), r;
    (void)state;
    rt_wire_put_question(&q, &s);
    assert_int_equal(rt_wire_get_question(&r, s.data, s.len, &e), RT_OK);
    assert_int_equal(rt_wire_check_question(&r, VOCAB, &e), RT_OK);
    assert_true(r.keep == q.keep && r.held && r.B == B && r.T == T && r.n == 2 && r.held_n == 3 && r.seed == 77);
    assert_true(r.temperature == 1.25 && r.count == COUNT && r.mask_words == 10 && rt_hash_equal(r.teacher, q.teacher));
    assert_memory_equal(r.ids, ids, sizeof ids);
    assert_memory_equal(r.start, start, sizeof start);
    assert_memory_equal(r.position, position, sizeof position);
    assert_memory_equal(r.target, target, sizeof target);
    assert_memory_equal(r.key, key, sizeof key);
    assert_memory_equal(r.mask, mask, sizeof mask);
    for (size_t n = 0; n < s.len; n++) assert_int_equal(rt_wire_get_question(&r, s.data, n, &e), RT_INVALID);
    /* What the teacher has not. */
    assert_int_equal(rt_wire_get_question(&r, s.data, s.len, &e), RT_OK);
    assert_int_equal(rt_wire_check_question(&r, 299, &e), RT_INVALID);
    assert_int_equal(rt_wire_check_question(&r, 400, &e), RT_INVALID);
    rt_str_free(&s);
}

/* An answer to each kind of question, of numbers that all differ. */
static rt_wire_answer answer(const rt_wire_question *q)
{
    rt_err e = { 0 };
    rt_wire_answer a;
    assert_int_equal(rt_wire_answer_new(&a, q, 12, &e), RT_OK);
    for (uint32_t l = 0; l < a.lists; l++)
        for (uint32_t i = 0; i < COUNT; i++) {
            rt_wire_list *x = &a.list[l];
            const float f = 0.01f * (float)(i + 10 * l + 1);
            for (uint32_t j = 0; j < x->n; j++) {
                x->id[i * x->n + j] = j < 2 ? (int32_t)(i + 20 * j + 50 * l) : -1;
                x->logp[i * x->n + j] = -f * (float)(j + 1);
            }
            if (x->rest) x->rest[i] = f;
            if (x->entropy) x->entropy[i] = 3 * f;
            if (x->target_logp) x->target_logp[i] = -5 * f;
        }
    if (a.hidden)
        for (uint32_t i = 0; i < COUNT * a.row; i++) ((uint8_t *)a.hidden)[i] = (uint8_t)(7 * i);
    return a;
}

static void expect_answer(rt_keep keep, bool held, double temperature, uint32_t lists)
{
    rt_err e = { 0 };
    rt_str s = { 0 };
    rt_wire_question q = question(keep, held, temperature), other = q;
    rt_wire_answer a = answer(&q), b;
    assert_int_equal(a.lists, lists);
    rt_wire_put_answer(&a, &q.teacher, &s);
    assert_int_equal(rt_wire_answer_new(&b, &q, 12, &e), RT_OK);
    assert_int_equal(rt_wire_get_answer(&b, &q, VOCAB, s.data, s.len, &e), RT_OK);
    for (uint32_t l = 0; l < lists; l++) {
        const rt_wire_list *x = &a.list[l], *y = &b.list[l];
        const bool draws = keep == RT_KEEP_DRAWS && !held;
        assert_true((x->entropy != NULL) == draws && (x->rest != NULL) == !draws &&
                    (x->target_logp != NULL) == (held && !l));
        assert_memory_equal(x->id, y->id, COUNT * x->n * 4);
        assert_memory_equal(x->logp, y->logp, COUNT * x->n * 4);
        if (x->rest) assert_memory_equal(x->rest, y->rest, COUNT * 4);
        if (x->entropy) assert_memory_equal(x->entropy, y->entropy, COUNT * 4);
        if (x->target_logp) assert_memory_equal(x->target_logp, y->target_logp, COUNT * 4);
    }
    if (a.hidden) assert_memory_equal(a.hidden, b.hidden, COUNT * a.row);
    for (size_t n = 0; n < s.len; n++) assert_int_equal(rt_wire_get_answer(&b, &q, VOCAB, s.data, n, &e), RT_FORMAT);
    for (size_t n = 0; n < s.len; n++) { /* any byte that is another */
        s.data[n] ^= 16;
        const int rc = rt_wire_get_answer(&b, &q, VOCAB, s.data, s.len, &e);
        assert_int_equal(rc, n >= 8 && n < 24 ? RT_INVALID : n >= 44 && n < 48 ? RT_OK : RT_FORMAT); /* 44: unused */
        s.data[n] ^= 16;
    }
    other.teacher.lo++;
    assert_int_equal(rt_wire_get_answer(&b, &other, VOCAB, s.data, s.len, &e), RT_INVALID);
    if (lists) assert_int_equal(rt_wire_get_answer(&b, &q, 20, s.data, s.len, &e), RT_FORMAT);
    rt_wire_answer_free(&a);
    rt_wire_answer_free(&b);
    rt_str_free(&s);
}

static void test_answers(void **state)
{
    (void)state;
    expect_answer(RT_KEEP_TOPK, false, 2, 1);
    expect_answer(RT_KEEP_TOPK, true, 1, 1);
    expect_answer(RT_KEEP_TOPK, true, 2, 2);
    expect_answer(RT_KEEP_DRAWS, false, 2, 1);
    expect_answer(RT_KEEP_DRAWS, true, 2, 2);
    expect_answer(RT_KEEP_HIDDEN, true, 1, 0);
}

/* Numbers that no softmax has given. */
static void test_nonsense(void **state)
{
    rt_err e = { 0 };
    const rt_wire_question q = question(RT_KEEP_TOPK, true, 1);
    static const float odd[] = { NAN, INFINITY, -INFINITY, 0.5f };
    (void)state;
    for (size_t i = 0; i < 3 * sizeof odd / sizeof *odd; i++) {
        rt_str s = { 0 };
        rt_wire_answer a = answer(&q);
        float *at = i % 3 == 0 ? a.list[0].logp : i % 3 == 1 ? a.list[0].target_logp : a.list[0].rest;
        at[1] = i % 3 == 2 && odd[i / 3] == 0.5f ? 1.5f : odd[i / 3];
        rt_wire_put_answer(&a, &q.teacher, &s);
        assert_int_equal(rt_wire_get_answer(&a, &q, VOCAB, s.data, s.len, &e), RT_FORMAT);
        rt_wire_answer_free(&a);
        rt_str_free(&s);
    }
}

static int describe(const char *name, rt_err *e)
{
    rt_str s = { 0 };
    rt_hash128 h;
    rt_wire_teacher t;
    const rt_wire_file files[] = { { "config.json", { "{}", 2 } }, { name, { "a\0b", 3 } }, { "empty", { "", 0 } } };
    json_t *about = json_pack("{s:{s:s}, s:s, s:i, s:i, s:i}", "teacher", "name", "big", "act", "bf16", "positions",
                              4096, "vocab", VOCAB, "width", 64);
    assert_true(rt_wire_put_teacher(about, files, 3, &s) && rt_wire_teacher_hash(about, &h));
    json_decref(about);
    const int rc = rt_wire_get_teacher(&t, s.data, s.len, e);
    if (rc >= 0) {
        assert_true(t.count == 3 && t.vocab == VOCAB && t.width == 64 && t.positions == 4096 && t.act == RT_DTYPE_BF16);
        assert_true(strcmp(t.file[1].name, name) == 0 && t.file[1].bytes.len == 3);
        assert_memory_equal(t.file[1].bytes.data, "a\0b", 3);
        json_decref(t.about);
        for (size_t n = 0; n < s.len; n++) assert_int_equal(rt_wire_get_teacher(&t, s.data, n, e), RT_FORMAT);
        for (size_t n = 0; n < s.len; n++) {
            s.data[n] ^= 8;
            assert_int_equal(rt_wire_get_teacher(&t, s.data, s.len, e), RT_FORMAT);
            s.data[n] ^= 8;
        }
    }
    rt_str_free(&s);
    return rc;
}

static void test_teacher(void **state)
{
    rt_err e = { 0 };
    static const char *const wrong[] = { "../x", "a/b", ".hidden", "", "a b" };
    (void)state;
    assert_int_equal(describe("tokenizer.json", &e), RT_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_int_equal(describe(wrong[i], &e), RT_FORMAT);
}

/* ---- vLLM ---- */

static bool text_of(void *ctx, uint32_t id, rt_span *out)
{
    static const char *const texts[] = { [10] = " ten", [66] = "B", [67] = "C" };
    (void)ctx;
    *out = (rt_span){ id == 10 || id == 66 || id == 67 ? texts[id] : NULL, 0 };
    out->len = out->data ? strlen(out->data) : 0;
    return out->data != NULL;
}
static const rt_vllm_ids known = { text_of, NULL, VOCAB };

/* One reply, with every member that vLLM's protocol lists; the second prompt's choice comes first. %s: a token. */
static const char recorded[] =
    "{\"id\":\"cmpl-7\",\"object\":\"text_completion\",\"created\":1,\"model\":\"org/big\",\"choices\":["
    "{\"index\":1,\"text\":\"x\",\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null,"
    "\"prompt_logprobs\":[null,"
    "{\"8\":{\"logprob\":-2.0,\"rank\":9,\"decoded_token\":\"\xef\xbf\xbd\"},"
    "\"66\":{\"logprob\":-0.5,\"rank\":1,\"decoded_token\":\"B\"}}]},"
    "{\"index\":0,\"text\":\"x\",\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null,"
    "\"prompt_logprobs\":[null,"
    "{\"2\":{\"logprob\":-1.0,\"rank\":2,\"decoded_token\":\"b\"},"
    "\"66\":{\"logprob\":-0.75,\"rank\":1,\"decoded_token\":\"B\"}},"
    "{\"66\":{\"logprob\":-0.25,\"rank\":1,\"decoded_token\":\"B\"},"
    "\"67\":{\"logprob\":-4.0,\"rank\":2,\"decoded_token\":%s},"
    "\"3\":{\"logprob\":-9999.0,\"rank\":90,\"decoded_token\":\"c\"}}]},"
    "{\"index\":2,\"text\":\"x\",\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null,"
    "\"prompt_logprobs\":[null,"
    "{\"10\":{\"logprob\":-1.5,\"rank\":1,\"decoded_token\":\"ten\"},"
    "\"5\":{\"logprob\":-1.5,\"rank\":1,\"decoded_token\":null}},"
    "{\"11\":{\"logprob\":-1.0,\"rank\":1,\"decoded_token\":\"\\u0000\"}},"
    "{\"299\":{\"logprob\":-0.125,\"rank\":1,\"decoded_token\":null}}]}],"
    "\"usage\":{\"prompt_tokens\":11,\"total_tokens\":12,\"completion_tokens\":1,\"prompt_tokens_details\":null},"
    "\"kv_transfer_params\":null}";

static void test_vllm_asks(void **state)
{
    rt_str s = { 0 };
    const rt_wire_question q = question(RT_KEEP_TOPK, false, 1);
    (void)state;
    rt_vllm_put_question(&q, "org/big", &s);
    assert_string_equal(s.data,
                        "{\"model\":\"org/big\",\"max_tokens\":1,\"temperature\":0,\"add_special_tokens\":false,"
                        "\"prompt_logprobs\":2,\"prompt\":[[1,2,3],[7,8],[9,10,11,299]]}");
    rt_str_free(&s);
}

static void test_vllm_says(void **state)
{
    rt_err e = { 0 };
    rt_str s = { 0 };
    rt_wire_answer a;
    rt_wire_question q = question(RT_KEEP_TOPK, true, 1);
    static const int32_t want[COUNT][3] = {
        { 66, 2, -1 }, { 66, 67, -1 }, { 66, 8, -1 }, { 5, 10, -1 }, { 299, -1, -1 }
    };
    static const float logp[COUNT][2] = {
        { -0.75f, -1 }, { -0.25f, -4 }, { -0.5f, -2 }, { -1.5f, -1.5f }, { -0.125f, 0 }
    };
    static const float targets[COUNT] = { -1, -9999, -2, -1.5f, -0.125f };
    (void)state;
    q.mask_words = 0;
    assert_int_equal(rt_wire_answer_new(&a, &q, 0, &e), RT_OK);
    rt_str_printf(&s, recorded, "\" C\"");
    assert_int_equal(rt_vllm_get_answer(&a, &q, &known, s.data, s.len, &e), RT_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        double rest = 1;
        assert_memory_equal(a.list[0].id + 3 * i, want[i], sizeof want[i]);
        for (uint32_t j = 0; j < 2 && want[i][j] >= 0; j++) {
            assert_true(a.list[0].logp[3 * i + j] == logp[i][j]);
            rest -= exp((double)logp[i][j]);
        }
        assert_true(fabs((double)a.list[0].rest[i] - rest) < 1e-7 && a.list[0].target_logp[i] == targets[i]);
    }
    /* What does not count is part of the rest. */
    q = question(RT_KEEP_TOPK, true, 1);
    q.mask_words = 10;
    assert_int_equal(rt_vllm_get_answer(&a, &q, &known, s.data, s.len, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "none of the ids that it lists counts"));
    assert_int_equal(a.list[0].id[0], 2);
    assert_true(fabs((double)a.list[0].rest[0] - (1 - exp(-1.0))) < 1e-7);
    for (size_t n = 0; n < s.len; n++) assert_int_equal(rt_vllm_get_answer(&a, &q, &known, s.data, n, &e), RT_FORMAT);
    /* An id in another spelling could be one that is listed already. */
    q.mask_words = 0;
    strstr(s.data, "\"67\"")[1] = '0';
    assert_int_equal(rt_vllm_get_answer(&a, &q, &known, s.data, s.len, &e), RT_FORMAT);
    assert_non_null(strstr(e.text, "no id"));
    rt_str_free(&s);
    /* Another word for an id. */
    q.mask_words = 0;
    rt_str_printf(&s, recorded, "\"D\"");
    assert_int_equal(rt_vllm_get_answer(&a, &q, &known, s.data, s.len, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "another vocabulary: id 67 is 'D' there, and 'C' here"));
    rt_str_free(&s);
    rt_wire_answer_free(&a);
}

static void test_vllm_models(void **state)
{
    rt_err e = { 0 };
    rt_arena a = { 0 };
    const char *name;
    uint32_t context;
    static const char one[] =
        "{\"object\":\"list\",\"data\":[{\"id\":\"org/big\",\"object\":\"model\",\"created\":1,\"owned_by\":\"vllm\","
        "\"root\":\"org/big\",\"parent\":null,\"max_model_len\":4096,\"permission\":[]}]}";
    static const char two[] = "{\"data\":[{\"id\":\"a\"},{\"id\":\"b\"}]}";
    (void)state;
    assert_int_equal(rt_vllm_get_model(&name, &context, NULL, &a, one, sizeof one - 1, &e), RT_OK);
    assert_true(strcmp(name, "org/big") == 0 && context == 4096);
    assert_int_equal(rt_vllm_get_model(&name, &context, "b", &a, two, sizeof two - 1, &e), RT_OK);
    assert_true(strcmp(name, "b") == 0 && context == 0);
    assert_int_equal(rt_vllm_get_model(&name, &context, NULL, &a, two, sizeof two - 1, &e), RT_INVALID);
    assert_int_equal(rt_vllm_get_model(&name, &context, "c", &a, two, sizeof two - 1, &e), RT_INVALID);
    assert_int_equal(rt_vllm_get_model(&name, &context, NULL, &a, "[]", 2, &e), RT_FORMAT);
    rt_arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),     cmocka_unit_test(test_question),    cmocka_unit_test(test_answers),
        cmocka_unit_test(test_nonsense),  cmocka_unit_test(test_teacher),     cmocka_unit_test(test_vllm_asks),
        cmocka_unit_test(test_vllm_says), cmocka_unit_test(test_vllm_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
