/* fuzz_cache.c - any bytes as the files of a cache: opened, looked into, every block read, summed up, merged.
 *
 * The first byte chooses the section. The rest is a file of blocks whose hashes are set right first, so that the checks
 * behind them are reached; or, by the second byte, a record of that section. With -DRT_FUZZ_REPLAY it has a main() of
 * its own (replay.h). */
#include "base/lock.h"
#include "teacher/cache/cache_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

enum { SECTIONS = 5, MOST_N = 16 };
static const rt_cache_section sections[SECTIONS] = {
    { RT_KEEP_TOPK, MOST_N, .T = 1 },
    { RT_KEEP_TOPK, MOST_N, .T = 1, .target = true },
    { RT_KEEP_TOPK, 5, .T = 1, .exact = true },
    { RT_KEEP_DRAWS, MOST_N, .T = 1 },
    { RT_KEEP_HIDDEN, MOST_N, .T = 1, .dtype = RT_DTYPE_F16 },
};
static char folders[SECTIONS][64];
static uint8_t hashes[SECTIONS][RT_CACHE_KEY_BYTES];

static void remove_folders(void)
{
    for (int i = 0; i < SECTIONS; i++) rt_dir_remove(folders[i]);
}

static void set_up(void)
{
    for (int i = 0; i < SECTIONS; i++) {
        char part[80];
        rt_cache *c;
        snprintf(folders[i], sizeof folders[i], "/tmp/retort-fuzz-cache-%ld-%d", (long)getpid(), i);
        snprintf(part, sizeof part, "%s/part-0", folders[i]);
        rt_dir_remove(folders[i]);
        require(rt_cache_create(folders[i], NULL, &sections[i], 1, NULL) == RT_OK);
        require(rt_cache_open(&c, folders[i], NULL) == RT_OK);
        memcpy(hashes[i], c->hash, sizeof hashes[i]);
        rt_cache_close(c);
        require(mkdir(part, 0777) == 0);
    }
    atexit(remove_folders);
}

static int32_t ids[64 * MOST_N], targets[64];
static float logps[64 * MOST_N], rests[64], entropies[64], target_logps[64];
static uint8_t rows[64 * MOST_N * 4];
static rt_cache_block block = { .id = ids,
                                .logp = logps,
                                .rest = rests,
                                .entropy = entropies,
                                .target = targets,
                                .target_logp = target_logps,
                                .hidden = rows };

/* What was read is in order: ids that differ, log-probabilities going down, unused entries at the end. */
static void check_read(const rt_cache_section *s, uint32_t count)
{
    for (uint32_t j = 0; j < count && s->keep != RT_KEEP_HIDDEN; j++)
        for (uint32_t i = 0; i < s->n; i++) {
            const int32_t *id = ids + j * s->n;
            const float *logp = logps + j * s->n;
            require(id[i] >= -1 && isfinite(logp[i]));
            if (i == 0 || id[i] < 0) continue;
            require(id[i - 1] >= 0 && (logp[i] < logp[i - 1] || (logp[i] == logp[i - 1] && id[i] > id[i - 1])));
        }
}

/* A record that is read has the length that is skipped, and says the same when it is written and read again. */
static void use_record(const rt_cache_section *s, const uint8_t *data, size_t size)
{
    uint64_t scratch[2 * MOST_N];
    uint32_t bytes = 0, skipped = 0;
    block.have = 1;
    if (!rt_cache_record_get(s, data, size, &block, 0, scratch, &bytes)) return;
    require(bytes <= size && rt_cache_record_get(s, data, size, NULL, 0, NULL, &skipped) && bytes == skipped);
    check_read(s, 1);
    static int32_t ids_before[MOST_N];
    static float logps_before[MOST_N];
    uint8_t again[64 + 9 * MOST_N];
    require(rt_cache_record_most(s) <= sizeof again);
    memcpy(ids_before, ids, sizeof ids_before);
    memcpy(logps_before, logps, sizeof logps_before);
    if (rt_cache_record_put(s, &block, 0, scratch, again, &bytes, NULL) < 0) return; /* its mass is not 1 */
    require(bytes <= rt_cache_record_most(s) && rt_cache_record_get(s, again, bytes, &block, 0, scratch, &skipped));
    require(bytes == skipped);
    for (uint32_t i = 0; i < s->n && (s->exact || s->keep == RT_KEEP_DRAWS); i++)
        require(ids[i] == ids_before[i] && logps[i] == logps_before[i]);
}

static void use_cache(rt_cache *c)
{
    rt_err e = { 0 };
    rt_hash128 content;
    const rt_cache_section *s;
    require(rt_cache_sections(c, &s) == 1);
    uint64_t positions = 0;
    for (uint64_t i = 0; i < c->files[0].header->blocks && i < 100; i++) {
        const rt_cache_entry *x = &c->files[0].entries[i];
        rt_hash128 key = { 0 };
        for (int k = 0; k < 8; k++) {
            key.hi = key.hi << 8 | x->key[k];
            key.lo = key.lo << 8 | x->key[8 + k];
        }
        uint64_t have = rt_cache_have(c, 0, &key);
        require((have & x->have) == x->have);
        positions += (uint64_t)__builtin_popcountll(x->have);
        if (rt_cache_get(c, 0, &key, have, &block, &e) == RT_OK)
            check_read(s, (uint32_t)__builtin_popcountll(have));
        else
            require(e.text[0] && e.status == RT_FORMAT);
    }
    require(rt_cache_size_of(c, 0).positions >= positions);
    e = (rt_err){ 0 };
    if (rt_cache_content(c, 0, NULL, &content, NULL, &e) < 0) require(e.text[0]);
}

static void set_hashes(uint8_t *file, size_t size, const uint8_t cache[RT_CACHE_KEY_BYTES])
{
    rt_cache_header h;
    if (size < sizeof h) return;
    memcpy(&h, file, sizeof h);
    memcpy(h.magic, RT_CACHE_MAGIC, sizeof h.magic);
    memcpy(h.cache, cache, sizeof h.cache);
    h.bytes = size;
    if (h.index_at <= size) {
        for (uint64_t at = h.index_at; at % 8 == 0 && at + sizeof(rt_cache_entry) <= size;
             at += sizeof(rt_cache_entry)) {
            rt_cache_entry x;
            memcpy(&x, file + at, sizeof x);
            if (x.at <= size && x.bytes <= size - x.at) x.check = rt_cache_check(file + x.at, x.bytes);
            memcpy(file + at, &x, sizeof x);
        }
        rt_hash128 index = rt_hash(file + h.index_at, size - (size_t)h.index_at);
        rt_cache_key_bytes(h.index, &index);
    }
    memset(h.header, 0, sizeof h.header);
    rt_hash128 header = rt_hash(&h, sizeof h);
    rt_cache_key_bytes(h.header, &header);
    memcpy(file, &h, sizeof h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int ready;
    rt_err e = { 0 };
    rt_cache *c = NULL;
    char path[100];
    if (!ready++) set_up();
    if (size < 2) return 0;
    unsigned which = data[0] % SECTIONS;
    if (data[1] & 1) {
        use_record(&sections[which], data + 2, size - 2);
        return 0;
    }
    uint8_t *file = malloc(size);
    require(file != NULL);
    memcpy(file, data + 2, size - 2);
    set_hashes(file, size - 2, hashes[which]);
    snprintf(path, sizeof path, "%s/part-0/00000001.rtcache", folders[which]);
    FILE *f = fopen(path, "wb");
    require(f && fwrite(file, 1, size - 2, f) == size - 2 && fclose(f) == 0);
    free(file);
    if (rt_cache_open(&c, folders[which], &e) == RT_OK)
        use_cache(c);
    else
        require(e.text[0]);
    rt_cache_close(c);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
