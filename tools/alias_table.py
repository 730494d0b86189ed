#!/usr/bin/env python3
"""alias_table.py - the table of src/settings/aliases.h as the Markdown that docs/other-tools.md holds.

  tools/alias_table.py            prints the table
  tools/alias_table.py --write    puts it between the two markers of docs/other-tools.md

A test fails when the page and the table differ. Standard library only."""
import os
import re

import settings_table
from page_table import Page
from settings_table import ROOT, string

PAGE = os.path.join(ROOT, "docs", "other-tools.md")
BEGIN, END = "<!-- names: tools/alias_table.py --write -->\n", "<!-- end of names -->\n"
TOOLS = {"ANY": "", "GKD": "TRL GKD", "DISTILLATION": "TRL Distillation", "FACTORY": "LLaMA-Factory", "AXOLOTL": "axolotl",
         "SWIFT": "ms-swift"}
TEXT = r'((?:(?:"(?:\\.|[^"\\])*"|RT_\w+)\s*)+|NULL)'
ENTRY = re.compile(rf"X\((\w+), (\w+), (\w+), (\w+), {TEXT}, {TEXT}\)")


def source(name="aliases.h"):
    with open(os.path.join(ROOT, "src", "settings", name), encoding="utf-8") as f:
        return f.read()


def entries():
    """(name, tool, rule, setting, yes, no) of every alias, in the order of the table."""
    files = "aliases.h", "aliases_idle.h", "aliases_refused.h"
    text = re.sub(r"[ \t]*\\\n[ \t]*", " ", "".join(map(source, files)))
    words = dict(re.findall(r'#define (RT_\w+) (".*")\n', text))
    body = "".join(re.findall(r"#define RT_ALIAS_(?:MAPPED|IDLE|REFUSED)\(X\)(.*)\n", text))
    for name, tool, rule, setting, yes, no in ENTRY.findall(body):
        yield name, tool, rule, setting, *(string(re.sub(r"\bRT_\w+", lambda m: words[m[0]], t)) for t in (yes, no))


def dataset_entries():
    """(name, rule, yes, no) of every name inside an entry of `datasets`."""
    text = re.sub(r"[ \t]*\\\n[ \t]*", " ", source() + source("aliases_datasets.h"))
    words = dict(re.findall(r'#define (RT_\w+) (".*")\n', text))
    body = re.search(r"#define RT_DATASET_TABLE\(X\)(.*)\n", text)[1]
    for name, rule, yes, no in re.findall(rf"X\((\w+), (\w+), {TEXT}, {TEXT}\)", body):
        yield name, rule, *(string(re.sub(r"\bRT_\w+", lambda m: words[m[0]], t)) for t in (yes, no))


def dataset_becomes(rule, yes, no):
    known = {"path": "`--data`", "split": "`--data PATH:SPLIT`; `train` has no effect; a slice (`train[:10%]`) is refused",
             "files": "`--data`, each of them, where path is json, csv, parquet or text; else refused",
             "mappings": "`--columns role=NAME,content=NAME`; role and from, content and value need none",
             "idle": f"no effect: {yes}", "off": f"refused: it {yes}"}
    if rule == "words":
        return f"{' or '.join(f'`{w}`' for w in yes.split())}, which has no effect; another value {no}"
    if rule == "column":
        return f"`--columns {yes}=NAME`; {' and '.join(f'`{w}`' for w in no.split())} need none"
    return known[rule]


def becomes(flags, rule, setting, yes, no):
    if rule == "same":
        return f"`{flags[setting]}`"
    if rule == "on_off":
        return f"`{flags[setting]} {yes}`; false: `{no}`"
    if rule == "no_effect":
        return f"no effect: {yes}"
    if rule == "off":
        return f"refused, unless {no}: it {yes}"
    if rule == "one_of":
        return f"{' or '.join(f'`{w}`' for w in yes.split())}, which has no effect; another value {no}"
    return yes


def table():
    flags = {flag[2:].replace("-", "_"): flag for flag, *_ in settings_table.entries()}
    lines = ["| name | of | becomes |", "|---|---|---|"]
    for name, tool, *rest in entries():
        lines.append(f"| `{name}` | {TOOLS[tool]} | {becomes(flags, *rest)} |")
    for name, *rest in dataset_entries():
        lines.append(f"| `{name}` in an entry of `datasets` |  | {dataset_becomes(*rest)} |")
    return "\n".join(lines) + "\n"


page = Page(PAGE, BEGIN, END, table)
if __name__ == "__main__":
    page.main(__doc__)
