/* data_case.h - for the tests of datasets: a folder of their own, a tokenizer of bytes, templates, records. */
#ifndef RT_TESTS_DATA_CASE_H
#define RT_TESTS_DATA_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "temp_folder.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/data/data_rows.h"
#include "text/data/dataset.h"
#include "text/tokenizer/vocab_convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EOT_TEXT = 256, IM_START = 257, IM_END = 258 };

#define CHATML                                                                                                         \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"                         \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
#define CHATML_MARKED                                                                                                  \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}"                  \
    "{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}{{ '\\n' }}{% endfor %}"

static char case_folder[64];
static rt_tokenizer *case_tokenizer;

static inline int open_case(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_str json = { 0 };
    rt_json_init();
    snprintf(case_folder, sizeof case_folder, "%s/retort-data-XXXXXX", temp_folder());
    if (!mkdtemp(case_folder)) return -1;
    if (rt_byte_tokenizer_json(&json, RT_BYTE_TOKENS, &e) < 0) return -1;
    int rc = rt_tokenizer_from_json(&case_tokenizer, json.data, json.len, &e);
    rt_str_free(&json);
    return rc;
}

static inline int close_case(void **state)
{
    (void)state;
    rt_tokenizer_free(case_tokenizer);
    rt_dir_remove(case_folder);
    return 0;
}

/* Some are kept in use at once; no more than eight. */
static inline const char *in_folder(const char *name)
{
    static char paths[8][256];
    static int next;
    next = (next + 1) % 8;
    snprintf(paths[next], sizeof paths[next], "%s/%s", case_folder, name);
    return paths[next];
}

static inline const char *put_file(const char *name, const void *data, size_t len)
{
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    fclose(f);
    return path;
}

static inline const char *put_text(const char *name, const char *text) { return put_file(name, text, strlen(text)); }

static inline rt_chat_template *template_of(const char *text)
{
    rt_err e = { 0 };
    rt_chat_template *t = NULL;
    if (rt_chat_template_new(&t, text, strlen(text), &e) < 0) fail_msg("%s", e.text);
    return t;
}

static inline rt_data_text text_with(const rt_chat_template *tmpl)
{
    return (rt_data_text){ .tok = case_tokenizer, .tmpl = tmpl, .bos = -1, .eos = EOT_TEXT, .eot = IM_END };
}

/* A message must say each of these, separated by '|'. */
static inline void expect_message(const rt_err *e, const char *words)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, "|"); word; word = strtok(NULL, "|"))
        if (!strstr(e->text, word)) fail_msg("'%s' lacks '%s'", e->text, word);
}

#endif
