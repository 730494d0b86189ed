/* cli.h - the command line: subcommands, flags, printing. The only room that prints, reads the environment or exits.
 *
 * Owns: words in and out. A subcommand is a function over its own arguments, listed once in RT_COMMAND_LIST; what it
 * does is a function of job/job.h. Flags are declared as data, so that parsing, --help and "did you mean" come from one
 * table. */
#ifndef RT_CLI_CLI_H
#define RT_CLI_CLI_H

#include "cli/live.h"
#include "job/job.h"

/* name, one line for `retort --help` */
#define RT_COMMAND_LIST(X)                                                                                             \
    X(cache, "a teacher's probabilities for a text, stored for later runs")                                            \
    X(chat, "a conversation with a model, in the terminal")                                                            \
    X(convert, "a model in another format, every value read back and compared")                                        \
    X(distill, "train a student to match a teacher's probabilities")                                                   \
    X(doctor, "what this binary and this machine can do, and why not where they cannot")                               \
    X(eval, "perplexity of a model on text, its divergence from a teacher, its scores on tasks")                       \
    X(export, "the model of a run alone, to be uploaded or used elsewhere")                                            \
    X(generate, "text from a model, streamed")                                                                         \
    X(init, "a model with random weights, or a student from a teacher's layers")                                       \
    X(inspect, "what is in a model: shape, dtypes, tokenizer, hashes")                                                 \
    X(merge, "a LoRA adapter added into its base model")                                                               \
    X(plan, "what a run would cost: memory, time, disk, and whether it fits")                                          \
    X(quantize, "a model with quantised matrices, with the error of each")                                             \
    X(report, "a run, or several over each other, as one HTML page")                                                   \
    X(serve, "a model over HTTP, for OpenAI clients and lm-eval")                                                      \
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
    RT_FLAG_MANY,  /* rt_words: all up to the next flag, or none */
} rt_flag_kind;

enum { RT_MAX_WORDS = 256 };
typedef struct rt_words {
    const char *text[RT_MAX_WORDS];
    uint32_t count;
    bool given; /* of RT_FLAG_MANY */
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
    /* Other names that are understood and that help does not list; ends like flags, or null. */
    const rt_flag *aliases;
    bool out_word; /* the last word is OUT, and may be said as --out OUT */
    /* Arguments that are not flags: how many at least and at most, where they go. Null words: none are taken. A lone
     * "-" is an argument, and all that follows "--" are. */
    uint32_t min_words, max_words;
    rt_words *words;
} rt_command;

/* Parses argv (after the subcommand). RT_USAGE with the nearest known flag for what it does not know.
 * Between the words of a flag _ is as good as -. A flag that is given twice and is no list is refused. *help is set
 * when --help or --help=json was given; help has then been printed and nothing else was done. */
int rt_args_parse(const rt_command *c, int argc, char **argv, bool *help, rt_err *e);

enum { RT_MAX_FLAGS = 1280 };

/* ---- what was meant (args_guess.c): a name, or RT_USAGE with what to type ---- */

/* Whether a word is a flag's name, with - or _ between its words. */
bool rt_args_named(const char *name, const char *word, size_t len);
/* The flag of that name, of the table or an alias; index: among all, the table's own first. Null: none. */
const rt_flag *rt_args_find(const rt_command *c, const char *name, size_t len, int *index);
/* The flag that a bare word was meant for: "--prompt", "--config"; null: who knows. */
const char *rt_guess_flag_of(const rt_command *c, const char *word);
int rt_guess_unknown(const rt_command *c, const char *word, rt_err *e);
/* A value of --resume, which takes none: a run, a checkpoint, or a name like one. theirs: the flag of transformers. */
int rt_guess_resume(const char *command, bool theirs, const char *word, rt_err *e);
/* argv[*i] and the bare words after it, which nothing takes; *i is left at the last of them. */
int rt_guess_words(const rt_command *c, int argc, char **argv, int *i, rt_err *e);
/* The command that another tool's name means exactly; else the word itself. */
const char *rt_guess_command(const char *word);
/* names: of the commands, ending with null. */
int rt_guess_unknown_command(const char *word, int argc, char **argv, const char *const *names, rt_err *e);

#define X(name, text) int rt_cmd_##name(int argc, char **argv, rt_err *e);
RT_COMMAND_LIST(X)
#undef X

/* ---- help (help.c) ---- */

/* Where help goes. A terminal has the width that COLUMNS or it says; everything else gets the same 100 columns always.
 */
typedef struct rt_page {
    FILE *to;
    uint32_t width;
} rt_page;
rt_page rt_page_of(FILE *to);
/* "  left   text": the text in a column of its own, wrapped, or below left where that is too long. */
void rt_page_row(const rt_page *p, uint32_t column, const char *left, const char *text);
/* All that `retort COMMAND --help` prints. */
void rt_help_print(const rt_command *c);
/* The same for --help=json; tools/gen_help.py makes man pages and completions of it. */
int rt_help_json(const rt_command *c, rt_err *e);

/* ---- what this binary is, and the process it runs in (environment.c) ---- */

extern const char rt_cli_version[]; /* "0.1.0" */
extern const char rt_cli_build[];   /* `git describe` of the tree that it was built from, or "unknown" */
/* The environment variables that models, devices and temporary files depend on, and the clock, or another moment than
 * now (0). An empty variable is an absent one. */
rt_job_env rt_cli_env(uint64_t now);
/* Which device was taken and, where the choice was left open, why not another. */
void rt_print_device(rt_dev *d, const char *why);
/* At the end of a run: what code took of the device's memory, and whether any was loaded too late. Nothing where a
 * device loads no code. */
void rt_print_device_end(rt_dev *d);

/* ---- printing (print.c) ---- */

/* Prints a jansson value with sorted-as-written keys and frees it; RT_NOMEM when it is null. */
int rt_print_json(json_t *j, rt_err *e);
/* Whether f is a pipe that nobody reads any more: `| head` has seen enough, which is no error. */
bool rt_reader_left(FILE *f);
/* All that a command says to people: as printf. On a terminal a line is wrapped to its width, under the text that
 * follows its label, as soon as it is whole; elsewhere nothing is changed. A line with a word of rt_print_word is a
 * command to copy and stays whole. Control characters in names become '?'; the coloured form leaves them, for text
 * whose parts were made visible (rt_visible_append). */
__attribute__((format(printf, 1, 2))) void rt_put(const char *format, ...);
__attribute__((format(printf, 1, 2))) void rt_put_coloured(const char *format, ...);
__attribute__((format(printf, 2, 3))) void rt_put_to(FILE *to, const char *format, ...);
__attribute__((format(printf, 2, 3))) void rt_put_under(uint32_t column, const char *format, ...);
/* "label     text" */
__attribute__((format(printf, 2, 3))) void rt_say(const char *label, const char *format, ...);
/* Columns to fill; 0: no terminal, where lines stay whole. */
uint32_t rt_terminal_width(FILE *to);
/* RT_IO when standard output could not take what was printed (full disk). */
int rt_stdout_close(rt_err *e);
/* First of all: standard descriptors that are closed, and signals that would end the process without a word. */
void rt_process_begin(void);
/* Null for null. Names come from files and from the command line: bytes that are no UTF-8 become question marks. */
json_t *rt_json_text(const char *text);
/* A number, or its digits as text where jansson's numbers end. */
json_t *rt_json_u64(uint64_t v);
/* The list of their texts. */
json_t *rt_json_notes(const rt_notes *n);
/* {"mean", "error"}; error is null for a single document. */
json_t *rt_json_measure(rt_measure m);
/* "494 M", "7.62 B", "98304": parameters for a person. buf needs 32 bytes; returns buf. */
char *rt_format_params(char *buf, uint64_t n);
/* rt_str_append_word to standard output. */
void rt_print_word(const char *path, const char *more);
/* Text from strangers for a terminal: control characters as \x1b; newlines and tabs stay, or with one_line become \n
 * and \t. */
void rt_visible_append(rt_str *out, const char *text, size_t len, bool one_line);

/* ---- what commands share ---- */

/* The rest of standard input, up to 1 GiB. */
int rt_read_input(rt_str *out, rt_err *e);
/* A model and where it runs: flags that generate, chat, serve and eval have in common, over members of these names. */
typedef struct rt_where {
    const char *base, *device;
    uint32_t threads;
} rt_where;
#define RT_WHERE_FLAGS(w)                                                                                              \
    { "--base", RT_FLAG_TEXT, &(w).base, "MODEL", "base model of an adapter (default: the one that it names)" },       \
        { "--device", RT_FLAG_TEXT, &(w).device, "D", "where to run (auto)" },                                         \
    {                                                                                                                  \
        "--threads", RT_FLAG_COUNT, &(w).threads, "N", "CPU threads (default: cores this process may use)"             \
    }
/* A model that is opened with them; its weights are not read yet. */
typedef struct rt_placed_model {
    rt_job_env env;
    rt_settings where; /* device and threads */
    rt_model_file *file;
} rt_placed_model;
int rt_placed_model_open(rt_placed_model *m, const char *spec, const rt_where *w, rt_err *e); /* environment.c */
/* How ids are chosen: flags that generate and chat have in common, and what they come to. Begins with
 * RT_SAMPLED_DEFAULT. */
typedef struct rt_sampled {
    double temperature, top_p, min_p, penalty;
    uint64_t top_k, seed;
} rt_sampled;
#define RT_SAMPLED_DEFAULT                                                                                             \
    {                                                                                                                  \
        .top_p = 1, .penalty = 1                                                                                       \
    }
#define RT_SAMPLED_FLAGS(s)                                                                                            \
    { "--temperature", RT_FLAG_REAL, &(s).temperature, "T",                                                            \
      "sampling temperature; 0: always the most likely token (0)" },                                                   \
        { "--top-k", RT_FLAG_WHOLE, &(s).top_k, "K", "sample from the K most likely tokens; 0: all (0)" },             \
        { "--top-p", RT_FLAG_REAL, &(s).top_p, "P", "sample from the most likely tokens that make up P; 1: all (1)" }, \
        { "--min-p", RT_FLAG_REAL, &(s).min_p, "P",                                                                    \
          "sample from tokens at least P times as likely as the most likely; 0: all (0)" },                            \
        { "--repetition-penalty", RT_FLAG_REAL, &(s).penalty, "R",                                                     \
          "above 1: makes tokens already seen less likely (1)" },                                                      \
    {                                                                                                                  \
        "--seed", RT_FLAG_WHOLE, &(s).seed, "N", "seed of sampling (0)"                                                \
    }
rt_sampling rt_sampling_of(const rt_sampled *s);
/* start_ranks.c: has the machine's mpirun start so many ranks of this program, argv (its own first) their arguments,
 * and ends as it does; with --resume again, as often as restarts says, when ranks have died. Comes back only when
 * mpirun cannot be run. */
int rt_start_ranks(uint32_t count, uint32_t restarts, char *const *argv, rt_err *e);
/* What activations packed weights are multiplied by. */
#define RT_ACTIVATIONS_FLAG(text)                                                                                      \
    {                                                                                                                  \
        "--activations", RT_FLAG_TEXT, &(text), "A",                                                                   \
            "activations of packed weights: exact (default), or int8, faster on a CPU and less exact"                  \
    }
/* RT_USAGE for another word; null: exact. */
int rt_take_activations(const char *text, bool *int8, rt_err *e);
void rt_put_int8(uint32_t int8, uint32_t gemms); /* on standard error; nothing where int8 is 0 */
/* convert_print.c: converts, shows progress, reports. quantise: every tensor is reported, not only those that changed.
 */
int rt_convert_command(const char *in, const char *base, const rt_job_convert_opts *o, bool quantise, bool json,
                       rt_err *e);
/* cmd_convert.c: the adapter itself, without its base. */
int rt_adapter_command(const char *spec, const char *base, const rt_job_output *o, bool json, rt_err *e);
/* inspect_print.c; tensors: each of them. */
void rt_inspect_print(const rt_job_inspection *f, bool tensors);
json_t *rt_inspect_json(const rt_job_inspection *f, bool tensors); /* null when out of memory */
/* eval_tasks.c: `retort eval --tasks`; of o: model, base, template variables, device and threads. RT_INVALID, after the
 * table, when a requirement is not met. */
typedef struct rt_tasks_flags {
    rt_words files, beside, require;
    const char *details;
    uint32_t slots;
    bool chat;
} rt_tasks_flags;
#define RT_TASKS_FLAGS(t)                                                                                              \
    { "--tasks", RT_FLAG_LIST, &(t).files, "FILE",                                                                     \
      "task file, instead of text: questions with choices or a target (docs/evaluation.md); may be repeated" },        \
        { "--beside", RT_FLAG_LIST, &(t).beside, "MODEL",                                                              \
          "with --tasks: another model in the same table, with its difference; may be repeated" },                     \
        { "--require", RT_FLAG_LIST, &(t).require, "M>=X",                                                             \
          "with --tasks: minimum score of MODEL, acc>=0.3 or TASK:acc>=0.3, else exit code 5; may be repeated" },      \
        { "--chat", RT_FLAG_BOOL, &(t).chat, NULL, "with --tasks: questions rendered by the chat template" },          \
        { "--details", RT_FLAG_TEXT, &(t).details, "FILE",                                                             \
          "with --tasks: a new file with the result of every record" },                                                \
    {                                                                                                                  \
        "--slots", RT_FLAG_COUNT, &(t).slots, "N", "with --tasks: requests computed at once (8)"                       \
    }
int rt_tasks_command(const rt_job_evaluate_opts *o, const rt_tasks_flags *t, bool json, rt_err *e);
/* audit_print.c: `retort verify RUN`, each check printed as it is done. RT_INVALID when one failed. */
int rt_audit_command(const char *path, const char *device, uint32_t threads, bool json, rt_err *e);
/* preview_print.c: what a run does with its data. colour: what is trained is bright and what is masked dim; else what
 * is trained stands in [[ ]]. */
void rt_preview_print(const rt_run *r, bool colour);
/* ", 3 texts split, 14 conversations shortened, 2 records dropped (too long)": what a row length does to records, or
 * nothing. */
void rt_print_fate(const rt_rows_count *c);

/* ---- what is seen of a run (run_print.c) ---- */

/* What a run is shown with: the flags, and what the events need of one another. */
typedef struct rt_run_printer {
    const char *command; /* "distill", "train", "plan" */
    const char *out;     /* of the settings; may be null */
    bool resumed, smoke;
    uint32_t log_every; /* --log-every; 0: by itself */
    bool quiet;
    FILE *json; /* where events go as JSON; null: nowhere */
    FILE *last; /* where the last line goes when quiet */
    bool live;  /* the line is on a terminal */
    uint32_t every;
    double told;      /* clock of the last progress event in JSON, */
    const char *what; /* and what it was about */
} rt_run_printer;
/* Before anything is printed: what is for people goes to standard error when events go to standard output, and nowhere
 * when quiet. RT_IO when the descriptors cannot be had. */
int rt_run_printer_begin(rt_run_printer *p, bool json, rt_err *e);
/* Fill the events that print. */
rt_run_events rt_run_printer_events(rt_run_printer *p);
void rt_run_print_device(void *printer, rt_dev *d, const char *why); /* of rt_job_run_opts */
/* again.c: the program is executed again where a device has failed and the run goes on (job/run/ladder.h): with the
 * words of this command, kept when it begins. Comes back where that is not wanted, or it cannot be executed. */
void rt_again_keep(const char *command, int argc, char **argv);
void rt_again(rt_run_printer *p, const rt_job_again *next);
void rt_again_hung(void *printer, const rt_job_again *next, int rc, rt_err *e); /* of rt_job_run_opts */
/* The end of a run: the closing screen, the last line, the last events. */
void rt_run_print_summary(rt_run_printer *p, const rt_job_run *j, const rt_run_summary *s);
/* A run that was interrupted is closed: how to resume it is added to the message. */
void rt_run_explain_stop(const rt_run_printer *p, rt_err *e);
/* Closes what rt_run_printer_begin has opened; an error is the last event. RT_IO when events could not be written. */
int rt_run_printer_end(rt_run_printer *p, int rc, rt_err *e);
/* run_end.c: the closing screen, and its one line about what was saved. */
void rt_run_print_end(const rt_job_run *j, const rt_run_summary *s);
void rt_run_print_saved(FILE *to, const rt_job_run *j, const rt_run_summary *s);
/* Of one that had ended before it was resumed. */
void rt_run_print_ended(FILE *to, const rt_job_run *j, const rt_run_summary *s);

/* ---- the same as JSON, an event a line (run_json.c); docs/terminal.md lists them. All accept a null json. ---- */

void rt_run_json_start(const rt_run_printer *p, rt_dev *d);
void rt_run_json_progress(rt_run_printer *p, const char *what, uint64_t done, uint64_t total);
void rt_run_json_computing(rt_run_printer *p, const rt_run_computing *c);
void rt_run_json_again(const rt_run_printer *p, const char *text);
void rt_run_json_warning(const rt_run_printer *p, const char *text);
void rt_run_json_plan(const rt_run_printer *p, const rt_run *r);
void rt_run_json_step(rt_run_printer *p, const rt_run_line *l);
void rt_run_json_projection(const rt_run_printer *p, const rt_run_projection *l);
void rt_run_json_eval(const rt_run_printer *p, uint32_t step, const rt_eval_result *v, bool best);
void rt_run_json_sample(const rt_run_printer *p, const rt_sample_said *v);
void rt_run_json_checkpoint(const rt_run_printer *p, const char *path);
void rt_run_json_end(const rt_run_printer *p, const rt_job_run *j, const rt_run_summary *s);
void rt_run_json_error(const rt_run_printer *p, int rc, const rt_err *e);

/* A flag for an option of a backend; value as the kind of the option has it, text for a choice. */
rt_flag rt_device_flag(const char *option, void *value);

#endif
