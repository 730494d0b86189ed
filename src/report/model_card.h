/* model_card.h - README.md of a trained model: what it is, what it was distilled from, what was measured, how to load
 * it.
 *
 * Owns: the text, with the front matter that Hugging Face reads. Models and data stand in it by name and never by path;
 * a base model and data that the hub has stand by their id there; a licence is the one that the student's own card
 * names, else left out. Nothing in it depends on when or where it was written. */
#ifndef RT_REPORT_MODEL_CARD_H
#define RT_REPORT_MODEL_CARD_H

#include "base/str.h"
#include "format/metrics.h"
#include "settings/settings.h"

/* A source of data. */
typedef struct rt_card_source {
    const char *name; /* of the file or folder, or org/name */
    bool hub;         /* it is org/name, with or without @revision */
    uint64_t records;
    double weight;
} rt_card_source;

/* One of several teachers, and its share of the mixture: "0.7", "1 of code.jsonl". */
typedef struct rt_card_teacher {
    const char *name, *share;
} rt_card_teacher;

typedef struct rt_card {
    const char *student, *teacher;   /* names; teacher null: none */
    const rt_card_teacher *teachers; /* (teacher_count) where there are several, that one first */
    uint32_t teacher_count;
    const char *hub;                   /* org/name of the student as it began; null: not known */
    const char *license;               /* as the student's card names it; null: not known */
    bool from_random;                  /* the student began as random weights, so it has no base model */
    bool tokenizer, chat;              /* the output has a tokenizer, a chat template */
    const char *version;               /* of retort */
    const rt_card_source *data, *eval; /* trained on; measured on, where that is other data */
    uint32_t data_count, eval_count;
    uint64_t held, copies; /* records of data that were held out, and copies of them that were left out; 0: none */
    /* what was measured */
    const char *part_names[RT_EVAL_PARTS]; /* of the parts of saved, without paths */
    rt_eval_result before, saved;          /* saved: of the files, loaded again */
    uint32_t saved_step;
    bool is_best;
    uint64_t tokens, trained; /* positions gone through, and of them trained */
    /* how it was trained */
    const rt_settings *settings; /* as resolved; with adapters and --merge the folder merged/ is there too */
    uint32_t steps, warmup;
    double beta1, beta2;
} rt_card;

/* Errors are sticky in out. */
void rt_model_card(rt_str *out, const rt_card *c);
/* Of a model that is no run's: the student's name, hub, from_random, tokenizer and chat alone are looked at. */
void rt_model_card_plain(rt_str *out, const rt_card *c);

#endif
