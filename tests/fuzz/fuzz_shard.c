/* fuzz_shard.c - any bytes as a token shard: opened, verified, packed into rows.
 *
 * The hash of the header is set right first, so that the checks behind it are reached. With -DRT_FUZZ_REPLAY it has a
 * main() of its own (replay.h). */
#include "base/mem.h"
#include "text/data/data_rows.h"
#include "text/data/data_shard_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

enum { SEQ_LEN = 16, MOST_ROWS = 200 };

static void use(rt_shard *s)
{
    rt_err e = { 0 };
    rt_rows *r = NULL;
    int32_t ids[SEQ_LEN], target[SEQ_LEN], start[SEQ_LEN], pos[SEQ_LEN];
    rt_row row = { .ids = ids, .target = target, .start = start, .pos = pos };
    rt_rows_source source = { .name = "fuzz", .shards = &s, .count = 1 };
    rt_rows_opts o = {
        .seq_len = SEQ_LEN, .seed = 1, .epochs = 1, .allow_drop = true, .held_out = 0.3, .side = RT_SIDE_TRAIN
    };
    int verified = rt_shard_verify(s, &e);
    if (rt_rows_open(&r, &source, 1, &o, &e) < 0) return;
    uint64_t trained = 0;
    int rc = 1;
    for (int n = 0; n < MOST_ROWS && rc == 1; n++) {
        rc = rt_rows_next(r, &row, &e);
        if (rc != 1) break;
        require(row.tokens <= SEQ_LEN && row.doc_count > 0);
        trained += row.trained;
        for (uint32_t i = 0; i < SEQ_LEN; i++) require(start[i] >= 0 && start[i] <= (int32_t)i && ids[i] >= 0);
    }
    /* What verifies is what the index says of it. */
    if (verified == RT_OK && rc == 0) require(trained == rt_rows_of_source(r, 0)->trained);
    if (verified == RT_OK) require(rc >= 0);
    rt_rows_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rt_err e = { 0 };
    rt_shard *s = NULL;
    char path[64];
    rt_shard_header h;
    int fd = memfd_create("fuzz", 0);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    if (size >= sizeof h) {
        memcpy(&h, data, sizeof h);
        memcpy(h.magic, h.magic[0] == 'R' ? RT_SHARD_MAGIC : h.magic, sizeof h.magic);
        h.header = rt_shard_header_hash(&h);
        if (h.magic[0] == 'R') require(pwrite(fd, &h, sizeof h, 0) == sizeof h);
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    rt_shard_expect x = { .vocab = 70000, .block = SEQ_LEN };
    if (rt_shard_open(&s, path, &x, &e) == RT_OK)
        use(s);
    else
        require(e.text[0]);
    rt_shard_close(s);
    close(fd);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
