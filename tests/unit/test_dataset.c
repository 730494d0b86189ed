/* test_dataset.c - sources, records of every shape, masks, and everything of a list on several threads. */
#include "data_case.h"

#include "memory_case.h"
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>

/* ---- records ---- */

/* The text of the tokens, what is trained in brackets, | behind a token where a conversation may end. */
static void spell(const rt_encoded *r, rt_str *out)
{
    bool inside = false;
    rt_str_append(out, "");
    for (uint32_t i = 0; i < r->ids.count; i++) {
        bool trained = i > 0 && (r->all_targets || rt_bit(r->target, i));
        if (trained != inside) rt_str_append(out, trained ? "[" : "]");
        inside = trained;
        uint32_t id = r->ids.ids[i];
        char c = (char)id;
        if (id == EOT_TEXT)
            rt_str_append(out, "<E>");
        else if (id == IM_START)
            rt_str_append(out, "<S>");
        else if (id == IM_END)
            rt_str_append(out, "<I>");
        else
            rt_str_append_n(out, &c, 1);
        if (r->has_stops && rt_bit(r->stop, i)) rt_str_append(out, "|");
    }
    if (inside) rt_str_append(out, "]");
}

static rt_columns columns; /* of the records below; count 0: none */

static void expect_record(const char *tmpl, rt_data_loss loss, const char *json, const char *expected)
{
    rt_err e = { 0 };
    rt_chat_template *t = tmpl ? template_of(tmpl) : NULL;
    rt_data_text text = text_with(t);
    if (columns.count) text.columns = &columns;
    rt_encoder *x = NULL;
    rt_encoded r = { 0 };
    rt_str got = { 0 };
    assert_int_equal(rt_encoder_new(&x, &text, loss, &e), RT_OK);
    if (rt_encoder_json(x, json, strlen(json), &r, &e) < 0) fail_msg("%s: %s", json, e.text);
    spell(&r, &got);
    assert_string_equal(got.data, expected);
    uint32_t trained = 0;
    for (uint32_t i = 1; i < r.ids.count; i++) trained += r.all_targets || rt_bit(r.target, i);
    assert_int_equal(r.trained, trained);
    rt_str_free(&got);
    rt_encoded_free(&r);
    rt_encoder_free(x);
    rt_chat_template_free(t);
}

static void refuse_record(const char *tmpl, const char *json, int status, bool fatal, const char *words)
{
    rt_err e = { 0 };
    rt_chat_template *t = tmpl ? template_of(tmpl) : NULL;
    rt_data_text text = text_with(t);
    if (columns.count) text.columns = &columns;
    rt_encoder *x = NULL;
    rt_encoded r = { 0 };
    assert_int_equal(rt_encoder_new(&x, &text, RT_LOSS_TURNS, &e), RT_OK);
    int rc = rt_encoder_json(x, json, strlen(json), &r, &e);
    if (rc != status) fail_msg("%s: status %d: %s", json, rc, e.text);
    assert_int_equal(r.fatal, fatal);
    expect_message(&e, words);
    rt_encoded_free(&r);
    rt_encoder_free(x);
    rt_chat_template_free(t);
}

#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define BOT(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define TWO_TURNS "{\"messages\":[" USER("a") "," BOT("b") "," USER("c") "," BOT("de") "]}"

static void test_kinds(void **state)
{
    (void)state;
    expect_record(NULL, RT_LOSS_TURNS, "{\"text\":\"h\\u00e9y\"}", "h[\xC3\xA9y<E>]");
    expect_record(NULL, RT_LOSS_TURNS, "{\"text\":\"\"}", "<E>");
    expect_record(NULL, RT_LOSS_TURNS, "{\"prompt\":\"ab\",\"completion\":\"cd\",\"id\":7}", "ab[cd<E>]");
    expect_record(NULL, RT_LOSS_ALL, "{\"prompt\":\"ab\",\"completion\":\"cd\"}", "a[bcd<E>]");
    expect_record(NULL, RT_LOSS_TURNS, "{\"prompt\":\"\",\"completion\":\"cd\"}", "c[d<E>]");
    expect_record(CHATML, RT_LOSS_TURNS, TWO_TURNS,
                  "<S>user\na<I>\n<S>assistant\n[b<I>|]\n<S>user\nc<I>\n<S>assistant\n[de<I>|]\n");
    expect_record(CHATML_MARKED, RT_LOSS_TURNS, TWO_TURNS,
                  "<S>user\na<I>\n<S>assistant\n[b<I>|]\n<S>user\nc<I>\n<S>assistant\n[de<I>|]\n");
    expect_record(CHATML, RT_LOSS_ALL, "{\"messages\":[" USER("a") "," BOT("b") "]}",
                  "<S>[user\na<I>\n<S>assistant\nb<I>|\n]");
    expect_record(CHATML, RT_LOSS_TURNS,
                  "{\"system\":\"s\",\"conversations\":[{\"from\":\"human\",\"value\":\"q\"},"
                  "{\"from\":\"gpt\",\"value\":\"r\"}]}",
                  "<S>system\ns<I>\n<S>user\nq<I>\n<S>assistant\n[r<I>|]\n");
    expect_record(CHATML, RT_LOSS_TURNS,
                  "{\"conversations\":[{\"from\":\"user\",\"value\":\"q\"},{\"from\":\"assistant\",\"value\":\"r\"},"
                  "{\"from\":\"tool\",\"value\":\"t\"}]}",
                  "<S>user\nq<I>\n<S>assistant\n[r<I>|]\n<S>tool\nt<I>\n");
    expect_record(CHATML, RT_LOSS_TURNS, "{\"instruction\":\"i\",\"input\":\"x\",\"output\":\"o\"}",
                  "<S>user\ni\n\nx<I>\n<S>assistant\n[o<I>|]\n");
    expect_record(CHATML, RT_LOSS_TURNS,
                  "{\"instruction\":\"i\",\"input\":null,\"output\":\"o\",\"history\":[[\"p\",\"q\"]]}",
                  "<S>user\np<I>\n<S>assistant\n[q<I>|]\n<S>user\ni<I>\n<S>assistant\n[o<I>|]\n");
    /* Prompt and completion as messages: what the assistant says in the prompt is not trained. */
    expect_record(CHATML, RT_LOSS_TURNS,
                  "{\"prompt\":[" USER("a") "," BOT("b") "," USER("c") "],\"completion\":[" BOT("de") "]}",
                  "<S>user\na<I>\n<S>assistant\nb<I>\n<S>user\nc<I>\n<S>assistant\n[de<I>|]\n");
    expect_record(CHATML, RT_LOSS_TURNS, "{\"prompt\":[" USER("a") "],\"completion\":\"b\"}",
                  "<S>user\na<I>\n<S>assistant\n[b<I>|]\n");
    expect_record(CHATML, RT_LOSS_TURNS, "{\"question\":\"q\",\"answer\":\"r\",\"system\":\"s\",\"messages\":null}",
                  "<S>system\ns<I>\n<S>user\nq<I>\n<S>assistant\n[r<I>|]\n");
    expect_record(CHATML, RT_LOSS_TURNS,
                  "{\"messages\":[{\"from\":\"prompter\",\"value\":\"q\"},{\"from\":\"function\",\"value\":\"f\"},"
                  "{\"from\":\"model\",\"value\":\"r\"}]}",
                  "<S>user\nq<I>\n<S>tool\nf<I>\n<S>assistant\n[r<I>|]\n");
    expect_record(CHATML, RT_LOSS_TURNS,
                  "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                  "{\"type\":\"text\",\"text\":\"b\"}]}," BOT("c") "]}",
                  "<S>user\nab<I>\n<S>assistant\n[c<I>|]\n");
    /* Turns win over a text that was made of them. */
    expect_record(CHATML, RT_LOSS_TURNS, "{\"text\":\"x\",\"messages\":[" USER("a") "," BOT("b") "]}",
                  "<S>user\na<I>\n<S>assistant\n[b<I>|]\n");
    /* A conversation in which nobody answers has no target; it is counted, not refused. */
    expect_record(CHATML, RT_LOSS_TURNS, "{\"messages\":[" USER("a") "]}", "<S>user\na<I>\n");
}

/* Columns of any name; what they do not name is not looked at. */
static void test_columns(void **state)
{
    (void)state;
    static const struct {
        const char *columns, *json, *expected;
    } cases[] = {
        { "prompt=question,completion=answer", "{\"text\":\"no\",\"messages\":3,\"question\":\"ab\",\"answer\":\"cd\"}",
          "ab[cd<E>]" },
        { "text=body", "{\"body\":\"hey\",\"prompt\":1,\"completion\":2}", "h[ey<E>]" },
        { "messages=chat", "{\"chat\":[" USER("a") "," BOT("b") "]}", "<S>user\na<I>\n<S>assistant\n[b<I>|]\n" },
        { "messages=chat", "{\"chat\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":\"b\"}]}",
          "<S>user\na<I>\n<S>assistant\n[b<I>|]\n" },
        { "messages=dialog,role=who,content=says",
          "{\"dialog\":[{\"who\":\"human\",\"says\":\"a\"},{\"who\":\"bot\",\"says\":\"b\"}]}",
          "<S>user\na<I>\n<S>assistant\n[b<I>|]\n" },
        { "conversations=c,content=text",
          "{\"c\":[{\"role\":\"user\",\"text\":\"a\"},{\"role\":\"assistant\",\"text\":\"b\"}]}",
          "<S>user\na<I>\n<S>assistant\n[b<I>|]\n" },
        { "completion=prompt,prompt=completion", "{\"prompt\":\"ab\",\"completion\":\"cd\"}", "cd[ab<E>]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rt_err e = { 0 };
        rt_arena a = { 0 };
        assert_int_equal(rt_columns_parse(&columns, &a, cases[i].columns, &e), RT_OK);
        expect_record(CHATML, RT_LOSS_TURNS, cases[i].json, cases[i].expected);
        refuse_record(CHATML, "{\"other\":\"a\",\"more\":2}", RT_INVALID, false, "other, more|--columns");
        rt_arena_free(&a);
        columns = (rt_columns){ 0 };
    }
    static const char *const bad[][2] = {
        { "prompt", "KEY=COLUMN" },
        { "prompt=", "KEY=COLUMN" },
        { "", "KEY=COLUMN" },
        { "=a", "KEY=COLUMN" },
        { "text=a,", "KEY=COLUMN" },
        { "body=a", "'body'|messages, conversations|answer" },
        { "text=a,text=b", "text twice" },
        { "prompt=a", "no whole record|completion" },
        { "text=a,role=b", "what holds the turns|messages=COLUMN" },
        { "messages=a,role=b,role=c", "role twice" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rt_err e = { 0 };
        rt_arena a = { 0 };
        assert_int_equal(rt_columns_parse(&columns, &a, bad[i][0], &e), RT_USAGE);
        expect_message(&e, bad[i][1]);
        rt_arena_free(&a);
    }
    rt_err e = { 0 };
    rt_arena a = { 0 };
    assert_int_equal(rt_columns_parse(&columns, &a, "messages=m,role=who,content=says", &e), RT_OK);
    refuse_record(CHATML, "{\"m\":[{\"who\":\"user\"}]}", RT_INVALID, false, "`messages[0]`|'says'|as its content");
    refuse_record(CHATML, "{\"m\":[{\"who\":\"Ann\",\"says\":\"a\"}]}", RT_INVALID, false,
                  "from 'Ann'|known are human");
    refuse_record(CHATML, "{\"m\":[3]}", RT_INVALID, false, "`messages[0]`|'who'");
    rt_arena_free(&a);
    columns = (rt_columns){ 0 };
}

static void test_refused_records(void **state)
{
    (void)state;
    refuse_record("{% for m in messages %}{{ m.role + m.content + 'x' }}{% endfor %}",
                  "{\"messages\":[" USER("a") ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]}]}",
                  RT_INVALID, false,
                  "messages[1], of role assistant, has null as its content and tool_calls|--chat-template FILE");
    refuse_record(NULL, "{\"text\":", RT_FORMAT, false, "broken JSON|column");
    refuse_record(NULL, "{\"text\":\"\xFF\"}", RT_FORMAT, false, "is not UTF-8|0xff|iconv");
    refuse_record(NULL, "[1]", RT_INVALID, false, "a list|JSON object");
    refuse_record(NULL, "{\"foo\":1,\"b\\u0007r\":2}", RT_INVALID, false, "foo|b?r|`messages`");
    refuse_record(NULL, "{}", RT_INVALID, false, "none");
    refuse_record(NULL, "{\"text\":1}", RT_INVALID, false, "`text`|a number");
    refuse_record(NULL, "{\"text\":null,\"id\":1}", RT_INVALID, false, "`text` is null");
    refuse_record(CHATML, "{\"messages\":null}", RT_INVALID, false, "`messages` is null");
    refuse_record(NULL, "{\"prompt\":[1],\"completion\":\"x\"}", RT_INVALID, false, "`prompt[0]`|`role`");
    refuse_record(NULL, "{\"text\":[1]}", RT_INVALID, false, "`text`|a list|`messages`");
    refuse_record(NULL, "{\"prompt\":\"a\",\"reply\":\"b\"}", RT_INVALID, false, "columns prompt, reply|--columns");
    refuse_record(
        CHATML,
        "{\"messages\":[" USER("a") ",{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]}",
        RT_INVALID, false, "`messages[1].content[0]`|'image_url'");
    refuse_record(NULL, "{\"messages\":[" USER("a") "]}", RT_INVALID, true, "no chat template|--chat-template");
    refuse_record(NULL, "{\"instruction\":\"a\",\"output\":\"b\"}", RT_INVALID, true, "--chat-template");
    refuse_record(CHATML, "{\"messages\":[]}", RT_INVALID, false, "empty");
    refuse_record(CHATML, "{\"messages\":{}}", RT_INVALID, false, "an object|list");
    refuse_record(CHATML, "{\"messages\":[{\"content\":\"a\"}]}", RT_INVALID, false, "`messages[0]`|`role`");
    refuse_record(CHATML, "{\"messages\":[3]}", RT_INVALID, false, "`messages[0]`");
    refuse_record(CHATML, "{\"conversations\":[{\"from\":\"robot\",\"value\":\"x\"}]}", RT_INVALID, false,
                  "robot|human");
    refuse_record(CHATML, "{\"conversations\":[{\"value\":\"x\"}]}", RT_INVALID, false, "`from`");
    refuse_record(CHATML, "{\"conversations\":3}", RT_INVALID, false, "a number|list");
    refuse_record(CHATML, "{\"messages\":[" USER("a") "],\"tools\":3}", RT_INVALID, false, "`tools`");
    /* The end of the turn lies outside what is trained: a model would never learn to stop. */
    refuse_record("{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
                  "{% endgeneration %}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}",
                  TWO_TURNS, RT_INVALID, true, "end-of-turn|<|im_end|>|--chat-template");
    refuse_record("{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}"
                  "{% if add_generation_prompt %}assistant:{% endif %}",
                  TWO_TURNS, RT_INVALID, true, "end-of-turn|--chat-template");
    /* Earlier turns are printed otherwise once others follow: no mask can be told. */
    refuse_record("{% for m in messages %}{{ m.role }}:{{ m.content if loop.last else '' }}<|im_end|>{% endfor %}"
                  "{% if add_generation_prompt %}assistant:{% endif %}",
                  TWO_TURNS, RT_INVALID, false, "assistant mask|--chat-template");
}

/* Without generation blocks a template that cannot be cut still trains everything when asked to. */
static void test_all_without_mask(void **state)
{
    (void)state;
    expect_record("{% for m in messages %}{{ m.content if loop.last else '-' }}<|im_end|>{% endfor %}", RT_LOSS_ALL,
                  TWO_TURNS, "-[<I>-<I>-<I>de<I>]");
}

static void test_no_eos(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_data_text text = text_with(NULL);
    rt_encoder *x = NULL;
    rt_encoded r = { 0 };
    text.eos = text.eot = -1;
    assert_int_equal(rt_encoder_new(&x, &text, RT_LOSS_TURNS, &e), RT_OK);
    assert_int_equal(rt_encoder_text(x, "a", 1, RT_PART_WHOLE, &r, &e), RT_INVALID);
    assert_true(r.fatal);
    expect_message(&e, "--eos");
    rt_encoded_free(&r);
    rt_encoder_free(x);
}

/* A token that lies across the border of the trained part is not trained, unless white space alone is before it in it:
 * vocabularies with merges over it, and ones whose tokens' bytes are not the text. */
static void test_straddle(void **state)
{
    (void)state;
    static const char *const kinds[] = { "qwen3", "llama2", "metaspace-first", "gpt2" };
    for (int k = 0; k < 4; k++) {
        char path[200];
        json_error_t error;
        snprintf(path, sizeof path, "tests/golden/tokenizers/%s.json", kinds[k]);
        json_t *root = json_load_file(path, JSON_ALLOW_NUL, &error);
        assert_non_null(root);
        char *text = json_dumps(json_object_get(root, "tokenizer"), JSON_COMPACT);
        json_decref(root);
        rt_err e = { 0 };
        rt_tokenizer *tok = NULL;
        rt_encoder *x = NULL;
        rt_encoded r = { 0 };
        assert_int_equal(rt_tokenizer_from_json(&tok, text, strlen(text), &e), RT_OK);
        rt_data_text t = { .tok = tok, .bos = -1, .eos = 0, .eot = -1 };
        assert_int_equal(rt_encoder_new(&x, &t, RT_LOSS_TURNS, &e), RT_OK);
        /* One text whichever way it is cut: the ids agree, and a later cut never trains more. */
        static const char whole[] = "the e\xCC\x81"
                                    "cole of the there  the and then";
        uint32_t last = UINT32_MAX, count = 0;
        for (size_t cut = 0; cut < sizeof whole; cut++) {
            if (((unsigned char)whole[cut] & 0xC0) == 0x80) continue; /* JSON has whole characters */
            json_t *j = json_pack("{s:s%, s:s}", "prompt", whole, cut, "completion", whole + cut);
            char *record = json_dumps(j, 0);
            if (rt_encoder_json(x, record, strlen(record), &r, &e) < 0) fail_msg("%s: %s", kinds[k], e.text);
            if (cut == 0) count = r.ids.count;
            assert_int_equal(r.ids.count, count);
            assert_true(r.trained <= last);
            assert_true(r.trained >= 1); /* the end of the text at least */
            last = r.trained;
            rt_free(record);
            json_decref(j);
        }
        assert_int_equal(last, 1);
        /* White space at the end of the prompt takes nothing from the completion. */
        static const char *const records[] = { "{\"prompt\":\"of the\",\"completion\":\" there\"}",
                                               "{\"prompt\":\"of the \",\"completion\":\"there\"}",
                                               "{\"prompt\":\"of the  \",\"completion\":\"there\"}" };
        for (int i = 0; i < 3; i++) {
            rt_str trained = { 0 };
            assert_int_equal(rt_encoder_json(x, records[i], strlen(records[i]), &r, &e), RT_OK);
            assert_int_equal(r.odd.completions_inside, 0);
            for (uint32_t at = 1; at < r.ids.count; at++) {
                rt_token_info info;
                assert_true(rt_tokenizer_token(tok, r.ids.ids[at], &info));
                if (rt_bit(r.target, at)) rt_str_append_n(&trained, info.bytes.data, info.bytes.len);
            }
            assert_true(strncmp(trained.data + (*trained.data == ' '), "there", 5) == 0);
            rt_str_free(&trained);
        }
        rt_encoded_free(&r);
        rt_encoder_free(x);
        rt_tokenizer_free(tok);
        rt_free(text);
    }
}

/* ---- sources ---- */

static int open_list(rt_data_list *l, const char *spec, rt_err *e)
{
    rt_hub_env env = { .hf_hub_cache = in_folder("hub") };
    return rt_data_list_open(l, &spec, 1, &env, e);
}

static void expect_files(const char *spec, const char *names)
{
    rt_err e = { 0 };
    rt_data_list l;
    rt_str got = { 0 };
    if (open_list(&l, spec, &e) < 0) fail_msg("%s: %s", spec, e.text);
    rt_str_append(&got, "");
    for (uint32_t i = 0; i < l.file_count; i++) {
        if (i) rt_str_append(&got, " ");
        rt_str_append(&got, rt_path_base(l.files[i].path));
    }
    assert_string_equal(got.data, names);
    rt_str_free(&got);
    rt_data_list_close(&l);
}

static void refuse_source(const char *spec, int status, const char *words)
{
    rt_err e = { 0 };
    rt_data_list l;
    assert_int_equal(open_list(&l, spec, &e), status);
    expect_message(&e, words);
    assert_null(l.sources);
}

static void test_sources(void **state)
{
    (void)state;
    rt_err e = { 0 };
    assert_int_equal(rt_dir_make(in_folder("set/train"), &e), RT_OK);
    assert_int_equal(rt_dir_make(in_folder("texts"), &e), RT_OK);
    put_text("set/train/b.jsonl", "{}");
    put_text("set/train/a.json.gz", "{}");
    put_text("set/test.jsonl", "{}");
    put_text("set/README.md", "#");
    put_text("set/how-to-test.md", "#"); /* beside records it is no split */
    put_text("set/.hidden.jsonl", "#");
    put_text("set/dataset_infos.json", "{}");
    put_text("texts/x.txt", "x");
    put_text("texts/y.md", "y");
    put_text("texts/z.png", "y");
    put_text("odd,name.jsonl", "{}");
    put_text("table.parquet", "PAR1");
    expect_files(in_folder("set"), "a.json.gz b.jsonl"); /* the split train */
    char spec[300];
    snprintf(spec, sizeof spec, "%s,split=train,weight=0.5", in_folder("set"));
    expect_files(spec, "a.json.gz b.jsonl");
    snprintf(spec, sizeof spec, "%s:test,weight=0.5", in_folder("set"));
    expect_files(spec, "test.jsonl");
    snprintf(spec, sizeof spec, "%s:dev", in_folder("set"));
    refuse_source(spec, RT_NOT_FOUND, "no file of split dev|train, test");
    snprintf(spec, sizeof spec, "%s:test", in_folder("odd,name.jsonl"));
    refuse_source(spec, RT_INVALID, "odd,name.jsonl is a file|split");
    expect_files(in_folder("texts"), "x.txt y.md");
    expect_files(in_folder("set/tr*/*.json*"), "a.json.gz b.jsonl");
    expect_files(in_folder("odd,name.jsonl"), "odd,name.jsonl");
    refuse_source(in_folder("none.jsonl"), RT_NOT_FOUND, "none.jsonl|no such file");
    refuse_source(in_folder("set/*.zip"), RT_NOT_FOUND, "*.zip|no file matches");
    refuse_source(in_folder("texts/z.png"), RT_INVALID, "z.png|.jsonl");
    expect_files(in_folder("table.parquet"), "table.parquet");
    refuse_source("nobody/nothing", RT_NOT_FOUND, "nobody/nothing");
    snprintf(spec, sizeof spec, "%s,weight=-1", in_folder("set"));
    refuse_source(spec, RT_INVALID, "weight=-1|above 0");
    snprintf(spec, sizeof spec, "%s,wait=2", in_folder("set"));
    refuse_source(spec, RT_INVALID, "wait=2");
    assert_int_equal(rt_dir_make(in_folder("empty"), &e), RT_OK);
    refuse_source(in_folder("empty"), RT_NOT_FOUND, "empty|no data");
}

static const char *names_of(const rt_data_list *l, char *buf, size_t size)
{
    buf[0] = '\0';
    for (uint32_t i = 0; i < l->file_count; i++) {
        size_t n = strlen(buf);
        snprintf(buf + n, size - n, "%s%s", i ? " " : "", rt_path_base(l->files[i].path));
    }
    return buf;
}

/* A folder as on the hub: splits in the names of files; what is taken, and what is said of the rest. */
static void test_splits(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_data_list l;
    char names[200];
    assert_int_equal(rt_dir_make(in_folder("layout/data"), &e), RT_OK);
    put_text("layout/data/train-00000-of-00002.parquet", "PAR1");
    put_text("layout/data/train-00001-of-00002.parquet", "PAR1");
    put_text("layout/data/validation-00000-of-00001.parquet", "PAR1");
    put_text("layout/data/test-00000-of-00001.parquet", "PAR1");
    put_text("layout/training_notes.csv", "text"); /* of no split: a word is whole */

    char folder[300];
    const char *spec = folder;
    snprintf(folder, sizeof folder, "%s", in_folder("layout"));
    assert_int_equal(rt_data_list_open(&l, &spec, 1, NULL, &e), RT_OK);
    assert_string_equal(names_of(&l, names, sizeof names), "train-00000-of-00002.parquet train-00001-of-00002.parquet");
    assert_int_equal(l.note_count, 1);
    assert_non_null(strstr(l.notes[0], "its split train is taken, left out: validation, test;"));
    rt_data_list_close(&l);
    assert_int_equal(rt_data_list_open_eval(&l, &spec, 1, NULL, &e), RT_OK);
    assert_string_equal(names_of(&l, names, sizeof names), "validation-00000-of-00001.parquet");
    rt_data_list_close(&l);
    snprintf(folder, sizeof folder, "%s:test", in_folder("layout"));
    assert_int_equal(rt_data_list_open_eval(&l, &spec, 1, NULL, &e), RT_OK);
    assert_string_equal(names_of(&l, names, sizeof names), "test-00000-of-00001.parquet");
    rt_data_list_close(&l);
}

/* A directory is walked once, by whatever links it is reached. */
static void test_links(void **state)
{
    (void)state;
    rt_err e = { 0 };
    char self[300], twice[300];
    assert_int_equal(rt_dir_make(in_folder("looped/more"), &e), RT_OK);
    put_text("looped/a.jsonl", "{}");
    put_text("looped/how-to-train.md", "#");
    put_text("looped/more/b.jsonl", "{}");
    snprintf(self, sizeof self, "%s", in_folder("looped/self"));
    snprintf(twice, sizeof twice, "%s", in_folder("looped/twice"));
    assert_int_equal(symlink(".", self), 0);
    assert_int_equal(symlink("more", twice), 0);
    expect_files(in_folder("looped"), "a.jsonl b.jsonl");
    assert_int_equal(unlink(self) | unlink(twice), 0);
}

static void test_hub(void **state)
{
    (void)state;
    rt_err e = { 0 };
    assert_int_equal(rt_dir_make(in_folder("hub/datasets--who--what/refs"), &e), RT_OK);
    assert_int_equal(rt_dir_make(in_folder("hub/datasets--who--what/snapshots/abc/data"), &e), RT_OK);
    put_text("hub/datasets--who--what/refs/main", "abc");
    put_text("hub/datasets--who--what/snapshots/abc/README.md", "#");
    put_text("hub/datasets--who--what/snapshots/abc/data/train-00.jsonl", "{}");
    put_text("hub/datasets--who--what/snapshots/abc/data/test-00.jsonl", "{}");
    expect_files("who/what", "train-00.jsonl");
    expect_files("who/what,split=test", "test-00.jsonl");
}

/* ---- everything of a list ---- */

typedef struct gathered {
    rt_str text;
    uint32_t calls;
    char places[400];
} gathered;

static int gather(void *ctx, const rt_data_place *where, const rt_encoded *r, rt_err *e)
{
    (void)e;
    gathered *g = ctx;
    spell(r, &g->text);
    rt_str_append(&g->text, ";");
    size_t n = strlen(g->places);
    snprintf(g->places + n, sizeof g->places - n, "%s:%llu ", rt_path_base(where->path),
             (unsigned long long)where->line);
    g->calls++;
    return RT_OK;
}

static int tokenize(const char *spec, uint32_t threads, uint64_t skip_bad, gathered *g, rt_tokenize_stats *st,
                    rt_err *e)
{
    rt_data_list l;
    rt_pool *pool = NULL;
    rt_data_text text = text_with(NULL);
    int rc;
    *g = (gathered){ 0 };
    RT_TRY(open_list(&l, spec, e));
    RT_TRY(rt_pool_new(&pool, threads, e));
    rt_tokenize_opts o = { .text = &text, .skip_bad = skip_bad, .pool = pool, .sink = gather, .ctx = g };
    rc = rt_data_tokenize(&l, 0, 1, &o, st, e);
out:
    rt_pool_free(pool);
    rt_data_list_close(&l);
    return rc;
}

static void expect_tokens(const char *spec, uint64_t skip_bad, const char *text, const char *places)
{
    rt_err e = { 0 };
    gathered g;
    rt_tokenize_stats st;
    if (tokenize(spec, 2, skip_bad, &g, &st, &e) < 0) fail_msg("%s: %s", spec, e.text);
    assert_string_equal(g.text.data, text);
    assert_string_equal(g.places, places);
    rt_str_free(&g.text);
}

static void refuse_tokens(const char *spec, uint64_t skip_bad, int status, const char *words)
{
    rt_err e = { 0 };
    gathered g;
    rt_tokenize_stats st;
    int rc = tokenize(spec, 2, skip_bad, &g, &st, &e);
    if (rc != status) fail_msg("%s: status %d, %s", spec, rc, e.text);
    expect_message(&e, words);
    rt_str_free(&g.text);
}

static const char *put_gzip(const char *name, const char *text, size_t cut)
{
    Bytef out[1000];
    z_stream z = { 0 };
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = (uInt)strlen(text);
    z.next_out = out;
    z.avail_out = sizeof out;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = sizeof out - z.avail_out;
    deflateEnd(&z);
    return put_file(name, out, n - cut);
}

static const char *put_zstd(const char *name, const char *text, size_t cut)
{
    char out[1000];
    size_t n = ZSTD_compress(out, sizeof out, text, strlen(text), 3);
    assert_false(ZSTD_isError(n));
    return put_file(name, out, n - cut);
}

static void test_files(void **state)
{
    (void)state;
    static const char lines[] = "\xEF\xBB\xBF{\"text\":\"a\"}\r\n\n  \n{\"text\":\"b\"}";
    static const char values[] = " [ {\"text\":\"a]}\\\"\"},\n\n{\"text\"\n:\"b\"} ]\n";
    expect_tokens(put_text("l.jsonl", lines), 0, "a[<E>];b[<E>];", "l.jsonl:1 l.jsonl:4 ");
    expect_tokens(put_text("v.json", values), 0, "a[]}\"<E>];b[<E>];", "v.json:1 v.json:3 ");
    expect_tokens(put_text("o.json", "{\"text\":\"a\"}{\"text\":\"b\"}\n"), 0, "a[<E>];b[<E>];", "o.json:1 o.json:1 ");
    expect_tokens(put_text("t.txt", "one\n\ntwo\n"), 0, "o[ne\n\ntwo\n<E>];", "t.txt:0 ");
    expect_tokens(put_gzip("l.jsonl.gz", lines, 0), 0, "a[<E>];b[<E>];", "l.jsonl.gz:1 l.jsonl.gz:4 ");
    expect_tokens(put_zstd("v.json.zst", values, 0), 0, "a[]}\"<E>];b[<E>];", "v.json.zst:1 v.json.zst:3 ");
    expect_tokens(put_text("t.csv", "id,text\r\n1,a\r\n2,\"b,\n\"\r\n"), 0, "a[<E>];b[,\n<E>];", "t.csv:2 t.csv:3 ");
    expect_tokens(put_gzip("t.tsv.gz", "text\tid\na\t1\n\nb\t2\n", 0), 0, "a[<E>];b[<E>];", "t.tsv.gz:2 t.tsv.gz:4 ");
    expect_tokens("tests/golden/tables/left_out.parquet", 0, "a[b<E>];c[d<E>];",
                  "left_out.parquet:1 left_out.parquet:2 ");
    /* Compression is told by content: a name may be wrong. */
    expect_tokens(put_zstd("m.jsonl", lines, 0), 0, "a[<E>];b[<E>];", "m.jsonl:1 m.jsonl:4 ");
}

static void test_bad_files(void **state)
{
    (void)state;
    static const char text[] = "{\"text\":\"a\"}\n{\"text\":\n{\"text\":\"b\"}\n{\"no\":1}\n";
    static const char good[] = "{\"text\":\"a\"}\n{\"text\":\"a\"}\n{\"text\":\"b\"}\n";
    const char *bad = put_text("bad.jsonl", text);
    refuse_tokens(bad, 0, RT_FORMAT, "bad.jsonl:2|broken JSON|--skip-bad");
    refuse_tokens(bad, 1, RT_INVALID, "bad.jsonl:4|columns no|--skip-bad 1");
    expect_tokens(bad, 2, "a[<E>];b[<E>];", "bad.jsonl:1 bad.jsonl:3 ");
    refuse_tokens(put_text("e.jsonl", ""), 0, RT_INVALID, "e.jsonl|empty");
    refuse_tokens(put_text("n.jsonl", "3\n"), 5, RT_INVALID, "n.jsonl|bad and skipped");
    refuse_tokens(put_text("cut.json", "[{\"text\":\"a\"},\n{\"text\""), 0, RT_FORMAT, "cut.json:2|cut off");
    refuse_tokens(put_text("open.json", "[{\"text\":\"a\"}\n"), 0, RT_FORMAT, "open.json:2|inside the array");
    refuse_tokens(put_text("num.json", "[1]"), 0, RT_FORMAT, "num.json:1|JSON object");
    refuse_tokens(put_text("two.json", "[{\"text\":\"a\"}]\n[]"), 0, RT_FORMAT, "two.json:2|end of the array");
    refuse_tokens(put_gzip("c.jsonl.gz", good, 9), 0, RT_FORMAT, "c.jsonl.gz|too early");
    refuse_tokens(put_zstd("c.jsonl.zst", good, 3), 0, RT_FORMAT, "c.jsonl.zst|too early");
    refuse_tokens(put_file("r.jsonl.gz", "\x1f\x8b\x08\0xxxxxxxxxxxx", 16), 0, RT_FORMAT, "r.jsonl.gz|broken gzip");
    refuse_tokens(put_file("r.jsonl.zst", "\x28\xb5\x2f\xfdxxxxxxxxxx", 14), 0, RT_FORMAT, "r.jsonl.zst|broken zstd");
    refuse_tokens(put_text("r.csv", "text,id\na,1\nb\n"), 0, RT_FORMAT, "r.csv:3|fewer fields|--skip-bad");
    refuse_tokens(put_text("u.csv", "text,id\n\xff,1\n"), 0, RT_FORMAT, "u.csv:2|0xff|--skip-bad");
    refuse_tokens(put_text("k.csv", "ask,reply\na,b\n"), 0, RT_INVALID, "k.csv|no column|\"ask\", \"reply\"|--columns");
    refuse_tokens(put_text("s.rtok", "x"), 0, RT_INVALID, "s.rtok|tokens already");
}

/* Many batches and a long text in parts: the same tokens for any number of threads, and the text's ids are those of the
 * whole. */
static void test_threads(void **state)
{
    (void)state;
    rt_str lines = { 0 }, text = { 0 };
    rt_err e = { 0 };
    for (int i = 0; i < 20000; i++) rt_str_printf(&lines, "{\"text\":\"record %d of many\"}\n", i * 7919);
    for (int i = 0; i < 120000; i++) rt_str_printf(&text, "%s line %d\n", i % 5 ? "Letters" : " 9", i * 31);
    put_file("many.jsonl", lines.data, lines.len);
    put_file("long.txt", text.data, text.len);
    const char *names[] = { "many.jsonl", "long.txt" };
    for (int k = 0; k < 2; k++) {
        gathered g[2];
        rt_tokenize_stats st[2];
        for (uint32_t i = 0; i < 2; i++)
            if (tokenize(in_folder(names[k]), i ? 5 : 1, 0, &g[i], &st[i], &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(g[0].text.len, g[1].text.len);
        assert_memory_equal(g[0].text.data, g[1].text.data, g[0].text.len);
        assert_int_equal(st[0].records, k ? 1 : 20000);
        assert_int_equal(st[0].tokens, st[1].tokens);
        if (k == 1) {
            assert_true(g[0].calls > 1); /* it did come in parts */
            assert_int_equal(st[0].tokens, text.len + 1);
            assert_int_equal(st[0].trained, text.len);
        }
        rt_str_free(&g[0].text);
        rt_str_free(&g[1].text);
    }
    rt_str_free(&lines);
    rt_str_free(&text);
}

/* ---- failing allocations ---- */

static int all_records(rt_err *e)
{
    static const char *const records[] = {
        "{\"text\":\"a\"}",
        "{\"prompt\":\"a\",\"completion\":\"b\"}",
        TWO_TURNS,
        "{\"system\":\"s\",\"conversations\":[{\"from\":\"gpt\",\"value\":\"r\"}],\"tools\":\"[{}]\"}",
        "{\"instruction\":\"i\",\"input\":\"x\",\"output\":\"o\",\"history\":[[\"p\",\"q\"]]}",
        "{\"prompt\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}],\"completion\":\"b\"}",
        "{\"question\":\"q\",\"answer\":\"r\",\"system\":\"s\"}",
    };
    rt_chat_template *t = NULL;
    rt_encoder *x = NULL;
    rt_encoded r = { 0 };
    int rc;
    RT_TRY(rt_chat_template_new(&t, CHATML_MARKED, strlen(CHATML_MARKED), e));
    rt_data_text text = text_with(t);
    RT_TRY(rt_encoder_new(&x, &text, RT_LOSS_TURNS, e));
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        RT_TRY(rt_encoder_json(x, records[i], strlen(records[i]), &r, e));
out:
    rt_encoded_free(&r);
    rt_encoder_free(x);
    rt_chat_template_free(t);
    return rc;
}

static int all_files(rt_err *e)
{
    gathered g = { 0 };
    rt_tokenize_stats st;
    int rc = RT_OK;
    static const char *const names[] = { "l.jsonl.gz", "v.json.zst", "texts" };
    for (int i = 0; i < 3 && rc == RT_OK; i++) {
        rc = tokenize(in_folder(names[i]), 1, 0, &g, &st, e);
        if (rc == RT_OK && g.text.failed) rc = RT_NOMEM; /* the test's own string */
        rt_str_free(&g.text);
    }
    return rc;
}

static void test_allocations_fail(void **state)
{
    (void)state;
    static const rt_allocator failing = { failing_alloc, failing_free, NULL };
    int (*const lives[])(rt_err *) = { all_records, all_files };
    for (int k = 0; k < 2; k++) {
        rt_err e = { 0 };
        assert_int_equal(lives[k](&e), RT_OK);
        uint64_t live = rt_alloc_live();
        rt_allocator_set(&failing);
        int rc = RT_NOMEM;
        int64_t n = 0;
        for (; rc != RT_OK; n++) {
            allowed = n;
            rc = lives[k](&e);
            allowed = -1;
            if (rc != RT_OK && rc != RT_NOMEM) fail_msg("allocation %d: status %d, %s", (int)n, rc, e.text);
            assert_int_equal(rt_alloc_live(), live);
            assert_true(n < 100000);
        }
        assert_true(n > 30);
        rt_allocator_set(NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_refused_records),
        cmocka_unit_test(test_no_eos),
        cmocka_unit_test(test_all_without_mask),
        cmocka_unit_test(test_straddle),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_hub),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_allocations_fail),
    };
    return cmocka_run_group_tests(tests, open_case, close_case);
}
