/* dataset.h - text that a user has, as token ids with a mask of what is trained.
 *
 * Owns: which files a source means, what a record is, how a record becomes ids and targets, and doing it with every
 * core in an order that does not depend on their number. Token shards are data_shard.h; order, packing into rows and
 * cursors are data_rows.h. docs/data.md says all of it for people.
 *
 * Targets: a bit per token, set when the token is trained, that is predicted from the one before it. The first token of
 * a record is never trained, whatever its bit. */
#ifndef RT_DATA_DATASET_H
#define RT_DATA_DATASET_H

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "format/model_file.h"
#include "text/jinja/chat_template.h"
#include "text/tokenizer/tokenizer.h"

/* ---- sources: what the user named, as files (data_source.c) ---- */

typedef enum rt_data_format {
    RT_DATA_JSONL,
    RT_DATA_JSON,    /* an array of records, or records one after the other */
    RT_DATA_TEXT,    /* one record per file */
    RT_DATA_SHARD,   /* our own token shard */
    RT_DATA_BIN,     /* ids of others: llm.c's header, or headerless u32 */
    RT_DATA_PARQUET, /* tables, a record per row (text/table) */
    RT_DATA_CSV,
    RT_DATA_TSV,
} rt_data_format;

typedef struct rt_data_file {
    const char *path;
    rt_data_format format;
    uint32_t source;
    uint64_t size; /* bytes on disk */
} rt_data_file;

typedef struct rt_data_source {
    const char *spec; /* as the user said it */
    const char *name; /* without options */
    double weight;    /* records of this source per pass, relative to its size; 1: each once */
    bool weighted;    /* the user gave it */
    uint32_t first_file, file_count;
} rt_data_source;

typedef struct rt_data_list {
    rt_arena arena; /* everything below */
    rt_data_source *sources;
    uint32_t source_count;
    rt_data_file *files; /* of each source together, sorted by path */
    uint32_t file_count;
    const char **notes; /* what was left out or decided, one sentence each, for a person */
    uint32_t note_count;
} rt_data_list;

/* A spec is a file, a directory, a pattern with * ? [, or org/name in the local Hugging Face cache, and then ":train"
 * or
 * ",split=train", and ",weight=0.3". Of a directory with a split train, that one is taken when none is named; to
 * evaluate, the split that is meant for it. RT_NOT_FOUND when there is nothing. l need not be cleared. On failure it is
 * empty. */
int rt_data_list_open(rt_data_list *l, const char *const *specs, uint32_t count, const rt_hub_env *env, rt_err *e);
int rt_data_list_open_eval(rt_data_list *l, const char *const *specs, uint32_t count, const rt_hub_env *env, rt_err *e);
void rt_data_list_close(rt_data_list *l); /* accepts null; leaves an empty list */

/* ---- records (data_record.c, data_encode.c) ---- */

/* Columns that take the place of the keys of a record. With them a record is what they name, and nothing else of it. */
enum { RT_COLUMNS_MOST = 16 };
typedef struct rt_columns {
    const char *key[RT_COLUMNS_MOST], *name[RT_COLUMNS_MOST];
    uint32_t count;
    const char *role, *content; /* what the turns of messages or conversations call theirs; null: as they are known */
} rt_columns;
/* "prompt=question,completion=answer" or "messages=dialog,role=who,content=says", into a. RT_USAGE says what is wrong
 * with it. (data_columns.c) */
int rt_columns_parse(rt_columns *out, rt_arena *a, const char *text, rt_err *e);

/* What text needs of a model. tok must be there; the rest may be absent (null, -1). All must outlive what uses it. */
typedef struct rt_data_text {
    const rt_tokenizer *tok;
    const rt_chat_template *tmpl; /* null: conversations are refused */
    const json_t *special;        /* object: bos_token, eos_token and the like, for the template */
    const json_t *extra;          /* object: variables that the user adds to the template */
    int64_t bos, eos, eot;        /* ids; eot: ends a turn; -1: eos ends it */
    int64_t now;                  /* what strftime_now prints */
    int32_t utc_offset;
    const rt_columns *columns; /* of JSON records and tables; null: by the names that are known */
} rt_data_text;

/* Fields from what a model has. tmpl: a template to take instead of the model's own, or null; the token that ends a
 * turn is then the special one that this template puts behind the assistant's words. */
struct rt_text_source;
int rt_data_text_from(rt_data_text *out, const struct rt_text_source *s, const rt_chat_template *tmpl, rt_err *e);

typedef enum rt_data_loss {
    RT_LOSS_TURNS, /* completions and what the assistant wrote; of plain text everything */
    RT_LOSS_ALL,
} rt_data_loss;

typedef enum rt_record_kind { RT_RECORD_TEXT, RT_RECORD_COMPLETION, RT_RECORD_CHAT } rt_record_kind;
enum { RT_RECORD_KINDS = 3 };
const char *rt_record_kind_name(rt_record_kind k); /* "text", "completion", "chat" */

/* What a person should hear of records that are taken as they are (data_notes.c). */
typedef struct rt_data_odd {
    uint64_t completions_inside; /* begin inside a token of their prompt, which is no target */
    uint64_t turns_inside;       /* of the assistant: the same after what the template prints before them */
    uint64_t answers_empty;      /* completions and turns that are trained, and have no text */
    uint64_t fields_over_lines;  /* quoted ones of a TSV, in which quotes are mostly meant as they are */
    uint64_t tools_unprinted;    /* conversations whose `tools` the template does not print */
} rt_data_odd;

/* A record as tokens. Begin with zeroes; it is reused. */
typedef struct rt_encoded {
    rt_record_kind kind;
    rt_data_odd odd;
    rt_tok_ids ids;
    bool all_targets;  /* target is not used: every token */
    bool has_stops;    /* stop is used */
    uint32_t *target;  /* bits, (ceil(count / 32)) */
    uint32_t *stop;    /* bits: the conversation may end with this token, when what follows is left out */
    uint32_t bits_cap; /* words in each */
    uint32_t trained;  /* targets but for the first token */
    bool fatal;        /* on failure: the set-up is at fault and not the record, so skipping does not help */
} rt_encoded;
void rt_encoded_free(rt_encoded *r); /* accepts null; leaves an empty one */

static inline bool rt_bit(const uint32_t *bits, uint64_t i) { return bits[i / 32] >> (i % 32) & 1; }

/* What one thread needs. */
typedef struct rt_encoder rt_encoder;
int rt_encoder_new(rt_encoder **out, const rt_data_text *text, rt_data_loss loss, rt_err *e);
void rt_encoder_free(rt_encoder *x); /* accepts null */
/* A record in JSON. Its kind is by its keys: `messages`, `conversations` (ShareGPT), `prompt` and `completion`,
 * `instruction`, `input` and `output`, `text`, or `question` and `answer`. RT_FORMAT for broken JSON, RT_INVALID for
 * what is not a record. */
int rt_encoder_json(rt_encoder *x, const char *json, size_t len, rt_encoded *out, rt_err *e);

enum { RT_PART_FIRST = 1, RT_PART_LAST = 2, RT_PART_WHOLE = 3 };
/* A plain text, or a part of one: what is put before a text stands before its first part, the end after its last. */
int rt_encoder_text(rt_encoder *x, const char *text, size_t len, unsigned parts, rt_encoded *out, rt_err *e);
/* Whether a text may be cut behind a newline that a letter follows without changing an id. */
int rt_encoder_can_cut(rt_encoder *x, bool *can, rt_err *e);

/* ---- everything of a list, on all cores (data_tokenize.c) ---- */

/* [{"name", "bytes", "hash"}, ...] of the files of sources [first, first + count), as they are on disk; never a path.
 * *out is the caller's. */
int rt_data_files_json(json_t **out, const rt_data_list *l, uint32_t first, uint32_t count, rt_err *e);

typedef struct rt_data_place {
    const char *path;
    uint64_t line;         /* from 1; 0: the whole file */
    uint32_t source, file; /* in the list */
    unsigned parts;        /* RT_PART_*: parts of one record follow each other */
} rt_data_place;

typedef struct rt_tokenize_stats {
    uint64_t records, bad, no_target; /* bad: skipped; no_target: records in which nothing is trained */
    uint64_t kinds[RT_RECORD_KINDS];
    uint64_t bytes;     /* of text read, decompressed */
    uint64_t disk_done; /* bytes of the files on disk read so far, for progress */
    uint64_t tokens, trained;
    rt_data_odd odd;
    char first_bad[400]; /* why the first was skipped, with its place */
} rt_tokenize_stats;

typedef struct rt_tokenize_opts {
    const rt_data_text *text;
    rt_data_loss loss;
    uint64_t skip_bad; /* records at fault that are skipped; the next one ends the work */
    rt_pool *pool;
    /* Called with one record (or part of one) after the other, in order. May be null. */
    int (*sink)(void *ctx, const rt_data_place *where, const rt_encoded *r, rt_err *e);
    bool (*stop)(void *ctx);                                      /* asked often; may be null */
    void (*progress)(void *ctx, const rt_tokenize_stats *so_far); /* now and then; may be null */
    void (*note)(void *ctx, const char *text);                    /* a sentence for a person; may be null */
    void *ctx;
} rt_tokenize_opts;

/* The sources [first, first + count) of the list, which must hold no token shards. RT_INVALID when there is no record
 * at all. */
int rt_data_tokenize(const rt_data_list *l, uint32_t first, uint32_t count, const rt_tokenize_opts *o,
                     rt_tokenize_stats *stats, rt_err *e);

#endif
