/* test_dataset_rows.c - order, packing and cursors: every trained token once in a pass, whatever the row length. */
#include "data_case.h"
#include "memory_case.h"

enum { T_MAX = 512 };

/* ---- helpers ---- */

typedef struct maker {
    rt_shard_writer *w;
    rt_encoded r;
} maker;

static void add(maker *m, rt_record_kind kind, const uint32_t *ids, uint32_t n, const char *targets, const char *stops)
{
    rt_err e = { 0 };
    rt_encoded *r = &m->r;
    r->ids.count = n;
    assert_true(rt_grow((void **)&r->ids.ids, &r->ids.cap, n, 4));
    memcpy(r->ids.ids, ids, n * sizeof *ids);
    if (!r->target) {
        r->target = rt_alloc(4096, 16);
        r->stop = rt_alloc(4096, 16);
    }
    memset(r->target, 0, 4096);
    memset(r->stop, 0, 4096);
    r->kind = kind;
    r->all_targets = !targets;
    r->has_stops = stops != NULL;
    r->trained = targets ? 0 : n - 1;
    for (uint32_t i = 0; targets && i < n; i++)
        if (targets[i] == '1') {
            r->target[i / 32] |= 1u << i % 32;
            r->trained += i > 0;
        }
    for (uint32_t i = 0; stops && i < n; i++)
        if (stops[i] == '1') r->stop[i / 32] |= 1u << i % 32;
    assert_int_equal(rt_shard_writer_add(m->w, r, 0, RT_PART_WHOLE, &e), RT_OK);
}

static maker begin_shard(const char *name, uint32_t vocab)
{
    rt_err e = { 0 };
    maker m = { 0 };
    rt_shard_identity id = { { 7, 7 }, vocab };
    assert_int_equal(rt_shard_writer_new(&m.w, in_folder(name), &id, &e), RT_OK);
    return m;
}

static rt_shard *end_shard(maker *m, const char *name)
{
    rt_err e = { 0 };
    rt_shard *s = NULL;
    assert_int_equal(rt_shard_writer_commit(m->w, "{}", &e), RT_OK);
    rt_shard_writer_free(m->w);
    rt_encoded_free(&m->r);
    assert_int_equal(rt_shard_open(&s, in_folder(name), &(rt_shard_expect){ 0 }, &e), RT_OK);
    return s;
}

/* Texts of many lengths; every token of all has an id of its own, so that it can be counted. */
static rt_shard *texts(const char *name, uint32_t count, uint32_t longest, uint32_t *tokens)
{
    static uint32_t ids[4096];
    maker m = begin_shard(name, 1 << 20);
    *tokens = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = 2 + (i * 7919u) % (longest - 1);
        for (uint32_t k = 0; k < n; k++) ids[k] = (*tokens)++;
        add(&m, RT_RECORD_TEXT, ids, n, NULL, NULL);
    }
    return end_shard(&m, name);
}

typedef struct buffers {
    int32_t ids[T_MAX], target[T_MAX], start[T_MAX], pos[T_MAX];
    rt_row row;
} buffers;

static rt_row *row_of(buffers *b)
{
    memset(b, 0x55, sizeof *b);
    b->row = (rt_row){ .ids = b->ids, .target = b->target, .start = b->start, .pos = b->pos };
    return &b->row;
}

static rt_rows *open_rows(rt_shard **shards, uint32_t count, double weight, const rt_rows_opts *o)
{
    rt_err e = { 0 };
    rt_rows *r = NULL;
    rt_rows_source s = { .name = "test", .shards = shards, .count = count, .weight = weight };
    if (rt_rows_open(&r, &s, 1, o, &e) < 0) fail_msg("%s", e.text);
    return r;
}

/* What every row must be. */
static void check_row(const rt_row *row, const rt_rows_opts *o)
{
    uint32_t at = 0, trained = 0;
    for (uint32_t d = 0; d < row->doc_count; d++) {
        const rt_row_doc *doc = &row->docs[d];
        assert_int_equal(doc->begin, at);
        for (uint32_t i = 0; i < doc->len; i++, at++) {
            assert_int_equal(row->start[at], doc->begin);
            assert_int_equal(row->pos[at], i);
            if (i + 1 < doc->len && row->target[at] >= 0) assert_int_equal(row->target[at], row->ids[at + 1]);
        }
    }
    assert_int_equal(at, row->tokens);
    assert_true(at <= o->seq_len);
    for (uint32_t i = 0; i < o->seq_len; i++) {
        trained += row->target[i] >= 0;
        if (i < at) continue;
        assert_int_equal(row->ids[i], o->pad);
        assert_int_equal(row->target[i], -1);
        assert_int_equal(row->start[i], at);
        assert_int_equal(row->pos[i], i - at);
    }
    assert_int_equal(row->trained, trained);
}

/* ---- the permutation ---- */

static void test_permute(void **state)
{
    (void)state;
    static const uint64_t sizes[] = { 1, 2, 3, 4, 5, 17, 64, 65, 1000, 4099 };
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        uint64_t n = sizes[k], moved = 0, differ = 0;
        unsigned char *seen = calloc(n, 1);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t p = rt_permute(1, 2, n, i);
            assert_true(p < n && !seen[p]);
            seen[p] = 1;
            moved += p != i;
            differ += p != rt_permute(1, 3, n, i);
        }
        if (n > 60) assert_true(moved > n * 9 / 10 && differ > n * 9 / 10);
        free(seen);
    }
    /* Large ones, which cannot be walked: inside, and no two of many alike. */
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t n = (1ull << 40) + 12345, p = rt_permute(9, 9, n, i);
        assert_true(p < n);
        if (i) assert_true(p != rt_permute(9, 9, n, i - 1));
    }
    /* No favourites: each eighth of the places gets about an eighth of the first thousand. */
    uint32_t eighth[8] = { 0 };
    for (uint64_t i = 0; i < 1000; i++) eighth[rt_permute(5, 6, 1 << 20, i) >> 17]++;
    for (int i = 0; i < 8; i++) assert_true(eighth[i] > 80 && eighth[i] < 180);
}

/* ---- a pass ---- */

/* Every token but the first of its record is a target exactly once, at every row length, packed or not. */
static void test_nothing_lost(void **state)
{
    (void)state;
    rt_err e = { 0 };
    uint32_t tokens;
    rt_shard *s = texts("lost.rtok", 300, 150, &tokens);
    static const uint32_t row_lengths[] = { 2, 7, 64, 512 };
    for (int k = 0; k < 8; k++) {
        rt_rows_opts o = { .seq_len = row_lengths[k / 2], .seed = 3, .one_each = k % 2, .epochs = 1, .pad = 5 };
        rt_rows *r = open_rows(&s, 1, 0, &o);
        unsigned char *seen = calloc(tokens, 1);
        buffers b;
        uint64_t rows = 0, expected, used = 0;
        int rc;
        while ((rc = rt_rows_next(r, row_of(&b), &e)) == 1) {
            check_row(&b.row, &o);
            for (uint32_t i = 0; i < o.seq_len; i++)
                if (b.target[i] >= 0) {
                    assert_int_equal(seen[b.target[i]], 0);
                    assert_int_equal(b.target[i], b.ids[i] + 1);
                    seen[b.target[i]] = 1;
                }
            rows++;
            used += b.row.tokens;
        }
        assert_int_equal(rc, 0);
        assert_int_equal(rt_rows_next(r, row_of(&b), &e), 0);
        uint32_t missing = 0;
        for (uint32_t i = 0; i < tokens; i++) missing += !seen[i];
        assert_int_equal(missing, 300); /* the first of each */
        assert_int_equal(rt_rows_in_epoch(r, 0, &expected, &e), RT_OK);
        assert_int_equal(rows, expected);
        const rt_rows_count *c = rt_rows_of_source(r, 0);
        assert_int_equal(c->trained, tokens - 300);
        assert_int_equal(c->tokens, used);
        assert_int_equal(rt_rows_tell(r).rows, rows);
        assert_int_equal(rt_rows_tell(r).tokens, used);
        /* Packing does its work: little padding where records are shorter than rows. */
        if (!o.one_each && o.seq_len == 512) assert_true((double)used > 0.93 * (double)(rows * 512));
        free(seen);
        rt_rows_close(r);
    }
    rt_shard_close(s);
}

static void collect(rt_rows *r, uint32_t seq_len, int32_t *out, uint32_t rows)
{
    rt_err e = { 0 };
    for (uint32_t i = 0; i < rows; i++) {
        buffers b;
        assert_int_equal(rt_rows_next(r, row_of(&b), &e), 1);
        memcpy(out + (size_t)i * seq_len, b.ids, seq_len * sizeof *out);
    }
}

static void test_order(void **state)
{
    (void)state;
    uint32_t tokens;
    rt_shard *s = texts("order.rtok", 200, 60, &tokens);
    static int32_t a[64 * 40], b[64 * 40];
    rt_rows_opts o = { .seq_len = 64, .seed = 1 };
    for (int k = 0; k < 3; k++) {
        rt_rows *x = open_rows(&s, 1, 0, &o);
        if (k == 1) o.seed = 2;
        if (k == 2) {
            o.seed = 1;
            o.in_order = o.one_each = true;
        }
        rt_rows *y = open_rows(&s, 1, 0, &o);
        collect(x, 64, a, 40);
        collect(y, 64, b, 40);
        if (k == 0) assert_memory_equal(a, b, sizeof a); /* the seed is all */
        if (k == 1) assert_memory_not_equal(a, b, sizeof a);
        if (k == 2)
            for (int i = 1; i < 40; i++) assert_true(b[64 * i] > b[64 * (i - 1)]); /* as they lie in the file */
        rt_rows_close(x);
        rt_rows_close(y);
    }
    /* Epochs differ, and each is whole. */
    o = (rt_rows_opts){ .seq_len = 64, .seed = 4, .one_each = true, .epochs = 2 };
    rt_rows *r = open_rows(&s, 1, 0, &o);
    uint64_t n = rt_rows_of_source(r, 0)->units;
    assert_int_equal(n, 200);
    int32_t first[2][200];
    rt_err e = { 0 };
    for (uint32_t i = 0; i < 400; i++) {
        buffers w;
        assert_int_equal(rt_rows_next(r, row_of(&w), &e), 1);
        assert_int_equal(w.row.epoch, i / 200);
        first[i / 200][i % 200] = w.ids[0];
    }
    uint32_t same = 0;
    for (int i = 0; i < 200; i++) same += first[0][i] == first[1][i];
    assert_true(same < 20);
    rt_rows_close(r);
    rt_shard_close(s);
}

/* ---- sources and weights ---- */

static void test_weights(void **state)
{
    (void)state;
    rt_err e = { 0 };
    uint32_t tokens;
    rt_shard *s[2] = { texts("w0.rtok", 100, 20, &tokens), texts("w1.rtok", 100, 20, &tokens) };
    rt_rows_source sources[2] = { { "a", &s[0], 1, 0.3, 0 }, { "b", &s[1], 1, 2, 0 } };
    rt_rows_opts o = { .seq_len = 32, .seed = 1, .one_each = true, .epochs = 10 };
    rt_rows *r = NULL;
    uint32_t met[2][100] = { { 0 } };
    assert_int_equal(rt_rows_open(&r, sources, 2, &o, &e), RT_OK);
    assert_int_equal(rt_rows_of_source(r, 0)->per_epoch, 30);
    assert_int_equal(rt_rows_of_source(r, 1)->per_epoch, 200);
    buffers b;
    while (rt_rows_next(r, row_of(&b), &e) == 1) met[b.row.docs[0].source][b.row.docs[0].record]++;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(met[0][i], 3); /* 0.3 of it in each of ten passes: all of it three times */
        assert_int_equal(met[1][i], 20);
    }
    rt_rows_close(r);
    sources[0].weight = -1;
    assert_int_equal(rt_rows_open(&r, sources, 2, &o, &e), RT_INVALID);
    expect_message(&e, "a:|weight");
    assert_int_equal(rt_rows_open(&r, sources, 0, &o, &e), RT_INVALID);
    rt_shard_close(s[0]);
    rt_shard_close(s[1]);
}

/* ---- the held-out part ---- */

static void test_held_out(void **state)
{
    (void)state;
    rt_err e = { 0 };
    maker m = begin_shard("held.rtok", 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t ids[3] = { i % 500, (i % 500) / 2, 3 }; /* every record twice */
        add(&m, RT_RECORD_TEXT, ids, 3, NULL, NULL);
    }
    rt_shard *s = end_shard(&m, "held.rtok");
    uint32_t side[500] = { 0 };
    uint64_t units[2];
    for (int k = 0; k < 2; k++) {
        rt_rows_opts o = {
            .seq_len = 8, .one_each = true, .epochs = 1, .held_out = 0.2, .side = k ? RT_SIDE_HELD : RT_SIDE_TRAIN
        };
        rt_rows *r = open_rows(&s, 1, 0, &o);
        units[k] = rt_rows_of_source(r, 0)->units;
        buffers b;
        while (rt_rows_next(r, row_of(&b), &e) == 1) side[b.ids[0]] += k ? 1000 : 1;
        rt_rows_close(r);
    }
    assert_int_equal(units[0] + units[1], 1000);
    assert_true(units[1] > 140 && units[1] < 260);
    for (int i = 0; i < 500; i++) assert_true(side[i] == 2 || side[i] == 2000); /* never one on each side */
    /* a share that chance gives nothing holds out one text all the same, on the same side for both */
    for (int k = 0; k < 2; k++) {
        rt_rows_opts least = {
            .seq_len = 8, .one_each = true, .epochs = 1, .held_out = 1e-12, .side = k ? RT_SIDE_HELD : RT_SIDE_TRAIN
        };
        rt_rows *r = open_rows(&s, 1, 0, &least);
        assert_int_equal(rt_rows_of_source(r, 0)->units, k ? 2 : 998);
        rt_rows_close(r);
    }
    rt_shard_close(s);
}

/* The inputs and targets of a side, as bits by id. */
static uint64_t tokens_of(rt_shard *s, rt_rows_side side, double share, unsigned char *seen)
{
    rt_err e = { 0 };
    buffers b;
    rt_rows_opts o = { .seq_len = 8, .epochs = 1, .held_out = share, .side = side };
    rt_rows *r = open_rows(&s, 1, 0, &o);
    uint64_t trained = 0, said = rt_rows_of_source(r, 0)->trained;
    assert_true(rt_rows_is_stretch(r));
    while (rt_rows_next(r, row_of(&b), &e) == 1) {
        check_row(&b.row, &o);
        for (uint32_t i = 0; i < b.row.tokens; i++) {
            seen[b.ids[i]] |= 1;
            if (b.target[i] >= 0) seen[b.target[i]] |= 2, trained++;
        }
    }
    rt_rows_close(r);
    assert_int_equal(trained, said);
    return trained;
}

/* Of one text, or of copies of it, the end is held out: no token of it is read or predicted in training. */
static void test_one_text(void **state)
{
    (void)state;
    static const uint32_t lengths[] = { 4, 5, 16, 17, 100, 161 };
    static const double shares[] = { 1e-9, 0.1, 0.5, 0.99 };
    uint32_t ids[161];
    for (uint32_t i = 0; i < 161; i++) ids[i] = i;
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
        for (size_t h = 0; h < sizeof shares / sizeof *shares; h++)
            for (uint32_t copies = 1; copies < 3; copies++) {
                uint32_t n = lengths[k], held = 0;
                unsigned char train[161] = { 0 }, eval[161] = { 0 };
                maker m = begin_shard("one.rtok", 1000);
                for (uint32_t c = 0; c < copies; c++) add(&m, RT_RECORD_TEXT, ids, n, NULL, NULL);
                rt_shard *s = end_shard(&m, "one.rtok");
                uint64_t trained = tokens_of(s, RT_SIDE_TRAIN, shares[h], train);
                trained += tokens_of(s, RT_SIDE_HELD, shares[h], eval);
                rt_shard_close(s);
                for (uint32_t i = 0; i < n; i++) {
                    assert_false(train[i] && eval[i]);
                    held += eval[i] != 0;
                    if (held) assert_int_equal(train[i], 0);
                }
                assert_int_equal(trained, copies * (n - 2)); /* every token but the first of each side */
                double want = shares[h] * n;
                assert_true(held >= 2 && held <= n - 2 && (held < 3 || held <= want + 1));
            }
}

/* Two records that chance would both hold out: one is trained. A conversation alone cannot be on both sides. */
static void test_few_records(void **state)
{
    (void)state;
    rt_err e = { 0 };
    const uint32_t ids[2][6] = { { 1, 2, 3, 4, 5, 6 }, { 7, 8, 9, 10, 11, 12 } };
    for (uint32_t n = 1; n < 3; n++) {
        maker m = begin_shard("few.rtok", 1000);
        for (uint32_t i = 0; i < n; i++) add(&m, RT_RECORD_CHAT, ids[i], 6, "000111", "000001");
        rt_shard *s = end_shard(&m, "few.rtok");
        rt_rows_source source = { .name = "few", .shards = &s, .count = 1 };
        for (int k = 0; k < 2; k++) {
            rt_rows *r = NULL;
            rt_rows_opts o = { .seq_len = 8, .held_out = 0.9999, .side = k ? RT_SIDE_HELD : RT_SIDE_TRAIN };
            int rc = rt_rows_open(&r, &source, 1, &o, &e);
            assert_int_equal(rc, n == 1 && k == 0 ? RT_INVALID : RT_OK);
            if (rc == RT_OK) assert_int_equal(rt_rows_of_source(r, 0)->units, 1);
            rt_rows_close(r);
        }
        rt_shard_close(s);
    }
    assert_non_null(strstr(e.text, "no record is left to train"));
}

/* ---- conversations ---- */

static void test_turns(void **state)
{
    (void)state;
    rt_err e = { 0 };
    const uint32_t ids[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    maker m = begin_shard("turns.rtok", 100);
    /*                                 targets         may end */
    add(&m, RT_RECORD_CHAT, ids, 12, "001100110011", "000100010001");
    add(&m, RT_RECORD_CHAT, ids, 12, "000000001100", "000000000100");
    add(&m, RT_RECORD_COMPLETION, ids, 9, "000011111", NULL);
    add(&m, RT_RECORD_CHAT, ids, 5, "00000", NULL);
    rt_shard *s = end_shard(&m, "turns.rtok");
    rt_rows_count c;
    rt_rows_opts o = { .seq_len = 9, .in_order = true, .one_each = true, .epochs = 1, .allow_drop = true };
    assert_int_equal(rt_rows_survey(&s, 1, &o, &c, &e), RT_OK);
    assert_int_equal(c.records, 4);
    assert_int_equal(c.cut, 1);
    assert_int_equal(c.too_long, 1);
    assert_int_equal(c.no_target, 1);
    assert_int_equal(c.units, 2);
    rt_rows *r = open_rows(&s, 1, 0, &o);
    buffers b;
    static const int32_t cut[9] = { -1, 3, 4, -1, -1, 7, 8, -1, -1 }, whole[9] = { -1, -1, -1, 5, 6, 7, 8, 9, -1 };
    assert_int_equal(rt_rows_next(r, row_of(&b), &e), 1);
    assert_int_equal(b.row.tokens, 8); /* up to the second turn's end, and no further */
    assert_memory_equal(b.target, cut, sizeof cut);
    assert_int_equal(rt_rows_next(r, row_of(&b), &e), 1);
    assert_int_equal(b.row.tokens, 9);
    assert_memory_equal(b.target, whole, sizeof whole);
    assert_int_equal(rt_rows_next(r, row_of(&b), &e), 0);
    rt_rows_close(r);
    /* Half of it dropped is refused, with numbers and a remedy; unless that was agreed to. */
    rt_rows_source source = { .name = "turns", .shards = &s, .count = 1 };
    o.allow_drop = false;
    assert_int_equal(rt_rows_open(&r, &source, 1, &o, &e), RT_INVALID);
    expect_message(&e, "turns|50.0 %|--allow-drop|rows of 9");
    o.allow_drop = true;
    o.seq_len = 3;
    assert_int_equal(rt_rows_open(&r, &source, 1, &o, &e), RT_INVALID);
    expect_message(&e, "turns|no token|--show");
    o.seq_len = 1;
    assert_int_equal(rt_rows_open(&r, &source, 1, &o, &e), RT_INVALID);
    expect_message(&e, "at least 2");
    rt_shard_close(s);
}

/* ---- ids of others ---- */

static void test_others(void **state)
{
    (void)state;
    rt_err e = { 0 };
    uint32_t ids[101];
    for (uint32_t i = 0; i < 101; i++) ids[i] = i;
    rt_shard *s = NULL;
    rt_shard_expect x = { .vocab = 101, .block = 8 };
    assert_int_equal(rt_shard_open(&s, put_file("o.u32", ids, sizeof ids), &x, &e), RT_OK);
    rt_rows_opts o = { .seq_len = 8, .seed = 1, .epochs = 1 };
    rt_rows *r = open_rows(&s, 1, 0, &o);
    uint32_t seen = 0;
    buffers b;
    while (rt_rows_next(r, row_of(&b), &e) == 1) {
        check_row(&b.row, &o);
        for (int i = 0; i < 8; i++) seen += b.target[i] >= 0;
    }
    assert_int_equal(seen, 100);
    rt_rows_close(r);
    rt_shard_close(s);
    x.vocab = 50;
    assert_int_equal(rt_shard_open(&s, in_folder("o.u32"), &x, &e), RT_OK);
    r = open_rows(&s, 1, 0, &o);
    int rc = 1;
    while (rc == 1) rc = rt_rows_next(r, row_of(&b), &e);
    assert_int_equal(rc, RT_FORMAT);
    expect_message(&e, "o.u32|outside the vocabulary of 50");
    rt_rows_close(r);
    rt_shard_close(s);
}

/* ---- the cursor ---- */

static void test_cursor(void **state)
{
    (void)state;
    rt_err e = { 0 };
    uint32_t tokens;
    rt_shard *s = texts("cursor.rtok", 3000, 60, &tokens);
    rt_rows_opts o = { .seq_len = 16, .seed = 11, .epochs = 3 };
    rt_rows *r = open_rows(&s, 1, 0.7, &o);
    uint64_t total = 0, rows;
    for (uint64_t k = 0; k < 3; k++) {
        assert_int_equal(rt_rows_in_epoch(r, k, &rows, &e), RT_OK);
        total += rows;
    }
    int32_t *all = malloc((total + 1) * 16 * sizeof *all);
    rt_cursor *at = malloc((total + 1) * sizeof *at);
    for (uint64_t i = 0; i < total; i++) {
        at[i] = rt_rows_tell(r);
        collect(r, 16, all + 16 * i, 1);
    }
    at[total] = rt_rows_tell(r);
    buffers b;
    assert_int_equal(rt_rows_next(r, row_of(&b), &e), 0);
    /* From any place, through JSON, into fresh rows: what would have come. */
    for (uint64_t i = 0; i <= total; i += i % 97 == 0 ? 1 : 61) {
        json_t *j = rt_cursor_to_json(&at[i]);
        char *text = json_dumps(j, 0);
        json_t *again = json_loads(text, 0, NULL);
        rt_cursor c;
        assert_int_equal(rt_cursor_from_json(&c, again, &e), RT_OK);
        rt_rows *fresh = open_rows(&s, 1, 0.7, &o);
        if (rt_rows_seek(fresh, &c, &e) < 0) fail_msg("%s", e.text);
        for (uint64_t k = i; k < total && k < i + 3; k++) {
            assert_int_equal(rt_rows_next(fresh, row_of(&b), &e), 1);
            assert_memory_equal(b.ids, all + 16 * k, 16 * sizeof *all);
        }
        if (i == total) assert_int_equal(rt_rows_next(fresh, row_of(&b), &e), 0);
        if (i + 3 < total) {
            rt_cursor now = rt_rows_tell(fresh);
            assert_memory_equal(&now.rows, &at[i + 3].rows, 3 * sizeof now.rows);
        }
        rt_rows_close(fresh);
        rt_free(text);
        json_decref(again);
        json_decref(j);
    }
    /* Of other data, or damaged. */
    rt_cursor c = at[5];
    o.seed = 12;
    rt_rows *other = open_rows(&s, 1, 0.7, &o);
    assert_int_equal(rt_rows_seek(other, &c, &e), RT_INVALID);
    expect_message(&e, "seed|resume");
    rt_rows_close(other);
    c.row = 1 << 20;
    assert_int_equal(rt_rows_seek(r, &c, &e), RT_FORMAT);
    c = at[5];
    c.draw = 1 << 30;
    assert_int_equal(rt_rows_seek(r, &c, &e), RT_FORMAT);
    static const char *const bad[] = { "{}", "{\"version\":1}", "{\"version\":1,\"data\":\"x\"}", "[]",
                                       "{\"version\":1,\"data\":\"0123456789abcdef0123456789abcdef\",\"epoch\":-1}" };
    for (int i = 0; i < 5; i++) {
        json_t *j = json_loads(bad[i], 0, NULL);
        assert_int_equal(rt_cursor_from_json(&c, j, &e), RT_FORMAT);
        json_decref(j);
    }
    json_t *j = json_loads("{\"version\":2}", 0, NULL);
    assert_int_equal(rt_cursor_from_json(&c, j, &e), RT_UNSUPPORTED);
    json_decref(j);
    rt_rows_close(r);
    rt_shard_close(s);
    free(all);
    free(at);
}

/* ---- failing allocations ---- */

static void test_allocations_fail(void **state)
{
    (void)state;
    static const rt_allocator failing = { failing_alloc, failing_free, NULL };
    uint32_t tokens;
    rt_shard *s = texts("oom.rtok", 100, 20, &tokens);
    rt_rows_source source = { .name = "x", .shards = &s, .count = 1 };
    rt_rows_opts o = { .seq_len = 64 };
    uint64_t live = rt_alloc_live();
    rt_allocator_set(&failing);
    int rc = RT_NOMEM;
    int64_t n = 0;
    for (; rc < 0; n++) {
        rt_err e = { 0 };
        rt_rows *r = NULL;
        buffers b;
        allowed = n;
        rc = rt_rows_open(&r, &source, 1, &o, &e);
        if (rc == RT_OK) rc = rt_rows_next(r, row_of(&b), &e);
        allowed = -1;
        rt_rows_close(r);
        if (rc < 0) assert_int_equal(rc, RT_NOMEM);
        assert_int_equal(rt_alloc_live(), live);
    }
    assert_true(n > 6);
    rt_allocator_set(NULL);
    rt_shard_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permute),
        cmocka_unit_test(test_nothing_lost),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_held_out),
        cmocka_unit_test(test_one_text),
        cmocka_unit_test(test_few_records),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_cursor),
        cmocka_unit_test(test_allocations_fail),
    };
    return cmocka_run_group_tests(tests, open_case, close_case);
}
