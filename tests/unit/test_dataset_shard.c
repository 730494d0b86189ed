/* test_dataset_shard.c - token shards: written and read back, damaged at every byte, those of others. */
#include "data_case.h"
#include "memory_case.h"

#include "text/data/data_shard.h"

/* ---- helpers ---- */

/* A record of n tokens from `first` on; every fourth is trained when mask is set, tokens 3 and 7 may end it. */
static void make_record(rt_encoded *r, uint32_t n, uint32_t first, bool mask)
{
    assert_true(n <= 4096);
    r->ids.count = 0;
    assert_true(rt_grow((void **)&r->ids.ids, &r->ids.cap, n ? n : 1, sizeof *r->ids.ids));
    if (!r->target) {
        r->bits_cap = 4096 / 32;
        r->target = rt_alloc(r->bits_cap * 4, 16);
        r->stop = rt_alloc(r->bits_cap * 4, 16);
    }
    /* What lies behind the last token must not reach the file. */
    memset(r->target, 0xFF, r->bits_cap * 4);
    memset(r->stop, 0xFF, r->bits_cap * 4);
    r->kind = mask ? RT_RECORD_CHAT : RT_RECORD_TEXT;
    r->all_targets = !mask;
    r->has_stops = mask;
    r->trained = 0;
    for (uint32_t i = 0; i < n; i++) {
        r->ids.ids[i] = (first + i) % 250;
        if (i % 4 != 1) r->target[i / 32] &= ~(1u << (i % 32));
        if (i != 3 && i != 7) r->stop[i / 32] &= ~(1u << (i % 32));
        r->trained += i > 0 && (!mask || i % 4 == 1);
    }
    r->ids.count = n;
}

static const uint32_t lengths[] = { 5, 1, 64, 33, 700 };
enum { RECORDS = sizeof lengths / sizeof *lengths };

static int write_some(const char *path, rt_err *e)
{
    rt_shard_identity id = { rt_tokenizer_hash(case_tokenizer), 300 };
    rt_shard_writer *w = NULL;
    rt_encoded r = { 0 };
    int rc;
    RT_TRY(rt_shard_writer_new(&w, path, &id, e));
    for (uint32_t i = 0; i < RECORDS; i++) {
        make_record(&r, lengths[i], i * 10, i % 2 == 0);
        RT_TRY(rt_shard_writer_add(w, &r, i, RT_PART_WHOLE, e));
    }
    /* A text in three parts is one record. */
    for (unsigned k = 0; k < 3; k++) {
        make_record(&r, 10, 10 * k, false);
        if (k) r.trained = 10;
        RT_TRY(rt_shard_writer_add(w, &r, 9, k == 0 ? RT_PART_FIRST : k == 2 ? RT_PART_LAST : 0, e));
    }
    rc = rt_shard_writer_commit(w, "{\"from\":\"test\"}", e);
out:
    rt_encoded_free(&r);
    rt_shard_writer_free(w);
    return rc;
}

static const char *some_shard(const char *name)
{
    rt_err e = { 0 };
    const char *path = in_folder(name);
    if (write_some(path, &e) < 0) fail_msg("%s", e.text);
    return path;
}

static rt_shard *open_shard(const char *path, const rt_shard_expect *x)
{
    rt_err e = { 0 };
    rt_shard *s = NULL;
    rt_shard_expect any = { 0 };
    if (rt_shard_open(&s, path, x ? x : &any, &e) < 0) fail_msg("%s", e.text);
    return s;
}

static void refuse_shard(const char *path, const rt_shard_expect *x, int status, const char *words)
{
    rt_err e = { 0 };
    rt_shard *s = NULL;
    rt_shard_expect any = { 0 };
    int rc = rt_shard_open(&s, path, x ? x : &any, &e);
    if (rc != status) fail_msg("%s: status %d, %s", path, rc, e.text);
    expect_message(&e, words);
    assert_null(s);
}

/* ---- our own ---- */

static void test_round_trip(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_hash128 hash = rt_tokenizer_hash(case_tokenizer);
    rt_shard_expect x = { .tokenizer = &hash, .vocab = 300 };
    rt_shard *s = open_shard(some_shard("a.rtok"), &x);
    const rt_shard_info *about = rt_shard_about(s);
    assert_int_equal(about->records, RECORDS + 1);
    assert_int_equal(about->tokens, 5 + 1 + 64 + 33 + 700 + 30);
    assert_true(about->own);
    assert_int_equal(about->text.len, 15);
    assert_int_equal(rt_shard_verify(s, &e), RT_OK);
    rt_encoded r = { 0 };
    for (uint32_t i = 0; i < RECORDS; i++) {
        rt_shard_record got;
        make_record(&r, lengths[i], i * 10, i % 2 == 0);
        rt_shard_get(s, i, &got);
        assert_int_equal(got.kind, r.kind);
        assert_int_equal(got.count, lengths[i]);
        assert_int_equal(got.trained, r.trained);
        assert_int_equal(got.source, i);
        assert_int_equal(got.next, -1);
        assert_memory_equal(got.ids, r.ids.ids, 4 * lengths[i]);
        assert_int_equal(got.target != NULL, i % 2 == 0);
        for (uint32_t k = 0; got.target && k < lengths[i]; k++) {
            assert_int_equal(rt_bit(got.target, k), rt_bit(r.target, k));
            assert_int_equal(rt_bit(got.stop, k), rt_bit(r.stop, k));
        }
    }
    rt_shard_record parts;
    rt_shard_get(s, RECORDS, &parts);
    assert_int_equal(parts.count, 30);
    assert_int_equal(parts.trained, 29);
    for (uint32_t i = 0; i < 30; i++) assert_int_equal(rt_shard_id(&parts, i), i);
    uint32_t length;
    assert_int_equal(rt_shards_length(&s, 1, 0.5, &length, &e), RT_OK);
    assert_int_equal(length, 30);
    assert_int_equal(rt_shards_length(&s, 1, 1.0, &length, &e), RT_OK);
    assert_int_equal(length, 700);
    rt_encoded_free(&r);
    rt_shard_close(s);
}

/* Equal records have equal hashes, in one part or several. */
static void test_record_hash(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_shard_identity id = { { 1, 2 }, 300 };
    rt_shard_writer *w = NULL;
    rt_encoded r = { 0 };
    assert_int_equal(rt_shard_writer_new(&w, in_folder("h.rtok"), &id, &e), RT_OK);
    make_record(&r, 30, 0, false);
    assert_int_equal(rt_shard_writer_add(w, &r, 0, RT_PART_WHOLE, &e), RT_OK);
    for (unsigned k = 0; k < 3; k++) {
        make_record(&r, 10, 10 * k, false);
        if (k) r.trained = 10;
        assert_int_equal(rt_shard_writer_add(w, &r, 0, k == 0 ? RT_PART_FIRST : k == 2 ? RT_PART_LAST : 0, &e), RT_OK);
    }
    make_record(&r, 30, 1, false);
    assert_int_equal(rt_shard_writer_add(w, &r, 0, RT_PART_WHOLE, &e), RT_OK);
    assert_int_equal(rt_shard_writer_commit(w, "{}", &e), RT_OK);
    rt_shard_writer_free(w);
    rt_encoded_free(&r);
    rt_shard *s = open_shard(in_folder("h.rtok"), NULL);
    assert_true(rt_shard_record_hash(s, 0) == rt_shard_record_hash(s, 1));
    assert_true(rt_shard_record_hash(s, 0) != rt_shard_record_hash(s, 2));
    rt_shard_close(s);
}

/* Any byte that is changed is found, by opening or by verifying; any length that is cut, by opening. */
static void test_damage(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_str bytes = { 0 };
    assert_int_equal(rt_file_read(some_shard("d.rtok"), 1 << 20, &bytes, &e), RT_OK);
    rt_shard_expect x = { 0 };
    for (size_t i = 0; i < bytes.len; i += i < 400 || i + 400 > bytes.len ? 1 : 37) {
        bytes.data[i] ^= 0x10;
        const char *path = put_file("e.rtok", bytes.data, bytes.len);
        bytes.data[i] ^= 0x10;
        rt_shard *s = NULL;
        int rc = rt_shard_open(&s, path, &x, &e);
        if (rc == RT_OK) rc = rt_shard_verify(s, &e);
        rt_shard_close(s);
        if (rc != RT_FORMAT && rc != RT_UNSUPPORTED) fail_msg("byte %zu: status %d", i, rc);
        expect_message(&e, "e.rtok");
    }
    for (size_t n = 0; n < bytes.len; n += n < 300 ? 1 : 101) {
        rt_shard *s = NULL;
        int rc = rt_shard_open(&s, put_file("e.rtok", bytes.data, n), &x, &e);
        if (rc != RT_FORMAT) fail_msg("cut to %zu: status %d, %s", n, rc, e.text);
    }
    bytes.data[8] = 9;
    refuse_shard(put_file("e.rtok", bytes.data, bytes.len), NULL, RT_UNSUPPORTED, "e.rtok|version 9|retort tokenize");
    rt_str_free(&bytes);
}

static void test_identity(void **state)
{
    (void)state;
    rt_hash128 other = { 1, 2 };
    const char *path = some_shard("i.rtok");
    refuse_shard(path, &(rt_shard_expect){ .tokenizer = &other }, RT_INVALID, "i.rtok|another tokenizer|again");
    refuse_shard(path, &(rt_shard_expect){ .vocab = 200 }, RT_INVALID, "i.rtok|vocabulary of 300|200");
    refuse_shard(in_folder("nowhere.rtok"), NULL, RT_NOT_FOUND, "nowhere.rtok");
}

static void test_writer_refuses(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_shard_identity id = { { 1, 2 }, 100 };
    rt_shard_writer *w = NULL;
    rt_encoded r = { 0 };
    const char *path = in_folder("w.rtok");
    assert_int_equal(rt_shard_writer_new(&w, path, &id, &e), RT_OK);
    assert_int_equal(rt_shard_writer_commit(w, "{}", &e), RT_INVALID); /* empty */
    make_record(&r, 5, 98, false);
    assert_int_equal(rt_shard_writer_add(w, &r, 0, RT_PART_WHOLE, &e), RT_INVALID);
    expect_message(&e, "id 100|vocabulary of 100");
    rt_shard_writer_free(w);
    assert_false(rt_path_exists(path));
    char **names;
    uint32_t n;
    rt_arena a = { 0 };
    assert_int_equal(rt_dir_list(&names, &n, &a, case_folder, &e), RT_OK);
    for (uint32_t i = 0; i < n; i++) assert_null(strstr(names[i], "w.rtok")); /* no temporary file either */
    rt_arena_free(&a);
    rt_encoded_free(&r);
}

static void test_set(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_shard_identity id = { { 1, 2 }, 300 };
    rt_encoded r = { 0 };
    for (int commit = 0; commit < 2; commit++) {
        rt_shard_set *set = NULL;
        uint32_t shards = 0;
        const char *path = in_folder("many");
        assert_int_equal(rt_shard_set_new(&set, path, &id, 100, &e), RT_OK);
        for (uint32_t i = 0; i < 10; i++) {
            make_record(&r, 40, i, false);
            assert_int_equal(rt_shard_set_add(set, &r, 0, RT_PART_WHOLE, &e), RT_OK);
        }
        if (commit) assert_int_equal(rt_shard_set_commit(set, "{}", &shards, &e), RT_OK);
        rt_shard_set_free(set);
        assert_int_equal(rt_path_exists(path), commit);
        if (!commit) continue;
        assert_int_equal(shards, 4); /* 3 + 3 + 3 + 1 records */
        rt_shard *s = open_shard(in_folder("many/shard-00003.rtok"), NULL);
        assert_int_equal(rt_shard_about(s)->records, 1);
        assert_int_equal(rt_shard_verify(s, &e), RT_OK);
        rt_shard_close(s);
        /* What is there is not written over. */
        assert_int_equal(rt_shard_set_new(&set, path, &id, 100, &e), RT_OK);
        assert_int_equal(rt_shard_set_add(set, &r, 0, RT_PART_WHOLE, &e), RT_OK);
        assert_true(rt_shard_set_commit(set, "{}", &shards, &e) < 0);
        rt_shard_set_free(set);
        assert_true(rt_path_exists(in_folder("many/shard-00003.rtok")));
    }
    rt_encoded_free(&r);
}

/* ---- those of others ---- */

static void test_headerless(void **state)
{
    (void)state;
    rt_err e = { 0 };
    uint32_t ids[11];
    for (uint32_t i = 0; i < 11; i++) ids[i] = 100 + i;
    const char *path = put_file("x.u32", ids, sizeof ids);
    refuse_shard(path, NULL, RT_INVALID, "x.u32|--vocab");
    rt_shard *s = open_shard(path, &(rt_shard_expect){ .vocab = 111, .block = 4 });
    assert_int_equal(rt_shard_about(s)->records, 3);
    assert_int_equal(rt_shard_verify(s, &e), RT_OK);
    uint32_t trained = 0;
    for (uint64_t i = 0; i < 3; i++) {
        rt_shard_record r;
        rt_shard_get(s, i, &r);
        assert_int_equal(r.count, i < 2 ? 4 : 3);
        assert_int_equal(r.next, i < 2 ? 104 + (int)i * 4 : -1);
        assert_int_equal(rt_shard_id(&r, 0), 100 + 4 * i);
        trained += r.trained;
    }
    assert_int_equal(trained, 10); /* every token but the first, once */
    rt_shard_close(s);
    s = open_shard(path, &(rt_shard_expect){ .vocab = 110, .block = 4 });
    assert_int_equal(rt_shard_verify(s, &e), RT_FORMAT);
    expect_message(&e, "x.u32|id 110|vocabulary of 110");
    rt_shard_close(s);
    /* The last token needs no block of its own. */
    s = open_shard(put_file("y.bin", ids, 36), &(rt_shard_expect){ .vocab = 200, .block = 4 });
    assert_int_equal(rt_shard_about(s)->records, 2);
    rt_shard_close(s);
    refuse_shard(put_file("z.bin", ids, 35), &(rt_shard_expect){ .vocab = 200 }, RT_FORMAT, "z.bin|35 bytes");
    refuse_shard(put_file("z.bin", ids, 4), &(rt_shard_expect){ .vocab = 200 }, RT_INVALID, "z.bin|nothing");
    refuse_shard(put_file("z.bin", ids, 0), &(rt_shard_expect){ .vocab = 200 }, RT_INVALID, "z.bin|nothing");
    refuse_shard(put_file("z.rtok", ids, 40), &(rt_shard_expect){ .vocab = 200 }, RT_FORMAT,
                 "z.rtok|not a token shard");
}

static void test_llmc(void **state)
{
    (void)state;
    static int32_t file[256 + 8];
    file[0] = 20240520;
    file[1] = 1;
    file[2] = 16;
    uint16_t *ids = (uint16_t *)(file + 256);
    for (int i = 0; i < 16; i++) ids[i] = (uint16_t)(50000 + i);
    rt_shard *s = open_shard(put_file("l.bin", file, sizeof file), &(rt_shard_expect){ .block = 8 });
    rt_shard_record r;
    rt_shard_get(s, 1, &r);
    assert_int_equal(rt_shard_id(&r, 7), 50015);
    assert_int_equal(rt_shard_about(s)->id_bytes, 2);
    rt_shard_close(s);
    refuse_shard(put_file("l.bin", file, sizeof file - 2), NULL, RT_FORMAT, "l.bin|16 tokens|15 follow");
    refuse_shard(put_file("l.bin", file, 1000), NULL, RT_FORMAT, "l.bin|inside the header");
    file[0] = 20240801;
    file[2] = 8;
    s = open_shard(put_file("l.bin", file, sizeof file), &(rt_shard_expect){ .block = 8 });
    assert_int_equal(rt_shard_about(s)->id_bytes, 4);
    assert_int_equal(rt_shard_about(s)->tokens, 8);
    rt_shard_close(s);
}

/* ---- failing allocations ---- */

static int write_and_read(const rt_encoded *r, rt_err *e)
{
    rt_shard_identity id = { { 1, 2 }, 300 };
    rt_shard_set *set = NULL;
    rt_shard *s = NULL;
    uint32_t shards, length;
    int rc;
    const char *path = in_folder("oom.rtok"), *folder = in_folder("oom");
    RT_TRY(rt_shard_set_new(&set, path, &id, 0, e));
    RT_TRY(rt_shard_set_add(set, r, 0, RT_PART_FIRST, e));
    rt_encoded tail = *r;
    tail.trained = tail.ids.count;
    RT_TRY(rt_shard_set_add(set, &tail, 0, RT_PART_LAST, e));
    RT_TRY(rt_shard_set_commit(set, "{}", &shards, e));
    rt_shard_set_free(set);
    set = NULL;
    RT_TRY(rt_shard_set_new(&set, folder, &id, 10, e));
    for (int i = 0; i < 3; i++) RT_TRY(rt_shard_set_add(set, r, 0, RT_PART_WHOLE, e));
    rt_shard_set_free(set); /* given up: nothing stays */
    set = NULL;
    if (rt_path_exists(folder)) rc = RT_INTERNAL;
    RT_TRY(rc);
    RT_TRY(rt_shard_open(&s, path, &(rt_shard_expect){ 0 }, e));
    RT_TRY(rt_shard_verify(s, e));
    RT_TRY(rt_shards_length(&s, 1, 0.9, &length, e));
out:
    rt_shard_close(s);
    rt_shard_set_free(set);
    return rc;
}

static void test_allocations_fail(void **state)
{
    (void)state;
    static const rt_allocator failing = { failing_alloc, failing_free, NULL };
    rt_encoded r = { 0 };
    make_record(&r, 40, 0, false);
    uint64_t live = rt_alloc_live();
    rt_allocator_set(&failing);
    int rc = RT_NOMEM;
    int64_t n = 0;
    for (; rc != RT_OK; n++) {
        rt_err e = { 0 };
        allowed = n;
        rc = write_and_read(&r, &e);
        allowed = -1;
        if (rc != RT_OK && rc != RT_NOMEM) fail_msg("allocation %d: status %d, %s", (int)n, rc, e.text);
        assert_int_equal(rt_alloc_live(), live);
        assert_true(n < 10000);
    }
    assert_true(n > 15);
    rt_allocator_set(NULL);
    rt_encoded_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_record_hash),
        cmocka_unit_test(test_damage),           cmocka_unit_test(test_identity),
        cmocka_unit_test(test_writer_refuses),   cmocka_unit_test(test_set),
        cmocka_unit_test(test_headerless),       cmocka_unit_test(test_llmc),
        cmocka_unit_test(test_allocations_fail),
    };
    return cmocka_run_group_tests(tests, open_case, close_case);
}
