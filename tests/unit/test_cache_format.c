/* test_cache_format.c - the format as docs/teacher-cache.md has it: a reader in Python that was written from the page
 * says the same of every position, to the bit. */
#include "cache_case.h"

enum { BLOCKS = 6, VOCAB = 2500 };

static const rt_cache_section sections[4] = {
    { RT_KEEP_TOPK, 64, .T = 1, .target = true },
    { RT_KEEP_TOPK, 2600, .T = 0.5f, .exact = true }, /* more than there are ids */
    { RT_KEEP_DRAWS, 50, .T = 1 },
    { RT_KEEP_HIDDEN, 24, .T = 1, .dtype = RT_DTYPE_BF16 },
};

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

static void print_list(FILE *f, const rt_cache_section *s, const rt_cache_block *b, uint32_t j)
{
    for (uint32_t i = j * s->n; i < (j + 1) * s->n && b->id[i] >= 0; i++)
        fprintf(f, " %d:%08x", (int)b->id[i], (unsigned)bits_of(b->logp[i]));
}

static void print_position(FILE *f, uint32_t section, const rt_cache_block *b, uint32_t j, unsigned place)
{
    const rt_cache_section *s = &sections[section];
    char key[33];
    fprintf(f, "%u %s %u %s", section, rt_hash_text(key, b->key), place, rt_keep_name(s->keep));
    if (s->keep == RT_KEEP_HIDDEN) {
        const uint8_t *row = (const uint8_t *)b->hidden + 2 * (size_t)j * s->n;
        fprintf(f, " ");
        for (uint32_t i = 0; i < 2 * s->n; i++) fprintf(f, "%02x", row[i]);
    } else if (s->keep == RT_KEEP_DRAWS) {
        fprintf(f, " entropy %08x", (unsigned)bits_of(b->entropy[j]));
        print_list(f, s, b, j);
    } else {
        fprintf(f, " rest %08x", (unsigned)bits_of(b->rest[j]));
        print_list(f, s, b, j);
        if (s->target) fprintf(f, " target %d:%08x", (int)b->target[j], (unsigned)bits_of(b->target_logp[j]));
    }
    fprintf(f, "\n");
}

static uint64_t have_of(uint32_t section, uint64_t seed)
{
    static const uint64_t have[BLOCKS] = { UINT64_MAX, 1, UINT64_C(1) << 63, 0xf00f, 0x5555, 0x8001 };
    return section == 1 ? have[seed] & 0x8000000000000003 : have[seed];
}

static void test_python_reader(void **state)
{
    (void)state;
    char expected[100], command[400];
    rt_cache *c = new_cache(sections, 4);
    for (uint32_t s = 0; s < 4; s++)
        for (uint64_t seed = 0; seed < BLOCKS; seed++) {
            if (!have_of(s, seed)) continue;
            write_one(c, s, (dist)(seed % DIST_KINDS), VOCAB, seed, have_of(s, seed));
        }
    snprintf(expected, sizeof expected, "%s/expected", case_root);
    FILE *f = fopen(expected, "w");
    assert_non_null(f);
    for (uint32_t s = 0; s < 4; s++) {
        rt_cache_block b = new_block(&sections[s]);
        for (uint64_t seed = 0; seed < BLOCKS; seed++) {
            rt_hash128 key = key_of(seed);
            uint64_t have = rt_cache_have(c, s, &key);
            uint32_t j = 0;
            assert_true(have == have_of(s, seed));
            if (have) ok(rt_cache_get(c, s, &key, have, &b, &case_err));
            for (unsigned p = 0; p < 64; p++)
                if (have >> p & 1) print_position(f, s, &b, j++, p);
        }
        free_block(&b);
    }
    assert_int_equal(fclose(f), 0);
    rt_cache_close(c);
    snprintf(command, sizeof command,
             "cd %s && python3 \"$OLDPWD\"/tools/read_cache.py c >found 2>&1; sort -o found found; sort -o expected "
             "expected; cmp found expected && test $(wc -l <found) -gt 200",
             case_root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_python_reader) };
    return cmocka_run_group_tests(tests, open_case, close_case);
}
