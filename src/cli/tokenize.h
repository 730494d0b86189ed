/* tokenize.h - between the files of `retort tokenize`: what was asked for, the tokenizer in use, samples. */
#ifndef RT_CLI_TOKENIZE_H
#define RT_CLI_TOKENIZE_H

#include "cli/cli.h"
#include "text/data/data_rows.h"
#include "text/data/dataset.h"
#include "text/data/model_text.h"

typedef struct rt_tokenize_request {
    rt_words data;
    const char *model, *out, *template_file, *loss_name, *eos;
    rt_words vars; /* --template-var */
    uint32_t seq_len, threads, vocab;
    uint64_t skip_bad, show, shard_tokens, now;
    bool allow_drop, force, json, verify;
    bool ids, decode, no_special;
} rt_tokenize_request;

/* The tokenizer with what the flags change about it. */
typedef struct rt_tokenize_text {
    rt_text_source *source; /* null: no --model */
    rt_chat_template *tmpl; /* of --chat-template */
    json_t *extra;
    char template_hash[33]; /* of the template in use, when it came from a file; else empty */
    rt_data_text text;
} rt_tokenize_text;
int rt_tokenize_text_open(rt_tokenize_text *t, const rt_tokenize_request *q, rt_err *e);
void rt_tokenize_text_close(rt_tokenize_text *t);

/* A record as text with what is trained made visible: in colour, or between brackets. Appended to out. */
int rt_tokenize_sample(rt_str *out, const rt_tokenizer *t, const rt_shard_record *r, bool colour, rt_err *e);

int rt_tokenize_data(const rt_tokenize_request *q, rt_err *e);

#endif
