"""A headless Chromium to look at pages with: its DevTools protocol over two pipes, JSON messages that
end with a zero byte. Needs nothing but the standard library."""
import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

TIMEOUT_S = 60


def find_chromium():
    """The program, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """One tab. What goes wrong in it is collected in `problems`, what it asked for in `requests`."""

    def __init__(self, to_browser, from_browser):
        self._to, self._from = to_browser, from_browser
        self._rest, self._number = b"", 0
        self._session = None
        self.problems, self.requests, self._loaded = [], [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def _receive(self, end):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            got = os.read(self._from, 1 << 20)
            if not got:
                raise ConnectionError("the browser has ended")
            self._rest += got
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def _note(self, message):
        """Events that say something about the page."""
        params, method = message.get("params", {}), message.get("method")
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append("exception: " + details.get("exception", {}).get(
                "description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append("console: " + " ".join(str(a.get("value", a.get("description")))
                                                        for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append("log: " + params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append("dialog: " + params["message"])
            self._number += 1
            self._send({"id": self._number, "method": "Page.handleJavaScriptDialog",
                        "params": {"accept": True}})
        elif method == "Page.loadEventFired":
            self._loaded = True

    def _send(self, message):
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")

    def call(self, method, **params):
        self._number += 1
        number, end = self._number, time.monotonic() + TIMEOUT_S
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._receive(end)
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message)

    def open(self, path):
        self.problems, self.requests, self._loaded = [], [], False
        url = pathlib.Path(path).resolve().as_uri()
        self.call("Page.navigate", url=url)
        end = time.monotonic() + TIMEOUT_S
        while not self._loaded:
            self._note(self._receive(end))
        # two frames later everything that the page starts on loading has had its chance
        self.ask("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")
        return url

    def ask(self, expression):
        """The value of an expression, or of a promise, in the page."""
        got = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            raise RuntimeError(f"{expression}: {got['exceptionDetails']}")
        return got["result"].get("value")

    def resize(self, width, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])


@contextlib.contextmanager
def browser(program):
    """A tab in a browser of its own, which is gone afterwards."""
    to_r, to_w = os.pipe()
    from_r, from_w = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # the protocol is on descriptors 3 and 4
        command = [program, "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu",
                   "--no-first-run", "--disable-extensions", "--disable-dev-shm-usage",
                   f"--user-data-dir={profile}"]
        high_r, high_w = os.dup(to_r), os.dup(from_w)

        def place_pipes():
            os.dup2(high_r, 3, inheritable=True)
            os.dup2(high_w, 4, inheritable=True)

        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=place_pipes,
                                   start_new_session=True)
        for fd in (to_r, from_w, high_r, high_w):
            os.close(fd)
        try:
            yield Page(to_w, from_r)
        finally:
            os.close(to_w)
            os.close(from_r)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
