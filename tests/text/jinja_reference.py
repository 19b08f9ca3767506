#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders templates with Python's jinja2, set up as the transformers library does: what our interpreter must equal.

jinja_reference.py FOLDER > FOLDER/expected.json
FOLDER has templates (.jinja), cases.json (the variables of a rendering by its name) and snippets.json (variables, and
small templates). Out comes {template: {case: {"text" or "error"}}}.
"""
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = datetime.datetime(2026, 3, 7, 9, 5, 2)


class Generation(jinja2.ext.Extension):
    """{% generation %} … {% endgeneration %}: marks the assistant's text, changes nothing."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = NOW.strftime
    return made


def render(env, source, variables):
    try:
        return {"text": env.from_string(source).render(**variables)}
    except Exception as error:  # whatever it is, it is the template's error
        return {"error": f"{type(error).__name__}: {error}"[:200]}


def main():
    folder = pathlib.Path(sys.argv[1])
    env = environment()
    cases = json.loads((folder / "cases.json").read_text())
    snippets = json.loads((folder / "snippets.json").read_text())
    out = {"snippets": {s: render(env, s, snippets["variables"]) for s in snippets["templates"]}}
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_bytes().decode()
        out[path.stem] = {name: render(env, source, variables) for name, variables in cases.items()}
    json.dump(out, sys.stdout, ensure_ascii=False, indent=0, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
