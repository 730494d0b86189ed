/* data_internal.h - between the files that read data: files, splits, records. */
#ifndef RT_DATA_DATA_INTERNAL_H
#define RT_DATA_DATA_INTERNAL_H

#include "base/file.h"
#include "text/data/dataset.h"
#include "text/table/data_stream.h"
#include "text/table/table.h"

/* ---- files of a directory (data_source.c), and which of them are of a split (data_splits.c) ---- */

enum { RT_SPLITS_TEXT = 160 };

typedef struct rt_paths {
    char **paths; /* of data below a directory */
    uint32_t count, cap;
} rt_paths;

/* Whether a path has a word in it: train in data/train-00000-of-00002.parquet, not in training.jsonl. */
bool rt_split_in(const char *path, const char *word);
/* The names that files of a split have for it, such as train_sft and train_gen of train, as a list with commas; skip:
 * the directory's part of the paths. */
void rt_split_names(const rt_paths *f, size_t skip, const char *split, char buf[RT_SPLITS_TEXT]);
/* The same of all known splits of dir but for one. */
void rt_split_others(const rt_paths *f, size_t skip, const char *taken, char buf[RT_SPLITS_TEXT]);
/* The split that was asked for, RT_NOT_FOUND where it is not there, or the one that is meant where a directory has one
 * to train on; null: no split. */
int rt_split_choose(const rt_paths *f, const char *dir, bool for_eval, const char **split, rt_err *e);

/* By the ending of its name, without what says that it is compressed; false: it says nothing (data_source.c). */
bool rt_data_format_of(const char *path, rt_data_format *out);

/* ---- records of files (data_split.c) ---- */

#define RT_TO_UTF8 "convert the file, for example with iconv -f LATIN1 -t UTF-8"

enum {
    RT_RAW_LIMIT = RT_TABLE_ROW_LIMIT, /* bytes of one record, or of a text that cannot be cut */
    RT_RAW_PART = 1 << 20,             /* a text is cut into parts of about this size where it can be */
};

typedef struct rt_raw {
    size_t begin, len; /* in the text that it was appended to */
    uint32_t file;     /* in the list */
    uint64_t line;     /* where it begins, from 1 */
    unsigned parts;    /* RT_PART_* */
    bool fault;        /* of a table: what it holds is no row, but what is wrong with it */
    uint32_t over;     /* of a TSV: quoted fields that span several lines */
    uint64_t at;       /* of a text: its first byte in the file, decompressed */
    /* Of the first table of a source: its columns that were not asked for, each name ended by a newline; null: none. It
     * lives as long as the reader. */
    const char *unread;
} rt_raw;

typedef struct rt_raw_reader {
    const rt_data_list *list;
    uint32_t file, end; /* files still to be read: [file, end) */
    bool cut_text;
    const rt_columns *columns; /* of tables; null: those that make a record by their names, or */
    bool all_columns;          /* all of them */
    rt_data_stream *stream;    /* of `file`; null: not open yet */
    rt_table *table;           /* instead of it, of a table */
    rt_arena arena;            /* of unread */
    const char *unread;
    const char *data; /* unread bytes of the current block */
    size_t len;
    rt_str carry;   /* the beginning of a record that a block ended in */
    uint64_t line;  /* of the next byte */
    uint64_t at;    /* of a text: bytes of the file before carry */
    uint64_t bytes; /* read so far, decompressed */
    uint64_t disk;  /* of whole files */
    bool begun;     /* a text: its first part was given */
    bool in_array;  /* JSON: inside the array */
    bool after_array;
    bool any; /* something of this file was seen */
} rt_raw_reader;

/* Appends the next record to text and describes it. 1: a record; 0: no more; negative: a status. */
int rt_raw_next(rt_raw_reader *r, rt_str *text, rt_raw *out, rt_err *e);
void rt_raw_reader_free(rt_raw_reader *r);

/* ---- what the keys make (data_columns.c) ---- */

typedef enum rt_record_shape {
    RT_SHAPE_NONE,
    RT_SHAPE_MESSAGES,
    RT_SHAPE_CONVERSATIONS,
    RT_SHAPE_COMPLETION,
    RT_SHAPE_INSTRUCTION,
    RT_SHAPE_TEXT,
    RT_SHAPE_QUESTION,
} rt_record_shape;
/* The first shape that what is there makes. */
rt_record_shape rt_record_shape_of(bool (*has)(const void *ctx, const char *key), const void *ctx);
/* What the columns name of a record, under the keys; null when out of memory. */
json_t *rt_columns_take(const rt_columns *c, const json_t *record);
/* The role and the content of every turn of what was taken, under those names. */
int rt_columns_rename_turns(const rt_columns *c, json_t *taken, rt_err *e);
/* ---- a record (data_record.c) ---- */

typedef struct rt_record {
    rt_record_kind kind;
    const char *text; /* TEXT */
    size_t text_len;
    const char *prompt, *completion; /* COMPLETION */
    size_t prompt_len, completion_len;
    json_t *messages, *tools; /* CHAT; owned; tools may be null */
    bool *trained;            /* CHAT: (turn_count) of each turn of the assistant; owned; null: all are */
    uint32_t turn_count, turn_cap;
    bool some_untrained; /* one of them is false */
    json_t *root;        /* owned: the texts point into it */
} rt_record;
/* The keys that make a record, which are the columns that are read of a table. */
extern const char *const rt_record_keys[];
extern const uint32_t rt_record_key_count;
/* chat: there is a chat template, for what is advised of a record of no known kind. */
int rt_record_parse(rt_record *out, const char *json, size_t len, const rt_columns *columns, bool chat, rt_err *e);
void rt_record_free(rt_record *r); /* accepts zeroes */

/* ---- turns (data_turns.c) ---- */

/* The role that templates know ("user") of a name that sets have for it ("human", "User"); null: none. */
const char *rt_role_of(const char *from);
#define RT_ROLES_KNOWN                                                                                                 \
    "known are human, user, prompter, gpt, assistant, chatgpt, model, bot, system, tool, function and observation"
/* That role in place of such a name; a name that is not known stays. */
int rt_turn_set_role(json_t *message, rt_err *e);
/* RT_INVALID for a role that neither is known nor stands in the template. */
int rt_turns_check_roles(const json_t *messages, const rt_chat_template *t, rt_err *e);

/* Writes down which of a list's turns of the assistant are trained: all, but for those that say otherwise (`weight`: 0,
 * `train` or `training`: false), or none where they are part of a prompt. key: what the list is called. */
int rt_turns_trained(rt_record *r, const json_t *list, const char *key, bool asked, rt_err *e);

/* How many turns of the assistant that are trained have neither a text nor calls. */
uint32_t rt_turns_empty(const rt_record *r);

/* ---- calls of tools (data_calls.c) ---- */

/* RT_INVALID when the template does not print the calls of a message. whole: the conversation as it printed it. */
int rt_calls_check(const rt_chat_template *t, const rt_record *rec, const rt_chat_options *o, const rt_str *whole,
                   rt_jinja_result *spare, rt_data_odd *odd, rt_err *e);
/* Of a conversation that the template could not render: names the first message whose content is null, as messages of
 * calls have it, which many templates take for a text. */
int rt_calls_explain(const rt_record *rec, int rc, rt_err *e);

/* ---- what is odd about records, in sentences (data_notes.c) ---- */

void rt_data_odd_add(rt_data_odd *to, const rt_data_odd *from);
/* source: its name; null: several. */
void rt_data_odd_tell(const rt_data_odd *odd, const char *source, void (*note)(void *ctx, const char *text), void *ctx);

/* ---- columns that no one uses (data_unused.c) ---- */

/* Appends the names of a record's keys that are not used, each with a newline behind it. */
int rt_record_unused(const char *json, size_t len, const rt_columns *columns, rt_str *out, rt_err *e);
/* "columns not used: context, id" of such a list; "" when it is empty. */
enum { RT_UNUSED_TEXT = 320 };
void rt_unused_text(const char *names, char buf[RT_UNUSED_TEXT]);

/* ---- which tokens lie inside ranges of text (data_align.c) ---- */

typedef struct rt_align {
    const rt_tokenizer *tok;
    rt_tok_scratch *scratch;
    rt_tok_ids spare;
} rt_align;
/* token: the first token that begins at or behind `at` (end false), or one behind the last token that ends at or before
 * it (end true). Where the place lies inside a token, tokens [across, token) hold it; else across is token. blank: what
 * they hold of the text before the place is white space alone. Both are set where end is false. ids is text as one
 * text, without special tokens. */
typedef struct rt_align_mark {
    size_t at;
    bool end, blank;
    uint32_t token, across;
} rt_align_mark;
int rt_align_tokens(rt_align *a, const char *text, size_t len, const rt_tok_ids *ids, rt_align_mark *marks,
                    uint32_t count, rt_err *e);

#endif
