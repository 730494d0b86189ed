/* data_prompt.h - what a model is asked to go on from: a line that a user wrote, or the beginning of a record, as ids.
 *
 * Owns: where a record's prompt ends, the same beginning that the data has before it (BOS, the chat template with its
 * generation prompt), and files of prompts. What becomes of the answers is for those who ask. */
#ifndef RT_DATA_DATA_PROMPT_H
#define RT_DATA_DATA_PROMPT_H

#include "text/data/dataset.h"

/* Appends to shown what a person should see of the prompt, and to ids what the model reads.
 *
 * A line of text is what a user says where there is a chat template, else a text to continue. */
int rt_prompt_from_line(const rt_data_text *t, const char *line, size_t len, rt_str *shown, rt_tok_ids *ids, rt_err *e);
/* A record: `prompt` and `text` are continued as they are; of conversations, in every spelling that data may have, what
 * stands before the assistant's last words. RT_FORMAT for broken JSON, RT_INVALID for what holds no prompt. */
int rt_prompt_from_json(const rt_data_text *t, const char *json, size_t len, rt_str *shown, rt_tok_ids *ids, rt_err *e);
/* The same in two steps, for whoever writes the answer beside it. A record of its own for a line (or, where json, for a
 * record): {"messages": [...], "tools": [...]} up to where the assistant speaks, or {"prompt": "..."}. *out is the
 * caller's. */
int rt_prompt_record(const rt_data_text *t, const char *line, size_t len, bool json, json_t **out, rt_err *e);
int rt_prompt_from_record(const rt_data_text *t, const json_t *record, rt_str *shown, rt_tok_ids *ids, rt_err *e);
/* A copy of such a record with an answer, as training data has it: a last message, or `completion`. Null when memory is
 * out or the answer is not UTF-8. */
json_t *rt_prompt_answered(const json_t *record, const char *answer, size_t len);
/* A conversation, as a list of messages, up to where the assistant speaks: its text, appended, or its ids. tools and
 * shown may be null. */
int rt_prompt_chat_text(const rt_data_text *t, const json_t *messages, const json_t *tools, rt_str *text, rt_err *e);
int rt_prompt_from_chat(const rt_data_text *t, const json_t *messages, const json_t *tools, rt_str *shown,
                        rt_tok_ids *ids, rt_err *e);

/* ---- files of prompts (data_prompt_file.c) ---- */

/* Any file that data may be: a record each; of a text, and of a file whose ending says nothing, a line each without the
 * white space around it. Byte order marks, CRLF and compression are as in data. */
typedef struct rt_prompt_file rt_prompt_file;
typedef struct rt_prompt_line {
    const char *text; /* (len), until the next is read */
    size_t len;
    uint64_t number; /* of the line in the file, from 1 */
    bool json;       /* a record */
} rt_prompt_line;
/* all_columns: of a table, not those alone that make a record of data. RT_INVALID for a folder and for tokens. */
int rt_prompt_file_open(rt_prompt_file **out, const char *path, bool all_columns, rt_err *e);
/* 1: the next; 0: no more. */
int rt_prompt_file_next(rt_prompt_file *f, rt_prompt_line *out, rt_err *e);
void rt_prompt_file_close(rt_prompt_file *f); /* accepts null */

#endif
