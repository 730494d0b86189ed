/* inputs.h - what a run reads: both models, their tokenizers, the pair, the chat template, and the data as token
 * shards.
 *
 * Owns: opening all of it in the right order and refusing what cannot be a run, before anything expensive happens. Text
 * is tokenized once into shards below the run's folder, so a resumed run reads the very tokens of the first, whatever
 * became of the text. */
#ifndef RT_JOB_INPUTS_H
#define RT_JOB_INPUTS_H

#include "base/lock.h"
#include "job/prepare/resolve.h"
#include "teacher/cache_source.h"
#include "teacher/pair.h"
#include "teacher/several.h"
#include "text/data/data_rows.h"
#include "text/data/model_text.h"
#include "train/step.h"

/* What a person should hear of. What does not fit is left out. */
enum { RT_NOTES = 32 };
typedef struct rt_notes {
    char text[RT_NOTES][640];
    uint32_t count;
} rt_notes;
void rt_note(rt_notes *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A teacher besides the first. */
typedef struct rt_inputs_other {
    rt_model_file *model;
    rt_text_source *text; /* null where it has no tokenizer */
} rt_inputs_other;

typedef struct rt_inputs {
    rt_arena arena;
    rt_model_file *student, *teacher;             /* teacher null: none was named; of a cache, what it keeps of it */
    rt_cache_source *cache;                       /* the teacher is one; null: it is a model, or there is none */
    rt_text_source *student_text, *teacher_text;  /* null where a model has no tokenizer */
    rt_teachers teachers;                         /* as they were named, and their shares of the data; count 0: none */
    rt_inputs_other others[RT_TEACHERS_MOST - 1]; /* (teachers.count - 1) */
    rt_teacher_prompt prompts[RT_TEACHERS_MOST]; /* of teachers that have one, after rt_inputs_data; else put is null */
    rt_pair pair;                                /* with a teacher; of several the same ids with each */
    const rt_text_source *text;     /* whose tokenizer and special tokens read the data; null: token shards only */
    rt_chat_template *own_template; /* of --chat-template FILE */
    rt_span template_text;          /* the template in use, to be written to the output; null data: none */
    const char *template_from;      /* "teacher", "student", the file's name; null: none */
    json_t *template_vars;
    rt_columns columns;                           /* of --columns; count 0: none */
    rt_rows_source *train_sources, *eval_sources; /* over the shards */
    uint32_t train_count, eval_count;
    bool *train_hub, *eval_hub; /* of each source: its name is org/name of the local Hugging Face cache */
    rt_shard **shards;          /* all of them, train first */
    uint32_t shard_count, shard_cap;
    rt_tokenize_stats stats; /* of what was tokenized now */
    /* Of the training sources, and of those that are evaluated on where they are others, after rt_inputs_rows. */
    rt_rows_count counted, eval_counted;
    bool by_share;   /* a run of an earlier version: its held-out part is about a share, weighted as training is */
    rt_held *chosen; /* what is held out; null: by share, the end of one text, or a file */
    rt_rows *train, *held;
    rt_notes notes;
} rt_inputs;

typedef struct rt_inputs_opts {
    const rt_hub_env *env;
    rt_pool *pool;
    const char *folder; /* where shards of tokens go: exists */
    const char *part;   /* the name of a model of which there is a description alone, as a cache keeps it; null: none */
    int64_t now;        /* what strftime_now prints, kept in the manifest */
    bool measure;       /* the data is not trained on: of a directory with splits one to evaluate on is taken */
    bool (*stop)(void *ctx);
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
    void *ctx;
    rt_may_write may_write; /* of folder */
} rt_inputs_opts;

/* env with the base that the settings give to adapters. */
rt_hub_env rt_inputs_env(const rt_settings *s, const rt_hub_env *env);
/* Of a cache: the folder in it that has what is kept of the teacher's model. */
#define RT_CACHE_MODEL "teacher"
/* Models, tokenizers, pair, template. RT_INVALID for a pair that does not match, or that is one and the same. */
int rt_inputs_open(rt_inputs **out, const rt_settings *s, const rt_inputs_opts *o, rt_err *e);
/* The data as shards: opened, or tokenized into o->folder when they are not there yet. */
int rt_inputs_data(rt_inputs *in, const rt_settings *s, const rt_inputs_opts *o, rt_err *e);
/* Whether a name is one that rt_inputs_data writes into o->folder. */
bool rt_inputs_is_name(const char *name);
/* Facts for rt_resolve_before_rows. */
int rt_inputs_facts(rt_inputs *in, rt_run_facts *f, rt_err *e);
/* The teacher where its layers are there to be run; null: a cache, or none. */
static inline rt_model_file *rt_inputs_live(const rt_inputs *in) { return in->cache ? NULL : in->teacher; }
/* Of the smaller embedding: every id of the data is below it. */
uint32_t rt_inputs_id_rows(const rt_inputs *in);
/* What programs need of the teacher, of whatever kind it is: configuration, source, mask, dtypes of its parameters; of
 * several their shares, and those besides the first from rt_inputs_others. in outlives the programs. */
void rt_inputs_put_teacher(const rt_inputs *in, const rt_dtype *dtypes, rt_teacher_weights w,
                           const rt_step_other *others, rt_step_opts *o);
/* As it is stored; of a cache of hidden states the head's alone. Null: nothing of a teacher is loaded. */
int rt_inputs_teacher_dtypes(rt_dtype **out, const rt_inputs *in, rt_arena *a, rt_err *e);
/* RT_FORMAT for a cache of others that does not say which teacher it is of, what it keeps and at which temperature. */
int rt_inputs_cache_says(const rt_cache *c, const char *path, rt_err *e);
/* RT_FORMAT when what a cache keeps of its teacher's files is not what was written. */
int rt_inputs_cache_files(const rt_cache *c, const char *path, rt_err *e);
/* For manifest.json and what is compared with it: rt_identity_new; of a cache that of the model that made it, and under
 * "cache" what it keeps. *out is the caller's. */
int rt_inputs_teacher_identity(json_t **out, const rt_inputs *in, rt_pool *pool, rt_err *e);
int rt_inputs_cache_identity(json_t **out, const char *path, rt_err *e); /* of a cache by its path */
/* What the parameters of one of its models are stored in: (rt_param_count) in a. */
int rt_inputs_dtypes(rt_dtype **out, const rt_model_file *m, rt_arena *a, rt_err *e);
/* RT_INVALID where a teacher that is known by its identity alone is the student itself. */
int rt_inputs_refuse_identity(const rt_inputs *in, const json_t *of, const rt_settings *s, rt_pool *pool, rt_err *e);
/* ---- several teachers (inputs_teachers.c) ---- */
/* Those besides the first, which has its pair already: opened, and of the same ids. RT_INVALID where they are not. */
int rt_inputs_open_others(rt_inputs *in, const rt_settings *s, const rt_inputs_opts *o, const rt_hub_env *env,
                          rt_err *e);
/* Which teachers each source of the data is asked of; when the sources are known. */
int rt_inputs_assign(rt_inputs *in, rt_err *e);
/* Those besides the first, with dtypes as kept: (teachers.count - 1) in a; null: there are none. */
int rt_inputs_others(rt_step_other **out, const rt_inputs *in, rt_teacher_weights w, rt_arena *a, rt_err *e);
/* Weights of all models into sealed programs; rank 0 has the others do the same. */
int rt_inputs_load(const rt_inputs *in, rt_trainer *t, uint64_t seed, rt_err *e);
/* Teacher i, of teachers.count. */
static inline rt_model_file *rt_inputs_teacher(const rt_inputs *in, uint32_t i)
{
    return i ? in->others[i - 1].model : in->teacher;
}
/* Whether any teacher has a prompt of its own. */
static inline bool rt_inputs_prompted(const rt_inputs *in)
{
    for (uint32_t i = 0; i < in->teachers.count; i++)
        if (in->teachers.list[i].prompt) return true;
    return false;
}
/* Whether there is one live teacher that reads what the student reads, so that it can say texts. */
static inline bool rt_inputs_teacher_speaks(const rt_inputs *in)
{
    return rt_inputs_live(in) && in->teachers.count < 2 && !rt_inputs_prompted(in);
}

/* ---- teachers with prompts (inputs_prompts.c) ---- */
/* Made from their files, or read from o->folder; when it is known which data each teacher is asked about. */
int rt_inputs_prompts(rt_inputs *in, const rt_inputs_opts *o, rt_err *e);
/* How many of the documents of some rows that a teacher is asked about it reads with its prompt. */
int rt_inputs_count_prompted(const rt_inputs *in, uint32_t teacher, const rt_batch *b, uint32_t rows, uint32_t T,
                             uint32_t *prompted, uint32_t *documents, rt_err *e);

/* "0.7 of text.jsonl", or "0.7" where all sources are alike: the shares that teacher i has. */
void rt_inputs_shares(const rt_inputs *in, uint32_t i, rt_str *out);
/* The identities of those besides the first, each with its "weight" and, where it has some, its "data". *out, an array,
 * is the caller's; null where there are none. */
int rt_inputs_others_identity(json_t **out, const rt_inputs *in, rt_pool *pool, rt_err *e);
/* One of them; of several, or with a prompt, the first has such a one too: "prompt" is the hash of its ids. */
int rt_inputs_other_identity(json_t **out, const rt_inputs *in, uint32_t teacher, rt_pool *pool, rt_err *e);

/* Rows for training and evaluation; then f->rows_per_epoch is known. */
int rt_inputs_rows(rt_inputs *in, const rt_settings *s, const rt_resolved *r, rt_run_facts *f, rt_err *e);
/* The same rows once more, from the first on, for who reads them at another time than the run. */
int rt_inputs_rows_again(rt_rows **out, rt_inputs *in, const rt_settings *s, const rt_resolved *r, bool held,
                         rt_err *e);
/* All rows of one side in the order of the data, each record once, whatever the weights; after rt_inputs_rows, which
 * has settled what is held out. */
int rt_inputs_rows_once(rt_rows **out, rt_inputs *in, const rt_settings *s, const rt_resolved *r, bool held, rt_err *e);
/* What became of the records of so many sources together. */
rt_rows_count rt_inputs_count(const rt_rows *r, uint32_t sources);
/* The sources for the record: {"train": [{"name", "weight", "shards": [{"name", "hash", "records", "tokens",
 * "trained", "files": of rt_data_files_json}]}], "eval": [...]} */
int rt_inputs_to_json(json_t **out, const rt_inputs *in, rt_err *e);
/* What the encoder needs of text and template. */
rt_data_text rt_inputs_text(const rt_inputs *in, int64_t now);
void rt_inputs_close(rt_inputs *in); /* accepts null */

/* Variables of a chat template as an object, the caller's: "enable_thinking=false", JSON where it is that, else text.
 */
int rt_template_vars(json_t **out, const char *const *vars, uint32_t count, rt_err *e);

#endif
