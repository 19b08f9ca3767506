# SPDX-License-Identifier: Apache-2.0
"""Hostile clients for a while, and a client who only wants /health: attack.py PROGRAM [SECONDS]
Fails if the server ends, hangs, resets a whole request or answers one request twice."""
import json
import os
import random
import socket
import sys
import threading
import time

from serving import Server

program, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 600
stall_ms = float(os.environ.get("RUNNEL_ATTACK_STALL_MS", "1000"))  # on a busy machine; sanitizers are slower
answer_s = float(os.environ.get("RUNNEL_ATTACK_ANSWER_S", "60"))  # at most, of 16 that are asked for at once
server = Server(program, "--most-tokens", "1000000")
end = time.monotonic() + seconds
counts, problems, waits = {}, [], []
INNER = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"


def post(body, headers=b"Host: localhost\r\nContent-Type: application/json\r\n", path=b"/v1/chat/completions"):
    return b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (path, headers, len(body), body)


def garbage(dice):
    return bytes(dice.randrange(256) for _ in range(dice.randrange(1, 400))) + b"\r\n\r\n"


def mutated(dice):
    whole = bytearray(post(b'{"prompt": "a", "max_tokens": 1}', path=b"/v1/completions"))
    for _ in range(dice.randrange(1, 6)):
        whole[dice.randrange(len(whole))] = dice.randrange(256)
    return bytes(whole)


CLOSING = [  # one answer, then the end
    lambda d: post(INNER, b"Host: localhost\r\nContent-Type: text/plain\r\n"),
    lambda d: post(INNER, b"Host: 127.evil.com\r\nContent-Type: application/json\r\n"),
    lambda d: b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + INNER,
    lambda d: b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n" + INNER,
    lambda d: b"GET /health HTTP/1.1\nHost: localhost\n\n" + INNER,
    lambda d: b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n" + INNER,
    lambda d: b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20000 + b"\r\n\r\n",
    lambda d: post(b"x" * 1100000),
]
KEEPING = [  # one answer, whatever becomes of the connection
    lambda d: post(b'{"n": ' + b"[" * 60000 + b"]" * 60000 + b"}"),
    lambda d: post(b'{"messages": ' + b'{"a":' * 30000 + b"1" + b"}" * 30000 + b"}"),
    lambda d: post(b"[" * d.randrange(1, 100000)),
    lambda d: post(json.dumps({"messages": [{"role": "user", "content": "x" * d.randrange(5000)}], "max_tokens": 1,
                               "conversation": f"c{d.randrange(40)}"}).encode()),
]


def talk(bytes_, timeout=answer_s):
    with socket.create_connection(("127.0.0.1", server.port), timeout=timeout) as s:
        try:
            s.sendall(bytes_)
        except OSError:
            pass  # refused before it was read whole
        said, begin = b"", time.monotonic()
        try:
            while piece := s.recv(65536):
                if not said:
                    waits.append(time.monotonic() - begin)
                said += piece
        except ConnectionResetError:
            said += b"(reset)"
        except TimeoutError:
            raise TimeoutError(f"after {said[:200]} to {bytes_[:100]}… {bytes_[-100:]}") from None
        return said


def attacker(seed):
    dice = random.Random(seed)
    while time.monotonic() < end and server.alive():
        kind = dice.choice(["closing", "keeping", "garbage", "mutated", "slow", "vanish"])
        counts[kind] = counts.get(kind, 0) + 1
        try:
            if kind == "closing":
                said = talk(dice.choice(CLOSING)(dice))
                if said.count(b"HTTP/1.1 ") != 1 or b"(reset)" in said:
                    problems.append((kind, said[:300]))
            elif kind == "keeping":
                said = talk(dice.choice(KEEPING)(dice))
                if said.count(b"HTTP/1.1 ") not in (1, 2):
                    problems.append((kind, said[:300]))
            elif kind in ("garbage", "mutated"):
                talk((garbage if kind == "garbage" else mutated)(dice))
            else:
                s = socket.create_connection(("127.0.0.1", server.port), timeout=answer_s)
                if kind == "slow":
                    for byte in post(b"{}")[:dice.randrange(1, 60)]:
                        s.send(bytes([byte]))
                        time.sleep(0.01)
                else:
                    s.sendall(post(b'{"messages": [{"role": "user", "content": "go"}], "max_tokens": 1000000, '
                                   b'"ignore_end": true, "stream": true}'))
                    s.recv(dice.randrange(1, 400))
                s.close()
        except OSError as error:
            problems.append((kind, str(error), server.ask("/health")[1]))


threads = [threading.Thread(target=attacker, args=(i,)) for i in range(16)]
for t in threads:
    t.start()
idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
worst, looks, sum_ms = 0.0, 0, 0.0
while time.monotonic() < end and server.alive():
    begin = time.monotonic()
    try:
        status, _ = server.ask("/health", timeout=30)
    except OSError as error:
        problems.append(("health", str(error)))
        break
    spent = 1000 * (time.monotonic() - begin)
    worst, looks, sum_ms = max(worst, spent), looks + 1, sum_ms + spent
    time.sleep(0.02)
for t in threads:
    t.join()
for s in idle:
    s.close()
alive = server.alive()
deadline = time.monotonic() + 60
quiet = False
while alive and not quiet and time.monotonic() < deadline:
    said = server.ask("/health")[1]
    quiet = said["active"] == 0 and said["waiting"] == 0
    time.sleep(0.1)
code = server.stop() if alive else server.process.returncode
print(f"{sum(counts.values())} attacks in {seconds:.0f} s {counts}; {looks} looks at /health: mean {sum_ms / max(looks, 1):.1f} ms, "
      f"worst {worst:.0f} ms; slowest of {len(waits)} answers {max(waits, default=0):.1f} s; exit code {code}; {len(problems)} problems")
for problem in problems[:10]:
    print(problem)
sys.exit(0 if alive and quiet and code == 0 and not problems and worst < stall_ms else 1)
