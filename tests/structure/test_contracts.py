"""Every claim of a run has a contract, and every falsifier of a contract is run by something that is there.

contracts/*.yaml are read line by line: their form is simple (contracts/README.md), and no package is needed.
"""
import os
import re

from checks import check, check_all, finish, read, sources

ENTRY = re.compile(r"^(  - |    )(\w+):(?: (.*))?$")
WANTED = {"id", "claim", "wrong_if", "run_by"}


def contract(path):
    """(family, claim, falsifiers) and the faults of a file; a falsifier is a dict whose run_by is a list."""
    head, falsifiers, faults, listing = {}, [], [], None
    for number, line in enumerate(read(path).splitlines(), 1):
        entry = ENTRY.match(line)
        if line.startswith("      - ") and listing is not None:
            listing.append(line[8:])
        elif entry and (entry[1] == "  - " or falsifiers):
            if entry[1] == "  - ":
                falsifiers.append({})
            value = entry[3] if entry[3] is not None else []
            if entry[2] in falsifiers[-1]:
                faults.append(f"{path}:{number}: {entry[2]} twice")
            falsifiers[-1][entry[2]] = value
            listing = value if value == [] else None
        elif re.match(r"^\w+:", line):
            key, _, value = line.partition(":")
            head[key] = value.strip()
        elif line.strip():
            faults.append(f"{path}:{number}: not understood: {line}")
    return head, falsifiers, faults


def table():
    """id -> claim of the falsifiers in the code."""
    text = read("src/evidence/evidence.h").replace("\\\n", " ")
    text = re.sub(r'"\s+"', "", text)
    return {m[1]: m[2] for m in re.finditer(r'X\("([^"]+)", \w+, \'[ad]\',\s*"([^"]+)"\)', text)}


def runs(check_name):
    """Whether a check that a contract names is there; else why not."""
    file, _, case = check_name.partition("::")
    if file == "verify":
        calls = "".join(read(p) for p in sources("src/*/audit*.c"))
        found = f'"{case}"' in calls
    elif not os.path.exists(file):
        return f"{file} is not there"
    elif file.endswith(".c"):
        text = read(file)
        found = re.search(rf"\b{re.escape(case)}\(", text) and (
            case == "main" or f"cmocka_unit_test({case})" in text)
    else:
        found = f'check "{case}"' in read(file)
    return "" if found else f"nothing in it is called {case}"


def faults_of(path, claims):
    head, falsifiers, faults = contract(path)
    if not head.get("family") or not head.get("claim") or not falsifiers:
        faults.append(f"{path}: a family, a claim and falsifiers are needed")
    for f in falsifiers:
        name = f.get("id", "a falsifier without id")
        faults += [f"{path}: {name} has no {key}" for key in sorted(WANTED - {k for k, v in f.items() if v})]
        if name not in claims:
            faults.append(f"{path}: {name} is in no code")
        elif f.get("claim") != claims[name]:
            faults.append(f"{path}: {name} claims something else than the code: {claims[name]}")
        named = f.get("run_by") or []
        if not any(r.startswith("tests/") for r in named):
            faults.append(f"{path}: {name}: no test runs it")
        faults += [f"{path}: {name}: {r}: {runs(r)}" for r in named if runs(r)]
    return faults, [f.get("id") for f in falsifiers]


claims = table()
listed = len(re.findall(r'X\("', read("src/evidence/evidence.h")))
check(len(claims) == listed > 0, f"src/evidence/evidence.h has {listed} falsifiers, {len(claims)} were understood")
files = sources("contracts/*.yaml")
check(len(files) > 0, "no contracts")
seen = []
for path in files:
    faults, ids = faults_of(path, claims)
    check_all(faults)
    seen += ids
check_all(f"{i} has no contract" for i in sorted(set(claims) - set(seen)))
check_all(f"{i} is in two contracts" for i in sorted({i for i in seen if seen.count(i) > 1}))

# Ids that other files name must be ids.
pattern = re.compile(r"\b(?:F|FT|DBH)-[A-Z0-9]+(?:-[A-Z0-9]+)*-\d{3}(?:-[A-Z]+(?:-[A-Z]+)*)?\b|\bDBH-\d{3}\b")
for path in ["docs/evidence.md"] + sources("tests/unit/test_evidence.c", "tests/unit/test_audit.c", "tests/cli/evidence.sh"):
    unknown = sorted(set(pattern.findall(read(path))) - set(claims))
    check(not unknown, f"{path}: no such falsifier: {', '.join(unknown)}")

# Controls: what is wrong is seen.
check(runs("tests/unit/test_evidence.c::no_such_case") != "", "a case that is not there was found")
check(runs("tests/unit/no_such_file.c::main") != "", "a file that is not there was found")
check(runs("verify::no such check") != "", "a check that is not there was found")
check(runs("tests/unit/test_evidence.c::planted_facts") == "", "a case that is there was not found")
finish()
