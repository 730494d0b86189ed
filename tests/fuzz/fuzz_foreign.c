/* fuzz_foreign.c - any bytes as what other tools write of a teacher: JSON lines of axolotl and vLLM, a .kd beside its
 * token shard.
 *
 * The first byte chooses the format, the second k and whether ids are given beside a line. Of a .kd the headers are set
 * right, or, by a bit, left as they come. What is read is in order, goes into a cache or is refused with a reason, and
 * is the same when it is written and read again. With -DRT_FUZZ_REPLAY it has a main() of its own (replay.h). */
#include "base/file.h"
#include "base/json.h"
#include "teacher/cache/foreign.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

enum { HEADER = 1024, MOST_TOKENS = 64, MOST_K = 8, KEPT = 500 };
static const rt_cache_section section = { RT_KEEP_TOPK, MOST_K, .T = 1 };
static char folder[64];
static rt_cache *cache;
static rt_cache_writer *writer;

static void tear_down(void)
{
    rt_cache_writer_free(writer);
    rt_cache_close(cache);
    rt_dir_remove(folder);
}

static void set_up(void)
{
    rt_json_init();
    snprintf(folder, sizeof folder, "/tmp/retort-fuzz-foreign-%ld", (long)getpid());
    rt_dir_remove(folder);
    require(rt_cache_create(folder, NULL, &section, 1, NULL) == RT_OK);
    require(rt_cache_open(&cache, folder, NULL) == RT_OK);
    atexit(tear_down);
}

/* ids that differ from -1 come first, log-probabilities go down, and no mass is above 1. */
static void check(const rt_foreign_doc *d)
{
    require(d->tokens > 0 && d->k > 0);
    for (uint32_t p = 0; p < d->tokens; p++) {
        const int32_t *id = d->id + (size_t)p * d->k;
        const float *logp = d->logp + (size_t)p * d->k;
        require(d->ids[p] >= 0 && d->rest[p] >= 0 && d->rest[p] <= 1);
        for (uint32_t i = 0; i < d->k; i++) {
            require(id[i] >= -1 && isfinite(logp[i]));
            require(i == 0 || id[i] < 0 || (id[i - 1] >= 0 && logp[i] <= logp[i - 1]));
        }
    }
}

static void put(const rt_foreign_doc *d)
{
    static int count;
    rt_err e = { 0 };
    if (count++ % KEPT == 0) { /* what it holds is not to grow for ever */
        rt_cache_writer_free(writer);
        require(rt_cache_writer_new(&writer, cache, 0, NULL) == RT_OK);
    }
    if (rt_foreign_put(writer, &section, d, &e) < 0) require(e.text[0]);
}

/* The last position is of a token that is not there, so no line has it. */
static void again(rt_foreign_lines kind, const rt_foreign_doc *d)
{
    rt_err e = { 0 };
    rt_str line = { 0 };
    rt_foreign_doc back;
    rt_foreign_line_write(&line, kind, d);
    require(!line.failed);
    int rc = rt_foreign_line_read(&back, kind, line.data, line.len, NULL, 0, d->k, &e);
    require(rc == RT_OK && back.tokens == d->tokens);
    size_t n = (size_t)(d->tokens - 1) * d->k;
    require(memcmp(back.ids, d->ids, d->tokens * sizeof *d->ids) == 0);
    for (size_t i = 0; i < n; i++) require(back.id[i] == d->id[i] && (d->id[i] < 0 || back.logp[i] == d->logp[i]));
    rt_foreign_doc_free(&back);
    rt_str_free(&line);
}

static void use_line(rt_foreign_lines kind, uint32_t k, bool given, const uint8_t *data, size_t size)
{
    static const int32_t ids[5] = { 7, 7, 8, 9, 0 };
    rt_err e = { 0 };
    rt_foreign_doc d;
    int rc = rt_foreign_line_read(&d, kind, (const char *)data, size, given ? ids : NULL, 5, k, &e);
    if (rc < 0) {
        require((rc == RT_FORMAT || rc == RT_NOMEM) && e.text[0] && !d.ids);
        return;
    }
    check(&d);
    put(&d);
    again(kind, &d);
    rt_foreign_doc_free(&d);
}

static int file_of(char path[64], const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", 0);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void put_header(uint8_t *at, const char *magic, uint32_t a, uint32_t b, uint32_t tokens)
{
    memcpy(at, magic, 8);
    const uint32_t fields[] = { a, b, tokens, 300, 0 };
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 4; k++) at[8 + 4 * i + k] = (uint8_t)(fields[i] >> 8 * k);
}

static void use_kd(uint32_t k, bool raw, uint32_t window, const uint8_t *data, size_t size)
{
    char shard[64], kd[64];
    rt_err e = { 0 };
    rt_foreign_kd *f = NULL;
    rt_foreign_doc d;
    if (size < 2) return;
    uint32_t tokens = 1 + data[0] % MOST_TOKENS, total = 0;
    size_t first = HEADER + 8 * (size_t)tokens, second = HEADER + 6 * (size_t)k * tokens;
    static uint8_t both[2 * HEADER + (8 + 6 * MOST_K) * MOST_TOKENS];
    memset(both, 0, sizeof both);
    size_t take = raw ? sizeof both : first + second;
    if (raw) first = (size_t)data[1] * 8, second = sizeof both - first;
    uint8_t *at = raw ? both : both + HEADER;
    size_t room = raw ? take : first - HEADER, n = size - 2 < room ? size - 2 : room;
    memcpy(at, data + 2, n);
    if (!raw) {
        put_header(both, "BIN.TOK\n", 3, 4, tokens);
        put_header(both + first, "KD.LOGP\n", 1, k, tokens);
        if (size - 2 > n) {
            size_t rest = size - 2 - n, most = second - HEADER;
            memcpy(both + first + HEADER, data + 2 + n, rest < most ? rest : most);
        }
    }
    int a = file_of(shard, both, first), b = file_of(kd, both + first, second), rc;
    rc = rt_foreign_kd_open(&f, shard, kd, window, &e);
    require(rc == RT_OK || (e.text[0] && !f));
    require(raw || rc == RT_OK);
    while (rc >= 0 && f && (rc = rt_foreign_kd_next(f, &d, &e)) == 1) {
        check(&d);
        put(&d);
        total += d.tokens;
        require(!window || d.tokens <= window);
        rt_foreign_doc_free(&d);
    }
    require(rc >= 0 ? !f || raw || total == tokens : e.text[0] != 0);
    rt_foreign_kd_close(f);
    close(a);
    close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int ready;
    if (!ready++) set_up();
    if (size < 2) return 0;
    uint32_t k = 1 + data[1] % MOST_K;
    bool bit = data[1] & 0x10;
    if (data[0] % 3 == 2)
        use_kd(k, bit, data[1] >> 5, data + 2, size - 2);
    else
        use_line(data[0] % 3 ? RT_FOREIGN_VLLM : RT_FOREIGN_AXOLOTL, k, bit, data + 2, size - 2);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
