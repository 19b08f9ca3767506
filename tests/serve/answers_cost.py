# SPDX-License-Identifier: Apache-2.0
"""What several answers to one prompt cost: answers_cost.py PROGRAM [N]
One answer and N (4) of 64 tokens in turns, of one server; the ratio of their times, of each pair and in the middle.
RUNNEL_SERVE_MODEL: another model; RUNNEL_SERVE_ROUNDS: how many pairs."""
import os
import statistics
import sys
import time

from serving import Server

ROUNDS = int(os.environ.get("RUNNEL_SERVE_ROUNDS", "7"))
PROMPT = "The river runs past the mill and on to the sea. " * 8
n = int(sys.argv[2]) if len(sys.argv) > 2 else 4
server = Server(sys.argv[1])


def seconds(answers):
    begin = time.monotonic()
    status, said = server.ask("/v1/completions", {"prompt": PROMPT, "n": answers, "max_tokens": 64, "ignore_end": True,
                                                  "temperature": 0.8, "seed": 1})
    assert status == 200 and said["usage"]["completion_tokens"] == 64 * answers, said
    return time.monotonic() - begin


seconds(1), seconds(n)
ratios = []
for _ in range(ROUNDS):
    one, several = seconds(1), seconds(n)
    ratios.append(several / one)
print(f"{n} answers cost", " ".join(f"{r:.2f}" for r in ratios), f"of one, {statistics.median(ratios):.2f} in the middle; load", *os.getloadavg())
server.stop()
