/* one_door.c - the public C API as a command line, for tests/cli/one_door.sh: the same jobs as `retort`, through
 * include/retort.h alone. What it prints is for comparing, not for reading.
 *
 *   one_door distill|train|plan|ops|preview NAME=VALUE...      settings; resume=1 and override=1 are of the run
 *   one_door evaluate MODEL TEACHER|- DATA [NAME=VALUE...]     options by their names in retort.h
 *   one_door generate MODEL PROMPT [NAME=VALUE...]
 *   one_door convert IN OUT [NAME=VALUE...] */
#include <inttypes.h>
#include <retort.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static retort_error e;

static int fail(void)
{
    fprintf(stderr, "%s\n", e.text);
    return -e.status;
}

/* The value of NAME=VALUE, null when it is not there. */
static const char *option(int argc, char **argv, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=') return argv[i] + n + 1;
    return NULL;
}

static uint32_t number(int argc, char **argv, const char *name)
{
    const char *text = option(argc, argv, name);
    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

static double real(int argc, char **argv, const char *name)
{
    const char *text = option(argc, argv, name);
    return text ? strtod(text, NULL) : 0;
}

/* ---- runs ---- */

static int take_settings(retort_settings *s, int argc, char **argv)
{
    char name[64];
    for (int i = 0; i < argc; i++) {
        size_t n = strcspn(argv[i], "=");
        snprintf(name, sizeof name, "%.*s", (int)n, argv[i]);
        if (strcmp(name, "resume") == 0 || strcmp(name, "override") == 0) continue;
        if (retort_settings_set(s, name, argv[i][n] ? argv[i] + n + 1 : "on", &e)) return -1;
    }
    return 0;
}

static int print_plan(retort_plan *p, const char *what)
{
    char *text = NULL;
    retort_plan_facts f = { .size = sizeof f };
    if (retort_plan_describe(p, &f, &e)) return fail();
    if (strcmp(what, "ops") == 0) {
        for (uint32_t i = 0; i < f.programs; i++) {
            if (retort_plan_text(p, i, &text, &e)) return fail();
            printf("\n%s", text);
            retort_text_free(text);
        }
        return 0;
    }
    if (strcmp(what, "plan") == 0 ? retort_plan_cost(p, 1, &text, &e) : retort_plan_preview(p, &text, &e))
        return fail();
    puts(text);
    retort_text_free(text);
    return f.fits ? 0 : -RETORT_NOMEM;
}

static int run(const char *what, int argc, char **argv)
{
    retort_settings *s;
    retort_plan *p = NULL;
    retort_summary sum = { .size = sizeof sum };
    retort_run_options o = { .size = sizeof o,
                             .resume = number(argc, argv, "resume") != 0,
                             .override_bound = number(argc, argv, "override") != 0 };
    int status;
    if (retort_settings_new(&s, &e)) return fail();
    if (take_settings(s, argc, argv))
        status = fail();
    else if (strcmp(what, "distill") == 0)
        status = retort_distill(s, &o, &sum, &e) ? fail() : 0;
    else if (strcmp(what, "train") == 0)
        status = retort_train(s, &o, NULL, &e) ? fail() : 0;
    else
        status = retort_plan_new(&p, s, &o, &e) ? fail() : print_plan(p, what);
    if (sum.outcomes) printf("outcomes %" PRIu32 "\n", sum.outcomes);
    retort_plan_free(p);
    retort_settings_free(s);
    return status;
}

/* ---- models ---- */

static void print_measure(const char *name, retort_measure m) { printf("%s %.17g %.17g\n", name, m.mean, m.error); }

static int evaluate(char **words, int argc, char **argv)
{
    retort_model *m = NULL, *t = NULL;
    retort_evaluation v;
    const char *vars[] = { option(argc, argv, "template_var"), NULL };
    retort_evaluate_options o = { .size = sizeof o,
                                  .device = option(argc, argv, "device"),
                                  .threads = number(argc, argv, "threads"),
                                  .seq_len = number(argc, argv, "seq_len"),
                                  .batch = number(argc, argv, "batch"),
                                  .rows = number(argc, argv, "rows"),
                                  .loss_on = option(argc, argv, "loss_on"),
                                  .chat_template = option(argc, argv, "chat_template"),
                                  .vocab = number(argc, argv, "vocab"),
                                  .teacher_weights = option(argc, argv, "teacher_weights"),
                                  .weights = option(argc, argv, "weights"),
                                  .bf16_layers = option(argc, argv, "bf16_layers"),
                                  .template_vars = vars };
    int status = 0;
    if (retort_model_load(&m, words[0], NULL, &e) ||
        (strcmp(words[1], "-") != 0 && retort_model_load(&t, words[1], NULL, &e)) ||
        retort_evaluate(m, t, (const char *const *)&words[2], 1, &o, &v, &e)) {
        status = fail();
    } else {
        print_measure("cross_entropy", v.cross_entropy);
        if (v.has_teacher) print_measure("forward_kl", v.kl);
        if (v.has_teacher) print_measure("agreement", v.agreement);
        if (v.has_teacher) print_measure("teacher_cross_entropy", v.teacher_cross_entropy);
        printf("positions %" PRIu64 "\ndocuments %" PRIu64 "\n", v.positions, v.documents);
    }
    retort_model_free(m);
    retort_model_free(t);
    return status;
}

static int print_id(void *ctx, uint32_t id, const char *text, size_t len)
{
    uint32_t *count = ctx;
    (void)text, (void)len;
    if (id != UINT32_MAX) printf("%s%" PRIu32, (*count)++ ? " " : "", id);
    return 0;
}

static int generate(char **words, int argc, char **argv)
{
    retort_model *m = NULL;
    retort_generator *g = NULL;
    uint32_t count = 0;
    char *text = NULL;
    retort_generator_options go = { .size = sizeof go,
                                    .device = option(argc, argv, "device"),
                                    .threads = number(argc, argv, "threads"),
                                    .context = number(argc, argv, "context"),
                                    .top_k = number(argc, argv, "top_k"),
                                    .temperature = real(argc, argv, "temperature"),
                                    .top_p = real(argc, argv, "top_p"),
                                    .repetition_penalty = real(argc, argv, "repetition_penalty"),
                                    .seed = number(argc, argv, "seed"),
                                    .min_p = real(argc, argv, "min_p") };
    retort_prompt_options po = { .size = sizeof po,
                                 .max_new = number(argc, argv, "max_new"),
                                 .raw = number(argc, argv, "raw") != 0,
                                 .system = option(argc, argv, "system"),
                                 .token = number(argc, argv, "ids") ? print_id : NULL,
                                 .ctx = &count };
    int status = retort_model_load(&m, words[0], NULL, &e) || retort_generator_new(&g, m, &go, &e) ||
                         retort_generate(g, words[1], &po, &text, NULL, &e)
                     ? fail()
                     : 0;
    if (!status) puts(po.token ? "" : text);
    retort_text_free(text);
    retort_generator_free(g);
    retort_model_free(m);
    return status;
}

static int convert(char **words, int argc, char **argv)
{
    retort_model *m = NULL;
    retort_save_options o = { .size = sizeof o,
                              .format = option(argc, argv, "format"),
                              .dtype = option(argc, argv, "dtype"),
                              .replace = number(argc, argv, "replace") != 0,
                              .no_tokenizer = number(argc, argv, "no_tokenizer") != 0,
                              .threads = number(argc, argv, "threads"),
                              .shard_bytes = number(argc, argv, "shard_bytes"),
                              .modelfile = number(argc, argv, "modelfile") != 0,
                              .adapter = number(argc, argv, "adapter") != 0 };
    retort_places where = { .size = sizeof where, .adapter_base = option(argc, argv, "base") };
    int status = retort_model_load(&m, words[0], &where, &e) || retort_model_save(m, words[1], &o, &e) ? fail() : 0;
    retort_model_free(m);
    return status;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "evaluate") == 0 && argc > 4) return evaluate(argv + 2, argc - 5, argv + 5);
    if (strcmp(what, "generate") == 0 && argc > 3) return generate(argv + 2, argc - 4, argv + 4);
    if (strcmp(what, "convert") == 0 && argc > 3) return convert(argv + 2, argc - 4, argv + 4);
    return argc > 1 ? run(what, argc - 2, argv + 2) : 2;
}
