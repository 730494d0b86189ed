/* data_prompt_file.c - the prompts of a file, one after the other, read as data are. See data_prompt.h. */
#include "text/data/data_prompt.h"

#include "text/data/data_internal.h"

#include <string.h>

struct rt_prompt_file {
    rt_data_file file;
    rt_data_list list; /* of it alone */
    rt_raw_reader reader;
    rt_str text; /* of the line that was given last */
    bool lines;
};

static int open_file(rt_prompt_file *f, const char *path, bool all_columns, rt_err *e)
{
    rt_data_format format;
    f->lines = !rt_data_format_of(path, &format) || format == RT_DATA_TEXT;
    if (rt_path_is_dir(path)) return rt_fail(e, RT_INVALID, "%s is a folder; name a file of prompts", path);
    if (!f->lines && (format == RT_DATA_SHARD || format == RT_DATA_BIN))
        return rt_fail(e, RT_INVALID,
                       "%s contains tokens, and a prompt is text; give the file that they were made from", path);
    /* A text is one record where it is data; here it is read as JSON lines are, one by one. */
    f->file =
        (rt_data_file){ .path = rt_arena_strdup(&f->list.arena, path), .format = f->lines ? RT_DATA_JSONL : format };
    if (!f->file.path) return rt_no_memory(e, "prompts");
    f->list.files = &f->file;
    f->list.file_count = 1;
    f->list.sources = rt_arena_alloc(&f->list.arena, sizeof *f->list.sources);
    if (!f->list.sources) return rt_no_memory(e, "prompts");
    *f->list.sources = (rt_data_source){ .spec = path, .name = path, .weight = 1, .file_count = 1 };
    f->list.source_count = 1;
    f->reader = (rt_raw_reader){ .list = &f->list, .end = 1, .all_columns = all_columns };
    return rt_file_size(path, &f->file.size, e);
}

int rt_prompt_file_open(rt_prompt_file **out, const char *path, bool all_columns, rt_err *e)
{
    rt_prompt_file *f = rt_alloc_zero(sizeof *f, _Alignof(rt_prompt_file));
    *out = NULL;
    if (!f) return rt_no_memory(e, "prompts");
    int rc = open_file(f, path, all_columns, e);
    if (rc < 0)
        rt_prompt_file_close(f);
    else
        *out = f;
    return rc;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

int rt_prompt_file_next(rt_prompt_file *f, rt_prompt_line *out, rt_err *e)
{
    rt_raw raw;
    f->text.len = 0;
    int rc = rt_raw_next(&f->reader, &f->text, &raw, e);
    if (rc <= 0) return rc;
    if (raw.fault) {
        rt_fail(e, RT_FORMAT, "%.*s", (int)raw.len, f->text.data + raw.begin);
        rt_err_context(e, "%s, line %llu", f->file.path, (unsigned long long)raw.line);
        return RT_FORMAT;
    }
    const char *text = f->text.data + raw.begin;
    while (raw.len && is_space(text[raw.len - 1])) raw.len--;
    while (raw.len && is_space(*text)) text++, raw.len--;
    *out = (rt_prompt_line){ .text = text, .len = raw.len, .number = raw.line, .json = !f->lines };
    return 1;
}

void rt_prompt_file_close(rt_prompt_file *f)
{
    if (!f) return;
    rt_raw_reader_free(&f->reader);
    rt_arena_free(&f->list.arena);
    rt_str_free(&f->text);
    rt_free(f);
}
