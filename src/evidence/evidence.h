/* evidence.h - what was measured of a run, and what that says about its claims.
 *
 * Owns: the facts (rt_evidence), the one table of falsifiers over them, and both as JSON. A falsifier is a pure
 * function of the facts, so a run and `retort verify RUN` judge by the same code, and a test can plant a defect in the
 * facts. What the falsifiers claim, and which test runs each, stands in contracts/. How facts are gathered: manifest.c
 * while a run goes on, audit.c afterwards. docs/evidence.md has the files field by field. */
#ifndef RT_EVIDENCE_EVIDENCE_H
#define RT_EVIDENCE_EVIDENCE_H

#include "base/hash.h"
#include "format/metrics.h"
#include "format/model_file.h"
#include "num/dtype.h"

/* Parameters of one kind, all layers together; the two halves of adapters apart. */
typedef struct rt_moved_group {
    char name[RT_NAME_BYTES]; /* "self_attn.q_proj.bias", "mlp.up_proj.lora_A.weight" */
    uint32_t trained, moved;  /* tensors that are trained; of them those that have moved */
    uint32_t frozen, broken;  /* tensors that are not; of them those that have moved all the same */
    double change;            /* |after - before| / |before| over the trained; |after| where before is all 0 */
} rt_moved_group;

enum { RT_MOVED_GROUPS = 3 * RT_ROLE_COUNT };
typedef struct rt_moved_list {
    rt_moved_group list[RT_MOVED_GROUPS];
    uint32_t count;
} rt_moved_list;

/* Counted twice: by the data when rows were read, and by the lines of metrics.jsonl. */
typedef struct rt_row_totals {
    uint64_t rows, tokens, trained;
} rt_row_totals;

typedef struct rt_evidence {
    bool teacher;                /* distilled; else trained on text alone */
    double ce_weight, kd_weight; /* of the loss; kd_weight with T^2 in it */
    rt_eval_result first;        /* before the first step */
    rt_eval_result logged;       /* of the step that was saved, as it was logged then */
    rt_eval_result saved;        /* of the model at the root, loaded again from its files */
    bool has_first, has_logged;
    uint32_t steps, saved_step;
    uint32_t stopped_of; /* steps that it would have had: --stop-if-worse ended it; 0: it came to its last step */
    rt_hash128 student_hash, teacher_hash; /* of the values, before the first step */
    bool vocab_measured;                   /* two tokenizers were compared id by id */
    uint32_t vocab_common, vocab_special;  /* ids in common; special ids that differ, left out */
    rt_moved_list moved;
    rt_row_totals data, lines;
    uint64_t planned, held; /* bytes: allocated by plan; resident in the process at the end, 0: not known */
    /* Of a device with memory of its own, where held is what all programs together took of it since it was opened; of
     * that code and what this process allocated by its own count. own 0: held is of this process. */
    uint64_t code, own;
    rt_output_difference difference; /* between memory and the files; values 0: not measured */
    rt_dtype saved_dtype;
    uint64_t output_values, wanted_values; /* in the files at the root; that should be there */
} rt_evidence;

/* How many steps its settings and its data ask for. */
static inline uint32_t rt_evidence_steps_meant(const rt_evidence *v)
{
    return v->stopped_of ? v->stopped_of : v->steps;
}

typedef enum rt_verdict { RT_VERDICT_PASS, RT_VERDICT_FAIL, RT_VERDICT_NOT_MEASURED } rt_verdict;
const char *rt_verdict_name(rt_verdict v); /* "pass", "fail", "not measured" */

/* id, function, 'd' with a teacher alone or 'a' in any run, claim */
#define RT_FALSIFIER_LIST(X)                                                                                           \
    X("F-DISTILL-SMOKE-001", loss_fell, 'a',                                                                           \
      "the held-out loss fell by more than two standard errors, on the same batches")                                  \
    X("F-DISTILL-KD-002", agreement_rose, 'd',                                                                         \
      "agreement with the teacher rose by more than two standard errors, on the same batches")                         \
    X("F-DISTILL-V2-001-TEACHER-DIVERGENCE", teacher_differs, 'd', "the teacher is not the student itself")            \
    X("FT-VOCAB-ALIGN-005", vocab_aligned, 'd', "teacher and student mean the same by every id that they share")       \
    X("F-RUN-MOVED-001", groups_moved, 'a',                                                                            \
      "every group of trained parameters moved, by more than weight decay moves it, and no frozen one did")            \
    X("DBH-001", rows_trained, 'a', "what was trained is what was logged, in rows, tokens and trained positions")      \
    X("F-PLAN-MEMORY-001", memory_held, 'a',                                                                           \
      "the planned memory held, and the process took no more than 5 % + 64 MiB beyond it")                             \
    X("F-OUTPUT-RELOAD-001", output_reloads, 'a', "the files at the root, loaded again, are the model that was trained")

enum {
#define X(id, function, when, claim) RT_FALSIFIER_##function,
    RT_FALSIFIER_LIST(X)
#undef X
        RT_FALSIFIER_COUNT
};

typedef struct rt_finding {
    const char *id, *claim;
    rt_verdict verdict;
    char measured[400]; /* for a person, with the numbers */
} rt_finding;

typedef struct rt_findings {
    rt_finding list[RT_FALSIFIER_COUNT];
    uint32_t count;
    uint32_t of[3]; /* by verdict */
} rt_findings;

/* Those falsifiers that apply to the run, in the order of the table. */
void rt_falsify(rt_findings *out, const rt_evidence *v);

/* How far CE of the files may be from the logged one, relative to 1 + CE: what rounding the weights does. */
double rt_reload_tolerance(rt_dtype saved);

/* ---- as JSON (evidence_json.c) ---- */

/* list, or null when it has not so many elements: one was lost for want of memory. Takes the reference. */
json_t *rt_json_complete(json_t *list, size_t count);

/* verdict.json: {"falsifiers": [...]}; null when out of memory. */
json_t *rt_findings_to_json(const rt_findings *f);
/* What is not in the metrics and cannot be had from the settings: "measured" of manifest.json. Null: no memory. */
json_t *rt_evidence_to_json(const rt_evidence *v);
/* names of groups live as long as j. RT_FORMAT when a fact is missing or is not what it should be. */
int rt_evidence_from_json(rt_evidence *v, const json_t *j, rt_err *e);
/* A whole number of a line of metrics.jsonl; 0 where it has none above that. */
uint64_t rt_line_count(const json_t *line, const char *key);
/* Evaluations and sums from one line of metrics.jsonl after another; other lines are left out. Needs saved_step. */
void rt_evidence_take_line(rt_evidence *v, const json_t *line);

/* ---- manifest.json, for those who write it (job/run/run_evidence.c) and who read it (manifest.c, audit.c) ---- */

#define RT_MANIFEST_FORMAT "retort.manifest.1"
#define RT_MANIFEST_OTHERS "other_teachers" /* those besides "teacher", in the order in which they were named */
#define RT_MANIFEST_CONTROL                                                                                            \
    "control" /* below root: a run of its own, whose manifest's checksum stands under this key */
/* Settings as the manifest has them: models by their names, and of every path only what follows its last slash. Takes
 * the reference; null when out of memory. teacher null: none; several stay as they were named. */
json_t *rt_manifest_settings(json_t *settings, const char *student, const char *teacher);
/* Where one of the other teachers of a manifest is the student, the claim that the teacher is another is about that. */
void rt_manifest_suspect(const json_t *manifest, rt_evidence *v);
/* Of those settings that a resumed run must keep. */
int rt_manifest_bound_hash(const json_t *settings, rt_hash128 *out, rt_err *e);
/* {"config.json": hash, "run/metrics.jsonl": hash, ...}: every file below root that a run's evidence stands on. Left
 * out are manifest.json itself, what is made anew from the rest (report.html, compare.html) or goes on after the end
 * (log.txt), the control, which has a manifest, and of a checkpoint all but state.json, which has the hashes of its
 * other files. own: {name: ...} of the files outside of root/run that the run wrote; what others put there is not
 * listed. Null: all. */
int rt_manifest_files(json_t *out, const char *root, const json_t *own, rt_err *e);
/* The model at the root of a run: the model itself, or its adapters. */
int rt_manifest_output(rt_model_file **out, const char *root, bool adapters, rt_err *e);

#endif
