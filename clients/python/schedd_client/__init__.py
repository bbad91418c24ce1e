"""Adds jobs to schedd, and takes runs from it."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import random
import re
import signal
import socket
import threading
import time
import traceback
import urllib.parse
import uuid
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

Items = List[Dict[str, Any]]
URL = re.compile(r"unix:(?://)?(?P<socket>/.{1,106})|http(?P<tls>s?)://(?P<host>(?:\[[^][\s/@]+\]"
                 r"|[^][\0-\x20\x7f/?#@:]+)(?::(?P<port>\d+))?)(?P<base>(?:/[^/?#]+)*)/*", re.I)
Handler = Callable[[Any, "Run"], Any]
OUTPUT_CHARS = 128 * 1024  # 768 KiB of JSON at most. A body has 1 MiB, and schedd keeps 64 KiB.
log = logging.getLogger("schedd_client")


class ApiError(Exception):
    """An answer that says no. `code` and `detail` are those of the problem document."""

    def __init__(self, status: int, text: bytes) -> None:
        try:
            problem = json.loads(text)
            self.code, self.detail = str(problem["code"]), str(problem["detail"])
        except (ValueError, KeyError, TypeError):
            self.code, self.detail = "unknown", text[:200].decode("utf-8", "replace")
        self.status = status
        super().__init__(f"{status} {self.code}: {self.detail}")


class Abort:
    """A switch that gives up a request, also from a signal handler. No request follows."""

    is_set = False
    sock: Optional[socket.socket] = None

    def set(self) -> None:
        self.is_set, sock = True, self.sock
        if sock is not None:
            with contextlib.suppress(OSError):  # It may have no connection any more.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # The reader needs its TLS state.


class Client:
    """The API at `url` (`http://...`, `https://...` or `unix:/path`). Threads may share it."""

    def __init__(self, url: str, token: Optional[str] = None, *, timeout: float = 10.0,
                 patience: float = 60.0) -> None:
        parts, token = URL.fullmatch(url.strip()), (token or "").strip()
        if not parts or int(parts["port"] or 80) not in range(1, 65536):
            url = re.sub("//.*@", "//...@", url)  # No password goes into a log.
            raise ValueError(f"url: found {url!r}, wanted http[s]://HOST[:PORT] or unix:/PATH")
        if not re.fullmatch("[!-~]*", token):
            raise ValueError("token: found other characters, wanted printable ASCII without spaces")
        self._parts, self._timeout, self._patience = parts, timeout, patience
        self._auth = {"Authorization": f"Bearer {token}"} if token else {}

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._parts["tls"] else http.client.HTTPConnection
        connection = kind(self._parts["host"] or "localhost", timeout=min(timeout, 5.0))
        if self._parts["socket"]:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(connection.timeout)
            connection.sock.connect(self._parts["socket"])
        else:
            connection.connect()
        connection.sock.settimeout(timeout)  # The answer may take longer than the connect.
        return connection

    def request(self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] = {},
                patience: Optional[float] = None, timeout: Optional[float] = None,
                abort: Abort = Abort()) -> Any:
        """Returns the answer, or None after `abort`. Repeats it while the API is busy or away."""
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        place = urllib.parse.quote((self._parts["base"] or "") + path, "/?&=%:@!$'()*+,;~")
        head = {"Connection": "close", "Content-Type": "application/json", **self._auth, **headers}
        wait, until = 0.1, time.monotonic() + (self._patience if patience is None else patience)
        while not abort.is_set:
            try:
                with contextlib.closing(self._connect(timeout or self._timeout)) as connection:
                    abort.sock = connection.sock
                    if abort.is_set:
                        break
                    connection.request(method, place, data, head)
                    response = connection.getresponse()
                    answer, given = response.read(), response.getheader("Retry-After", "")
                if response.status < 400:
                    return json.loads(answer.decode("utf-8", "replace")) if answer else None
                error: Exception = ApiError(response.status, answer)
                after = float(given) if given.isdecimal() else 0.0
                if not after and response.status not in (429, 502, 503, 504):
                    raise error
            except (OSError, http.client.HTTPException, json.JSONDecodeError) as broken:
                error, after = broken, 0.0
            # The random part keeps many clients from coming back at one moment.
            wait, pause = min(wait * 2, 10.0), after + wait * random.uniform(0.5, 1.5)
            again = time.monotonic() + pause
            if not abort.is_set:
                if again > until:
                    raise error
                log.warning("%s %s: %s; tries again in %.1f s", method, path, error, pause)
            while not abort.is_set and time.monotonic() < again:
                time.sleep(min(0.1, pause))
        return None

    def add(self, handler: str, payload: Any = None, *, idempotency_key: str = "",
            **keys: Any) -> Dict[str, Any]:
        """Adds a job for workers of `handler`, due at once without `in_`, `at`, `cron` or `every`.
        Other keys: `queue`, `name`, `if_absent`, those of `[jobs.NAME]`. One key adds one job."""
        body = {key.rstrip("_"): value for key, value in keys.items() if value is not None}
        body.update({} if {"in", "at", "cron", "every"} & body.keys() else {"in": "0s"})
        body.update(handler=handler, payload=payload)
        key = str(idempotency_key or uuid.uuid4().hex)
        if not re.fullmatch("[ -~]{1,255}", key):
            raise ValueError(f"idempotency_key: found {key!r}, wanted 1 to 255 ASCII characters")
        return dict(self.request("POST", "/v1/jobs", body, headers={"Idempotency-Key": key}))

    def report(self, verb: str, runs: Items, patience: Optional[float] = None,
               timeout: Optional[float] = None) -> Items:
        """Reports about runs, and again without output or progress if schedd refuses those."""
        # JSON has no half characters, which some file names have. They become "?".
        runs = json.loads(json.dumps(runs, ensure_ascii=False).encode("utf-8", "replace"))
        try:
            found = self.request("POST", f"/v1/runs/{verb}", {"runs": runs}, patience=patience,
                                 timeout=timeout)
        except ApiError as error:
            kept = {"run_id", "token", "retry"}
            bare = [{key: run[key] if key in kept else "schedd refused the report" for key in run
                     if key in kept or key == "error"} for run in runs]
            if error.status not in (400, 413, 422) or bare == runs:
                raise
            log.error("%s: %s", verb, error)
            return self.report(verb, bare, patience, timeout)
        for answer in found["runs"]:
            if answer["result"] not in ("ok", "cancel", "lost"):
                log.warning("%s of run %s: %s", verb, answer["run_id"], answer["result"])
        return list(found["runs"])


class Stop(Exception):
    """Raised by a handler: the attempt failed, and no further attempt can succeed."""


class Again(Exception):
    """Raised by a handler: the run starts again after `seconds`, 30 days at most. No failure."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.delay_ms = int(min(max(float(seconds), 0.0), 30 * 86400.0) * 1000)


class Run:
    """A run that this worker has. `cancelled` is set when the work shall stop."""

    def __init__(self, document: Dict[str, Any]) -> None:
        self.id, self.job, self.handler, self.due, self.token = (
            str(document[key]) for key in ("run_id", "job", "handler", "due", "token"))
        self.attempt, self.fence = int(document["attempt"]), int(document["fence"])
        self.timeout, self.traceparent = document["timeout_ms"] / 1000, document.get("traceparent")
        self.payload, self.cancelled = document["payload"], threading.Event()
        self.is_lost, self.item = False, {"run_id": self.id, "token": self.token}
        self.news: Dict[str, Any] = {}
        self.until = time.monotonic() + document["lease_ms"] * 0.0009  # A tenth is left for clocks.

    def progress(self, percent: float, text: str = "") -> None:
        """Says how far the work is. The next heartbeat, within a third of the lease, reports it."""
        self.news = {"progress": {"percent": int(min(100, max(0, percent))), "text": text[:256]}}


class Worker:
    """Asks for runs of `queue`, at most `slots` at once. After `stop` they have `grace` seconds."""

    def __init__(self, client: Client, queue: str, name: str, *, slots: int = 4,
                 labels: Sequence[str] = (), lease: float = 30.0, wait: float = 25.0,
                 grace: float = 30.0) -> None:
        if not re.fullmatch("[a-z0-9][a-z0-9._-]{0,62}", queue):
            raise ValueError(f"queue: found {queue!r}, wanted 1-63 of a-z 0-9 . _ -, first a-z 0-9")
        self._client, self._slots, self._lease = client, slots, lease
        self._wait, self._grace, self._path = wait, grace, f"/v1/queues/{queue}/claim"
        self._question = {"worker": {"name": name, "labels": list(labels)},
                          "wait_ms": int(wait * 1000), "lease_ms": int(lease * 1000)}
        self._handlers: Dict[str, Handler] = {}
        self._runs: Dict[str, Run] = {}
        self._ended, self._freed, self._abort = threading.Event(), threading.Event(), Abort()
        self._fault: Optional[Exception] = None

    def handler(self, name: str) -> Callable[[Handler], Handler]:
        """Makes the function the handler of this name. It gets the payload and the run."""
        return lambda function: self._handlers.setdefault(name, function)

    def stop(self, *_: object) -> None:
        """Stops asking. `run` returns when all runs have ended. A second call stops the runs."""
        for run in list(self._runs.values()) if self._abort.is_set else ():
            run.cancelled.set()
        self._abort.set()

    def run(self, *, signals: bool = True) -> None:
        """Works until `stop`, or with `signals` until SIGTERM or SIGINT (main thread only)."""
        if not self._handlers:
            raise ValueError("handlers: found none, wanted a function with @worker.handler(NAME)")
        for number in (signal.SIGTERM, signal.SIGINT) if signals else ():
            signal.signal(number, self.stop)
        threading.Thread(target=self._beat, daemon=True).start()
        asking = threading.Thread(target=self._ask, daemon=True)  # Only this hangs in a connect.
        asking.start()
        try:
            while asking.is_alive() and not self._abort.is_set:
                asking.join(0.5)  # In short pieces, so that a signal is seen.
        finally:
            self._abort.set()
            until = time.monotonic() + self._grace
            while (self._runs or asking.is_alive()) and time.monotonic() < until:
                time.sleep(0.05)
            self.stop()
            while self._runs and time.monotonic() < until + 10.0:
                time.sleep(0.05)
            self._ended.set()
        if self._fault:
            raise self._fault

    def _ask(self) -> None:
        """Asks for as many runs as there are free slots, and starts them."""
        try:
            while not self._abort.is_set:
                self._freed.clear()
                free = min(500, self._slots - len(self._runs))
                if free < 1:
                    self._freed.wait(0.5)
                    continue
                # Each try has the same id: if an answer was lost, the next has the same runs.
                body = {**self._question, "claim_id": uuid.uuid4().hex, "max": free,
                        "handlers": sorted(self._handlers)}
                answer = self._client.request("POST", self._path, body, timeout=self._wait + 10,
                                              patience=float("inf"), abort=self._abort)
                if answer is None:  # Runs of an answer that nobody read go back at once.
                    body.update(wait_ms=0, max=1)
                    answer = self._client.request("POST", self._path, body, patience=2.0)
                    for run in map(Run, answer["runs"]):
                        self._client.report("release", [run.item], 2.0)
                    return
                for run in map(Run, answer["runs"]):
                    self._runs[run.token] = run
                    threading.Thread(target=self._execute, args=(run,), daemon=True).start()
                if answer["drain"]:
                    self._freed.wait(1.0)  # The node stops. Soon another answers at this address.
        except Exception as error:
            log.error("asking ended: %s", error)
            self._fault = None if self._abort.is_set else error

    def _execute(self, run: Run) -> None:
        try:
            verb, more = self._outcome(run)
            if not run.is_lost:
                self._client.report(verb, [{**run.item, **more}])
        except Exception as error:
            log.error("run %s: its end was not reported: %s", run.id, error)
        finally:
            del self._runs[run.token]
            self._freed.set()

    def _outcome(self, run: Run) -> Tuple[str, Dict[str, Any]]:
        try:
            output = self._handlers[run.handler](run.payload, run)
            return "complete", {} if output is None else {"output": str(output)[-OUTPUT_CHARS:]}
        except Again as again:
            return "release", {"delay_ms": again.delay_ms}
        except BaseException as error:
            text = str(error).strip() if isinstance(error, Stop) else ""
            text = text or traceback.format_exception_only(type(error), error)[-1].strip()
            return "fail", {"error": text[:2000], "output": traceback.format_exc()[-OUTPUT_CHARS:],
                            "retry": not isinstance(error, Stop)}

    def _beat(self, pause: float = 0.0) -> None:
        while not self._ended.wait(pause):
            now, runs, pause = time.monotonic(), list(self._runs.values()), self._lease / 3
            for part in (runs[at:at + 500] for at in range(0, len(runs), 500)):
                try:
                    items = [{**run.item, **run.news} for run in part]
                    answers = self._client.report("heartbeat", items, 0.0, min(10, self._lease / 4))
                    for run, answer in zip(part, answers):
                        if answer["result"] in ("ok", "cancel"):
                            run.until = now + self._lease * 0.9
                        if answer["result"] not in ("ok", "again"):
                            run.is_lost = answer["result"] != "cancel"
                            run.cancelled.set()
                except Exception as error:
                    log.warning("no heartbeat: %s", error)
                    pause = self._lease / 20
                    for run in (run for run in part if time.monotonic() + pause > run.until):
                        run.is_lost = True  # Soon another worker may have the run.
                        run.cancelled.set()
