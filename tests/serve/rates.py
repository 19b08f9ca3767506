# SPDX-License-Identifier: Apache-2.0
"""Two servers in turns, and who waits how long: rates.py PROGRAM [OTHER]
Tokens a second of eight clients of each program (and their ratio), then of PROGRAM alone: the first token of a 33rd
request beside 32 long ones, and the pauses of eight streams while long prompts are read."""
import concurrent.futures
import json
import os
import statistics
import sys
import threading
import time

from serving import Server

ROUNDS = int(os.environ.get("RUNNEL_SERVE_ROUNDS", "5"))


def stream(server, prompt, tokens, times):
    """Asks for a stream and notes when its pieces came; the number of tokens."""
    connection = server.connect()
    body = {"prompt": prompt, "max_tokens": tokens, "ignore_end": True, "stream": True, "seed": 1, "temperature": 0.8,
            "stream_options": {"include_usage": True}}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    said = 0
    for line in answer:
        times.append(time.monotonic())
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            said = (event.get("usage") or {}).get("completion_tokens", said)
    return said


def rate(server, clients=8, tokens=128):
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        said = sum(pool.map(lambda i: stream(server, f"Story {i}:", tokens, []), range(clients)))
    return said / (time.monotonic() - begin)


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


programs = sys.argv[1:3]
if len(programs) == 2:
    rates = {p: [] for p in programs}
    servers = {p: Server(p) for p in programs}
    for server in servers.values():
        rate(server, tokens=16)
    for _ in range(ROUNDS):
        for program, server in servers.items():
            rates[program].append(rate(server))
    ratios = [a / b for a, b in zip(rates[programs[0]], rates[programs[1]])]
    for program in programs:
        print(f"{program}: {statistics.median(rates[program]):.1f} tokens/s of 8 clients")
    print(f"ratio: median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")
    for server in servers.values():
        server.stop()

server = Server(programs[0], "--parallel", "32", "--queue", "64", "--state-memory", "512")
long_prompt = "word " * 64
with concurrent.futures.ThreadPoolExecutor(40) as pool:
    busy = [pool.submit(stream, server, f"{i} {long_prompt}", 400, []) for i in range(32)]
    time.sleep(15)  # past their prompts
    firsts = []
    while not any(b.done() for b in busy) and len(firsts) < 20:
        times = []
        begin = time.monotonic()
        stream(server, "Say a word.", 20, times)
        firsts.append(times[0] - begin)
    for b in busy:
        b.result()
print(f"first token of a 33rd request: median {1000 * statistics.median(firsts):.0f} ms, "
      f"p95 {1000 * quantile(firsts, 0.95):.0f} ms of {len(firsts)}")
server.stop()

server = Server(programs[0], "--parallel", "16")
pauses = []
for reading in (False, True):
    streams = [[] for _ in range(8)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        talking = [pool.submit(stream, server, f"Story {i}:", 150, streams[i]) for i in range(8)]
        time.sleep(1.5)
        begin = time.monotonic()
        if reading:
            stream(server, "word " * 1500, 1, [])
        else:
            time.sleep(2)
        end = time.monotonic()
        for t in talking:
            t.result()
    gaps = [b - a for s in streams for a, b in zip(s, s[1:]) if begin < a < end and b - a > 0.001]
    pauses.append(quantile(gaps, 0.95))
    print(f"pause of 8 streams {'while a prompt of 1,500 words is read' if reading else 'alone'}: "
          f"p95 {1000 * pauses[-1]:.0f} ms, longest {1000 * max(gaps):.0f} ms")
print(f"exit code {server.stop()}")
