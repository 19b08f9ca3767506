# SPDX-License-Identifier: Apache-2.0
"""`runnel serve` as a child process, for the scripts beside this file. Everything stays on 127.0.0.1."""
import http.client
import json
import os
import subprocess
import threading

MODEL = os.environ.get("RUNNEL_SERVE_MODEL", "models/runnel-gsa-135m-instruct.gguf")


class Server:
    def __init__(self, program, *options, model=MODEL, seconds=600):
        """Starts it and waits until it listens, for at most `seconds`."""
        self.process = subprocess.Popen([program, "serve", model, "--port", "0", *options],
                                        stdout=subprocess.PIPE, text=True)
        timeout = threading.Timer(seconds, self.process.kill)
        timeout.start()
        line = self.process.stdout.readline()
        timeout.cancel()
        if "//127.0.0.1:" not in line:
            raise RuntimeError(f"the server said {line!r} within {seconds} s, expected its address")
        self.port = int(line.split("//127.0.0.1:")[1].split("/")[0])

    def connect(self, timeout=600):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, path, body=None, timeout=600):
        """Status and JSON of one request on a connection of its own."""
        connection = self.connect(timeout)
        if body is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.close()
        return answer.status, said

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        self.process.terminate()
        return self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()
