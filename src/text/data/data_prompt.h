/* data_prompt.h - what a model is asked to go on from: a line that a user wrote, or the beginning of a record, as ids.
 *
 * Owns: where a record's prompt ends, and the same beginning that the data has before it (BOS, the chat template with
 * its generation prompt). Files of prompts are for those who read them. */
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
/* A conversation, as a list of messages, up to where the assistant speaks. tools and shown may be null. */
int rt_prompt_from_chat(const rt_data_text *t, const json_t *messages, const json_t *tools, rt_str *shown,
                        rt_tok_ids *ids, rt_err *e);

#endif
