/* test_base.c - messages, memory, strings, hashing, random numbers, facts about the machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/sys.h"

/* An allocator that fails from the call `left` on, and remembers what it was asked for. */
typedef struct failing {
    int left;
    size_t bytes, align;
} failing;

static void *failing_alloc(void *ctx, size_t bytes, size_t align)
{
    failing *f = ctx;
    f->bytes = bytes;
    f->align = align;
    void *p = NULL;
    if (f->left-- <= 0) return NULL;
    return posix_memalign(&p, align, bytes) == 0 ? p : NULL;
}

static void failing_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static void fail_after(failing *f, int left)
{
    *f = (failing){ .left = left };
    rt_allocator_set(&(rt_allocator){ failing_alloc, failing_free, f });
}

/* ---- err ---- */

static void test_err_fail(void **state)
{
    (void)state;
    rt_err e = { 0 };
    assert_int_equal(rt_fail(&e, RT_FORMAT, "%s: bad byte %d", "x.gguf", 7), RT_FORMAT);
    assert_int_equal(e.status, RT_FORMAT);
    assert_string_equal(e.text, "x.gguf: bad byte 7");
    rt_err_context(&e, "tensor %d", 3);
    assert_string_equal(e.text, "tensor 3: x.gguf: bad byte 7");
    assert_int_equal(e.status, RT_FORMAT);
    /* the old message may be an argument of the new one */
    rt_fail(&e, RT_IO, "again (%s)", e.text);
    assert_string_equal(e.text, "again (tensor 3: x.gguf: bad byte 7)");
    assert_int_equal(rt_no_memory(&e, "a page"), RT_NOMEM);
    assert_string_equal(e.text, "no memory for a page");
    assert_int_equal(rt_fail(NULL, RT_IO, "nobody listens"), RT_IO);
    rt_err_context(NULL, "nobody listens");
    assert_int_equal(rt_fail(&e, RT_OK, "a failure is never ok"), RT_INTERNAL);
    rt_err ok = { 0 };
    rt_err_context(&ok, "nothing failed");
    assert_string_equal(ok.text, "");
}

/* What a terminal would obey is not passed on from names in files; text in any script is. */
static void test_err_tame(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_fail(&e, RT_FORMAT, "%s", "a\x1b]0;t\x07\x7f\xc2\x9b\n\t\xc2\xa0\xc3\xa9");
    assert_string_equal(e.text, "a?]0;t????\n\t\xc2\xa0\xc3\xa9");
    rt_err_context(&e, "b\x1b");
    assert_string_equal(e.text, "b?: a?]0;t????\n\t\xc2\xa0\xc3\xa9");
}

static void test_err_long(void **state)
{
    (void)state;
    rt_err e = { 0 };
    char exact[sizeof e.text], over[sizeof e.text + 1];
    memset(exact, 'a', sizeof exact);
    exact[sizeof exact - 1] = '\0';
    memset(over, 'b', sizeof over);
    over[sizeof over - 1] = '\0';
    rt_fail(&e, RT_IO, "%s", exact);
    assert_string_equal(e.text, exact);
    rt_fail(&e, RT_IO, "%s", over);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_string_equal(e.text + sizeof e.text - 6, "bb...");
    rt_err_context(&e, "where");
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_memory_equal(e.text, "where: bbb", 10);
    assert_string_equal(e.text + sizeof e.text - 6, "bb...");
    rt_err_context(&e, "%s", over);
    assert_string_equal(e.text + sizeof e.text - 6, "bb...");
}

static void test_err_names(void **state)
{
    (void)state;
    assert_string_equal(rt_status_name(RT_OK), "RT_OK");
    assert_string_equal(rt_status_name(RT_NOMEM), "RT_NOMEM");
    assert_string_equal(rt_status_text(RT_NOMEM), "out of memory");
    assert_string_equal(rt_status_name(-999), "RT_UNKNOWN");
    assert_string_equal(rt_status_text(5), "unknown status");
    assert_int_equal(rt_status_exit(RT_OK), 0);
    assert_int_equal(rt_status_exit(RT_USAGE), 2);
    assert_int_equal(rt_status_exit(RT_NO_BACKEND), 9);
    assert_int_equal(rt_status_exit(RT_INTERRUPTED), 130);
    assert_int_equal(rt_status_exit(-11), 1);
    assert_int_equal(rt_status_exit(7), 1);
}

static int try_step(int status, int *cleaned)
{
    int rc = RT_OK;
    RT_TRY(status);
    rc = 1;
out:
    ++*cleaned;
    return rc;
}

static void test_err_try(void **state)
{
    (void)state;
    int cleaned = 0;
    assert_int_equal(try_step(RT_IO, &cleaned), RT_IO);
    assert_int_equal(try_step(RT_OK, &cleaned), 1);
    assert_int_equal(cleaned, 2);
}

/* ---- mem ---- */

static void test_mem_alloc(void **state)
{
    (void)state;
    uint64_t count = rt_alloc_count(), live = rt_alloc_live();
    for (size_t align = 1; align <= 4096; align *= 2) {
        unsigned char *p = rt_alloc_zero(100, align);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % (align < 16 ? 16 : align), 0);
        for (int i = 0; i < 100; i++) assert_int_equal(p[i], 0);
        memset(p, 0xff, 100);
        assert_int_equal(rt_alloc_live(), live + 1);
        rt_free(p);
    }
    assert_int_equal(rt_alloc_count(), count + 13);
    assert_int_equal(rt_alloc_live(), live);
    assert_null(rt_alloc(0, 16));
    assert_null(rt_alloc(16, 48));
    assert_null(rt_alloc(SIZE_MAX, 16));
    assert_null(rt_alloc_zero(SIZE_MAX - 4096, 4096));
    rt_free(NULL);
    assert_int_equal(rt_alloc_count(), count + 13);
    assert_int_equal(rt_alloc_live(), live);
}

static void test_mem_replaced(void **state)
{
    (void)state;
    failing f;
    uint64_t count = rt_alloc_count(), live = rt_alloc_live();
    fail_after(&f, 1);
    void *p = rt_alloc(33, 1);
    assert_non_null(p);
    assert_int_equal(f.bytes, 33);
    assert_int_equal(f.align, 16);
    assert_null(rt_alloc(1, 64));
    assert_int_equal(f.align, 64);
    assert_int_equal(rt_alloc_count(), count + 1); /* a failure is not an allocation */
    assert_int_equal(rt_alloc_live(), live + 1);
    rt_free(p);
    assert_int_equal(rt_alloc_live(), live);
    rt_allocator_set(NULL);
    p = rt_alloc(1, 16);
    assert_non_null(p);
    rt_free(p);
}

static void test_mem_checked(void **state)
{
    (void)state;
    uint64_t x = 42;
    assert_true(rt_mul_u64(UINT32_MAX, UINT32_MAX, &x));
    assert_true(x == UINT64_C(0xfffffffe00000001));
    assert_false(rt_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &x));
    assert_true(x == UINT64_C(0xfffffffe00000001));
    assert_true(rt_add_u64(UINT64_MAX - 1, 1, &x));
    assert_true(x == UINT64_MAX);
    x = 42;
    assert_false(rt_add_u64(UINT64_MAX, 1, &x));
    assert_int_equal(x, 42);
    assert_int_equal(rt_align_up(0, 64), 0);
    assert_int_equal(rt_align_up(1, 64), 64);
    assert_int_equal(rt_align_up(64, 64), 64);
    assert_int_equal(rt_align_up(65, 64), 128);
}

static void test_arena(void **state)
{
    (void)state;
    enum { N = 3000 };
    uint64_t count = rt_alloc_count(), live = rt_alloc_live();
    rt_arena a = { 0 };
    static unsigned char *p[N];
    for (int i = 0; i < N; i++) {
        size_t bytes = (size_t)(i * 7 % 301);
        p[i] = rt_arena_alloc(&a, bytes);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 16, 0);
        for (size_t j = 0; j < bytes; j++) assert_int_equal(p[i][j], 0);
        memset(p[i], i & 255, bytes);
    }
    /* nothing moved, nothing overlaps */
    for (int i = 0; i < N; i++)
        for (size_t j = 0; j < (size_t)(i * 7 % 301); j++) assert_int_equal(p[i][j], i & 255);
    assert_ptr_not_equal(p[0], p[1]); /* p[0] is empty and still has an address */
    /* 450 kB in doubling blocks from 4 KiB: seven of them */
    assert_in_range(rt_alloc_count() - count, 2, 8);
    unsigned char *big = rt_arena_alloc(&a, 20 << 20);
    assert_non_null(big);
    assert_int_equal(big[(20 << 20) - 1], 0);
    big[(20 << 20) - 1] = 1;
    assert_null(rt_arena_alloc(&a, SIZE_MAX));
    assert_null(rt_arena_alloc(&a, PTRDIFF_MAX));
    assert_string_equal(rt_arena_strdup(&a, "twelve"), "twelve");
    assert_string_equal(rt_arena_strdup(&a, ""), "");
    assert_string_equal(rt_arena_printf(&a, "%s-%d", "layer", 12), "layer-12");
    rt_arena_free(&a);
    assert_null(a.blocks);
    assert_int_equal(rt_alloc_live(), live);
    rt_arena_free(&a);
    rt_arena_free(NULL);
}

static void test_arena_no_memory(void **state)
{
    (void)state;
    failing f;
    uint64_t live = rt_alloc_live();
    fail_after(&f, 1);
    rt_arena a = { 0 };
    char *kept = rt_arena_strdup(&a, "kept");
    assert_non_null(kept);
    assert_null(rt_arena_alloc(&a, 1 << 20));
    assert_null(rt_arena_printf(&a, "%5000d", 1));
    assert_string_equal(kept, "kept");
    assert_non_null(rt_arena_alloc(&a, 64)); /* the block it has still serves */
    rt_arena_free(&a);
    rt_allocator_set(NULL);
    assert_int_equal(rt_alloc_live(), live);
}

static void test_grow(void **state)
{
    (void)state;
    uint64_t count = rt_alloc_count(), live = rt_alloc_live();
    int *items = NULL;
    uint32_t cap = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        assert_true(rt_grow((void **)&items, &cap, i + 1, sizeof *items));
        assert_true(cap > i);
        items[i] = (int)i;
    }
    for (uint32_t i = 0; i < 10000; i++) assert_int_equal(items[i], i);
    assert_in_range(rt_alloc_count() - count, 1, 13);
    int *before = items;
    uint32_t cap_before = cap;
    assert_false(rt_grow((void **)&items, &cap, UINT32_MAX, SIZE_MAX / 2));
    assert_ptr_equal(items, before);
    assert_int_equal(cap, cap_before);
    assert_true(rt_grow((void **)&items, &cap, 0, sizeof *items));
    assert_ptr_equal(items, before);
    rt_free(items);
    assert_int_equal(rt_alloc_live(), live);

    failing f;
    fail_after(&f, 1);
    items = NULL;
    cap = 0;
    assert_true(rt_grow((void **)&items, &cap, 3, sizeof *items));
    items[2] = 5;
    before = items;
    assert_false(rt_grow((void **)&items, &cap, 1000, sizeof *items));
    assert_ptr_equal(items, before);
    assert_int_equal(items[2], 5);
    rt_free(items);
    rt_allocator_set(NULL);
}

/* ---- str ---- */

static void test_str(void **state)
{
    (void)state;
    uint64_t live = rt_alloc_live();
    rt_str s = { 0 };
    rt_str_append(&s, "");
    assert_non_null(s.data);
    assert_string_equal(s.data, "");
    for (int i = 0; i < 1000; i++) {
        rt_str_append(&s, "ab");
        rt_str_append_n(&s, "cdX", 1);
        rt_str_printf(&s, "%03d", i);
    }
    assert_false(s.failed);
    assert_int_equal(s.len, 6000);
    assert_int_equal(strlen(s.data), 6000);
    assert_true(s.cap > s.len);
    for (int i = 0; i < 1000; i++) {
        char want[] = { 'a', 'b', 'c', (char)('0' + i / 100), (char)('0' + i / 10 % 10), (char)('0' + i % 10) };
        assert_memory_equal(s.data + 6 * i, want, 6);
    }
    rt_str_free(&s);
    assert_null(s.data);
    assert_int_equal(s.len, 0);
    assert_int_equal(rt_alloc_live(), live);
    rt_str_free(NULL);
    /* lengths around the first capacity */
    for (int n = 250; n < 260; n++) {
        rt_str_printf(&s, "%*d", n, 1);
        assert_int_equal(s.len, n);
        assert_int_equal(s.data[n], '\0');
        assert_int_equal(s.data[n - 1], '1');
        rt_str_free(&s);
    }
}

static void test_str_sticky(void **state)
{
    (void)state;
    failing f;
    fail_after(&f, 1);
    rt_str s = { 0 };
    rt_str_append(&s, "kept");
    rt_str_printf(&s, "%5000d", 1);
    assert_true(s.failed);
    rt_str_append(&s, "x");
    rt_str_printf(&s, "x");
    assert_string_equal(s.data, "kept");
    rt_str_free(&s);
    assert_false(s.failed);
    rt_allocator_set(NULL);
}

static void test_format_bytes(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        { 0, "0 B" },
        { 512, "512 B" },
        { 1023, "1023 B" },
        { 1024, "1.00 KiB" },
        { 1536, "1.50 KiB" },
        { 10235, "10.0 KiB" }, /* 9.995 */
        { 10224, "9.98 KiB" },
        { 15 * 1024 + 512, "15.5 KiB" },
        { 102348, "99.9 KiB" },
        { 102400 - 10, "100 KiB" },
        { 1023 * 1024, "1023 KiB" },
        { 1024 * 1024 - 1, "1.00 MiB" },
        { UINT64_C(3) << 29, "1.50 GiB" },
        { UINT64_C(24) << 30, "24.0 GiB" },
        { UINT64_C(5) << 40, "5.00 TiB" },
        { UINT64_C(7) << 50, "7.00 PiB" },
        { UINT64_MAX, "16.0 EiB" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char buf[32];
        assert_ptr_equal(rt_format_bytes(buf, cases[i].bytes), buf);
        assert_string_equal(buf, cases[i].text);
    }
}

static void test_parse_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        { "0", 0 },
        { "512", 512 },
        { "512B", 512 },
        { "64K", 65536 },
        { "64k", 65536 },
        { "64KiB", 65536 },
        { "24GiB", UINT64_C(24) << 30 },
        { "24 GiB", UINT64_C(24) << 30 },
        { "1.5G", UINT64_C(3) << 29 },
        { "1.50 GiB", UINT64_C(3) << 29 },
        { "200MB", 200000000 },
        { "1.5kb", 1500 },
        { "2T", UINT64_C(2) << 40 },
        { "3PB", UINT64_C(3000000000000000) },
        { "15EiB", UINT64_C(15) << 60 },
        { "0.1K", 102 },
        { "0.99999999999999999999999999G", (UINT64_C(1) << 30) - 1 },
        { "18446744073709551615", UINT64_MAX },
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t bytes = 1;
        assert_true(rt_parse_bytes(good[i].text, &bytes));
        assert_true(bytes == good[i].bytes);
    }
    static const char *const bad[] = {
        "",
        " 1",
        "-1",
        "+1",
        "K",
        "GiB",
        ".5G",
        "1.G",
        "1.5",
        "1.5B",
        "1.5.5G",
        "1X",
        "1KiBs",
        "1Ki",
        "1 ",
        "1K ",
        "1  K",
        "1e3",
        "0x10",
        "16E",
        "16EiB",
        "18446744073709551616",
        "99999999999999999999",
        "1kbb",
        "1bb",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 77;
        if (rt_parse_bytes(bad[i], &bytes)) fail_msg("'%s' was taken as %llu", bad[i], (unsigned long long)bytes);
        assert_int_equal(bytes, 77);
    }
    assert_false(rt_parse_bytes(NULL, &(uint64_t){ 0 }));
}

static void test_nearest(void **state)
{
    (void)state;
    char long64[65], long63[64], other63[64];
    memset(long64, 'x', 64);
    long64[64] = '\0';
    memset(long63, 'x', 63);
    long63[63] = '\0';
    memcpy(other63, long63, 64);
    other63[5] = 'y';
    const char *const list[] = { "backend", "quick", "list", "threads", "json", long64, long63, NULL };
    assert_string_equal(rt_nearest("backend", list), "backend");
    assert_string_equal(rt_nearest("bakend", list), "backend");
    assert_string_equal(rt_nearest("bakcned", list), "backend"); /* two swaps */
    assert_string_equal(rt_nearest("theads", list), "threads");
    assert_string_equal(rt_nearest("jsno", list), "json"); /* a swap is one edit, not two */
    assert_string_equal(rt_nearest("--loss", (const char *const[]){ "--eos", "--loss-on", NULL }), "--loss-on");
    assert_null(rt_nearest("jsxx", list)); /* two of four letters */
    assert_null(rt_nearest("zebra", list));
    assert_null(rt_nearest("", list));
    assert_null(rt_nearest(NULL, list));
    assert_null(rt_nearest(long64, list));
    assert_string_equal(rt_nearest(other63, list), long63);
    const char *const far[] = { "abcdefghijklmnop", NULL };
    assert_string_equal(rt_nearest("abcdefghijklm", far), far[0]); /* three */
    assert_null(rt_nearest("abcdefghijkl", far));                  /* four, though only a quarter */
    const char *const parts[] = { "pad_token", "sft_alpha", "task_type", "dataset_dir", NULL };
    assert_null(rt_nearest("eos_token", parts)); /* another word in its place */
    assert_null(rt_nearest("kd_alpha", parts));
    assert_null(rt_nearest("loss_type", parts));
    assert_null(rt_nearest("dataset_mixer", parts));
    const char *const tie[] = { "cart", "card", NULL };
    assert_string_equal(rt_nearest("care", tie), "cart");
    const char *const none[] = { NULL };
    assert_null(rt_nearest("word", none));
}

/* ---- hash ---- */

static void test_hash(void **state)
{
    (void)state;
    char text[33], again[33];
    assert_string_equal(rt_hash_text(text, rt_hash(NULL, 0)), "99aa06d3014798d86001c324468d497f");
    assert_string_equal(rt_hash_text(text, (rt_hash128){ 1, 0xabc }), "00000000000000010000000000000abc");
    enum { N = 5000 };
    unsigned char data[N];
    for (int i = 0; i < N; i++) data[i] = (unsigned char)rt_philox(1, 0, (uint64_t)i).v[0];
    uint64_t live = rt_alloc_live();
    for (size_t step = 1; step < 2000; step = step * 3 + 1) {
        rt_hasher *h = rt_hasher_new();
        assert_non_null(h);
        rt_hasher_add(h, NULL, 0);
        assert_string_equal(rt_hash_text(again, rt_hasher_digest(h)), "99aa06d3014798d86001c324468d497f");
        for (size_t at = 0; at < N; at += step) rt_hasher_add(h, data + at, N - at < step ? N - at : step);
        rt_hash_text(text, rt_hash(data, N));
        assert_string_equal(rt_hash_text(again, rt_hasher_digest(h)), text);
        rt_hasher_free(h);
    }
    assert_int_equal(rt_alloc_live(), live);
    data[N / 2] ^= 1;
    assert_string_not_equal(rt_hash_text(again, rt_hash(data, N)), text);
    rt_hasher_free(NULL);
    failing f;
    fail_after(&f, 0);
    assert_null(rt_hasher_new());
    rt_allocator_set(NULL);
}

/* ---- rng ---- */

/* Known answers of Random123 for Philox 4x32-10. Counter words 0, 1 are the index and 2, 3 the stream. */
static void test_philox(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed, stream, index;
        uint32_t want[4];
    } cases[] = {
        { 0, 0, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { UINT64_MAX, UINT64_MAX, UINT64_MAX, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { UINT64_C(0x299f31d0a4093822),
          UINT64_C(0x0370734413198a2e),
          UINT64_C(0x85a308d3243f6a88),
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rt_rng4 r = rt_philox(cases[i].seed, cases[i].stream, cases[i].index);
        for (int j = 0; j < 4; j++) assert_int_equal(r.v[j], cases[i].want[j]);
    }
}

static void test_rng_unit(void **state)
{
    (void)state;
    assert_true(rt_rng_unit(0) == 0.0f);
    assert_true(rt_rng_unit(255) == 0.0f);
    assert_true(rt_rng_unit(UINT32_C(1) << 31) == 0.5f);
    assert_true(rt_rng_unit(UINT32_MAX) < 1.0f);
    assert_true(rt_rng_unit(UINT32_MAX) == 1.0f - 1.0f / 16777216.0f);
}

/* ---- sys ---- */

/* What a manifest says of the program and of its memory. */
static void test_sys_process(void **state)
{
    (void)state;
    char id[RT_BUILD_ID_TEXT];
    uint64_t before = rt_sys_process_memory();
    rt_sys_build_id(id);
    assert_int_equal(strspn(id, "0123456789abcdef"), strlen(id));
    assert_int_equal(strlen(id) % 2, 0);
    if (!before) return; /* the system does not tell */
    enum { BYTES = 32 << 20 };
    char *p = rt_alloc(BYTES, 64);
    assert_non_null(p);
    memset(p, 1, BYTES);
    assert_true(rt_sys_process_memory() >= before + BYTES / 2);
    rt_free(p);
}

static void test_sys(void **state)
{
    (void)state;
    double t = rt_now();
    assert_true(t > 0);
    assert_true(rt_now() >= t);
    rt_sys_memory m;
    rt_sys_memory_query(&m);
    assert_true(m.total > 16 << 20);
    assert_true(m.available > 0);
    assert_true(m.available <= m.total);
    if (m.cgroup_limit) assert_true(m.available <= m.cgroup_limit);
    char cpu[128], os[256], tiny[4] = "zzz";
    rt_sys_cpu_name(cpu, sizeof cpu);
    assert_true(strlen(cpu) > 0);
    assert_null(strchr(cpu, '\n'));
    rt_sys_os_name(os, sizeof os);
    assert_memory_equal(os, "Linux ", 6);
    assert_null(strchr(os, '\n'));
    rt_sys_cpu_name(tiny, sizeof tiny);
    assert_int_equal(strlen(tiny), 3);
    rt_sys_os_name(tiny, sizeof tiny);
    assert_string_equal(tiny, "Lin");
    rt_sys_cpu_name(tiny, 0);
    rt_sys_os_name(tiny, 0);
    assert_string_equal(tiny, "Lin");
    uint64_t llc = rt_sys_llc_bytes();
    assert_true(llc == 0 || (llc >= 4096 && llc < UINT64_C(1) << 36));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_err_fail),        cmocka_unit_test(test_err_tame),     cmocka_unit_test(test_err_long),
        cmocka_unit_test(test_err_names),       cmocka_unit_test(test_err_try),      cmocka_unit_test(test_mem_alloc),
        cmocka_unit_test(test_mem_replaced),    cmocka_unit_test(test_mem_checked),  cmocka_unit_test(test_arena),
        cmocka_unit_test(test_arena_no_memory), cmocka_unit_test(test_grow),         cmocka_unit_test(test_str),
        cmocka_unit_test(test_str_sticky),      cmocka_unit_test(test_format_bytes), cmocka_unit_test(test_parse_bytes),
        cmocka_unit_test(test_nearest),         cmocka_unit_test(test_hash),         cmocka_unit_test(test_philox),
        cmocka_unit_test(test_rng_unit),        cmocka_unit_test(test_sys),          cmocka_unit_test(test_sys_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
