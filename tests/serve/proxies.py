# SPDX-License-Identifier: Apache-2.0
"""Two users behind nginx and behind HAProxy, on connections the proxies keep: proxies.py PROGRAM
Needs nginx-light and haproxy (Debian). Each user must get the answers to what that user asked, and nothing else, while one
of them sends what is refused before it is read."""
import json
import http.client
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

from serving import Server

ROUNDS = int(os.environ.get("RUNNEL_PROXY_ROUNDS", "200"))
server = Server(sys.argv[1])
failures = []


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def nginx(folder, port):
    path = f"{folder}/nginx.conf"
    with open(path, "w") as f:
        f.write(f"""daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.err; worker_processes 1;
events {{ worker_connections 64; }}
http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  upstream runnel {{ server 127.0.0.1:{server.port}; keepalive 1; }}
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://runnel; proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_set_header Host localhost; proxy_request_buffering off; }} }} }}""")
    return subprocess.Popen(["/usr/sbin/nginx", "-c", path, "-e", f"{folder}/nginx.err"])


def haproxy(folder, port):
    path = f"{folder}/haproxy.cfg"
    with open(path, "w") as f:
        f.write(f"""defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  http-reuse always
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  http-request set-header Host localhost
  server s 127.0.0.1:{server.port} pool-max-conn 1
""")
    return subprocess.Popen(["/usr/sbin/haproxy", "-f", path, "-q"])


def honest(port, name):
    """Names no model; the answer repeats the name in its message, so every answer tells whose it is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for i in range(ROUNDS):
        mine = f"{name}-{i}"
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "model": mine}),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read().decode()
        if answer.status != 404 or mine not in said:
            failures.append(f"{name} asked for {mine} and got {answer.status} {said[:200]}")


def attacker(port):
    inner = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 37\r\n\r\n" \
            '{"prompt": "a", "model": "smuggled!"}'
    for i in range(ROUNDS):
        kind = ["text/plain", "application/json"][i % 2]
        path = "/v1/completions" if kind == "text/plain" else "/nowhere"
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("POST", path, inner, {"Content-Type": kind})
            answer = connection.getresponse()
            said = answer.read().decode()
            if answer.status not in (404, 415, 502):
                failures.append(f"the attacker got {answer.status} {said[:200]}")
            connection.close()
        except OSError as error:
            failures.append(f"attacker: {error}")


with tempfile.TemporaryDirectory() as folder:
    os.chmod(folder, 0o777)
    for make in (nginx, haproxy):
        port = free_port()
        proxy = make(folder, port)
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        threads = [threading.Thread(target=honest, args=(port, "alice")), threading.Thread(target=honest, args=(port, "bob")),
                   threading.Thread(target=attacker, args=(port,))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        proxy.terminate()
        proxy.wait()
        print(f"{make.__name__}: 2 users and an attacker, {ROUNDS} requests each, {len(failures)} failures")
for failure in failures[:10]:
    print(failure)
finished = server.ask("/health")[1]["finished"]
code = server.stop()
sys.exit(0 if not failures and finished == 0 and code == 0 else 1)
