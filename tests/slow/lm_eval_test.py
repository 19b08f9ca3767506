# SPDX-License-Identifier: Apache-2.0
"""The adapter in the real lm_eval: LAMBADA and ARC-easy, 250 items each, item by item beside `runnel score`. Run by
tests/slow/run lm-eval, which names the program in RUNNEL_PROGRAM and the data in RUNNEL_EVAL_DATA."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

os.environ["HF_DATASETS_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"

import lm_eval  # noqa: E402
from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

from runnel.lm_eval_model import RunnelLM, _joined  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "models/runnel-gsa-135m-instruct.gguf"
TASKS = ["runnel_lambada", "runnel_arc_easy"]
ITEMS = int(os.environ.get("RUNNEL_EVAL_ITEMS") or 250)


def scored(samples: list[dict[str, Any]]) -> list[list[float]]:
    """What `runnel score` makes of the items' contexts and continuations."""
    lines = []
    for sample in samples:
        pairs = [_joined(*arguments) for arguments in sample["arguments"]]
        lines.append(json.dumps({"prompt": pairs[0][0], "choices": [pair[1] for pair in pairs]}))
    done = subprocess.run([os.environ["RUNNEL_PROGRAM"], "score", str(FILE), "--device", "cpu", "-t", "1"],
                          input="\n".join(lines) + "\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [[choice["logprob"] for choice in json.loads(line)["choices"]] for line in done.stdout.splitlines()]


class Adapter(unittest.TestCase):
    model: RunnelLM

    @classmethod
    def setUpClass(cls) -> None:
        cls.model = RunnelLM(file=str(FILE), device="cpu", threads=1)

    def test_every_item_is_what_the_program_scores(self) -> None:
        tasks = TaskManager(include_path=str(ROOT / "tests/bench/lm_eval"), include_defaults=False)
        done = lm_eval.simple_evaluate(model=self.model, tasks=TASKS, task_manager=tasks, bootstrap_iters=0)
        assert done is not None
        for task in TASKS:
            samples = sorted(done["samples"][task], key=lambda s: s["doc_id"])
            self.assertEqual(len(samples), ITEMS)
            ours = [[float(answers[0][0]) for answers in sample["resps"]] for sample in samples]
            theirs = scored(samples)
            self.assertEqual(ours, theirs)  # to the last bit
            print(task, {k: v for k, v in done["results"][task].items() if isinstance(v, float)}, file=sys.stderr)
            if task == "runnel_arc_easy":
                right = [nats.index(max(nats)) == sample["doc"]["answer"] for nats, sample in zip(theirs, samples)]
                self.assertAlmostEqual(done["results"][task]["acc,none"], sum(right) / ITEMS)
            else:
                for sample in samples[:25]:
                    self.assertEqual(bool(sample["resps"][0][0][1]), self.says(sample))

    def says(self, sample: dict[str, Any]) -> bool:
        """Whether greedy decoding says the last word."""
        context, word = sample["doc"]["text"].rsplit(" ", 1)
        tokens = self.model.model.encode(" " + word)
        session = self.model.model.session()
        session.prefill(context)
        answer = session.generate(max_tokens=len(tokens), ignore_end=True)
        answer.read()
        return answer.tokens == tokens

    def test_texts_and_answers(self) -> None:
        text = "The capital of France is Paris."
        whole = self.model.loglikelihood_rolling([Instance("loglikelihood_rolling", {}, (text, ), 0)], disable_tqdm=True)
        session = self.model.model.session()
        session.prefill([self.model._first])
        self.assertAlmostEqual(whole[0], session.score_choices([text])[0], 3)
        asked = Instance("generate_until", {}, ("The capital of France is", {"until": ["."], "max_gen_toks": 8}), 0)
        self.assertEqual(self.model.generate_until([asked], disable_tqdm=True), [" Paris"])
        chat = self.model.apply_chat_template([{"role": "user", "content": "Hello"}])
        self.assertIn("Hello", chat)
        self.assertEqual(self.model.model.encode(chat, parse_special=True),
                         self.model.model.encode_chat([{"role": "user", "content": "Hello"}]))


if __name__ == "__main__":
    unittest.main()
