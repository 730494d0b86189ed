"""chromium.py - a headless Chromium spoken to over a pipe (the DevTools protocol), with the standard library alone."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find():
    """The browser: $CHROMIUM, or the first of the usual names; None when there is none."""
    given = os.environ.get("CHROMIUM")
    return given if given else next((path for path in map(shutil.which, NAMES) if path), None)


def _move(fd):
    """The same pipe end above 10, so that it is not in the way of 3 and 4."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return moved


class Browser:
    """One browser with one page. Everything that the page complains of is in `complaints`."""

    def __init__(self, program, profile, timeout=60):
        theirs_in, self._out = map(_move, os.pipe())
        self._in, theirs_out = map(_move, os.pipe())

        def ends():  # the browser reads from 3 and writes to 4
            os.dup2(theirs_in, 3)
            os.dup2(theirs_out, 4)

        self._log = open(os.path.join(profile, "browser.log"), "wb")
        flags = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                 "--disable-extensions", "--disable-background-networking", "--force-color-profile=srgb",
                 f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")  # as root it does not start with it
        self._process = subprocess.Popen([program, *flags, "about:blank"], stdin=subprocess.DEVNULL, stdout=self._log,
                                         stderr=self._log, close_fds=True, pass_fds=(3, 4), preexec_fn=ends)
        os.close(theirs_in)
        os.close(theirs_out)
        self._timeout, self._buffer, self._next, self._session = timeout, b"", 1, None
        self.complaints, self.requests, self._loaded = [], [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        try:
            self._session = None
            self.call("Browser.close")
        except (OSError, RuntimeError):
            self._process.kill()
        self._process.wait(timeout=30)
        self._log.close()

    def _message(self, deadline):
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise RuntimeError("the browser did not answer in time")
            data = os.read(self._in, 1 << 16)
            if not data:
                raise RuntimeError("the browser ended; see browser.log")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def _note(self, message):
        method, p = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            d = p["exceptionDetails"]
            self.complaints.append(f"exception: {d.get('exception', {}).get('description', d.get('text'))}")
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(f"console.{p['type']}: {[a.get('value') for a in p['args']]}")
        elif method == "Log.entryAdded":
            self.complaints.append(f"log {p['entry']['level']}: {p['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(p["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True

    def call(self, method, **params):
        """Sends a command and waits for its answer."""
        number, self._next = self._next, self._next + 1
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data):]
        deadline = time.monotonic() + self._timeout
        while True:
            answer = self._message(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def open(self, path, width, height, dark):
        """Shows a file in a window of this width, light or dark."""
        self.complaints, self.requests, self._loaded = [], [], False
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        deadline = time.monotonic() + self._timeout
        while not self._loaded:
            self._note(self._message(deadline))

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']['exception']['description']}")
        return answer["result"].get("value")

    def mouse(self, x, y, kind="mouseMoved"):
        button = "none" if kind == "mouseMoved" else "left"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=0 if button == "none" else 1)

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def picture(self, path, whole=True):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as f:
            f.write(base64.b64decode(shot["data"]))
