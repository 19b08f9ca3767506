#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the usage examples out of the comments of headers and out of documents, for examples_test.cpp to compile.

    extract_examples.py OUT_DIRECTORY --frames FILE… [--headers HEADER…] [--documents FILE.md…]

An example of a header is the indented text after a comment line "Example:" or "Example, …:". The n-th one of model.h
becomes model_n.inc, whose #line makes the compiler name header and line. Fails, naming header and line, where a header has
no example, has code outside of one, or has one that none of the frames includes.

An example of a document is a fenced block of cpp, c, cmake or sh: the n-th block of C++ of README.md becomes
README_cpp_n.inc, and likewise for the others. Fails for a block of one of these languages that no frame names.
"""
import argparse
import pathlib
import re
import sys

WITHOUT = {"export.h", "types.h"}  # macros, and names of numbers
COMMENT = re.compile(r"^\s*(?://[/!]?|/?\*)(?!/)(.*)$")
MARK = re.compile(r"^ Example(, [^:;]*)?:$")
FENCE = re.compile(r"^```(cpp|c|cmake|sh)$")
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


def blocks(lines):
    """Yields (language, number of the first line, lines) of each fenced block of a document that is an example."""
    language, first, code, outer = None, 0, [], None
    for number, line in enumerate(lines, 1):
        if outer is None and line.startswith("````"):
            outer = line  # a transcript: what is fenced in it was said
        elif outer is not None:
            outer = None if line.startswith("````") else outer
        elif language is None:
            fence = FENCE.match(line)
            if fence:
                language, first, code = fence.group(1), number + 1, []
        elif line == "```":
            yield language, first, code
            language = None
        else:
            code.append(line)


def write_if_new(target, text):
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--frames", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--headers", type=pathlib.Path, nargs="+", default=[])
    parser.add_argument("--documents", type=pathlib.Path, nargs="+", default=[])
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
                write_if_new(args.out / name, f'#line {first} "{header}"\n' + "\n".join(code) + "\n")
        except ValueError as error:
            problems.append(f"{header}:{error.args[0]}: {error.args[1]}")
            continue
        if count == 0 and header.name not in WITHOUT:
            problems.append(f'{header}:1: no usage example ("Example:" and indented code) in its comments')
    for document in args.documents:
        counts = {}
        for language, first, code in blocks(document.read_text().splitlines()):
            counts[language] = counts.get(language, 0) + 1
            name = f"{document.stem}_{language}_{counts[language]}.inc"
            if name not in framed:
                problems.append(f"{document}:{first}: no frame has this example, {name}")
            line = f'#line {first} "{document}"\n' if language in ("c", "cpp") else ""
            write_if_new(args.out / name, line + "\n".join(code) + "\n")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
