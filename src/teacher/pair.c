/* pair.c - see pair.h. */
#include "teacher/pair.h"

#include <string.h>

void rt_pair_free(rt_pair *p)
{
    if (!p) return;
    rt_free(p->mask);
    *p = (rt_pair){ 0 };
}

rt_hash128 rt_pair_hash(const rt_pair *p)
{
    size_t words = ((size_t)p->student_rows + 31) / 32;
    while (words && !p->mask[words - 1]) words--;
    return rt_hash(p->mask, words * sizeof *p->mask);
}

/* An id as one side sees it. */
typedef struct side {
    bool defined, special;
    rt_token_info info;
} side;

static side look(const rt_tokenizer *t, uint32_t id, uint32_t rows)
{
    side s = { 0 };
    s.defined = id < rows && rt_tokenizer_token(t, id, &s.info);
    s.special = s.defined && (s.info.special || s.info.added);
    return s;
}

static bool same_bytes(const side *a, const side *b)
{
    return a->info.bytes.len == b->info.bytes.len &&
           memcmp(a->info.bytes.data, b->info.bytes.data, a->info.bytes.len) == 0;
}

/* A spelling for a message: short, without control characters. */
static void append_token(rt_str *out, const side *s)
{
    if (!s->defined) {
        rt_str_append(out, "nothing");
        return;
    }
    rt_str_append(out, "'");
    for (size_t i = 0; i < s->info.text.len && i < 24; i++) {
        unsigned char c = (unsigned char)s->info.text.data[i];
        if (c < 0x20 || c == 0x7f)
            rt_str_printf(out, "\\x%02x", c);
        else
            rt_str_append_n(out, (const char *)&c, 1);
    }
    rt_str_append(out, s->info.text.len > 24 ? "...'" : "'");
}

enum { SHOWN = 3 };

static void note_difference(rt_str *diff, uint32_t count, uint32_t id, const side *s, const side *t)
{
    if (count > SHOWN) return;
    rt_str_printf(diff, "%sid %u is ", diff->len ? "; " : "", id);
    append_token(diff, s);
    rt_str_append(diff, " to the student and ");
    append_token(diff, t);
    rt_str_append(diff, " to the teacher");
}

static void admit(rt_pair *p, uint32_t id)
{
    p->mask[id / 32] |= 1u << (id % 32);
    p->common++;
}

static int compare(rt_pair *p, const rt_tokenizer *student, const rt_tokenizer *teacher, rt_err *e)
{
    int rc = RT_OK;
    uint32_t most = p->student_rows > p->teacher_rows ? p->student_rows : p->teacher_rows, differ = 0;
    rt_str diff = { 0 };
    for (uint32_t id = 0; id < most; id++) {
        side s = look(student, id, p->student_rows), t = look(teacher, id, p->teacher_rows);
        p->student_padding += id < p->student_rows && !s.defined;
        p->teacher_padding += id < p->teacher_rows && !t.defined;
        if (!s.defined && !t.defined) continue;
        if (s.defined && t.defined && same_bytes(&s, &t)) {
            admit(p, id);
        } else if ((!s.defined || s.special) && (!t.defined || t.special)) {
            if (p->special_count < RT_PAIR_LISTED) p->special[p->special_count] = id;
            p->special_count++;
        } else
            note_difference(&diff, ++differ, id, &s, &t);
    }
    if (differ)
        rc = rt_fail(e, RT_INVALID,
                     "teacher and student have different vocabularies, %u ids differ: %s%s; distillation needs a pair "
                     "with one tokenizer",
                     differ, diff.data ? diff.data : "", differ > SHOWN ? "; ..." : "");
    rt_str_free(&diff);
    return rc;
}

/* A tokenizer that does not fit its model's rows was put there by mistake. */
static int check_size(const rt_tokenizer *t, uint32_t rows, const char *who, rt_err *e)
{
    rt_token_info info;
    for (uint32_t id = rows; id < rt_tokenizer_size(t); id++)
        if (rt_tokenizer_token(t, id, &info))
            return rt_fail(e, RT_INVALID, "the %s's tokenizer defines id %u, but its embedding has %u rows", who, id,
                           rows);
    return RT_OK;
}

static int believe(rt_pair *p, const rt_tokenizer *one, uint32_t vocab, rt_err *e)
{
    uint32_t least = p->student_rows < p->teacher_rows ? p->student_rows : p->teacher_rows;
    if (!vocab)
        return rt_fail(e, RT_INVALID,
                       "%s tokenizer, so nothing says which ids mean the same; give --vocab N (ids in "
                       "use) with token shards, or models with their tokenizers",
                       one ? "one of the two models has no" : "neither model has a");
    if (vocab > least)
        return rt_fail(e, RT_INVALID, "--vocab %u is more than the %u ids that both models have rows for", vocab,
                       least);
    if (one && vocab > rt_tokenizer_size(one))
        return rt_fail(e, RT_INVALID, "--vocab %u is more than the %u ids that the one tokenizer has", vocab,
                       rt_tokenizer_size(one));
    for (uint32_t id = 0; id < vocab; id++)
        if (!one || look(one, id, vocab).defined) admit(p, id);
    p->student_padding = p->student_rows - p->common;
    p->teacher_padding = p->teacher_rows - p->common;
    return RT_OK;
}

int rt_pair_check(rt_pair *out, const rt_tokenizer *student, uint32_t student_rows, const rt_tokenizer *teacher,
                  uint32_t teacher_rows, uint32_t vocab, rt_err *e)
{
    int rc;
    rt_pair p = { .student_rows = student_rows, .teacher_rows = teacher_rows };
    p.mask = rt_alloc_zero(((size_t)student_rows + 31) / 32 * sizeof *p.mask, 16);
    if (!p.mask) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to compare vocabularies of %u ids", student_rows));
    p.measured = student && teacher;
    if (student) RT_TRY(check_size(student, student_rows, "student", e));
    if (teacher) RT_TRY(check_size(teacher, teacher_rows, "teacher", e));
    if (p.measured)
        RT_TRY(compare(&p, student, teacher, e));
    else
        RT_TRY(believe(&p, student ? student : teacher, vocab, e));
    if (p.common < 2) RT_TRY(rt_fail(e, RT_INVALID, "teacher and student have %u ids in common", p.common));
    p.masked = p.common < student_rows || p.common < teacher_rows;
    *out = p;
    p.mask = NULL;
out:
    rt_pair_free(&p);
    return rc;
}

void rt_pair_describe(const rt_pair *p, rt_str *out)
{
    rt_str_printf(out, "%u ids in common%s", p->common, p->measured ? "" : " (not measured: no tokenizers to compare)");
    if (p->student_padding || p->teacher_padding)
        rt_str_printf(out, ", padding left out (%u rows of the student, %u of the teacher)", p->student_padding,
                      p->teacher_padding);
    if (p->special_count) {
        rt_str_printf(out, ", %u special ids that differ left out:", p->special_count);
        for (uint32_t i = 0; i < p->special_count && i < 8; i++) rt_str_printf(out, " %u", p->special[i]);
        if (p->special_count > 8) rt_str_append(out, " ...");
    }
}
