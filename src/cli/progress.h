/* progress.h - how far a long command is, on standard error, and the wish to stop.
 *
 * Nothing is shown in the first second. Then one line that is rewritten on a terminal, else one line for every tenth.
 */
#ifndef RT_CLI_PROGRESS_H
#define RT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rt_progress {
    char what[32]; /* the part of the work that is running */
    double start;  /* of that part */
    double shown;  /* when a line was last written */
    int tenth;
    bool terminal, dirty;
} rt_progress;

/* From now on an interrupt (Ctrl-C, SIGTERM, SIGHUP) is remembered and not obeyed at once; a second one is. */
void rt_interrupt_catch(void);
bool rt_interrupt_wanted(void);

void rt_progress_begin(rt_progress *p);
/* done of total bytes or whatever is counted; what: "writing". RT_INTERRUPTED when the user wants to stop. Fits
 * rt_convert_progress_fn. */
int rt_progress_step(void *progress, const char *what, uint64_t done, uint64_t total);
/* Clears the line. */
void rt_progress_end(rt_progress *p);

#endif
