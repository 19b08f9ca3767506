# SPDX-License-Identifier: Apache-2.0
"""300 slow connections, 10,000 quick ones, and one client who looks at /health: crowd.py PROGRAM"""
import os
import socket
import sys
import threading
import time

from serving import Server

STALL_MS = float(os.environ.get("RUNNEL_CROWD_STALL_MS", "100"))
server = Server(sys.argv[1])
quick = [0, 0]  # answered, not
lock = threading.Lock()


def hurry(count):
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
            s.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            said = b""
            try:
                while piece := s.recv(4096):
                    said += piece
            except ConnectionResetError:
                pass
            with lock:
                quick[0 if said.startswith(b"HTTP/1.1 200") else 1] += 1


slow, stop = [], threading.Event()


def dawdle():
    while not stop.is_set():
        while len(slow) < 300:
            s = socket.create_connection(("127.0.0.1", server.port))
            s.setblocking(False)
            slow.append(s)
        for i, s in enumerate(list(slow)):
            try:
                s.send(b"X")
                if s.recv(4096) == b"":
                    raise OSError
            except BlockingIOError:
                pass
            except OSError:  # it was cut off: another one
                s.close()
                slow.remove(s)
        time.sleep(0.5)


dawdling = threading.Thread(target=dawdle)
dawdling.start()
time.sleep(0.5)
threads = [threading.Thread(target=hurry, args=(1250,)) for _ in range(8)]
for t in threads:
    t.start()
looks = []
while any(t.is_alive() for t in threads):
    begin = time.monotonic()
    status, _ = server.ask("/health", timeout=30)
    looks.append(1000 * (time.monotonic() - begin))
    assert status == 200
    time.sleep(0.01)
stop.set()
dawdling.join()
looks.sort()
code = server.stop()
print(f"300 slow connections, {quick[0]} quick ones answered and {quick[1]} not; {len(looks)} looks at /health: "
      f"median {looks[len(looks) // 2]:.1f} ms, p99 {looks[int(0.99 * len(looks))]:.1f} ms, worst {looks[-1]:.1f} ms")
sys.exit(0 if quick[1] == 0 and looks[-1] < STALL_MS and code == 0 else 1)
