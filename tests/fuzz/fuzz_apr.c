/* fuzz_apr.c - any bytes as an APR file: refused, or opened with every value, row and token within its bounds.
 *
 * The file is in memory only. The header's CRC is put right first, or nothing behind it would ever be reached; an odd
 * last byte leaves it as it is. What does not begin with the magic belongs to other formats and is left out. With
 * -DRT_FUZZ_REPLAY it has a main() of its own (replay.h). */
#include "base/json.h"
#include "text/data/model_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

static void fix_header(uint8_t *p)
{
    uLong crc = crc32(crc32(0, p, 40), p + 44, 20);
    for (int i = 0; i < 4; i++) p[40 + i] = (uint8_t)(crc >> 8 * i);
}

/* The first and the last row, if they are short enough to be worth it. */
static void read_rows(const rt_model_file *m, const rt_tensor *t)
{
    enum { MOST = 4096 };
    static float row[MOST];
    uint64_t cols = rt_tensor_cols(t), rows = rt_tensor_rows(t);
    const rt_map *map = &m->parts[t->file].map;
    require(t->data >= map->data && t->bytes <= map->size && (uint64_t)(t->data - map->data) <= map->size - t->bytes);
    if (cols > MOST) return;
    rt_tensor_to_f32(row, t, 0, 1);
    rt_tensor_to_f32(row, t, rows - 1, 1);
    for (uint64_t r = 0; r < rows && r < 64; r++) require(rt_tensor_stored_row(t, r) < rows || t->rank == 1);
}

static void read_text(const rt_model_file *m)
{
    rt_err e = { 0 };
    rt_text_source *s = NULL;
    if (m->text.has_vocab) require(m->text.vocab.model && m->text.vocab.token_count > 0);
    int rc = rt_text_from_model(&s, &m->text, &m->config, "input", &e);
    if (rc < 0)
        require(e.status == rc && e.text[0]);
    else
        require(s->tokenizer && s->special && s->end_of_turn < rt_tokenizer_size(s->tokenizer));
    rt_text_close(s);
}

static void use(rt_model_file *m)
{
    rt_err e = { 0 };
    require(m->has_config && m->container == RT_CONTAINER_APR);
    for (uint32_t i = 0; i < m->tensor_count; i++) read_rows(m, &m->tensors[i]);
    read_text(m);
    rt_model_file_check(m, &e);
    int rc = rt_model_file_check_bytes(m, NULL, &e);
    require(rc == RT_OK || (rc == RT_FORMAT && e.text[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    rt_err e = { 0 };
    rt_hub_env env = { 0 };
    rt_model_file *m = NULL;
    if (size < 4 || memcmp(data, "APR", 3) != 0) return 0;
    rt_json_init();
    uint8_t *copy = malloc(size);
    require(copy != NULL);
    memcpy(copy, data, size);
    if (size >= 64 && copy[size - 1] % 2 == 0) fix_header(copy);
    int fd = memfd_create("apr", 0);
    require(fd >= 0 && write(fd, copy, size) == (ssize_t)size);
    free(copy);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = rt_model_file_open(&m, path, &env, &e);
    if (rc < 0)
        require(e.text[0] != 0 && e.status == rc);
    else if (m->container == RT_CONTAINER_APR)
        use(m);
    rt_model_file_close(m);
    close(fd);
    require(rt_alloc_live() == 0);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
