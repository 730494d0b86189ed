/* test_links.c - communication by arithmetic: a ring's bytes and seconds, what backward hides of them, and the table of
 * docs/clusters.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "job/prepare/links.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)); }

static void a_ring_sends_almost_all(void **state)
{
    const rt_links l = { "", 100, 0.5 };
    (void)state;
    assert_true(rt_links_bytes(800, 1) == 0 && rt_links_seconds(&l, 800, 3, 1) == 0);
    assert_true(near(rt_links_bytes(800, 2), 400) && near(rt_links_bytes(800, 8), 700));
    assert_true(near(rt_links_seconds(&l, 800, 1, 8), 7 + 3.5));
    assert_true(near(rt_links_seconds(&l, 800, 2, 8), 7 + 7));
}

/* Four buckets of 1 s in a backward of 8 s: one is left when it ends; without overlap all are. */
static void backward_hides_what_is_ready(void **state)
{
    const rt_links l = { "", 100, 0 };
    rt_links_step s = { .forward = 4, .backward = 8, .update = 1, .gradient = 400, .buckets = 4, .overlaps = 1 };
    (void)state;
    rt_links_result r = rt_links_of(&l, &s, 2); /* 2 passes x 100 bytes x 1/2 / 100 = 1 s each */
    assert_true(near(r.comm, 4) && near(r.total, 14) && near(r.hidden, 0.75) && near(r.sent, 400));
    assert_true(near(r.efficiency, 13.0 / 14));
    s.overlaps = 0;
    r = rt_links_of(&l, &s, 2);
    assert_true(near(r.comm, 4) && near(r.total, 17) && near(r.hidden, 0));
    /* A link slower than backward is never idle: buckets queue. */
    s.overlaps = 1;
    s.gradient = 1600;
    r = rt_links_of(&l, &s, 2); /* 4 s each, from 6 on */
    assert_true(near(r.comm, 16) && near(r.total, 6 + 16 + 1));
    /* What is ready last is hidden by nothing. */
    s.gradient = 400;
    s.last = 200;
    r = rt_links_of(&l, &s, 2);
    assert_true(near(r.comm, 4) && near(r.total, 12 + 0.5 + 2 + 1));
    /* Sharded: the sum is half as much, and weights are gathered after the update. */
    s.last = 0;
    s.weights = 200;
    r = rt_links_of(&l, &s, 2);
    assert_true(near(r.sent, 300) && near(r.comm, 2 + 1) && near(r.total, 12 + 0.5 + 1 + 1));
    r = rt_links_of(&l, &s, 1);
    assert_true(r.comm == 0 && near(r.total, 13) && r.hidden == 1 && r.efficiency == 1 && r.sent == 0);
}

/* Qwen2.5-1.5B to 0.5B, 16 x 512 positions a rank, 99.5 ms a step on one H200: 37 ms of it backward; gradients in f32,
 * of which the tied embedding's are ready last. */
static rt_links_step pair(int overlaps)
{
    const double all = 494.0e6 * 4, embedding = 136.1e6 * 4;
    return (rt_links_step){ .forward = 0.0585,
                            .backward = 0.037,
                            .update = 0.004,
                            .gradient = all,
                            .last = embedding,
                            .weights = all / 2,
                            .buckets = 24,
                            .overlaps = overlaps };
}

static void the_table_of_the_docs(void **state)
{
    static const struct {
        uint32_t ranks;
        rt_links link;
        const char *want[2]; /* after backward; beside it */
    } rows[] = {
        { 8, { "NVLink", 450e9, 3e-6 }, { "2.59 GB, 5.8 ms, 94.5 %", "2.59 GB, 6.3 ms, 96.9 %" } },
        { 64, { "NVLink, 8 x 400 Gbit/s", 400e9, 5e-6 }, { "2.92 GB, 8.2 ms, 92.4 %", "2.92 GB, 15.5 ms, 95.3 %" } },
        { 1024,
          { "NVLink, 8 x 400 Gbit/s", 400e9, 5e-6 },
          { "2.96 GB, 22.7 ms, 81.4 %", "2.96 GB, 140.4 ms, 48.7 %" } },
        { 64,
          { "100 Gbit/s a node of 8", 12.5e9, 20e-6 },
          { "2.92 GB, 237.2 ms, 29.6 %", "2.92 GB, 266.2 ms, 30.1 %" } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int overlaps = 0; overlaps < 2; overlaps++) {
            char text[80];
            rt_links_step s = pair(overlaps);
            if (!overlaps) s.buckets = 1;
            rt_links_result r = rt_links_of(&rows[i].link, &s, rows[i].ranks);
            snprintf(text, sizeof text, "%.2f GB, %.1f ms, %.1f %%", r.sent / 1e9, 1e3 * r.comm, 100 * r.efficiency);
            if (strcmp(text, rows[i].want[overlaps]) != 0)
                fail_msg("%u ranks, %s, %d: %s (hidden %.2f)", rows[i].ranks, rows[i].link.name, overlaps, text,
                         r.hidden);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_sends_almost_all),
        cmocka_unit_test(backward_hides_what_is_ready),
        cmocka_unit_test(the_table_of_the_docs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
