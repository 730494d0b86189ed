/* fuzz_dataset.c - any bytes as a data file: records found, parsed, rendered and tokenized.
 *
 * The first byte chooses the format (lines, JSON values, plain text) and the template; the rest is the file, compressed
 * or not. Every record that is accepted must hold: ids in the vocabulary, counts that agree, a conversation whose
 * trained part ends a turn. With -DRT_FUZZ_REPLAY it has a main() of its own (replay.h). */
#include "base/json.h"
#include "base/mem.h"
#include "text/data/data_internal.h"
#include "text/tokenizer/vocab_convert.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

enum { END_OF_TEXT = 256, IM_END = 258, MOST_RECORDS = 64 };

static const char marked[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}{{ '\\n' }}{% endfor %}";
static const char plain[] = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

static rt_tokenizer *tokenizer;
static rt_chat_template *templates[2];

static void set_up(void)
{
    rt_err e = { 0 };
    rt_str json = { 0 };
    rt_json_init();
    require(rt_byte_tokenizer_json(&json, RT_BYTE_TOKENS, &e) == RT_OK);
    require(rt_tokenizer_from_json(&tokenizer, json.data, json.len, &e) == RT_OK);
    require(rt_chat_template_new(&templates[0], marked, sizeof marked - 1, &e) == RT_OK);
    require(rt_chat_template_new(&templates[1], plain, sizeof plain - 1, &e) == RT_OK);
    rt_str_free(&json);
}

static void check(const rt_encoded *r, rt_data_loss loss)
{
    uint32_t trained = 0, last = 0;
    for (uint32_t i = 0; i < r->ids.count; i++) {
        bool target = r->all_targets || rt_bit(r->target, i);
        require(r->ids.ids[i] < RT_BYTE_TOKENS);
        if (target && i > 0) trained++;
        if (target) last = r->ids.ids[i];
        /* A conversation ends with the end of a turn wherever it may end. */
        if (r->has_stops && rt_bit(r->stop, i)) require(r->ids.ids[i] == IM_END && target);
    }
    require(trained == r->trained);
    if (r->kind == RT_RECORD_CHAT && loss == RT_LOSS_TURNS && trained) require(last == IM_END);
    if (r->kind != RT_RECORD_CHAT && r->ids.count) require(r->ids.ids[r->ids.count - 1] == END_OF_TEXT);
}

static void read_all(const char *path, rt_data_format format, rt_encoder *x, rt_data_loss loss)
{
    rt_err e = { 0 };
    rt_data_file file = { .path = path, .format = format };
    rt_data_list list = { .files = &file, .file_count = 1 };
    rt_raw_reader reader = { .list = &list, .end = 1, .cut_text = true };
    rt_str text = { 0 };
    rt_raw raw;
    rt_encoded r = { 0 };
    for (int n = 0; n < MOST_RECORDS && rt_raw_next(&reader, &text, &raw, &e) == 1; n++) {
        require(raw.begin + raw.len == text.len);
        int rc = format == RT_DATA_TEXT ? rt_encoder_text(x, text.data + raw.begin, raw.len, RT_PART_WHOLE, &r, &e)
                                        : rt_encoder_json(x, text.data + raw.begin, raw.len, &r, &e);
        if (rc == RT_OK)
            check(&r, loss);
        else
            require((rc == RT_FORMAT || rc == RT_INVALID || rc == RT_UNSUPPORTED) && e.text[0]);
        text.len = 0;
    }
    rt_raw_reader_free(&reader);
    rt_str_free(&text);
    rt_encoded_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const rt_data_format formats[] = { RT_DATA_JSONL, RT_DATA_JSON, RT_DATA_TEXT, RT_DATA_JSONL };
    if (size < 2) return 0;
    if (!tokenizer) set_up();
    rt_err e = { 0 };
    char path[64];
    int fd = memfd_create("fuzz", 0);
    require(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    rt_data_text text = {
        .tok = tokenizer, .tmpl = templates[data[0] >> 2 & 1], .bos = -1, .eos = END_OF_TEXT, .eot = IM_END
    };
    rt_data_loss loss = data[0] & 8 ? RT_LOSS_ALL : RT_LOSS_TURNS;
    rt_encoder *x = NULL;
    require(rt_encoder_new(&x, &text, loss, &e) == RT_OK);
    read_all(path, formats[data[0] & 3], x, loss);
    rt_encoder_free(x);
    close(fd);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
