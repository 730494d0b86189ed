#!/usr/bin/env python3
"""test_report.py - the page of `retort report` in headless Chromium: wide and narrow, light and dark, one run, several, ten thousand
steps, one that has only begun, and one whose texts are hostile. No script error, nothing fetched, nothing wider than the window, text
with enough contrast, and the crosshair shows the numbers that the run wrote. Pictures go to $BUILD/browser, to be looked at.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

import chromium

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(ROOT, "build")))
RETORT = os.path.abspath(os.environ.get("RETORT", os.path.join(BUILD, "retort")))
PICTURES = os.path.join(BUILD, "browser")
WINDOWS = [(1280, 900, False), (1280, 900, True), (400, 800, False), (400, 800, True)]
_passed = _failed = 0


def check(ok, message):
    global _passed, _failed
    _passed, _failed = (_passed + 1, _failed) if ok else (_passed, _failed + 1)
    if not ok:
        print(message, flush=True)


# ---- runs, as retort writes them ----

def write(folder, name, text):
    os.makedirs(os.path.join(folder, "run"), exist_ok=True)
    with open(os.path.join(folder, "run", name), "w", encoding="utf-8") as f:
        f.write(text if isinstance(text, str) else json.dumps(text))


def measure(mean, error=0.02):
    return [mean, error]


def make_run(folder, steps, teacher=True, seed=1, upto=None, every=None):
    """Curves with noise and a spike; every number can be worked out again."""
    lines, state = [], seed
    for step in range(0, (upto if upto is not None else steps) + 1):
        state = (state * 1103515245 + 12345) % 2**31
        noise = 0.15 * (state / 2**31 - 0.5)
        ce = 2.6 + 2.9 * math.exp(-6 * step / steps) + 0.1 * seed
        if step:
            line = {"event": "step", "step": step, "loss": ce + noise, "ce": ce + noise, "grad_norm": 9.0 if step == steps // 2 else
                    1 + abs(noise), "lr": 1e-3 * (1 - step / steps) + 1e-5, "tokens": 8192, "seconds": 0.5 + noise}
            if teacher:
                line.update(divergence=2 * math.exp(-5 * step / steps) + 0.02 + abs(noise) / 9, agreement=min(1, 0.9 - 0.6 * math.exp(
                    -6 * step / steps) + noise / 3), loss=0.3 * ce + noise / 3)
            lines.append(line)
        if step % (every or max(1, steps // 20)) == 0:
            line = {"event": "eval", "step": step, "ce": measure(ce), "positions": 58997, "documents": 11, "seconds": 1.0}
            if teacher:
                kl = 2 * math.exp(-5 * step / steps) + 0.03
                line.update(forward_kl=measure(kl), divergence=measure(2 * kl), agreement=measure(0.9 - 0.6 * math.exp(-6 * step / steps)),
                            teacher_ce=measure(2.51))
            lines.append(line)
    write(folder, "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    settings = {"student": "org/small-0.5B", "data": ["code.jsonl,weight=0.3", "chat.jsonl"], "out": folder, "lr": 0.001, "steps": steps,
                "batch": 32, "seq_len": 1024, "schedule": "cosine", "seed": seed, "held_out": "10%", "save_dtype": "bf16"}
    write(folder, "settings.json", dict({"teacher": "org/large-7B"}, **settings) if teacher else settings)
    return lines


def add_texts(folder, last, hostile=False):
    bad = "</p></article><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>" if hostile else ""
    samples = []
    for prompt in ("def main():\n", "Write a poem about the sea, please. " + bad):
        for who, step, text, stopped in (("student", 0, "qz ~~ \u0007 \u00e9 \ufffd", False), ("student", last, "    return value\n" + bad, True),
                                         ("teacher", 0, "    parser = argparse.ArgumentParser()\n    return parser.parse_args()\n", True)):
            samples.append(json.dumps({"step": step, "prompt": prompt, "who": who, "text": text, "stopped": stopped}) + "\n")
    write(folder, "samples.jsonl", "".join(samples))
    write(folder, "verdict.json", {"falsifiers": [
        {"id": "F-DISTILL-SMOKE-001", "claim": "held-out loss fell, on the same batches", "measured": {"before": 5.6, "after": 2.7},
         "verdict": "pass"},
        {"id": "F-DISTILL-KD-002", "claim": "agreement with the teacher rose" + bad, "measured": "fell by 0.1", "verdict": "fail"},
        {"id": "F-PLAN-001", "claim": "planned memory held", "measured": None, "verdict": "not measured"}]})
    write(folder, "manifest.json", {"teacher": {"name": "large" + bad, "hash": "9f2c" * 16}, "device": {"name": "cpu", "threads": 2}, "seed": 1})
    write(folder, "plan.txt", "memory by class\n" + "weights   1.2 GiB  a line that is long enough to need scrolling in a narrow window\n" * 40 + bad)
    write(folder, "bars.json", [{"title": "P(return) where it belongs", "note": "A word that the student never saw.", "log": True, "bars": [
        {"label": "alone", "value": 3e-5}, {"label": "distilled", "value": 0.14}, {"label": "teacher", "value": 0.21}]}])


# ---- looking at a page ----

LUMINANCE = """
function channel(v) { v /= 255; return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); }
function light(c) { return 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]); }
function rgb(text) { return text.match(/[0-9.]+/g).map(Number); }
function ground(node) {
  for (; node; node = node.parentElement) {
    var c = rgb(getComputedStyle(node).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
  return [255, 255, 255];
}"""
# The least contrast of any visible text with what it stands on, and where.
CONTRAST = "(function () {" + LUMINANCE + """
var worst = 99, where = "", walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), node;
while ((node = walker.nextNode())) {
  var e = node.parentElement;
  if (!node.textContent.trim() || /^(SCRIPT|STYLE|NOSCRIPT)$/.test(e.tagName) || !e.getClientRects().length) continue;
  var style = getComputedStyle(e), svg = e.namespaceURI !== document.documentElement.namespaceURI;
  var a = light(rgb(svg ? style.fill : style.color)), b = light(ground(e));
  var ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < worst) { worst = ratio; where = e.tagName + "." + (e.getAttribute("class") || "") + ": " + node.textContent.trim().slice(0, 40); }
}
return [worst, where];
})()"""
# The same for the colours of the curves, which need less.
CURVES = "(function () {" + LUMINANCE + """
var worst = 99, style = getComputedStyle(document.documentElement);
for (var i = 0; i < 8; i++) {
  var probe = document.createElement("i");
  probe.className = "c" + i;
  document.body.appendChild(probe);
  var a = light(rgb(getComputedStyle(probe).color)), b = light(ground(document.querySelector(".panel") || document.body));
  probe.remove();
  worst = Math.min(worst, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
}
return worst;
})()"""
# Elements that stick out of the window, other than inside what scrolls.
WIDE = """(function () {
var out = [];
document.querySelectorAll("body *").forEach(function (e) {
  for (var p = e; p; p = p.parentElement) if (/auto|scroll|hidden/.test(getComputedStyle(p).overflowX)) return;
  var r = e.getBoundingClientRect();
  if (r.width && (r.right > innerWidth + 1 || r.left < -1)) out.push(e.tagName + "." + (e.getAttribute("class") || ""));
});
return out.slice(0, 5);
})()"""
BOX = "(function (s) {{ s.scrollIntoView({{block: 'center'}}); var r = s.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; }})({})"


def look(browser, page, name, panels):
    for width, height, dark in WINDOWS:
        where = f"{name} at {width}, {'dark' if dark else 'light'}"
        browser.open(page, width, height, dark)
        check(not browser.complaints, f"{where}: {browser.complaints}")
        check(len(browser.requests) == 1, f"{where}: fetched {browser.requests}")
        check(browser.evaluate("document.documentElement.scrollWidth") <= width, f"{where}: wider than the window")
        check(browser.evaluate(WIDE) == [], f"{where}: sticks out: {browser.evaluate(WIDE)}")
        check(browser.evaluate("window.hacked") is None, f"{where}: a text of the run was run")
        check(browser.evaluate("document.querySelectorAll('.panel svg').length") == panels, f"{where}: not {panels} pictures")
        check(browser.evaluate("[].every.call(document.querySelectorAll('.panel svg'), s => s.querySelector('path'))"),
              f"{where}: an empty picture")
        check("NaN" not in browser.evaluate("document.body.innerHTML"), f"{where}: NaN in the page")
        contrast, place = browser.evaluate(CONTRAST)
        check(contrast >= 4.5, f"{where}: contrast {contrast:.2f} of {place}")
        check(browser.evaluate(CURVES) >= 3, f"{where}: contrast of the curves {browser.evaluate(CURVES):.2f}")
        tall = min(8000, browser.evaluate("document.documentElement.scrollHeight"))
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=tall, deviceScaleFactor=1, mobile=False)
        browser.picture(os.path.join(PICTURES, f"{name}-{width}-{'dark' if dark else 'light'}.png"))


def tip(browser):
    return browser.evaluate("[].filter.call(document.querySelectorAll('.tip'), t => !t.hidden).map(t => t.textContent).join('|')")


def hover(browser, selector, share):
    left, top, width, height = browser.evaluate(BOX.format(f"document.querySelectorAll('{selector}')[0]"))
    browser.mouse(left + 54 + share * (width - 60), top + height / 2)


def try_controls(browser, page, lines):
    """One run of 120 steps: crosshair, keys, toggles."""
    browser.open(page, 1280, 900, False)
    last = [line for line in lines if line["event"] == "eval"][-1]
    hover(browser, "#held-curves .panel svg", 1)
    check(f"step {last['step']}" in tip(browser) and f"{last['ce'][0]:.3f} \u00b1 0.02" in tip(browser), f"crosshair at the end: {tip(browser)}")
    check(browser.evaluate("document.querySelectorAll('.cross').length") == 10, "a crosshair in every picture")
    browser.picture(os.path.join(PICTURES, "hover-1280.png"), whole=False)
    middle = next(line for line in lines if line["event"] == "step" and line["step"] == 60)
    hover(browser, "#train-curves .panel svg", 0.5)
    check("step 60" in tip(browser) and f"{middle['loss']:.4g}" in tip(browser), f"crosshair in the middle: {tip(browser)}, {middle['loss']}")
    browser.mouse(2, 2)
    check(tip(browser) == "", f"the crosshair stays: {tip(browser)}")
    browser.evaluate("document.querySelector('#train-curves .panel svg').focus()")
    browser.key("End")
    check("step 120" in tip(browser), f"the End key: {tip(browser)}")
    browser.key("ArrowLeft")
    check("step 119" in tip(browser), f"the left key: {tip(browser)}")
    browser.key("Escape")
    check(tip(browser) == "", "the Escape key")
    labels = "[].map.call(document.querySelectorAll('#train-curves .panel svg')[0].querySelectorAll('text'), t => t.textContent).join(' ')"
    plain = browser.evaluate(labels)
    check(plain.split()[-3:] == ["50", "100", "steps"], f"the axis of 120 steps: {plain}")
    for toggle in ("log", "smooth"):
        browser.evaluate(f"document.getElementById('{toggle}').click()")
    check(browser.evaluate("document.querySelectorAll('.faint').length") == 6, "smooth lines over faint ones, but not of the learning rate")
    browser.picture(os.path.join(PICTURES, "log-smooth-1280.png"), whole=False)
    for axis, unit in (("tokens", "tokens"), ("time", "time"), ("step", "steps")):
        browser.evaluate(f"document.querySelector('input[value={axis}]').click()")
        check(browser.evaluate(labels).endswith(unit), f"axis {axis}: {browser.evaluate(labels)}")
    for toggle in ("log", "smooth"):
        browser.evaluate(f"document.getElementById('{toggle}').click()")
    check(browser.evaluate(labels) == plain, "toggles lead back")
    check(not browser.complaints, f"controls: {browser.complaints}")


def try_legend(browser, page):
    browser.open(page, 1280, 900, False)
    hover(browser, "#held-curves .panel svg", 1)
    check("distilled" in tip(browser) and "alone" in tip(browser), f"both runs: {tip(browser)}")
    check("tokens" in tip(browser), "several runs are drawn over tokens")
    browser.evaluate("document.querySelectorAll('#legend input')[1].click()")
    hover(browser, "#held-curves .panel svg", 0.9)
    check("distilled" in tip(browser) and "alone" not in tip(browser), f"one run hidden: {tip(browser)}")
    browser.evaluate("document.querySelectorAll('#legend input')[0].click()")
    check(not browser.complaints, f"legend: {browser.complaints}")


def report(*arguments):
    done = subprocess.run([RETORT, "report", *arguments], capture_output=True, text=True)
    check(done.returncode == 0, f"retort report {arguments}: {done.stderr}")


def main():
    program = chromium.find()
    if not program:
        print("skipped: no Chromium here (looked for " + ", ".join(chromium.NAMES) + "; CHROMIUM=path names another); "
              "tools/setup.sh --browser installs one")
        return 0
    os.makedirs(PICTURES, exist_ok=True)
    with tempfile.TemporaryDirectory() as top:
        os.chdir(top)
        lines = make_run("distilled", 120)
        add_texts("distilled", 120)
        make_run("alone", 120, teacher=False, seed=3)
        make_run("hostile", 40, upto=17)
        add_texts("hostile", 17, hostile=True)
        make_run("long", 10000, every=500)
        write("begun", "settings.json", {"steps": 100, "student": "s"})
        make_run("first", 100, upto=1)
        report("distilled", "-o", "one.html")
        report("distilled", "alone", "-o", "two.html")
        for name in ("hostile", "long", "begun", "first"):
            report(name, "-o", name + ".html")
        check(os.path.getsize("long.html") < 1000000, f"ten thousand steps make {os.path.getsize('long.html')} bytes")
        profile = os.path.join(top, "profile")
        os.mkdir(profile)
        browser = chromium.Browser(program, profile)
        try:
            look(browser, "one.html", "one", 10)
            look(browser, "two.html", "two", 10)
            look(browser, "hostile.html", "hostile", 10)
            look(browser, "long.html", "long", 10)
            look(browser, "begun.html", "begun", 0)
            look(browser, "first.html", "first", 10)
            try_controls(browser, "one.html", lines)
            try_legend(browser, "two.html")
            version = browser.call("Browser.getVersion")["product"]
        finally:
            browser.close()
        os.chdir(ROOT)
    print(f"{version}; pictures in {os.path.relpath(PICTURES, ROOT)}")
    print(f"{_passed} passed, {_failed} failed")
    return 1 if _failed or not _passed else 0


sys.exit(main())
