/* test_evaluate.c - the measures of an evaluation: mean and standard error over documents against a computation by
 * hand, pieces of one record as one document, a word, rows that fill up a batch, and when a measure has fallen or
 * risen. */
#include "train_case.h"

#include "train/evaluate.h"
#include "train/trend.h"

#include <ctype.h>
#include <math.h>

enum { T = 24, B = 2 };

static rt_model_config student, teacher;
static rt_model_file *student_file, *teacher_file;

static int set_up(void **state)
{
    if (make_test_dir(state) != 0) return -1;
    student = tiny_config("tiny-qwen2", 1);
    teacher = tiny_config("tiny-llama", 2);
    write_model(in_dir("s"), &student, RT_DTYPE_F32, true);
    write_model(in_dir("t"), &teacher, RT_DTYPE_F32, true);
    student_file = open_model(in_dir("s"));
    teacher_file = open_model(in_dir("t"));
    return 0;
}

static int tear_down(void **state)
{
    rt_model_file_close(student_file);
    rt_model_file_close(teacher_file);
    return remove_test_dir(state);
}

static rt_trainer *open_trainer(rt_dev *d, bool with_teacher)
{
    rt_err e = { 0 };
    rt_trainer *t = NULL;
    rt_step_opts o = step_options(&student, with_teacher ? &teacher : NULL, B, T);
    o.loss.divergence = RT_DIV_REVERSE_KL;
    o.loss.temperature = 2.0;
    o.eval_only = true;
    if (rt_trainer_open(&t, d, &o, &(rt_seal_opts){ .poison = true, .guards = true }, &e) < 0) fail_msg("%s", e.text);
    if (rt_trainer_load(t, student_file, with_teacher ? teacher_file : NULL, NULL, 0, &e) < 0) fail_msg("%s", e.text);
    return t;
}

typedef struct data {
    rt_shard *shard;
    rt_rows *rows;
} data;

/* The rows keep a pointer to the shard in d. */
static void open_data(data *d, const char *name, const uint32_t *lengths, uint32_t count, uint32_t vocab)
{
    rt_err e = { 0 };
    write_shard(in_dir(name), lengths, count, vocab);
    if (rt_shard_open(&d->shard, in_dir(name), &(rt_shard_expect){ 0 }, &e) < 0) fail_msg("%s", e.text);
    rt_rows_source s = { .name = name, .shards = &d->shard, .count = 1 };
    rt_rows_opts o = { .seq_len = T, .in_order = true, .epochs = 1 };
    if (rt_rows_open(&d->rows, &s, 1, &o, &e) < 0) fail_msg("%s", e.text);
}

static void close_data(data *d)
{
    rt_rows_close(d->rows);
    rt_shard_close(d->shard);
}

/* Sums of a document by number; a measure after another. */
typedef struct sums {
    double s[5][16], n[16];
    uint32_t docs;
} sums;

/* The rows again, one batch after another through the trainer, added up by the record that each position is of. */
static void by_hand(sums *out, rt_trainer *t, rt_rows *rows)
{
    enum { N = B * T };
    int32_t ids[N], pos[N], start[N], target[N];
    float v[5][N];
    rt_err e = { 0 };
    memset(out, 0, sizeof *out);
    for (int more = 1; more;) {
        uint64_t record[N];
        for (uint32_t i = 0; i < N; i++) target[i] = -1, ids[i] = start[i] = 0, pos[i] = (int32_t)(i % T);
        for (uint32_t b = 0; b < B && more; b++) {
            rt_row row = { ids + b * T, target + b * T, start + b * T, pos + b * T, 0, 0, 0, NULL, 0 };
            more = rt_rows_next(rows, &row, &e);
            assert_true(more >= 0);
            for (uint32_t k = 0; more && k < row.doc_count; k++)
                for (uint32_t i = 0; i < row.docs[k].len; i++)
                    record[b * T + row.docs[k].begin + i] = row.docs[k].record;
        }
        rt_batch batch = { ids, pos, start, target, NULL };
        rt_eval_out eo = { v[0], v[1], v[2], v[3], v[4] };
        if (rt_trainer_eval(t, &batch, &eo, &e) < 0) fail_msg("%s", e.text);
        for (uint32_t i = 0; i < N; i++) {
            if (target[i] < 0) continue;
            assert_true(record[i] < 16);
            for (int m = 0; m < 5; m++) out->s[m][record[i]] += v[m][i];
            out->n[record[i]]++;
            if (record[i] >= out->docs) out->docs = (uint32_t)record[i] + 1;
        }
    }
}

static void compare(const sums *s, int m, rt_measure got, const char *name)
{
    double sum = 0, n = 0, spread = 0, D = s->docs;
    for (uint32_t d = 0; d < s->docs; d++) sum += s->s[m][d], n += s->n[d];
    for (uint32_t d = 0; d < s->docs; d++) {
        double off = s->s[m][d] - sum / n * s->n[d];
        spread += off * off;
    }
    double error = sqrt(D / (D - 1) * spread) / n;
    if (fabs(got.mean - sum / n) > 1e-9 * fabs(sum / n) || fabs(got.error - error) > 1e-9 * error)
        fail_msg("%s: %.12g +- %.12g, by hand %.12g +- %.12g", name, got.mean, got.error, sum / n, error);
    assert_true(got.error > 0);
}

/* Documents of many lengths: packed ones, one that fills a row, two that are cut into pieces. */
static void test_against_hand(void **state)
{
    (void)state;
    static const uint32_t lengths[] = { 5, 24, 60, 9, 3, 100, 11, 2 };
    rt_dev *d = open_device("cpu", 2);
    rt_trainer *t = open_trainer(d, true);
    data a, b;
    rt_eval_set *set = NULL;
    rt_eval_result r;
    rt_err e = { 0 };
    sums s;
    open_data(&a, "a", lengths, 8, 272);
    open_data(&b, "b", lengths, 8, 272);
    if (rt_eval_set_new(&set, a.rows, B, T, 0, &e) < 0) fail_msg("%s", e.text);
    uint64_t n = rt_eval_set_positions(set);
    float *each = calloc(n, sizeof *each);
    if (rt_evaluate(t, set, &r, each, &e) < 0) fail_msg("%s", e.text);
    by_hand(&s, t, b.rows);
    double total = 0, kl = 0;
    for (int i = 0; i < 8; i++) total += s.n[i];
    assert_int_equal(s.docs, 8);
    assert_int_equal(r.documents, 8); /* records, not their pieces */
    assert_int_equal(r.positions, n);
    assert_true(total == (double)n && r.teacher);
    compare(&s, 0, r.ce, "ce");
    compare(&s, 1, r.div, "divergence");
    compare(&s, 2, r.kl, "forward kl");
    compare(&s, 4, r.teacher_ce, "teacher ce");
    assert_true(r.kl.mean != r.div.mean && r.ce.mean != r.teacher_ce.mean);
    assert_true(r.agreement.mean >= 0 && r.agreement.mean <= 1);
    for (uint64_t i = 0; i < n; i++) kl += each[i];
    assert_true(fabs(kl / (double)n - r.kl.mean) < 1e-9 * r.kl.mean);
    free(each);
    rt_eval_set_free(set);
    close_data(&a);
    close_data(&b);
    rt_trainer_free(t);
    d->api->close(d);
}

/* The size of a batch, and rows that only fill one up, change nothing. */
static void test_batches(void **state)
{
    (void)state;
    static const uint32_t lengths[] = { 24, 24, 24, 24, 24 };
    rt_dev *d = open_device("cpu", 2);
    rt_trainer *t = open_trainer(d, false);
    rt_err e = { 0 };
    rt_eval_result five, three;
    rt_eval_set *set = NULL;
    data a;
    open_data(&a, "five", lengths, 5, 272);
    if (rt_eval_set_new(&set, a.rows, B, T, 0, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_eval_set_rows(set), 5);
    if (rt_evaluate(t, set, &five, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_true(five.positions == 5 * (T - 1) && !five.teacher && five.documents == 5);
    assert_true(five.kl.mean == 0 && isfinite(five.ce.mean));
    rt_eval_set_free(set);
    close_data(&a);
    open_data(&a, "three", lengths, 5, 272);
    assert_int_equal(rt_eval_set_new(&set, a.rows, B, T, 3, &e), RT_OK);
    assert_int_equal(rt_eval_set_rows(set), 3);
    if (rt_evaluate(t, set, &three, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_true(three.documents == 3 && three.positions == 3 * (T - 1));
    rt_eval_set_free(set);
    close_data(&a);
    rt_trainer_free(t);
    d->api->close(d);
}

/* Some of the rows: of every document before a second of any, the same again, others with another seed. */
static void test_pick(void **state)
{
    (void)state;
    static const uint32_t lengths[] = { 240, 24, 240, 24, 120 };
    rt_err e = { 0 };
    int32_t first[3][6];
    for (int k = 0; k < 3; k++) {
        rt_eval_set *set = NULL;
        bool seen[5] = { 0 };
        data a;
        open_data(&a, "pick", lengths, 5, 272);
        if (rt_eval_set_new(&set, a.rows, B, T, 0, &e) < 0) fail_msg("%s", e.text);
        uint32_t all = rt_eval_set_rows(set);
        if (rt_eval_set_pick(set, all, 7, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(rt_eval_set_rows(set), all);
        if (rt_eval_set_pick(set, 6, k == 2 ? 8 : 7, &e) < 0) fail_msg("%s", e.text);
        assert_true(rt_eval_set_rows(set) == 6 && rt_eval_set_of(set) == all && all > 20);
        uint64_t positions = 0;
        for (uint32_t i = 0; i < rt_eval_set_documents(set); i++) {
            rt_eval_document d;
            rt_eval_set_document(set, i, &d);
            for (uint32_t p = 0; p < d.len; p++) positions += d.target[p] >= 0;
            for (int n = 0; n < 5; n++) seen[n] = seen[n] || (d.begins && d.len == lengths[n]);
        }
        assert_int_equal(positions, rt_eval_set_positions(set));
        assert_true(seen[1] || seen[3]); /* the short ones are whole */
        assert_int_equal(rt_eval_set_documents(set), 6);
        for (int i = 0; i < 6; i++) {
            const rt_batch b = rt_eval_set_all(set);
            int64_t hash = 0;
            for (int p = 0; p < T; p++) hash = (hash * 31 + b.ids[i * T + p]) % 1000003;
            first[k][i] = (int32_t)hash;
        }
        rt_eval_set_free(set);
        close_data(&a);
    }
    assert_memory_equal(first[0], first[1], sizeof first[0]);
    assert_true(memcmp(first[0], first[2], sizeof first[0]) != 0);
}

static void test_one_document(void **state)
{
    (void)state;
    static const uint32_t one[] = { 70 };
    rt_dev *d = open_device("cpu", 1);
    rt_trainer *t = open_trainer(d, false);
    rt_err e = { 0 };
    rt_eval_result r;
    rt_eval_set *set = NULL;
    data a;
    open_data(&a, "one", one, 1, 272);
    if (rt_eval_set_new(&set, a.rows, B, T, 0, &e) < 0) fail_msg("%s", e.text);
    if (rt_evaluate(t, set, &r, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_true(r.documents == 1 && isfinite(r.ce.mean) && isnan(r.ce.error)); /* not measured is not 0 */
    rt_eval_set_free(set);
    close_data(&a);
    rt_trainer_free(t);
    d->api->close(d);
}

static void test_ids(void **state)
{
    (void)state;
    static const uint32_t lengths[] = { 24, 24 };
    rt_err e = { 0 };
    rt_eval_set *set = NULL;
    int32_t bad = -1;
    uint32_t all[9], some[9];
    data a;
    open_data(&a, "ids", lengths, 2, 200);
    if (rt_eval_set_new(&set, a.rows, B, T, 0, &e) < 0) fail_msg("%s", e.text);
    memset(all, 0xff, sizeof all);
    memset(some, 0xff, sizeof some);
    assert_true(rt_eval_set_within(set, all, 272, &bad));
    assert_true(rt_eval_set_below(set, 200, &bad));
    some[10 / 32] &= ~(1u << 10 % 32); /* the second id of the first document */
    assert_false(rt_eval_set_within(set, some, 272, &bad));
    assert_int_equal(bad, 10);
    assert_false(rt_eval_set_within(set, all, 10, &bad));
    assert_false(rt_eval_set_below(set, 10, &bad));
    assert_true(bad >= 10);
    rt_eval_set_free(set);
    close_data(&a);
    /* 0 10, 31 9: the largest id begins a document, so it is nobody's target */
    static const uint32_t pairs[] = { 2, 2 };
    open_data(&a, "first", pairs, 2, 32);
    if (rt_eval_set_new(&set, a.rows, B, T, 0, &e) < 0) fail_msg("%s", e.text);
    assert_true(rt_eval_set_below(set, 32, &bad));
    assert_false(rt_eval_set_below(set, 31, &bad));
    assert_int_equal(bad, 31);
    rt_eval_set_free(set);
    close_data(&a);
}

static void test_nothing_to_measure(void **state)
{
    (void)state;
    static const uint32_t lengths[] = { 24 };
    rt_err e = { 0 };
    rt_eval_set *set = NULL;
    int32_t ids[T], target[T], start[T], pos[T];
    data a;
    open_data(&a, "none", lengths, 1, 272);
    rt_row row = { .ids = ids, .target = target, .start = start, .pos = pos };
    assert_int_equal(rt_rows_next(a.rows, &row, &e), 1); /* takes the only row */
    assert_int_equal(rt_eval_set_new(&set, a.rows, B, T, 0, &e), RT_INVALID);
    assert_says(&e, "held-out|--held-out|--eval-data");
    assert_null(set);
    close_data(&a);
}

static void test_fell_and_rose(void **state)
{
    (void)state;
    rt_measure high = { 2.0, 0.3, 0 }, low = { 1.0, 0.4, 0 }, near = { 1.01, 0.4, 0 }, unknown = { 0.0, NAN, 0 };
    /* two standard errors of both together are 1.0 */
    assert_false(rt_measure_fell(high, low));
    high.mean = 2.001;
    assert_true(rt_measure_fell(high, low) && !rt_measure_rose(high, low));
    assert_true(rt_measure_rose(low, high) && !rt_measure_fell(low, high));
    assert_true(!rt_measure_fell(near, low) && !rt_measure_rose(low, near));
    assert_true(!rt_measure_fell(high, high) && !rt_measure_rose(high, high));
    assert_true(!rt_measure_fell(high, unknown) && !rt_measure_rose(unknown, high)); /* not measured never passes */
    /* documents differ by more than they changed, and all of them changed */
    rt_measure before = { 5.0, 1.0, 0 }, after = { 4.0, 1.1, 0.2 };
    assert_true(rt_measure_fell(before, after) && !rt_measure_rose(before, after));
    after.paired = 0.6;
    assert_false(rt_measure_fell(before, after));
}

/* The error of a change is over what each document changed by; the line that keeps them reads back to the same bits. */
static void test_paired(void **state)
{
    (void)state;
    static const uint32_t lengths[] = { 5, 24, 60, 9, 3, 100, 11, 2 };
    static const double fell[] = { 1, 24, 55, 9, 2, 99, 12, 1 };
    rt_dev *d = open_device("cpu", 2);
    rt_trainer *t = open_trainer(d, true);
    rt_eval_set *set = NULL;
    rt_eval_result first, r;
    rt_err e = { 0 };
    sums s;
    data a, b;
    double sum = 0, n = 0, spread = 0;
    open_data(&a, "a", lengths, 8, 272);
    open_data(&b, "b", lengths, 8, 272);
    by_hand(&s, t, b.rows);
    if (rt_eval_set_new(&set, a.rows, B, T, 0, &e) < 0) fail_msg("%s", e.text);
    if (rt_evaluate(t, set, &first, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_true(first.ce.paired == 0 && rt_eval_set_rebase(set));
    json_t *line = rt_eval_base_json(set), *list = json_object_get(json_object_get(line, "sums"), "ce");
    assert_int_equal(json_array_size(list), 8);
    for (uint32_t i = 0; i < 8; i++) {
        sum += fell[i], n += s.n[i];
        assert_true(fabs(json_number_value(json_array_get(list, i)) - s.s[0][i]) < 1e-9 * s.s[0][i]);
        json_array_set_new(list, i, json_real(json_number_value(json_array_get(list, i)) + fell[i]));
    }
    for (uint32_t i = 0; i < 8; i++) spread += pow(fell[i] - sum / n * s.n[i], 2);
    assert_true(rt_eval_base_take_line(set, line));
    if (rt_evaluate(t, set, &r, NULL, &e) < 0) fail_msg("%s", e.text);
    double error = sqrt(8.0 / 7 * spread) / n;
    assert_true(r.ce.mean == first.ce.mean && r.ce.error == first.ce.error);
    assert_true(fabs(r.ce.paired - error) < 1e-6 * error && r.kl.paired == 0 && error < r.ce.error);
    json_array_remove(list, 0); /* other documents */
    assert_false(rt_eval_base_take_line(set, line));
    json_decref(line);
    line = rt_eval_to_json(3, &r);
    assert_true(rt_eval_read(line).ce.paired == r.ce.paired);
    assert_int_equal(json_array_size(json_object_get(line, "forward_kl")), 2); /* not known */
    json_decref(line);
    rt_eval_set_free(set);
    close_data(&a);
    close_data(&b);
    rt_trainer_free(t);
    d->api->close(d);
}

/* ---- a word ---- */

static const char *const texts[] = {
    "to return or not to return, that is it",
    "it returns my_return, returned",
    "no such word in here, only letters",
    "return first is not predicted, return second is",
    "one more that is long enough to be cut into several pieces, and one return stands where two rows meet: return",
};
enum { TEXTS = sizeof texts / sizeof *texts };

static void write_texts(const char *path)
{
    rt_err e = { 0 };
    rt_shard_writer *w = NULL;
    rt_shard_identity id = { .vocab = 272 };
    if (rt_shard_writer_new(&w, path, &id, &e) < 0) fail_msg("%s", e.text);
    for (int i = 0; i < TEXTS; i++) {
        uint32_t ids[256], n = (uint32_t)strlen(texts[i]);
        assert_true(n <= 256);
        for (uint32_t k = 0; k < n; k++) ids[k] = (unsigned char)texts[i][k];
        rt_encoded r = { .kind = RT_RECORD_TEXT, .ids = { ids, n, 256 }, .all_targets = true, .trained = n - 1 };
        if (rt_shard_writer_add(w, &r, 0, RT_PART_WHOLE, &e) < 0) fail_msg("%s", e.text);
    }
    if (rt_shard_writer_commit(w, "{}", &e) < 0) fail_msg("%s", e.text);
    rt_shard_writer_free(w);
}

static rt_rows *open_texts(rt_shard **shard)
{
    rt_err e = { 0 };
    rt_rows *rows = NULL;
    if (rt_shard_open(shard, in_dir("texts"), &(rt_shard_expect){ 0 }, &e) < 0) fail_msg("%s", e.text);
    rt_rows_source s = { .name = "texts", .shards = shard, .count = 1 };
    rt_rows_opts o = { .seq_len = T, .in_order = true, .epochs = 1 };
    if (rt_rows_open(&rows, &s, 1, &o, &e) < 0) fail_msg("%s", e.text);
    return rows;
}

static rt_tokenizer *byte_tokenizer(void)
{
    rt_err e = { 0 };
    rt_str json = { 0 };
    rt_tokenizer *t = NULL;
    assert_int_equal(rt_byte_tokenizer_json(&json, 272, &e), RT_OK);
    if (rt_tokenizer_from_json(&t, json.data, json.len, &e) < 0) fail_msg("%s", e.text);
    rt_str_free(&json);
    return t;
}

/* CE of every letter of every text, and the row that predicted it; the first letter of a piece is in none. */
typedef struct letters {
    double ce[2][TEXTS][256]; /* student, teacher */
    int row[TEXTS][256];
} letters;

static void measure_letters(letters *l, rt_trainer *t, rt_rows *rows)
{
    int32_t ids[B * T], pos[B * T], start[B * T], target[B * T];
    float v[5][B * T];
    rt_err e = { 0 };
    memset(l, 0, sizeof *l);
    for (int number = 1;; number++) {
        rt_row row = { .ids = ids, .target = target, .start = start, .pos = pos };
        for (uint32_t i = T; i < B * T; i++) target[i] = -1, ids[i] = start[i] = 0, pos[i] = (int32_t)(i % T);
        int more = rt_rows_next(rows, &row, &e);
        assert_true(more >= 0);
        if (!more) return;
        rt_batch batch = { ids, pos, start, target, NULL };
        rt_eval_out out = { v[0], v[1], v[2], v[3], v[4] };
        if (rt_trainer_eval(t, &batch, &out, &e) < 0) fail_msg("%s", e.text);
        for (uint32_t k = 0; k < row.doc_count; k++)
            for (uint32_t i = 0; i < row.docs[k].len; i++) {
                uint32_t at = row.docs[k].begin + i, letter = row.docs[k].first + i + 1;
                if (target[at] < 0) continue;
                assert_int_equal(target[at], (unsigned char)texts[row.docs[k].record][letter]);
                l->ce[0][row.docs[k].record][letter] = v[0][at];
                l->ce[1][row.docs[k].record][letter] = v[4][at];
                l->row[row.docs[k].record][letter] = number;
            }
    }
}

/* By hand: the places of "return" as a word of its own, all letters of which one row predicts. */
static rt_measure expect_word(const letters *l, int who, uint64_t *places)
{
    double sum[TEXTS] = { 0 }, n[TEXTS] = { 0 }, all = 0, count = 0, spread = 0, docs = 0;
    for (int i = 0; i < TEXTS; i++)
        for (const char *p = texts[i]; (p = strstr(p, "return")); p++) {
            long at = p - texts[i];
            if ((at > 0 && (isalnum((unsigned char)p[-1]) || p[-1] == '_')) || isalnum((unsigned char)p[6])) continue;
            if (!l->row[i][at] || l->row[i][at] != l->row[i][at + 5]) continue;
            double ce = 0;
            for (int k = 0; k < 6; k++) ce += l->ce[who][i][at + k];
            sum[i] += exp(-ce);
            n[i]++;
        }
    for (int i = 0; i < TEXTS; i++) all += sum[i], count += n[i], docs += n[i] > 0;
    for (int i = 0; i < TEXTS; i++) spread += pow(sum[i] - all / count * n[i], 2);
    *places = (uint64_t)count;
    return (rt_measure){ all / count, sqrt(docs / (docs - 1) * spread) / count, 0 };
}

static bool close_to(rt_measure a, rt_measure b)
{
    return fabs(a.mean - b.mean) <= 1e-5 * b.mean && fabs(a.error - b.error) <= 1e-5 * b.error && b.mean > 0;
}

static void test_word(void **state)
{
    (void)state;
    rt_dev *d = open_device("cpu", 2);
    rt_trainer *t = open_trainer(d, true);
    rt_tokenizer *tokenizer = byte_tokenizer();
    rt_err e = { 0 };
    rt_shard *shard = NULL;
    rt_eval_set *set = NULL;
    rt_eval_result plain, r;
    uint64_t places;
    static letters l;
    write_texts(in_dir("texts"));
    rt_rows *rows = open_texts(&shard);
    measure_letters(&l, t, rows);
    rt_rows_close(rows);
    rt_shard_close(shard);
    rows = open_texts(&shard);
    if (rt_eval_set_new(&set, rows, B, T, 0, &e) < 0) fail_msg("%s", e.text);
    if (rt_evaluate(t, set, &plain, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(plain.places, 0);
    assert_int_equal(rt_eval_set_word(set, tokenizer, "absent", &e), RT_INVALID);
    assert_says(&e, "'absent' stands nowhere");
    if (rt_eval_set_word(set, tokenizer, "return", &e) < 0) fail_msg("%s", e.text);
    if (rt_evaluate(t, set, &r, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_true(r.ce.mean == plain.ce.mean && r.kl.mean == plain.kl.mean); /* nothing else moves */
    rt_measure student_word = expect_word(&l, 0, &places), teacher_word = expect_word(&l, 1, &places);
    assert_true(places >= 3 && r.places == places);
    assert_true(close_to(r.word, student_word) && close_to(r.teacher_word, teacher_word));
    assert_true(r.word.mean != r.teacher_word.mean && r.word.mean < 1e-9); /* six letters by chance */
    rt_eval_set_free(set);
    rt_rows_close(rows);
    rt_shard_close(shard);
    rt_tokenizer_free(tokenizer);
    rt_trainer_free(t);
    d->api->close(d);
}

static int make_set(void *ctx, rt_err *e)
{
    rt_shard *shard = NULL;
    rt_rows *rows = NULL;
    rt_eval_set *set = NULL;
    int rc = rt_shard_open(&shard, ctx, &(rt_shard_expect){ 0 }, e);
    rt_rows_source s = { .name = "x", .shards = &shard, .count = 1 };
    rt_rows_opts o = { .seq_len = T, .in_order = true, .epochs = 1 };
    if (rc >= 0) rc = rt_rows_open(&rows, &s, 1, &o, e);
    if (rc >= 0) rc = rt_eval_set_new(&set, rows, B, T, 0, e);
    rt_eval_set_free(set);
    rt_rows_close(rows);
    rt_shard_close(shard);
    return rc;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    static const uint32_t lengths[] = { 24, 30, 7 };
    char path[512];
    write_shard(in_dir("oom"), lengths, 3, 272);
    snprintf(path, sizeof path, "%s", in_dir("oom"));
    rt_model_file_close(student_file);
    rt_model_file_close(teacher_file);
    student_file = teacher_file = NULL;
    fail_each(make_set, path, 0);
}

/* ---- worse than the best, and a loss that rises ---- */

static void test_worse(void **state)
{
    (void)state;
    rt_worse w = { 0 };
    static const struct {
        rt_measure now;
        uint32_t in_row;
    } course[] = {
        { { 3.0, 0.10, 0 }, 0 },  { { 2.0, 0.10, 0 }, 0 },  { { 2.10, 0.01, 0 }, 0 }, /* within the best one's error */
        { { 2.11, 9.00, 0 }, 1 }, /* of which it is, not of the new one's */
        { { 2.05, 0.10, 0 }, 0 }, /* in a row means in a row */
        { { 2.20, 0.10, 0 }, 1 }, { { 2.15, 0.10, 0 }, 2 }, { { 1.5, NAN, 0 }, 0 }, /* a new best, of one document */
        { { 1.5, NAN, 0 }, 0 },   { { 1.51, NAN, 0 }, 1 },  { { NAN, NAN, 0 }, 0 },
    };
    for (size_t i = 0; i < sizeof course / sizeof *course; i++) {
        rt_worse_take(&w, course[i].now);
        if (w.in_row != course[i].in_row) fail_msg("evaluation %zu: %u in a row", i, w.in_row);
    }
    assert_true(w.best.mean == 1.5);
}

static uint32_t warnings(rt_loss_trend *w, uint32_t steps, double from, double to, double noise)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < steps; i++)
        n += rt_loss_trend_take(w, from + (to - from) * i / steps + (i % 2 ? noise : -noise));
    return n;
}

static void test_loss_rises(void **state)
{
    (void)state;
    rt_loss_trend w = { 0 };
    assert_int_equal(warnings(&w, 300, 6, 2, 0.8), 0); /* it falls, and its batches differ */
    assert_int_equal(warnings(&w, 300, 2, 2, 0.9), 0);
    assert_int_equal(warnings(&w, 300, 2, 2.5, 0.2), 0); /* a quarter more */
    assert_int_equal(warnings(&w, 100, 2.5, 9, 0.2), 1); /* once */
    assert_int_equal(warnings(&w, 100, 9, 2, 0.2), 0);
    assert_int_equal(warnings(&w, 100, 2, 2, 0.2), 0);
    assert_int_equal(warnings(&w, 100, 2, 9, 0.2), 1); /* and once more, when it had come back */
    /* an easy first batch is not what the others are measured by */
    rt_loss_trend easy = { 0 };
    assert_false(rt_loss_trend_take(&easy, 0.5));
    assert_int_equal(warnings(&easy, 200, 4, 4, 0.5), 0);
    /* from the first step on too high */
    rt_loss_trend high = { 0 };
    assert_int_equal(warnings(&high, 40, 5, 40, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worse),
        cmocka_unit_test(test_loss_rises),
        cmocka_unit_test(test_against_hand),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_one_document),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_nothing_to_measure),
        cmocka_unit_test(test_fell_and_rose),
        cmocka_unit_test(test_paired),
        cmocka_unit_test(test_pick),
        cmocka_unit_test(test_word),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
