/* job.h - the one door: everything that a user can ask for, as plain functions over settings and structs.
 *
 * Owns: the steps of each job, its defaults and what it refuses, for the command line and the C API alike: words and
 * public structs are theirs, and neither has a rule of its own. A job prints nothing and reads neither the environment
 * nor the calendar: both come in rt_job_env, and what happens on the way goes out through callbacks. Messages speak of
 * settings by their flags. Runs themselves are job/run/run.h, their cost run_cost.h there, previews job/preview.h, the
 * check of a finished run job/audit_run.h. */
#ifndef RT_JOB_JOB_H
#define RT_JOB_JOB_H

#include "format/convert.h"
#include "infer/generator.h"
#include "job/device.h"
#include "job/run/ladder.h"

/* ---- what a job is given, and how it is heard of ---- */

typedef struct rt_job_env {
    rt_hub_env hub;                 /* where org/name is looked up */
    const char *const *environment; /* NAME=value, then null: what devices look at; null: empty */
    const char *scratch;            /* folder of temporary files; null: /tmp */
    int64_t now;                    /* seconds since 1970, for chat templates that print a date */
    int32_t utc_offset;             /* seconds, likewise */
    const char *version, *build;    /* of the program, for manifests and shards; build null: not known */
} rt_job_env;

/* Requests that are computed at once: where nobody says how many, and at most. */
enum { RT_JOB_SLOTS = 8, RT_JOB_MOST_SLOTS = 1 << 16 };

/* A nonzero answer stops the job with RT_INTERRUPTED. */
typedef int (*rt_job_progress_fn)(void *ctx, const char *what, uint64_t done, uint64_t total);

/* ---- runs: distil, train, plan (job_run.c) ---- */

typedef enum rt_job_kind {
    RT_JOB_DISTILL,
    RT_JOB_TRAIN, /* no teacher, and no setting that needs one */
    RT_JOB_PLAN   /* with a teacher where one is set; nothing is allocated and nothing left behind */
} rt_job_kind;

typedef struct rt_job_run_opts {
    rt_job_kind kind;
    const rt_job_env *env;       /* outlives the run, like events */
    const rt_run_events *events; /* may be null */
    /* When the device is open; why as in rt_job_device_open. May be null; ctx is that of events. */
    void (*device)(void *ctx, rt_dev *d, const char *why);
    bool resume, override, fit, smoke; /* as in rt_run_opts */
    uint32_t devices;                  /* of a plan: the ranks that the run would have; 0: one */
    struct rt_ranks *ranks;            /* those that make its steps together; null: one. Of rank 0; no plan has them */
    /* The device hangs, which ends the process: rc and *e are what the run ends with, *next what is to be done (wanted:
     * it begins again). In a thread of its own, and it does not come back; ctx is that of events. Null: nobody looks
     * whether it hangs, and a device that fails is an error. */
    void (*hung)(void *ctx, const rt_job_again *next, int rc, rt_err *e);
} rt_job_run_opts;

/* Whether such a run can be asked for at all; rt_job_run_open looks at it too. */
int rt_job_run_check(const rt_settings *s, const rt_job_run_opts *o, rt_err *e);

/* An open run with its device. It stays where it is while it is open. */
typedef struct rt_job_run {
    rt_settings settings; /* as given, then as resolved; strings are the caller's */
    rt_run_opts opts;
    rt_dev *dev;
    rt_run *run;
    rt_ladder ladder;
    rt_run_device device;
    char passed_over[RT_JOB_WHY];
    rt_job_again next; /* when it has failed: whether it is to begin again, in a new process */
    const rt_job_run_opts *asked;
    rt_arena arena;
    struct rt_asking *asking; /* of a teacher that is a server; null: nobody */
    rt_supply supply;
    char *folder; /* of a plan whose teacher is a server: a cache for the while; null: none */
} rt_job_run;
/* j: zeroes. o outlives it. A failed one is closed all the same, but for `next`. Then rt_job_run_train, or
 * rt_run_cost_new for a plan. */
int rt_job_run_open(rt_job_run *j, const rt_settings *s, const rt_job_run_opts *o, rt_err *e);
/* rt_run_train, and what follows where that fails. */
int rt_job_run_train(rt_job_run *j, rt_run_summary *out, rt_err *e);
/* Of a run whose process is about to be another program: as if it had been killed, but for what is newer in memory, and
 * that OUT is free. A device that has failed is not asked to close. */
void rt_job_run_abandon(rt_job_run *j);
void rt_job_run_close(rt_job_run *j); /* accepts zeroes */

/* The programs of an open run, for whoever shows them. */
typedef struct rt_job_programs {
    uint32_t count;
    uint64_t memory, activations; /* bytes on the device; of them for one micro-batch */
    uint64_t trained;             /* parameters */
} rt_job_programs;
rt_job_programs rt_job_run_programs(const rt_run *r);
typedef struct rt_job_program {
    const char *name;
    uint32_t ops;
    uint64_t flops, bytes;
} rt_job_program;
/* RT_NOT_FOUND for a program that there is not. */
int rt_job_run_program(const rt_run *r, uint32_t program, rt_job_program *out, rt_err *e);
/* Every op of it with its kernel, operands and costs, appended to out. */
int rt_job_run_program_print(const rt_run *r, uint32_t program, bool json, rt_str *out, rt_err *e);

/* ---- several ranks (comm/ranks.h) ---- */

typedef struct rt_ranks rt_ranks;
/* Of a rank that nothing is heard of any more, a sentence; in a thread of its own. It ends the process. */
typedef void (*rt_job_lost_fn)(const char *sentence);
/* The processes that a launcher has started together, as the environment says; null: this one is alone. */
int rt_job_ranks_open(rt_ranks **out, const char *const *environment, rt_job_lost_fn lost, rt_err *e);
uint32_t rt_job_ranks_rank(const rt_ranks *r); /* 0 for null */
uint32_t rt_job_ranks_size(const rt_ranks *r); /* 1 for null */
/* A rank that is not 0: does what rank 0 says until the run has ended. */
int rt_job_ranks_follow(rt_ranks *r, const rt_job_env *env, rt_err *e);
bool rt_job_ranks_torn(const rt_ranks *r); /* others wait for this one in the middle of something; false for null */
/* rc: what this rank ended with. Where others wait for it in the middle of something, all of them are ended with its
 * exit code. Accepts null. */
void rt_job_ranks_close(rt_ranks *r, int rc);
void rt_job_ranks_probe(char *text, uint32_t size); /* a sentence about MPI on this machine */

/* ---- evaluation (job_evaluate.c) ---- */

/* As the settings of these names; null and 0 are their defaults, but where said. */
typedef struct rt_job_evaluate_opts {
    const char *model, *teacher, *base, *teacher_weights; /* model: the setting student */
    const char *const *data;                              /* (data_count) */
    const char *const *template_vars;                     /* (var_count) */
    uint32_t data_count, var_count;
    const char *loss_on, *columns, *chat_template, *device;
    const char *held_out_of; /* the folder of a run whose held-out part is measured, instead of data; null: none */
    uint32_t seq_len;        /* 0: of a model in its run's folder as there, else as the data needs, up to 2048 */
    uint32_t batch;          /* 0: 8; never more than there are rows */
    uint32_t threads, vocab;
    uint64_t skip_bad;
    bool allow_drop;
    uint32_t rows;           /* at most; 0: all */
    const char *word;        /* whose probability is measured too; null: none */
    const char *weights;     /* of the model: "native", "bf16", "fp8"; null: native */
    const char *bf16_layers; /* layers that stay bf16 in fp8, "0,3-5" or "none"; null: as distill does */
    const rt_job_env *env;
    rt_job_progress_fn progress;
    void *ctx;
} rt_job_evaluate_opts;

typedef struct rt_job_evaluation {
    rt_arena arena;
    rt_eval_result result;
    const char *model, *teacher;          /* names; teacher null: there is none, nor what is said of it: */
    const char *weights, *weights_chosen; /* "native"; the sentence that says why */
    const char *model_weights;            /* "native" */
    const float *kl;                      /* (positions) KL(teacher||model), rising */
    uint32_t rows, seq_len;
    bool own_length;    /* seq_len is that of the run */
    rt_rows_count data; /* what became of the records */
    rt_notes notes;
} rt_job_evaluation;
int rt_job_evaluate(rt_job_evaluation *out, const rt_job_evaluate_opts *o, rt_err *e);
void rt_job_evaluation_free(rt_job_evaluation *v); /* accepts zeroes */
/* Of kl: which value this share of the positions does not exceed. */
double rt_job_evaluation_percentile(const rt_job_evaluation *v, double share);

/* ---- generation (job_generate.c) ---- */

typedef struct rt_job_generator rt_job_generator;
/* Tokenizer, template and stop ids of the model, which outlives it; no device yet. RT_USAGE for what cannot be sampled
 * with. */
int rt_job_generator_new(rt_job_generator **out, const rt_model_file *m, const rt_generate_opts *o, rt_err *e);
void rt_job_generator_free(rt_job_generator *g); /* accepts null */

typedef struct rt_job_prompt {
    const char *text; /* (len) */
    size_t len;
    const char *system; /* a message before it; null: none */
    bool raw;           /* continue the text; no chat template */
    int64_t now;
} rt_job_prompt;
/* Appends its ids. */
int rt_job_generator_prompt(const rt_job_generator *g, const rt_job_prompt *p, rt_tok_ids *ids, rt_err *e);
/* On the device of the settings device and threads. Where o->context was 0: need positions, as far as the model goes;
 * need 0: as rt_generate_opts says. */
int rt_job_generator_seal(rt_job_generator *g, uint64_t need, const rt_settings *s, const char *const *env, rt_err *e);

/* A new id and the text that is complete with it; a letter that never came to its end is given last, with the id
 * UINT32_MAX. A nonzero answer ends the text. */
typedef int (*rt_job_token_fn)(void *ctx, uint32_t id, const char *text, size_t len);
typedef struct rt_job_generated {
    rt_generate_stats stats;
    bool stopped; /* by the model itself */
} rt_job_generated;
int rt_job_generator_run(rt_job_generator *g, const rt_tok_ids *prompt, uint32_t max_new, rt_job_token_fn fn, void *ctx,
                         rt_job_generated *out, rt_err *e);

/* ---- what a teacher says, kept (job_cache.c) ---- */

typedef struct rt_job_cache_opts {
    /* teacher, student (may be null), data, eval_data, out and what decides how text becomes rows: of the settings
     * those of rt_job_cache_settings. */
    const rt_settings *settings;
    const char *keep;        /* "topk:64", "draws:50", "hidden"; null: topk:64, or what is there */
    bool fill;               /* out is a cache to which what is missing is added */
    const char *again;       /* what a person is told who can have the rest; null: of --fill */
    bool begin;              /* nothing is asked: the cache is made and described, and empty */
    uint32_t part, parts;    /* of so many processes this one does its share, from 1; 0: all */
    const char *const *join; /* (join_count) caches that are joined into out, instead of asking a teacher */
    uint32_t join_count;
    /* (from_count) files of another tool, one of rt_job_cache_formats, instead of asking a teacher: of settings
     * teacher, student, out and seq_len count. tokens, window: of surogate, its shard and the length of its capture;
     * else 0. */
    const char *const *from;
    uint32_t from_count, window;
    const char *format, *tokens;
    /* A file for another tool, written of what the cache `of` has of the data; of settings data and what decides how
     * text becomes rows count. With format, and tokens for surogate. */
    const char *to, *of;
    const rt_job_env *env;
    rt_job_progress_fn progress;
    void *ctx;
} rt_job_cache_opts;
/* Of them, ended by RT_SETTING_COUNT_ALL. */
extern const rt_setting_id rt_job_cache_settings[];

const char *const *rt_job_cache_formats(void); /* "axolotl", ...; ended by null */

typedef struct rt_job_cached {
    rt_arena arena;
    const char *keep; /* "topk:64" */
    double temperature;
    uint32_t seq_len, batch;    /* rows at a time */
    uint64_t rows;              /* of the data, in both parts */
    uint64_t positions, held;   /* that are there now, to be trained on and held out, */
    uint64_t bytes, held_bytes; /* in files of so many bytes, each */
    uint64_t computed, tokens;  /* rows that were computed now, and their tokens */
    double seconds;             /* all of it, */
    bool remote;                /* the teacher is a server; */
    uint64_t repeats;           /* requests to it that were made again */
    double forward, head;       /* of the device: in the teacher's layers; in its head and what is chosen from it */
    char content[33];           /* hash of what is kept, wherever it lies */
    rt_notes notes;
} rt_job_cached;
int rt_job_cache(rt_job_cached *out, const rt_job_cache_opts *o, rt_err *e);
/* What a person should know of a cache that is the teacher of a run. */
typedef struct rt_job_cached_facts {
    const char *keep;          /* "topk:64" */
    double temperature, bytes; /* of a position */
    const char *exact;         /* "exact for every divergence" */
} rt_job_cached_facts;
void rt_job_cache_facts(rt_job_cached_facts *out, const rt_inputs *in);
/* Of several teachers of a run, the shares of one: "0.7", or "0.7 of text.jsonl, 1 of code.jsonl". */
void rt_job_teacher_share(const rt_inputs *in, uint32_t teacher, rt_str *out);
/* The same figures of a cache that is there; every block is read and its checksum compared. */
int rt_job_cache_look(rt_job_cached *out, const char *path, rt_job_progress_fn progress, void *ctx, rt_err *e);
void rt_job_cached_free(rt_job_cached *c); /* accepts zeroes */

/* ---- answers to a file of prompts (job_answers.c) ---- */

typedef struct rt_job_answers_opts {
    const char *data, *out;           /* data: records, or of a text a line each (data_prompt.h) */
    uint32_t samples;                 /* of each prompt; 0: 1 */
    bool best_of;                     /* of those only the one whose log-probability for each token is highest */
    bool logps;                       /* the log-probability of every token is kept */
    uint32_t max_new, slots, context; /* 0: 256; RT_JOB_SLOTS; as long as the prompts need, up to the model's own */
    rt_sampling sampling;
    bool int8;                /* as in rt_engine_opts */
    const rt_settings *where; /* device and threads */
    const rt_job_env *env;
    rt_job_progress_fn progress;
    void *ctx;
} rt_job_answers_opts;
typedef struct rt_job_answered {
    uint64_t prompts, found;   /* prompts in data; those whose answers were there already */
    uint64_t answers, stopped; /* made now; of them ended by the model itself */
    uint64_t prompt_tokens, answer_tokens;
    double seconds;
    uint32_t gemms, int8; /* as in rt_engine_stats; 0 where nothing was left to answer */
} rt_job_answered;
/* Appends the answers to o->out in the order of the prompts, each prompt's with one write, and goes on where such a
 * file ends: killed and begun anew it has the same bytes. RT_INVALID for one that holds other answers. */
int rt_job_answers(const rt_model_file *m, const rt_job_answers_opts *o, rt_job_answered *out, rt_err *e);

/* ---- models: converted, copied, made, looked at (job_convert.c, job_export.c, job_init.c, job_inspect.c) ---- */

/* RT_INVALID when path lies in OUT of a run that is going on, or in OUT/run of any: of every output, but a run's. */
int rt_job_output_outside_runs(const char *path, rt_err *e);
/* An output model. */
typedef struct rt_job_output {
    const char *path;
    const char *format;   /* "gguf"; null: by the suffix of path, else `other` */
    rt_container other;   /* 0: hf */
    const char *dtype;    /* "q4_k_m"; null: as stored, of a new model bf16 */
    uint64_t shard_bytes; /* hf: a new file after this many; 0: 5 GB */
    uint32_t threads;     /* 0: all that this process may use */
    bool replace;         /* a model that is there already may be replaced */
    bool no_tokenizer;    /* leave it out */
    rt_job_progress_fn progress;
    void *ctx;
} rt_job_output;

typedef struct rt_job_convert_opts {
    rt_job_output out;
    const char *layers; /* "0,2,4-7" of the input; null: all */
    uint32_t depth;     /* instead: so many, the first half from the front, the rest from the end; 0: all */
    bool modelfile;     /* beside a GGUF file with a tokenizer: NAME.Modelfile, for Ollama */
    bool merge;         /* refuse what is not an adapter */
} rt_job_convert_opts;

typedef struct rt_job_conversion {
    rt_convert v; /* dtypes, sizes, and the comparison with what was read back */
    rt_notes notes;
    const char *modelfile; /* its path; null: none was written */
    const char *family;    /* of it: the family of the chat template; null: none that can be written out */
    bool chat;             /* there is a chat template */
    const char *system;    /* of it: the system message that it took from the template, in one line; null: none */
} rt_job_conversion;
/* Writes, reads back, compares every value, and only then gives the output its name. in outlives the conversion. */
int rt_job_convert(rt_job_conversion **out, const rt_model_file *in, const rt_job_convert_opts *o, rt_err *e);
void rt_job_conversion_free(rt_job_conversion *c); /* accepts null */
/* The adapter that in is, not merged: a GGUF file that llama.cpp takes beside the base. dtype: f32 (null), f16, bf16.
 */
int rt_job_save_adapter(const rt_model_file *in, const rt_job_output *o, uint64_t *bytes, rt_err *e);

typedef struct rt_job_exported {
    uint32_t files;
    uint64_t bytes;
    bool adapter;
    rt_notes notes;
} rt_job_exported;
/* Whether o asks for a folder with the files as they are, and not for what rt_job_convert writes. */
int rt_job_export_copies(const rt_job_output *o, bool *copies, rt_err *e);
/* The model in the folder from, a run's OUT or any other, copied into the folder o->path: its files as they are, with
 * its card, read back; nothing of the run. Of o: path, replace, progress. */
int rt_job_export(rt_job_exported *out, const char *from, const rt_job_output *o, const rt_hub_env *hub, rt_err *e);

typedef struct rt_job_init_opts {
    rt_job_output out;
    const char *preset, *config; /* one of them: a shape by name, or a config.json */
    const char *tokenizer;       /* a tokenizer.json, or a model to take it from; null: bytes for tiny presets */
    uint64_t seed;
    const rt_hub_env *hub;
} rt_job_init_opts;
typedef struct rt_job_initialised {
    rt_container format;
    const char *family, *dtype;
    uint64_t parameters, bytes;
    uint32_t fallbacks; /* matrices of another type, because their rows do not fill its blocks */
    bool tokenizer;
    rt_notes notes;
    double seconds;
} rt_job_initialised;
/* A model with random weights. */
int rt_job_init(rt_job_initialised *out, const rt_job_init_opts *o, rt_err *e);

typedef struct rt_job_dtype {
    const char *name;
    uint32_t tensors;
    uint64_t elems, bytes;
} rt_job_dtype;
enum { RT_JOB_DTYPES = RT_DTYPE_COUNT + 3 }; /* APR's own types and what is merged too */
typedef struct rt_job_inspection {
    const rt_model_file *m;
    uint64_t bytes; /* of all files that hold tensors */
    uint64_t tensor_bytes;
    uint64_t parameters, outside;      /* outside: without embedding and head */
    rt_job_dtype dtype[RT_JOB_DTYPES]; /* most bytes first; ends with a null name */
    char problem[500];                 /* why this is no model that can be run or converted; empty when it is one */
    const char *tokenizer_from;        /* "tokenizer.json", "GGUF keys"; null: there is none */
    rt_str tokenizer;                  /* one line, or why it cannot be used */
    bool tokenizer_usable;
    uint32_t tokenizer_size;
    char tokenizer_hash[33];
    /* After rt_job_inspect_hash; empty before. */
    char file_hash[33], content_hash[33];
    rt_hash128 *each;    /* (tensor_count) of the values, or null */
    bool footer_checked; /* APR: the CRC at the end is right */
} rt_job_inspection;
/* out: zeroes; what failed is freed all the same. */
int rt_job_inspect(rt_job_inspection *out, const rt_model_file *m, rt_err *e);
/* Reads the whole model. each: the hash of every tensor too. RT_FORMAT for an APR file whose footer is not right. */
int rt_job_inspect_hash(rt_job_inspection *f, bool each, uint32_t threads, rt_err *e);
void rt_job_inspection_free(rt_job_inspection *f);
const char *rt_job_dtype_name(const rt_tensor *t); /* "bf16", "apr_q4", "merged" */

/* ---- text and tokens (job_tokenize.c) ---- */

typedef struct rt_job_text_opts {
    const char *model;         /* a model, a tokenizer.json, or a GGUF with a vocabulary */
    const char *template_file; /* a chat template to take instead of the model's; null: the model's own */
    const char *const *vars;   /* (var_count) "NAME=VALUE" for the template */
    uint32_t var_count;
    const char *eos; /* the token that ends a text, where the model does not say; null */
    const rt_job_env *env;
} rt_job_text_opts;
/* Appends the ids of a text. special: with what the tokenizer puts around it. */
int rt_job_encode(const rt_job_text_opts *o, const char *text, size_t len, bool special, rt_tok_ids *ids, rt_err *e);
/* Appends the text of ids that are written as numbers separated by blanks, commas or brackets. special: with tokens
 * that are special. */
int rt_job_decode(const rt_job_text_opts *o, const char *numbers, size_t len, bool special, rt_str *text, rt_err *e);

/* A record with what is trained of it: pieces, of which every second one is. */
typedef struct rt_job_sample {
    const char *place; /* "chats.jsonl:4" */
    const char *kind;  /* "text", "completion", "chat" */
    uint32_t tokens, trained;
    const char *text;     /* decoded, not safe for a terminal as it is */
    const size_t *ends;   /* (count) of the pieces in text; piece i is trained where i is odd */
    uint32_t count, left; /* left: tokens after the last piece */
    const char *dropped;  /* why rows of seq_len do not take it; null: they do */
    bool cut;             /* they take the first turns of it alone */
    uint64_t kept, kept_trained;
} rt_job_sample;

typedef struct rt_job_tokenize_opts {
    rt_job_text_opts text;   /* model null: for token shards alone */
    const char *const *data; /* (data_count) */
    uint32_t data_count;
    const char *out;                 /* a folder of shards, or one file OUT.rtok; null: nothing is written */
    const char *loss;                /* "turns", "all"; null: turns */
    const char *columns;             /* "prompt=question,completion=answer"; null: none */
    uint64_t show;                   /* samples of each source */
    uint32_t seq_len;                /* of rows, for what they would cut and drop; 0: not counted */
    uint32_t vocab;                  /* of shards that do not say theirs */
    uint32_t threads;                /* 0: all that this process may use */
    uint64_t skip_bad, shard_tokens; /* shard_tokens 0: 2^28 */
    bool allow_drop, replace;
    bool verify; /* of shards: check every id and the hash */
    void (*note)(void *ctx, const char *text);
    void (*sample)(void *ctx, const rt_job_sample *s);
    rt_job_progress_fn progress;
    void *ctx;
} rt_job_tokenize_opts;
typedef struct rt_job_tokenized {
    bool read; /* the data are token shards: looked at, not made */
    rt_tokenize_stats stats;
    rt_rows_count rows; /* what rows of seq_len make of it */
    uint32_t shards, threads;
    char tokenizer[33]; /* hash; empty without one */
    double seconds;
} rt_job_tokenized;
int rt_job_tokenize(rt_job_tokenized *out, const rt_job_tokenize_opts *o, rt_err *e);

/* ---- words that flags take (job_shared.c): each list ends with null ---- */

const char *const *rt_job_backend_names(void);
const char *const *rt_job_divergence_names(void);
const char *const *rt_job_dtype_names(void);     /* that a model can be converted to */
const char *rt_job_dtype_find(const char *text); /* of them the one that is meant, also in capitals; null: none */
const char *const *rt_job_preset_names(void);    /* of rt_job_init */
const char *const *rt_job_schedule_names(void);  /* of the learning rate */

#endif
