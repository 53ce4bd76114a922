"""Chromium over its debugging pipe: no driver, no port, no dependency."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--disable-crash-reporter", "--remote-debugging-pipe"),
)

# Chromium reads commands from descriptor 3 and writes answers to 4.
LAUNCHER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A page in Chromium; `errors` is what its console said, `requests` what it asked the network for."""

    def __init__(self, profile, *, width=1280, height=900, dark=False):
        answers, theirs_to_write = os.pipe()
        theirs_to_read, commands = os.pipe()
        # Copies above 9, so that neither is in the way when the launcher puts them where Chromium looks.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_to_read, theirs_to_write)]
        chromium = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, *map(str, ends), *chromium],
            pass_fds=ends,
            stderr=subprocess.DEVNULL,
        )
        for end in (theirs_to_read, theirs_to_write, *ends):
            os.close(end)
        self.input, self.output, self.buffer, self.sent = commands, answers, b"", 0
        self.errors, self.requests, self.session = [], [], None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.terminate()
        self.process.wait(timeout=20)
        os.close(self.input)
        os.close(self.output)

    def open(self, path):
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired")

    def evaluate(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click(self, selector):
        """A click of the mouse in the middle of an element."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{found}.scrollIntoView({{block: 'center', inline: 'center'}})")
        place = self.evaluate(
            f"(r => [r.x + r.width / 2, r.y + r.height / 2])({found}.getBoundingClientRect())"
        )
        mouse = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **mouse)

    def screenshot(self, path):
        """The whole page, as a PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def call(self, method, **parameters):
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.input, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self.sent:
            self._record(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def wait_for(self, event):
        while (message := self._receive()).get("method") != event:
            self._record(message)

    def _record(self, event):
        parameters = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"]["text"])
        elif (event.get("method"), parameters.get("type")) == ("Runtime.consoleAPICalled", "error") or (
            event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning")
        ):
            self.errors.append(json.dumps(parameters))

    def _receive(self, seconds=30):
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.output], [], [], max(0, end - time.monotonic()))
            assert ready, "Chromium does not answer"
            self.buffer += (chunk := os.read(self.output, 1 << 20))
            assert chunk, "Chromium has ended"
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)
