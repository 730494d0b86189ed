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

int main(int argc, char **argv)
{
    if (argc < 5) return fprintf(stderr, "usage: distill TEACHER STUDENT DATA OUT [NAME=VALUE ...]\n"), 2;
    const char *const names[] = { "teacher", "student", "data", "out" };
    char name[64], gguf[4096];
    retort_error e;
    retort_settings *s;
    if (retort_settings_new(&s, &e)) return fail(&e);
    for (int i = 0; i < 4; i++)
        if (retort_settings_set(s, names[i], argv[i + 1], &e)) return fail(&e);
    for (int i = 5; i < argc; i++) {
        size_t n = strcspn(argv[i], "=");
        snprintf(name, sizeof name, "%.*s", (int)n, argv[i]);
        if (retort_settings_set(s, name, argv[i][n] ? argv[i] + n + 1 : "on", &e)) return fail(&e);
    }
    retort_places places = { .size = sizeof places, .environment = (const char *const *)environ };
    retort_plan *plan;
    retort_plan_facts facts = { .size = sizeof facts };
    if (retort_plan_new(&plan, s, &(retort_run_options){ .size = sizeof(retort_run_options), .places = &places }, &e) ||
        retort_plan_describe(plan, &facts, &e))
        return fail(&e);
    printf("plan: %.1f MiB, %u steps of %u rows\n", (double)facts.memory_total / 1048576, facts.steps, facts.batch);
    retort_plan_free(plan);

    retort_events events = { .size = sizeof events, .step = on_step };
    retort_run_options run = { .size = sizeof run, .places = &places, .events = &events };
    retort_summary done = { .size = sizeof done };
    if (retort_distill(s, &run, &done, &e)) return fail(&e);
    printf("KL(teacher||student): %.4f before, %.4f after\n", done.before.kl.mean, done.after.kl.mean);

    retort_model *model;
    retort_evaluation v;
    retort_generator *g;
    retort_prompt_options ask = { .size = sizeof ask, .max_new = 32, .raw = 1, .token = on_token };
    if (retort_model_load(&model, argv[4], &places, &e)) return fail(&e);
    if (retort_evaluate(model, NULL, (const char *const *)&argv[3], 1, NULL, &v, &e)) return fail(&e);
    printf("cross-entropy on %s: %.4f +- %.4f\nsample: ", argv[3], v.cross_entropy.mean, v.cross_entropy.error);
    if (retort_generator_new(&g, model, NULL, &e) || retort_generate(g, "the ", &ask, NULL, NULL, &e)) return fail(&e);
    snprintf(gguf, sizeof gguf, "%s.gguf", argv[4]);
    if (retort_model_save(model, gguf, NULL, &e)) return fail(&e);
    printf("\nsaved %s\n", gguf);
    retort_generator_free(g);
    retort_model_free(model);
    retort_settings_free(s);
    return 0;
}
