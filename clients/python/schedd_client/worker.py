"""A worker: takes runs of a queue, and executes each with its handler in a thread."""

from __future__ import annotations

import signal
import threading
import time
import traceback
import uuid
from typing import Any, Callable, Dict, Sequence

from .client import Abort, Aborted, Client, Items, log

Handler = Callable[[Any, "Run"], Any]
OUTPUT_CHARS = 128 * 1024  # A body has 1 MiB at most, and schedd keeps 64 KiB.


class Stop(Exception):
    """Raised by a handler: the attempt failed, and no further attempt can succeed."""


class Again(Exception):
    """Raised by a handler: the run starts again after `seconds`. This is no failure."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds


class Run:
    """A run that this worker has. `cancelled` is set when the work shall stop."""

    def __init__(self, document: Dict[str, Any]) -> None:
        self.id, self.job, self.handler = (str(document[key]) for key in ("run_id", "job", "handler"))
        self.payload, self.due, self.token = document["payload"], str(document["due"]), str(document["token"])
        self.attempt, self.fence = int(document["attempt"]), int(document["fence"])
        self.timeout, self.traceparent = document["timeout_ms"] / 1000, document.get("traceparent")
        self.cancelled, self.is_lost = threading.Event(), False
        self.news: Dict[str, Any] = {}

    def progress(self, percent: int, text: str = "") -> None:
        """Says how far the work is. The next heartbeat reports it, within a third of the lease."""
        self.news = {"progress": {"percent": min(100, max(0, percent)), "text": text[:256]}}

    def item(self, **more: Any) -> Dict[str, Any]:
        return {"run_id": self.id, "token": self.token, **more}


class Worker:
    """Asks for runs of `queue`, at most `slots` at once. After `stop` they have `grace` seconds to end."""

    def __init__(self, client: Client, queue: str, name: str, *, slots: int = 4, labels: Sequence[str] = (),
                 lease: float = 30.0, wait: float = 25.0, grace: float = 30.0) -> None:
        self._client, self._slots, self._lease, self._wait, self._grace = client, slots, lease, wait, grace
        self._path, self._worker = f"/v1/queues/{queue}/claim", {"name": name, "labels": list(labels)}
        self._handlers: Dict[str, Handler] = {}
        self._runs: Dict[str, Run] = {}
        self._ended, self._freed, self._abort = threading.Event(), threading.Event(), Abort()

    def handler(self, name: str) -> Callable[[Handler], Handler]:
        """Makes the function the handler of this name. It gets the payload and the run."""
        def register(function: Handler) -> Handler:
            self._handlers[name] = function
            return function
        return register

    def stop(self, *_: object) -> None:
        """Stops asking. `run` returns when all runs have ended. The second call also stops the runs."""
        if self._abort.is_set:
            self._cancel_all()
        self._abort.set()

    def _cancel_all(self) -> None:
        for run in list(self._runs.values()):
            run.cancelled.set()

    def run(self, *, signals: bool = True) -> None:
        """Works until `stop`, or until SIGTERM or SIGINT if `signals` is true (main thread only)."""
        if not self._handlers:
            raise ValueError("found no handler, wanted a function with @worker.handler(NAME)")
        for number in (signal.SIGTERM, signal.SIGINT) if signals else ():
            signal.signal(number, self.stop)
        threading.Thread(target=self._beat, daemon=True).start()
        try:
            while not self._abort.is_set:
                self._freed.clear()
                if len(self._runs) < self._slots:
                    self._ask()
                else:
                    self._freed.wait(0.5)  # In short pieces, so that a signal is seen.
        finally:
            for seconds in (self._grace, 10.0):
                until = time.monotonic() + seconds
                while self._runs and time.monotonic() < until:
                    time.sleep(0.05)
                self._cancel_all()
            self._ended.set()

    def _ask(self) -> None:
        """Asks for as many runs as there are free slots, and starts them."""
        body = {"claim_id": uuid.uuid4().hex, "worker": self._worker, "handlers": sorted(self._handlers),
                "max": min(500, self._slots - len(self._runs)), "wait_ms": int(self._wait * 1000),
                "lease_ms": int(self._lease * 1000)}
        try:
            # Each try has the same id: if an answer was lost, the next has the same runs.
            answer = self._client.request("POST", self._path, body, timeout=self._wait + 10,
                                          patience=float("inf"), abort=self._abort)
        except Aborted:
            return self._give_back({**body, "wait_ms": 0, "max": 1})
        for run in map(Run, answer["runs"]):
            self._runs[run.token] = run
            threading.Thread(target=self._execute, args=(run,), name=run.id, daemon=True).start()
        if answer["drain"]:
            self._freed.wait(1.0)  # The node stops. Soon another answers at this address.

    def _give_back(self, body: Dict[str, Any]) -> None:
        """Releases the runs in the answer that nobody read, so that they need not wait for a lease."""
        try:
            runs = self._client.request("POST", self._path, body, patience=2.0)["runs"]
            self._report("release", [Run(run).item() for run in runs])
        except Exception as error:
            log.warning("the last question: %s", error)

    def _execute(self, run: Run) -> None:
        verb = "complete"
        try:
            output = self._handlers[run.handler](run.payload, run)
            more: Dict[str, Any] = {} if output is None else {"output": str(output)[-OUTPUT_CHARS:]}
        except Again as again:
            verb, more = "release", {"delay_ms": int(again.seconds * 1000)}
        except BaseException as error:
            text = str(error).strip() if isinstance(error, Stop) else ""
            text = text or traceback.format_exception_only(type(error), error)[-1].strip()
            verb, more = "fail", {"error": text[:2000], "output": traceback.format_exc()[-OUTPUT_CHARS:],
                                  "retry": not isinstance(error, Stop)}
        if not run.is_lost:
            self._report(verb, [run.item(**more)])
        del self._runs[run.token]
        self._freed.set()

    def _report(self, verb: str, runs: Items) -> None:
        try:
            for answer in self._client.report(verb, runs) if runs else ():
                if answer["result"] != "ok":
                    log.warning("%s of run %s: %s", verb, answer["run_id"], answer["result"])
        except Exception as error:
            log.error("%s was not reported: %s", verb, error)

    def _beat(self) -> None:
        while not self._ended.wait(self._lease / 3):
            runs = list(self._runs.values())
            for part in (runs[at:at + 500] for at in range(0, len(runs), 500)):
                try:
                    answers = self._client.report("heartbeat", [run.item(**run.news) for run in part], self._lease / 3)
                except Exception as error:
                    log.warning("no heartbeat: %s", error)
                    continue
                for run, answer in zip(part, answers):
                    if answer["result"] not in ("ok", "again"):
                        run.is_lost = answer["result"] != "cancel"
                        run.cancelled.set()
