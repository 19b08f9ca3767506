# SPDX-License-Identifier: Apache-2.0
"""Who waits how long: rates.py speed PROGRAM OTHER | first PROGRAM | pauses PROGRAM
speed:  tokens a second of eight clients of each program, in turns, and their ratio.
first:  32 clients with prompts of 64 tokens and answers of 400, again and again; the time to the first token of a 33rd
        request with a prompt of 20 tokens, from the moment on when the 32 arrive.
pauses: between the tokens of eight streams, alone and while prompts of {WORDS} words are read.
RUNNEL_SERVE_MODEL: another model; RUNNEL_SERVE_ROUNDS, RUNNEL_SERVE_LOOKS, RUNNEL_SERVE_SECONDS,
RUNNEL_SERVE_WORDS (of the prompts, 1,500): how much. Prints the
machine's load, which is to be small."""
import concurrent.futures
import json
import os
import statistics
import sys
import threading
import time

from serving import Server

ROUNDS = int(os.environ.get("RUNNEL_SERVE_ROUNDS", "5"))
LOOKS = int(os.environ.get("RUNNEL_SERVE_LOOKS", "40"))
WORDS = int(os.environ.get("RUNNEL_SERVE_WORDS", "1500"))
SECONDS = float(os.environ.get("RUNNEL_SERVE_SECONDS", "15"))


def stream(server, prompt, tokens, times, stop=None):
    """Asks for a stream and notes when its pieces came; the number of tokens. Hangs up when `stop` is set."""
    connection = server.connect()
    body = {"prompt": prompt, "max_tokens": tokens, "ignore_end": True, "stream": True, "seed": 1, "temperature": 0.8,
            "stream_options": {"include_usage": True}}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    said = 0
    for line in answer:
        if line.startswith(b"data: {"):
            times.append(time.monotonic())
            event = json.loads(line[6:])
            said = (event.get("usage") or {}).get("completion_tokens", said)
        if stop is not None and stop.is_set():
            break
    connection.close()
    return said


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def rate(server, clients=8, tokens=128):
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        said = sum(pool.map(lambda i: stream(server, f"Story {i}:", tokens, []), range(clients)))
    return said / (time.monotonic() - begin)


def speed(programs):
    rates = {p: [] for p in programs}
    servers = {p: Server(p) for p in programs}
    for server in servers.values():
        rate(server, tokens=16)
    for i in range(ROUNDS):
        for program in programs if i % 2 == 0 else programs[::-1]:
            rates[program].append(rate(servers[program]))
    ratios = [a / b for a, b in zip(rates[programs[0]], rates[programs[1]])]
    for program in programs:
        print(f"{program}: {statistics.median(rates[program]):.1f} tokens/s of 8 clients")
    print(f"ratio: median {statistics.median(ratios):.3f} of {ROUNDS}, {min(ratios):.3f} to {max(ratios):.3f}")
    for server in servers.values():
        server.stop()
    return statistics.median(ratios) >= 0.97


def first(program):
    server = Server(program, "--parallel", "32", "--queue", "64", "--state-memory", "512")
    stop, firsts, said = threading.Event(), [], []
    words = "word " * 64

    def client(i):
        while not stop.is_set():
            said.append(stream(server, f"{i} {words}"[:len(words)], 400, [], stop))

    clients = [threading.Thread(target=client, args=(i,)) for i in range(32)]
    for c in clients:
        c.start()
    enough = threading.Event()
    enough.set()  # its first token is what is waited for
    for _ in range(LOOKS):
        times, begin = [], time.monotonic()
        stream(server, "word " * 20, 20, times, enough)
        firsts.append(times[0] - begin)
    health = server.ask("/health")[1]
    stop.set()
    for c in clients:
        c.join()
    p95 = quantile(firsts, 0.95)
    print(f"first token of a 33rd request beside {health['active'] + health['waiting']} others, {len(said)} answers: median "
          f"{1000 * statistics.median(firsts):.0f} ms, p95 {1000 * p95:.0f} ms, worst {1000 * max(firsts):.0f} ms of {LOOKS}")
    server.stop()
    return p95 <= 1


def pauses(program):
    server = Server(program, "--parallel", "16", "--state-memory", "4096")
    p95 = []
    for reading in (False, True):
        stop, streams = threading.Event(), [[] for _ in range(8)]
        clients = [threading.Thread(target=stream, args=(server, f"Story {i}:", 4096, streams[i], stop)) for i in range(8)]
        for c in clients:
            c.start()
        while any(len(s) < 3 for s in streams):
            time.sleep(0.01)
        begin, prompts = time.monotonic(), 0
        while time.monotonic() - begin < SECONDS:
            if reading:
                stream(server, f"{prompts} " + "word " * WORDS, 1, [])
                prompts += 1
            else:
                time.sleep(0.1)
        end = time.monotonic()
        stop.set()
        for c in clients:
            c.join()
        gaps = [b - a for s in streams for a, b in zip(s, s[1:]) if begin < a < end]
        assert all(s[-1] >= end - 1 for s in streams), "a stream ended before"
        p95.append(quantile(gaps, 0.95))
        print(f"pause of 8 streams {f'while {prompts} prompts of {WORDS} words are read' if reading else 'alone'}: median "
              f"{1000 * statistics.median(gaps):.0f} ms, p95 {1000 * p95[-1]:.0f} ms, longest {1000 * max(gaps):.0f} ms of {len(gaps)}")
    server.stop()
    return p95[-1] <= 0.1


what = sys.argv[1]
print(f"load {os.getloadavg()[0]:.1f} before")
good = speed(sys.argv[2:4]) if what == "speed" else first(sys.argv[2]) if what == "first" else pauses(sys.argv[2])
print(f"load {os.getloadavg()[0]:.1f} after")
sys.exit(0 if good else 1)
