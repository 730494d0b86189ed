#!/usr/bin/env python3
"""terminal.py - runs $RETORT in a pseudo-terminal and looks at what it shows: a line that is redrawn in place and fits the
window, also when the window changes; answers to Ctrl-C in every stage; plain lines, JSON and silence off a terminal.

Commands that answer, rather than train: terminal_answers.py. Needs the standard library and $RETORT; ends with `N passed, N
failed`.
"""
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from screen import COMMAND, FASTER, HASTE, LIVE, SLOW, Run, call, check, counts, curve, fits, texts


# ---- the line ----

def looks_at(run, what):
    check(run.status == 0, f"{what}: status {run.status}\n{run.screen.text()[-600:]}")
    check("\033[J" in run.raw or "\033[K" in run.raw, f"{what}: nothing was redrawn")
    check(not run.screen.wrapped, f"{what}: the line takes two rows: {run.screen.wrapped[:1]}")
    check(not run.screen.crowded, f"{what}: a stale row: {run.screen.crowded[:1]}")
    check(not any(LIVE.match(r) for r in run.screen.rows()), f"{what}: a row is left over")
    last = [line for line in run.screen.lines if line][-1]
    check(re.match(r" +retort convert \S+ \S+\.gguf$", last), f"{what}: the last line is {last!r}")
    wide = [line for line in run.screen.lines if re.match(r" +(hf upload|rm -r) ", line) and len(line) > 80]
    check(not wide, f"{what}: commands share their line with a comment: {wide}")
    check("left 0:00" not in run.raw, f"{what}: nothing is left, and it goes on")


base = ["distill", "--teacher", "t", "--student", "s", "--threads", 1]
short = base + ["--data", "d.jsonl", "--steps", 60, "--batch", 8, "--seq-len", 64, "--warmup", 2, "--eval-every", 20]


# Lines for people; not commands to copy, paths, and what others have written.
SAID = re.compile(r"((teacher|student) +\w+:|device|note|pair|train|evaluate|memory|weights|objective|overlap|warning|eval|improved) ")


def rows_said(run):
    rows = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", row).rsplit("\r", 1)[-1] for row in run.raw.split("\r\n")]
    return [row for row in rows if SAID.match(row)]


def widths():
    for width in (40, 60, 80, 120, 200):
        run = Run(*short, "--out", f"w{width}", width=width).finish()
        looks_at(run, f"{width} columns")
        check(run.screen.colours, f"{width} columns: no colours")
        said = rows_said(run)
        check(len(said) > 10 and max(map(len, said)) <= width, f"{width} columns: {max(said, key=len)!r} is wider")
        frames = re.findall(r"\r\x1b\[\?7l(step \d+/60.*?)\x1b\[J", run.raw)
        check(frames and all("left" in f or f.startswith("step 0/") for f in frames), f"{width} columns: no time is left")
        check(width < 60 or any("loss" in f and "[" in f for f in frames), f"{width} columns: no loss, or no bar")
        check(width < 200 or any(re.search("tok/s.*div.*agree.*ce.*lr.*norm.*teacher", f) for f in frames), "200 columns: not all fields")
    # An evaluation that takes longer than a tick of the line, on a fast machine too.
    run = Run("distill", "--teacher", "wt", "--student", "ws", "--threads", 1, "--data", "d.jsonl", "--eval-data", "d.jsonl", "--eval-rows", 100,
              "--steps", 2, "--batch", 4, "--seq-len", 64, "--warmup", 1, "--out", "shown", width=120).finish()
    check(re.search(r"7levaluating[^\r]*step \d+/2", run.raw), f"evaluations are not shown in the line: {run.raw[-300:]!r}")
    run = Run(*short, "--out", "resized", width=120)
    run.until(r"step [1-9]\d?/60")
    for width, step in ((60, 12), (44, 25), (100, 40)):
        run.resize(width)
        run.until(rf"step ({step}|{step + 1}|{step + 2}|{step + 3})/60", 5)
    looks_at(run.finish(), "a window that is resized")


def commands():
    idle = """overwrite_output_dir dataset_num_proc dataloader_num_workers dataloader_pin_memory dataloader_prefetch_factor
              remove_unused_columns trust_remote_code do_train do_eval""".split()
    open("c.yaml", "w").write("model_name_or_path: s\ndata: d.jsonl\n" + "".join(f"{name}: 1\n" for name in idle))
    open("prompts.txt", "w").write("a prompt that is longer than all others by some words of no meaning at all, and by some more\n")
    train = ["train", "--student", "s", "--data", "d.jsonl", "--steps", 2, "--batch", 8, "--seq-len", 64]
    for width in (60, 80):
        fits("plan", "plan", *short[1:], width=width)
        fits("a run", *short, "--out", f"c{width}", "--sample-prompts", "prompts.txt",
             width=width)
        fits("settings of others", "train", "--config", "c.yaml", "--out", f"y{width}", "--steps", 1, "--batch", 8, "--seq-len", 64, width=width)
        fits("LoRA", *train, "--lora", "--out", f"l{width}", width=width)
        run, lora = f"c{width}", f"l{width}"
        fits("report", "report", run, width=width)
        fits("verify", "verify", run, width=width)
        fits("generate", "generate", run, "--prompt", "the quick", "--max-new", 4, width=width)
        fits("inspect", "inspect", run, width=width)
        fits("inspect", "inspect", lora, width=width)
        fits("convert", "convert", run, f"{run}.gguf", width=width)
        fits("export", "export", lora, "--to", f"e{width}", width=width)
        fits("merge", "merge", lora, f"m{width}", "--dtype", "f16", width=width)
        fits("init", "init", "--from", "t", "--depth", 1, f"i{width}", "--dtype", "f16", width=width)
        fits("init", "init", "--preset", "tiny-qwen3", f"p{width}", width=width)
        few = fits("quantize", "quantize", "t", f"q{width}.gguf", "--dtype", "q8_0", width=width).screen.text()
        check("more; --json has them all" in few, f"quantize shows every tensor: {few[:900]}")
        fits("tokenize", "tokenize", "d.jsonl", "--model", "t", "--seq-len", 64, width=width)
        fits("eval", "eval", run, "--data", "d.jsonl", "--teacher", "t", "--seq-len", 64, width=width)
        fits("doctor", "doctor", width=width)
        refused = fits("a refusal", "eval", "t", "--tasks", "e.jsonl", width=width, status=5)
        check(len(refused.screen.text().strip().split("\n")) > 1, f"a refusal is not wrapped: {refused.screen.text()!r}")
        fits("two arguments that are wrong", "distill", "--learning-rat", "1", "--teacher-weight", "1", width=width, status=2)
    whole = call("quantize", "t", "whole.gguf", "--dtype", "q8_0").stdout
    check("more; --json" in whole, "off a terminal quantize shows as few tensors")


def plain():
    run = Run(*short, "--out", "grey", env={"NO_COLOR": "1"}).finish()
    looks_at(run, "NO_COLOR")
    check(not run.screen.colours, "NO_COLOR: colours")
    run = Run(*short, "--out", "dumb", env={"TERM": "dumb"}).finish()
    check(run.status == 0 and "\033" not in run.raw and "step 60/60" in run.raw, "a dumb terminal gets plain lines")
    run = Run(*short, "--out", "kept", "--log-every", 30).finish()
    check(re.findall(r"^step (\d+)/60  loss", run.screen.text(), re.M) == ["30", "60"], "--log-every leaves lines on a terminal")
    done = call(*short, "--out", "plain")
    check(done.returncode == 0 and not re.search("[\r\033]", done.stdout + done.stderr), "a pipe gets plain lines")
    check("left 0:00" not in done.stdout and "step 60/60" in done.stdout, "the last step, with what is left")
    done = call(*short, "--out", "every", "--log-every", 25)
    check(re.findall(r"^step (\d+)/60", done.stdout, re.M) == ["25", "50", "60"], f"--log-every 25: {done.stdout}")
    done = call(*short, "--out", "quiet", "--quiet")
    check(done.returncode == 0 and done.stderr == "" and re.fullmatch(r"quiet: the model of step \d+ .*\n", done.stdout),
          f"--quiet: {done.stdout!r} {done.stderr!r}")
    done = call(*short, "--out", "quiet", "--quiet")
    check(done.returncode != 0 and done.stdout == "" and done.stderr.count("\n") == 1, f"--quiet, refused: {done.stderr!r}")
    check(curve("quiet") == curve("plain") == curve("w80"), "what is shown changes the run")


# ---- JSON ----

def events():
    done = call(*short, "--out", "json", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [e["event"] for e in lines]
    check(done.returncode == 0 and kinds[0] == "start" and kinds[-2:] == ["saved", "end"], f"--json: {kinds}")
    check(set("start plan warning step eval sample checkpoint saved end".split()) <= set(kinds), f"--json: {sorted(set(kinds))}")
    check(kinds.count("step") == 60 and kinds.count("eval") == 4 and all("time" in e for e in lines), "every step, every evaluation")
    check("teacher   t" in done.stderr and "eval 60" in done.stderr, "the rest goes to standard error")
    steps = {e["step"]: e for e in lines if e["event"] == "step"}
    logged = {e["step"]: e for e in curve("json") if e["event"] == "step"}
    check(all(abs(steps[i]["loss"] - logged[i]["loss"]) < 1e-12 for i in logged), "the losses are those of the log")
    end = lines[-1]
    check(end["exit_code"] == 0 and end["after"]["forward_kl"] and end["verdict"]["claims"] > 0, f"the end: {end}")
    over = [(e["left"], end["time"] - e["time"]) for e in steps.values() if 15 <= e["step"] <= 50]
    check(all(0.3 * real - 0.3 <= left <= 3 * real + 0.3 for left, real in over), f"left, and what it took: {over}")
    done = call(*short, "--out", "json", "--json", "--quiet")
    last = json.loads(done.stdout.splitlines()[-1])
    check(last["event"] == "error" and last["exit_code"] == done.returncode != 0 and last["text"] == done.stderr.strip(),
          f"a refusal: {last} {done.stderr!r}")
    done = call("distill", "--json", "--nonsense")
    last = json.loads(done.stdout)
    check(last["event"] == "error" and last["exit_code"] == done.returncode == 2, f"a flag that there is not: {last}")
    done = call(*short, "--smoke", "--json")
    last = json.loads(done.stdout.splitlines()[-1])
    check(last["event"] == "end" and last["smoke"], f"a smoke test: {last}")


# ---- Ctrl-C ----

wide = ["distill", "--teacher", "wt", "--student", "ws", "--threads", 1, "--seq-len", 64, "--warmup", 2, "--eval-data", "e.jsonl"]
stages = wide + ["--data", "d.jsonl", "--steps", 6, "--batch", 4, "--eval-every", 3, "--save-every", 2]


def hastened(args):
    return subprocess.Popen(COMMAND + [str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            env={**os.environ, **HASTE})


def stop(what, args, pattern, says, seconds=10, folder=None, env=None):
    """Ctrl-C when the screen shows the pattern, or when the folder has such a name: answered at once, ended soon."""
    run = Run(*args, env=env)
    if folder:
        while run.read(0.001) and not (os.path.isdir(folder) and any(re.match(pattern, n) for n in os.listdir(folder))):
            pass
    else:
        check(run.until(pattern), f"{what}: {pattern} was never shown: {run.screen.text()[-400:]}")
    begun = time.monotonic()
    os.write(run.fd, b"\x03")
    check(run.until("stopping  ", 2), f"{what}: no answer to Ctrl-C within 2 s")
    run.finish(60)
    took = time.monotonic() - begun
    text = run.screen.text()
    check(run.status == 130 and took < seconds * SLOW, f"{what}: status {run.status} after {took:.1f} s: {text[-400:]}")
    check(re.search(says, text), f"{what}: expected {says}: {text[-600:]}")
    check(not any(LIVE.match(r) for r in run.screen.rows()), f"{what}: a row is left over")
    return run


def resumed(out, whole="whole"):
    done = call("distill", "--resume", "--out", out)
    check(done.returncode == 0 and curve(out) == curve(whole), f"{out}: resumed it is another run: status {done.returncode} {done.stderr}")
    same = [open(f"{name}/model.safetensors", "rb").read() for name in (out, whole)]
    check(same[0] == same[1], f"{out}: the model is another")


def within_a_step():
    """A step of many micro-batches is shown as what it is, and is given up between two of them."""
    def taking(batch, out):
        return wide + ["--data", "d.jsonl", "--steps", 2, "--batch", batch, "--micro-batch", 4, "--eval-every", 2,
                       "--save-every", 2, "--out", out]

    def slowest(out):
        return max(json.loads(line).get("seconds", 0) for line in open(f"{out}/run/metrics.jsonl"))

    fast = {**os.environ, **HASTE}
    check(call(*taking(16, "timed"), env=fast).returncode == 0, "a run to see how long its steps take")
    batch = 64 * max(1, math.ceil((3 if FASTER == 1 else 10) / 4 / slowest("timed")))
    done = call(*taking(batch, "steps"), "--json", env=fast)
    told = [e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "progress" and e["what"] == "training"]
    check(done.returncode == 0 and told and told[0]["step"] == 1 and told[0]["steps"] == 2, f"--json names the step: {told}")
    for step, kept in ((1, 0), (2, 1)):
        out = f"within{step}"
        says = r"stopping  when micro-batch \d+ of %d of step %d has ended(.|\n)*" % (batch // 4, step)
        says += r"stopped during step 1 of 2" if step == 1 else r"stopped after step 1 of 2; to resume: retort distill --resume"
        run = stop(f"step {step}", taking(batch, out), rf"7lstep {step} of 2, micro-batch \d+ of {batch // 4}", says,
                   seconds=0.4 * slowest("steps") / FASTER + 2, env=HASTE)
        check("hashing the models" not in run.raw.split("step 0/2")[-1].split("step 1 of 2")[-1], "the stage before it is not shown any more")
        names = os.listdir(f"{out}/run/checkpoints") if os.path.isdir(f"{out}/run/checkpoints") else []
        check(names == [f"checkpoint-{kept:06}"] * kept, f"{out}: {names}")
        resumed(out, "steps")
    batch = 64 * math.ceil((25 if FASTER == 1 else 60) / 4 / slowest("timed"))  # it is interrupted after 15
    texts("many.jsonl", 40000)  # a fast machine's step takes more rows than the other file has
    run = hastened([str(a).replace("d.jsonl", "many.jsonl") for a in taking(batch, "silent")])
    for line in run.stdout:
        if re.match(rf"step \d of 2, micro-batch \d+ of {batch // 4}, 0:\d\d so far, left ", line):
            run.send_signal(signal.SIGINT)
    check(run.wait() == 130, f"off a terminal a long step is told of: {run.returncode}")


def interrupts():
    check(call(*stages, "--out", "whole").returncode == 0, "the run that is left alone")
    texts("large.jsonl", 240000, 40)
    stop("tokenizing", base + ["--data", "large.jsonl", "--out", "tok"], r"7ltokenizing",
         r"stopping  still tokenizing(.|\n)*(stopped|interrupted) while (tokenizing|arranging the data); nothing was trained yet: the same command")
    check(not os.path.exists("tok"), "nothing is left of a run that was stopped while tokenizing")
    command = r"retort distill --resume --out %s"
    stop("the first evaluation", stages + ["--out", "first"], r"7levaluating[^\r]*step 0/6",
         r"stopping  still evaluating(.|\n)*stopped while evaluating; to resume: " + command % "first")
    resumed("first")
    stop("an evaluation", stages + ["--out", "eval"], r"7levaluating[^\r]*step 3/6",
         r"still evaluating(.|\n)*resume    " + command % "eval" + r"(.|\n)*stopped after step 3 of 6; to resume: " + command % "eval")
    resumed("eval")
    stop("saving", stages + ["--out", "saving"], r"\.checkpoint-000002", r"stopped after step [23] of 6", folder="saving/run/checkpoints")
    resumed("saving")
    stop("the last evaluation", stages + ["--out", "last"], r"7levaluating[^\r]*step 6/6", r"stopped after step 6 of 6")
    resumed("last")
    within_a_step()
    long = wide + ["--data", "d.jsonl", "--steps", 4, "--batch", 48, "--eval-every", 4, "--save-every", 4, "--out", "long"]
    run = Run(*long)
    check(run.until(r"7lstep 1/4"), "a long step")
    os.write(run.fd, b"\x03")
    check(run.until(r"stopping  when (micro-batch \d+ of \d+ of )?step 2 has ended", 1.5), "a step that runs is no reason to be silent")
    begun = time.monotonic()
    os.write(run.fd, b"\x03")
    run.finish(60)
    check(run.status == -signal.SIGINT and time.monotonic() - begun < 1, f"a second Ctrl-C ends at once: {run.status}")
    run = subprocess.Popen(COMMAND + [str(a) for a in stages + ["--out", "term"]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in run.stdout:
        if line.startswith("step 1/"):
            run.send_signal(signal.SIGTERM)
            break
    out, err = run.communicate()
    check(run.returncode == 130 and "stopping  " in out and command % "term" in err, f"SIGTERM: {run.returncode} {out} {err}")
    resumed("term")
    run = subprocess.Popen(COMMAND + [str(a) for a in stages + ["--out", "nohup"]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                           preexec_fn=lambda: [signal.signal(s, signal.SIG_IGN) for s in (signal.SIGHUP, signal.SIGINT)])
    for line in run.stdout:
        if line.startswith("step 1/"):
            run.send_signal(signal.SIGHUP)
            run.send_signal(signal.SIGINT)
    check(run.wait() == 0, f"signals that were ignored stay ignored: {run.returncode}")


# ---- silence ----

def silence():
    """Off a terminal a long evaluation is told of; on one, so is each check of a run."""
    args = wide[:-1] + ["e2.jsonl", "--data", "d.jsonl", "--steps", 4, "--batch", 4, "--out", "slow"]
    run = hastened(args)
    at, gap, told = time.monotonic(), 0, False
    for line in run.stdout:
        gap, at = max(gap, time.monotonic() - at), time.monotonic()
        if re.match(r"evaluating \d+ %, left \d+:\d\d$", line):
            told = True
            run.send_signal(signal.SIGINT)
    check(run.wait() == 130 and gap * FASTER < 20 * SLOW, f"status {run.returncode}, {gap * FASTER:.0f} s of silence")
    check(told, "a long evaluation is not told of")
    check(call(*base, "--data", "d.jsonl", "--eval-data", "e3.jsonl", "--steps", 4, "--batch", 4, "--seq-len", 64, "--warmup", 2,
               "--eval-every", 4, "--out", "checked").returncode == 0, "a run to be checked")
    run = Run("verify", "checked").finish()
    check(run.status == 0 and re.search(r"7levaluating +\[", run.raw), f"verify RUN shows its evaluation: {run.raw[-300:]!r}")
    check(not run.screen.crowded and not any(LIVE.match(r) for r in run.screen.rows()), "verify RUN leaves a row")


def main():
    os.chdir(tempfile.mkdtemp())
    try:
        for i, name in enumerate(("t", "s")):
            call("init", "--preset", "tiny-qwen2", "--seed", i, name)
        config = json.load(open("t/config.json"))
        config.update(hidden_size=256, intermediate_size=1024, num_hidden_layers=4)
        json.dump(config, open("wide.json", "w"))
        for i, name in enumerate(("wt", "ws")):
            done = call("init", "--config", "wide.json", "--tokenizer", "t", "--seed", i, name)
            check(done.returncode == 0, done.stderr)
        texts("d.jsonl", 2000)
        texts("e.jsonl", 20)
        texts("e2.jsonl", 3000)
        texts("e3.jsonl", 900)
        for part in (widths, commands, plain, events, interrupts, silence):
            if len(sys.argv) < 2 or part.__name__ in sys.argv[1:]:
                begun = time.monotonic()
                part()
                print(f"{part.__name__}: {time.monotonic() - begun:.0f} s", flush=True)
    finally:
        shutil.rmtree(os.getcwd())
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] else 0


sys.exit(main())
