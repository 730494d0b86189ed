/* test_tasks.c - tasks: log-probabilities of choices beside a softmax of the decoder's own logits, one id at a time;
 * scores and their errors beside lm-eval's formulas; what is expected and what is required; refusals by file and line.
 */
#include "train_case.h"

#include "base/json.h"
#include "infer/engine.h"
#include "job/speaker.h"
#include "job/tasks.h"

#include <math.h>

enum { V = 320, CONTEXT = 128, MOST = 64 };

static rt_settings where;
static rt_job_env env;

static int set_up(void **state)
{
    rt_err e = { 0 };
    rt_model_config c = tiny_config("tiny-qwen2", 5);
    make_test_dir(state);
    c.context = CONTEXT;
    assert_true(c.vocab <= V);
    write_model(in_dir("m"), &c, RT_DTYPE_F32, false);
    c = tiny_config("tiny-llama", 6);
    c.context = CONTEXT;
    write_model(in_dir("n"), &c, RT_DTYPE_F32, false);
    where = (rt_settings){ .threads = 1 };
    if (rt_settings_set(&where, RT_SETTING_ID_device, "cpu", &e) < 0) fail_msg("%s", e.text);
    return 0;
}

static char *kept(const char *name)
{
    char *copy = strdup(in_dir(name));
    assert_non_null(copy);
    return copy;
}

/* The file t.jsonl, given to m and, where told, to n. */
static int ask(rt_job_tasked *out, const char *text, const char *require, bool beside, bool chat, rt_err *e)
{
    char *models[] = { kept("m"), kept("n") }, *file = kept("t.jsonl"), *details = kept("d.jsonl");
    put_file("t.jsonl", text, strlen(text));
    const uint64_t live = rt_alloc_live();
    (void)remove(details);
    const rt_job_tasks_opts o = { .models = (const char *const *)models,
                                  .files = (const char *const *)&file,
                                  .require = &require,
                                  .model_count = beside ? 2 : 1,
                                  .file_count = 1,
                                  .require_count = require != NULL,
                                  .details = details,
                                  .chat = chat,
                                  .slots = 3,
                                  .where = &where,
                                  .env = &env };
    const int rc = rt_job_tasks(out, &o, e);
    if (rc < 0) assert_int_equal(rt_alloc_live(), live);
    free(models[0]);
    free(models[1]);
    free(file);
    free(details);
    return rc;
}

static void ask_well(rt_job_tasked *out, const char *text, const char *require, bool beside)
{
    rt_err e = { 0 };
    if (ask(out, text, require, beside, false, &e) < 0) fail_msg("%s", e.text);
}

/* ---- log-probabilities ---- */

typedef struct next {
    rt_engine *g;
    uint32_t id; /* whose log-probability is wanted */
    double logp;
} next;

static int on_logits(void *ctx, const rt_token_event *t, rt_err *e)
{
    static float logits[V];
    next *x = ctx;
    double most = -INFINITY, sum = 0;
    assert_int_equal(rt_engine_logits(x->g, t->request, logits, e), RT_OK);
    for (uint32_t i = 0; i < rt_engine_vocab(x->g); i++) most = fmax(most, (double)logits[i]);
    for (uint32_t i = 0; i < rt_engine_vocab(x->g); i++) sum += exp((double)logits[i] - most);
    x->logp = (double)logits[x->id] - most - log(sum);
    return 0;
}

/* Model m with an engine of its own. */
typedef struct scorer {
    rt_model_file *m;
    rt_speaker *s; /* its tokenizer alone */
    rt_dev *d;
    rt_engine *g;
} scorer;

static void scorer_open(scorer *x)
{
    rt_err e = { 0 };
    x->m = open_model(in_dir("m"));
    assert_int_equal(rt_speaker_new(&x->s, x->m, &e), RT_OK);
    assert_int_equal(rt_job_device_open(&x->d, &where, NULL, NULL, NULL, &e), RT_OK);
    assert_int_equal(rt_engine_open(&x->g, x->d, x->m, NULL, &(rt_engine_opts){ .context = CONTEXT }, &e), RT_OK);
}

static void scorer_close(scorer *x)
{
    rt_engine_free(x->g);
    rt_job_device_close(x->d);
    rt_speaker_free(x->s);
    rt_model_file_close(x->m);
}

/* Of the ids of text that come after those of its first `before` bytes: every one of them from a prompt of its own. */
static double sum_of(const scorer *s, const char *text, size_t before)
{
    rt_err e = { 0 };
    double sum = 0;
    rt_tok_ids ids = { 0 }, first = { 0 };
    assert_int_equal(rt_speaker_encode(s->s, text, strlen(text), false, &ids, &e), RT_OK);
    assert_int_equal(rt_speaker_encode(s->s, text, before, false, &first, &e), RT_OK);
    for (uint32_t i = first.count; i < ids.count; i++) {
        next x = { .g = s->g, .id = ids.ids[i] };
        const rt_request r = {
            .prompt = ids.ids, .count = i, .max_new = 1, .sampling = rt_sampling_greedy, .fn = on_logits, .ctx = &x
        };
        assert_int_equal(rt_engine_add(s->g, &r, NULL, &e), RT_OK);
        while (rt_engine_busy(s->g)) assert_int_equal(rt_engine_step(s->g, &e), RT_OK);
        sum += x.logp;
    }
    rt_free(ids.ids);
    rt_free(first.ids);
    return sum;
}

static const char choices_text[] =
    "{\"question\": \"ab cd\", \"choices\": [\"yz\", \"x\", \"quick fox\"], \"answer\": 1}\n"
    "{\"context\": \"ends in space  \", \"choices\": [\"zebra\", \"x\"], \"answer\": 0, \"delimiter\": \"\"}\n"
    "{\"question\": \"number\", \"choices\": [\"one\", \"caf\\u00e9\"], \"answer\": 0, \"delimiter\": \":\\n\"}\n";

static const struct {
    uint32_t scored, count;
    double characters[3]; /* of the choice alone */
    const char *each[3];
} expected[] = {
    { 5, 3, { 2, 1, 9 }, { "ab cd yz", "ab cd x", "ab cd quick fox" } },
    { 13, 2, { 5, 1 }, { "ends in space  zebra", "ends in space  x" } },
    { 6, 2, { 3, 4 }, { "number:\none", "number:\ncaf\xc3\xa9" } },
};

static void test_log_probabilities(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_job_tasked t;
    scorer x;
    rt_str text = { 0 };
    ask_well(&t, choices_text, NULL, false);
    assert_int_equal(t.row_count, 2);
    assert_string_equal(t.rows[0].task, "t"); /* the file's */
    assert_int_equal(t.rows[0].n, 3);
    assert_int_equal(t.models[0].requests, 7);
    assert_int_equal(rt_file_read(in_dir("d.jsonl"), 1 << 20, &text, &e), RT_OK);
    scorer_open(&x);
    int right[2] = { 0, 0 };
    uint32_t later = 0; /* not the first choice */
    const char *line = text.data;
    for (uint32_t i = 0; i < 3; i++, line = strchr(line, '\n') + 1) {
        json_t *j = rt_json_load(line, strcspn(line, "\n"), 0, NULL);
        const json_t *logps = json_object_get(j, "logps");
        uint32_t best = 0, norm = 0;
        double sum[3];
        assert_int_equal(json_array_size(logps), expected[i].count);
        for (uint32_t k = 0; k < expected[i].count; k++) {
            sum[k] = sum_of(&x, expected[i].each[k], expected[i].scored);
            assert_true(fabs(sum[k] - json_real_value(json_array_get(logps, k))) < 1e-4);
            assert_true(sum[k] < -1);
            if (sum[k] > sum[best]) best = k;
            if (sum[k] / expected[i].characters[k] > sum[norm] / expected[i].characters[norm]) norm = k;
        }
        assert_int_equal(json_integer_value(json_object_get(j, "chosen")), best);
        assert_int_equal(json_integer_value(json_object_get(j, "chosen_norm")), norm);
        right[0] += best == (uint32_t)json_integer_value(json_object_get(j, "answer"));
        right[1] += norm == (uint32_t)json_integer_value(json_object_get(j, "answer"));
        later += best > 0;
        json_decref(j);
    }
    assert_int_equal(later, 2);
    for (int i = 0; i < 2; i++) assert_true(fabs(t.rows[i].scores[0].value.mean - right[i] / 3.0) < 1e-12);
    scorer_close(&x);
    rt_str_free(&text);
    rt_job_tasked_free(&t);
}

/* The template ends in a newline, which goes to the choice, as lm-eval has it; nothing stands between them. */
static void test_chat(void **state)
{
    (void)state;
#define TURN "<|im_start|>user\nab <|im_end|>\n<|im_start|>assistant"
    rt_err e = { 0 };
    rt_job_tasked t;
    scorer x;
    rt_str text = { 0 };
    const char record[] = "{\"question\": \"ab \", \"choices\": [\"x\", \"yz\"], \"answer\": 0}\n";
    if (ask(&t, record, NULL, false, true, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_file_read(in_dir("d.jsonl"), 1 << 20, &text, &e), RT_OK);
    json_t *j = rt_json_load(text.data, text.len, 0, NULL);
    scorer_open(&x);
    const double sums[] = { sum_of(&x, TURN "\nx", strlen(TURN)), sum_of(&x, TURN "\nyz", strlen(TURN)) };
    for (uint32_t k = 0; k < 2; k++) {
        assert_int_equal(json_integer_value(json_array_get(json_object_get(j, "tokens"), k)), 2 + k);
        assert_true(fabs(json_real_value(json_array_get(json_object_get(j, "logps"), k)) - sums[k]) < 1e-4);
    }
    scorer_close(&x);
    json_decref(j);
    rt_str_free(&text);
    rt_job_tasked_free(&t);
}

/* An empty question begins with the token that begins a text, and a choice that is that token is scored by what follows
 * it. White space alone leaves nothing to begin with. */
static void test_empty_question(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_job_tasked t;
    ask_well(&t, "{\"question\": \"\", \"choices\": [\"x\", \"yz\"], \"answer\": 0, \"delimiter\": \"\"}\n", NULL,
             false);
    assert_int_equal(t.models[0].prompt_tokens, 5); /* 1 + 1 and 1 + 2 */
    rt_job_tasked_free(&t);
    const char blank[] = "{\"question\": \" \\t\\u3000\", \"choices\": [\"x\", \"yz\"], \"answer\": 0}\n";
    assert_int_equal(ask(&t, blank, NULL, false, false, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "t.jsonl, line 1: the question is only white space"));
}

/* ---- scores ---- */

/* n questions, of which the answer is what m chooses except in the first `wrong`. */
static void make_questions(rt_str *s, const char *task, uint32_t n, uint32_t wrong)
{
    rt_job_tasked t;
    rt_str text = { 0 }, told = { 0 };
    for (uint32_t i = 0; i < n; i++)
        rt_str_printf(&text, "{\"question\": \"q %u\", \"choices\": [\"a\", \"b\"], \"answer\": 0}\n", i * i);
    ask_well(&t, text.data, NULL, false);
    assert_int_equal(rt_file_read(in_dir("d.jsonl"), 1 << 20, &told, NULL), RT_OK);
    const char *line = told.data;
    for (uint32_t i = 0; i < n; i++, line = strchr(line, '\n') + 1) {
        const int chosen = strstr(line, "\"chosen\":")[9] - '0';
        rt_str_printf(s, "{\"task\": \"%s\", \"question\": \"q %u\", \"choices\": [\"a\", \"b\"], \"answer\": %d}\n",
                      task, i * i, i < wrong ? 1 - chosen : chosen);
    }
    rt_job_tasked_free(&t);
    rt_str_free(&text);
    rt_str_free(&told);
}

/* lm-eval's sample_stddev over the root of n, as it spells it. */
static double stderr_of(const int *x, int n)
{
    double mean = 0, sum = 0;
    for (int i = 0; i < n; i++) mean += (double)x[i] / n;
    for (int i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sqrt(sum / (n - 1)) / sqrt(n);
}

static void test_scores_and_gates(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_job_tasked t;
    rt_str text = { 0 };
    int hits[10], other[10], change[10];
    make_questions(&text, "seven", 10, 3);
    make_questions(&text, "none", 4, 4);
    ask_well(&t, text.data, "seven:acc>=0.7", true);
    assert_int_equal(t.row_count, 4);
    assert_string_equal(t.rows[0].task, "seven");
    for (int i = 0; i < 10; i++) hits[i] = i >= 3;
    assert_true(fabs(t.rows[0].scores[0].value.mean - 0.7) < 1e-12);
    assert_true(fabs(t.rows[0].scores[0].value.error - stderr_of(hits, 10)) < 1e-12);
    assert_true(t.rows[2].scores[0].value.mean == 0 && t.rows[2].scores[0].value.error == 0);
    assert_int_equal(t.gate_count, 1);
    assert_true(t.gates[0].holds);
    assert_int_equal(rt_job_tasked_check(&t, &e), RT_OK);
    /* The other model's, and the difference record by record. */
    rt_str told = { 0 };
    assert_int_equal(rt_file_read(in_dir("d.jsonl"), 1 << 20, &told, NULL), RT_OK);
    const char *line = told.data;
    for (int i = 0; i < 14; i++) line = strchr(line, '\n') + 1; /* those of the first model */
    double mean = 0;
    for (int i = 0; i < 10; i++, line = strchr(line, '\n') + 1) {
        other[i] = strstr(line, "\"chosen\":")[9] == strstr(line, "\"answer\":")[9];
        change[i] = other[i] - hits[i];
        mean += change[i] / 10.0;
    }
    assert_true(fabs(t.rows[0].scores[1].change.mean - mean) < 1e-12);
    assert_true(fabs(t.rows[0].scores[1].change.error - stderr_of(change, 10)) < 1e-12);
    assert_true(fabs(t.rows[0].scores[1].value.error - stderr_of(other, 10)) < 1e-12);
    rt_job_tasked_free(&t);
    /* Without a task's name every task has to reach it. */
    ask_well(&t, text.data, "acc>=0.7", false);
    assert_int_equal(t.gate_count, 2);
    assert_true(t.gates[0].holds && !t.gates[1].holds);
    assert_int_equal(rt_job_tasked_check(&t, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "acc of none is 0.0000, and --require 'acc>=0.7'"));
    rt_job_tasked_free(&t);
    ask_well(&t, text.data, "seven:acc>=0.7000001", false);
    assert_int_equal(rt_job_tasked_check(&t, &e), RT_INVALID);
    rt_job_tasked_free(&t);
    rt_str_free(&text);
    rt_str_free(&told);
}

static void test_bad_requirements(void **state)
{
    (void)state;
    static const struct {
        const char *require, *why;
    } bad[] = { { "acc>0.3", "it has no >=" },
                { "acc>=x", "not a number from 0 to 1" },
                { "acc>=30", "not a number from 0 to 1" },
                { "acc>=nan", "not a number from 0 to 1" },
                { "accuracy>=0.3", "metrics are acc" },
                { "u:acc>=0.3", "no such task in the files" },
                { "exact_match>=0.3", "no such task in the files has exact_match" } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rt_err e = { 0 };
        rt_job_tasked t;
        assert_int_equal(ask(&t, choices_text, bad[i].require, false, false, &e), RT_USAGE);
        if (!strstr(e.text, bad[i].why)) fail_msg("%s: %s", bad[i].require, e.text);
    }
}

/* ---- answers ---- */

static void test_answers(void **state)
{
    (void)state;
    rt_job_tasked t;
    rt_str told = { 0 }, text = { 0 };
    ask_well(&t, "{\"prompt\": \"ab cd\", \"target\": \"no\", \"max_new\": 6}\n", NULL, false);
    assert_true(t.rows[0].scores[0].value.mean == 0 && isnan(t.rows[0].scores[0].value.error));
    assert_int_equal(t.models[0].answer_tokens, 6);
    rt_job_tasked_free(&t);
    assert_int_equal(rt_file_read(in_dir("d.jsonl"), 1 << 20, &told, NULL), RT_OK);
    json_t *j = rt_json_load(told.data, told.len, 0, NULL), *said = json_object_get(j, "said");
    json_t *list = json_pack("[s, o]", "no", json_sprintf(" \n%s\t", json_string_value(said)));
    char *targets = json_dumps(list, JSON_COMPACT);
    /* White space at the ends is not looked at; one of several is enough. */
    rt_str_printf(&text, "{\"prompt\": \"ab cd\", \"target\": %s, \"max_new\": 6}\n", targets);
    ask_well(&t, text.data, NULL, false);
    assert_true(t.rows[0].metric == RT_TASK_EXACT && t.rows[0].scores[0].value.mean == 1);
    rt_job_tasked_free(&t);
    rt_free(targets);
    json_decref(list);
    json_decref(j);
    rt_str_free(&told);
    rt_str_free(&text);
}

/* ---- refusals ---- */

static void test_refusals(void **state)
{
    (void)state;
#define LINE "{\"question\": \"a\", \"choices\": [\"x\", \"y\"], \"answer\": 0}\n\n"
    static const struct {
        const char *line;
        int status;
        const char *why;
    } bad[] = {
        { "{\"question\": \"a\", ", RT_FORMAT, "not JSON" },
        { "[1]", RT_FORMAT, "not an object" },
        { "{\"question\": \"a\"}", RT_INVALID, "a record needs either `choices` or a `target`" },
        { "{\"question\": \"a\", \"choices\": [\"x\", \"y\"], \"answer\": 0, \"anser\": 1}", RT_INVALID,
          "unknown key 'anser'; did you mean 'answer'?" },
        { "{\"question\": \"a\", \"choices\": [\"x\", \"y\"], \"answer\": 2}", RT_INVALID,
          "`answer` 2 is out of range (0 to 1, for 2 choices)" },
        { "{\"question\": \"a\", \"choices\": [\"x\", \"y\"], \"answer\": -1}", RT_INVALID, "out of range" },
        { "{\"question\": \"a\", \"choices\": [\"x\", \"y\"], \"answer\": \"x\"}", RT_INVALID, "not a whole number" },
        { "{\"question\": \"a\", \"choices\": [\"x\", \"y\"]}", RT_INVALID, "`answer` is missing" },
        { "{\"question\": \"a\", \"choices\": [\"x\", \"\"], \"answer\": 0}", RT_INVALID, "element 1 is empty" },
        { "{\"question\": \"a\", \"choices\": [\"x\"], \"answer\": 0}", RT_INVALID, "`choices` is a list of 1;" },
        { "{\"question\": \"a\", \"choices\": \"xy\", \"answer\": 0}", RT_INVALID,
          "`choices` is a string, not a list of strings" },
        { "{\"choices\": [\"x\", \"y\"], \"answer\": 0}", RT_INVALID, "`question` is missing" },
        { "{\"question\": \"a\", \"context\": \"b\", \"choices\": [\"x\", \"y\"], \"answer\": 0}", RT_INVALID,
          "mean the same" },
        { "{\"question\": \"a\", \"choices\": [\"x\", \"y\"], \"answer\": 0, \"answer\": 1}", RT_FORMAT, "not JSON" },
        { "{\"prompt\": \"a\", \"target\": \"b\"}", RT_INVALID, "task 't' has a target here and choices in" },
        { "{\"task\": \"u\", \"prompt\": \"a\", \"target\": []}", RT_INVALID, "`target` is a list of 0;" },
        { "{\"task\": \"u\", \"prompt\": \"a\", \"target\": 3}", RT_INVALID, "neither a string nor a list of strings" },
        { "{\"task\": \"u\", \"prompt\": \"a\", \"target\": \"b\", \"max_new\": 0}", RT_INVALID, "`max_new`" },
        { "{\"task\": \"u\", \"prompt\": \"a\", \"target\": \"b\", \"stop\": [\"\"]}", RT_INVALID,
          "`stop`: element 0" },
        { "{\"task\": \"u\", \"prompt\": \"\", \"target\": \"b\"}", RT_INVALID, "`prompt` is empty" },
        { "{\"task\": 3, \"prompt\": \"a\", \"target\": \"b\"}", RT_INVALID, "`task` is not a name" },
        { "{\"task\": \"a\\nb  9  acc  1.0000\", \"prompt\": \"a\", \"target\": \"b\"}", RT_INVALID,
          "has a control character" },
        { "{\"task\": \"a:b\", \"prompt\": \"a\", \"target\": \"b\"}", RT_INVALID, "has a colon" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rt_err e = { 0 };
        rt_job_tasked t;
        rt_str text = { 0 };
        rt_str_printf(&text, LINE "%s\n" LINE, bad[i].line);
        const int rc = ask(&t, text.data, NULL, false, false, &e);
        if (rc != bad[i].status || !strstr(e.text, "t.jsonl, line 3: ") || !strstr(e.text, bad[i].why))
            fail_msg("%s: %d, %s", bad[i].line, rc, e.text);
        rt_str_free(&text);
    }
}

/* A question and a choice fit up to the context, an answer needs a place more. */
static void test_length(void **state)
{
    (void)state;
    rt_job_tasked t;
    for (uint32_t over = 0; over < 2; over++)
        for (uint32_t answer = 0; answer < 2; answer++) {
            rt_err e = { 0 };
            rt_str text = { 0 };
            char q[CONTEXT + 1] = "";
            memset(q, 'a', CONTEXT - 2 + over + answer);
            if (answer)
                rt_str_printf(&text, "{\"prompt\": \"%s\", \"target\": \"b\", \"max_new\": 50}\n", q);
            else
                rt_str_printf(&text, "{\"question\": \"%s\", \"choices\": [\"x\", \"y\"], \"answer\": 0}\n", q);
            const int rc = ask(&t, text.data, NULL, false, false, &e);
            assert_int_equal(rc, over ? RT_INVALID : RT_OK);
            if (over) assert_non_null(strstr(e.text, "t.jsonl, line 1: "));
            if (over) assert_non_null(strstr(e.text, "the model's context is 128; shorten it or leave it out"));
            if (!over && answer) assert_int_equal(t.models[0].answer_tokens, 2); /* the last needs no place */
            rt_job_tasked_free(&t);
            rt_str_free(&text);
        }
}

/* A file that has come under the name of the details is not replaced, and the scores are there all the same. */
static int take_name(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    if (strcmp(what, "answering") == 0) put_file((const char *)ctx, "mine", 4);
    return 0;
}

static void test_details_taken(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_job_tasked t;
    rt_str text = { 0 };
    char *model = kept("m"), *file = kept("t.jsonl"), *details = kept("taken.jsonl"),
         *nowhere = kept("no/such/d.jsonl");
    put_file("t.jsonl", choices_text, sizeof choices_text - 1);
    rt_job_tasks_opts o = { .models = (const char *const *)&model,
                            .files = (const char *const *)&file,
                            .model_count = 1,
                            .file_count = 1,
                            .details = details,
                            .where = &where,
                            .env = &env,
                            .progress = take_name,
                            .ctx = (void *)(uintptr_t) "taken.jsonl" };
    assert_int_equal(rt_job_tasks(&t, &o, &e), RT_OK);
    assert_true(t.row_count == 2 && t.rows[0].n == 3);
    assert_int_equal(rt_job_tasked_check(&t, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "is not replaced"));
    rt_job_tasked_free(&t);
    assert_int_equal(rt_file_read(details, 100, &text, &e), RT_OK);
    assert_string_equal(text.data, "mine");
    rt_str_free(&text);
    /* Where none can be written that is said before anything is computed. */
    o.details = nowhere;
    o.progress = NULL;
    assert_int_equal(rt_job_tasks(&t, &o, &e), RT_NOT_FOUND);
    free(model);
    free(file);
    free(details);
    free(nowhere);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_probabilities),
        cmocka_unit_test(test_empty_question),
        cmocka_unit_test(test_scores_and_gates),
        cmocka_unit_test(test_bad_requirements),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_details_taken),
        cmocka_unit_test(test_chat),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_dir);
}
