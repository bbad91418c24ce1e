"""Requests to the HTTP API of schedd. A request whose answer is lost is sent again."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import random
import socket
import time
import urllib.parse
import uuid
from typing import Any, Dict, List, Mapping, Optional

Items = List[Dict[str, Any]]
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


class Aborted(Exception):
    """The request was given up."""


class Abort:
    """A switch that gives up a request, also from a signal handler. No request with it follows."""

    is_set = False
    sock: Optional[socket.socket] = None

    def set(self) -> None:
        self.is_set = True
        if self.sock is not None:
            with contextlib.suppress(OSError):  # It may have no connection any more.
                self.sock.shutdown(socket.SHUT_RDWR)


class Client:
    """The API at `url` (`http://...`, `https://...` or `unix:/path`). Threads may share it."""

    def __init__(self, url: str, token: Optional[str] = None, *, timeout: float = 10.0,
                 patience: float = 60.0) -> None:
        parts = urllib.parse.urlsplit(url)
        if not (parts.path if parts.scheme == "unix" else parts.scheme in ("http", "https") and parts.hostname):
            raise ValueError(f"found url {url!r}, wanted http://HOST, https://HOST or unix:/PATH")
        self._base = "" if parts.scheme == "unix" else parts.path.rstrip("/")
        self._url, self._timeout, self._patience = parts, timeout, patience
        self._headers = {"Authorization": f"Bearer {token.strip()}"} if token else {}

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._url.hostname or "localhost", self._url.port, timeout=timeout)
        if self._url.scheme == "unix":
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(timeout)
            connection.sock.connect(self._url.path)
        else:
            connection.connect()
        return connection

    def request(self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] = {},
                patience: Optional[float] = None, timeout: Optional[float] = None,
                abort: Optional[Abort] = None) -> Any:
        """Returns the document of the answer. Tries again for `patience` seconds while the API is busy
        or out of reach, so the request must be one that may be repeated."""
        abort = abort or Abort()
        data = None if body is None else json.dumps(body).encode()
        fields = {"Connection": "close", "Content-Type": "application/json", **self._headers, **headers}
        wait, until = 0.1, time.monotonic() + (self._patience if patience is None else patience)
        while True:
            after, connection = 0.0, None
            try:
                connection = self._connect(timeout or self._timeout)
                abort.sock = connection.sock
                if abort.is_set:
                    raise Aborted
                connection.request(method, self._base + path, data, fields)
                response = connection.getresponse()
                text, given = response.read(), response.getheader("Retry-After", "")
                if response.status < 400:
                    return json.loads(text) if text else None
                error: Exception = ApiError(response.status, text)
                after = float(given) if given.isdigit() else 0.0
                if not after and response.status not in (429, 502, 503, 504):
                    raise error
            except (OSError, http.client.HTTPException, ValueError) as broken:
                error = broken
            finally:
                abort.sock = None
                if connection is not None:
                    connection.close()
            # The random part keeps many clients from coming back at one moment.
            wait, pause = min(wait * 2, 10.0), after + wait * random.uniform(0.5, 1.5)
            again = time.monotonic() + pause
            if not abort.is_set:
                if again > until:
                    raise error
                log.warning("%s %s: %s; tries again in %.1f s", method, path, error, pause)
            while not abort.is_set and time.monotonic() < again:
                time.sleep(min(0.1, pause))
            if abort.is_set:
                raise Aborted

    def add(self, handler: str, payload: Any = None, *, idempotency_key: str = "", **keys: Any) -> Dict[str, Any]:
        """Adds a job for workers of `handler`; it is due at once without `in_`, `at`, `cron` or `every`.
        Other keys are `queue`, `name`, `if_absent` and those of `[jobs.NAME]`. One key adds one job."""
        body = {key.rstrip("_"): value for key, value in keys.items() if value is not None}
        if not {"in", "at", "cron", "every"} & body.keys():
            body["in"] = "0s"
        body.update(handler=handler, payload=payload)
        return dict(self.request("POST", "/v1/jobs", body, headers={"Idempotency-Key": idempotency_key or uuid.uuid4().hex}))

    def report(self, verb: str, runs: Items, patience: Optional[float] = None) -> Items:
        """Reports about runs: heartbeat, complete, fail or release. Returns the answer for each run."""
        return list(self.request("POST", f"/v1/runs/{verb}", {"runs": runs}, patience=patience)["runs"])
