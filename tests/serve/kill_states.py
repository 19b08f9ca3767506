# SPDX-License-Identifier: Apache-2.0
"""Kills the server with SIGKILL while it answers and saves: kill_states.py PROGRAM [KILLS]
What got its 200 must be there afterwards: the same generation or a later one, and the conversation goes on from it."""
import os
import random
import sys
import tempfile
import threading
import time

from serving import Server

program, kills = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
dice = random.Random(1)
acknowledged = {}  # id -> generation and position of the last answer with 200
answers = lost = left = 0
per_server = 4     # conversations at once


def talk(server, name, stop):
    global answers
    while not stop.is_set():
        try:
            status, said = server.ask("/v1/completions", {"prompt": "a b c", "max_tokens": 2, "ignore_end": True,
                                                          "conversation": name}, 10)
        except Exception:  # the server was killed
            return
        if status == 200:
            state = said["conversation"]
            acknowledged[name] = (state["generation"], state["position"])
            answers += 1


with tempfile.TemporaryDirectory() as folder:
    for kill in range(kills):
        server = Server(program, "--states", folder)
        leftovers = [f for f in os.listdir(folder) if f.endswith(".tmp")]
        left += len(leftovers)
        names = [f"c{kill % 50}-{i}" for i in range(per_server)]
        for name in [n for n in acknowledged if n.startswith(f"c{(kill - 1) % 50}-")]:
            generation, position = acknowledged[name]
            status, said = server.ask("/v1/states/save", {"conversation": name})
            if status != 200 or said["generation"] < generation or said["position"] < position:
                lost += 1
                print(f"kill {kill}: {name} was acknowledged at {generation}, {position}; now: {status} {said}")
        stop = threading.Event()
        threads = [threading.Thread(target=talk, args=(server, n, stop)) for n in names]
        for t in threads:
            t.start()
        time.sleep(dice.uniform(0.1, 0.8))
        server.kill()
        stop.set()
        for t in threads:
            t.join()
        if (kill + 1) % 100 == 0:
            print(f"{kill + 1} kills, {answers} acknowledged answers, {lost} lost", flush=True)
print(f"{kills} kills, {answers} acknowledged answers, {lost} lost, {left} temporary files left after a start")
sys.exit(1 if lost or left else 0)
