#!/usr/bin/env python3
"""gen_jinja_golden.py [-o FILE] [--random N [--seed S]] - what jinja2 makes of templates, for tests/unit/test_jinja.c.

Without --random it writes the cases of tests/golden/jinja_cases.py, by default into tests/golden/jinja.json. With it, N
generated templates instead: `test_jinja FILE` compares them too. Needs jinja2; the environment is the one in which
transformers runs chat templates (utils/chat_template_utils.py).
"""
import argparse
import copy
import datetime
import json
import os
import platform
import random
import re
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox
import markupsafe

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOW = 1721822400  # 2024-07-24 12:00:00 UTC


class Generation(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %}: keeps where the text of the blocks lies."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_block"), [], [], body).set_lineno(line)

    def _block(self, caller):
        env = self.environment
        env.depth += 1
        text = caller()
        env.depth -= 1
        if env.depth == 0:  # a block inside another says nothing new
            start = sum(len(part) for part in env.parts)
            env.ranges.append((start, start + len(text), text))
        return text


class Dict:
    """The global `dict`: callable, and nothing more to see."""

    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args, **kwargs):
        return dict.fromkeys(*args, **kwargs)


class Namespace(jinja2.utils.Namespace):
    """Refuses attributes that begin with an underscore."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attrs = dict(*args, **kwargs)
        for name in attrs:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot hold {name!r}")


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def strftime_now(format):
        now = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None)
        return now.strftime(format)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=raise_exception, strftime_now=strftime_now, dict=Dict(), namespace=Namespace)
    return env


def render(template, variables, env=None):
    """The case as it goes into the golden file: text and ranges (in bytes), or the error."""
    env = env or environment()
    env.parts, env.ranges, env.depth = [], [], 0
    case = {"template": template, "vars": variables}
    try:
        # A copy: `x|indent` adds to a list in place.
        for part in env.from_string(template).generate(**copy.deepcopy(variables)):
            env.parts.append(part)
        text = "".join(env.parts)
        case["text"] = text
        text.encode("utf-8")
        at = [0]
        for c in text:
            at.append(at[-1] + len(c.encode("utf-8")))
        # A block inside a macro or a block set is noted where that was called, which says nothing.
        if all(text[a:b] == block for a, b, block in env.ranges):
            case["ranges"] = [[at[a], at[b]] for a, b, _ in env.ranges if b > a]
    except RecursionError:
        raise
    except Exception as e:  # whatever Python raises, the template failed
        case.pop("text", None)
        case["error"] = f"{type(e).__name__}: {e}"
    return case


# ---- generated templates --------------------------------------------------------------------------------------------

VARIABLES = {
    "s": "hello World", "t": "  spaced\t \n", "u": "ünïcødé Straße ΑΣ ǆ", "e": "", "m": "a,b,,c", "l": "x\ny\n\nz\r\nw",
    "n": 5, "z": 0, "neg": -7, "f": 2.5, "g": 1e20, "tiny": 1.5e-7, "b": True, "no": False, "nn": None,
    "xs": [3, 1, 2], "ys": ["b", "a", "C", "a"], "mix": [1, "a", None, True, 2.5], "el": [], "ed": {},
    "d": {"a": 1, "b": [1, 2], "c": {"d": "x"}, "items": "shadow"},
    "rows": [{"name": "Zed", "age": 3, "tags": ["x"]}, {"name": "amy", "age": 1}, {"name": "Bob", "age": 2, "tags": []}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <b>\"you\"</b>"},
                 {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes & no"}],
}
NAMES = list(VARIABLES) + ["undefined_name", "undefined_name"]
STRINGS = ["", "a", "A b", "x,y", "\\n", "é", "%s", "{}", "<b>", "</think>", "hello", "0", "12", "3.5", "role", "\\t "]
INTS = ["0", "1", "2", "3", "5", "10", "-1", "-2", "7", "100"]
ATTRS = ["a", "b", "c", "name", "age", "role", "content", "missing", "d"]
FILTERS = """upper lower title capitalize trim length count first last list string int float abs round sort reverse unique sum
min max tojson join replace default d items dictsort indent safe e escape map select reject selectattr rejectattr batch slice
groupby wordcount center truncate attr format forceescape""".split()
TESTS = """defined undefined none string number integer float mapping sequence iterable boolean true false odd even callable lower
upper escaped""".split()
TESTS1 = ["divisibleby", "eq", "equalto", "ne", "lt", "gt", "le", "ge", "in", "sameas", "==", "lessthan", "greaterthan"]
METHODS0 = """upper lower strip lstrip rstrip title capitalize swapcase split splitlines items keys values copy isdigit isalpha
isspace islower isupper istitle isalnum isascii casefold rsplit isdecimal isidentifier isprintable""".split()
METHODS1 = ["strip", "lstrip", "rstrip", "split", "startswith", "endswith", "find", "rfind", "count", "index", "get", "join",
            "partition", "rpartition", "removeprefix", "removesuffix", "format", "zfill", "center", "ljust", "rjust", "rsplit"]
# No **: jinja2 forgets the brackets around a negative number that it has folded.
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">", "<=", ">=", "in", "not in", "and", "or"]


SIMPLE = {
    "str": ["s", "t", "u", "e", "m", "l", "'a'", "messages[1].content"], "list": ["xs", "ys", "rows", "messages", "el", "mix"],
    "int": INTS + ["n", "z", "neg", "f"], "dict": ["d", "ed", "rows[0]", "messages[0]"],
}
FORMS = {
    "str": ["s", "t", "u", "m", "l", "(<str> ~ <any>)", "(<str> + <str>)", "(<str>).upper()", "(<str>)|trim", "(<any>)|string",
            "(<list>)|join(<quoted>)", "(<any>)|tojson", "(<str>).replace(<quoted>, <quoted>)", "(<str>).split(<quoted>)[<number>]",
            "(<str>)|title", "(<str> * 2)", "(<str>).strip(<quoted>)", "(<str>).strip()", "(<str> if <any> else <str>)",
            "(<str>).lstrip('\\n')", "(<str>).split('</think>')[-1]"],
    "list": ["xs", "ys", "rows", "messages", "mix", "(<list> + <list>)", "xs[<number>:]", "rows[:<number>]", "ys[::-1]", "(<str>).split()",
             "(<str>).split(<quoted>)", "[<any>, <any>]", "(<list>)|map('string')|list", "(<str>)|list", "(<dict>).values()|list",
             "range(<number>)|list", "(<list>)|reverse|list", "(<list>)|select|list", "(<str>).splitlines()", "(<dict>)|dictsort",
             "(<any>, <any>)", "(<list>)|batch(2)|list", "(<list>)|unique|list"],
    "int": INTS + ["n", "neg", "f", "(<int> + <int>)", "(<int> * <int>)", "(<list>)|length", "(<str>)|length", "(<int> // 3)",
                   "(<int> % 4)", "(<int> / 7)", "(<str>)|int", "(<str>).find(<quoted>)", "(<int> ** 2)", "(<int>)|abs", "-<number>",
                   "(<int> - <int>)", "(<int>)|round(1)"],
    "dict": ["d", "rows[0]", "messages[2]", "{'a': <any>, 'b': <list>}", "dict(a=<any>)", "ed", "dict(<dict>, z=1)", "(<dict>).copy()"],
}


class Generator:
    """Random templates that fail about as often as they render."""

    def __init__(self, rng):
        self.rng = rng
        self.left = 0

    def pick(self, items):
        return self.rng.choice(items)

    def string(self):
        quote = self.pick("'\"")
        text = self.pick(STRINGS)
        return quote + text.replace('"', "") + quote

    def atom(self):
        kind = self.rng.randrange(12)
        if kind < 6:
            return self.pick(NAMES)
        if kind < 8:
            return self.string()
        if kind < 10:
            return self.pick(INTS)
        return self.pick(["true", "false", "none", "[]", "{}", "()", "2.5", "1e3", "True", "None", "0.1", "1_000"])

    def args(self, depth, most=2):
        parts = [self.expr(depth + 2) for _ in range(self.rng.randrange(most + 1))]
        return ", ".join(parts)

    def typed(self, kind, depth):
        """An expression that is of this kind, as a rule."""
        if self.rng.random() < 0.1:
            return self.expr(depth + 1)
        form = self.pick(SIMPLE[kind] if depth > 3 or self.left < 0 else FORMS[kind])
        self.left -= 1

        def fill(match):
            what = match[1]
            if what == "any":
                return self.expr(depth + 2)
            if what == "quoted":
                return self.string()
            return self.pick(INTS) if what == "number" else self.typed(what, depth + 1)
        return re.sub("<(any|quoted|number|str|int|list|dict)>", fill, form)

    def base(self, kinds, depth):
        text = self.typed(self.pick(kinds), depth) if kinds else self.expr(depth + 1)
        return text if text.isidentifier() else f"({text})"

    def filtered(self, depth):
        name = self.pick(FILTERS)
        base = self.base({
            "first": ["list", "str"], "last": ["list", "str"], "list": ["list", "str", "dict"], "length": ["list", "str", "dict"],
            "count": ["list", "str", "dict"], "int": ["str", "int"], "float": ["str", "int"], "abs": ["int"], "round": ["int"],
            "items": ["dict"], "dictsort": ["dict"], "indent": ["str"], "truncate": ["str"], "reverse": ["list", "str"],
            **dict.fromkeys("sort unique sum min max join map select reject selectattr rejectattr batch slice groupby".split(), ["list"]),
            **dict.fromkeys("upper lower title capitalize trim replace wordcount center format escape e safe".split(), ["str"]),
        }.get(name), depth)
        p = self.pick
        args = {
            "join": lambda: p(["", "(', ')", "('-', attribute='name')", "(attribute=0)"]),
            "replace": lambda: p(["('a', 'b')", "('l', '')", "('', '-')", "('a', 'b', 1)", f"({self.string()}, {self.string()})"]),
            "default": lambda: p(["", "('x')", "('x', true)", "(boolean=true)"]),
            "d": lambda: p(["('y')", "(none)"]),
            "map": lambda: p(["('upper')", "(attribute='name')", "(attribute='a', default='q')", "('string')", "('length')",
                              "('default', 'w')", "('int')", "(attribute='tags.0')", "('tojson')"]) + p(["|list", "|join(',')", "|first"]),
            "select": lambda: p(["", "('odd')", "('defined')", "('gt', 1)", "('string')", "('in', [1, 2])"]) + "|list",
            "reject": lambda: p(["", "('even')", "('none')", "('equalto', 1)"]) + "|list",
            "selectattr": lambda: p(["('name')", "('age', 'gt', 1)", "('role', 'equalto', 'user')", "('tags')", "('tags', 'defined')"])
            + p(["|list", "|map(attribute='name')|list", "|first"]),
            "rejectattr": lambda: p(["('tags')", "('role', 'eq', 'system')", "('tags', 'undefined')"]) + "|list",
            "batch": lambda: p(["(2)", "(2, 'f')", "(3)"]) + "|list",
            "slice": lambda: p(["(2)", "(3, 'f')"]) + "|list",
            "groupby": lambda: p(["('name')", "('age')", "('role')", "('tags', default=[])"]),
            "sort": lambda: p(["", "(reverse=true)", "(attribute='age')", "(attribute='name')", "(case_sensitive=true)"]),
            "unique": lambda: p(["|list", "(true)|list", "(attribute='age')|list"]),
            "sum": lambda: p(["", "(attribute='age')", "(start=10)"]),
            "min": lambda: p(["", "(attribute='age')", "(attribute='name')"]),
            "max": lambda: p(["", "(attribute='age')", "(case_sensitive=true)"]),
            "indent": lambda: p(["", "(2)", "(2, true)", "('> ', true, true)", "(width=1, blank=true)"]),
            "round": lambda: p(["", "(1)", "(0, 'ceil')", "(1, 'floor')", "(2)", "(-1)"]),
            "int": lambda: p(["", "(default=3)", "(0, 16)"]),
            "float": lambda: p(["", "(1.5)"]),
            "tojson": lambda: p(["", "(indent=2)", "(ensure_ascii=true)", "(sort_keys=true)", "(separators=(',', ':'))"]),
            "items": lambda: "|list",
            "reverse": lambda: p(["|list", "|first", "|join"]),
            "trim": lambda: p(["", "(' l')"]),
            "dictsort": lambda: p(["", "(true)", "(false, 'value')", "(reverse=true)"]),
            "center": lambda: p(["(9)", "(2)"]),
            "truncate": lambda: p(["(5)", "(5, true)", "(4, true, '')", "(6, false, '..', 0)"]),
            "attr": lambda: p(["('a')", "('name')"]),
            "format": lambda: p(["", "('x')", "(1, 2)", "(a=1)"]),
        }.get(name, lambda: "")()
        return f"{base}|{name}{args}"

    def method(self, depth):
        base = self.base(["str", "str", "str", "dict", "list"], depth)
        if self.rng.random() < 0.4:
            return f"{base}.{self.pick(METHODS0)}()"
        name = self.pick(METHODS1)
        arg = self.string() if self.rng.random() < 0.8 else self.expr(depth + 2)
        return f"{base}.{name}({arg}{self.pick(['', '', '', ', 1', ', 0, 3'])})"

    def postfix(self, depth):
        base = self.base(["str", "dict", "list", "list"], depth)
        # jinja2 may work out the slice of a literal when compiling, and then that of a number is undefined and no error.
        kind = self.rng.randrange(5 if base in VARIABLES else 3)
        if kind == 0:
            return f"{base}.{self.pick(ATTRS)}"
        if kind == 1:
            return f"{base}[{self.pick(INTS)}]"
        if kind == 2:
            return f"{base}['{self.pick(ATTRS)}']"
        if kind == 3:
            part = lambda: self.pick(["", "", "1", "2", "-1", "-2", "5", "n", "0"])
            return f"{base}[{part()}:{part()}{self.pick(['', '', ':2', ':-1', ':-2', ':'])}]"
        return f"{base}[{self.expr(depth + 2)}]"

    def expr(self, depth=0):
        self.left -= 1
        if depth > 4 or self.left < 0:
            return self.atom()
        kind = self.rng.randrange(20)
        if kind < 4:
            return self.atom()
        if kind < 7:
            op = self.pick(OPERATORS)
            kinds = {"+": ["str", "int", "list"], "in": ["str"], "not in": ["str"], "<": ["str", "int"], ">=": ["int", "str", "list"]}
            left = kinds.get(op, ["int"] if op in "- * / // % ** > <=".split() else None)
            if left:
                kind = self.pick(left)
                return f"{self.typed(kind, depth)} {op} {self.typed(kind, depth)}"
            return f"{self.expr(depth + 1)} {op} {self.expr(depth + 1)}"
        if kind == 7:
            return f"({self.expr(depth + 1)})"
        if kind == 8:
            items = ", ".join(self.expr(depth + 2) for _ in range(self.rng.randrange(4)))
            return self.pick([f"[{items}]", f"[{items}]", f"({items},)" if items else "()"])
        if kind == 9:
            pairs = ", ".join(f"{self.pick([self.string(), '1', 'n', 's'])}: {self.expr(depth + 2)}"
                              for _ in range(self.rng.randrange(3)))
            return "{" + pairs + "}"
        if kind < 13:
            return self.filtered(depth)
        if kind < 15:
            return self.method(depth)
        if kind < 17:
            return self.postfix(depth)
        if kind == 17:
            test = self.pick(TESTS) if self.rng.random() < 0.6 else f"{self.pick(TESTS1)}({self.expr(depth + 2)})"
            return f"{self.atom()} is {self.pick(['', 'not '])}{test}"
        if kind == 18:
            otherwise = self.pick(["", f" else {self.expr(depth + 1)}"])
            return f"({self.expr(depth + 1)} if {self.expr(depth + 1)}{otherwise})"
        return self.pick([f"not {self.expr(depth + 1)}", f"-{self.atom()}", f"+{self.atom()}",
                          f"range({self.pick(INTS)})|list", f"range({self.pick(INTS)}, {self.pick(INTS)}, {self.pick(INTS)})|list",
                          f"dict(a={self.atom()})", f"namespace(x={self.atom()}).x", "cycler(1, 2).next()",
                          f"'%s|%5.2f|%-4d|' % ({self.expr(depth + 2)}, f, n)", f"'{{:>6}}{{}}'.format({self.atom()}, n)"])

    def space(self):
        return self.pick(["", "", "\n", " ", "  \n", "\n  ", "text", " é\n", "\t"])

    def tag(self, inside):
        return "{%" + self.pick(["", "", "", "-", "+"]) + f" {inside} " + self.pick(["", "", "", "-", "+"]) + "%}"

    def body(self, depth):
        return "".join(self.statement(depth + 1) for _ in range(self.rng.randrange(1, 4)))

    def statement(self, depth=0):
        self.left -= 1
        kind = self.rng.randrange(16) if depth < 4 and self.left > 0 else 0
        t, e, gap = self.tag, self.expr, self.space
        if kind < 5:
            return gap() + "{{" + self.pick(["", "", "-", "+"]) + f" {e(1)} " + self.pick(["", "", "-"]) + "}}" + gap()
        if kind < 7:
            text = gap() + t(f"if {e(1)}") + self.body(depth)
            if self.rng.random() < 0.4:
                text += t(f"elif {e(1)}") + self.body(depth)
            if self.rng.random() < 0.5:
                text += t("else") + self.body(depth)
            return text + t("endif") + gap()
        if kind < 10:
            target = self.pick(["x", "x", "x", "i", "k, v", "a, (p, q)"])
            over = self.pick(["xs", "ys", "rows", "messages", "d", "d.items()", "mix", "s", "u", "nn", "undefined_name", "range(3)",
                              "xs|reverse", "rows|selectattr('tags')", "ed", e(2)])
            test = self.pick(["", "", "", f" if {e(2)}", " if x", " if loop is undefined"])
            inner = self.body(depth) + self.pick(
                ["", "", "{{ loop.index }}/{{ loop.length }}", "{{ loop.first }}{{ loop.last }}", "{{ loop.nextitem }}",
                 "{{ loop.previtem|default('P') }}", "{{ loop.revindex0 }}", "{{ loop.cycle('o', 'e') }}", "{{ loop.changed(x) }}",
                 "{% if loop.index0 == 1 %}{% break %}{% endif %}", "{% if x %}{% continue %}{% endif %}!", "{{ x }};", "{{ i }}{{ k }}"])
            text = gap() + t(f"for {target} in {over}{test}") + inner
            if self.rng.random() < 0.3:
                text += t("else") + self.body(depth)
            return text + t("endfor") + gap()
        if kind < 12:
            target = self.pick(["x", "y", "n", "s", "x, y", "ns.v"])
            if self.rng.random() < 0.25:
                name = self.pick(["x", "y", "s"])
                return t(f"set {name}{self.pick(['', ' | upper', ' | trim | length'])}") + self.body(depth) + t("endset") + gap()
            value = f"{e(1)}" if target not in ("x, y",) else f"{e(2)}, {e(2)}"
            return gap() + t(f"set {target} = {value}") + gap()
        if kind == 12:
            name = self.pick(["mac", "mac2"])
            text = t(f"macro {name}(a, b={e(2)})") + self.body(depth)
            text += self.pick(["{{ a }}{{ b }}", "{{ a }}{{ caller() }}", "{{ varargs }}{{ kwargs }}", "{{ x }}"]) + t("endmacro")
            call = self.pick([f"{{{{ {name}({e(2)}) }}}}", f"{{{{ {name}(1, b=2) }}}}", f"{{{{ {name}(1, 2, 3, c=4) }}}}",
                              t(f"call {name}(s)") + "C{{ n }}" + t("endcall")])
            return gap() + text + gap() + call
        if kind == 13:
            return t(f"filter {self.pick(['upper', 'trim', 'indent(2)', 'replace(''e'', ''E'')'])}") + self.body(depth) + t("endfilter")
        if kind == 14:
            return self.pick([t(f"with x = {e(2)}, y = n") + self.body(depth) + t("endwith"),
                              "{#" + self.pick(["", "-"]) + " comment " + self.pick(["", "-", "+"]) + "#}" + gap(),
                              t("raw").replace("+%}", "%}") + "{{ raw }} {% x %}\n" + t("endraw"), gap() + "{{ '{{' }}" + gap()])
        return t("generation") + self.body(depth) + t("endgeneration")

    def template(self):
        self.left = self.rng.choice([6, 12, 30, 60])
        head = self.pick(["", "", "{% set ns = namespace(v=0, w=[]) %}"])
        if self.rng.random() < 0.5:
            return head + "{{ " + self.expr() + " }}"
        return head + "".join(self.statement() for _ in range(self.rng.randrange(1, 5)))


def stable(case):
    """Whether another run, and another implementation, would print the same: no addresses of objects."""
    return "text" not in case or " object at 0x" not in case["text"] and " at 0x" not in case["text"]


def generated(count, seed):
    rng = random.Random(seed)
    generator = Generator(rng)
    cases = []
    while len(cases) < count:
        template = generator.template()
        try:
            case = render(template, VARIABLES)
        except RecursionError:
            continue
        if not stable(case) or len(case.get("text", "")) > 20000:
            continue
        case["name"] = f"random {seed} {len(cases)}"
        cases.append(case)
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", default=os.path.join(ROOT, "tests/golden/jinja.json"))
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.random:
        cases = generated(args.random, args.seed)
    else:
        sys.path.insert(0, os.path.join(ROOT, "tests/golden"))
        import jinja_cases
        cases = []
        for name, template, variables in jinja_cases.cases():
            case = render(template, variables)
            if not stable(case):
                sys.exit(f"{name}: its text has an address in it")
            case["name"] = name
            cases.append(case)
    # Templates and variables that several cases share are written once; a case then has their number.
    templates, variables = [], []
    for case in cases:
        if case["vars"] not in variables:
            variables.append(case["vars"])
        case["vars"] = variables.index(case["vars"])
        if len(case["template"]) > 1000:
            if case["template"] not in templates:
                templates.append(case["template"])
            case["template"] = templates.index(case["template"])
    document = {
        "made by": "tools/gen_jinja_golden.py",
        "versions": {"jinja2": jinja2.__version__, "markupsafe": getattr(markupsafe, "__version__", "3"),
                     "python": platform.python_version()},
        "now": NOW,
        "templates": templates,
        "vars": variables,
        "cases": cases,
    }
    with open(args.o, "w", encoding="utf-8") as f:
        json.dump(document, f, ensure_ascii=True, indent=None if args.random else 1)
        f.write("\n")
    errors = sum("error" in case for case in cases)
    print(f"{args.o}: {len(cases)} cases, {errors} of them errors")


if __name__ == "__main__":
    main()
