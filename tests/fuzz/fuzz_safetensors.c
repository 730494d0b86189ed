/* fuzz_safetensors.c - any bytes as a safetensors file: an error that says something, or tensors that lie inside the
 * file, cover it, and can be read to their last value.
 *
 * With -DRT_FUZZ_REPLAY it has a main() of its own (replay.h). */
#include "format/hf/hf.h"
#include "format/model_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

/* The bytes as a file without a place on disk; its path. */
static const char *file_of(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        require(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    require(ftruncate(fd, 0) == 0);
    require(size == 0 || pwrite(fd, data, size, 0) == (ssize_t)size);
    return path;
}

static uint64_t use(const rt_model_file *m, const rt_tensor *t)
{
    const rt_map *map = &m->parts[t->file].map;
    require(t->data >= map->data && t->bytes <= map->size && t->data + t->bytes <= map->data + map->size);
    require(t->name && strlen(t->name) >= strlen(t->file_name));
    uint64_t expected, elems = rt_tensor_elems(t), rows = rt_tensor_rows(t), cols = rt_tensor_cols(t);
    require(rt_tensor_expected_bytes(t, &expected) && expected == t->bytes);
    if (elems == 0) return t->bytes;
    require(rows * cols == elems);
    float *y = rt_alloc(elems * sizeof *y, 64), *scratch = rt_alloc(cols * sizeof *scratch, 64);
    uint16_t *half = rt_alloc(cols * sizeof *half, 64);
    require(y && scratch && half);
    rt_tensor_to_f32(y, t, 0, rows);
    rt_tensor_to_dtype(half, RT_DTYPE_F16, t, rows - 1, 1, scratch);
    rt_free(half);
    rt_free(scratch);
    rt_free(y);
    return t->bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rt_pool *pool;
    rt_err e = { 0 };
    rt_model_file m = { .path = "fuzz" };
    rt_span config;
    uint32_t part;
    if (!pool) require(rt_pool_new(&pool, 1, &e) == RT_OK);
    require(rt_model_add_part(&m, file_of(data, size), &part, &e) == RT_OK);
    int rc = rt_safetensors_read(&m, part, &config, &e);
    if (rc == RT_OK) {
        require(rt_safetensors_is(&m.parts[part].map));
        uint64_t covered = 0, header = 0;
        for (int i = 7; i >= 0; i--) header = header << 8 | data[i];
        for (uint32_t i = 0; i < m.tensor_count; i++) covered += use(&m, &m.tensors[i]);
        require(8 + header + covered == size);
        rt_hash128 h;
        require(rt_model_content_hash(&m, pool, &h, NULL, &e) == RT_OK);
    } else {
        require(rc == RT_FORMAT || rc == RT_UNSUPPORTED || rc == RT_NOMEM);
        require(e.status == rc && e.text[0]);
    }
    rt_map_close(&m.parts[part].map);
    rt_arena_free(&m.arena);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
