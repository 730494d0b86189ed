#!/usr/bin/env python3
"""gen_help.py - man pages and shell completions from the binary's own tables (`retort --help=json`).

  tools/gen_help.py [--retort build/retort]    writes docs/man/*.1 and completions/* (`make help-files`)

A test fails when those files are not what this would write. Standard library only."""
import argparse
import glob
import json
import os
import re
import shlex
import subprocess
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MADE = "Made by tools/gen_help.py from the tables of the binary: change those, then `make help-files`."
HUB = ("~/.cache/huggingface/hub", "Where org/name is looked for. HF_HUB_CACHE, HF_HOME and XDG_CACHE_HOME move it. Nothing is "
       "downloaded.")
TUNED = ("~/.cache/retort/products.tsv", "The GEMM algorithms that were found fastest (--tune). XDG_CACHE_HOME moves it.")
PAGE = ("RUN/run/report.html", "The page.")


# ---- what the binary says ----

def ask(retort, *args):
    command = shlex.split(os.environ.get("EMU", "")) + [retort, *args, "--help=json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout)


def load(retort):
    """The top table, with the table of each command added to its entry."""
    top = ask(retort)
    for command in top["commands"]:
        command.update(about=command["text"], **{k: v for k, v in ask(retort, command["name"]).items() if k != "name"})
    return top


def run_files():
    """(path, text) of all that a run leaves, as docs/training.md has it."""
    with open(os.path.join(ROOT, "docs", "training.md"), encoding="utf-8") as f:
        block = f.read().split("## What is on disk")[1].split("```\n")[1]
    rows = []
    for line in block.splitlines():
        path, _, text = line.partition(" ")
        if path:
            rows.append((path, text.strip()))
        else:
            rows[-1] = (rows[-1][0], rows[-1][1] + " " + text.strip())
    assert len(rows) > 10, "docs/training.md no longer lists the files of a run"
    return [(path, re.sub(r" \(\[.*?\]\(.*?\)\)", "", text)) for path, text in rows]


def files_of(name):
    run = run_files()
    rows = {"distill": [HUB, TUNED] + run, "train": [HUB, TUNED] + run, "plan": [HUB, TUNED], "doctor": [],
            "report": [PAGE], "verify": [(path.replace("OUT", "RUN"), text) for path, text in run
                                         if path.endswith(("manifest.json", "verdict.json", "metrics.jsonl"))]}
    return rows.get(name, [HUB])


# ---- man pages ----

ROFF = {"\\": "\\e", "-": "\\-", "^": "\\(ha", "~": "\\(ti", "`": "\\(ga"}
FLAG = r"(?<![\w-])--?[a-z][a-z0-9-]*"


def roff(text):
    text = "".join(ROFF.get(c, c if ord(c) < 128 else f"\\[u{ord(c):04X}]") for c in text)
    return re.sub(r"^(?=[.'])", r"\\&", text)


def bold(text):
    return f"\\fB{roff(text)}\\fR"


def prose(text):
    """Paragraphs of running text; flags, and what stands in backquotes, are bold."""
    for paragraph in text.split("\n\n"):
        for line in textwrap.wrap(" ".join(paragraph.split()), 64, break_on_hyphens=False, break_long_words=False):
            parts = re.split(rf"({FLAG}|`[^`]*`)", line)
            line = "".join(bold(p.strip("`")) if i % 2 else roff(p) for i, p in enumerate(parts))
            yield re.sub(r"^(?=[.'])", r"\\&", line)
        yield ".PP"


def synopsis(usage):
    """The command and flags bold, what stands for a value italic."""
    program, *rest = re.match(r"(retort(?: [a-z]+)?)(.*)", usage).groups()
    parts = re.split(rf"({FLAG})|([A-Z][A-Z0-9]*|\bflags\b)", rest[0])
    out = bold(program)
    for plain, flag, value in zip(parts[::3], parts[1::3] + [None], parts[2::3] + [None]):
        out += roff(plain) + (bold(flag) if flag else f"\\fI{value}\\fR" if value else "")
    return out


def items(rows):
    for left, text in rows:
        yield from (".TP", left)
        yield from list(prose(text))[:-1]


def examples(text):
    """Commands, cut at words as a shell sees them."""
    yield ".EX"
    for command in text.splitlines():
        line = ""
        for word in re.findall(r"(?:'[^']*'|\S)+", command):
            if line and len(line) + 1 + len(word) > 68:
                yield roff(line + " \\").replace("'", "\\(aq")
                line = "   "
            line += " " + word if line else word
        yield roff(line).replace("'", "\\(aq")
    yield ".EE"


def page(name, top, about, usage, sections):
    others = ["retort"] + [f"retort-{c['name']}" for c in top["commands"]]
    lines = [f'.\\" {MADE}', f'.TH {roff(name.upper())} 1 "" "retort {top["version"]}" "retort"', ".nh", ".ad l",
             ".SH NAME", f"{roff(name)} \\- {roff(about)}", ".SH SYNOPSIS", usage]
    sections = sections + [("EXIT STATUS", items((bold(str(s["code"])), s["text"]) for s in top["statuses"])),
                           ("FILES", items((f"\\fI{roff(p)}\\fR", t) for p, t in files_of(name.replace("retort-", "")))),
                           ("SEE ALSO", [f"\\fB{roff(o)}\\fR(1)," for o in others if o != name])]
    for title, body in sections:
        body = list(body)
        while body and body[-1] == ".PP":
            body.pop()
        lines += [f".SH {title}"] + body if body else []
    return "\n".join(lines).rstrip(",") + "\n"


def man_retort(top):
    text = (f"{top['name']} {top['text']}: one binary, a command for each thing that it does.\n\nA model is a Hugging Face "
            "directory, a .safetensors, .gguf or .apr file, or org/name in the local Hugging Face cache. A flag and its "
            "value are two words or one: --lr 5e-5, --lr=5e-5.")
    commands = items((f"\\fBretort {c['name']}\\fR", c["about"]) for c in top["commands"])
    options = [("help COMMAND", "The help of that command; COMMAND --help prints the same."),
               ("--help", "The commands; --help=json: the same for programs."), ("--version", "The version.")]
    return page("retort", top, top["text"], synopsis(top["usage"]), [
        ("DESCRIPTION", prose(text)), ("COMMANDS", commands),
        ("OPTIONS", items((bold(flag), about) for flag, about in options)),
        ("EXAMPLES", examples("\n".join(c["example"] for c in top["commands"] if c["name"] in ("distill", "eval", "generate"))))])


def man_command(top, c):
    flags = ((bold(f["name"]) + (f" \\fI{roff(f['metavar'])}\\fR" if f["metavar"] else ""), f["help"]) for f in c["flags"])
    return page(f"retort-{c['name']}", top, c["about"], synopsis(c["usage"]), [
        ("DESCRIPTION", prose(c["text"])), ("OPTIONS", items(flags)), ("EXAMPLES", examples(c["example"]))])


# ---- completions ----

def value_of(f):
    """What a flag takes: None, or (choices, whether files, whether folders alone)."""
    if f["kind"] == "switch":
        return None
    return tuple(f.get("choices", [])), bool(f.get("path")), f["metavar"] == "DIR"


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def brief(text):
    """The first clause of a help line: up to a semicolon that is in no parentheses."""
    return re.match(r"(?:\([^)]*\)|[^;])*", text)[0]


BASH = r"""# retort.bash - completion of retort in bash.
# {made}

# _retort_offer WORD...: those that begin with what is typed.
_retort_offer() {{
    local word
    for word; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
}}

# _retort_paths -f|-d: files, or folders alone.
_retort_paths() {{
    local path
    compopt -o filenames 2>/dev/null # fails outside of a completion
    while IFS= read -r path; do
        COMPREPLY+=("$path")
    done < <(compgen "$1" -- "$cur")
}}

_retort() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} command=${{COMP_WORDS[1]}}
    local flags= paths= given word
    COMPREPLY=()
    # Of --flag=value bash makes three words.
    if [[ $cur == "=" ]]; then
        cur=
    elif [[ $prev == "=" ]]; then
        prev=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    if ((COMP_CWORD == 1)); then
        _retort_offer {commands} help --help --version
        return
    elif ((COMP_CWORD == 2)) && [[ $command == help ]]; then
        _retort_offer {commands}
        return
    fi
    given=" ${{COMP_WORDS[*]:2:COMP_CWORD-2}} "
    if [[ $given != *" -- "* ]]; then
        case $command:$prev in
{values}
        esac
    fi
    case $command in
{flags}
    *) return ;;
    esac
    if [[ $cur == -* && $given != *" -- "* ]]; then
        for word in $flags; do
            case $word in
            {lists}) ;; # may be repeated
            *) [[ $given == *" $word "* ]] && continue ;;
            esac
            _retort_offer "$word"
        done
    elif [[ $paths ]]; then
        _retort_paths -f
    fi
}}
complete -F _retort retort
"""


def by_value(commands):
    """(value, ['command:flag', ...]) of all flags that take one; '*:flag' where every command agrees."""
    seen, patterns = {}, {}
    for c in commands:
        for f in c["flags"]:
            seen.setdefault(f["name"], []).append((c["name"], value_of(f)))
    for flag, uses in seen.items():
        same = len({value for _, value in uses}) == 1
        for name, value in uses[:1] if same else uses:
            if value:
                patterns.setdefault(value, []).append(f"{'*' if same else name}:{flag}")
    return patterns.items()


def bash(top):
    commands, values, flags = top["commands"], [], []
    for (choices, path, folder), patterns in by_value(commands):
        words = [f"_retort_offer {' '.join(choices)}"] if choices else []
        words += ["_retort_paths -d" if folder else "_retort_paths -f"] if path else []
        # A pattern and the bar after it stay together; a line that goes on ends with a backslash.
        cases = textwrap.wrap("\xa0| ".join(patterns) + ")", 108, initial_indent=" " * 8, subsequent_indent=" " * 12,
                              break_on_hyphens=False, break_long_words=False)
        values += [" \\\n".join(cases).replace("\xa0", " ")]
        values += [" " * 12 + word for word in words + ["return", ";;"]]
    for c in commands:
        names = textwrap.wrap(" ".join(f["name"] for f in c["flags"]), 100, break_on_hyphens=False)
        flags += [f"    {c['name']})", " " * 8 + "flags='" + ("\n" + " " * 12).join(names) + "'"]
        flags += [" " * 8 + "paths=1"] if c["arguments"][1] else []
        flags += [" " * 8 + ";;"]
    lists = sorted({f["name"] for c in commands for f in c["flags"] if f["kind"] == "list"})
    return BASH.format(made=MADE, commands=" ".join(c["name"] for c in commands), values="\n".join(values),
                       flags="\n".join(flags), lists=" | ".join(lists))


ZSH = r"""#compdef retort
# _retort - completion of retort in zsh.
# {made}

_retort_word_or_file() {{
    compadd -- "$@"
    _files
}}

_retort() {{
    local context state state_descr line curcontext=$curcontext
    local -a commands
    typeset -A opt_args
    commands=(
{commands}
    )
    _arguments -C '(- *)--help[the commands]' '(- *)--version[the version]' '1:command:->command' '*::argument:->argument'
    case $state in
    command) _describe command commands ;;
    argument)
        case $words[1] in
        help) _describe command commands ;;
{flags}
        esac
        ;;
    esac
}}

_retort "$@"
"""


def zsh_flag(f):
    about = re.sub(r"([\[\]\\:])", r"\\\1", brief(f["help"]))
    value = value_of(f)
    if not value:
        return f"{f['name']}[{about}]"
    choices, path, folder = value
    action = (f" _retort_word_or_file {' '.join(choices)}" if choices and path else f"({' '.join(choices)})" if choices
              else "_files -/" if folder else "_files" if path else " ")
    metavar = f["metavar"].replace(":", "\\:")
    return f"{'*' if f['kind'] == 'list' else ''}{f['name']}{'=' if f['name'][1] == '-' else ''}[{about}]:{metavar}:{action}"


def zsh(top):
    commands, flags = [], []
    for c in top["commands"]:
        commands.append(" " * 8 + quoted(c["name"] + ":" + brief(c["about"])))
        specs = [zsh_flag(f) for f in c["flags"]]
        if c["arguments"][1]:
            specs.append("*:path:_files")
        flags += [f"        {c['name']})", " " * 12 + "_arguments -S \\"]
        flags += [" " * 16 + quoted(s) + " \\" for s in specs[:-1]] + [" " * 16 + quoted(specs[-1]), " " * 12 + ";;"]
    commands.append(" " * 8 + quoted("help:the help of a command"))
    return ZSH.format(made=MADE, commands="\n".join(commands), flags="\n".join(flags))


FISH = r"""# retort.fish - completion of retort in fish.
# {made}

# __retort_in COMMAND: the first word is that command.
function __retort_in
    set -l words (commandline -opc)
    test (count $words) -gt 1; and test $words[2] = $argv[1]
end

function __retort_first
    test (count (commandline -opc)) -eq 1
end

complete -c retort -f
complete -c retort -n __retort_first -l help -d 'the commands'
complete -c retort -n __retort_first -l version -d 'the version'
complete -c retort -n __retort_first -a help -d 'the help of a command'
complete -c retort -n '__retort_in help' -a '{names}'
{commands}
"""


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(top):
    lines = []
    for c in top["commands"]:
        inside = f"complete -c retort -n '__retort_in {c['name']}'"
        lines += ["", f"complete -c retort -n __retort_first -a {c['name']} -d {fish_quoted(brief(c['about']))}"]
        for f in c["flags"]:
            name = f"-l {f['name'][2:]}" if f["name"].startswith("--") else f"-s {f['name'][1:]}"
            value = value_of(f)
            if value:
                choices, path, folder = value
                words = list(choices) + (["(__fish_complete_directories)"] if folder else [])
                name += " -r" if path and not folder else " -x"
                name += " -F" if path and not folder else ""
                name += f" -a {fish_quoted(' '.join(words))}" if words else ""
            lines.append(f"{inside} {name} -d {fish_quoted(brief(f['help']))}")
        if c["arguments"][1]:
            lines.append(f"{inside} -F")
    names = " ".join(c["name"] for c in top["commands"])
    return FISH.format(made=MADE, names=names, commands="\n".join(lines))


# ---- all of it ----

def made(retort):
    """Text by path, from the root of the project."""
    top = load(retort)
    files = {f"docs/man/retort-{c['name']}.1": man_command(top, c) for c in top["commands"]}
    files["docs/man/retort.1"] = man_retort(top)
    files.update({"completions/retort.bash": bash(top), "completions/_retort": zsh(top), "completions/retort.fish": fish(top)})
    return files


def there():
    """The paths of what was made before."""
    return set(glob.glob("docs/man/*", root_dir=ROOT) + glob.glob("completions/*", root_dir=ROOT))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--retort", default=os.path.join(ROOT, "build", "retort"), help="the binary to ask")
    files = made(parser.parse_args().retort)
    for path in there() - set(files):
        os.remove(os.path.join(ROOT, path))
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(ROOT, path)), exist_ok=True)
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()
