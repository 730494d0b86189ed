"""`retort serve` asked by the openai package: completions and chats, whole and streamed, log-probabilities, and its own errors for what
is refused. What the numbers are is looked at by tests/cli/serve.sh.
"""
import os
import re
import subprocess
import tempfile

import openai

from interop import RETORT, check, finish


def serve(*args):
    server = subprocess.Popen([RETORT, "serve", *args, "--port", "0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    for line in server.stdout:
        if url := re.match(r"serving +(\S+)$", line):
            return server, url[1]
    raise SystemExit(f"retort serve {args} ended")


def completions(client):
    ask = dict(model="tiny", prompt="one two", max_tokens=12, seed=3, logprobs=2)
    whole = client.completions.create(**ask, n=2).choices
    parts = ["", ""]
    for event in client.completions.create(**ask, n=2, stream=True):
        for choice in event.choices:
            parts[choice.index] += choice.text
    check(parts == [c.text for c in whole] and parts[0] != parts[1], f"streamed {parts}, whole {whole}")
    check(len(whole[0].logprobs.tokens) == len(whole[0].logprobs.top_logprobs) == 12, f"{whole[0].logprobs}")
    echoed = client.completions.create(model="tiny", prompt="one two", max_tokens=0, echo=True, logprobs=1).choices[0]
    check(echoed.text == "one two" and echoed.logprobs.token_logprobs[0] is None, f"echo: {echoed}")
    stop = next(c for c in whole[0].text if c.isascii())
    cut = client.completions.create(**ask, stop=[stop]).choices[0]
    check(cut.text == whole[0].text.split(stop)[0] and cut.finish_reason == "stop", f"stop {stop!r}: {cut}")
    more = client.completions.create(model="tiny", prompt=[[1, 2], [3]], max_tokens=2, extra_body={"prompt_logprobs": 1, "return_token_ids": True})
    check([c.prompt_token_ids for c in more.choices] == [[1, 2], [3]] and list(more.choices[0].prompt_logprobs[1])[0] == "2", f"{more}")


def chats(client):
    ask = dict(model="tiny", messages=[{"role": "user", "content": "hello"}], max_completion_tokens=10, seed=1)
    whole = client.chat.completions.create(**ask, logprobs=True, top_logprobs=3)
    events = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    text = "".join(c.delta.content or "" for e in events for c in e.choices)
    check(text == whole.choices[0].message.content and events[-1].usage == whole.usage, f"streamed {text!r}, whole {whole}")
    check(all(len(t.top_logprobs) == 3 for t in whole.choices[0].logprobs.content), f"{whole.choices[0].logprobs}")


def refused(kind, param, call, **fields):
    try:
        call(**fields)
        check(False, f"{fields} is not refused")
    except kind as e:
        check(e.param == param, f"{fields}: {e.param}: {e}")


def refusals(client, url):
    refused(openai.NotFoundError, "model", client.completions.create, model="gpt-4", prompt="a")
    refused(openai.BadRequestError, "presence_penalty", client.completions.create, model="tiny", prompt="a", presence_penalty=1)
    refused(openai.BadRequestError, "prompt", client.completions.create, model="tiny", prompt=[1] * 500)
    refused(openai.BadRequestError, "messages", client.chat.completions.create, model="tiny", messages=[])
    other = openai.OpenAI(base_url=url + "/v1", api_key="wrong", max_retries=0)
    refused(openai.AuthenticationError, None, other.models.list)
    refused(openai.AuthenticationError, None, other.completions.create, model="tiny", prompt="a")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    subprocess.run([RETORT, "init", "--preset", "tiny-qwen2", "--seed", "1", "s"], check=True, capture_output=True)
    open("token", "w").write("right\n")
    server, url = serve("s", "--name", "tiny", "--context", "128", "--slots", "4", "--token-file", "token")
    client = openai.OpenAI(base_url=url + "/v1", api_key="right", max_retries=0)
    check([m.id for m in client.models.list()] == ["tiny"], "models")
    completions(client)
    chats(client)
    refusals(client, url)
    server.terminate()
    check(server.wait(30) == 0, "it ends well")
finish()
