# SPDX-License-Identifier: Apache-2.0
"""A page of another origin in a real browser posts to the server: browser.py PROGRAM
Needs chromium (Debian). The page asks in every way that needs no leave; the server must start nothing."""
import http.server
import json
import subprocess
import sys
import tempfile
import threading

from serving import Server

server = Server(sys.argv[1])
target = f"http://127.0.0.1:{server.port}"
BODY = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})
INNER = f"POST /v1/completions HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n" \
        f"Content-Length: 32\\r\\n\\r\\n{{\\\"prompt\\\": \\\"a\\\", \\\"max_tokens\\\": 1}}"
PAGE = f"""<!doctype html><title>begun</title><body><iframe name=f></iframe>
<form id=form method=post enctype=text/plain action="{target}/v1/chat/completions" target=f><input name='{{"a' value='":1}}'></form>
<script>
const bodies = [{json.dumps(BODY)}, "{INNER}"];
const types = ["text/plain", "application/x-www-form-urlencoded", "application/json", undefined];
const asks = [];
for (const path of ["/v1/chat/completions", "/v1/completions", "/v1/states/delete"])
  for (const body of bodies)
    for (const type of types)
      for (const mode of ["no-cors", "cors"])
        asks.push(fetch("{target}" + path, {{method: "POST", mode, body, headers: type ? {{"Content-Type": type}} : {{}}}})
          .then(r => r.type == "opaque" ? "sent" : "READ", () => "refused"));
asks.push(fetch("{target}/health", {{mode: "no-cors"}}).then(() => "sent", () => "refused"));
document.getElementById("form").submit();
navigator.sendBeacon("{target}/v1/completions", bodies[1]);
Promise.all(asks).then(all => setTimeout(() => {{
  document.body.innerText = "asked " + all.length + " sent " + all.filter(x => x == "sent").length +
    " read " + all.filter(x => x == "READ").length; }}, 500));
</script>"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_):
        pass


pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=pages.serve_forever, daemon=True).start()
with tempfile.TemporaryDirectory() as profile:
    dom = subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                          "--virtual-time-budget=20000", "--timeout=30000", "--dump-dom",
                          f"http://localhost:{pages.server_port}/"], capture_output=True, text=True, timeout=120).stdout
said = dom[dom.find("asked"):].split("<")[0].strip() if "asked" in dom else dom[-300:]
health = server.ask("/health")[1]
started = health["finished"] + health["active"] + health["waiting"]
print(f"chromium: {said}; the server started {started} requests")
code = server.stop()
sys.exit(0 if "asked" in dom and " read 0" in dom and " sent 0" not in dom and started == 0 and code == 0 else 1)
