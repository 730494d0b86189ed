/* fuzz_gguf.c - any bytes as a GGUF file: refused, or opened with every value, row and token within its bounds.
 *
 * The file is in memory only. What does not begin with the magic belongs to other formats and is left out. With
 * -DRT_FUZZ_REPLAY it has a main() of its own (replay.h). */
#include "format/model_file.h"
#include "text/tokenizer/tokenizer.h"

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

/* The first and the last row, if they are short enough to be worth it. */
static void read_rows(const rt_tensor *t)
{
    enum { MOST = 4096 };
    static float row[MOST];
    uint64_t cols = rt_tensor_cols(t), rows = rt_tensor_rows(t);
    if (rows == 0 || cols == 0 || cols > MOST || rt_tensor_elems(t) == 0) return;
    rt_tensor_to_f32(row, t, 0, 1);
    rt_tensor_to_f32(row, t, rows - 1, 1);
    for (uint64_t r = 0; r < rows && r < 64; r++) require(rt_tensor_stored_row(t, r) < rows || t->rank == 1);
}

static void read_text(const rt_model_text *t)
{
    rt_err e = { 0 };
    rt_tokenizer *tokenizer = NULL;
    static volatile char sink;
    rt_span all[] = { t->tokenizer_json, t->chat_template, t->tokenizer_config, t->generation_config };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].data && all[i].len > 0) sink = all[i].data[all[i].len - 1];
    (void)sink;
    if (!t->has_vocab) return;
    require(t->vocab.model && t->vocab.token_count > 0);
    if (rt_tokenizer_from_vocab(&tokenizer, &t->vocab, &e) < 0) require(e.text[0] != 0);
    rt_tokenizer_free(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    rt_err e = { 0 };
    rt_hub_env env = { 0 };
    rt_model_file *m = NULL;
    if (size < 4 || memcmp(data, "GGUF", 4) != 0) return 0;
    int fd = memfd_create("gguf", 0);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = rt_model_file_open(&m, path, &env, &e);
    if (rc < 0) {
        require(e.text[0] != 0 && e.status == rc);
    } else {
        for (uint32_t i = 0; i < m->tensor_count; i++) read_rows(&m->tensors[i]);
        read_text(&m->text);
        rt_model_file_check(m, &e);
    }
    rt_model_file_close(m);
    close(fd);
    require(rt_alloc_live() == 0);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
