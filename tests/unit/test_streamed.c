/* test_streamed.c - a teacher whose layers are in the host's memory or on disk is the same teacher: loss, gradients and
 * weights to the bit, on every device that is here, read at once or ahead, with projections joined or apart. A file
 * that can no longer be read ends a step with a message and no weight changed. */
#include "train_case.h"

#include "teacher/teacher_weights.h"

#include <math.h>
#include <unistd.h>

enum { ROWS = 2, LENGTH = 24, MICRO = 2, POSITIONS = ROWS * LENGTH, SEED = 5 };

typedef struct rows {
    int32_t ids[POSITIONS], pos[POSITIONS], start[POSITIONS], target[POSITIONS];
} rows;

static rows micro[MICRO];

static int make_inputs(void **state)
{
    if (make_test_dir(state) != 0) return -1;
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    write_model(in_dir("student"), &c, RT_DTYPE_F32, false);
    c = tiny_config("tiny-llama", 2);
    c.layers = 5; /* more than there are slots */
    write_model(in_dir("teacher"), &c, RT_DTYPE_F32, false);
    for (int m = 0; m < MICRO; m++)
        for (int32_t i = 0; i < POSITIONS; i++) {
            micro[m].ids[i] = (i * i + 7 * i + 31 * m) % 200;
            micro[m].pos[i] = i % LENGTH;
            micro[m].start[i] = 0;
            micro[m].target[i] = i % LENGTH + 1 < LENGTH ? ((i + 1) * (i + 1) + 7 * (i + 1) + 31 * m) % 200 : -1;
        }
    return 0;
}

/* How a step is asked for. */
typedef struct way {
    const char *device;
    rt_class home;
    uint32_t ahead;
    bool apart; /* v and down in bf16: q, k and v are in buffers of their own, what is read from disk is converted */
    const char *teacher; /* its folder; null: "teacher" */
    bool coded;          /* layers are multiplied as e4m3 codes, made at every use */
} way;

/* All that a step makes. */
typedef struct made {
    rt_step_result result;
    float ce[POSITIONS], kl[POSITIONS];
    float *values; /* gradients, then weights */
    uint64_t count;
} made;

static rt_step_opts options(const way *w, const rt_model_file *student, const rt_model_file *teacher, rt_dtype *dtypes)
{
    rt_err e = { 0 };
    rt_role role;
    uint32_t layer;
    assert_int_equal(rt_load_dtypes(dtypes, teacher, &e), RT_OK);
    for (uint32_t i = 0; w->apart && rt_param_at(&teacher->config, i, &role, &layer); i++)
        if (role == RT_ROLE_V || role == RT_ROLE_DOWN) dtypes[i] = RT_DTYPE_BF16;
    return (rt_step_opts){ .B = ROWS,
                           .T = LENGTH,
                           .accumulate = true,
                           .ahead = w->ahead,
                           .loss = { RT_DIV_FORWARD_KL, 0, 1, 0.1, 0.9, true },
                           .beta1 = 0.9,
                           .beta2 = 0.95,
                           .eps = 1e-8,
                           .max_grad_norm = 1,
                           .policy = rt_policy_f32,
                           .student = &student->config,
                           .teacher = &teacher->config,
                           .teacher_dtypes = dtypes,
                           .teacher_coded = { 0, w->coded ? teacher->config.layers : 0 },
                           .teacher_home = w->home };
}

static void keep_values(rt_trainer *t, made *m)
{
    rt_err e = { 0 };
    const rt_decoder *d = t->plan->student;
    uint64_t all = 0, at = 0;
    for (uint32_t i = 0; i < d->param_count; i++) all += 2 * rt_trainer_elems(t, i);
    m->values = calloc(all, sizeof *m->values);
    m->count = all;
    for (const char *what = "gw"; *what; what++)
        for (uint32_t i = 0; i < d->param_count; at += rt_trainer_elems(t, i++))
            assert_int_equal(rt_trainer_read(t, *what, i, m->values + at, &e), RT_OK);
}

static rt_batch batch(int m)
{
    const rows *r = &micro[m];
    return (rt_batch){ .ids = r->ids, .pos = r->pos, .start = r->start, .target = r->target };
}

static int step(rt_trainer *t, rt_step_result *out, rt_err *e)
{
    rt_batch b[MICRO];
    for (int m = 0; m < MICRO; m++) b[m] = batch(m);
    return rt_trainer_step(t, b, MICRO, 1, 1e-3, SEED, out, e);
}

static void make(made *m, const way *w)
{
    rt_err e = { 0 };
    rt_dtype dtypes[256];
    rt_trainer *t = NULL;
    rt_dev *d = open_device(w->device, 2);
    rt_model_file *student = open_model(in_dir("student"));
    rt_model_file *teacher = open_model(in_dir(w->teacher ? w->teacher : "teacher"));
    rt_step_opts o = options(w, student, teacher, dtypes);
    *m = (made){ 0 };
    if (rt_trainer_open(&t, d, &o, &(rt_seal_opts){ .poison = true, .guards = true }, &e) < 0) fail_msg("%s", e.text);
    if (rt_trainer_load(t, student, teacher, NULL, SEED, &e) < 0) fail_msg("%s", e.text);
    assert_true((t->feed != NULL) == (w->home == RT_CLASS_DISK));
    rt_exec_memory memory;
    rt_exec_memory_query(t->x, &memory);
    assert_true((memory.by_class[w->home] > 0) && (w->home != RT_CLASS_DISK || memory.disk > 0));
    if (step(t, &m->result, &e) < 0) fail_msg("%s", e.text);
    rt_batch b = batch(0);
    rt_eval_out eval = { .ce = m->ce, .kl = m->kl };
    if (rt_trainer_eval(t, &b, &eval, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_exec_check(t->x, &e), RT_OK);
    keep_values(t, m);
    rt_trainer_free(t);
    rt_model_file_close(student);
    rt_model_file_close(teacher);
    d->api->close(d);
}

static bool same(const made *a, const made *b)
{
    return memcmp(&a->result, &b->result, sizeof a->result) == 0 && memcmp(a->kl, b->kl, sizeof a->kl) == 0 &&
           memcmp(a->ce, b->ce, sizeof a->ce) == 0 && a->count == b->count &&
           memcmp(a->values, b->values, a->count * sizeof *a->values) == 0;
}

static void a_streamed_teacher_is_the_same_to_the_bit(void **state)
{
    static const rt_class homes[] = { RT_CLASS_PARAM, RT_CLASS_HOST, RT_CLASS_DISK };
    static const char *const devices[] = { "cpu", "ref" };
    (void)state;
    for (int k = 0; k < 2; k++)
        for (uint32_t ahead = 0; ahead <= MICRO; ahead += MICRO)
            for (int apart = 0; apart < 2; apart++) {
                made of[3];
                for (int h = 0; h < 3; h++) make(&of[h], &(way){ devices[k], homes[h], ahead, apart, NULL, !ahead });
                assert_true(of[0].result.div > 0 && of[0].result.grad_norm > 0 && of[0].count > 0);
                for (int h = 1; h < 3; h++)
                    if (!same(&of[0], &of[h])) fail_msg("%s, ahead %u, home %d", devices[k], ahead, h);
                for (int h = 0; h < 3; h++) free(of[h].values);
            }
    /* The negative control: another teacher shows. */
    made a, b;
    make(&a, &(way){ "cpu", RT_CLASS_DISK, 0, false, NULL, false });
    for (int coded = 0; coded < 2; coded++) {
        make(&b, &(way){ "cpu", RT_CLASS_DISK, 0, !coded, NULL, coded });
        assert_false(same(&a, &b));
        free(b.values);
    }
    free(a.values);
}

/* A matrix of more values than are converted at a time (2^20), and not of a whole number of times as many. */
static void a_large_matrix_is_converted_piece_by_piece(void **state)
{
    (void)state;
    made a, b;
    rt_model_config c = tiny_config("tiny-llama", 4);
    c.layers = 1;
    c.hidden = 40000;
    write_model(in_dir("wide"), &c, RT_DTYPE_F32, false);
    assert_true((uint64_t)c.width * c.hidden > 1u << 20 && (1u << 20) / c.hidden > 1);
    make(&a, &(way){ "cpu", RT_CLASS_PARAM, 0, true, "wide", false });
    make(&b, &(way){ "cpu", RT_CLASS_DISK, 0, true, "wide", false });
    assert_true(same(&a, &b));
    free(a.values);
    free(b.values);
}

/* Whether this system says so before the process is ended by it (Linux 5.14 and later; not every emulator). */
static bool tells_what_cannot_be_read(void)
{
    rt_err e = { 0 };
    rt_map m;
    static const char bytes[1 << 16];
    assert_int_equal(rt_file_write(in_dir("short"), bytes, sizeof bytes, &e), RT_OK);
    assert_int_equal(rt_map_open(&m, in_dir("short"), &e), RT_OK);
    assert_int_equal(rt_map_bring(&m, 0, sizeof bytes, &e), RT_OK);
    assert_int_equal(truncate(in_dir("short"), 100), 0);
    bool told = rt_map_bring(&m, 1 << 14, 1 << 14, &e) == RT_IO;
    rt_map_close(&m);
    return told;
}

static void a_file_that_cannot_be_read_ends_the_step(void **state)
{
    (void)state;
    rt_err e = { 0 };
    if (!tells_what_cannot_be_read()) skip();
    rt_dtype dtypes[256];
    rt_trainer *t = NULL;
    rt_step_result r;
    const way w = { "cpu", RT_CLASS_DISK, 0, false, NULL, false };
    rt_dev *d = open_device("cpu", 2);
    rt_model_config c = tiny_config("tiny-llama", 3);
    write_model(in_dir("cut"), &c, RT_DTYPE_F32, false);
    rt_model_file *student = open_model(in_dir("student")), *teacher = open_model(in_dir("cut"));
    rt_step_opts o = options(&w, student, teacher, dtypes);
    if (rt_trainer_open(&t, d, &o, NULL, &e) < 0) fail_msg("%s", e.text);
    if (rt_trainer_load(t, student, teacher, NULL, SEED, &e) < 0) fail_msg("%s", e.text);
    if (step(t, &r, &e) < 0) fail_msg("%s", e.text);
    static float before[1 << 16], after[1 << 16];
    assert_int_equal(rt_trainer_read(t, 'w', 0, before, &e), RT_OK);
    assert_int_equal(truncate(in_dir("cut/model.safetensors"), 4096), 0);
    assert_int_equal(step(t, &r, &e), RT_IO);
    assert_non_null(strstr(e.text, "cut/model.safetensors: tensor model.layers."));
    assert_non_null(strstr(e.text, "cannot be read: the file was truncated, or its disk is failing"));
    assert_int_equal(rt_trainer_read(t, 'w', 0, after, &e), RT_OK);
    assert_memory_equal(before, after, rt_trainer_elems(t, 0) * sizeof *after);
    rt_trainer_free(t);
    rt_model_file_close(student);
    rt_model_file_close(teacher);
    d->api->close(d);
}

static void what_is_converted_is_not_read_at_every_pass(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_dtype dtypes[256];
    rt_trainer *t = NULL;
    const way w = { "cpu", RT_CLASS_DISK, 0, false, NULL, false };
    rt_dev *d = open_device("cpu", 1);
    rt_model_file *student = open_model(in_dir("student")), *teacher = open_model(in_dir("teacher"));
    rt_step_opts o = options(&w, student, teacher, dtypes);
    rt_weights_dtypes(dtypes, dtypes, &teacher->config, RT_WEIGHTS_FP8);
    if (rt_trainer_open(&t, d, &o, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_trainer_load(t, student, teacher, NULL, SEED, &e), RT_UNSUPPORTED);
    assert_non_null(strstr(e.text, "use --teacher-memory host"));
    rt_trainer_free(t);
    rt_model_file_close(student);
    rt_model_file_close(teacher);
    d->api->close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_streamed_teacher_is_the_same_to_the_bit),
        cmocka_unit_test(a_large_matrix_is_converted_piece_by_piece),
        cmocka_unit_test(a_file_that_cannot_be_read_ends_the_step),
        cmocka_unit_test(what_is_converted_is_not_read_at_every_pass),
    };
    return cmocka_run_group_tests(tests, make_inputs, NULL);
}
