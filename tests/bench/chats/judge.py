# SPDX-License-Identifier: Apache-2.0
"""Whether an answer of a chat model is right, and whether it loops.

A check is an object with a "type":

  regex    any: one of these is found; all: each of them; none: none of them. Patterns know no case, ^ and $ are those of a
           line, \\A and \\Z those of the answer. Markdown and thousands separators are taken out before (plain()), unless
           "raw" is true (for code).
  number   the answer concludes with "value" (concluded()).
  python   the answer's function or class "name" passes each expression of "asserts" (run_python()).
  list     "count" different items, each one of the patterns "among" (items()).
  json     the first JSON object in the answer has "fields": a value, a list of values that are all right, or a list that
           begins with "=" and goes on with what must be in the answer's list.

Any of them may also ask for "least_words" and "most_words", for "fresh" (not repetitive()), and for "shorter"
(than the answer before).
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile

UNITS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
         "eighteen nineteen").split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
LETTER = r"[^\W\d_]"
SECONDS = 5        # of a processor
WALL_SECONDS = 60  # for a busy machine
MEGABYTES = 512


def plain(text):
    """The words of an answer: no Markdown emphasis, no LaTeX brackets, straight quotation marks, 1000 for 1,000."""
    text = text.translate(str.maketrans("‘’“”−–—×÷\u00a0\u202f", "''\"\"---*/  "))
    text = text.replace("\\times", "*").replace("\\cdot", "*").replace("\\div", "/").replace("\\%", "%")
    text = re.sub(r"\\(?:boxed|text|mathrm|mathbf)\s*\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\[\[\]()]|\*\*|__|[`$]", "", text)
    text = re.sub(r"(?<!\S)[*_](?=\S)|(?<=\S)[*_](?!\S)", "", text)
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)


def numbers(text):
    """All numbers of a plain text with where they stand, in digits or in words up to 99 ("forty-two"): [(place, value)]."""
    values = {word: n for n, word in enumerate(UNITS)}
    tens = {word: 20 + 10 * n for n, word in enumerate(TENS)}
    pattern = r"(?<![\w.])-?\d+(?:\.\d+)?|\b(%s)(?:[ -](%s))?\b|\b(%s)\b" % (
        "|".join(TENS), "|".join(UNITS[1:10]), "|".join(reversed(UNITS)))
    found = []
    for m in re.finditer(pattern, text, re.IGNORECASE):
        if m.group(1):
            value = tens[m.group(1).lower()] + values.get((m.group(2) or "zero").lower())
        elif m.group(3):
            value = values[m.group(3).lower()]
        else:
            value = float(m.group())
        found.append((m.start(), value))
    return found


def concluded(answer, question):
    """The numbers that an answer may be taken to conclude with.

    If it calculates: what follows the last "=", and its last number. If not: the first number that the question did not
    name, and the last one. "36 + 4 = 40" gives 40; "She has 7 apples after buying 3" gives 7 (and 3)."""
    text = plain(answer)
    found = numbers(text)
    if not found:
        return set()
    result = {found[-1][1]}
    if "=" in text:
        after = [value for place, value in found if place > text.rindex("=")]
        return result | set(after[:1])
    named = {value for _, value in numbers(plain(question))}
    return result | set([value for _, value in found if value not in named][:1])


def code_of(answer, name):
    """The Python code in an answer: the first fenced block with the definition of `name`, or all from the first line
    that begins code. An answer that was cut off within a block keeps what there is."""
    blocks = re.findall(r"```[a-zA-Z0-9]*[ \t]*\n(.*?)(?:```|\Z)", answer, re.DOTALL)
    for block in blocks:
        if re.search(r"^\s*(def|class)\s+%s\b" % re.escape(name), block, re.MULTILINE):
            return block
    if blocks:
        return "\n".join(blocks)
    start = re.search(r"^(def|class|import|from)\s", answer, re.MULTILINE)
    return answer[start.start():] if start else ""


# What the child runs: it bounds itself, then takes the definitions out of the code that is its first argument, with imports
# and what is assigned before the last of them, and runs its second argument on them. Examples of use are left out: they may
# read input, wait, or give the function's name to its result.
BOUNDED = """
import ast, resource, sys
for limit, most in ((resource.RLIMIT_AS, {bytes}), (resource.RLIMIT_CPU, {seconds}), (resource.RLIMIT_FSIZE, 1 << 20),
                    (resource.RLIMIT_NOFILE, 32), (resource.RLIMIT_NPROC, 0), (resource.RLIMIT_CORE, 0)):
    resource.setrlimit(limit, (most, most))
module = ast.parse(sys.argv[1])
definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
last = max([n for n, part in enumerate(module.body) if isinstance(part, definitions)], default=0)
module.body = [part for n, part in enumerate(module.body) if isinstance(part, definitions + (ast.Import, ast.ImportFrom))
               or n < last and isinstance(part, (ast.Assign, ast.AnnAssign))]
names = {{"__name__": "answer"}}
exec(compile(module, "answer", "exec"), names)
exec(sys.argv[2], names)
"""


def run_python(answer, name, asserts):
    """Whether the code in an answer passes every assert, by a fresh `python3 -I` in an empty folder, in SECONDS (WALL_SECONDS), with
    MEGABYTES of memory, files of at most 1 MB and no further processes (as far as the system bounds them for this user).
    A word only this call knows must be printed after the last assert, so that code that ends early has not passed."""
    code = code_of(answer, name)
    if not code.strip():
        return False
    word = os.urandom(8).hex()
    tests = "".join(f"assert {a}\n" for a in asserts) + f"print('{word}')\n"
    bounded = BOUNDED.format(bytes=MEGABYTES << 20, seconds=math.ceil(SECONDS))
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = subprocess.run([sys.executable, "-I", "-c", bounded, code, tests], cwd=folder, stdin=subprocess.DEVNULL,
                                 env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}, start_new_session=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=WALL_SECONDS)
        except (subprocess.TimeoutExpired, ValueError, OSError):  # the latter: a zero byte in the code, or too much of it
            return False
    return run.returncode == 0 and run.stdout.decode(errors="replace").rstrip().endswith(word)


def items(answer):
    """The items of the list in an answer: its marked lines ("1.", "-", "*"; those least indented), or else what commas and
    "and" separate after the last colon or in the whole answer."""
    marked = re.findall(r"^([ \t]*)(?:\d+[.)]|[-*•])[ \t]+(\S.*)$", answer, re.MULTILINE)
    if len(marked) >= 2:
        least = min(len(indent) for indent, _ in marked)
        return [plain(text).strip() for indent, text in marked if len(indent) == least]
    text = plain(answer).strip()
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) >= 3 and all(len(line.split()) <= 4 for line in lines[1:]):
        return lines[1:] if lines[0].endswith(":") else lines
    text = re.split(r"\n\s*\n", text)[0] if ":" not in text else text
    text = text[text.rindex(":") + 1:] if re.search(r":\s*\S", text) else text
    return [part.strip(" .\n") for part in re.split(r",|;|\n|\band\b|&", text) if part.strip(" .\n")]


def right_list(answer, check):
    """Whether exactly `count` items are named, and each is another one of `among`."""
    named = items(answer)
    if len(named) != check["count"]:
        return False
    kinds = set()
    for item in named:
        head = re.split(r"[:(]|\s-\s", item)[0] or item
        matches = [n for n, pattern in enumerate(check["among"])
                   if re.search(r"(?<!\w)(?:%s)(?!\w)" % pattern, head, re.IGNORECASE)]
        fresh = [n for n in matches if n not in kinds]
        if not fresh:
            return False
        kinds.add(fresh[0])
    return True


def first_json(answer):
    """The first JSON object in a text, or None."""
    place = answer.find("{")
    while place >= 0:
        try:
            value, _ = json.JSONDecoder().raw_decode(answer[place:])
            return value
        except ValueError:
            place = answer.find("{", place + 1)
    return None


def same_value(given, wanted):
    """Numbers by value, texts without case and outer spaces; a number may come as text."""
    if isinstance(wanted, list):
        if wanted and wanted[0] == "=":
            return (isinstance(given, list) and len(given) == len(wanted) - 1
                    and all(any(same_value(g, w) for g in given) for w in wanted[1:]))
        return any(same_value(given, w) for w in wanted)
    if isinstance(wanted, (int, float)):
        try:
            return not isinstance(given, (bool, list, dict)) and math.isclose(float(given), wanted)
        except (TypeError, ValueError):
            return False
    return isinstance(given, str) and given.strip().lower() == str(wanted).lower()


def right_json(answer, fields):
    value = first_json(answer)
    if not isinstance(value, dict):
        return False
    value = {str(key).lower(): v for key, v in value.items()}
    return all(key in value and same_value(value[key], wanted) for key, wanted in fields.items())


def right_regex(answer, check):
    text = answer if check.get("raw") else plain(answer)

    def found(pattern):
        return re.search(pattern, text, re.IGNORECASE | re.MULTILINE) is not None
    return (all(found(p) for p in check.get("all", [])) and not any(found(p) for p in check.get("none", []))
            and ("any" not in check or any(found(p) for p in check["any"])))


def right(answer, check, question="", before=""):
    """Whether `answer` passes `check`. `question` is the user's last message, `before` the answer before this one."""
    words = len(answer.split())
    if words < check.get("least_words", 1) or words > check.get("most_words", math.inf):
        return False
    if check.get("fresh") and repetitive(answer):
        return False
    if check.get("shorter") and words >= len(before.split()):
        return False
    kind = check["type"]
    if kind == "regex":
        return right_regex(answer, check)
    if kind == "number":
        return any(math.isclose(value, check["value"], abs_tol=1e-9) for value in concluded(answer, question))
    if kind == "python":
        return run_python(answer, check["name"], check["asserts"])
    if kind == "list":
        return right_list(answer, check)
    if kind == "json":
        return right_json(answer, check["fields"])
    raise ValueError(f"a check has the type {kind!r}, expected regex, number, python, list or json")


def prose_of(answer):
    """An answer without its fenced code."""
    return re.sub(r"```.*?(?:```|\Z)", "\n", answer, flags=re.DOTALL)


def loops(answer):
    """Whether an answer goes round in circles. One of these:

    1. Four or more times the same piece in direct succession, 80 characters or more together: with a letter or digit in it,
       or, if all digits are taken for 0, with a letter.
    2. The same line, without its list mark, or the same sentence, of 20 characters or more, four times or more anywhere
       outside fenced code, where lines may well be alike. Digits are taken for 0.
    3. In an answer of 60 words or more: of the runs of four words in its last 60 %, fewer than 40 % are new, that is, did not
       stand earlier in the answer. This finds circles that change a word a turn.

    White space of any length is one blank.
    """
    text = re.sub(r"\s+", " ", answer).strip()
    zeros = re.sub(r"\d+", "0", text)
    for form, needed in ((text, r"\w"), (zeros, LETTER)):
        for m in re.finditer(r"(.{1,200}?)\1{3,}", form):
            if len(m.group()) >= 80 and re.search(needed, m.group(1)):
                return True
    lines = [re.sub(r"^\s*(?:0[.)]|[-*•>#]+)\s*", "", re.sub(r"\d+", "0", line)).strip() for line in prose_of(answer).split("\n")]
    sentences = [s.strip() for line in lines for s in re.split(r"(?<=[.!?])\s+", line)]
    for pieces in (lines, sentences):
        if any(len(p) >= 20 and pieces.count(p) >= 4 for p in set(pieces)):
            return True
    return fresh_share(answer, 4) < 0.4


def repetitive(answer):
    """Whether an answer says the same over and over, in a loop or in changing words: it loops, or it has 60 words or more and
    of the runs of three words in its last 60 % fewer than 40 % are new."""
    return loops(answer) or fresh_share(answer, 3) < 0.4


def fresh_share(answer, length):
    """The share of the runs of `length` words in the last 60 % of an answer without its fenced code that did not stand
    earlier in it; 1 below 60 words, and for tables of numbers. All numbers are one word."""
    words = re.findall(r"[^\W_]+", re.sub(r"\d+", "0", prose_of(answer)).lower())
    if len(words) < 60 or sum(word.isalpha() for word in words) < len(words) / 2:
        return 1.0
    seen = set()
    fresh = []
    for i in range(len(words) - length + 1):
        run = tuple(words[i:i + length])
        fresh.append(run not in seen)
        seen.add(run)
    tail = fresh[int(0.4 * len(fresh)):]
    return sum(tail) / len(tail)
