/* preview_print.h - the preview of a run on the screen: objective, data, overlap, samples with their mask. */
#ifndef RT_CLI_PREVIEW_PRINT_H
#define RT_CLI_PREVIEW_PRINT_H

#include "job/run/run.h"

/* colour: what is trained is bright and what is masked dim; else what is trained stands in [[ ]]. */
void rt_preview_print(const rt_run *r, bool colour);

#endif
