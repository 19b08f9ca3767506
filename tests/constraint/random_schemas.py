#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers of a running server to random schemas, judged by Python's jsonschema:
    random_schemas.py BASE_URL [COUNT] [SEED]
Every answer that ended is valid JSON of its schema, or this fails; answers that reached their length are counted apart."""
import concurrent.futures
import json
import random
import sys
import time
import urllib.error
import urllib.request

import jsonschema

WORDS = "name size colour kind price note place größe a/b x\"y first last".split()


def number(rng, whole):
    schema = {"type": "integer" if whole else "number"}
    low = rng.randint(-50, 50)
    if rng.random() < 0.7:
        schema[rng.choice(["minimum", "exclusiveMinimum"])] = low if whole or rng.random() < 0.5 else low + 0.25
        schema[rng.choice(["maximum", "exclusiveMaximum"])] = low + rng.randint(3, 500)
    if whole and len(schema) in (1, 3) and rng.random() < 0.3:
        schema["multipleOf"] = rng.randint(2, 3)
    return schema


def text(rng):
    kind = rng.randrange(5)
    if kind == 0:
        return {"type": "string", "pattern": rng.choice(["^[A-Z]{2}[0-9]{1,3}$", "^(ja|nein|vielleicht)$", "^[a-f]+-[0-9]$", "^.{1,5}$", "^a|b$"])}
    if kind == 1:
        return {"type": "string", "format": rng.choice(["date", "time", "uuid", "ipv4", "email", "date-time"])}
    if kind == 2:
        return {"enum": rng.sample(["red", "green", "a/b", "x\"y", "ü", "line\nend", ""], 3)}
    return {"type": "string", "minLength": rng.randint(0, 2), "maxLength": rng.randint(3, 16)}


def listed(rng):
    return rng.choice([{"const": rng.choice([1, 1.0, 2.5, None, True, "x", {"a": 1}, [1, "b"]])},
                       {"enum": [0, "a", None, 3.5]}, {"type": "boolean"}, {"type": "null"},
                       {"enum": [1, 2, "three"], "type": "integer"}, {"type": "integer", "enum": [5, 50], "minimum": 6}])


def array(rng, depth):
    schema = {"type": "array", "items": value(rng, depth - 1), "maxItems": rng.randint(1, 3)}
    if rng.random() < 0.5:
        schema["minItems"] = rng.randint(0, schema["maxItems"])
    if rng.random() < 0.3:
        schema["prefixItems"] = [value(rng, depth - 1) for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.5:
            schema["items"] = False
    return schema


def record(rng, depth):
    names = rng.sample(WORDS, rng.randint(1, 4))
    schema = {"type": "object", "properties": {name: value(rng, depth - 1) for name in names},
              "required": [name for name in names if rng.random() < 0.8]}
    if rng.random() < 0.5:
        schema["additionalProperties"] = rng.choice([False, {"type": "integer", "minimum": 0, "maximum": 9}])
    schema["maxProperties"] = len(names) + 1
    if rng.random() < 0.3 and "additionalProperties" not in schema:
        schema["required"].append("more")
    return schema


def value(rng, depth):
    kinds = [lambda: number(rng, True), lambda: number(rng, False), lambda: text(rng), lambda: listed(rng)]
    if depth > 0:
        kinds += [lambda: array(rng, depth), lambda: record(rng, depth), lambda: record(rng, depth),
                  lambda: {"anyOf": [value(rng, depth - 1), value(rng, depth - 1)]},
                  lambda: {"type": ["null", "integer"], "minimum": 3, "maximum": 30},
                  lambda: {"allOf": [record(rng, 1), {"properties": {"size": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["size"]}]},
                  lambda: {"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "size": value(rng, 0)}, "required": ["kind"], "maxProperties": 2},
                                     {"type": "object", "properties": {"kind": {"const": "b"}, "note": value(rng, 0)}, "required": ["kind"], "maxProperties": 2}]},
                  lambda: {"$ref": "#/$defs/shared"}, lambda: {"minimum": 3, "maximum": 9, "type": "integer", "title": "t"},
                  lambda: {"anyOf": [{"type": "string"}, {"type": "integer"}], "maxLength": 5, "minimum": 0, "maximum": 99},
                  lambda: {"type": "object", "additionalProperties": number(rng, True), "maxProperties": 2,
                           "propertyNames": {"pattern": "^[a-z]{1,4}$"}},
                  lambda: {"type": "object", "patternProperties": {"^k[0-9]$": value(rng, 0)}, "additionalProperties": False, "maxProperties": 2}]
    return rng.choice(kinds)()


def random_schema(rng):
    schema = record(rng, 2)
    schema["$defs"] = {"shared": value(rng, 0)}
    return schema


def ask(base, schema, strict, seed):
    body = {"messages": [{"role": "user", "content": "Make up an example."}], "temperature": 1, "seed": seed, "max_tokens": 160,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": strict}}}
    request = urllib.request.Request(base + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=1800) as answer:
        choice = json.load(answer)["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


AT_ONCE = 8  # which the server computes in one pass


def judge(base, schema, strict, seed):
    """What became of it: "ended", "cut", "refused" with the reason, or "invalid" with all of it."""
    try:
        content, reason = ask(base, schema, strict, seed)
    except urllib.error.HTTPError as error:
        return "refused", json.load(error)["error"]["message"].split(": ", 2)[-1][:100]
    if reason == "length":
        return "cut", None
    try:
        jsonschema.validate(json.loads(content), schema, jsonschema.Draft202012Validator)
    except (ValueError, jsonschema.ValidationError) as error:
        return "invalid", (strict, schema, content, str(error).splitlines()[0])
    return "ended", None


def main():
    base = sys.argv[1]
    count, seed = (int(n) for n in (sys.argv[2:] + ["1000", "1"][max(0, len(sys.argv) - 2):]))
    rng = random.Random(seed)
    asked = [(random_schema(rng), rng.random() < 0.6) for _ in range(count)]
    ended = cut = 0
    refused, invalid = {}, []
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        answers = [pool.submit(judge, base, schema, strict, i) for i, (schema, strict) in enumerate(asked)]
        for i, answer in enumerate(concurrent.futures.as_completed(answers)):
            what, more = answer.result()
            ended += what in ("ended", "invalid")
            cut += what == "cut"
            if what == "invalid":
                invalid.append(more)
            if what == "refused":
                refused[more] = refused.get(more, 0) + 1
            if i % 50 == 49:
                print(f"{i + 1}: {ended} ended, {len(invalid)} invalid, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    for one in invalid:
        print("INVALID", json.dumps(one))
    for words, which in refused.items():
        print(f"refused {which}: {words}")
    print(f"{count} random schemas: {ended} answers ended, {len(invalid)} of them invalid; {cut} reached their length; "
          f"{sum(refused.values())} schemas refused; {time.monotonic() - begun:.0f} s")
    return 1 if invalid or ended < count / 2 else 0


if __name__ == "__main__":
    sys.exit(main())
