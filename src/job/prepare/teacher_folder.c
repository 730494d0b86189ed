/* teacher_folder.c - see teacher_folder.h. */
#include "job/prepare/teacher_folder.h"

#include "format/model_write.h"
#include "format/tensor_file.h"
#include "text/tokenizer/vocab_convert.h"

#include <string.h>

typedef struct one_tensor {
    const rt_tensor *from;
    rt_dtype dtype;
} one_tensor;

/* The writer asks for pieces of its own size, which need not be whole rows. */
static int values_of(void *ctx, uint32_t i, uint64_t first, uint64_t n, void *dst, rt_err *e)
{
    const one_tensor *t = ctx;
    const uint64_t cols = rt_tensor_cols(t->from), each = rt_dtype_bytes(t->dtype, 1);
    char *row = rt_alloc((size_t)(cols * each), 64);
    float *scratch = rt_alloc((size_t)cols * sizeof *scratch, 64);
    int rc = row && scratch ? RT_OK : rt_no_memory(e, "the teacher's head");
    (void)i;
    for (uint64_t done = 0, take; rc >= 0 && done < n; done += take) {
        const uint64_t at = (first + done) % cols;
        take = n - done < cols - at ? n - done : cols - at;
        rt_tensor_to_dtype(row, t->dtype, t->from, (first + done) / cols, 1, scratch);
        memcpy((char *)dst + done * each, row + at * each, (size_t)(take * each));
    }
    rt_free(row);
    rt_free(scratch);
    return rc;
}

/* Its head, for hidden states; of lists the last norm, so that the folder is a model's as far as it goes. */
static int write_tensor(const rt_model_file *m, bool hidden, const char *folder, rt_err *e)
{
    int rc;
    const rt_model_config *c = &m->config;
    char name[RT_NAME_BYTES];
    rt_arena a = { 0 };
    rt_role role = !hidden ? RT_ROLE_FINAL_NORM : c->tied ? RT_ROLE_EMBED : RT_ROLE_HEAD;
    one_tensor t = { .from = rt_model_file_find(m, rt_role_hf_name(name, role, 0)) };
    char *path = rt_path_join(&a, folder, "model.safetensors");
    if (!t.from || !path) RT_TRY(rt_fail(e, RT_INTERNAL, "the teacher has no %s", name));
    bool plain = t.from->store == RT_STORE_PLAIN && rt_dtype_is_float(t.from->dtype) && t.from->dtype != RT_DTYPE_F64;
    t.dtype = plain ? t.from->dtype : RT_DTYPE_F32; /* packed blocks as the values that they stand for */
    rt_named_tensor one = {
        name, t.dtype, t.from->rank, { t.from->shape[0], t.from->rank == 2 ? t.from->shape[1] : 0 }
    };
    RT_TRY(rt_tensor_file_write(path, &one, 1, values_of, &t, NULL, e));
out:
    rt_arena_free(&a);
    return rc;
}

static int write_config(const rt_model_file *m, const char *folder, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    rt_str text = { 0 };
    char *path = rt_path_join(&a, folder, "config.json");
    if (!path) RT_TRY(rt_no_memory(e, "a path"));
    RT_TRY(rt_config_to_json(&m->config, RT_DTYPE_F32, &text, e));
    RT_TRY(rt_file_write(path, text.data, text.len, e));
out:
    rt_str_free(&text);
    rt_arena_free(&a);
    return rc;
}

int rt_teacher_folder_write(const rt_model_file *m, bool hidden, const char *folder, rt_notes *notes, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    rt_model_text text = m->text;
    rc = rt_model_text_for(&text, &m->text, RT_CONTAINER_HF, m->config.vocab, &a, NULL, e);
    if (rc == RT_UNSUPPORTED) {
        rt_note(notes, "what is kept of the teacher has no tokenizer.json: %s",
                e ? e->text : "the tokenizer cannot be written in that form");
        rc = RT_OK;
    }
    RT_TRY(rc);
    RT_TRY(rt_model_write_text(&text, folder, NULL, e));
    RT_TRY(write_config(m, folder, e));
    RT_TRY(write_tensor(m, hidden, folder, e));
out:
    rt_arena_free(&a);
    return rc;
}
