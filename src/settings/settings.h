/* settings.h - everything a user can say about a run, in one table: flags, configuration files, the record of a run and
 * the comparison when it is resumed all come from it.
 *
 * Owns: names, kinds, defaults, help. A setting that was not given and has no fixed default ("auto") is resolved when
 * models and data are known (resolve.h); the record of a run holds the resolved values. */
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

/* TEXT const char *; LIST rt_setting_list; REAL double; COUNT uint64_t; SWITCH bool */
typedef enum rt_setting_kind {
    RT_SETTING_TEXT,
    RT_SETTING_LIST,
    RT_SETTING_REAL,
    RT_SETTING_COUNT,
    RT_SETTING_SWITCH,
} rt_setting_kind;

/* When a resumed run may have another value than the one it began with. */
typedef enum rt_setting_bind {
    RT_BIND_RUN,  /* never without --override: it changes the numbers */
    RT_BIND_FREE, /* always: how long, how often, how fast, where */
} rt_setting_bind;

/* field, flag, kind, default ("" none; "auto" resolved from models and data), bind, metavar, help */
#define RT_SETTING_TABLE(X)                                                                                            \
    X(teacher, "--teacher", TEXT, "", RUN, "MODEL", "the model to learn from; it is not changed")                      \
    X(student, "--student", TEXT, "", RUN, "MODEL", "the model that learns")                                           \
    X(data, "--data", LIST, "", RUN, "PATH",                                                                           \
      "text to learn on: JSONL, JSON, text, token shards; may be repeated, "                                           \
      "and given ,weight=0.3")                                                                                         \
    X(eval_data, "--eval-data", LIST, "", RUN, "PATH", "text to evaluate on; without it a part of the data")           \
    X(out, "--out", TEXT, "", FREE, "DIR", "where the run and its model go; must not exist or be empty")               \
    X(divergence, "--divergence", TEXT, "forward-kl", RUN, "D",                                                        \
      "forward-kl, reverse-kl, jsd, skew-forward, skew-reverse or tv")                                                 \
    X(beta, "--beta", REAL, "0.5", RUN, "B", "jsd: weight of the teacher in the mixture; 0 is forward, 1 reverse KL")  \
    X(skew, "--skew", REAL, "0.1", RUN, "L", "skewed divergences: share of the first distribution in the second")      \
    X(temperature, "--temperature", REAL, "1", RUN, "T", "of the divergence; CE is always at 1")                       \
    X(alpha, "--alpha", REAL, "0.9", RUN, "A", "kd-weight A and ce-weight 1-A")                                        \
    X(kd_weight, "--kd-weight", REAL, "auto", RUN, "W", "of the divergence; wins over --alpha")                        \
    X(ce_weight, "--ce-weight", REAL, "auto", RUN, "W", "of the cross-entropy; wins over --alpha")                     \
    X(t2, "--t2", TEXT, "on", RUN, "on|off", "multiply the divergence by T^2, so that T does not change its weight")   \
    X(lr, "--lr", REAL, "auto", RUN, "R", "the highest learning rate")                                                 \
    X(betas, "--betas", TEXT, "0.9,0.95", RUN, "B1,B2", "of AdamW")                                                    \
    X(eps, "--eps", REAL, "1e-8", RUN, "E", "of AdamW")                                                                \
    X(weight_decay, "--weight-decay", REAL, "0.01", RUN, "W", "of AdamW, on matrices alone")                           \
    X(schedule, "--schedule", TEXT, "cosine", RUN, "S", "constant, linear, cosine or wsd")                             \
    X(warmup, "--warmup", TEXT, "auto", RUN, "N|P%", "steps, or share of the run, over which the rate rises")          \
    X(decay, "--decay", TEXT, "20%", RUN, "N|P%", "wsd: steps, or share of the run, over which it falls")              \
    X(lr_floor, "--lr-floor", REAL, "0.1", RUN, "F", "share of the highest rate at which the schedule ends")           \
    X(max_grad_norm, "--max-grad-norm", REAL, "1", RUN, "N", "gradients are scaled down to this norm; 0: never")       \
    X(batch, "--batch", COUNT, "32", RUN, "N", "rows per optimizer step")                                              \
    X(micro_batch, "--micro-batch", COUNT, "auto", FREE, "N", "rows at a time; changes memory, not the loss")          \
    X(teacher_batch, "--teacher-batch", COUNT, "auto", FREE, "N",                                                      \
      "rows that the teacher reads at a time; changes memory, not the loss")                                           \
    X(teacher_weights, "--teacher-weights", TEXT, "auto", FREE, "W",                                                   \
      "native: as stored, expanded before each product where the device needs it; bf16: expanded once, which takes "   \
      "more memory; auto: bf16 where it fits and saves time")                                                          \
    X(seq_len, "--seq-len", COUNT, "auto", RUN, "N", "positions of a row")                                             \
    X(steps, "--steps", COUNT, "auto", RUN, "N", "optimizer steps")                                                    \
    X(tokens, "--tokens", COUNT, "auto", RUN, "N", "instead: positions to go through")                                 \
    X(epochs, "--epochs", REAL, "auto", RUN, "N", "instead: passes over the data")                                     \
    X(time, "--time", TEXT, "", RUN, "T", "instead: as many steps as fit into 8h, 90m or 1h30m; they are timed first") \
    X(lora, "--lora", SWITCH, "", RUN, NULL, "train low-rank adapters; the model itself is frozen")                    \
    X(lora_rank, "--lora-rank", COUNT, "auto", RUN, "R", "rank of the adapters (32); implies --lora")                  \
    X(lora_alpha, "--lora-alpha", REAL, "auto", RUN, "A", "scale of the adapters is A / R (2 R)")                      \
    X(lora_targets, "--lora-targets", TEXT, "all", RUN, "LIST", "q,k,v,o,gate,up,down or all")                         \
    X(merge, "--merge", SWITCH, "", FREE, NULL, "also write the model with its adapters added in")                     \
    X(freeze, "--freeze", LIST, "", RUN, "PATTERN", "parameters that are not trained, by name with * and ?")           \
    X(recompute, "--recompute", TEXT, "auto", FREE, "none|block",                                                      \
      "keep less, compute it again; the loss is the same but for rounding")                                            \
    X(head_chunk, "--head-chunk", COUNT, "auto", FREE, "N", "positions whose logits exist at once")                    \
    X(memory_limit, "--memory-limit", TEXT, "auto", FREE, "SIZE",                                                      \
      "what the run may allocate: 22GiB, 500MB; else what the device has free; --micro-batch and --recompute follow")  \
    X(loss_on, "--loss-on", TEXT, "turns", RUN, "turns|all", "train completions and assistant turns, or everything")   \
    X(chat_template, "--chat-template", TEXT, "auto", RUN, "T", "teacher, student or a file")                          \
    X(template_var, "--template-var", LIST, "", RUN, "K=V", "a variable for the chat template")                        \
    X(skip_bad, "--skip-bad", COUNT, "0", RUN, "N", "records at fault that may be skipped")                            \
    X(allow_drop, "--allow-drop", SWITCH, "", RUN, NULL, "go on when more than 5 % of the records do not fit")         \
    X(vocab, "--vocab", COUNT, "auto", RUN, "N", "ids in use, where neither model has a tokenizer")                    \
    X(allow_degenerate, "--allow-degenerate", SWITCH, "", RUN, NULL, "go on when teacher and student are the same")    \
    X(held_out, "--held-out", TEXT, "auto", RUN, "N|P%", "rows, or share of the data, kept for evaluation")            \
    X(eval_every, "--eval-every", TEXT, "5%", RUN, "N|P%", "steps, or share of the run, between evaluations")          \
    X(sample_prompts, "--sample-prompts", TEXT, "auto", FREE, "FILE",                                                  \
      "prompts to continue at each evaluation, a line or a .jsonl record each; none: no samples; "                     \
      "else two held-out texts")                                                                                       \
    X(sample_tokens, "--sample-tokens", COUNT, "64", FREE, "N", "tokens of a sample at most")                          \
    X(save_every, "--save-every", TEXT, "10%", FREE, "N|P%",                                                           \
      "steps, or share of the run, between checkpoints; also "                                                         \
      "every 30 minutes")                                                                                              \
    X(keep, "--keep", COUNT, "2", FREE, "N", "checkpoints kept besides the best")                                      \
    X(save, "--save", TEXT, "best", FREE, "best|last", "which model is written to the root of --out")                  \
    X(save_dtype, "--save-dtype", TEXT, "auto", FREE, "D", "f32, bf16 or f16; as the student was stored")              \
    X(control, "--control", SWITCH, "", FREE, NULL, "then train the same student without the teacher, to compare")     \
    X(dump_step, "--dump-step", COUNT, "auto", FREE, "N", "write all of step N down, for tools/check_step.py")         \
    X(seed, "--seed", COUNT, "0", RUN, "N", "of order and adapters")                                                   \
    X(device, "--device", TEXT, "auto", FREE, "D", "where to run: auto, cpu, cuda or cuda:1; see retort doctor")       \
    X(device_memory, "--device-memory", TEXT, "auto", FREE, "M", "cuda: auto, device or managed memory")               \
    X(kernels, "--kernels", TEXT, "auto", FREE, "K", "cuda: auto, or ptx or ptx75: the embedded PTX")                  \
    X(cublaslt, "--cublaslt", TEXT, "auto", FREE, "FILE", "cuda: the library of products; none: our own kernels")      \
    X(tune, "--tune", SWITCH, "", FREE, NULL,                                                                          \
      "cuda: time the library's algorithms for each product, once, and keep the fastest for later runs")               \
    X(sync, "--sync", SWITCH, "", FREE, NULL, "cuda: every op by itself, so that a fault names its op; slow")          \
    X(threads, "--threads", COUNT, "auto", FREE, "N", "of the processor; changes speed, not results")

typedef enum rt_setting_id {
#define X(field, flag, kind, def, bind, metavar, help) RT_SETTING_ID_##field,
    RT_SETTING_TABLE(X)
#undef X
        RT_SETTING_COUNT_ALL
} rt_setting_id;

#define RT_SETTING_TYPE_TEXT const char *
#define RT_SETTING_TYPE_LIST rt_setting_list
#define RT_SETTING_TYPE_REAL double
#define RT_SETTING_TYPE_COUNT uint64_t
#define RT_SETTING_TYPE_SWITCH bool

typedef struct rt_settings {
#define X(field, flag, kind, def, bind, metavar, help) RT_SETTING_TYPE_##kind field;
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
    const char *metavar, *help;
    uint32_t offset; /* in rt_settings */
} rt_setting_info;
extern const rt_setting_info rt_setting_table[RT_SETTING_COUNT_ALL];

/* Nothing given: all zero. */
void rt_settings_clear(rt_settings *s);
/* From text, as a flag or a file has it; a LIST is appended to. Text must outlive s. RT_USAGE says what was expected.
 */
int rt_settings_set(rt_settings *s, rt_setting_id id, const char *text, rt_err *e);
/* Fixed defaults for what was not given. */
int rt_settings_defaults(rt_settings *s, rt_err *e);
/* The id of a field or flag by name ("kd_weight", "kd-weight", "--kd-weight"); RT_SETTING_COUNT_ALL when there is none.
 */
rt_setting_id rt_setting_find(const char *name);

/* What over gives takes the place of what base has: the command line over a file, what is said now over a resumed run.
 * A list is replaced, not added to. Settings of base that say the same in other words (steps, tokens, epochs, time;
 * weights where over has alpha; held_out and eval_data) are forgotten first. */
void rt_settings_overlay(rt_settings *base, const rt_settings *over);

/* An object with every setting that is given; null when out of memory. */
json_t *rt_settings_to_json(const rt_settings *s);
/* Strings are copied into a. Unknown keys are refused with the nearest known one (RT_INVALID). */
int rt_settings_from_json(rt_settings *s, const json_t *object, rt_arena *a, rt_err *e);
/* Of a resumed run: what differs among the settings that now gives, one line each "flag: was X, now Y" appended to out;
 * returns how many of them are bound to the run. */
uint32_t rt_settings_diff(const rt_settings *was, const rt_settings *now, rt_str *out);

#endif
