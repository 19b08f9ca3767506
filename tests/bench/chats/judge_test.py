# SPDX-License-Identifier: Apache-2.0
"""judge.py on answers that are right, wrong and looping, and the prompts with their checks: python3 judge_test.py"""
import concurrent.futures
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import judge  # noqa: E402
import study  # noqa: E402

PARAGRAPH = ("The watchtower stood at the end of the long pier, and every evening old Henrik climbed its stairs to light the lamp. "
             "He liked the wind, the smell of salt and the slow boats that came home from the north. One night a storm broke the "
             "glass, so he held the lamp in his own hands until morning, while the sailors below followed its glow. When the sun "
             "came up, the whole village waited on the pier with bread, soup and a new pane of glass.")


class Regex(unittest.TestCase):
    def right(self, answer, **check):
        return judge.right(answer, {"type": "regex"} | check)

    def test_one_of_any_is_enough_and_case_does_not_matter(self):
        self.assertTrue(self.right("It is LISBON.", any=["porto", r"\blisbon\b"]))
        self.assertFalse(self.right("It is Madrid.", any=["porto", r"\blisbon\b"]))

    def test_all_are_needed(self):
        self.assertTrue(self.right("walked and carried", all=["walked", "carried"]))
        self.assertFalse(self.right("walked and carries", all=["walked", "carried"]))

    def test_none_may_be_found(self):
        self.assertFalse(self.right("not spam", any=["spam"], none=["not spam"]))

    def test_markdown_and_thousands_separators_do_not_hide_an_answer(self):
        self.assertTrue(self.right("There are **1,000** metres.", any=[r"^there are 1000 metres"]))
        self.assertTrue(self.right("It's _green_", any=[r"it's green$"]))

    def test_raw_text_keeps_its_stars(self):
        self.assertTrue(self.right("SELECT COUNT(*) FROM t", raw=True, any=[r"count\(\*\)"]))

    def test_words_are_counted(self):
        self.assertFalse(self.right("blue sky", any=["blue"], least_words=3))
        self.assertFalse(self.right("blue sky up here", any=["blue"], most_words=3))

    def test_an_empty_answer_is_wrong_even_where_nothing_is_demanded(self):
        self.assertFalse(self.right("", none=["x"]))

    def test_shorter_than_the_answer_before(self):
        check = {"type": "regex", "any": ["blue"], "shorter": True}
        self.assertTrue(judge.right("blue", check, before="it is blue"))
        self.assertFalse(judge.right("it is blue", check, before="it is blue"))

    def test_repetitive_answers_are_wrong_where_asked_for(self):
        self.assertFalse(self.right("the sea is blue and wide, " * 8, any=["blue"], fresh=True))

    def test_an_unknown_type_is_an_error(self):
        with self.assertRaises(ValueError):
            judge.right("x", {"type": "guess"})


class Number(unittest.TestCase):
    def right(self, value, answer, question=""):
        return judge.right(answer, {"type": "number", "value": value}, question)

    def test_digits_words_and_decimals_are_the_same_number(self):
        for answer in ("12", "twelve", "12.0", "It is **12**.", r"\( 7 + 5 = \boxed{12} \)", "$12"):
            self.assertTrue(self.right(12, answer), answer)
        self.assertTrue(self.right(42, "Forty-two."))
        self.assertTrue(self.right(1200, "1,200 metres"))

    def test_part_of_another_number_does_not_count(self):
        for answer in ("112", "12.5", "x12", "120", "I do not know."):
            self.assertFalse(self.right(12, answer), answer)

    def test_the_end_of_a_calculation_counts(self):
        self.assertTrue(self.right(12, "5 + 7 = 12, since 7 comes 5 after 7.", "5 + 7?"))
        self.assertTrue(self.right(19, "3 * 5 = 15\n15 + 4 = 19"))
        self.assertFalse(self.right(15, "3 * 5 = 15\n15 + 4 = 19"))

    def test_the_first_new_number_of_a_sentence_counts(self):
        self.assertTrue(self.right(7, "She has 7 apples after buying 3 more.", "4 apples and 3 more?"))
        self.assertFalse(self.right(7, "She has 8 apples, 7 of them red, or 3.", "4 apples and 3 more?"))


class Python(unittest.TestCase):
    def right(self, answer, *asserts):
        return judge.right(answer, {"type": "python", "name": "add", "asserts": asserts or ["add(2, 3) == 5"]})

    def test_fenced_bare_and_commented_code_is_found(self):
        code = "def add(a, b):\n    return a + b\n"
        for answer in (code, f"Here:\n```python\n{code}```\nIt adds.", f"```\n{code}", f"Sure!\n\n{code}",
                       f"```sh\nls\n```\nthen\n```py\n{code}```"):
            self.assertTrue(self.right(answer), answer)

    def test_examples_of_use_are_left_out(self):
        self.assertTrue(self.right("import math\nzero = math.floor(0.5)\ndef add(a, b):\n    return a + b + zero\n"
                                   "add = add(1, int(input()))\nprint(add)"))

    def test_wrong_or_missing_code_fails(self):
        for answer in ("def add(a, b):\n    return a - b", "def plus(a, b):\n    return a + b", "a + b", "def add(a, b) return"):
            self.assertFalse(self.right(answer), answer)

    def test_code_that_ends_early_has_not_passed(self):
        self.assertFalse(self.right("import os\ndef add(a, b):\n    os._exit(0)"))

    def test_memory_and_files_are_bounded(self):
        self.assertFalse(self.right("def add(a, b):\n    x = bytearray(1 << 30)\n    return a + b"))
        self.assertFalse(self.right("def add(a, b):\n    with open('f', 'wb') as f:\n        f.write(bytes(3 << 20))\n    return a + b"))

    def test_time_is_bounded(self):
        before = judge.SECONDS, judge.WALL_SECONDS
        try:
            judge.SECONDS = 1
            self.assertFalse(self.right("def add(a, b):\n    while True:\n        pass"))
            judge.WALL_SECONDS = 0.3
            self.assertFalse(self.right("def add(a, b):\n    import time\n    time.sleep(60)\n    return a + b"))
        finally:
            judge.SECONDS, judge.WALL_SECONDS = before


class List(unittest.TestCase):
    def right(self, answer, count=3, among=("red", "green", "blue", "pink|rose")):
        return judge.right(answer, {"type": "list", "count": count, "among": list(among)})

    def test_forms_of_lists(self):
        for answer in ("1. Red\n2. Green\n3. Blue", "- **Red**: warm\n- Green (as grass)\n- Rose", "red, green and blue",
                       "Three colours are: red, green, and blue.", "Red\nGreen\nBlue", "Red, green, blue."):
            self.assertTrue(self.right(answer), answer)

    def test_wrong_lists(self):
        for answer in ("red, green", "red, red, blue", "red, green, blue, pink", "red, green, stone", "1. Red\n2. Blue\n3. Blue",
                       "pink, rose, red", "I like red."):
            self.assertFalse(self.right(answer), answer)

    def test_points_below_an_item_are_not_items(self):
        self.assertTrue(self.right("1. Red\n   - warm\n   - bright\n2. Green\n3. Blue"))


class Json(unittest.TestCase):
    def right(self, answer, **fields):
        return judge.right(answer, {"type": "json", "fields": fields or {"name": "Maria", "age": 34}})

    def test_objects_are_found_in_text_and_fences(self):
        for answer in ('{"name": "Maria", "age": 34}', 'Here {you are}:\n```json\n{"Name": "maria ", "age": "34"}\n```'):
            self.assertTrue(self.right(answer), answer)

    def test_wrong_missing_or_broken_fields_fail(self):
        for answer in ('{"name": "Maria", "age": 43}', '{"name": "Maria"}', "{'name': 'Maria', 'age': 34}", "Maria, 34", "[1]",
                       '{"name": "Maria", "age": true}', '{"name": "Maria", "age": [34]}'):
            self.assertFalse(self.right(answer), answer)

    def test_lists_are_choices_or_whole_lists(self):
        self.assertTrue(self.right('{"unit": "EUR"}', unit=["euro", "eur"]))
        self.assertTrue(self.right('{"f": ["b", "A"]}', f=["=", "a", "b"]))
        self.assertFalse(self.right('{"f": ["b"]}', f=["=", "a", "b"]))


class Loops(unittest.TestCase):
    def test_a_piece_over_and_over(self):
        self.assertTrue(judge.loops("The sea. " + "Its currents flow like a vast sea. " * 5))
        self.assertTrue(judge.loops("Wait, " + "and then and then " * 10))

    def test_a_line_that_comes_back_between_others(self):
        self.assertTrue(judge.loops("".join(f"The waves are calling me home,\nand verse {word} is another.\n"
                                            for word in ("one", "two", "three", "four"))))

    def test_a_numbered_list_that_does_not_end(self):
        self.assertTrue(judge.loops("\n".join(f"{n}. Keep your bedroom dark." for n in range(1, 20))))

    def test_a_circle_that_changes_a_word_a_turn(self):
        names = "ash birch cedar elm fir holly ivy larch maple oak pine rowan spruce willow yew".split()
        self.assertTrue(judge.loops(" ".join(f"and then the fox went into the dark wood and met the {n}" for n in names)))

    def test_the_same_in_changing_words_is_repetitive(self):
        answer = ("Lily was a wise and kind person and she was willing to help anyone who needed help. She asked her if she was friends "
                  "with a dragon. Lily was friends with a dragon, and she was happy to be friends with a dragon. She asked her if she "
                  "was friends with the dragon. Lily was friends with the dragon, and she was happy to be friends. She asked her if "
                  "she was friends with someone who needed help. Lily was a wise and kind person who was willing to help anyone.")
        self.assertTrue(judge.repetitive(answer))
        self.assertFalse(judge.loops(answer))

    def test_ordinary_answers_do_not_loop(self):
        refrain = "\n".join(f"{verse}\nO rain, sweet rain of summer nights.\n" for verse in (
            "The clouds come in from over the hill,", "A lamp is lit, the streets are still,",
            "The children run with open hands,"))
        code = "```python\n" + "\n".join(f"def f{n}(x):\n    if x is None:\n        return False\n    return x {op} 1\n"
                                         for n, op in enumerate("+-*/%")) + "```\nEach of them takes a number."
        table = "| a | b |\n" + "|---|---|\n" * 1 + "\n".join(f"| {n} | {n * n} |" for n in range(12))
        for answer in (PARAGRAPH, refrain, code, table, "-" * 200, "", "Yes.", "ha ha ha ha", "1, 2, 3, 4, 5, 6, 7, 8, 9"):
            self.assertFalse(judge.loops(answer), answer)
            self.assertFalse(judge.repetitive(answer), answer)


class Prompts(unittest.TestCase):
    entries = study.read_entries()

    def judge(self, entry, answer):
        return judge.right(answer, entry["check"], entry["turns"][-1], "word " * 200)

    def test_there_are_two_hundred_of_the_kinds_promised(self):
        counts = {k: sum(e["kind"] == k for e in self.entries) for k in study.KINDS}
        self.assertEqual(counts, {"question": 60, "arithmetic": 30, "list": 20, "code": 30, "long": 20, "text": 20, "chat": 20})
        self.assertEqual(len({e["id"] for e in self.entries}), 200)
        self.assertEqual(len({tuple(e["turns"]) for e in self.entries}), 200)
        self.assertTrue(all(len(e["turns"]) == (3 if e["kind"] == "chat" else 1) for e in self.entries))

    def test_a_right_answer_passes(self):
        given = [e for e in self.entries if "good" in e]
        self.assertGreaterEqual(len(given), 175)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for entry, right in zip(given, pool.map(lambda e: self.judge(e, e["good"]), given)):
                self.assertTrue(right, entry["id"])

    def test_no_check_passes_an_answer_to_something_else(self):
        for answer in ("", "I don't know.", "Yes, of course! How can I help you today?", PARAGRAPH):
            for entry in self.entries:
                self.assertFalse(self.judge(entry, answer), f"{entry['id']}: {answer}")

    def test_no_check_passes_the_question_said_back(self):
        for entry in self.entries:
            if entry["check"]["type"] != "python":
                self.assertFalse(self.judge(entry, entry["turns"][-1]), entry["id"])


class Table(unittest.TestCase):
    def test_the_interval_of_a_share(self):
        low, high = study.interval(0.5, 200)
        self.assertAlmostEqual(low, 0.4314, 3)
        self.assertAlmostEqual(high, 0.5686, 3)

    def test_settings_are_compared_prompt_by_prompt(self):
        def results(*rights):
            return [{"id": n, "right": right} for n, right in enumerate(rights)]
        self.assertEqual(study.against(results(1, 0, 1, 1), results(1, 0, 1, 1)), "+0 ± 0.0")
        self.assertEqual(study.against(results(1, 1, 0, 1) + results(1, 0, 0, 1), results(1, 0, 1, 1)), "-0.5 ± 2.5")

    def test_expectations_that_are_missed_are_named(self):
        self.assertEqual(study.missed("greedy=140,loops=4", {"greedy": 140}, {"default": 4}), [])
        self.assertEqual(len(study.missed("loops=4", {"greedy": 140}, {"greedy": 0})), 1)
        self.assertEqual(len(study.missed("greedy=141,default=1,loops=3", {"greedy": 140}, {"default": 4})), 3)

    def test_a_setting_becomes_command_line_options(self):
        options = study.server_options({"temperature": 0.5, "dry_sequence_breakers": []})
        self.assertEqual(options[options.index("--temp") + 1], "0.5")
        self.assertEqual(options[options.index("--dry-breaker") + 1], "")
        self.assertEqual(study.server_options(None), [])


if __name__ == "__main__":
    unittest.main()
