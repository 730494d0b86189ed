/* fuzz_tokenizer_json.c - any bytes as tokenizer.json: an error that says something, or a tokenizer that keeps its
 * promises.
 *
 * What loads encodes and decodes a few texts. With -DRT_FUZZ_REPLAY it has a main() of its own (replay.h). */
#include "base/mem.h"
#include "text/tokenizer/tokenizer.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const texts[] = { "", "Hello world, it's 2024!", "  a\n\n b\t<s></s> ab",
                                     "\xE4\xBD\xA0\xE5\xA5\xBD e\xCC\x81 \xE2\x96\x81x",
                                     "bad \xFF\xC3( \xF0\x9F\x98\x80" };

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

/* The status must be one that bad input may have, and the message must not be empty. */
static void require_error(int rc, const rt_err *e)
{
    require(rc == RT_FORMAT || rc == RT_UNSUPPORTED || rc == RT_INVALID || rc == RT_NOMEM);
    require(e->status == rc && e->text[0]);
}

static void use(const rt_tokenizer *t)
{
    rt_err e = { 0 };
    rt_tok_scratch *s = NULL;
    require(rt_tok_scratch_new(&s, t, &e) == RT_OK);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        rt_tok_ids ids = { 0 };
        rt_str out = { 0 };
        rt_token_info info;
        int rc = rt_tokenizer_encode(t, s, texts[i], strlen(texts[i]), i % 2 ? RT_ENCODE_SPECIAL : RT_ENCODE_PLAIN,
                                     &ids, &e);
        if (rc < 0) require_error(rc, &e);
        bool padding = false;
        for (uint32_t k = 0; k < ids.count; k++) {
            require(ids.ids[k] < rt_tokenizer_size(t));
            padding = padding || !rt_tokenizer_token(t, ids.ids[k], &info);
        }
        require(!padding);
        rc = rt_tokenizer_decode(t, ids.ids, ids.count, 0, &out, &e);
        if (rc < 0) require_error(rc, &e);
        rt_free(ids.ids);
        rt_str_free(&out);
    }
    rt_tok_scratch_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rt_err e = { 0 };
    rt_tokenizer *t = NULL;
    int rc = rt_tokenizer_from_json(&t, (const char *)data, size, &e);
    require((rc == RT_OK) == (t != NULL));
    if (rc < 0)
        require_error(rc, &e);
    else
        use(t);
    rt_tokenizer_free(t);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
