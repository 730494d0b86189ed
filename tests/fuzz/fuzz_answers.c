/* fuzz_answers.c - any bytes as a file of prompts, and as a file of answers that is to be continued.
 *
 * The first byte chooses which: prompts, in each format that a file may have, are read twice and are the same; of
 * answers, what counts as found is whole, and what follows it and may be cut off is nothing that somebody else wrote.
 * In a file of answers byte 1 stands for the hash that a line has to have, byte 2 for the settings. With
 * -DRT_FUZZ_REPLAY it has a main() of its own (replay.h). */
#include "base/json.h"
#include "job/job_answers_internal.h"
#include "text/tokenizer/vocab_convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

#define SETTINGS "0123456789abcdef"
static const char *const endings[] = { "jsonl", "json", "csv", "tsv", "txt", "parquet", "dat" };
enum { ENDINGS = sizeof endings / sizeof *endings, PROMPTS = 3 };
static const char tmpl[] = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: ";
static const char prompts[] =
    "{\"prompt\": \"a\"}\n{\"messages\": [{\"role\": \"user\", \"content\": \"b\"}]}\n{\"prompt\": \"a\"}\n";

static rt_tokenizer *tokenizer;
static rt_chat_template *chat;
static rt_data_text how;
static rt_asked_list asked;
static char folder[64], asked_path[80], given_path[80];

static void tear_down(void)
{
    rt_asked_free(&asked);
    rt_dir_remove(folder);
}

static void write_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    require(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

static void set_up(void)
{
    rt_err e = { 0 };
    rt_str json = { 0 };
    rt_job_tell tell = { 0 };
    rt_json_init();
    require(rt_byte_tokenizer_json(&json, RT_BYTE_TOKENS, &e) == RT_OK);
    require(rt_tokenizer_from_json(&tokenizer, json.data, json.len, &e) == RT_OK);
    require(rt_chat_template_new(&chat, tmpl, sizeof tmpl - 1, &e) == RT_OK);
    rt_str_free(&json);
    how = (rt_data_text){ .tok = tokenizer, .tmpl = chat, .bos = -1, .eos = 256, .eot = -1 };
    snprintf(folder, sizeof folder, "/tmp/retort-fuzz-answers-%ld", (long)getpid());
    rt_dir_remove(folder);
    require(rt_dir_make(folder, &e) == RT_OK);
    snprintf(asked_path, sizeof asked_path, "%s/asked.jsonl", folder);
    snprintf(given_path, sizeof given_path, "%s/given", folder);
    write_file(asked_path, prompts, sizeof prompts - 1);
    require(rt_asked_read(&asked, &how, asked_path, 2, RT_BYTE_TOKENS, &tell, &e) == RT_OK);
    require(asked.count == PROMPTS);
    atexit(tear_down);
}

/* Twice the same: the second reading compares the ids of each prompt. */
static void use_prompts(const char *ending, const uint8_t *data, size_t size)
{
    char path[100];
    rt_err e = { 0 };
    rt_asked_list l = { 0 };
    rt_job_tell tell = { 0 };
    snprintf(path, sizeof path, "%s/p.%s", folder, ending);
    write_file(path, data, size);
    int rc = rt_asked_read(&l, &how, path, 1, RT_BYTE_TOKENS, &tell, &e);
    require(rc == RT_OK ? l.count > 0 && l.longest > 0 : e.text[0] != 0);
    for (uint32_t i = 0; rc == RT_OK && i < l.count; i++) {
        json_t *record = NULL;
        rt_tok_ids ids = { 0 };
        require(rt_asked_ids(&l, &how, i, &record, &ids, &e) == RT_OK);
        require(ids.count > 0 && ids.count <= l.longest);
        json_t *answered = rt_prompt_answered(record, "x", 1);
        require(answered != NULL);
        json_decref(answered);
        json_decref(record);
        rt_free(ids.ids);
    }
    rt_asked_free(&l);
    remove(path);
}

/* The input with its two signs replaced. */
static void make_answers(rt_str *out, uint32_t lines, const uint8_t *data, size_t size)
{
    uint32_t line = 0;
    for (size_t i = 0; i < size; i++) {
        char hash[33];
        uint32_t at = line / lines < PROMPTS ? line / lines : PROMPTS - 1;
        if (data[i] == '\n') line++;
        if (data[i] == 1)
            rt_str_append(out, rt_hash_text(hash, asked.each[at].hash));
        else if (data[i] == 2)
            rt_str_append(out, SETTINGS);
        else
            rt_str_append_n(out, (const char *)&data[i], 1);
    }
    require(!out->failed);
}

static void use_answers(uint32_t lines, const uint8_t *data, size_t size)
{
    rt_err e = { 0 };
    rt_str text = { 0 };
    rt_asked_list l = asked; /* reads its prompts anew */
    uint32_t found = 0;
    uint64_t bytes = 0;
    make_answers(&text, lines, data, size);
    write_file(given_path, text.data ? text.data : "", text.len);
    l.file = NULL;
    l.at = 0;
    int rc = rt_given_found(given_path, &l, &how, lines, SETTINGS, &found, &bytes, &e);
    require(rc == RT_OK || (rc == RT_INVALID && e.text[0]));
    if (rc == RT_OK) {
        size_t ends = 0, rest = text.len;
        require(found <= PROMPTS && bytes <= text.len && (bytes == 0 || text.data[bytes - 1] == '\n'));
        for (size_t i = 0; i < bytes; i++) ends += text.data[i] == '\n';
        require(ends == (size_t)found * lines);
        while (rest > bytes && !text.data[rest - 1]) rest--;
        /* Whole lines of a prompt that lacks others, and the beginning of one. */
        size_t n = rest - (size_t)bytes;
        require(n == 0 || memcmp(text.data + bytes, "{\"messages\":[", n < 13 ? n : 13) == 0 ||
                memcmp(text.data + bytes, "{\"prompt\":\"a\"", n < 13 ? n : 13) == 0 ||
                memmem(text.data + bytes, n, SETTINGS, sizeof SETTINGS - 1));
    }
    rt_prompt_file_close(l.file);
    rt_str_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int ready;
    if (!ready++) set_up();
    if (size < 1) return 0;
    unsigned which = data[0] % (ENDINGS + 2);
    if (which < ENDINGS)
        use_prompts(endings[which], data + 1, size - 1);
    else
        use_answers(1 + which - ENDINGS, data + 1, size - 1);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
