#!/usr/bin/python3
"""Renders the chat templates of tests/fixtures/templates/ with Python's Jinja2, set up as Hugging Face does it, and writes
what they give to tests/fixtures/templates/goldens.json; likewise the small templates listed here, one a feature, to
snippets.json. Needs python3-jinja2; only people run it.

usage: tools/make_template_goldens.py
"""
import argparse
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/templates"


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what a model wrote; here it only passes the text on."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


def variables(case):
    """What a template finds: `tools` and `documents` are None unless given, an empty special token is left out."""
    found = {"tools": None, "documents": None}
    found.update({name: case[name] for name in ("bos_token", "eos_token") if case.get(name)})
    found.update(case.get("extra", {}))
    found["messages"] = case["messages"]
    found["add_generation_prompt"] = case.get("add_generation_prompt", True)
    return found


def said(*contents, system=None):
    messages = [{"role": "system", "content": system}] if system is not None else []
    roles = ("user", "assistant")
    return messages + [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather — “now”, in °C & <soon>.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "default": 1.5}},
            "required": ["city"],
        },
    },
}

CONVERSATIONS = {
    "one question": {"messages": said("Hello!")},
    "system and history": {"messages": said("Who are you?", "  I am Rondo.\n", "And\n\nnow? ", system="Be brief.")},
    "no prompt at the end": {"messages": said("Hi", "Hello"), "add_generation_prompt": False},
    "odd characters": {"messages": said("’Tis “日本語” 🙂 {{ x }} {% if %}\t<|im_end|>", system=" \n sys\u00a0")},
    "two users": {"messages": said("a") + said("b")},
    "nothing": {"messages": []},
    "system only": {"messages": said(system="Alone.")},
    "tools": {"messages": said("Rain?", system="Help."), "extra": {"tools": [WEATHER]}},
    "tools without system": {"messages": said("Rain?", "No.", "Snow?"), "extra": {"tools": [WEATHER, WEATHER]}},
    "a date": {"messages": said("When?"), "extra": {"date_string": "01 Feb 2025"}},
    "thoughts": {
        "messages": said("1+1?", "<think>\nadd\n</think>\n\n2", "2+2?", "<think>again</think>4", "3+3?"),
    },
    "thoughts off": {"messages": said("1+1?"), "extra": {"enable_thinking": False}},
    "thoughts on": {"messages": said("1+1?", system="s"), "extra": {"enable_thinking": True}},
    "tool answers": {
        "messages": said("Rain?", "<think>hm</think>calling")
        + [{"role": "tool", "content": "wet"}, {"role": "tool", "content": "cold"}],
        "extra": {"tools": [WEATHER]},
    },
    "a tool response by the user": {
        "messages": said("Rain?", "<think>\nlet me\n</think>\n\ncall", "<tool_response>\nwet\n</tool_response>"),
    },
}


# The date of today cannot stand in a golden file.
FIXED = {"llama-3.2.jinja": {"date_string": "26 Jul 2024"}}


# What the snippets find besides Jinja's own: Python values of every kind.
VALUES = {
    "greeting": "Hello World",
    "spaced": " a\tb \n",
    "lines": "one\ntwo\r\n\nthree\n",
    "unicode": "Ünï ß 日本 🙂",
    "seven": 7,
    "half": 2.5,
    "words": ["b", "A", "a", "C"],
    "numbers": [3, 1, 2, 1],
    "pairs": [[1, 2], [3, 4]],
    "table": {"k": 1, "key two": "v", "items": [1], "nothing": None, "in": {"deep": [5, 6]}},
    "rows": [{"n": "x", "v": 2}, {"n": "y", "v": 1}, {"n": "x", "v": 3}, {"v": 0}],
}

SNIPPETS = r"""
{{ none }} {{ true }} {{ 7 }} {{ -7 }} {{ 1_000 }} {{ 2.50 }} {{ 1e3 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 1e300 * 1e10 }}
{{ [1, 'a', none, true, 1.0, (1,), (1, 2), (), {'k': "it's"}, {}] }} {{ ['q"\\n\t\x07é\u200b'] }} {{ [missing] }}
{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 6 / 2 * 3 }} {{ true + 1 }} {{ 1 ~ 2 ~ none }} {{ 'a' + 'b' * 3 }} {{ 2 * [1] + [2] }}
{{ 1 < 2 }} {{ 1 < 2 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 }} {{ 1 == '1' }} {{ none == missing }} {{ missing == absent }} {{ 3 > 2 >= 2 != 3 }}
{{ 'ell' in greeting }} {{ 1 in numbers }} {{ 9 not in numbers }} {{ 'k' in table }} {{ 1 in missing }} {{ () in table }}
{{ 1 and 0 }} {{ 0 or 'x' }} {{ not 1 }} {{ '' or none }} {{ 1 if 0 else 2 }} {{ 'no else' if false }} {{ 1 if true else 2 if true else 3 }}
{{ greeting[0] }} {{ greeting[-1] }} {{ greeting[1:4] }} {{ greeting[::-1] }} {{ greeting[:-3:2] }} {{ greeting[99] }} {{ greeting[8:100] }} {{ unicode[-1] }} {{ unicode[::-1] }}
{{ numbers[::-1] }} {{ numbers[1:] }} {{ numbers[-2:] }} {{ numbers[3:0:-1] }} {{ (1, 2, 3)[:2] }} {{ numbers[true] }} {{ numbers.1 }} {{ numbers[:none] }}
{{ table.k }} {{ table['key two'] }} {{ table.nothing }} {{ table.absent }} {{ table['items'] }} {{ table['in'].deep[1] }} {{ table.items is defined }} {{ seven.x }} {{ none.x }}
{{ table.items() }} {{ table.keys() }} {{ table.values() | list }} {{ table.get('k') }} {{ table.get('absent') }} {{ table.get('absent', 5) }} {{ {1: 'int', true: 'same'} }}
{{ ' x '.strip() }}| {{ ' x '.lstrip() }}| {{ ' x '.rstrip() }}| {{ 'xxaxx'.strip('x') }} {{ 'abcab'.lstrip('ba') }} {{ unicode.rstrip('🙂 ') }}
{{ 'a,b,,c'.split(',') }} {{ 'a,b,,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ ' a  b c '.split(none, 1) }} {{ 'a</think>b'.split('</think>')[-1] }} {{ ''.split() }} {{ ''.split(',') }}
{{ greeting.startswith('He') }} {{ greeting.endswith(('x', 'ld')) }} {{ greeting.find('o') }} {{ greeting.rfind('o') }} {{ greeting.find('z') }} {{ greeting.count('l') }} {{ ''.count('') }}
{{ 'hello wORLD'.title() }} {{ "they're".title() }} {{ 'hELLO'.capitalize() }} {{ unicode.upper() }} {{ unicode.lower() }} {{ 'aXa'.replace('a', 'bb') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }}
{{ '-'.join(['a', 'b']) }} {{ 'prefix'.removeprefix('pre') }} {{ 'suffix'.removesuffix('fix') }} {{ lines.splitlines() }} {{ numbers.count(1) }} {{ numbers.index(2) }}
{{ spaced | trim }}| {{ 'xax' | trim('x') }} {{ 7 | trim }} {{ greeting | upper }} {{ greeting | lower }} {{ 'hELLO' | capitalize }} {{ "they're (here)-now" | title }}
{{ numbers | length }} {{ unicode | length }} {{ table | count }} {{ missing | length }} {{ missing | default('d') }} {{ '' | d('e') }} {{ '' | default('e', true) }} {{ none | default('e') }}
{{ numbers | join }} {{ numbers | join(', ') }} {{ rows | join('/', attribute='v') }} {{ 'abc' | join('-') }} {{ greeting | replace('o', '0') }} {{ greeting | replace('o', '0', 1) }} {{ 121 | replace(1, 3) }}
{{ numbers | first }} {{ numbers | last }} {{ [] | first }} {{ 'abc' | list }} {{ table | list }} {{ table | items | list }} {{ missing | items | list }} {{ (1, 2) | list }} {{ 'abc' | reverse }} {{ numbers | reverse | list }}
{{ rows | selectattr('n') | list | length }} {{ rows | selectattr('n', 'equalto', 'x') | map(attribute='v') | list }} {{ rows | rejectattr('n', 'defined') | list }} {{ rows | selectattr('v', '>', 1) | list | length }}
{{ numbers | select('odd') | list }} {{ numbers | reject('equalto', 1) | join(', ') }} {{ [0, '', 1] | select | list }} {{ rows | map(attribute='n', default='?') | join }} {{ words | map('upper') | list }} {{ pairs | map(attribute=1) | list }} {{ [none, 2] | map('default', 1, true) | list }}
{{ words | sort }} {{ words | sort(true) }} {{ words | sort(case_sensitive=true) }} {{ numbers | sort }} {{ rows[:3] | sort(attribute='n,v') | map(attribute='v') | list }} {{ words | unique | list }} {{ words | unique(true) | list }} {{ table | sort }}
{{ lines | indent }} {{ lines | indent(2, true) }} {{ lines | indent('> ', blank=true) }} {{ 'one' | indent(first=true) }} {{ '' | indent }}|
{{ '42' | int }} {{ ' -4_2 ' | int }} {{ '4.9' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ 3.9 | int }} {{ -3.9 | int }} {{ true | int }} {{ none | int }} {{ '1e3' | int }}
{{ '4.5' | float }} {{ 'x' | float }} {{ 'x' | float(1.5) }} {{ 3 | float }} {{ 'inf' | float }} {{ '-.5e1' | float }} {{ -3 | abs }} {{ -2.5 | abs }} {{ 7 | string + 'x' }}
{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 7 | round }} {{ 2.1 | round(0, 'ceil') }} {{ 2.19 | round(1, 'floor') }} {{ 7 | round(method='floor') }}
{{ table | tojson }} {{ [1.0, 1e20, none, true, 'é"\\/\x1f\x7f'] | tojson }} {{ table | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ unicode | tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': [2]} | tojson(sort_keys=true) }} {{ [1, {'a': 2}] | tojson(separators=(',', ':')) }} {{ {1: 2, none: 3} | tojson }}
{{ missing is defined }} {{ missing is undefined }} {{ none is none }} {{ 'a' is string }} {{ table is mapping }} {{ table is sequence }} {{ 'a' is iterable }} {{ 7 is iterable }} {{ numbers is sequence }} {{ missing is iterable }}
{{ 7 is number }} {{ true is number }} {{ true is integer }} {{ 7 is integer }} {{ 7.0 is float }} {{ true is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 7 is odd }} {{ 7 is even }} {{ 9 is divisibleby 3 }} {{ 7 is not odd }}
{{ 1 is equalto 1 }} {{ 1 is eq(2) }} {{ 1 is ne 2 }} {{ 1 is in [1] }} {{ 1 is lt 2 }} {{ 2 is ge 2 }} {{ not 1 is none and true }} {{ not missing is defined }}
{{ range(3) | list }} {{ range(2, 8, 3) | join(',') }} {{ range(3, 0, -1) | list }} {{ range(5)[1:3] | list }} {{ range(0) | length }} {{ dict(a=1, b='x') }} {{ dict({'a': 1}, a=2) }}
{% for x in numbers %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }};{% endfor %}
{% for x in numbers if x != 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ loop.last }} {% else %}none{% endfor %}{% for x in [] %}{% else %}empty{% endfor %}{% for x in missing %}{% else %}missing{% endfor %}
{% for k, v in table.items() %}{{ k }}={{ v }};{% endfor %}{% for a, b in pairs %}{{ a + b }} {% endfor %}{% for (a, b) in pairs %}{{ a }}{% endfor %}{% for k in table %}{{ k }},{% endfor %}{% for c in unicode %}{{ c }}.{% endfor %}
{% for x in numbers %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}{% for x in numbers %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}{% for x in [1] %}{% continue %}{% else %}else{% endfor %}
{% for x in [1, 2] %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }}{{ y }} {% endfor %}{% endfor %}
{% set ns = namespace(go=true) %}{% for x in numbers if ns.go %}{{ x }}{% set ns.go = false %}{% endfor %}
{% set x = 1 %}{% for y in [1, 2] %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, %}{{ t }}
{% set ns = namespace(n=0, s='') %}{% for y in numbers %}{% set ns.n = ns.n + y %}{% set ns.s = ns.s ~ y %}{% endfor %}{{ ns.n }} {{ ns.s }} {{ ns.absent }}
{% set text %} {{ greeting }} {% set hidden = 1 %}{% endset %}[{{ text }}]{{ hidden }}{% set up | upper | trim %} {{ greeting }} {% endset %}[{{ up }}]
{% macro greet(name, mark='!', end=mark) %}{{ name }}{{ mark }}{{ end }}{% endmacro %}{{ greet('a') }}{{ greet('b', '?') }}{{ greet(mark='.', name='c') }}{{ greet() }}{{ greet('x') | upper | length }}
{% macro count(n) %}{{ n }}{% if n > 0 %}{{ count(n - 1) }}{% endif %}{% endmacro %}{{ count(5) }}{% macro late() %}{{ after }}{% endmacro %}{% set after = 'later' %}{{ late() }}
{% if 0 %}a{% elif 1 %}b{% else %}c{% endif %}{% if missing %}a{% elif none %}b{% else %}c{% endif %}{% if numbers and not missing %}yes{% endif %}
{% generation %}{{ greeting }}{% set inner = 1 %}{% endgeneration %}{{ inner }}{# a comment {{ x }} {% if %} #}{% raw %}{{ raw }} {% if %}{% endraw %}
{{ {'a': {'b': [1]}}['a']['b'][0] }}{{ "}}" }}{{ '%}' }}{{ '{#' }}{{ 'a' 'b' }}{{ 'tab\tnew\nquote\'é\u00e9\x41\101\q' }}{{ 1, 2 }}
{{ greeting | safe }}{{ table | tojson | safe }}{{ '<' ~ '&' }}{{ (1, 2) == (1, 2) }}{{ [1] == (1,) }}{{ table == table }}
""".strip().split("\n")

# White space around tags; each is one template.
SPACES = [
    "  {% if true %}\n  yes\n  {% endif %}\n\nend\n\n",
    "a {%- if true -%} b {%- endif -%} c",
    "a\n  {%+ if true +%}\n b {%+ endif %}\nc",
    "a  {{ 1 }}\n{{- 2 -}}\n  {{ 3 }} \n",
    "  {# c #}\n  x {#- d -#}\n y\n\t{#+ e +#}\nz",
    "{% raw -%}\n {{ x }} \n  {% endraw %}\nz",
    "\t{% set x = 1 %}\n\n\t{% set y = 2 %}  \n{{ x }}{{ y }}",
    "one\r\ntwo\rthree\n{% if 1 %}\r\nfour{% endif %}\r\n",
    "x\u00a0{%- if 1 -%}\u3000y{% endif %}",
    "{% for i in [1, 2] %}\n  - {{ i }}\n{% endfor %}\n",
    "a{{-1}}b{{+1}}c{{ - 1 }}",
    "{{ [1,\n  2]\n}}\n",
    "{ {{ '{' }} } % # {",
]


def main():
    cases = []
    env = environment()
    for path in sorted(FOLDER.glob("*.jinja")):
        template = env.from_string(path.read_text())
        for name, conversation in CONVERSATIONS.items():
            case = {"template": path.name, "name": name, "bos_token": "<s>", "eos_token": "</s>", **conversation}
            if path.name in FIXED:
                case["extra"] = {**FIXED[path.name], **case.get("extra", {})}
            try:
                case["text"] = template.render(**variables(case))
            except jinja2.exceptions.TemplateError as error:
                case["error"] = str(error)
            cases.append(case)
    (FOLDER / "goldens.json").write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n")
    snippets = [{"source": source, "text": env.from_string(source).render(**VALUES)} for source in SNIPPETS + SPACES]
    found = {"values": VALUES, "snippets": snippets}
    (FOLDER / "snippets.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n")
    print(f"{len(cases)} cases, {sum('error' in case for case in cases)} of them refused; {len(snippets)} snippets")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
