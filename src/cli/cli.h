/* cli.h - the command line: subcommands, flags, printing. The only room that prints, reads the environment or exits.
 *
 * A subcommand is a function over its own arguments, listed once in RT_COMMAND_LIST. Flags are declared as data, so
 * that parsing, --help and "did you mean" come from one table. */
#ifndef RT_CLI_CLI_H
#define RT_CLI_CLI_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* name, one line for `retort --help` */
#define RT_COMMAND_LIST(X)                                                                                             \
    X(convert, "a model in another format, every value read back and compared")                                        \
    X(distill, "train a student to give a teacher's probabilities")                                                    \
    X(doctor, "what this binary and this machine can do, and why not where they cannot")                               \
    X(eval, "perplexity of a model on text, and its divergence from a teacher")                                        \
    X(generate, "text from a model, streamed")                                                                         \
    X(init, "a model with random weights, or a student from a teacher's layers")                                       \
    X(inspect, "what is in a model: shape, dtypes, tokenizer, hashes")                                                 \
    X(quantize, "a model with quantised matrices, with the error of each")                                             \
    X(report, "a run, or several over each other, as one HTML page")                                                   \
    X(tokenize, "text as token shards; samples with what is trained; ids of a text and back")                          \
    X(train, "the same loop on text alone")                                                                            \
    X(verify, "prove every op on this machine against double precision; or check a finished run")

typedef enum rt_flag_kind {
    RT_FLAG_BOOL,  /* bool */
    RT_FLAG_TEXT,  /* const char * */
    RT_FLAG_COUNT, /* uint32_t, from 1 */
    RT_FLAG_BYTES, /* uint64_t: "512M" */
    RT_FLAG_WHOLE, /* uint64_t, from 0 */
    RT_FLAG_REAL,  /* double, finite */
    RT_FLAG_LIST,  /* rt_words: may be given many times */
} rt_flag_kind;

enum { RT_MAX_WORDS = 256 };
typedef struct rt_words {
    const char *text[RT_MAX_WORDS];
    uint32_t count;
} rt_words;

typedef struct rt_flag {
    const char *name; /* with its dashes: "--threads" */
    rt_flag_kind kind;
    void *value;         /* of the type that the kind names */
    const char *metavar; /* "N"; null for BOOL */
    const char *help;
} rt_flag;

typedef struct rt_command {
    const char *name, *usage; /* "retort verify [flags]" */
    const char *text;         /* a few lines */
    const char *example;
    const rt_flag *flags; /* ends with a null name */
    /* Arguments that are not flags: how many at least and at most, where they go. Null words: none are taken. A lone
     * "-" is an argument, and all that follows "--" are. */
    uint32_t min_words, max_words;
    rt_words *words;
} rt_command;

/* Parses argv (after the subcommand). RT_USAGE with the nearest known flag for what it does not know.
 * *help is set when --help was given; help has then been printed and nothing else was done. */
int rt_args_parse(const rt_command *c, int argc, char **argv, bool *help, rt_err *e);

#define X(name, text) int rt_cmd_##name(int argc, char **argv, rt_err *e);
RT_COMMAND_LIST(X)
#undef X

/* Prints a jansson value with sorted-as-written keys and frees it; RT_NOMEM when it is null. */
struct json_t;
int rt_print_json(struct json_t *j, rt_err *e);
/* RT_IO when standard output could not take what was printed (closed pipe, full disk). */
int rt_stdout_close(rt_err *e);

#endif
