"""gpu_table.py - what is asked of the GPU, and the tables that set it beside what was measured.

Owns: the figures that are asked, and judging. Takes the results that bench_gpu.py gathers (one dict, as in its JSON) and
measures nothing. A row that was not measured is never ok.
"""
import statistics

GIB = 2 ** 30
COPY_SHARE = 0.75              # of the copy rate, for every op that is bound by memory
HEAD_TFLOPS, HEAD_SCRATCH = 450, 1.5e9
STEP_RATIO = 1.2               # first step beside the tenth
ARITHMETIC = ("matmul", "matmul_scaled", "attn_fwd", "attn_bwd")
LEAST_BYTES = 1e6              # an op that moves less is a handful of numbers and has no rate

# A case is a pair of models and a batch. `limit` is what --memory-limit gets in the run that is judged.
CASES = {
    "1.5b 16x512": dict(text="1.5B to 0.5B, 16 x 512", teacher="1.5b", batch=16, seq=512, limit="15GiB", ratio=1.0,
                        memory=15 * GIB, first=10.0),
    "7b-q4 16x512": dict(text="7B Q4_K_M to 0.5B, 16 x 512", teacher="7b", batch=16, seq=512, limit="16GiB", ratio=1.0,
                         memory=16 * GIB, first=15.0),
    "1.5b 4x2048": dict(text="1.5B to 0.5B, 4 x 2048", teacher="1.5b", batch=4, seq=2048, limit="", ratio=1.0),
}
LONG = dict(text="7B Q4_K_M to 0.5B, 32 x 2048", name="7b-q4 32x2048", batch=32, seq=2048, limit="22GiB", ratio=0.9)
REFUSED_EXIT = 13


class Row:
    """One line of the table. ok: None when it was not measured; case: the one that it is of, if any."""

    def __init__(self, part, what, measured, asked, ok, case=None):
        self.part, self.what, self.measured, self.asked, self.ok, self.case = part, what, measured, asked, ok, case

    def verdict(self):
        return "not measured" if self.ok is None else "ok" if self.ok else "SHORT"


# ---- steps ----------------------------------------------------------------------------------------------------------

def runs_of(results, case, limit):
    return [r for r in results.get("runs", []) if r["case"] == case and r["limit"] == limit and r["steps"]]


def rate(runs):
    """Tokens a second over every step but the first of each run, the middle one."""
    seconds = [s for r in runs for s in r["steps"][1:]]
    return runs[0]["tokens"] / statistics.median(seconds) if seconds else None


def best_peer(results, case):
    peers = [p for p in results.get("peers", []) if p["case"] == case and "tok_s" in p]
    return max(peers, key=lambda p: p["tok_s"]) if peers else None


def judge_case(results, name):
    case = CASES[name]
    runs = runs_of(results, name, case["limit"])
    text = case["text"] + (f", limit {case['limit']}" if case["limit"] else "")
    speed, peer = (rate(runs) if runs else None), best_peer(results, name)
    measured = f"{speed:,.0f} tokens/s" if speed else "-"
    asked = f">= {case['ratio']:.1f} x PyTorch"
    ok = None
    if peer:
        asked += f" ({peer['variant']}: {peer['tok_s']:,}, {peer['peak_gib']:.1f} GiB)"
    if speed and peer:
        measured += f", {speed / peer['tok_s']:.2f} x"
        ok = speed >= case["ratio"] * peer["tok_s"]
    yield Row("peer", text, measured, asked, ok, name)
    if "memory" in case:
        most = max((r["memory"] for r in runs), default=None)
        yield Row("steps", text + ": memory", f"{most / GIB:.2f} GiB" if most else "-",
                  f"<= {case['memory'] / GIB:.0f} GiB", most <= case["memory"] if most else None, name)
    if "first" in case:
        first = statistics.median(r["first"] for r in runs) if runs else None
        yield Row("steps", text + ": process start to the end of step 1", f"{first:.1f} s" if runs else "-",
                  f"<= {case['first']:.0f} s", first <= case["first"] if runs else None, name)
    tenth = [r["steps"][0] / r["steps"][9] for r in runs if len(r["steps"]) >= 10]
    ratio = statistics.median(tenth) if tenth else None
    yield Row("steps", text + ": step 1 beside step 10", f"{ratio:.2f} x" if tenth else "-", f"<= {STEP_RATIO} x",
              ratio <= STEP_RATIO if tenth else None, name)


def judge_long(results):
    free, held = runs_of(results, LONG["name"], ""), runs_of(results, LONG["name"], LONG["limit"])
    text = f"{LONG['text']}, limit {LONG['limit']}"
    if free and held:
        a, b = rate(held), rate(free)
        yield Row("long", text, f"{a:,.0f} tokens/s, {a / b:.2f} x of {b:,.0f} without limit",
                  f">= {LONG['ratio']} x without limit", a >= LONG["ratio"] * b)
    else:
        yield Row("long", text, "-", f">= {LONG['ratio']} x without limit", None)
    refused = results.get("refusal")
    what = f"7B to 1.5B in full, limit {LONG['limit']}: refused with what fits"
    if refused:
        ok = refused["exit"] == REFUSED_EXIT and "what fits: --" in refused["message"]
        yield Row("refusal", what, f"exit {refused['exit']}", f"exit {REFUSED_EXIT}, an offer", ok)
    else:
        yield Row("refusal", what, "-", f"exit {REFUSED_EXIT}, an offer", None)


def judge_loads(results):
    late = [r["late"] for r in results.get("runs", [])]
    known = late and all(n is not None for n in late)
    yield Row("steps", "compiled or loaded after seal, all runs", f"{sum(late)} in {len(late)} runs" if known else "-",
              "0", sum(late) == 0 if known else None)


# ---- kernels --------------------------------------------------------------------------------------------------------

def judge_head(results):
    for teacher in (1536, 3584):
        rows = [h for h in results.get("head", []) if h["teacher"] == teacher]
        peers = [p for p in results.get("peer_head", []) if p["Ct"] == teacher]
        beside = f" (Liger: {peers[-1]['tflops']}, {peers[-1]['transient_gib']:.2f} GiB)" if peers else ""
        text = f"kd head {teacher}/896, 8,192 tokens, 151,936 ids"
        if not rows:
            yield Row("head", text, "-", f">= {HEAD_TFLOPS} TFLOP/s, <= {HEAD_SCRATCH / 1e9} GB", None)
            continue
        h = rows[-1]
        tflops = h["flops"] / h["seconds"] / 1e12
        yield Row("head", text, f"{tflops:.0f} TFLOP/s, {h['seconds'] * 1e3:.2f} ms", f">= {HEAD_TFLOPS}{beside}",
                  tflops >= HEAD_TFLOPS)
        yield Row("head", text + ": scratch",
                  f"{h['scratch'] / 1e9:.2f} GB, and {h['gradients'] / 1e9:.2f} of gradients",
                  f"<= {HEAD_SCRATCH / 1e9} GB", h["scratch"] <= HEAD_SCRATCH)


def distinct_ops(results, gemm="default"):
    """Ops by name and shape, in the order measured; one that is in several steps has the middle of its times. `copy` is
    the rate of the copy in the process that measured it."""
    same = {}
    for name, step in results.get("ops", {}).items():
        for o in step["rows"] if name.endswith("/" + gemm) else []:
            same.setdefault((o["op"], o["what"]), []).append(dict(o, copy=step["copy"]))
    for rows in same.values():
        yield sorted(rows, key=lambda o: o["seconds"])[len(rows) // 2]


def judge_kernels(results):
    ops = [o for o in distinct_ops(results) if o["op"] not in ARITHMETIC and o["bytes"] >= LEAST_BYTES]
    if not ops:
        yield Row("kernels", "ops bound by memory", "-", f">= {COPY_SHARE:.0%} of the copy", None)
    for o in ops:
        gbs, copy = o["bytes"] / o["seconds"] / 1e9, o["copy"]
        yield Row("kernels", f"{o['op']} {o['what']}",
                  f"{o['count']} x {o['seconds'] * 1e6:,.1f} us, {gbs:,.0f} GB/s, {gbs / copy:.2%}",
                  f">= {COPY_SHARE:.0%} of {copy:,.0f} GB/s", gbs >= COPY_SHARE * copy)


def judge(results):
    """Every row that is asked for."""
    for name in CASES:
        yield from judge_case(results, name)
    yield from judge_long(results)
    yield from judge_loads(results)
    yield from judge_head(results)
    yield from judge_kernels(results)


# ---- tables ---------------------------------------------------------------------------------------------------------

def print_columns(rows, out):
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    for r in rows:
        print("  ".join(text.ljust(width) for text, width in zip(r, widths)).rstrip(), file=out)


def print_asked(rows, out):
    print_columns([("what", "measured", "asked", "")] + [(r.what, r.measured, r.asked, r.verdict()) for r in rows], out)
    count = {v: sum(r.verdict() == v for r in rows) for v in ("ok", "SHORT", "not measured")}
    print(f"{count['ok']} ok, {count['SHORT']} short, {count['not measured']} not measured", file=out)


def print_products(results, out):
    """Rates that nothing is asked of by themselves: products and attention, beside our own products."""
    own = {o["what"]: o for o in distinct_ops(results, "own")}
    lines = [("product or attention", "ms", "TFLOP/s", "own kernels")]
    for o in distinct_ops(results):
        if o["op"] not in ARITHMETIC:
            continue
        mine = own.get(o["what"]) if o["op"] == "matmul" else None
        lines.append((f"{o['op']} {o['what']}", f"{o['seconds'] * 1e3:.3f}", f"{o['flops'] / o['seconds'] / 1e12:.0f}",
                      f"{mine['flops'] / mine['seconds'] / 1e12:.0f}" if mine else ""))
    if len(lines) > 1:
        print(file=out)
        print_columns(lines, out)


def print_floor(results, name, out):
    """The parts of a step beside their floor, and what is left between their sum and the step."""
    floor = results.get("floor", {}).get(name, [])
    groups = {}
    for o in results.get("ops", {}).get(name + "/default", {"rows": []})["rows"]:
        groups[o["group"]] = groups.get(o["group"], 0) + 1e3 * o["seconds"] * o["count"]
    if not groups:
        return
    lines, gaps, least = [(CASES[name]["text"], "ms", "floor", "")], [], 0
    for group, ms in groups.items():
        low = next((ms for text, ms in floor if text.startswith(group)), None)
        lines.append((group, f"{ms:.2f}", f"{low:.2f}" if low else "", f"{ms / low:.2f} x" if low else ""))
        gaps.append((ms - (low or 0), group))
        least += low or 0
    total = sum(groups.values())
    lines.append(("all of them", f"{total:.2f}", f"{least:.2f}" if least else "",
                  f"{total / least:.2f} x" if least else ""))
    runs = runs_of(results, name, "")
    if runs:
        ms = 1e3 * runs[0]["tokens"] / rate(runs)
        lines.append(("the step, measured as a whole", f"{ms:.2f}", f"{least:.2f}" if least else "",
                      f"{ms / least:.2f} x" if least else ""))
    print(file=out)
    print_columns(lines, out)
    if least:
        print("largest differences: " + "; ".join(f"{g} {d:+.2f} ms" for d, g in sorted(gaps, reverse=True)[:3]), file=out)


def print_runs(results, out):
    lines = [("run", "tokens/s", "memory", "code and context", "first step", "steps, ms", "how")]
    for r in results.get("runs", []):
        speed = rate([r]) if len(r["steps"]) > 1 else None
        lines.append((f"retort {r['case']}{' ' + r['limit'] if r['limit'] else ''}", f"{speed:,.0f}" if speed else "-",
                      f"{r['memory'] / GIB:.2f} GiB",
                      f"{r['modules'] / GIB:.2f} + {r['context'] / GIB:.2f} GiB" if r["modules"] is not None else "-",
                      f"{r['first']:.1f} s",
                      " ".join(f"{1e3 * s:.0f}" for s in r["steps"]), r["fit"]))
    for p in results.get("peers", []):
        if "tok_s" in p:
            lines.append((f"{p['variant']} {p['case']}", f"{p['tok_s']:,}", f"{p['peak_gib']:.2f} GiB", "",
                          f"{p['warm_s']:.0f} s for 3", f"{p['ms']:.0f}", ""))
        else:
            lines.append((f"{p['variant']} {p['case']}", "-", "-", "", "-", "-", p.get("error", "")[:80]))
    if len(lines) > 1:
        print_columns(lines, out)
        print(file=out)


def print_all(results, rows, out):
    print_runs(results, out)
    print_asked(rows, out)
    print_products(results, out)
    for name in CASES:
        print_floor(results, name, out)
