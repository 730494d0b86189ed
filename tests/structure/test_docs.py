"""The pages say what the code does: every op has its line in docs/numerics.md, the tolerance table there is the one that
is enforced, the flags of docs/training.md are those of the settings, the names of docs/other-tools.md those that are
understood, links between the pages lead somewhere, and README.md lists every page."""
import os
import re
import sys

from checks import ROOT, check, finish, read, sources

sys.path.insert(0, os.path.join(ROOT, "tools"))
import alias_table  # noqa: E402
import settings_table  # noqa: E402
import tolerance_table  # noqa: E402

numerics = read("docs/numerics.md")
ops = re.findall(r"^    X\([A-Z0-9_]+, (\w+), \w+,", read("src/op/op.h"), re.M)
check(len(ops) > 20, f"only {len(ops)} ops found in src/op/op.h")
signatures = numerics.split("## Signatures")[1].split("\n## ")[0]
for op in ops:
    check(re.search(rf"^\|[^|]*\b{op}\b", signatures, re.M), f"docs/numerics.md: {op} has no line under Signatures")

rows = tolerance_table.table().count("\n") - 2
entries = len(re.findall(r"^    T\(", read("src/verify/tolerance.c"), re.M))
check(rows == entries, f"tools/tolerance_table.py sees {rows} of {entries} entries of src/verify/tolerance.c")
check(tolerance_table.page.parts()[1] == tolerance_table.table(),
      "docs/numerics.md: the tolerance table is not that of src/verify/tolerance.c; run tools/tolerance_table.py --write")

settings = list(settings_table.entries())
entries = len(re.findall(r"^    X\(\w+, \"--", read("src/settings/settings.h"), re.M))
check(len(settings) == entries, f"tools/settings_table.py sees {len(settings)} of {entries} entries of src/settings/settings.h")
check(settings_table.page.parts()[1] == settings_table.table(),
      "docs/training.md: the flags are not those of src/settings/settings.h; run tools/settings_table.py --write")

aliases = list(alias_table.entries())
entries = sum(len(re.findall(r"^    X\(\w+, [A-Z]+, \w+, \w+,", read(f"src/settings/{name}.h"), re.M))
              for name in ("aliases", "aliases_idle", "aliases_refused"))
check(len(aliases) == entries > 100, f"tools/alias_table.py sees {len(aliases)} of {entries} names of src/settings/aliases.h")
check(alias_table.page.parts()[1] == alias_table.table(),
      "docs/other-tools.md: the names are not those of src/settings/aliases.h; run tools/alias_table.py --write")


def anchors(page):
    """What a link may name after #: the headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", read(page), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


for page in sources("*.md", "docs/*.md"):
    for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", read(page)):
        target = os.path.normpath(os.path.join(os.path.dirname(page), link)) if link else page
        there = os.path.exists(target)
        check(there, f"{page}: {link} is not there")
        if there and anchor:
            check(anchor in anchors(target), f"{page}: {target} has no heading #{anchor}")
for page in sources("docs/*.md"):
    check(f"]({page})" in read("README.md"), f"README.md: {page} is not in its list")
finish()
