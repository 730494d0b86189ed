/* tok_cli.c - drives the tokenizer for tests/interop/tokenizer_client.py.
 *
 *   tok_cli serve FILE   requests on standard input, answers on standard output, in little-endian 32-bit words:
 *                        operation, length in bytes, that many bytes -> status, count, that many words or bytes
 *   tok_cli show FILE    one line about the tokenizer, its hash, and how long reading took
 *
 * FILE is a tokenizer.json or a GGUF file with a vocabulary. */
#include "../unit/gguf_vocab.h"
#include "base/mem.h"
#include "base/sys.h"
#include "text/tokenizer/tokenizer.h"

enum { OP_ENCODE, OP_ENCODE_SPECIAL, OP_ENCODE_PLAIN, OP_DECODE, OP_DECODE_SKIP, OP_STREAM };

static rt_tokenizer *load(const char *path)
{
    rt_err e = { 0 };
    rt_tokenizer *t = NULL;
    gguf_vocab v;
    int rc;
    if (gguf_vocab_read(&v, path) == 0) {
        rc = rt_tokenizer_from_vocab(&t, &v.spec, &e);
    } else {
        size_t len;
        char *text = read_whole(path, &len);
        rc = text ? rt_tokenizer_from_json(&t, text, len, &e) : rt_fail(&e, RT_NOT_FOUND, "cannot be read");
        free(text);
    }
    gguf_vocab_free(&v);
    if (rc < 0) {
        fprintf(stderr, "%s: %s: %s\n", path, rt_status_text(rc), e.text);
        exit(rt_status_exit(rc));
    }
    return t;
}

static void answer(int status, const void *data, uint32_t count, size_t size)
{
    uint32_t head[2] = { (uint32_t)-status, count };
    fwrite(head, sizeof head, 1, stdout);
    if (count) fwrite(data, size, count, stdout);
    fflush(stdout);
}

static int stream_all(const rt_tokenizer *t, const uint32_t *ids, size_t count, rt_str *out, rt_err *e)
{
    rt_tok_stream *s = NULL;
    int rc = rt_tok_stream_new(&s, t, 0, e);
    for (size_t i = 0; i < count && rc == RT_OK; i++) {
        size_t before = out->len;
        rc = rt_tok_stream_push(s, ids[i], out, e);
        /* No part may end inside a character. */
        if (out->len > before && ((unsigned char)out->data[before] & 0xC0) == 0x80)
            rc = rt_fail(e, RT_INTERNAL, "half a character");
    }
    if (rc == RT_OK) rc = rt_tok_stream_end(s, out, e);
    rt_tok_stream_free(s);
    return rc;
}

static void serve_one(const rt_tokenizer *t, rt_tok_scratch *s, uint32_t op, const char *data, uint32_t len)
{
    rt_err e = { 0 };
    int rc;
    if (op <= OP_ENCODE_PLAIN) {
        rt_tok_ids ids = { 0 };
        unsigned flags = op == OP_ENCODE_SPECIAL ? RT_ENCODE_SPECIAL : op == OP_ENCODE_PLAIN ? RT_ENCODE_PLAIN : 0;
        rc = rt_tokenizer_encode(t, s, data, len, flags, &ids, &e);
        answer(rc, ids.ids, ids.count, sizeof *ids.ids);
        rt_free(ids.ids);
    } else {
        rt_str out = { 0 };
        uint32_t *ids = malloc(len + 1);
        memcpy(ids, data, len);
        if (op == OP_STREAM)
            rc = stream_all(t, ids, len / 4, &out, &e);
        else
            rc = rt_tokenizer_decode(t, ids, len / 4, op == OP_DECODE_SKIP ? RT_DECODE_SKIP_SPECIAL : 0, &out, &e);
        answer(rc, out.data, (uint32_t)out.len, 1);
        free(ids);
        rt_str_free(&out);
    }
    if (rc < 0) fprintf(stderr, "tok_cli: %s\n", e.text);
}

static int serve(const rt_tokenizer *t, rt_tok_scratch *s)
{
    uint32_t head[2];
    char *data = NULL;
    size_t cap = 0;
    while (fread(head, sizeof head, 1, stdin) == 1) {
        if (head[1] >= cap) {
            cap = head[1] + 4096u;
            free(data);
            data = malloc(cap);
        }
        if (fread(data, 1, head[1], stdin) != head[1]) return 1;
        serve_one(t, s, head[0], data, head[1]);
    }
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    rt_err e = { 0 };
    rt_tok_scratch *s = NULL;
    double start = rt_now();
    rt_tokenizer *t = load(argv[2]);
    double took = rt_now() - start;
    int rc = 2;
    if (rt_tok_scratch_new(&s, t, &e) < 0) return 13;
    if (strcmp(argv[1], "serve") == 0) rc = serve(t, s);
    if (strcmp(argv[1], "show") == 0) {
        rt_str line = { 0 };
        char hash[33];
        rt_tokenizer_describe(t, &line);
        printf("%s\n%s\nread in %.3f s\n", line.data, rt_hash_text(hash, rt_tokenizer_hash(t)), took);
        rt_str_free(&line);
        rc = 0;
    }
    rt_tok_scratch_free(s);
    rt_tokenizer_free(t);
    return rc;
}
