/* chat_template.h - a conversation as the text that a model was trained on, and which part of it the assistant wrote.
 *
 * Owns: the variables that transformers' apply_chat_template gives to a template, and assistant masks as ranges of
 * text. The language is jinja.h; where a template comes from is for the formats; tokens are for those who tokenize the
 * text. */
#ifndef RT_JINJA_CHAT_TEMPLATE_H
#define RT_JINJA_CHAT_TEMPLATE_H

#include "text/jinja/jinja.h"

typedef struct rt_chat_template rt_chat_template;

/* text need not be terminated; it is copied. */
int rt_chat_template_new(rt_chat_template **out, const char *text, size_t bytes, rt_err *e);
void rt_chat_template_free(rt_chat_template *t); /* accepts null */
/* Whether it marks the assistant's text itself, with `generation` blocks. */
bool rt_chat_template_has_generation(const rt_chat_template *t);
/* Whether its source has a word in quotes, 'tool' or "tool", as it has the roles that it looks for. */
bool rt_chat_template_mentions(const rt_chat_template *t, const char *word);

/* All pointers may be null, and must live until the call returns. */
typedef struct rt_chat_options {
    bool add_generation_prompt;
    const json_t *tools, *documents; /* arrays; null: the variable is none */
    /* Objects. special: bos_token, eos_token and the like, of the tokenizer. extra: what the user adds, such as
     * enable_thinking; it wins over special. */
    const json_t *special, *extra;
    /* Masks end behind the last of these in a turn when only white space follows it, such as the newline after
     * <|im_end|>, which the model never has to write. Not used where the template marks the text itself. */
    const char *end_of_turn;
    /* What strftime_now prints: seconds since 1970 in UTC, and what the local clock adds to it. */
    int64_t now;
    int32_t utc_offset;
    const rt_jinja_limits *limits;
} rt_chat_options;

/* messages: an array of {"role": ..., "content": ...}. The ranges are those of `generation` blocks. */
int rt_chat_render(const rt_chat_template *t, const json_t *messages, const rt_chat_options *o, rt_jinja_result *result,
                   rt_err *e);

/* The whole conversation without a generation prompt, and the ranges that the assistant wrote: from `generation` blocks
 * when the template has them; else, for each message i of the assistant, what messages[:i+1] adds to messages[:i] with
 * the generation prompt. That needs the second to begin with the first, and the whole text to begin with the second; a
 * template for which it does not (it drops earlier reasoning, say) is refused with RT_INVALID, and never guessed at. */
int rt_chat_mask(const rt_chat_template *t, const json_t *messages, const rt_chat_options *o, rt_jinja_result *result,
                 rt_err *e);

#endif
