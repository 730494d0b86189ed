/* recompute.h - what a run computes again for backward: layers counted per level, in words and spread over the layers.
 *
 * Owns: the spelling of --recompute, and which layers a count means. Layers of a decoder are alike, so counts are
 * enough. The layers that compute most again are the lowest: the arena is fullest when backward begins, with what every
 * layer has kept alive and, beside it, what the last layer needs for its own backward. A layer that computes its block
 * again needs memory for that; the lowest do so last, when what the layers above had kept is free. */
#ifndef RT_TRAIN_RECOMPUTE_H
#define RT_TRAIN_RECOMPUTE_H

#include "model/decoder.h"

enum { RT_RECOMPUTE_LEVELS = RT_RECOMPUTE_BLOCK + 1, RT_RECOMPUTE_TEXT = 64 };
#define RT_RECOMPUTE_ALL UINT32_MAX /* every layer, however many there are */

/* Layers at each level, of those that backward reaches; the rest are RT_RECOMPUTE_NONE, whose own count is 0, or
 * RT_RECOMPUTE_NOTHING. */
typedef struct rt_recompute_counts {
    uint32_t count[RT_RECOMPUTE_LEVELS];
    uint32_t keep; /* 1: the rest keep their norms and activations too */
} rt_recompute_counts;

/* Every layer at one level. */
rt_recompute_counts rt_recompute_every(rt_recompute r);
bool rt_recompute_same(const rt_recompute_counts *a, const rt_recompute_counts *b);
/* Layers that are named; RT_RECOMPUTE_ALL where every one is. */
uint32_t rt_recompute_named(const rt_recompute_counts *c);
/* "keep", "none", "norms", "mlp", "block": every layer; "block:14,norms:10": so many, in any order. */
bool rt_recompute_parse(const char *text, rt_recompute_counts *out);
char *rt_recompute_text(char buf[RT_RECOMPUTE_TEXT], const rt_recompute_counts *c);
/* out (layers): from layer `lowest` up those of the highest level first. */
void rt_recompute_levels(const rt_recompute_counts *c, uint32_t lowest, uint32_t layers, rt_recompute *out);

#endif
