/* wire_question.c - a question as bytes. See wire.h.
 *
 * at  type       question, 96 bytes, then: ids, start (B*T i32 each), position, target (count i32 each), key (2*count
 *  0  8 bytes    RTASKED1             u32), mask (mask_words u32)
 *  8  hash       of the teacher
 * 24  u32        keep: 0 top-k, 1 draws, 2 hidden states
 * 28  u32        1: held out
 * 32  u32 x 4    B, T, n, held_n
 * 48  f64, u64   temperature, seed
 * 64  u32 x 2    count, mask_words
 * 72  24 bytes   zero */
#include "teacher/remote/wire.h"

#include <math.h>
#include <string.h>

enum { HEADER = 96 };
static const char magic[8] = "RTASKED1";

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are sent as they lie in memory");

static uint32_t words(uint32_t bits) { return (bits + 31) / 32; }

void rt_wire_put_question(const rt_wire_question *q, rt_str *out)
{
    char h[HEADER] = { 0 };
    const size_t N = (size_t)q->B * q->T, n = q->count;
    const uint32_t numbers[] = { q->keep, q->held, q->B, q->T, q->n, q->held_n };
    memcpy(h, magic, sizeof magic);
    rt_store_le(h + 8, q->teacher.hi, 8);
    rt_store_le(h + 16, q->teacher.lo, 8);
    for (int i = 0; i < 6; i++) rt_store_le(h + 24 + 4 * i, numbers[i], 4);
    memcpy(h + 48, &q->temperature, sizeof q->temperature);
    rt_store_le(h + 56, q->seed, 8);
    rt_store_le(h + 64, q->count, 4);
    rt_store_le(h + 68, q->mask_words, 4);
    rt_str_append_n(out, h, sizeof h);
    rt_str_append_n(out, (const char *)q->ids, N * sizeof *q->ids);
    rt_str_append_n(out, (const char *)q->start, N * sizeof *q->start);
    rt_str_append_n(out, (const char *)q->position, n * sizeof *q->position);
    rt_str_append_n(out, (const char *)q->target, n * sizeof *q->target);
    rt_str_append_n(out, (const char *)q->key, 2 * n * sizeof *q->key);
    if (q->mask_words) rt_str_append_n(out, (const char *)q->mask, q->mask_words * sizeof *q->mask);
}

static int bad(rt_err *e, const char *what) { return rt_fail(e, RT_INVALID, "the question is none: %s", what); }

static int get_header(rt_wire_question *q, const char *h, size_t len, rt_err *e)
{
    if (len < HEADER || memcmp(h, magic, sizeof magic) != 0) return bad(e, "it does not begin with RTASKED1");
    *q = (rt_wire_question){ .teacher = { rt_load_le(h + 8, 8), rt_load_le(h + 16, 8) },
                             .held = rt_load_le(h + 28, 4) != 0,
                             .B = (uint32_t)rt_load_le(h + 32, 4),
                             .T = (uint32_t)rt_load_le(h + 36, 4),
                             .n = (uint32_t)rt_load_le(h + 40, 4),
                             .held_n = (uint32_t)rt_load_le(h + 44, 4),
                             .seed = rt_load_le(h + 56, 8),
                             .count = (uint32_t)rt_load_le(h + 64, 4),
                             .mask_words = (uint32_t)rt_load_le(h + 68, 4) };
    const uint64_t keep = rt_load_le(h + 24, 4);
    memcpy(&q->temperature, h + 48, sizeof q->temperature);
    if (keep >= RT_KEEP_KINDS) return bad(e, "it asks for what is neither top-k nor draws nor hidden states");
    q->keep = (rt_keep)keep;
    if (!q->B || !q->T || (uint64_t)q->B * q->T > RT_WIRE_POSITIONS) return bad(e, "it has no rows, or too many");
    if (!q->count || q->count > q->B * q->T) return bad(e, "it asks for no positions, or for more than it has");
    if (q->mask_words > words(RT_WIRE_WIDEST)) return bad(e, "its ids that count are too many");
    if (!(q->temperature > 0) || !isfinite(q->temperature)) return bad(e, "its temperature is not above 0");
    const bool list = q->keep != RT_KEEP_HIDDEN;
    if (list ? !q->n || !q->held_n || q->n > RT_WIRE_WIDEST || q->held_n > RT_WIRE_WIDEST : q->n || q->held_n)
        return bad(e, "the lengths of its lists are out of range");
    return RT_OK;
}

/* Documents lie in their rows one after the other, and every position that is asked for is one of theirs, once. */
static int check_rows(const rt_wire_question *q, rt_err *e)
{
    for (uint32_t r = 0; r < q->B; r++) {
        const int32_t *start = q->start + (size_t)r * q->T;
        for (uint32_t t = 0; t < q->T; t++) {
            const bool begins = start[t] == (int32_t)t, goes_on = t > 0 && start[t] == start[t - 1];
            if (!begins && !goes_on) return bad(e, "a document begins where none can");
        }
    }
    for (uint32_t i = 0; i < q->count; i++)
        if (q->position[i] < 0 || (uint32_t)q->position[i] >= q->B * q->T ||
            (i && q->position[i] <= q->position[i - 1]))
            return bad(e, "its positions are out of range or out of order");
    return RT_OK;
}

int rt_wire_get_question(rt_wire_question *q, const void *data, size_t len, rt_err *e)
{
    int rc;
    RT_TRY(get_header(q, data, len, e));
    const size_t N = (size_t)q->B * q->T, n = q->count;
    if (len != HEADER + 4 * (2 * N + 4 * n + q->mask_words)) RT_TRY(bad(e, "its length is another than it says"));
    const int32_t *at = (const int32_t *)((const char *)data + HEADER);
    q->ids = at;
    q->start = q->ids + N;
    q->position = q->start + N;
    q->target = q->position + n;
    q->key = (const uint32_t *)(q->target + n);
    q->mask = q->mask_words ? q->key + 2 * n : NULL;
    RT_TRY(check_rows(q, e));
out:
    return rc;
}

int rt_wire_check_question(const rt_wire_question *q, uint32_t vocab, rt_err *e)
{
    for (size_t i = 0; i < (size_t)q->B * q->T; i++)
        if (q->ids[i] < 0 || (uint32_t)q->ids[i] >= vocab)
            return rt_fail(e, RT_INVALID, "id %d is asked about, and the teacher has %u", q->ids[i], vocab);
    for (uint32_t i = 0; i < q->count; i++)
        if (q->target[i] < 0 || (uint32_t)q->target[i] >= vocab)
            return rt_fail(e, RT_INVALID, "id %d is a target, and the teacher has %u ids", q->target[i], vocab);
    if (q->n > vocab || q->held_n > vocab)
        return rt_fail(e, RT_INVALID, "lists of %u ids are asked for, and the teacher has %u",
                       q->n > q->held_n ? q->n : q->held_n, vocab);
    if (q->mask_words && q->mask_words != words(vocab))
        return rt_fail(e, RT_INVALID, "the ids that count are told of another vocabulary than the teacher's %u", vocab);
    uint32_t marked = 0;
    for (uint32_t i = 0; i < q->mask_words; i++) marked += (uint32_t)__builtin_popcount(q->mask[i]);
    if (q->mask_words && (marked == 0 || (vocab % 32 && q->mask[q->mask_words - 1] >> vocab % 32)))
        return rt_fail(e, RT_INVALID, "the ids that count are none, or beyond the teacher's %u", vocab);
    return RT_OK;
}
