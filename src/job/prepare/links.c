/* links.c - see links.h. */
#include "job/prepare/links.h"

/* Of vendors' data sheets: NVLink 4 has 450 GB/s each way, PCIe 4.0 x16 has 32, of which 25 are had in practice. */
const rt_links rt_links_stated[RT_LINKS] = { { "NVLink, 450 GB/s", 450e9, 3e-6 },
                                             { "PCIe 4, 25 GB/s", 25e9, 5e-6 },
                                             { "100 Gbit/s", 12.5e9, 20e-6 } };

double rt_links_bytes(double bytes, uint32_t ranks) { return ranks < 2 ? 0 : bytes * (ranks - 1) / ranks; }

double rt_links_seconds(const rt_links *l, double bytes, uint32_t calls, uint32_t ranks)
{
    if (ranks < 2) return 0;
    return rt_links_bytes(bytes, ranks) / l->rate + (double)calls * (ranks - 1) * l->hop;
}

rt_links_result rt_links_of(const rt_links *l, const rt_links_step *s, uint32_t ranks)
{
    const double compute = s->forward + s->backward + s->update, begin = s->forward, end = begin + s->backward;
    const uint32_t passes = s->weights > 0 ? 1 : 2; /* a sharded sum stays where it is, and weights are gathered */
    const double even = (s->gradient - s->last) / s->buckets;
    double link = begin; /* free from then on */
    rt_links_result r = { .sent = passes * rt_links_bytes(s->gradient, ranks) + rt_links_bytes(s->weights, ranks) };
    for (uint32_t i = 0; i <= s->buckets; i++) {
        const int late = i == s->buckets || !s->overlaps;
        const double ready = late ? end : begin + s->backward * (i + 1) / s->buckets;
        const double bytes = i == s->buckets ? s->last : even;
        const double took = bytes > 0 ? passes * rt_links_seconds(l, bytes, 1, ranks) : 0;
        link = (link > ready ? link : ready) + took;
        r.comm += took;
    }
    const double gather = s->weights > 0 ? rt_links_seconds(l, s->weights, 1, ranks) : 0;
    r.comm += gather;
    r.total = (link > end ? link : end) + s->update + gather;
    r.hidden = r.comm > 0 ? 1 - (r.total - compute) / r.comm : 1;
    r.efficiency = r.total > 0 ? compute / r.total : 1;
    return r;
}
