"""help.py - `retort COMMAND --help` on pseudo-terminals of several widths: no line is longer, no word of the table is
missing, flags stand in one column; into a pipe it is the same whatever the terminal. And every word that the JSON calls
a choice of a flag is one."""
import fcntl
import json
import os
import pty
import shlex
import struct
import subprocess
import sys
import tempfile
import termios

COMMAND = shlex.split(os.environ.get("EMU", "")) + [os.path.abspath(os.environ["RETORT"])]
WIDTHS = 60, 80, 120, 200
PIPED = 100
counts = {True: 0, False: 0}


def check(ok, message):
    counts[bool(ok)] += 1
    if not ok:
        print(message)


def environment(**more):
    return {**{k: v for k, v in os.environ.items() if k != "COLUMNS"}, **more}


def on_terminal(width, *args, **more):
    """What the binary prints on a terminal of that width."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen(COMMAND + list(args), stdin=subprocess.DEVNULL, stdout=inside, env=environment(**more))
    os.close(inside)
    text = b""
    try:
        while piece := os.read(terminal, 65536):
            text += piece
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    check(process.wait() == 0, f"{args}: exit status {process.returncode}")
    return text.decode().replace("\r\n", "\n")


def piped(*args, **more):
    done = subprocess.run(COMMAND + list(args), stdin=subprocess.DEVNULL, capture_output=True, env=environment(**more))
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def words_of(command):
    """All words that the help of a command has to hold, in order."""
    words = ["usage:"] + command["usage"].split() + command["text"].split() + ["flags:"]
    for flag in command["flags"]:
        words += [flag["name"]] + ([flag["metavar"]] if flag["metavar"] else []) + flag["help"].split()
    return words + ["example:"] + command["example"].split()


def fits(name, text, width):
    long = [line for line in text.split("\n") if len(line) > width]
    check(not long, f"{name} at {width}: {long}")
    check(text.endswith("\n") and not any(line != line.rstrip() for line in text.split("\n")), f"{name} at {width}: ends")


def one_column(name, command, text, width):
    """The help of every flag begins in the same column, in its line or in the next."""
    lines, starts = text.split("\nflags:\n")[1].split("\n\n")[0].split("\n"), set()
    for flag in command["flags"]:
        left = "  " + flag["name"] + (" " + flag["metavar"] if flag["metavar"] else "")
        at = next((i for i, line in enumerate(lines) if line == left or line.startswith(left + " ")), None)
        check(at is not None, f"{name} at {width}: {flag['name']} is not there")
        if at is not None:
            line = lines[at] if lines[at] != left else lines[at + 1]
            start = line.index(flag["help"].split()[0], len(left) if lines[at] != left else 0)
            starts.add(start)
    check(len(starts) == 1, f"{name} at {width}: help begins in columns {sorted(starts)}")


def every_help(commands):
    for name, command in commands.items():
        for width in WIDTHS:
            text = on_terminal(width, name, "--help")
            fits(name, text, width)
            body = [word for word in text.split() if word != "\\"]
            check(body == words_of(command), f"{name} at {width}: other words than the table has")
            one_column(name, command, text, width)
        status, text, _ = piped(name, "--help")
        fits(name, text, PIPED)
        check(status == 0 and text == piped(name, "--help", COLUMNS="60")[1], f"{name}: a pipe has no width")
    check(max(map(len, on_terminal(200, "distill", "--help").split("\n"))) <= 120, "lines too long to read")
    check(on_terminal(200, "distill", "--help", COLUMNS="70") == on_terminal(70, "distill", "--help"), "COLUMNS")
    check(on_terminal(0, "distill", "--help") == piped("distill", "--help")[1], "a terminal that says no width")
    narrow = on_terminal(44, "distill", "--help")
    fits("distill", narrow, 44)
    for width in WIDTHS:
        text = on_terminal(width, "--help")
        fits("retort", text, width)
        check(text.split() == piped("--help")[1].split(), f"retort at {width}: other words than in a pipe")


def every_choice(commands):
    """A choice of the JSON is taken by the command; another word is refused with all of them named."""
    piped("init", "--preset", "tiny-llama", "t")
    piped("init", "--preset", "tiny-qwen2", "s")
    with open("d.jsonl", "w") as f:
        f.writelines(json.dumps({"text": f"a line of text, number {i}"}) + "\n" for i in range(100))
    plan = ["plan", "--teacher", "t", "--student", "s", "--data", "d.jsonl", "--steps", "2", "--seq-len", "32",
            "--batch", "1", "--threads", "1"]
    calls = {"plan": plan, "convert": ["convert", "t"], "tokenize": ["tokenize", "d.jsonl", "--model", "t"],
             "verify": ["verify", "--op", "add", "--quick"],
             "eval": ["eval", "t", "--data", "d.jsonl", "--teacher", "t", "--rows", "1", "--threads", "1"]}
    tried = set()
    for name, call in calls.items():
        for flag in (f for f in commands[name]["flags"] if f.get("choices")):
            if (name, flag["name"]) == ("verify", "--device"):
                continue  # of a finished run (evidence.sh); plan takes the same words
            tried.add(flag["name"])
            for choice in flag["choices"] + ["zzzzz"]:
                out = [f"{choice}.gguf" if flag["name"] == "--dtype" else choice] if name == "convert" else []
                status, _, error = piped(*call, *out, flag["name"], choice)
                gpus = dict(cuda=9, host=5).get(choice)  # of a GPU, which may be missing here; the word is known all the same
                if choice != "zzzzz":
                    check(status in (0, gpus), f"{name} {flag['name']} {choice}: {error}")
                elif not flag.get("path") and flag["name"] != "--kernels":  # of which only a GPU's driver knows
                    lost = [c for c in flag["choices"] if c not in error and c != "auto"]
                    check(status in (2, 9) and not lost, f"{name} {flag['name']}: {lost} not in {status} '{error.strip()}'")
    presets = [p["name"] for p in json.loads(piped("init", "--list", "--json")[1])]
    of_init = {f["name"]: f.get("choices") for f in commands["init"]["flags"]}
    check(of_init["--preset"] == presets, "the presets are not those of init --list")
    untried = {f["name"] for c in commands.values() for f in c["flags"] if f.get("choices")} - tried - {"--preset", "--format"}  # of files: foreign.sh
    check(not untried, f"choices of {sorted(untried)} were not tried")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        names = [c["name"] for c in json.loads(piped("--help=json")[1])["commands"]]
        commands = {name: json.loads(piped(name, "--help=json")[1]) for name in names}
        every_help(commands)
        every_choice(commands)
        os.chdir("/")
    print(f"{counts[True]} passed, {counts[False]} failed")
    sys.exit(1 if counts[False] else 0)


main()
