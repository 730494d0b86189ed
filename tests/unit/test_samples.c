/* test_samples.c - samples inside a run: the text of the very weights in memory, nothing loaded twice, nothing
 * disturbed, prompts from lines and records, the file and how it is cut back, two rates. */
#include "train_case.h"

#include "job/run/samples.h"
#include "text/data/data_prompt.h"
#include "train/output.h"

#include <math.h>

enum { CONTEXT = 64, NEW = 16 };

static rt_dev *dev;
static rt_model_file *student, *teacher;
static rt_text_source *text;

static int set_up(void **state)
{
    rt_err e = { 0 };
    if (make_test_dir(state) != 0) return -1;
    dev = open_device("cpu", 2);
    rt_model_config s = tiny_config("tiny-qwen2", 3), t = tiny_config("tiny-llama", 4);
    write_model(in_dir("s"), &s, RT_DTYPE_F32, false);
    write_model(in_dir("t"), &t, RT_DTYPE_F32, false);
    student = open_model(in_dir("s"));
    teacher = open_model(in_dir("t"));
    return rt_text_from_model(&text, &student->text, &student->config, student->path, &e);
}

static void close_all(void)
{
    rt_text_close(text);
    rt_model_file_close(student);
    rt_model_file_close(teacher);
    if (dev) dev->api->close(dev);
    text = NULL;
    student = teacher = NULL;
    dev = NULL;
}

static int tear_down(void **state)
{
    close_all();
    return remove_test_dir(state);
}

/* ---- rates ---- */

static void test_repetition(void **state)
{
    (void)state;
    static const uint32_t none[] = { 1, 2, 3, 4, 1, 2, 3, 5 }, twice[] = { 1, 2, 3, 4, 1, 2, 3, 4 };
    static const uint32_t inside[] = { 9, 1, 2, 3, 4, 8, 1, 2, 3, 4, 7 },
                          apart[] = { 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 6, 2, 3, 4, 5 };
    uint32_t same[64];
    for (int i = 0; i < 64; i++) same[i] = 7;
    assert_int_equal(rt_repeated_tokens(NULL, 0), 0);
    assert_int_equal(rt_repeated_tokens(none, 8), 0); /* three in a row are not enough */
    assert_int_equal(rt_repeated_tokens(twice, 8), 4);
    assert_int_equal(rt_repeated_tokens(inside, 11), 4);
    assert_int_equal(rt_repeated_tokens(apart, 15), 8);
    assert_int_equal(rt_repeated_tokens(same, 64), 63); /* overlapping runs are counted once */
    assert_int_equal(rt_repeated_tokens(same, 4), 0);
}

/* ---- generators in a run ---- */

typedef struct ids {
    uint32_t id[NEW], count;
    rt_generator *g;   /* null: no logits are wanted */
    float logits[272]; /* behind the last id */
} ids;

static int on_token(void *ctx, uint32_t id, rt_err *e)
{
    ids *k = ctx;
    if (k->g) assert_int_equal(rt_generator_logits(k->g, k->logits, e), RT_OK);
    k->id[k->count++] = id;
    return RT_OK;
}

static ids say(rt_generator *g)
{
    static const uint32_t prompt[] = { 'a', 'b', ' ', 't', 'h', 'e', ' ', 'x' };
    ids k = { .count = 0 };
    rt_err e = { 0 };
    assert_non_null(g);
    if (rt_generator_run(g, prompt, 8, NEW, on_token, &k, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(k.count, NEW);
    return k;
}

static rt_trainer *open_trainer(uint32_t context, uint32_t lora)
{
    rt_err e = { 0 };
    rt_trainer *t = NULL;
    rt_step_opts o = step_options(&student->config, &teacher->config, 2, 16);
    o.sample_context = context;
    o.lora = (rt_lora){ .rank = lora, .alpha = 64, .roles = RT_LORA_ROLES };
    if (rt_trainer_open(&t, dev, &o, &(rt_seal_opts){ .guards = true }, &e) < 0) fail_msg("%s", e.text);
    if (rt_trainer_load(t, student, teacher, NULL, 1, &e) < 0) fail_msg("%s", e.text);
    return t;
}

static ids say_alone(const rt_model_file *m)
{
    rt_err e = { 0 };
    rt_generator *g = NULL;
    rt_generate_opts o = rt_generate_defaults;
    o.context = CONTEXT;
    if (rt_generator_open(&g, dev, m, NULL, &o, &e) < 0) fail_msg("%s", e.text);
    ids k = say(g);
    rt_generator_free(g);
    return k;
}

static void same_ids(ids a, ids b) { assert_memory_equal(a.id, b.id, sizeof a.id); }

/* Both models say what they say alone; after some steps the student says what its saved weights say. */
static void test_same_weights(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_trainer *t = open_trainer(CONTEXT, 0);
    rt_output o = { .student = student, .dtype = RT_DTYPE_F32 };
    ids before = say(t->plan->student_says), taught = say(t->plan->teacher_says);
    same_ids(before, say_alone(student));
    same_ids(taught, say_alone(teacher));
    assert_memory_not_equal(before.id, taught.id, sizeof before.id);
    train_some(t, 1, 60);
    ids after = say(t->plan->student_says);
    assert_memory_not_equal(before.id, after.id, sizeof before.id); /* else nothing would be proven below */
    same_ids(say(t->plan->teacher_says), taught);
    if (rt_output_write(in_dir("saved"), t, &o, &e) < 0) fail_msg("%s", e.text);
    rt_model_file *m = open_model(in_dir("saved"));
    same_ids(after, say_alone(m));
    if (rt_exec_check(t->x, &e) < 0) fail_msg("%s", e.text);
    rt_model_file_close(m);
    rt_trainer_free(t);
}

/* With adapters: a fresh one changes nothing, a trained one does what the merged model does, but for rounding. */
static void test_adapters(void **state)
{
    (void)state;
    rt_err e = { 0 };
    double diff = 0, norm = 0;
    rt_generator *g = NULL;
    rt_trainer *t = open_trainer(CONTEXT, 4);
    rt_output o = { .student = student, .dtype = RT_DTYPE_F32, .lora = t->plan->opts.lora, .base_name = "s" };
    rt_generate_opts go = rt_generate_defaults;
    go.context = CONTEXT;
    same_ids(say(t->plan->student_says), say_alone(student));
    train_some(t, 1, 30);
    if (rt_output_merged(in_dir("merged"), t, &o, &e) < 0) fail_msg("%s", e.text);
    rt_model_file *m = open_model(in_dir("merged"));
    if (rt_generator_open(&g, dev, m, NULL, &go, &e) < 0) fail_msg("%s", e.text);
    static const uint32_t prompt[] = { 'a', 'b', ' ', 't', 'h', 'e' };
    ids a = { .g = g }, b = { .g = t->plan->student_says };
    const float *want = a.logits, *got = b.logits;
    assert_int_equal(rt_generator_run(a.g, prompt, 6, 1, on_token, &a, NULL, &e), RT_OK);
    assert_int_equal(rt_generator_run(b.g, prompt, 6, 1, on_token, &b, NULL, &e), RT_OK);
    for (int i = 0; i < 272; i++) {
        diff += ((double)want[i] - got[i]) * ((double)want[i] - got[i]);
        norm += (double)want[i] * want[i];
    }
    assert_true(norm > 0 && sqrt(diff / norm) < 1e-5);
    rt_generator_free(g);
    rt_model_file_close(m);
    rt_trainer_free(t);
}

/* A run that speaks has the same weights to the bit as one that does not, holds its parameters once, and allocates
 * nothing when it speaks. */
static void test_nothing_disturbed(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_exec_memory a, b;
    rt_trainer *quiet = open_trainer(0, 0), *loud = open_trainer(CONTEXT, 0);
    assert_null(quiet->plan->student_says);
    rt_exec_memory_query(quiet->x, &a);
    rt_exec_memory_query(loud->x, &b);
    assert_true(a.by_class[RT_CLASS_PARAM] == b.by_class[RT_CLASS_PARAM]);
    assert_true(a.by_class[RT_CLASS_STATE] < b.by_class[RT_CLASS_STATE]); /* the caches */
    for (uint32_t s = 1; s <= 12; s += 3) {
        train_some(quiet, s, 3);
        train_some(loud, s, 3);
        uint64_t before = rt_alloc_count();
        say(loud->plan->student_says);
        say(loud->plan->teacher_says);
        assert_true(rt_alloc_count() == before);
    }
    for (uint32_t i = 0; i < quiet->plan->student->param_count; i++) {
        size_t bytes = rt_trainer_elems(quiet, i) * sizeof(float);
        float *x = malloc(bytes), *y = malloc(bytes);
        for (const char *k = "wmv"; *k; k++) {
            assert_int_equal(rt_trainer_read(quiet, *k, i, x, &e), RT_OK);
            assert_int_equal(rt_trainer_read(loud, *k, i, y, &e), RT_OK);
            assert_memory_equal(x, y, bytes);
        }
        free(x);
        free(y);
    }
    rt_trainer_free(quiet);
    rt_trainer_free(loud);
}

/* ---- prompts ---- */

typedef struct prompt_case {
    const rt_data_text *how;
    const char *given;
    bool json;
} prompt_case;

static int make_prompt(void *ctx, rt_err *e)
{
    const prompt_case *k = ctx;
    rt_str shown = { 0 };
    rt_tok_ids got = { 0 };
    int rc = (k->json ? rt_prompt_from_json : rt_prompt_from_line)(k->how, k->given, strlen(k->given), &shown, &got, e);
    rt_str_free(&shown);
    rt_free(got.ids);
    return rc;
}

/* The ids, decoded with their special tokens, are `read`; a person sees `seen`. */
static void prompt_is(const rt_data_text *how, bool json, const char *given, const char *seen, const char *read)
{
    rt_err e = { 0 };
    rt_str shown = { 0 }, back = { 0 };
    rt_tok_ids got = { 0 };
    if ((json ? rt_prompt_from_json : rt_prompt_from_line)(how, given, strlen(given), &shown, &got, &e) < 0)
        fail_msg("%s: %s", given, e.text);
    assert_int_equal(rt_tokenizer_decode(how->tok, got.ids, got.count, 0, &back, &e), RT_OK);
    assert_string_equal(shown.data, seen);
    assert_string_equal(back.data, read);
    rt_str_free(&shown);
    rt_str_free(&back);
    rt_free(got.ids);
}

static void prompt_refused(const rt_data_text *how, const char *given, int status, const char *words)
{
    rt_err e = { 0 };
    assert_int_equal(make_prompt(&(prompt_case){ how, given, true }, &e), status);
    assert_says(&e, words);
}

#define ASKED "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
static void test_prompts(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_data_text chat, plain;
    assert_int_equal(rt_data_text_from(&chat, text, NULL, &e), RT_OK);
    plain = chat;
    plain.tmpl = NULL;
    prompt_is(&chat, false, "Why?", "Why?", ASKED);
    prompt_is(&plain, false, "Why?", "Why?", "Why?");
    prompt_is(&chat, true, "{\"prompt\": \"2 + 2 =\", \"completion\": \" 4\"}", "2 + 2 =", "2 + 2 =");
    prompt_is(&chat, true, "{\"text\": \"Once\"}", "Once", "Once");
    prompt_is(&chat, true, "{\"messages\": [{\"role\": \"user\", \"content\": \"Why?\"}]}", "Why?", ASKED);
    /* the assistant's last words are what is asked for */
    prompt_is(&chat, true,
              "{\"messages\": [{\"role\": \"user\", \"content\": \"Why?\"}, {\"role\": \"assistant\", \"content\": "
              "\"Because.\"}]}",
              "Why?", ASKED);
    prompt_is(&chat, true, "{\"instruction\": \"Why?\", \"output\": \"Because.\"}", "Why?", ASKED);
    prompt_is(
        &chat, true,
        "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"Why?\"}]}",
        "<|im_start|>system\nS<|im_end|>\n" ASKED, "<|im_start|>system\nS<|im_end|>\n" ASKED);
    prompt_refused(&chat, "{\"prompt\": ", RT_FORMAT, "broken JSON");
    prompt_is(&chat, true, "{\"question\": \"Why?\"}", "Why?", ASKED); /* its answer is still to be made */
    prompt_is(&chat, true, "{\"instruction\": \"Why?\"}", "Why?", ASKED);
    prompt_is(&chat, true, "{\"prompt\": [{\"role\": \"user\", \"content\": \"Why?\"}]}", "Why?", ASKED);
    prompt_refused(&chat, "{\"topic\": \"Why?\"}", RT_INVALID, "topic|no known kind");
    prompt_refused(&chat, "{\"text\": 3}", RT_INVALID, "`text`");
    prompt_refused(&chat, "{\"messages\": [{\"role\": \"assistant\", \"content\": \"I\"}]}", RT_INVALID,
                   "asks nothing");
    prompt_refused(&plain, "{\"messages\": [{\"role\": \"user\", \"content\": \"Why?\"}]}", RT_INVALID,
                   "no chat template|--chat-template");
}

/* ---- the file ---- */

static rt_inputs inputs(void)
{
    return (rt_inputs){ .student = student,
                        .teacher = teacher,
                        .student_text = text,
                        .teacher_text = text,
                        .text = text,
                        .template_from = "student" };
}

static rt_settings settings(const char *prompts)
{
    return (rt_settings){ .sample_prompts = prompts, .sample_tokens = NEW };
}

static rt_samples *open_samples(const rt_inputs *in, const char *prompts)
{
    rt_err e = { 0 };
    rt_settings s = settings(prompts);
    rt_samples *p = NULL;
    if (rt_samples_open(&p, &s, in, 0, &e) < 0) fail_msg("%s", e.text);
    return p;
}

static void samples_refused(const rt_inputs *in, const char *file, const char *content, int status, const char *words)
{
    rt_err e = { 0 };
    rt_settings s = settings(in_dir(file));
    rt_samples *p = NULL;
    if (content) put_text(file, content);
    assert_int_equal(rt_samples_open(&p, &s, in, 0, &e), status);
    assert_null(p);
    assert_says(&e, words);
}

static void test_files_of_prompts(void **state)
{
    (void)state;
    rt_inputs in = inputs();
    char many[400] = "";
    put_text("p.txt", "Why?\n\n  How many are\tthere? \r\n");
    rt_samples *p = open_samples(&in, in_dir("p.txt"));
    assert_int_equal(p->count, 2);
    assert_memory_equal(p->prompts[1].text.data, "How many are\tthere?", p->prompts[1].text.len);
    assert_int_equal(rt_samples_context(p), p->prompts[1].count + NEW);
    rt_samples_close(p);
    assert_null(open_samples(&in, "none"));
    assert_int_equal(rt_samples_context(NULL), 0);
    for (int i = 0; i < 65; i++) strcat(many, "word\n");
    samples_refused(&in, "many.txt", many, RT_INVALID, "line 65|more than 64");
    samples_refused(&in, "empty.txt", "\n \n", RT_INVALID, "--sample-prompts|holds no prompt");
    samples_refused(&in, "absent.txt", NULL, RT_NOT_FOUND, "--sample-prompts|absent.txt");
    samples_refused(&in, "bad.jsonl", "{\"text\": \"a\"}\n{\n", RT_FORMAT, "bad.jsonl, line 2|broken JSON");
    in.text = NULL;
    samples_refused(&in, "p.txt", NULL, RT_INVALID, "neither model has a tokenizer");
    assert_null(open_samples(&in, NULL));
}

/* Lines as "step who", one after the other. */
static void lines_are(const char *want)
{
    rt_err e = { 0 };
    rt_str all = { 0 }, got = { 0 };
    assert_int_equal(rt_file_read(in_dir("samples.jsonl"), 1 << 20, &all, &e), RT_OK);
    for (char *rest = all.data, *line; rest && (line = strsep(&rest, "\n")) && *line;) {
        json_t *j = json_loads(line, 0, NULL);
        assert_true(json_is_string(json_object_get(j, "prompt")) && json_is_string(json_object_get(j, "text")) &&
                    json_is_boolean(json_object_get(j, "stopped")));
        rt_str_printf(&got, "%d %s; ", (int)json_integer_value(json_object_get(j, "step")),
                      json_string_value(json_object_get(j, "who")));
        json_decref(j);
    }
    assert_string_equal(got.data ? got.data : "", want);
    rt_str_free(&all);
    rt_str_free(&got);
}

static void append(const char *torn)
{
    FILE *f = fopen(in_dir("samples.jsonl"), "a");
    fputs(torn, f);
    fclose(f);
}

#define FIRST "0 teacher; 0 student; 0 teacher; 0 student; "
static void test_file(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_inputs in = inputs();
    rt_eval_result v = { 0 };
    rt_span now;
    put_text("p.txt", "Why?\nHow?\n");
    rt_samples *p = open_samples(&in, in_dir("p.txt"));
    rt_trainer *t = open_trainer(rt_samples_context(p), 0);
    assert_int_equal(rt_samples_begin(p, test_dir, -1, &e), RT_OK);
    if (rt_samples_make(p, t, 0, &v, &e) < 0) fail_msg("%s", e.text);
    assert_true(v.sampled && v.stop_rate >= 0 && v.stop_rate <= 1 && v.repetition_rate >= 0 && v.repetition_rate <= 1);
    lines_are(FIRST);
    train_some(t, 1, 5);
    assert_int_equal(rt_samples_make(p, t, 5, &v, &e), RT_OK);
    lines_are(FIRST "5 student; 5 student; ");
    assert_int_equal(rt_samples_say(p, t, 0, &now, &e), RT_OK);
    assert_true(now.data && p->prompts[0].before.data && p->prompts[0].teacher.data);
    rt_span before = p->prompts[1].before;
    char *was = strndup(before.data, before.len);
    rt_samples_close(p);

    /* resumed from a checkpoint before step 5, with half a line at the end */
    append("{\"step\": 0, \"prom");
    p = open_samples(&in, in_dir("p.txt"));
    assert_int_equal(rt_samples_begin(p, test_dir, 4, &e), RT_OK);
    lines_are(FIRST);
    assert_true(p->prompts[1].before.len == strlen(was) && !memcmp(p->prompts[1].before.data, was, strlen(was)));
    assert_int_equal(rt_samples_make(p, t, 5, &v, &e), RT_OK); /* the teacher's are there */
    lines_are(FIRST "5 student; 5 student; ");
    rt_samples_close(p);

    /* another prompt on resuming: the teacher is asked what it was not asked yet */
    put_text("p.txt", "Why?\nWhen?\n");
    p = open_samples(&in, in_dir("p.txt"));
    assert_int_equal(rt_samples_begin(p, test_dir, 5, &e), RT_OK);
    assert_int_equal(rt_samples_make(p, t, 7, &v, &e), RT_OK);
    lines_are(FIRST "5 student; 5 student; 7 student; 7 teacher; 7 student; ");
    rt_samples_close(p);

    p = open_samples(&in, in_dir("p.txt"));
    assert_int_equal(rt_samples_begin(p, test_dir, -1, &e), RT_OK); /* a run that begins anew */
    lines_are("");
    rt_samples_close(p);
    free(was);
    rt_trainer_free(t);
}

/* A model whose first choice is always an id that ends the text stops at once, and one that never chooses it never. */
static void test_stop_rate(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_inputs in = inputs();
    rt_eval_result v = { 0 };
    put_text("p.txt", "Why?\nHow?\n");
    rt_samples *p = open_samples(&in, in_dir("p.txt"));
    rt_trainer *t = open_trainer(rt_samples_context(p), 0);
    assert_int_equal(rt_samples_begin(p, test_dir, -1, &e), RT_OK);
    p->student_stops.count = 0;
    assert_int_equal(rt_samples_make(p, t, 0, &v, &e), RT_OK);
    assert_true(v.stop_rate == 0);
    /* the id that it says first ends it */
    ids first = { .count = 0 };
    assert_int_equal(
        rt_generator_run(t->plan->student_says, p->prompts[0].ids, p->prompts[0].count, 1, on_token, &first, NULL, &e),
        RT_OK);
    p->student_stops = (rt_stops){ .ids = { first.id[0] }, .count = 1 };
    p->count = 1;
    assert_int_equal(rt_samples_make(p, t, 1, &v, &e), RT_OK);
    assert_true(v.stop_rate == 1 && v.repetition_rate == 0);
    rt_samples_close(p);
    rt_trainer_free(t);
}

/* A model's text, then the prompts of a file, which ctx names. */
static int open_prompts(void *ctx, rt_err *e)
{
    int rc;
    rt_samples *p = NULL;
    rt_model_file *m = NULL;
    rt_text_source *own = NULL;
    RT_TRY(rt_model_file_open(&m, in_dir("s"), &(rt_hub_env){ 0 }, e));
    RT_TRY(rt_text_from_model(&own, &m->text, &m->config, m->path, e));
    rt_inputs in = { .student = m, .student_text = own, .text = own, .template_from = "student" };
    rt_settings s = settings(in_dir(ctx));
    RT_TRY(rt_samples_open(&p, &s, &in, 0, e));
    RT_TRY(rt_samples_begin(p, test_dir, 9, e));
out:
    rt_samples_close(p);
    rt_text_close(own);
    rt_model_file_close(m);
    return rc;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    close_all();
    put_text("p.txt", "Why?\nHow?\n");
    put_text("p.jsonl", "{\"instruction\": \"Why?\", \"output\": \"B\"}\n{\"text\": \"Once\"}\n");
    put_text("samples.jsonl", "{\"step\": 0, \"prompt\": \"Why?\", \"who\": \"student\", \"text\": \"So.\"}\n");
    fail_each(open_prompts, (char[]){ "p.txt" }, 0);
    fail_each(open_prompts, (char[]){ "p.jsonl" }, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repetition),    cmocka_unit_test(test_same_weights),
        cmocka_unit_test(test_adapters),      cmocka_unit_test(test_nothing_disturbed),
        cmocka_unit_test(test_prompts),       cmocka_unit_test(test_files_of_prompts),
        cmocka_unit_test(test_file),          cmocka_unit_test(test_stop_rate),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
