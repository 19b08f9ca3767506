# SPDX-License-Identifier: Apache-2.0
"""wrk with 256 kept connections: keep_alive.py PROGRAM [SECONDS [OTHER]]
Fails on any error of PROGRAM. With OTHER both are measured, in turns, so that their p99 can be compared; what OTHER does wrong
is told and no failure. Needs wrk (Debian)."""
import re
import subprocess
import sys

from serving import Server

seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
programs = sys.argv[1:2] + sys.argv[3:4]


def load(program, path, seconds):
    server = Server(program)
    said = subprocess.run(["wrk", "-t2", "-c256", f"-d{seconds}s", "--timeout", "10s", "--latency",
                           f"http://127.0.0.1:{server.port}{path}"], capture_output=True, text=True).stdout
    code = server.stop()
    rate = re.search(r"Requests/sec: *([0-9.]+)", said)
    p99 = re.search(r"99% *([0-9.]+)(us|ms|s)", said)
    errors = re.findall(r"(Socket errors:.*|Non-2xx.*)", said)
    ms = float(p99[1]) * {"us": 1e-3, "ms": 1, "s": 1e3}[p99[2]] if p99 else float("nan")
    print(f"{program} {path}: {rate[1] if rate else '?'} requests/s, p99 {ms:.1f} ms, "
          f"errors: {'; '.join(errors) or 'none'}; exit code {code}", flush=True)
    return rate is not None and float(rate[1]) > 0 and not errors and code == 0


good = True
for path in ("/health", "/v1/models"):
    for program in programs:
        good &= load(program, path, seconds) or program != programs[0]
sys.exit(0 if good else 1)
