#!/usr/bin/env python3
"""settings_table.py - the table of src/settings/settings.h as the Markdown that docs/training.md holds.

  tools/settings_table.py            prints the table
  tools/settings_table.py --write    puts it between the two markers of docs/training.md

A test fails when the page and the table differ. Standard library only."""
import os
import re

from page_table import Page

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "training.md")
BEGIN, END = "<!-- settings: tools/settings_table.py --write -->\n", "<!-- end of settings -->\n"
TEXT = r'((?:"(?:\\.|[^"\\])*"\s*)+|NULL)'
ENTRY = re.compile(rf"X\((\w+), {TEXT}, (\w+), {TEXT}, (\w+), (\w+), {TEXT}, {TEXT}\)")
NEED = re.compile(rf"X\((\w+), \w+, {TEXT},")
KINDS = {"TEXT", "TEXTS", "LIST", "REAL", "COUNT", "SHARE", "SWITCH"}
RESUMED = {"RUN": "kept", "FREE": "free", "TOKENS": "fixed"}


def string(text):
    return "".join(re.findall(r'"((?:\\.|[^"\\])*)"', text)).replace('\\"', '"')


def macro(name):
    """The body of an X-macro of settings.h, in one line."""
    with open(os.path.join(ROOT, "src", "settings", "settings.h"), encoding="utf-8") as f:
        text = re.sub(r"[ \t]*\\\n[ \t]*", " ", f.read())
    return re.search(rf"#define {name}\(X\)(.*)\n", text)[1]


def entries():
    """(flag, metavar, default, bind, need, help) of every setting, in the order of the table."""
    needs = {"NOTHING": "", **{name: string(text) for name, text in NEED.findall(macro("RT_SETTING_NEEDS"))}}
    for _, flag, kind, default, bind, need, metavar, about in ENTRY.findall(macro("RT_SETTING_TABLE")):
        assert kind in KINDS, kind
        yield string(flag), string(metavar), string(default), bind, needs[need], string(about)


def table():
    lines = ["| flag | default | on resume | needs | |", "|---|---|---|---|---|"]
    for flag, metavar, default, bind, need, about in entries():
        words = f"{flag} {metavar}".strip().replace("|", "\\|")
        need = f"`{need}`" if need else ""
        lines.append(f"| `{words}` | {default or '-'} | {RESUMED[bind]} | {need} | {about.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


page = Page(PAGE, BEGIN, END, table)
if __name__ == "__main__":
    page.main(__doc__)
