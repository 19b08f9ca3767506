#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the usage examples out of the comments of headers, for examples_test.cpp to compile.

    extract_examples.py OUT_DIRECTORY --frames FILE… --headers HEADER…

An example is the indented text after a comment line "Example:" or "Example, …:". The n-th one of model.h becomes
model_n.inc, whose #line makes the compiler name header and line. Fails, naming header and line, where a header has no
example, has code outside of one, or has one that none of the frames includes.
"""
import argparse
import pathlib
import re
import sys

WITHOUT = {"export.h", "types.h"}  # macros, and names of numbers
COMMENT = re.compile(r"^\s*(?://[/!]?|/?\*)(?!/)(.*)$")
MARK = re.compile(r"^ Example(, [^:;]*)?:$")
CODE = re.compile(r"^   +\S.*[;{}]\s*(//.*)?$")


def examples(lines):
    """Yields (number of the first line, lines of code) of each example; raises ValueError(number, why)."""
    first, code = None, []
    for number, line in enumerate(lines, 1):
        comment = COMMENT.match(line)
        text = comment.group(1) if comment else None
        if first is not None:
            if text is not None and (text.startswith("   ") or (not text.strip() and code and number < len(lines)
                                                                 and continues(lines[number]))):
                code.append(text[3:])
                continue
            if not code:
                raise ValueError(first, "an empty example")
            yield first, code
            first, code = None, []
        if text is None:
            continue
        if MARK.match(text):
            first = number + 1
        elif CODE.match(text):
            raise ValueError(number, 'code in a comment, but no "Example:" before it')


def continues(line):
    comment = COMMENT.match(line)
    return comment is not None and comment.group(1).startswith("   ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--frames", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--headers", type=pathlib.Path, nargs="+", required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    framed = "".join(frame.read_text() for frame in args.frames)
    problems = []
    for header in args.headers:
        count = 0
        try:
            for first, code in examples(header.read_text().splitlines()):
                count += 1
                name = f"{header.stem}_{count}.inc"
                if f'"{name}"' not in framed:
                    problems.append(f"{header}:{first}: no frame includes this example as \"{name}\"")
                target = args.out / name
                text = f'#line {first} "{header}"\n' + "\n".join(code) + "\n"
                if not target.exists() or target.read_text() != text:
                    target.write_text(text)
        except ValueError as error:
            problems.append(f"{header}:{error.args[0]}: {error.args[1]}")
            continue
        if count == 0 and header.name not in WITHOUT:
            problems.append(f'{header}:1: no usage example ("Example:" and indented code) in its comments')
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
