#!/usr/bin/env python3
"""test_jinja.py - rendered templates beside those of jinja2, in the environment in which transformers renders chat templates.

Four kinds: chat templates with random conversations, rendered by transformers itself; changed copies of them; generated templates of
every feature; the cases of the golden file. Chat templates are those in tests/golden/templates, and every *.jinja in the folders that
INTEROP_TEMPLATES names (separated by colons).
"""
import copy
import datetime
import glob
import json
import os
import random
import sys

from interop import LIGHT, ROOT, Pipe, check, count, finish, program

sys.path[:0] = [os.path.join(ROOT, "tools"), os.path.join(ROOT, "tests/golden")]
import chats  # noqa: E402
import gen_jinja_golden as golden  # noqa: E402
import jinja2  # noqa: E402
import jinja_cases  # noqa: E402
from transformers.utils import chat_template_utils  # noqa: E402

SEED = int(os.environ.get("INTEROP_SEED", "1"))
CONVERSATIONS, CHANGED, GENERATED = (60, 300, 6000) if LIGHT else (1000, 4000, 60000)
SHOWN = 8
MAX_CHARS = 200000


class Clock(datetime.datetime):
    """What transformers takes the time from."""

    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(golden.NOW, datetime.timezone.utc).replace(tzinfo=None)


chat_template_utils.datetime = Clock


class Tally:
    def __init__(self, name):
        self.name, self.same, self.failing, self.skipped, self.different = name, 0, 0, 0, 0

    def differ(self, what, request, ours, theirs):
        self.different += 1
        if self.different <= SHOWN:
            given = {k: v for k, v in request.items() if k != "template" and v is not None}
            print(f"{self.name}: {what}\n  template {request['template']!r}\n  given    {json.dumps(given)[:2000]}\n"
                  f"  ours     {ours!r}\n  theirs   {theirs!r}", flush=True)

    def judge(self, request, ours, theirs):
        """theirs: (text, ranges in bytes or None) or an exception; None: nothing to compare with."""
        if theirs is None or ("error" in ours and "64 bits" in ours["error"]):
            self.skipped += 1  # an address in the text, too deep for Python, or an integer that only Python can hold
        elif isinstance(theirs, Exception):
            if "error" in ours:
                self.failing += 1
            else:
                self.differ("rendered, and should fail", request, ours["text"], f"{type(theirs).__name__}: {theirs}")
        elif ours.get("text") != theirs[0]:
            self.differ("text differs", request, ours.get("text", ours.get("error")), theirs[0])
        elif theirs[1] is not None and not ours["lost"] and ours["ranges"] != theirs[1]:
            self.differ("generation blocks differ", request, ours["ranges"], theirs[1])
        else:
            self.same += 1

    def done(self, must_render):
        print(f"{self.name}: {self.same} rendered the same, {self.failing} fail in both, {self.different} differ, "
              f"{self.skipped} not comparable", flush=True)
        count(self.same + self.failing, self.different)
        if must_render:
            check(self.same > 0, f"{self.name}: nothing rendered")


def their_chat(request):
    """The text of transformers, and the ranges of outermost generation blocks when they can be trusted. render_jinja_template
    would copy a message's `reasoning_content` to `thinking` first; that is no matter of the template."""
    try:
        compiled = chat_template_utils._compile_jinja_template(request["template"])
        text, indices = chat_template_utils._render_with_assistant_indices(
            compiled, copy.deepcopy(request["messages"]), request["tools"], request["documents"], request["add_generation_prompt"],
            **{**request["special"], **request["extra"]})
    except RecursionError:
        return None
    except Exception as e:  # whatever Python raises, the template failed
        return e
    if " at 0x" in text or any(0xD800 <= ord(c) < 0xE000 for c in text):
        return None
    outer = [(a, b) for a, b in indices if b > a and not any((c, d) != (a, b) and c <= a and b <= d for c, d in indices)]
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    if any(b > len(text) for _, b in outer) or any(word in request["template"] for word in ("macro", "endset")):
        return text, None  # transformers takes a captured block to be printed where it was called
    return text, [[at[a], at[b]] for a, b in outer]


def their_text(request, env):
    env.parts, env.ranges, env.depth = [], [], 0
    case = golden.render(request["template"], request["vars"], env)
    if "error" in case:
        return RuntimeError(case["error"])
    return (case["text"], case.get("ranges")) if golden.stable(case) else None


def ask(pipe, requests):
    def read(output, _):
        line = output.readline()
        if not line:
            raise RuntimeError("jinja_cli ended")
        return json.loads(line)
    return pipe.ask([json.dumps(r).encode() + b"\n" for r in requests], read)


def compare(pipe, name, requests, theirs, must_render=True):
    """requests: an iterator; in batches, so that neither side holds everything."""
    tally, batch = Tally(name), []

    def flush():
        for request, ours in zip(batch, ask(pipe, batch)):
            tally.judge(request, ours, theirs(request))
        batch.clear()

    for request in requests:
        batch.append({**request, "now": golden.NOW})
        if len(batch) == 200:
            flush()
    flush()
    tally.done(must_render)


def templates():
    """(name, text, whether it is ours)"""
    ours = os.path.join(ROOT, "tests/golden/templates")
    for folder in [ours] + [f for f in os.environ.get("INTEROP_TEMPLATES", "").split(":") if f]:
        for path in sorted(glob.glob(os.path.join(folder, "*.jinja*"))):
            with open(path, encoding="utf-8") as f:
                yield os.path.basename(path), f.read(), folder == ours


def conversations(r, make_template, number):
    for _ in range(number):
        messages, tools, documents, extra, special, prompt = chats.variables(r)
        yield {"template": make_template(), "messages": messages, "tools": tools, "documents": documents, "extra": extra,
               "special": special, "add_generation_prompt": prompt}


def generated(number):
    generator = golden.Generator(random.Random(SEED))
    for _ in range(number):
        yield {"template": generator.template(), "vars": golden.VARIABLES}


def main():
    print(f"jinja2 {jinja2.__version__}, seed {SEED}", flush=True)
    pipe, env, r = Pipe([program("jinja")]), golden.environment(), random.Random(SEED)
    found = list(templates())
    # Refused by name: bytes, and loops that call themselves.
    cases = ({"template": t, "vars": v} for _, t, v in jinja_cases.cases() if "encode()" not in t and "recursive" not in t)
    compare(pipe, "golden cases", cases, lambda q: their_text(q, env))
    for name, text, ours in found:
        compare(pipe, name, conversations(r, lambda: text, CONVERSATIONS), their_chat, must_render=ours)
    compare(pipe, "changed templates", conversations(r, lambda: chats.changed(r, r.choice(found)[1]), CHANGED * 5), their_chat)
    compare(pipe, "generated templates", generated(GENERATED), lambda q: their_text(q, env))
    check(pipe.close() == 0, "jinja_cli failed")
    finish()


if __name__ == "__main__":
    main()
