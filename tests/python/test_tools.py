# SPDX-License-Identifier: Apache-2.0
"""Tools: described, laid out, called and read."""
from __future__ import annotations

import json
import unittest
from typing import Any

import runnel
from support import MODEL, UNTYPED

ROLL = {"name": "roll", "description": "Rolls a die",
        "parameters": {"type": "object", "properties": {"sides": {"type": "integer", "enum": [6, 20]}}, "required": ["sides"]}}
NOW = {"type": "function", "function": {"name": "now", "description": "The time of day"}}
CALL = '<tool_call>\n{"name": "roll", "arguments": {"sides": 6}}\n</tool_call>'


class ToolsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.tools = runnel.Tools([ROLL, NOW])

    def test_are_read_from_objects_and_from_json(self) -> None:
        messages = [{"role": "user", "content": "Roll."}]
        told = MODEL.chat_text(messages, tools=self.tools)
        for part in ("roll", "Rolls a die", "sides", "now", "Roll."):
            self.assertIn(part, told)
        self.assertEqual(MODEL.chat_text(messages, tools=runnel.Tools(json.dumps([ROLL, NOW]))), told)
        self.assertNotIn("sides", MODEL.chat_text(messages))
        self.assertEqual(MODEL.encode_chat(messages, tools=self.tools), MODEL.encode(told, parse_special=True))

    def test_turns_with_calls_and_results_are_laid_out(self) -> None:
        talk: list[dict[str, Any]] = [
            {"role": "user", "content": "Roll."},
            {"role": "assistant", "content": "", "tool_calls": [runnel.ToolCall("roll", '{"sides": 6}', "call_1")]},
            {"role": "tool", "content": "four", "tool_call_id": "call_1"}]
        text = MODEL.chat_text(talk, tools=self.tools)
        self.assertLess(text.index('"sides": 6'), text.index("four"))
        as_openai: list[dict[str, Any]] = [talk[0], {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "roll", "arguments": '{"sides": 6}'}}]}, talk[2]]
        self.assertEqual(MODEL.chat_text(as_openai, tools=self.tools), text)
        whole = MODEL.encode_chat(talk, tools=self.tools)
        kept, rest = MODEL.read_chat(talk, 0, closed=False, tools=self.tools)
        self.assertEqual((kept, rest), (0, whole))

    def test_a_required_call_is_one_that_its_schema_allows(self) -> None:
        session = MODEL.session()
        session.prefill(MODEL.encode_chat([{"role": "user", "content": "Roll a die."}], tools=self.tools))
        for choice in ("required", "roll"):
            said = session.fork().complete(max_tokens=80, constraint=self.tools.constraint(MODEL, choice, parallel=False))
            answer = runnel.read_tool_calls(MODEL, said)
            self.assertEqual((len(answer.calls), answer.broken), (1, ()), said)
            self.assertIn(answer.calls[0].name, ("roll", "now"))
            if choice == "roll":
                self.assertIn(answer.calls[0].parsed["sides"], (6, 20))

    def test_calls_are_found_wherever_the_text_is_cut(self) -> None:
        self.assertEqual(MODEL.tool_style, "tagged")
        text = "Let me see.\n" + CALL
        whole = runnel.read_tool_calls(MODEL, text)
        self.assertEqual(whole.text.strip(), "Let me see.")
        self.assertEqual(whole.calls, (runnel.ToolCall("roll", '{"sides": 6}'),))
        self.assertEqual(whole.calls[0].parsed, {"sides": 6})
        for step in (1, 7):
            reader = runnel.ToolReader(MODEL)
            events = [e for at in range(0, len(text), step) for e in reader.push(text[at:at + step])] + reader.finish()
            self.assertEqual("".join(e.text for e in events if e.kind == "arguments"), '{"sides": 6}')
            self.assertEqual([e.kind for e in events if e.kind in ("begin", "end")], ["begin", "end"])
        cut = runnel.read_tool_calls(MODEL, text[:-20], cut=True)
        self.assertEqual((len(cut.calls), cut.broken[0][1]), (0, "was cut"))
        self.assertTrue(cut.broken[0][0].startswith("<tool_call>"))

    def test_what_is_wrong_is_said(self) -> None:
        with self.assertRaisesRegex(runnel.InvalidArgumentError, "tool"):
            runnel.Tools([{"name": "a b"}])
        with self.assertRaises(runnel.InvalidArgumentError):
            runnel.Tools("{")
        with self.assertRaisesRegex(runnel.InvalidArgumentError, "other"):
            self.tools.constraint(MODEL, "other")
        with self.assertRaises(TypeError):
            UNTYPED.Tools(3)
        closed = runnel.Tools([NOW])
        closed.close()
        with self.assertRaises(runnel.ClosedError):
            MODEL.encode_chat([{"role": "user", "content": "x"}], tools=closed)
        with self.assertRaises(ValueError):
            runnel.ToolCall("f", "[]").parsed


if __name__ == "__main__":
    unittest.main()
