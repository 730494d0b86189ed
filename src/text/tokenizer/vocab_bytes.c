/* vocab_bytes.c - the tokenizer of models that have none of their own: every byte is a token.
 *
 * Owns: its tokenizer.json, which the tokenizers package loads as it is, and its tokenizer_config.json with a template
 * for chats. Splitting is GPT-2's, which changes nothing without merges and has a name in GGUF. */
#include "base/json.h"
#include "text/tokenizer/tok_unicode.h"
#include "text/tokenizer/vocab_convert.h"

static const char *const specials[] = { "<|endoftext|>", "<|im_start|>", "<|im_end|>" };
enum { SPECIALS = sizeof specials / sizeof specials[0], BYTES = 256 };

/* ChatML. What the assistant writes, its end of turn included, is a generation block. */
static const char chat_template[] = "{%- for message in messages %}\n"
                                    "    {{- '<|im_start|>' + message['role'] + '\\n' }}\n"
                                    "    {%- if message['role'] == 'assistant' %}\n"
                                    "        {%- generation %}\n"
                                    "            {{- message['content'] + '<|im_end|>' }}\n"
                                    "        {%- endgeneration %}\n"
                                    "    {%- else %}\n"
                                    "        {{- message['content'] + '<|im_end|>' }}\n"
                                    "    {%- endif %}\n"
                                    "    {{- '\\n' }}\n"
                                    "{%- endfor %}\n"
                                    "{%- if add_generation_prompt %}\n"
                                    "    {{- '<|im_start|>assistant\\n' }}\n"
                                    "{%- endif %}\n";

int rt_byte_tokenizer_json(rt_str *out, uint32_t vocab, rt_err *e)
{
    if (vocab < RT_BYTE_TOKENS)
        return rt_fail(e, RT_INVALID,
                       "a vocabulary of %u has no room for the byte-level tokenizer, which needs %d: 256 bytes and 3 "
                       "special tokens",
                       vocab, RT_BYTE_TOKENS);
    rt_str_append(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[");
    for (unsigned i = 0; i < SPECIALS; i++)
        rt_str_printf(out,
                      "%s{\"id\":%u,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                      "\"normalized\":false,\"special\":true}",
                      i > 0 ? "," : "", BYTES + i, specials[i]);
    rt_str_append(out, "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                       "\"trim_offsets\":false,\"use_regex\":true},\"post_processor\":null,\"decoder\":{\"type\":"
                       "\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":true},\"model\":{"
                       "\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
                       "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,"
                       "\"vocab\":{");
    for (unsigned b = 0; b < BYTES; b++) {
        char text[4];
        if (b > 0) rt_str_append(out, ",");
        rt_json_put_text(out, text, rt_utf8_put(rt_byte_char((uint8_t)b), text));
        rt_str_printf(out, ":%u", b);
    }
    rt_str_append(out, "},\"merges\":[]}}\n");
    return out->failed ? rt_fail(e, RT_NOMEM, "out of memory for tokenizer.json") : RT_OK;
}

int rt_byte_tokenizer_config(rt_str *out, rt_err *e)
{
    rt_str_append(out, "{\"eos_token\":\"<|im_end|>\",\"pad_token\":\"<|endoftext|>\",\"chat_template\":");
    rt_json_put_text(out, chat_template, sizeof chat_template - 1);
    rt_str_append(out, ",\"clean_up_tokenization_spaces\":false,\"tokenizer_class\":\"PreTrainedTokenizerFast\"}\n");
    return out->failed ? rt_fail(e, RT_NOMEM, "out of memory for tokenizer_config.json") : RT_OK;
}
