"""Man pages and completions are those of the binary: what tools/gen_help.py would write now is what is there."""
import os
import re
import sys

from checks import BUILD, ROOT, check, finish, read

sys.path.insert(0, os.path.join(ROOT, "tools"))
import gen_help  # noqa: E402

made = gen_help.made(os.path.join(BUILD, "retort"))
for path in sorted(gen_help.there() | set(made)):
    current = os.path.exists(path) and read(path) == made.get(path)
    check(current, f"{path}: not what the binary's tables give now; run `make help-files`")

pages = [text for path, text in made.items() if path.endswith(".1")]
check(len(pages) > 10, f"only {len(pages)} man pages")
for text in pages:
    titles = re.findall(r"^\.SH (.*)", text, re.M)
    wanted = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO"]
    check([t for t in titles if t in wanted] == wanted, f"{text.splitlines()[1]}: sections {titles}")
statuses = re.findall(r"^    X\(\w+, -?(\d+), \"([^\"]*)\"\)", read("src/base/err.h"), re.M)
for code, meaning in statuses:
    entry = f".TP\n\\fB{code}\\fR\n{gen_help.roff(meaning)}\n"
    check(all(entry in text for text in pages), f"exit status {code} is missing in a man page")
check(len(statuses) > 10, f"only {len(statuses)} statuses found in src/base/err.h")
version = re.search(r'RETORT_VERSION "(.*)"', read("include/retort.h"))[1]
check(all(f'"retort {version}"' in text for text in pages), f"a man page is not of version {version}")
finish()
