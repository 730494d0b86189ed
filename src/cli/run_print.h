/* run_print.h - what a person sees of a run: what it is going to do, a live line, evaluations, the end. */
#ifndef RT_CLI_RUN_PRINT_H
#define RT_CLI_RUN_PRINT_H

#include "job/run/run.h"

typedef struct rt_run_printer {
    bool terminal; /* the line is rewritten; else a plain line now and then */
    bool dirty;    /* the line is there */
    double shown;  /* when a line was last written */
    uint32_t every;
    bool plan; /* what memory it takes is said elsewhere */
} rt_run_printer;

void rt_run_printer_begin(rt_run_printer *p);
/* Fill the events that print. */
rt_run_events rt_run_printer_events(rt_run_printer *p);
void rt_run_print_summary(rt_run_printer *p, const rt_run *r, const rt_run_summary *s, const rt_settings *settings);

/* run_end.c: the closing screen. */
void rt_run_print_end(const rt_run *r, const rt_run_summary *s, const rt_settings *settings);

#endif
