/* falsifiers.c - the claims of a run, each against what was measured. See evidence.h; contracts/ has them in words.
 *
 * Every function writes what was measured into f->measured and returns its verdict. What was not measured is never a
 * pass, and a number that is not finite passes nothing: each comparison is written so that NaN fails it. */
#include "evidence/evidence.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = { "pass", "fail", "not measured" };
const char *rt_verdict_name(rt_verdict v) { return names[v]; }

static rt_verdict say(rt_finding *f, rt_verdict v, const char *format, ...) __attribute__((format(printf, 3, 4)));
static rt_verdict say(rt_finding *f, rt_verdict v, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(f->measured, sizeof f->measured, format, args);
    va_end(args);
    return v;
}

static rt_verdict pass_if(bool ok) { return ok ? RT_VERDICT_PASS : RT_VERDICT_FAIL; }

/* ---- held-out measures ---- */

/* The loss as trained. Errors of the parts are over the same documents, so at worst they add up. */
static rt_measure loss_of(const rt_evidence *v, const rt_eval_result *r)
{
    double ce = fabs(v->ce_weight), kd = fabs(v->kd_weight);
    rt_measure m = { v->ce_weight * r->ce.mean, ce * r->ce.error, ce * r->ce.paired };
    if (v->teacher) {
        m.mean += v->kd_weight * r->div.mean;
        m.error += kd * r->div.error;
        m.paired += kd * r->div.paired;
    }
    return m;
}

/* Whether two evaluations can be compared at all; if not, why. */
static bool comparable(const rt_evidence *v, rt_finding *f, rt_verdict *why)
{
    if (!v->has_first) {
        *why = say(f, RT_VERDICT_NOT_MEASURED, "nothing was measured before the first step");
    } else if (v->first.positions != v->saved.positions || v->first.documents != v->saved.documents) {
        *why = say(f, RT_VERDICT_FAIL,
                   "the batches are not the same: %" PRIu64 " positions of %" PRIu64 " documents before, %" PRIu64
                   " of %" PRIu64 " after",
                   v->first.positions, v->first.documents, v->saved.positions, v->saved.documents);
    } else if (v->saved.documents < 2) {
        *why = say(f, RT_VERDICT_NOT_MEASURED, "%" PRIu64 " held-out document gives no standard error; hold out more",
                   v->saved.documents);
    } else if (v->saved.ce.paired > 0 &&
               v->saved.documents < RT_DOCUMENTS_LEAST) { /* older runs: as they were judged */
        *why = say(f, RT_VERDICT_NOT_MEASURED, "%" PRIu64 " held-out documents are too few to tell; %d would do",
                   v->saved.documents, RT_DOCUMENTS_LEAST);
    } else
        return true;
    return false;
}

static rt_verdict loss_fell(const rt_evidence *v, rt_finding *f)
{
    rt_verdict why;
    if (!comparable(v, f, &why)) return why;
    rt_measure a = loss_of(v, &v->first), b = loss_of(v, &v->saved);
    return say(f, pass_if(rt_measure_fell(a, b)), "%.6f before, %.6f after; two standard errors are %.6f", a.mean,
               b.mean, 2 * rt_change_error(a, b));
}

static rt_verdict agreement_rose(const rt_evidence *v, rt_finding *f)
{
    rt_verdict why;
    if (!comparable(v, f, &why)) return why;
    rt_measure a = v->first.agreement, b = v->saved.agreement;
    return say(f, pass_if(rt_measure_rose(a, b)),
               "the first choice is the teacher's at %.4f of the positions before, %.4f after; two standard errors are "
               "%.4f",
               a.mean, b.mean, 2 * rt_change_error(a, b));
}

/* ---- the pair ---- */

static rt_verdict teacher_differs(const rt_evidence *v, rt_finding *f)
{
    char a[33], b[33];
    rt_hash_text(a, v->student_hash);
    rt_hash_text(b, v->teacher_hash);
    if (rt_hash_equal(v->student_hash, v->teacher_hash))
        return say(f, RT_VERDICT_FAIL, "both hold the same values, %s: there is nothing to learn", a);
    if (!v->has_first)
        return say(f, RT_VERDICT_NOT_MEASURED, "the values differ, but nothing was measured before the first step");
    return say(f, pass_if(v->first.kl.mean > 0), "student %s, teacher %s, KL %.6f before the first step", a, b,
               v->first.kl.mean);
}

static rt_verdict vocab_aligned(const rt_evidence *v, rt_finding *f)
{
    if (!v->vocab_measured)
        return say(f, RT_VERDICT_NOT_MEASURED,
                   "no two tokenizers to compare; %" PRIu32 " ids were taken for the same because --vocab says so",
                   v->vocab_common);
    return say(f, pass_if(v->vocab_common > 1),
               "%" PRIu32 " ids have the same bytes in both tokenizers; %" PRIu32
               " special ids differ and are left out of the divergence",
               v->vocab_common, v->vocab_special);
}

/* ---- training ---- */

static rt_verdict groups_moved(const rt_evidence *v, rt_finding *f)
{
    uint32_t tensors = 0;
    double least = INFINITY;
    for (uint32_t i = 0; i < v->moved.count; i++) {
        const rt_moved_group *g = &v->moved.list[i];
        if (g->moved != g->trained)
            return say(f, RT_VERDICT_FAIL, "%s: %" PRIu32 " of %" PRIu32 " tensors did not move", g->name,
                       g->trained - g->moved, g->trained);
        if (g->broken)
            return say(f, RT_VERDICT_FAIL, "%s: %" PRIu32 " of %" PRIu32 " frozen tensors moved", g->name, g->broken,
                       g->frozen);
        tensors += g->trained;
        if (g->trained && !(g->change >= least)) least = g->change;
    }
    if (!tensors) return say(f, RT_VERDICT_FAIL, "nothing was trained");
    return say(f, pass_if(isfinite(least)),
               "all of %" PRIu32 " tensors in %" PRIu32 " groups; the least change is %.3g of a group's size", tensors,
               v->moved.count, least);
}

static rt_verdict rows_trained(const rt_evidence *v, rt_finding *f)
{
    const rt_row_totals *a = &v->data, *b = &v->lines;
    bool same = a->rows == b->rows && a->tokens == b->tokens && a->trained == b->trained;
    if (same && a->trained)
        return say(f, RT_VERDICT_PASS,
                   "%" PRIu64 " rows, %" PRIu64 " tokens, %" PRIu64 " of them trained: by the data and by the log",
                   a->rows, a->tokens, a->trained);
    return say(f, RT_VERDICT_FAIL,
               "the data gave %" PRIu64 " rows, %" PRIu64 " tokens, %" PRIu64 " to train; the log has %" PRIu64
               " rows, %" PRIu64 " tokens, %" PRIu64 " trained",
               a->rows, a->tokens, a->trained, b->rows, b->tokens, b->trained);
}

enum { MEMORY_SLACK = 64 << 20 };

/* On a device the driver counts all programs together. What it counts within the plan is proof; what it counts beyond
 * may be somebody else's, so that only what this process asked for itself is a failure. */
static rt_verdict device_held(const rt_evidence *v, rt_finding *f)
{
    char a[32], b[32], c[32], d[32];
    uint64_t most = v->planned + v->planned / 20 + MEMORY_SLACK;
    rt_format_bytes(a, v->planned);
    rt_format_bytes(b, v->held);
    rt_format_bytes(c, v->code);
    rt_format_bytes(d, v->own);
    if (!v->planned || v->own > most)
        return say(f, RT_VERDICT_FAIL, "%s planned, %s allocated on the device at the end", a, d);
    if (v->held > most + v->code)
        return say(f, RT_VERDICT_NOT_MEASURED,
                   "%s planned, %s allocated and %s of code, but %s more of the device are in use than when it was "
                   "opened: another program uses it too, or a library took them",
                   a, d, c, b);
    return say(f, RT_VERDICT_PASS,
               "%s planned, %s allocated; by the driver %s of the device at the end, %s of code in it", a, d, b, c);
}

static rt_verdict memory_held(const rt_evidence *v, rt_finding *f)
{
    char a[32], b[32];
    if (v->held && v->own) return device_held(v, f);
    rt_format_bytes(a, v->planned);
    rt_format_bytes(b, v->held);
    if (!v->held) return say(f, RT_VERDICT_NOT_MEASURED, "%s planned; what the device holds was not asked", a);
    return say(f, pass_if(v->planned && v->held <= v->planned + v->planned / 20 + MEMORY_SLACK),
               "%s planned and allocated, %s in the process at the end", a, b);
}

/* ---- the output ---- */

/* One unit in the last place of the saved dtype. The same weights in f32 give the same CE but for the order of sums. */
double rt_reload_tolerance(rt_dtype d) { return d == RT_DTYPE_BF16 ? 0x1p-7 : d == RT_DTYPE_F16 ? 0x1p-10 : 1e-6; }

static rt_verdict output_reloads(const rt_evidence *v, rt_finding *f)
{
    const rt_output_difference *d = &v->difference;
    const char *dtype = rt_dtype_name(v->saved_dtype);
    if (!v->output_values || v->output_values != v->wanted_values)
        return say(f, RT_VERDICT_FAIL, "%" PRIu64 " values are in the files, and %" PRIu64 " should be",
                   v->output_values, v->wanted_values);
    if (d->unequal)
        return say(f, RT_VERDICT_FAIL,
                   "%" PRIu64 " of %" PRIu64
                   " values are not the trained ones rounded to %s; the worst is off by %.3g, "
                   "in %s",
                   d->unequal, d->values, dtype, d->max, d->worst);
    if (!v->has_logged)
        return say(f, RT_VERDICT_NOT_MEASURED, "step %" PRIu32 " has no evaluation to compare with", v->saved_step);
    double a = v->logged.ce.mean, b = v->saved.ce.mean;
    bool close = fabs(a - b) <= rt_reload_tolerance(v->saved_dtype) * (1 + fabs(a));
    if (!d->values)
        return say(f, pass_if(close),
                   "%" PRIu64 " values in %s; held-out CE %.6f when step %" PRIu32 " was logged, %.6f from the files",
                   v->output_values, dtype, a, v->saved_step, b);
    return say(f, pass_if(close),
               "all of %" PRIu64 " trained values are those in memory rounded to %s; held-out CE %.6f in memory, %.6f "
               "from the files",
               d->values, dtype, a, b);
}

/* ---- the table ---- */

void rt_falsify(rt_findings *out, const rt_evidence *v)
{
    static const struct {
        const char *id, *claim;
        char when;
        rt_verdict (*judge)(const rt_evidence *v, rt_finding *f);
    } table[] = {
#define X(id, function, when, claim) { id, claim, when, function },
        RT_FALSIFIER_LIST(X)
#undef X
    };
    *out = (rt_findings){ 0 };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].when == 'd' && !v->teacher) continue;
        rt_finding *f = &out->list[out->count++];
        f->id = table[i].id;
        f->claim = table[i].claim;
        f->verdict = table[i].judge(v, f);
        out->of[f->verdict]++;
    }
}
