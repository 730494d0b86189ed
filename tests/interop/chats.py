"""chats.py - random conversations for chat templates: roles, tools, reasoning, parts; and changed copies of templates.

Everything follows from the random generator that is given.
"""
import re

TEXTS = ["Hi", "", " ", "What's 2+2?", "Be brief.\n", "\n\nlines\n", "<think>\nhm\n</think>\n\nYes", "a</think>b",
         "<tool_response>x</tool_response>", "Ünïcødé 漢字 🙂", "{\"a\": 1}", "<|im_end|>", "it's \"quoted\" & <b>",
         "\ttab \\ back\\slash", "<think></think>", "/no_think", "/think go", "1", "none", "[INST]x[/INST]", "Straße\u2028\u0085x"]
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": {
        "type": "object", "required": ["city"],
        "properties": {"city": {"type": "string", "description": "Where"}, "unit": {"type": "string", "enum": ["c", "f"]}}}}},
    {"type": "function", "function": {"name": "add", "description": "Adds \"numbers\"\nand more", "parameters": {
        "type": "object", "properties": {"a": {"type": "number", "default": 1.5}, "b": {"type": ["integer", "null"]},
                                         "c": {"type": "array", "items": {"type": "string"}}}}, "return": {"type": "number"}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]
ARGUMENTS = [{"city": "Köln", "unit": "c"}, {}, {"a": 1, "b": None, "c": ["x", "<y>"]}, {"a": 1.5e-7, "b": True},
             "{\"city\": \"x\"}", {"n": {"m": [1, [2]]}}]


def content(r):
    kind = r.random()
    if kind < .85:
        return r.choice(TEXTS)
    if kind < .97:
        return [{"type": "text", "text": r.choice(TEXTS)} if r.random() < .8 else {"type": "image"} for _ in range(r.randint(1, 3))]
    return None


def call(r):
    function = {"name": r.choice(["get_weather", "add", "now"]), "arguments": r.choice(ARGUMENTS)}
    call_id = r.choice(["call_1", "123456789", "abcdef123"])
    return r.choice([{"type": "function", "id": call_id, "function": function}, {"id": call_id, "function": function}, function])


def assistant(r):
    message = {"role": "assistant", "content": content(r)}
    if r.random() < .25:
        message["tool_calls"] = [call(r) for _ in range(r.randint(1, 2))]
    if r.random() < .2:
        message["reasoning_content"] = r.choice(TEXTS)
    if r.random() < .05:
        del message["content"]
    return message


def messages(r):
    """Mostly a conversation as it should be; sometimes not."""
    out = [{"role": "system", "content": content(r)}] if r.random() < .5 else []
    for _ in range(r.randint(1, 3)):
        out.append({"role": "user", "content": content(r)})
        out.append(assistant(r))
        if out[-1].get("tool_calls"):
            name = out[-1]["tool_calls"][0].get("id")
            out += [{"role": "tool", "name": "add", "tool_call_id": name, "content": content(r)} for _ in range(r.randint(1, 2))]
            if r.random() < .7:
                out.append(assistant(r))
    if r.random() < .3:
        out.pop()
    if r.random() < .1:
        r.shuffle(out)
    if r.random() < .05:
        out.append({"role": r.choice(["developer", "ipython", "critic", "system"]), "content": content(r)})
    return out


def variables(r):
    """(messages, tools, documents, extra variables, special tokens, generation prompt)"""
    extra = {name: value for name, value in (
        ("enable_thinking", r.random() < .5), ("date_string", "26 Jul 2024"), ("xml_tools", r.random() < .5), ("reasoning_effort", "high"),
        ("thinking", r.random() < .5), ("custom_tools", None), ("builtin_tools", ["code"]), ("tools_in_user_message", r.random() < .5),
        ("add_vision_id", True), ("python_tools", ["t"]), ("preserve_thinking", True),
        ("keep_past_thinking", r.random() < .5)) if r.random() < .25}
    tools = r.sample(TOOLS, r.randint(1, 3)) if r.random() < .4 else None
    documents = [{"title": "T", "text": r.choice(TEXTS)}] if r.random() < .1 else None
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    return messages(r), tools, documents, extra, special, r.random() < .5


PARTS = re.compile(r"(\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\})", re.S)
WORDS = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|\w+|[^\w\s]")
SWAPS = ["messages", "message", "loop.first", "loop.last", "not", "is defined", "is none", "is string", "|trim", "|tojson",
         "| length", "~", "+", "''", "0", "-1", "[1:]", "[0]", "['content']", ".role", "true", "none", "and", "or", "==", "!=",
         "is mapping", "in", ".split('\\n')", ".strip()", "|list", "|first"]
FILTERS = ["|upper", "|trim", "|string", "|length", "|tojson(indent=2)", "|list", "|default('D')", "|int"]
ADDITIONS = ["{% generation %}g{% endgeneration %}", "{{ messages|length }}", "{# c #}", "{{ loop.index }}", "{% set x = 1 %}\n",
             "{% if tools %}T{% endif %}", "{% raw %}{{{% endraw %}", "{{ messages[-1] }}"]


def changed(r, template):
    """The template with a few parts changed; about half of them still render."""
    parts = PARTS.split(template)
    for _ in range(r.randint(1, 4)):
        i = r.randrange(len(parts))
        part = parts[i]
        kind = r.randrange(6)
        if kind == 0 and part[:2] in ("{%", "{{", "{#"):  # white space control
            inside = part[2:-2].strip("-+")
            parts[i] = part[:2] + r.choice(["", "-", "+"]) + inside + r.choice(["", "-"]) + part[-2:]
        elif kind == 1:
            parts[i] = r.choice(["", "\n", "  ", "\n\n", " x ", part + part, part.strip()])
        elif kind == 2:
            parts[i] = r.choice(parts)
        elif kind == 3 and part[:2] in ("{%", "{{"):
            words = WORDS.findall(part)
            words[r.randrange(len(words))] = r.choice(SWAPS)
            parts[i] = " ".join(words).replace("{ {", "{{").replace("} }", "}}").replace("{ %", "{%").replace("% }", "%}")
        elif kind == 4 and part[:2] == "{{":
            parts[i] = part[:-2].rstrip("-") + r.choice(FILTERS) + "}}"
        elif kind == 5 and part[:2] not in ("{%", "{{", "{#"):
            parts[i] = part + r.choice(ADDITIONS)
    return "".join(parts)
