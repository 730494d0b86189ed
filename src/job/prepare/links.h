/* links.h - what ranks send one another in a step, and how long that takes: arithmetic from stated rates.
 *
 * Owns: the cost of a ring's collectives and what backward hides of them. Pure functions; nothing is measured. */
#ifndef RT_JOB_LINKS_H
#define RT_JOB_LINKS_H

#include <stdint.h>

/* Of a ring in which every rank sends to the next while it hears from the one before. */
typedef struct rt_links {
    const char *name;
    double rate; /* bytes a second that a rank sends, at most as many as its slowest link takes */
    double hop;  /* seconds until a small message is at the next rank */
} rt_links;

/* Those that plans are printed for: of one machine, of two kinds, and of a network. */
enum { RT_LINKS = 3 };
extern const rt_links rt_links_stated[RT_LINKS];

/* reduce_scatter or all_gather of so many bytes among ranks, so many times; an all_reduce is both. */
double rt_links_bytes(double bytes, uint32_t ranks); /* that each rank sends */
double rt_links_seconds(const rt_links *l, double bytes, uint32_t calls, uint32_t ranks);

/* A step on each rank. Gradients are ready bucket after bucket while backward computes, evenly, but for those that are
 * ready last (a tied embedding). */
typedef struct rt_links_step {
    double forward, backward, update; /* seconds of computation; forward: the teacher's too */
    double gradient, last;            /* bytes; of them ready when backward ends */
    double weights;                   /* bytes that are gathered after the update; 0: none are */
    uint32_t buckets;
    int overlaps; /* 1: a bucket is added up as soon as it is ready; 0: all when backward has ended */
} rt_links_step;
typedef struct rt_links_result {
    double sent;       /* bytes of each rank */
    double comm;       /* seconds of communication alone */
    double total;      /* of the step */
    double hidden;     /* share of comm; 1: there is none */
    double efficiency; /* computation's share of the step: of so many ranks so many times this are gained */
} rt_links_result;
rt_links_result rt_links_of(const rt_links *l, const rt_links_step *s, uint32_t ranks);

#endif
