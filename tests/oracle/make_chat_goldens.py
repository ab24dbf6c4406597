#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/tokenizer/chat_other.jsonl and tojson.jsonl.

chat_other.jsonl: the conversations of chat_qwen3.jsonl and a few more, through the templates in
tests/data/tokenizer/templates (Qwen3's: the few more), rendered by Jinja2 set up as transformers does. "text" is null where the template
raises. tojson.jsonl: JSON texts, and what the filter tojson makes of them.
Needs the package jinja2. Run from the root of the tree:

    python3 tests/oracle/make_chat_goldens.py
"""
import json
import pathlib

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

DATA = pathlib.Path("tests/data/tokenizer")
CALL = {"name": "f", "arguments": {"x": 1}}
MORE = [
    ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [CALL, {"function": CALL}]},
      {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}, {"role": "user", "content": "b"}], None),
    ([{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"name": "g", "arguments": "{\"y\": 2}"}]}],
     [{"type": "function", "function": CALL}]),
    ([{"role": "tool", "content": "first"}, {"role": "system", "content": "late"}], None),
    ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>b</think>c"},
      {"role": "user", "content": "<tool_response>d"}, {"role": "assistant", "content": "<think>e</think>f"}], None),
    ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>b</think>c"},
      {"role": "user", "content": "d</tool_response>"}, {"role": "assistant", "content": "<think>e</think>f"}], None),
    ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>b</think>c"},
      {"role": "user", "content": "<tool_response>d</tool_response>"}, {"role": "assistant", "content": "f"}], None),
    ([{"role": "user", "content": None}], None),
    ([{"role": "system", "content": None}, {"role": "user", "content": "x"}], None),
]
TEXTS = [
    '{}', '[]', '[1,2,3]', '[ 1 , 2.0 , -0 ]', '{"a":{"b":[{"c":null}]}}', '[true,false,null]', '"\\u00e9\\/\\u2028\\u007f"',
    '"\\u0001\\b\\f\\n\\r\\t\\\\\\""', '{"k\\u0041\\n\\"":"\\ud83d\\ude00"}', '{"z":1,"a":2}', '-0', '-0.0', '0.0', '0e5', '1E5',
    '1e15', '1e16', '123456789012345680', '123456789012345680.0', '9999999999999998.0', '0.0001', '0.00001', '1.5e-7',
    '0.1', '100.0', '1e22', '1e400', '-1e400', '5e-324', '1.7976931348623157e308', '123456789012345678901234567890', '2.50',
    '[[1,2],[3.10,4]]', '[1,"x"]', '[-1e400,1e400]', '{"":[]}', '1234.5678', '12345678.9e3', '0.1e1', '-12.0e-1',
]


def environment():
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = tojson
    return env


def render(template, **args):
    try:
        return template.render(**args)
    except (TypeError, jinja2.exceptions.TemplateError):
        return None


def main():
    talks, seen = [], set()
    for line in open(DATA / "chat_qwen3.jsonl", encoding="utf-8"):
        d = json.loads(line)
        talk = (d["messages"], d.get("tools"))
        if json.dumps(talk) not in seen:
            seen.add(json.dumps(talk))
            talks.append(talk)
    env = environment()
    with open(DATA / "chat_other.jsonl", "w", encoding="utf-8") as f:
        paths = {p.stem: (p, talks + MORE) for p in sorted((DATA / "templates").glob("*.jinja"))}
        paths["qwen3"] = (DATA / "qwen3" / "chat_template_b.jinja", MORE)
        paths["qwen3-first"] = (DATA / "qwen3" / "chat_template_a.jinja", MORE)
        for family, (path, all_talks) in paths.items():
            template = env.from_string(path.read_text(encoding="utf-8"))
            for i, (messages, tools) in enumerate(all_talks):
                prompt = i % 2 == 0
                text = render(template, messages=messages, tools=tools, add_generation_prompt=prompt)
                row = {"id": f"{family}-{i}", "family": family, "messages": messages, "tools": tools,
                       "add_generation_prompt": prompt, "text": text}
                f.write(json.dumps(row) + "\n")
    with open(DATA / "tojson.jsonl", "w", encoding="utf-8") as f:
        for i, text in enumerate(TEXTS):
            f.write(json.dumps({"id": f"j-{i}", "json": text, "text": env.filters["tojson"](json.loads(text))}) + "\n")


main()
