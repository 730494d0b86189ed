/* fuzz_remote.c - any bytes as what comes over a network: a question, an answer, the description of a teacher, and
 * vLLM's replies.
 *
 * The first byte chooses which. Of a question, an answer and a description the hashes and lengths are set right by a
 * bit of it, so that what lies behind them is reached. What is read is in range, and is the same when it is written and
 * read again; what is not is refused with a reason. With -DRT_FUZZ_REPLAY it has a main() of its own (replay.h). */
#include "base/json.h"
#include "teacher/remote/vllm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

enum { ROWS = 2, LENGTH = 6, ASKED = 5, VOCAB = 300, N = 3, MOST = 1 << 16 };

/* Two rows, of which the second has two documents. */
static const int32_t ids[ROWS * LENGTH] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
static const int32_t start[ROWS * LENGTH] = { 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2 };
static const int32_t position[ASKED] = { 0, 1, 7, 8, 10 }, target[ASKED] = { 2, 3, 200, 10, 12 };
static const uint32_t key[2 * ASKED], mask[10] = { ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 15 };

static rt_wire_question question_of(unsigned kind)
{
    const bool hidden = kind % 3 == RT_KEEP_HIDDEN;
    return (rt_wire_question){ .keep = (rt_keep)(kind % 3),
                               .held = kind & 4,
                               .B = ROWS,
                               .T = LENGTH,
                               .n = hidden ? 0 : N,
                               .held_n = hidden ? 0 : N + 1,
                               .temperature = kind & 8 ? 2 : 1,
                               .ids = ids,
                               .start = start,
                               .count = ASKED,
                               .position = position,
                               .target = target,
                               .key = key,
                               .mask = kind & 16 ? mask : NULL,
                               .mask_words = kind & 16 ? 10 : 0 };
}

static void put_hash(char *at, rt_hash128 h)
{
    rt_store_le(at, h.hi, 8);
    rt_store_le(at + 8, h.lo, 8);
}

/* Memory that is aligned, and no longer than the message, so that a byte read beyond it is found. */
static char *copy_of(const uint8_t *data, size_t size)
{
    char *copy = rt_alloc(size ? size : 1, 16);
    require(copy != NULL);
    if (size) memcpy(copy, data, size);
    return copy;
}

static void read_question(char *at, size_t size, bool right)
{
    rt_err e = { 0 };
    rt_str again = { 0 };
    rt_wire_question q;
    if (right && size >= 96) memcpy(at, "RTASKED1", 8);
    int rc = rt_wire_get_question(&q, at, size, &e);
    if (rc >= 0) rc = rt_wire_check_question(&q, VOCAB, &e);
    require(rc >= 0 || (rc == RT_INVALID && e.text[0]));
    if (rc < 0) return;
    rt_wire_put_question(&q, &again);
    require(again.len == size);
    for (size_t i = 0; i < (size_t)q.B * q.T; i++) require(q.ids[i] >= 0 && q.ids[i] < VOCAB && q.start[i] >= 0);
    for (uint32_t i = 0; i < q.count; i++) require((uint32_t)q.position[i] < q.B * q.T && q.target[i] < VOCAB);
    rt_str_free(&again);
}

static void check_lists(const rt_wire_answer *a)
{
    for (uint32_t l = 0; l < a->lists; l++)
        for (uint32_t i = 0; i < a->count; i++) {
            const rt_wire_list *x = &a->list[l];
            for (uint32_t j = 0; j < x->n; j++) {
                const size_t at = (size_t)i * x->n + j;
                require(x->id[at] >= -1 && x->id[at] < VOCAB && (x->id[at] < 0 || isfinite(x->logp[at])));
            }
            require(x->id[(size_t)i * x->n] >= 0 && (!x->rest || (x->rest[i] >= 0 && x->rest[i] <= 1.001f)));
            require(!x->target_logp || isfinite(x->target_logp[i]));
        }
}

static void read_answer(char *at, size_t size, unsigned kind, bool right)
{
    rt_err e = { 0 };
    rt_str again = { 0 };
    rt_wire_answer a, b;
    const rt_wire_question q = question_of(kind);
    require(rt_wire_answer_new(&a, &q, 8, &e) == RT_OK && rt_wire_answer_new(&b, &q, 8, &e) == RT_OK);
    if (right && size >= 64) {
        const uint32_t numbers[] = { a.count, a.lists, a.list[0].n, a.list[1].n, a.row };
        memcpy(at, "RTSAID01", 8);
        put_hash(at + 8, q.teacher);
        for (int i = 0; i < 5; i++) rt_store_le(at + 24 + 4 * i, numbers[i], 4);
        put_hash(at + 48, rt_hash(at + 64, size - 64));
    }
    const int rc = rt_wire_get_answer(&a, &q, VOCAB, at, size, &e);
    require(rc >= 0 || ((rc == RT_FORMAT || rc == RT_INVALID) && e.text[0]));
    if (rc >= 0) {
        check_lists(&a);
        rt_wire_put_answer(&a, &q.teacher, &again);
        require(again.len == size && rt_wire_get_answer(&b, &q, VOCAB, again.data, again.len, &e) == RT_OK);
    }
    rt_wire_answer_free(&a);
    rt_wire_answer_free(&b);
    rt_str_free(&again);
}

static void read_teacher(char *at, size_t size, bool right)
{
    rt_err e = { 0 };
    rt_str again = { 0 };
    rt_hash128 h;
    rt_wire_teacher t, u;
    if (right && size >= 32) { /* the object ends with the first line */
        const char *end = memchr(at + 32, '\n', size - 32);
        const size_t bytes = end ? (size_t)(end - at - 31) : size - 32;
        memcpy(at, "RTTEACH1", 8);
        rt_store_le(at + 8, bytes, 8);
        put_hash(at + 16, rt_hash(at + 32, bytes));
    }
    const int rc = rt_wire_get_teacher(&t, at, size, &e);
    require(rc >= 0 || (rc == RT_FORMAT && e.text[0] && !t.about));
    if (rc < 0) return;
    for (uint32_t i = 0; i < t.count; i++) require(!strchr(t.file[i].name, '/') && t.file[i].name[0] != '.');
    json_t *about = json_deep_copy(t.about);
    require(about && rt_wire_teacher_hash(t.about, &h) && rt_wire_put_teacher(about, t.file, t.count, &again));
    require(rt_wire_get_teacher(&u, again.data, again.len, &e) == RT_OK && u.count == t.count && u.vocab == t.vocab);
    json_decref(u.about);
    json_decref(about);
    json_decref(t.about);
    rt_str_free(&again);
}

static bool text_of(void *ctx, uint32_t id, rt_span *out)
{
    static char letter;
    (void)ctx;
    letter = (char)id;
    *out = (rt_span){ &letter, 1 };
    return id < 128;
}

static void read_vllm(const char *at, size_t size, unsigned kind)
{
    rt_err e = { 0 };
    rt_arena arena = { 0 };
    const char *name;
    uint32_t context;
    rt_wire_answer a;
    const rt_vllm_ids known = { text_of, NULL, VOCAB };
    rt_wire_question q = question_of(kind & 4 ? 12 : 0); /* all that is asked of a vLLM: top-k, held out or not */
    q.temperature = 1;
    q.mask_words = kind & 16 ? 10 : 0;
    q.mask = kind & 16 ? mask : NULL;
    int rc = rt_vllm_get_model(&name, &context, kind & 1 ? "org/big" : NULL, &arena, at, size, &e);
    require(rc >= 0 ? name != NULL : e.text[0] && (rc == RT_FORMAT || rc == RT_INVALID));
    require(rt_wire_answer_new(&a, &q, 0, &e) == RT_OK);
    rc = rt_vllm_get_answer(&a, &q, &known, at, size, &e);
    require(rc >= 0 || ((rc == RT_FORMAT || rc == RT_INVALID) && e.text[0]));
    if (rc >= 0) check_lists(&a);
    rt_wire_answer_free(&a);
    rt_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rt_json_init();
    if (size < 2 || size > MOST) return 0;
    char *at = copy_of(data + 2, size - 2);
    const bool right = data[0] & 4;
    switch (data[0] & 3) {
    case 0: read_question(at, size - 2, right); break;
    case 1: read_answer(at, size - 2, data[1], right); break;
    case 2: read_teacher(at, size - 2, right); break;
    default: read_vllm(at, size - 2, data[1]);
    }
    rt_free(at);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
