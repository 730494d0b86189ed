#!/usr/bin/env python3
"""tolerance_table.py - the table of src/verify/tolerance.c as the Markdown that docs/numerics.md holds.

  tools/tolerance_table.py            prints the table
  tools/tolerance_table.py --write    puts it between the two markers of docs/numerics.md

A test fails when the page and the table differ. Standard library only."""
import os
import re

from page_table import Page

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "numerics.md")
BEGIN, END = "<!-- tolerances: tools/tolerance_table.py --write -->\n", "<!-- end of tolerances -->\n"
SCALES = {"EXACT": "the very bits", "SELF": "\\|want\\|", "TERMS": "sum of \\|terms\\|"}
ENTRY = re.compile(r'T\((\w+), RT_\w+?_(\w+), (\w+), ([\d.]+), ([\d.]+), [\d.]+,\s*((?:"[^"]*"\s*)+)\)')


def table():
    with open(os.path.join(ROOT, "src", "verify", "tolerance.c"), encoding="utf-8") as f:
        text = f.read()
    lines = ["| op | output | scale | limit | rms | why | largest seen |", "|---|---|---|---|---|---|---|"]
    for op, slot, scale, limit, rms, strings in ENTRY.findall(text):
        why = "".join(re.findall(r'"([^"]*)"', strings))
        match = re.match(r"(.*); ([\d.]+)$", why)
        why, seen = match.groups() if match else (why, "")
        lines.append(f"| {op.lower()} | {slot.lower()} | {SCALES[scale]} | {limit} | {rms} | "
                     f"{why.replace('|', chr(92) + '|')} | {seen} |")
    return "\n".join(lines) + "\n"


page = Page(PAGE, BEGIN, END, table)
if __name__ == "__main__":
    page.main(__doc__)
