/* retort.h - the public C API of retort: load a model, plan a run, distil, evaluate, generate, save.
 *
 * Conventions, all of them:
 *  - A function that can fail returns RETORT_OK or a negative status and writes one sentence (what, where, what to do
 *    next) into the retort_error that the caller owns; a null retort_error is allowed. Output handles are written on
 *    success alone.
 *  - The library prints nothing, never ends the process, and reads no environment variable: where models are looked
 *    for, and the variables that devices would read, are given in retort_places.
 *  - Structs that the caller makes begin with their size, so that they can grow: set `size` to sizeof the struct and
 *    zero the rest. A zero member means the default; a null struct pointer means all defaults. They grow at their end
 *    alone. Structs without a size never change: retort_evaluation and retort_measure lie by value in retort_summary,
 * so whatever else an evaluation comes to say has a function of its own. retort_step is made by the library and grows
 * at its end.
 *  - Handles are opaque; their free functions accept null. A handle belongs to one thread at a time; different handles
 *    may be used by different threads. Strings inside structs made by the library live as long as the handle they come
 *    from, those given to a callback as long as the call; a `char **text` is the caller's, freed with retort_text_free.
 *  - Callbacks run on the calling thread and must not call into the handle that calls them.
 *
 * C11 and C++. Everything else in the library has hidden names. */
#ifndef RETORT_H
#define RETORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RETORT_API __attribute__((visibility("default")))
#else
#define RETORT_API
#endif

#define RETORT_VERSION "0.1.0"
/* Of the library that is linked; RETORT_VERSION is that of this header. */
RETORT_API const char *retort_version(void);

/* ---- status ---- */

/* The exit code of the command line is the negative of it. */
typedef enum retort_status {
    RETORT_OK = 0,
    RETORT_INTERNAL = -1,
    RETORT_USAGE = -2,
    RETORT_NOT_FOUND = -3,
    RETORT_FORMAT = -4,
    RETORT_INVALID = -5,
    RETORT_UNSUPPORTED = -6,
    RETORT_IO = -7,
    RETORT_DEVICE = -8,
    RETORT_NO_BACKEND = -9,
    RETORT_NETWORK = -10,
    RETORT_NONFINITE = -12,
    RETORT_NOMEM = -13,
    RETORT_INTERRUPTED = -130
} retort_status;
/* "out of memory"; never null. */
RETORT_API const char *retort_status_text(int status);

typedef struct retort_error {
    int status;
    char text[508]; /* terminated; empty after success */
} retort_error;

RETORT_API void retort_text_free(char *text); /* accepts null */

/* ---- where models, temporary files and the libraries of devices are looked for ---- */

typedef struct retort_places {
    uint32_t size;
    /* The variables of the same names in a shell, where `org/name` is looked up; null: not set. */
    const char *hf_hub_cache, *hf_home, *xdg_cache_home, *home;
    const char *scratch; /* a folder for temporary files; null: /tmp */
    /* What devices look up, as "NAME=value", ended by null; null: nothing is set. A program that wants what the command
     * line does gives its own `environ`. CUDA looks for cuBLASLt by CUDA_PATH, CUDA_HOME, CONDA_PREFIX, VIRTUAL_ENV,
     * PATH and HOME, keeps timed choices below XDG_CACHE_HOME or HOME, and follows MANAGED_MEMORY. Vulkan keeps
     * compiled pipelines there, and follows it too. */
    const char *const *environment;
    const char *adapter_base; /* the base model of LoRA adapters; null: the one that an adapter names */
} retort_places;

/* Names of the kinds of devices that this library was built with ("cuda", "cpu"), by index; null after the last. A
 * setting may name one of several: "cuda:1". */
RETORT_API const char *retort_device_name(uint32_t index);

/* A nonzero answer stops the work with RETORT_INTERRUPTED. */
typedef int (*retort_progress_fn)(void *ctx, const char *what, uint64_t done, uint64_t total);

/* ---- models ---- */

typedef struct retort_model retort_model;
/* A Hugging Face directory, a .safetensors, .gguf or .apr file, or org/name in the local Hugging Face cache. Costs the
 * headers: weights are read when they are needed. */
RETORT_API int retort_model_load(retort_model **out, const char *model, const retort_places *places, retort_error *e);
RETORT_API void retort_model_free(retort_model *m);

typedef struct retort_model_facts {
    uint32_t size;
    const char *name;   /* never a path */
    const char *path;   /* what was found */
    const char *format; /* "hf", "safetensors", "gguf", "apr" */
    const char *family; /* "qwen2"; null where there is no configuration, and then the numbers below are 0 */
    uint32_t layers, width, heads, kv_heads, head_dim, hidden, vocab, context;
    uint64_t parameters, tensors, bytes;
    int has_tokenizer, has_chat_template;
} retort_model_facts;
RETORT_API int retort_model_describe(const retort_model *m, retort_model_facts *out, retort_error *e);

typedef struct retort_save_options {
    uint32_t size;
    const char *format;   /* "hf", "safetensors", "gguf", "apr"; null: by the suffix of the path, else hf */
    const char *dtype;    /* "f32", "bf16", "q8_0", "q4_k_m"...; null: as stored where the format holds it */
    int replace;          /* a model that is there already may be replaced */
    int no_tokenizer;     /* leave it out */
    uint32_t threads;     /* 0: all that this process may use */
    uint64_t shard_bytes; /* hf: a new file after this many; 0: 5 GB */
    retort_progress_fn progress;
    void *ctx;
    int modelfile; /* beside a GGUF file with a tokenizer: NAME.Modelfile, from which Ollama makes a model */
    int adapter;   /* of a LoRA adapter: a GGUF file of the adapter alone, for llama.cpp; dtype f32, f16 or bf16 */
} retort_save_options;
/* Writes the model in a format, reads it back and compares every value before it gets its name. A LoRA adapter is
 * merged into its base. */
RETORT_API int retort_model_save(const retort_model *m, const char *path, const retort_save_options *o,
                                 retort_error *e);

/* ---- settings: the same names and values as the flags of `retort distill` ---- */

typedef struct retort_settings retort_settings;
RETORT_API int retort_settings_new(retort_settings **out, retort_error *e);
RETORT_API void retort_settings_free(retort_settings *s);
/* "lr", "5e-5". A list (teacher, data, eval_data, freeze, template_var) is added to. */
RETORT_API int retort_settings_set(retort_settings *s, const char *name, const char *value, retort_error *e);
/* Settings of a YAML text over those that are there; where: the name that messages have. mapping (may be null): what
 * names of other tools were taken for, a line each. */
RETORT_API int retort_settings_set_yaml(retort_settings *s, const char *text, size_t len, const char *where,
                                        char **mapping, retort_error *e);
/* Everything that is set, as YAML. */
RETORT_API int retort_settings_yaml(const retort_settings *s, char **text, retort_error *e);

typedef struct retort_setting_facts {
    uint32_t size;
    const char *name;    /* "kd_weight" */
    const char *type;    /* "text", "list", "real", "count", "switch" */
    const char *initial; /* "" none, "auto" from models and data */
    const char *help;
} retort_setting_facts;
/* By index, from 0; RETORT_NOT_FOUND after the last. */
RETORT_API int retort_setting_describe(uint32_t index, retort_setting_facts *out, retort_error *e);

/* ---- a run ---- */

typedef struct retort_measure {
    double mean, error; /* standard error over documents; NaN for a single one */
} retort_measure;

typedef struct retort_evaluation {
    retort_measure cross_entropy;
    retort_measure divergence; /* the one that is trained */
    retort_measure kl;         /* KL(teacher||student) at temperature 1 */
    retort_measure agreement;  /* share of positions with the same first choice */
    retort_measure teacher_cross_entropy;
    int has_teacher; /* without one only cross_entropy is there */
    uint64_t positions, documents;
    double seconds;
} retort_evaluation;

typedef struct retort_step {
    uint32_t step, steps;
    double loss, cross_entropy, divergence, agreement;
    double grad_norm, clip, lr;
    double tokens_per_second, teacher_share, seconds, remaining;
    uint64_t trained; /* positions of this step */
    uint64_t memory;  /* bytes on the device */
} retort_step;

typedef struct retort_plan retort_plan;

/* Any of them may be null. */
typedef struct retort_events {
    uint32_t size;
    void *ctx;
    void (*note)(void *ctx, const char *text);
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
    void (*ready)(void *ctx, const retort_plan *plan); /* everything is known, nothing has run */
    void (*step)(void *ctx, const retort_step *s);
    void (*evaluated)(void *ctx, uint32_t step, const retort_evaluation *v, int best);
    void (*saved)(void *ctx, const char *path);
    int (*stop)(void *ctx); /* nonzero: finish the step, save, end with RETORT_INTERRUPTED */
} retort_events;

typedef struct retort_run_options {
    uint32_t size;
    const retort_places *places;
    const retort_events *events;
    int resume;         /* resume the run in the setting `out` */
    int override_bound; /* with resume: take the settings given now where they differ */
    int64_t now;        /* seconds since 1970, for chat templates that print a date */
} retort_run_options;

typedef struct retort_summary {
    uint32_t size;
    uint32_t saved_step; /* which step the model is of */
    int is_best;
    retort_evaluation before, after, saved; /* saved: of the model as loaded again from its files */
    double rounding_rmse, rounding_max;     /* of the saved dtype against memory; 0 where the best is an earlier one */
    retort_evaluation control_after, control_saved; /* with the setting `control`: of the run in out/run/control */
    /* What divergence and kl are over: 0, all ids that teacher and student share; else so many outcomes, of a cache of
     * top-k its ids and all others as one, and they are lower bounds. */
    uint32_t outcomes;
} retort_summary;

/* Trains the student towards the teacher and writes it to the setting `out`. The settings are not changed. */
RETORT_API int retort_distill(const retort_settings *s, const retort_run_options *o, retort_summary *out,
                              retort_error *e);
/* The same without a teacher: cross-entropy alone. */
RETORT_API int retort_train(const retort_settings *s, const retort_run_options *o, retort_summary *out,
                            retort_error *e);

/* ---- a plan: the very programs that a run would run, sealed on its device but without memory ---- */

/* Opens everything that the run would open, with its temporary files below places->scratch; nothing is allocated on the
 * device, nothing is trained and `out` is not touched. With a teacher where the settings name one. A run that does not
 * fit has a plan too: see `fits`. */
RETORT_API int retort_plan_new(retort_plan **out, const retort_settings *s, const retort_run_options *o,
                               retort_error *e);
RETORT_API void retort_plan_free(retort_plan *p);

typedef struct retort_plan_facts {
    uint32_t size;
    uint32_t programs;
    /* bytes on the device, by class */
    uint64_t memory_total, memory_parameters, memory_gradients, memory_state, memory_step_values, memory_inputs,
        memory_outputs, memory_activations;
    uint64_t peak_bytes; /* of activations alive at once, at this op of this program */
    const char *peak_program, *peak_op;
    uint32_t steps, batch, micro_batch, seq_len, held_rows;
    uint64_t records, rows_per_epoch, trained_parameters;
    uint64_t flops_teacher, flops_student, flops_update; /* of an optimizer step */
    uint64_t checkpoint_bytes, disk_bytes;               /* of one checkpoint; of the run at most */
    uint64_t memory_limit;                               /* what memory_total is held against */
    int fits;
} retort_plan_facts;
RETORT_API int retort_plan_describe(const retort_plan *p, retort_plan_facts *out, retort_error *e);

typedef struct retort_program_facts {
    uint32_t size;
    uint32_t ops;
    const char *name; /* "teacher forward" */
    uint64_t flops, bytes;
} retort_program_facts;
RETORT_API int retort_plan_program(const retort_plan *p, uint32_t program, retort_program_facts *out, retort_error *e);
/* Every op of a program with its kernel, operands and costs. */
RETORT_API int retort_plan_text(const retort_plan *p, uint32_t program, char **text, retort_error *e);
RETORT_API int retort_plan_json(const retort_plan *p, uint32_t program, char **text, retort_error *e);
/* What the run will do with its data, as JSON: the objective in one line, trained and masked tokens, records that were
 * split, shortened and dropped, how many 13-grams of the held-out text are trained on too, two samples in pieces that
 * are trained or not. In `ready` too. Of a run that is resumed from a checkpoint there are no samples, and overlap is
 * null. */
RETORT_API int retort_plan_preview(const retort_plan *p, char **text, retort_error *e);
/* What `retort plan --json` prints: batch, memory by class and at its peak, flops, disk, whether it fits and what
 * would. timed: every distinct op is run for a moment on the device, and seconds are added; of a plan of
 * retort_plan_new alone.
 */
RETORT_API int retort_plan_cost(const retort_plan *p, int timed, char **text, retort_error *e);
/* Every setting as resolved from models and data, as YAML. */
RETORT_API int retort_plan_settings(const retort_plan *p, char **text, retort_error *e);

/* ---- evaluation ---- */

typedef struct retort_evaluate_options {
    uint32_t size;
    const char *device;
    uint32_t threads;
    uint32_t seq_len; /* positions of a row; 0: as in the run in whose folder the model is, else as the data needs */
    uint32_t batch;   /* rows at a time; 0: 8 */
    uint32_t rows;    /* at most; 0: all */
    const char *loss_on, *chat_template;
    uint32_t vocab;    /* ids in use, where no model has a tokenizer */
    uint64_t skip_bad; /* records at fault that may be skipped */
    int allow_drop;
    int64_t now;
    retort_progress_fn progress;
    void *ctx;
    const char *teacher_weights;      /* "native", "bf16", "fp8"; null: bf16 where it fits and saves time */
    const char *const *template_vars; /* "NAME=VALUE" for the chat template, ended by a null; null: none */
    const char *columns;              /* as the setting; null: none */
    const char *held_out_of;          /* a run whose held-out part is measured, instead of data; null: none */
    const char *weights;              /* of the model: "native", "bf16", "fp8"; null: native */
    const char *bf16_layers;          /* of a model in fp8 those that stay bf16, "0,3-5"; null: none */
} retort_evaluate_options;
/* How well a model predicts text, and how close it is to a teacher (may be null). data: files as `retort eval` takes
 * them. */
RETORT_API int retort_evaluate(const retort_model *m, const retort_model *teacher, const char *const *data,
                               uint32_t count, const retort_evaluate_options *o, retort_evaluation *out,
                               retort_error *e);

/* ---- generation ---- */

typedef struct retort_generator retort_generator;
typedef struct retort_generator_options {
    uint32_t size;
    const char *device;
    uint32_t threads;
    uint32_t context;          /* the longest prompt and answer together; 0: the model's own limit, at most 4096 */
    uint32_t top_k;            /* 0: no limit */
    double temperature;        /* 0: always the most likely token */
    double top_p;              /* 0: no limit */
    double repetition_penalty; /* 0: none */
    uint64_t seed;
    double min_p; /* tokens less likely than this share of the most likely one are left out; 0: none */
} retort_generator_options;
/* The model must outlive it. */
RETORT_API int retort_generator_new(retort_generator **out, const retort_model *m, const retort_generator_options *o,
                                    retort_error *e);
RETORT_API void retort_generator_free(retort_generator *g);

/* A new token and the text that is complete with it (len may be 0: a letter can take several tokens). A nonzero answer
 * ends the text. A letter that never came to its end is given last, with the id UINT32_MAX. */
typedef int (*retort_token_fn)(void *ctx, uint32_t id, const char *text, size_t len);

typedef struct retort_prompt_options {
    uint32_t size;
    uint32_t max_new;   /* 0: 256 */
    int raw;            /* continue the text; no chat template */
    const char *system; /* a message before it */
    int64_t now;
    retort_token_fn token;
    void *ctx;
} retort_prompt_options;

typedef struct retort_generated {
    uint32_t size;
    uint32_t prompt_tokens, tokens;
    int stopped; /* by the model itself */
    double prompt_seconds, seconds;
} retort_generated;
/* text and out may be null. */
RETORT_API int retort_generate(retort_generator *g, const char *prompt, const retort_prompt_options *o, char **text,
                               retort_generated *out, retort_error *e);

#ifdef __cplusplus
}
#endif

#endif
