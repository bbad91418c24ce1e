"""Asks a server as a worker does, and looks at its answers."""

import http.client
import json
import socket
import subprocess
import threading
import time
import urllib.parse
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

HANDLER = "conformance"
MEMBERS = {"run_id": str, "job": str, "due": str, "handler": str, "attempt": int, "token": str, "fence": int,
           "lease_ms": int, "timeout_ms": int}
Answer = Tuple[int, Any, Any]


def demand(holds: bool, fault: Any) -> None:
    if not holds:
        raise AssertionError(fault)


class Server:
    """The server that is checked. Each check uses handlers of its own, so no check takes runs of another."""

    def __init__(self, url: str, worker: str, admin: str, queue: str, stop: str) -> None:
        self.url, self.worker, self.admin, self.queue, self.stop = url, worker, admin, queue, stop

    def send(self, token: str, method: str, path: str, body: Any = None) -> Answer:
        """Returns the status, the document and the header fields of the answer."""
        parts = urllib.parse.urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "localhost", parts.port, timeout=90)
        if parts.scheme == "unix":
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(parts.path)
        try:
            fields = {"Content-Type": "application/json"} if body is not None else {}
            if token:
                fields["Authorization"] = f"Bearer {token}"
            base = "" if parts.scheme == "unix" else parts.path.rstrip("/")
            text = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, base + path, text, fields)
            response = connection.getresponse()
            found = response.read()
            return response.status, json.loads(found) if found else None, response.headers
        finally:
            connection.close()

    def add(self, handler: str, **keys: Any) -> str:
        """Adds a job that is due at once. Returns its name."""
        name = f"check-{uuid.uuid4().hex[:12]}"
        body = {"name": name, "in": "0s", "queue": self.queue, "handler": handler, **keys}
        status, document, _ = self.send(self.admin, "POST", "/v1/jobs", body)
        demand(status in (200, 201), f"adding a job: {status} {document}")
        return name

    def ask(self, handler: str, **keys: Any) -> Answer:
        body = {"claim_id": uuid.uuid4().hex, "worker": {"name": "conformance"}, "handlers": [handler], "max": 1,
                "wait_ms": 20000, **keys}
        return self.send(self.worker, "POST", f"/v1/queues/{self.queue}/claim", body)

    def claim(self, handler: str, **keys: Any) -> List[Dict[str, Any]]:
        status, document, _ = self.ask(handler, **keys)
        demand(status == 200, f"claim: {status} {document}")
        demand(isinstance(document.get("runs"), list) and document.get("drain") is False, document)
        return document["runs"]

    def one(self, handler: str, **keys: Any) -> Dict[str, Any]:
        runs = self.claim(handler, **keys)
        demand(len(runs) == 1, f"found {len(runs)} runs, wanted one")
        return runs[0]

    def report(self, verb: str, *runs: Dict[str, Any], **more: Any) -> List[Dict[str, Any]]:
        items = [{"run_id": run["run_id"], "token": run["token"], **more} for run in runs]
        status, document, _ = self.send(self.worker, "POST", f"/v1/runs/{verb}", {"runs": items})
        demand(status == 200, f"{verb}: {status} {document}")
        found = [answer.get("run_id") for answer in document["runs"]]
        demand(found == [run["run_id"] for run in runs], f"{verb}: answers for {found}")
        return document["runs"]

    def result(self, verb: str, run: Dict[str, Any], **more: Any) -> str:
        return str(self.report(verb, run, **more)[0]["result"])

    def expect(self, wanted: str, verb: str, run: Dict[str, Any], **more: Any) -> None:
        found = self.result(verb, run, **more)
        demand(found == wanted, f"{verb}: found {found}, wanted {wanted}")

    def refused(self, status: int, answer: Answer) -> None:
        found, document, fields = answer
        demand(found == status, f"found {found}, wanted {status}: {document}")
        demand(fields.get_content_type() == "application/problem+json", f"Content-Type {fields.get_content_type()}")
        demand(document.get("status") == status and all(document.get(key) for key in ("code", "detail")), document)


def nothing(server: Server, handler: str) -> None:
    began = time.monotonic()
    demand(server.claim(handler, wait_ms=0) == [], "runs for a handler without jobs")
    demand(time.monotonic() - began < 5, "the answer took 5 s")


def members(server: Server, handler: str) -> None:
    payload: Dict[str, Any] = {"to": "gr\u00fc\u00dfe \u2713 \U0001f600", "list": [1, -2.5, None, True, {}, []],
                               "text": "a\"b\\\n\u0001"}
    job = server.add(handler, payload=payload, timeout="1m")
    run = server.one(handler, lease_ms=20000)
    for member, kind in MEMBERS.items():
        demand(type(run.get(member)) is kind, f"{member}: {run.get(member)!r}")
    demand(run["payload"] == payload, f"the payload is another: {run['payload']}")
    found = (run["job"], run["handler"], run["attempt"], run["lease_ms"], run["timeout_ms"])
    demand(found == (job, handler, 1, 20000, 60000), found)
    server.expect("ok", "complete", run)
    server.add(handler)
    run = server.one(handler)
    demand("payload" in run and run["payload"] is None, "a job without a payload: not null")
    server.expect("ok", "complete", run)


def same_question(server: Server, handler: str) -> None:
    for _ in range(3):
        server.add(handler)
    first = server.claim(handler, claim_id=f"{handler}-1", max=2)
    demand(server.claim(handler, claim_id=f"{handler}-1", max=2) == first, "the same claim_id got other runs")
    other = server.one(handler, claim_id=f"{handler}-2")
    demand(other["run_id"] not in [run["run_id"] for run in first], "another claim_id got the same run")
    server.report("complete", *first, other)


def bounds_of_a_claim(server: Server, handler: str) -> None:
    for _ in range(3):
        server.add(handler)
    first = server.claim(handler, max=2)
    demand(len(first) <= 2, f"{len(first)} runs for max 2")
    rest: List[Dict[str, Any]] = []
    while len(first) + len(rest) < 3:
        rest += server.claim(handler, max=2) or [server.one(handler, wait_ms=0)]
    demand(server.claim(f"{handler}-other", wait_ms=0) == [], "a run of another handler")
    answers = server.report("complete", *first, *rest)
    demand([answer["result"] for answer in answers] == ["ok"] * 3, answers)


def waits(server: Server, handler: str) -> None:
    began = time.monotonic()
    demand(server.claim(handler, wait_ms=1000) == [], "runs for a handler without jobs")
    took = time.monotonic() - began
    demand(1.0 <= took < 6, f"wait_ms 1000 took {took:.2f} s")
    adding = threading.Timer(0.3, server.add, (handler,))
    adding.start()
    began = time.monotonic()
    run = server.one(handler, wait_ms=30000)
    demand(time.monotonic() - began < 15, "the run was not handed out while the question waited")
    adding.join()
    server.expect("ok", "complete", run)


def heartbeats(server: Server, handler: str) -> None:
    server.add(handler)
    run = server.one(handler, lease_ms=3000)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        answer = server.report("heartbeat", run)[0]
        demand((answer["result"], answer.get("lease_ms")) == ("ok", 3000), answer)
        time.sleep(1)
    server.expect("ok", "heartbeat", run, progress={"percent": 50, "text": "half"})
    demand(server.claim(handler, wait_ms=0) == [], "the run was handed out again while its lease was renewed")
    server.expect("ok", "complete", run)
    server.expect("lost", "heartbeat", run)


def foreign_tokens(server: Server, handler: str) -> None:
    server.add(handler)
    run = server.one(handler)
    fence, word = run["token"].split(".")
    for token in (f"{int(fence) + 1}.{word}", f"{fence}.{'f' * 32}"):
        forged = {**run, "token": token}
        server.expect("lost", "heartbeat", forged)
        for verb, more in (("complete", {}), ("fail", {"error": "x"}), ("release", {})):
            server.expect("stale", verb, forged, **more)
    unknown = {**run, "run_id": f"{handler}-none@1"}
    for verb, more in (("heartbeat", {}), ("complete", {}), ("fail", {"error": "x"}), ("release", {})):
        server.expect("unknown", verb, unknown, **more)
    server.expect("ok", "complete", run)


def repeats(server: Server, handler: str) -> None:
    server.add(handler)
    run = server.one(handler)
    for _ in range(2):
        server.expect("ok", "complete", run, output="done")
    server.expect("stale", "fail", run, error="late")
    server.expect("stale", "release", run)
    server.add(handler, retry={"limit": 1, "delay": "1h"})
    run = server.one(handler)
    for _ in range(2):
        server.expect("ok", "fail", run, error="first")
    server.expect("stale", "complete", run)


def retries(server: Server, handler: str) -> None:
    server.add(handler, retry={"limit": 2, "delay": "1h"})
    first = server.one(handler)
    server.expect("ok", "fail", first, error="no route", retry_in_ms=0)
    second = server.one(handler)
    demand((second["run_id"], second["attempt"]) == (first["run_id"], 2), second)
    demand(second["fence"] > first["fence"] and second["token"] != first["token"], "no higher fence, or the same token")
    server.expect("lost", "heartbeat", first)
    server.expect("stale", "complete", first)
    server.expect("ok", "fail", second, error="no such user", retry=False)
    demand(server.claim(handler, wait_ms=0) == [], "an attempt after retry false")


def releases(server: Server, handler: str) -> None:
    server.add(handler)
    first = server.one(handler)
    server.expect("ok", "release", first)
    second = server.one(handler)
    demand((second["run_id"], second["attempt"]) == (first["run_id"], 1), second)
    demand(second["fence"] > first["fence"], "no higher fence")
    server.expect("stale", "complete", first)
    server.expect("ok", "release", second, delay_ms=3600000)
    demand(server.claim(handler, wait_ms=0) == [], "the run came before its delay")


def cancels(server: Server, handler: str) -> None:
    server.add(handler)
    run = server.one(handler)
    path = f"/v1/runs/{urllib.parse.quote(run['run_id'], safe='')}/cancel"
    demand(server.send(server.admin, "POST", path)[0] == 200, "the run was not cancelled")
    server.expect("cancel", "heartbeat", run)
    server.expect("ok", "fail", run, error="stopped")
    demand(server.claim(handler, wait_ms=0) == [], "an attempt after a cancel")


def dead_worker(server: Server, handler: str) -> None:
    server.add(handler)
    first = server.one(handler, lease_ms=1000)
    second = server.one(handler, wait_ms=30000)
    demand(second["run_id"] == first["run_id"] and second["fence"] > first["fence"], second)
    server.expect("lost", "heartbeat", first)
    for verb, more in (("complete", {}), ("fail", {"error": "x"}), ("release", {})):
        server.expect("stale", verb, first, **more)
    server.expect("ok", "complete", second)


def dead_worker_at_most_once(server: Server, handler: str) -> None:
    server.add(handler, delivery="at-most-once")
    run = server.one(handler, lease_ms=1000)
    demand(server.claim(handler, wait_ms=8000) == [], "an at-most-once run was handed out twice")
    server.expect("lost", "heartbeat", run)
    server.expect("stale", "complete", run)


def refuses(server: Server, handler: str) -> None:
    faulty: List[Dict[str, Any]] = [
        {"max": 0}, {"max": 501}, {"max": "1"}, {"wait_ms": 55001}, {"wait_ms": -1}, {"lease_ms": 999},
        {"claim_id": ""}, {"claim_id": "x" * 201}, {"worker": {}}, {"worker": {"name": "A b"}}, {"handlers": ["A b"]},
        {"unknown": 1}]
    for keys in faulty:
        server.refused(422, server.ask(handler, **keys))
    run = {"run_id": "a@1", "token": f"1.{'0' * 32}"}
    for verb, item in (("heartbeat", {"run_id": "a", "token": run["token"]}), ("heartbeat", {**run, "token": "x"}),
                       ("heartbeat", {**run, "progress": {"percent": 101}}), ("complete", {**run, "delay_ms": 1}),
                       ("fail", run), ("fail", {**run, "error": "x" * 8193}),
                       ("release", {**run, "delay_ms": -1})):
        server.refused(422, server.send(server.worker, "POST", f"/v1/runs/{verb}", {"runs": [item]}))
    many = {"runs": [run] * 501}
    server.refused(422, server.send(server.worker, "POST", "/v1/runs/heartbeat", many))
    server.refused(400, server.send(server.worker, "POST", f"/v1/queues/{server.queue}/claim", b"{"))


def guards(server: Server, handler: str) -> None:
    path = f"/v1/queues/{server.queue}/claim"
    if not server.url.startswith("unix:"):
        server.refused(401, server.send("", "POST", path, {}))
        server.refused(401, server.send("schedd_nonsense", "POST", path, {}))
        server.refused(403, server.send(server.worker, "GET", "/v1/jobs"))
        server.refused(403, server.send(server.worker, "POST", "/v1/jobs", {"in": "0s", "handler": handler}))


def drains(server: Server, handler: str) -> None:
    stopping = threading.Timer(0.5, subprocess.run, (server.stop,), {"shell": True, "check": True})
    stopping.start()
    status, document, _ = server.ask(handler, wait_ms=30000)
    demand((status, document) == (200, {"runs": [], "drain": True}), f"{status} {document}")
    stopping.join()


CHECKS: List[Tuple[str, Callable[[Server, str], None]]] = [
    ("answers at once without a wait, also if there is nothing", nothing),
    ("hands out a run with all its members", members),
    ("answers the same claim_id with the same runs", same_question),
    ("obeys max and handlers, and takes reports about many runs", bounds_of_a_claim),
    ("waits for runs, and no longer than it was asked to", waits),
    ("renews a lease with each heartbeat", heartbeats),
    ("refuses foreign tokens and unknown runs", foreign_tokens),
    ("answers the same report with the same answer, and another as stale", repeats),
    ("retries a failed attempt, unless the worker asks for no retry", retries),
    ("takes a run back with the number of its attempt", releases),
    ("tells of a cancel by heartbeat", cancels),
    ("hands out the run of a dead worker, and refuses its late reports", dead_worker),
    ("hands out no at-most-once run twice", dead_worker_at_most_once),
    ("refuses what is out of bounds, with a problem document", refuses),
    ("refuses foreign callers, and workers that want more", guards),
]


def run(url: str, worker: str, admin: str, queue: str, stop: str) -> Iterator[Tuple[str, Optional[str]]]:
    """Returns the name of each check, and its fault if it has one."""
    server = Server(url, worker, admin, queue, stop)

    def one(check: Tuple[str, Callable[[Server, str], None]]) -> Tuple[str, Optional[str]]:
        name, function = check
        try:
            function(server, f"{HANDLER}-{uuid.uuid4().hex[:8]}")
            return name, None
        except AssertionError as fault:
            return name, str(fault)
        except (OSError, http.client.HTTPException, LookupError, TypeError, ValueError, AttributeError) as fault:
            return name, repr(fault)

    with ThreadPoolExecutor(len(CHECKS)) as pool:
        yield from pool.map(one, CHECKS)
    if stop:
        yield one(("answers waiting questions with drain when it stops", drains))
