/* manifest.h - what manifest.json is made of, for those who write it (job/run/run_evidence.c) and who read it
 * (audit.c). */
#ifndef RT_EVIDENCE_MANIFEST_H
#define RT_EVIDENCE_MANIFEST_H

#include "format/model_file.h"

#include <jansson.h>

#define RT_MANIFEST_FORMAT "retort.manifest.1"

/* Settings as the manifest has them: models by their names, and of every path only what follows its last slash. Takes
 * the reference; null when out of memory. teacher null: none. */
json_t *rt_manifest_settings(json_t *settings, const char *student, const char *teacher);
/* Of those settings that a resumed run must keep. */
int rt_manifest_bound_hash(const json_t *settings, rt_hash128 *out, rt_err *e);

/* {"config.json": hash, "run/metrics.jsonl": hash, ...}: every file below root that a run's evidence stands on. Left
 * out are manifest.json itself, what is made anew from the rest (report.html, compare.html) or goes on after the end
 * (log.txt), and of a checkpoint all but state.json, which has the hashes of its other files. */
int rt_manifest_files(json_t *out, const char *root, rt_err *e);

/* The model at the root of a run: the model itself, or its adapters. */
int rt_manifest_output(rt_model_file **out, const char *root, bool adapters, rt_err *e);

#endif
