/* settings.h - everything a user can say about a run, in one table: flags, configuration files, the record of a run and
 * the comparison when it is resumed all come from it.
 *
 * Owns: names, kinds, defaults, what a setting needs, when it may change, help; values as text, JSON and YAML; the
 * names that other tools have for them. Knows no model, no data and no device: a setting that was not given
 * and has no fixed default ("auto") is resolved when those are known (job/resolve.h), and the record of a run holds the
 * resolved values. Values are typed from here on: text is parsed when it comes in and printed when it is recorded. */
#ifndef RT_SETTINGS_SETTINGS_H
#define RT_SETTINGS_SETTINGS_H

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { RT_SETTING_WORDS = 64 };
typedef struct rt_setting_list {
    const char *text[RT_SETTING_WORDS];
    uint32_t count;
} rt_setting_list;

/* A whole number of things, or a share of them all: "12", "5%". */
typedef struct rt_share {
    double value; /* 12; 5 */
    bool percent;
} rt_share;
/* How many of total that is; at least 1, unless the share is 0. */
uint64_t rt_share_of(rt_share s, uint64_t total);

#define RT_SETTING_TYPE_TEXT const char *
#define RT_SETTING_TYPE_LIST rt_setting_list
#define RT_SETTING_TYPE_TEXTS rt_setting_list
#define RT_SETTING_TYPE_REAL double
#define RT_SETTING_TYPE_COUNT uint64_t
#define RT_SETTING_TYPE_SHARE rt_share
#define RT_SETTING_TYPE_SWITCH bool
typedef enum rt_setting_kind {
    RT_SETTING_TEXT,
    RT_SETTING_LIST,
    RT_SETTING_TEXTS, /* a list that is mostly of one, and is written as a text then */
    RT_SETTING_REAL,
    RT_SETTING_COUNT,
    RT_SETTING_SHARE,
    RT_SETTING_SWITCH,
} rt_setting_kind;
/* Whether a flag may be given more than once, and a file may have a list. */
static inline bool rt_setting_repeats(rt_setting_kind k) { return k == RT_SETTING_LIST || k == RT_SETTING_TEXTS; }

/* When a resumed run may have another value than the one it began with. */
typedef enum rt_setting_bind {
    RT_BIND_FREE,   /* always: how long, how often, how fast, where */
    RT_BIND_RUN,    /* with --override: it changes the numbers */
    RT_BIND_TOKENS, /* never: the tokens of the run are made from it */
} rt_setting_bind;

/* What a setting needs to have an effect: name, the setting that gives it, how a user says so, whether s has it */
#define RT_SETTING_NEEDS(X)                                                                                            \
    X(TEACHER, teacher, "--teacher", s->teacher.count > 0)                                                             \
    X(JSD, divergence, "--divergence jsd", is(s->divergence, "jsd"))                                                   \
    X(SKEW, divergence, "--divergence skew-forward or skew-reverse",                                                   \
      is(s->divergence, "skew-forward") || is(s->divergence, "skew-reverse"))                                          \
    X(WSD, schedule, "--schedule wsd", is(s->schedule, "wsd"))                                                         \
    X(LORA, lora, "--lora", s->lora || s->lora_rank)
typedef enum rt_setting_need {
    RT_NEED_NOTHING,
#define X(name, setting, text, has) RT_NEED_##name,
    RT_SETTING_NEEDS(X)
#undef X
} rt_setting_need;

/* field, flag, kind, default ("" none; "auto" resolved from models and data), bind, need, metavar, help */
#define RT_SETTING_TABLE(X)                                                                                            \
    X(teacher, "--teacher", TEXTS, "", RUN, NOTHING, "MODEL",                                                          \
      "Teacher model, a cache of one, or a server's http://HOST:PORT; may be repeated; MODEL,weight=0.3, "             \
      "MODEL,data=FILE, MODEL,prompt=FILE")                                                                            \
    X(student, "--student", TEXT, "", RUN, NOTHING, "MODEL", "Student model, which is trained")                        \
    X(base, "--base", TEXT, "", RUN, NOTHING, "MODEL",                                                                 \
      "Base model of a LoRA adapter given as student or teacher; else the one that it names")                          \
    X(data, "--data", LIST, "", TOKENS, NOTHING, "PATH",                                                               \
      "Training data: JSONL, JSON, tables, text or token shards; may be repeated; PATH:SPLIT, PATH,weight=0.3")        \
    X(eval_data, "--eval-data", LIST, "", TOKENS, NOTHING, "PATH",                                                     \
      "Evaluation data; without it, a held-out part of --data")                                                        \
    X(out, "--out", TEXT, "", FREE, NOTHING, "DIR",                                                                    \
      "Output directory for the run and its model; a new or an empty one")                                             \
    X(divergence, "--divergence", TEXT, "forward-kl", RUN, TEACHER, "D",                                               \
      "Divergence: forward-kl, reverse-kl, jsd, skew-forward, skew-reverse, tv")                                       \
    X(beta, "--beta", REAL, "0.5", RUN, JSD, "B",                                                                      \
      "JSD beta, the teacher's share of the mixture; 0 is forward KL, 1 reverse KL")                                   \
    X(skew, "--skew", REAL, "0.1", RUN, SKEW, "L", "Skew lambda, the share of the first distribution in the mixture")  \
    X(temperature, "--temperature", REAL, "1", RUN, TEACHER, "T",                                                      \
      "Temperature of the divergence; cross-entropy is always at 1")                                                   \
    X(alpha, "--alpha", REAL, "0.9", RUN, TEACHER, "A", "Loss mix: kd-weight A and ce-weight 1-A")                     \
    X(kd_weight, "--kd-weight", REAL, "auto", RUN, TEACHER, "W", "Divergence weight in the loss; wins over --alpha")   \
    X(ce_weight, "--ce-weight", REAL, "auto", RUN, NOTHING, "W",                                                       \
      "Cross-entropy weight in the loss (1-alpha; 1 without a teacher)")                                               \
    X(t2, "--t2", TEXT, "on", RUN, TEACHER, "on|off",                                                                  \
      "T^2 factor on the divergence, so that T does not change its weight")                                            \
    X(lr, "--lr", REAL, "auto", RUN, NOTHING, "R",                                                                     \
      "Peak learning rate (by the distance from the teacher and the width)")                                           \
    X(lr_class, "--lr-class", TEXT, "auto", RUN, NOTHING, "near|far|random",                                           \
      "Learning-rate class of the student, which sets the rate; else measured before step 1")                          \
    X(optimizer, "--optimizer", TEXT, "adamw", RUN, NOTHING, "O",                                                      \
      "Optimizer: adamw with moments in f32, adamw-bf16 or adamw-8bit with moments in fewer bits")                     \
    X(betas, "--betas", TEXT, "0.9,0.95", RUN, NOTHING, "B1,B2", "AdamW beta1 and beta2")                              \
    X(eps, "--eps", REAL, "1e-8", RUN, NOTHING, "E", "AdamW epsilon")                                                  \
    X(weight_decay, "--weight-decay", REAL, "0.01", RUN, NOTHING, "W", "AdamW weight decay, on matrices only")         \
    X(schedule, "--schedule", TEXT, "cosine", RUN, NOTHING, "S",                                                       \
      "Learning-rate schedule: constant, linear, cosine or wsd")                                                       \
    X(warmup, "--warmup", SHARE, "auto", RUN, NOTHING, "N|P%",                                                         \
      "Warm-up steps, or share of the run (3 %, at least 10 steps)")                                                   \
    X(decay, "--decay", SHARE, "20%", RUN, WSD, "N|P%", "Decay steps of wsd, or share of the run")                     \
    X(lr_floor, "--lr-floor", REAL, "0.1", RUN, NOTHING, "F", "Final learning rate as a share of the peak")            \
    X(max_grad_norm, "--max-grad-norm", REAL, "1", RUN, NOTHING, "N",                                                  \
      "Gradient norm above which gradients are clipped; 0 never clips")                                                \
    X(batch, "--batch", COUNT, "auto", RUN, NOTHING, "N", "Batch rows per optimizer step (32, less of small data)")    \
    X(micro_batch, "--micro-batch", COUNT, "auto", FREE, NOTHING, "N",                                                 \
      "Micro-batch rows; changes memory, not the loss")                                                                \
    X(teacher_batch, "--teacher-batch", COUNT, "auto", FREE, TEACHER, "N",                                             \
      "Teacher batch rows; changes memory, not the loss")                                                              \
    X(teacher_weights, "--teacher-weights", TEXT, "auto", FREE, TEACHER, "W",                                          \
      "Teacher weights: native as stored, bf16 dequantised once (more memory), fp8 quantised once, fp8-native at "     \
      "every use, or auto")                                                                                            \
    X(teacher_memory, "--teacher-memory", TEXT, "auto", FREE, TEACHER, "M",                                            \
      "Teacher memory: device; host (pinned) or disk, from which layers are copied in as they are used; or auto")      \
    X(seq_len, "--seq-len", COUNT, "auto", RUN, NOTHING, "N",                                                          \
      "Sequence length of a row in tokens (2048, or what the records fit in)")                                         \
    X(steps, "--steps", COUNT, "auto", RUN, NOTHING, "N", "Optimizer steps (3 epochs)")                                \
    X(tokens, "--tokens", COUNT, "auto", RUN, NOTHING, "N", "Run length in tokens, instead of --steps")                \
    X(epochs, "--epochs", REAL, "auto", RUN, NOTHING, "N",                                                             \
      "Run length in passes over the data, instead of --steps (3)")                                                    \
    X(time, "--time", TEXT, "", RUN, NOTHING, "T",                                                                     \
      "Run length as time (8h, 90m, 1h30m), instead of --steps; steps are timed first")                                \
    X(lora, "--lora", SWITCH, "", RUN, NOTHING, NULL, "LoRA: low-rank adapters are trained, the model is frozen")      \
    X(lora_rank, "--lora-rank", COUNT, "auto", RUN, NOTHING, "R", "LoRA rank (32); implies --lora")                    \
    X(lora_alpha, "--lora-alpha", REAL, "auto", RUN, LORA, "A",                                                        \
      "LoRA alpha (2 x rank); adapters are scaled by alpha / rank")                                                    \
    X(lora_dropout, "--lora-dropout", REAL, "0", RUN, LORA, "P",                                                       \
      "LoRA dropout: the share of an adapter's input that is dropped in training")                                     \
    X(lora_targets, "--lora-targets", TEXT, "all", RUN, LORA, "LIST",                                                  \
      "LoRA targets: all, or some of q,k,v,o,gate,up,down")                                                            \
    X(merge, "--merge", SWITCH, "", FREE, LORA, NULL, "Merged model, with the adapters added in, written as well")     \
    X(freeze, "--freeze", LIST, "", RUN, NOTHING, "PATTERN",                                                           \
      "Frozen parameters, by name with * and ?; may be repeated")                                                      \
    X(recompute, "--recompute", TEXT, "auto", FREE, NOTHING, "keep|none|norms|mlp|block",                              \
      "Recomputation of activations to save memory, of every layer, or of some: block:14,mlp:6; the loss changes by "  \
      "rounding only")                                                                                                 \
    X(zero, "--zero", COUNT, "auto", FREE, NOTHING, "0|1|2",                                                           \
      "ZeRO stage over several ranks: 1 shards the optimizer's state, 2 gradients too, 0 nothing; changes memory, not "\
      "the loss")                                                                                                      \
    X(head_chunk, "--head-chunk", COUNT, "auto", FREE, NOTHING, "N",                                                   \
      "Head chunk: positions whose logits exist at once")                                                              \
    X(memory_limit, "--memory-limit", TEXT, "auto", FREE, NOTHING, "SIZE",                                             \
      "Memory limit of the run, such as 22GiB or 500MB; else what the device has free")                                \
    X(columns, "--columns", TEXT, "", TOKENS, NOTHING, "K=C,...",                                                      \
      "Columns of the data, where their names are others: prompt=question,completion=answer")                          \
    X(loss_on, "--loss-on", TEXT, "turns", TOKENS, NOTHING, "turns|all",                                               \
      "Trained text: turns (completions and assistant turns) or all")                                                  \
    X(chat_template, "--chat-template", TEXT, "auto", TOKENS, NOTHING, "T",                                            \
      "Chat template: teacher, student or a file")                                                                     \
    X(template_var, "--template-var", LIST, "", TOKENS, NOTHING, "K=V", "Chat template variable; may be repeated")     \
    X(skip_bad, "--skip-bad", COUNT, "0", TOKENS, NOTHING, "N", "Bad records that may be skipped")                     \
    X(allow_drop, "--allow-drop", SWITCH, "", RUN, NOTHING, NULL,                                                      \
      "Permission to drop over 5 % of the records because they do not fit")                                            \
    X(vocab, "--vocab", COUNT, "auto", RUN, NOTHING, "N", "Vocabulary size, where neither model has a tokenizer")      \
    X(allow_degenerate, "--allow-degenerate", SWITCH, "", RUN, TEACHER, NULL,                                          \
      "Permission for teacher and student to be the same model")                                                       \
    X(held_out, "--held-out", SHARE, "auto", RUN, NOTHING, "N|P%",                                                     \
      "Held-out records for evaluation, or share of the data (1 %, 32 to 1000)")                                       \
    X(eval_every, "--eval-every", SHARE, "auto", RUN, NOTHING, "N|P%",                                                 \
      "Evaluation interval in steps, or share of the run (5 %, longer in a short run)")                                \
    X(eval_rows, "--eval-rows", COUNT, "auto", RUN, NOTHING, "N",                                                      \
      "Evaluation rows: how many of the held-out rows are measured (all, up to 1000; fewer in a short run)")           \
    X(stop_if_worse, "--stop-if-worse", COUNT, "", RUN, NOTHING, "N",                                                  \
      "Early stopping: an end after N evaluations in a row that are worse than the best")                              \
    X(sample_prompts, "--sample-prompts", TEXT, "auto", FREE, NOTHING, "FILE",                                         \
      "Sample prompts: a file of lines or .jsonl records, or none; else two held-out texts")                           \
    X(sample_tokens, "--sample-tokens", COUNT, "64", FREE, NOTHING, "N", "Sample length in tokens, at most")           \
    X(save_every, "--save-every", SHARE, "10%", FREE, NOTHING, "N|P%",                                                 \
      "Checkpoint interval in steps, or share of the run; also every 30 minutes")                                      \
    X(keep, "--keep", COUNT, "2", FREE, NOTHING, "N", "Checkpoints kept besides the best")                             \
    X(save, "--save", TEXT, "best", FREE, NOTHING, "best|last", "Model written to the root of --out")                  \
    X(save_dtype, "--save-dtype", TEXT, "auto", FREE, NOTHING, "D",                                                    \
      "Saved dtype: f32, bf16 or f16; else as the student was stored")                                                 \
    X(control, "--control", SWITCH, "", FREE, TEACHER, NULL,                                                           \
      "Control run: the same student trained again without the teacher, to compare")                                   \
    X(dump_step, "--dump-step", COUNT, "auto", FREE, NOTHING, "N",                                                     \
      "Dump of everything in step N, for tools/check_step.py")                                                         \
    X(seed, "--seed", COUNT, "0", RUN, NOTHING, "N", "Seed of the row order, of what is held out and of adapters")     \
    X(held_seed, "--held-seed", COUNT, "auto", RUN, NOTHING, "N",                                                      \
      "Seed of the choice of held-out records (--seed; with a teacher cache, the cache's)")                            \
    X(device, "--device", TEXT, "auto", FREE, NOTHING, "D",                                                            \
      "Device: auto, cpu, cuda, cuda:1 or vulkan; retort doctor lists them")                                           \
    X(on_device_failure, "--on-device-failure", TEXT, "auto", FREE, NOTHING, "F",                                      \
      "Failure of the device: degrade (resumed on the next one), retry:N (on the same one first), stop; auto is "      \
      "degrade, and stop where --device names one")                                                                    \
    X(device_timeout, "--device-timeout", REAL, "auto", FREE, NOTHING, "S",                                            \
      "Device timeout: seconds after which a GPU that does not answer has failed; 0 never (10 steps, at least 60 s)")  \
    X(keep_host_copy, "--keep-host-copy", COUNT, "", FREE, NOTHING, "N",                                               \
      "Copy of the run's state in host memory every N steps, resumed from when the device fails; else checkpoints")    \
    X(device_memory, "--device-memory", TEXT, "auto", FREE, NOTHING, "M", "CUDA memory: auto, device or managed")      \
    X(kernels, "--kernels", TEXT, "auto", FREE, NOTHING, "K",                                                          \
      "CUDA kernels: auto; ptx, ptx75 or ptx80 for the embedded PTX")                                                  \
    X(cublaslt, "--cublaslt", TEXT, "auto", FREE, NOTHING, "FILE",                                                     \
      "cuBLASLt library file; none: our own GEMM kernels")                                                             \
    X(tune, "--tune", TEXT, "on", FREE, NOTHING, "on|off|all|known",                                                   \
      "cuBLASLt tuning: GEMM algorithms timed once, for 5 s at most, and kept for later runs; all: without that "      \
      "limit; known: kept ones alone, which is what plan takes")                                                       \
    X(sync, "--sync", SWITCH, "", FREE, NOTHING, NULL, "Synchronous CUDA ops, so that a fault names its op; slow")     \
    X(threads, "--threads", COUNT, "auto", FREE, NOTHING, "N", "CPU threads; changes speed, not results")

typedef enum rt_setting_id {
#define X(field, ...) RT_SETTING_ID_##field,
    RT_SETTING_TABLE(X)
#undef X
        RT_SETTING_COUNT_ALL
} rt_setting_id;

typedef struct rt_settings {
#define X(field, flag, kind, ...) RT_SETTING_TYPE_##kind field;
    RT_SETTING_TABLE(X)
#undef X
    bool given[RT_SETTING_COUNT_ALL]; /* by the user, or by a default that is not "auto", or resolved */
} rt_settings;

typedef struct rt_setting_info {
    const char *field; /* "kd_weight": the key in files */
    const char *flag;  /* "--kd-weight" */
    rt_setting_kind kind;
    const char *def;
    rt_setting_bind bind;
    rt_setting_need need;
    const char *metavar, *help;
    uint32_t offset, size; /* in rt_settings */
} rt_setting_info;
extern const rt_setting_info rt_setting_table[RT_SETTING_COUNT_ALL];

/* The id of a field or flag by name ("kd_weight", "kd-weight", "--kd-weight"); RT_SETTING_COUNT_ALL: there is none. */
rt_setting_id rt_setting_find(const char *name);
/* status, with the nearest field where one is near: "'kd_weigth' is not a setting; did you mean kd_weight?" */
int rt_setting_unknown(const char *name, int status, rt_err *e);
/* Whether a setting is the one that it should rest on, or has no effect without it. */
bool rt_setting_rests_on(rt_setting_id id, rt_setting_id on);
/* Whether a word means yes or no: 1, 0, or -1 for neither. */
int rt_setting_switch(const char *text);
/* Words of a metavar that begin with on|off: the flag may stand alone, and is on. */
bool rt_setting_stands_alone(const char *words);

/* ---- values ---- */
/* From text, as a flag or a file has it; a list is appended to. Text outlives s. RT_USAGE says what was expected. */
int rt_settings_set(rt_settings *s, rt_setting_id id, const char *text, rt_err *e);
/* A value of the field's own type. */
#define RT_SETTINGS_PUT(s, field_, value) ((s)->field_ = (value), (s)->given[RT_SETTING_ID_##field_] = true)
/* As if it had not been given. */
void rt_settings_forget(rt_settings *s, rt_setting_id id);
/* Fixed defaults for what was not given. */
int rt_settings_defaults(rt_settings *s, rt_err *e);
/* What over gives takes the place of what base has: the command line over a file, what is said now over a resumed run.
 * A list is replaced, not added to. Settings of base that say the same in other words (steps, tokens, epochs, time;
 * weights where over has alpha; lr and lr_class; held_out and eval_data) are forgotten first. */
void rt_settings_overlay(rt_settings *base, const rt_settings *over);
/* Whether s gives a setting something to do: a value that is neither its default nor 0, off or empty. */
bool rt_settings_asks(const rt_settings *s, rt_setting_id id);
/* Of the settings that were said (by id): RT_USAGE for one that asks for something and lacks what it needs, such as
 * "--control needs --teacher"; its default asks too where what it needs has another default and was not said (beta 0.5
 * without a divergence). Defaults are in s. */
int rt_settings_check_needs(const rt_settings *s, const bool *said, rt_err *e);
/* RT_USAGE "--alpha 2 is out of range (0 to 1)". check_range has the ranges that depend on nothing but the value, and
 * passes over other settings; out_of_range says it of those. */
int rt_settings_check_range(const rt_settings *s, rt_setting_id id, rt_err *e);
int rt_settings_out_of_range(const rt_settings *s, rt_setting_id id, const char *range, rt_err *e);

/* ---- JSON: the record of a run ---- */
/* An object with every setting that is given; null when out of memory. */
json_t *rt_settings_to_json(const rt_settings *s);
/* Strings are copied into a. Unknown keys are refused with the nearest known one (RT_INVALID). */
int rt_settings_from_json(rt_settings *s, const json_t *object, rt_arena *a, rt_err *e);
/* The same of a run's record, by an older version too. */
int rt_settings_from_record(rt_settings *s, const json_t *object, rt_arena *a, rt_err *e);
/* Of a resumed run: what differs among the settings that now gives and that are bound at least so, one line each "flag:
 * was X, now Y" appended to out; returns how many of them are bound to the run. */
uint32_t rt_settings_diff(const rt_settings *was, const rt_settings *now, rt_setting_bind least, rt_str *out);

/* ---- YAML: the file that a person writes (`--config run.yaml`), and that a run leaves (`resolved.yaml`) ---- */
enum { RT_YAML_BYTES = 1 << 20, RT_SETTINGS_NOTES = 1024 };
/* What other tools' names were taken for, in the order of the file; of settings that were refused, all that is wrong.
 */
typedef struct rt_settings_note {
    uint32_t line;
    const char *text; /* "learning_rate -> --lr 5e-05", in the arena */
} rt_settings_note;
typedef struct rt_settings_notes {
    rt_settings_note items[RT_SETTINGS_NOTES];
    uint32_t count;
} rt_settings_notes;

/* text: a file called where, at most RT_YAML_BYTES long. Names are those of the flags, with _ or -, or aliases; notes
 * (may be null) say what was made of those. null, ~ and an empty list leave a setting alone. What the file gives is
 * put over s; strings live in a. Nothing is changed on failure. RT_FORMAT: not YAML; RT_INVALID: not settings, and
 * notes have every fault, of which e has the first. Messages begin with "where:line". */
int rt_settings_from_yaml(rt_settings *s, const char *text, size_t len, const char *where, rt_arena *a,
                          rt_settings_notes *notes, rt_err *e);
/* The same of a file. */
int rt_settings_from_yaml_file(rt_settings *s, const char *path, rt_arena *a, rt_settings_notes *notes, rt_err *e);
/* Appends every given setting in the order of the table, each with what it means. rt_settings_from_yaml reads the same
 * settings from it. RT_INVALID for text that is not UTF-8. */
int rt_settings_to_yaml(const rt_settings *s, rt_str *out, rt_err *e);

/* ---- other tools' names (aliases.h) ---- */
/* One by one, with _; null after the last. */
const char *rt_settings_alias_name(uint32_t i);
/* Words of a command line: a name with its dashes, own or an alias, and its values; an alias that is a switch may have
 * none. */
typedef struct rt_setting_word {
    const char *name;
    const char *const *value;
    uint32_t count;
} rt_setting_word;
/* The same of words, each name once; RT_USAGE. */
int rt_settings_from_words(rt_settings *s, const rt_setting_word *words, uint32_t count, rt_arena *a,
                           rt_settings_notes *notes, rt_err *e);
/* Both as one, words over the file (path may be null): a name on the command line takes the place of the same name in
 * the file, and what a tool says with several names may stand in both. Notes, or faults, are told apart; where words
 * are wrong (RT_USAGE), the file's faults are left out. */
int rt_settings_from_both(rt_settings *s, const rt_setting_word *words, uint32_t count, const char *path, rt_arena *a,
                          rt_settings_notes *of_words, rt_settings_notes *of_file, rt_err *e);

#endif
