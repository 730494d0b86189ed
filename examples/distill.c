/* distill.c - the C API from end to end: plan, distil, evaluate, generate, save. Uses include/retort.h alone.
 *
 *   make lib && cc -std=c11 -Iinclude examples/distill.c build/lib/libretort.a -lm -lpthread -ldl -o distill
 *   ./distill TEACHER STUDENT DATA OUT [NAME=VALUE ...]        any setting of `retort distill`, such as steps=100 */
#include <retort.h>
#include <stdio.h>
#include <string.h>

extern char **environ;

static int fail(const retort_error *e)
{
    fprintf(stderr, "distill: %s\n", e->text);
    return -e->status;
}

static void on_step(void *ctx, const retort_step *s)
{
    (void)ctx;
    printf("step %u/%u  loss %.4f  agreement %.3f\n", s->step, s->steps, s->loss, s->agreement);
}

static int on_token(void *ctx, uint32_t id, const char *text, size_t len)
{
    (void)ctx, (void)id;
    fwrite(text, 1, len, stdout);
    return 0;
}

/* What main() holds, so that one place lets go of all of it, whichever call has failed. */
typedef struct held {
    retort_settings *settings;
    retort_plan *plan;
    retort_model *model;
    retort_generator *generator;
} held;

static int set(retort_settings *s, int argc, char **argv, retort_error *e)
{
    const char *const names[] = { "teacher", "student", "data", "out" };
    char name[64];
    for (int i = 1; i < argc; i++) {
        size_t n = strcspn(argv[i], "=");
        snprintf(name, sizeof name, "%.*s", (int)n, argv[i]);
        const char *value = i < 5 ? argv[i] : argv[i][n] ? argv[i] + n + 1 : "on";
        if (retort_settings_set(s, i < 5 ? names[i - 1] : name, value, e)) return e->status;
    }
    return 0;
}

static int plan_and_run(held *h, const retort_places *places, retort_error *e)
{
    retort_events events = { .size = sizeof events, .step = on_step };
    retort_run_options run = { .size = sizeof run, .places = places, .events = &events };
    retort_plan_facts facts = { .size = sizeof facts };
    retort_summary done = { .size = sizeof done };
    if (retort_plan_new(&h->plan, h->settings, &(retort_run_options){ .size = sizeof run, .places = places }, e) ||
        retort_plan_describe(h->plan, &facts, e))
        return e->status;
    printf("plan: %.1f MiB, %u steps of %u rows\n", (double)facts.memory_total / 1048576, facts.steps, facts.batch);
    retort_plan_free(h->plan);
    h->plan = NULL;
    if (retort_distill(h->settings, &run, &done, e)) return e->status;
    printf("KL(teacher||student): %.4f before, %.4f after\n", done.before.kl.mean, done.after.kl.mean);
    return 0;
}

static int use(held *h, const char *data, const char *out, const retort_places *places, retort_error *e)
{
    char gguf[4096];
    retort_evaluation v;
    retort_prompt_options ask = { .size = sizeof ask, .max_new = 32, .raw = 1, .token = on_token };
    if (retort_model_load(&h->model, out, places, e)) return e->status;
    if (retort_evaluate(h->model, NULL, &data, 1, NULL, &v, e)) return e->status;
    printf("cross-entropy on %s: %.4f +- %.4f\nsample: ", data, v.cross_entropy.mean, v.cross_entropy.error);
    if (retort_generator_new(&h->generator, h->model, NULL, e) ||
        retort_generate(h->generator, "the ", &ask, NULL, NULL, e))
        return e->status;
    snprintf(gguf, sizeof gguf, "%s.gguf", out);
    if (retort_model_save(h->model, gguf, NULL, e)) return e->status;
    printf("\nsaved %s\n", gguf);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 5) return fprintf(stderr, "usage: distill TEACHER STUDENT DATA OUT [NAME=VALUE ...]\n"), 2;
    retort_error e;
    held h = { 0 };
    retort_places places = { .size = sizeof places, .environment = (const char *const *)environ };
    int failed = retort_settings_new(&h.settings, &e) || set(h.settings, argc, argv, &e) ||
                 plan_and_run(&h, &places, &e) || use(&h, argv[3], argv[4], &places, &e);
    retort_generator_free(h.generator);
    retort_model_free(h.model);
    retort_plan_free(h.plan);
    retort_settings_free(h.settings);
    return failed ? fail(&e) : 0;
}
