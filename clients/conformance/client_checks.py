"""Plays a small server to a client, with answers that are lost, late or bad news, and looks at what the client does."""

import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

QUEUE, TOKEN = "checks", "schedd_conformance"
PATIENCE = 60.0
QUESTION = {"claim_id", "worker", "handlers", "max", "wait_ms", "lease_ms"}
REPORT = {"heartbeat": {"progress"}, "complete": {"output"}, "fail": {"error", "output", "retry", "retry_in_ms"},
          "release": {"delay_ms", "begun"}}
ENDS = ("complete", "fail", "release")
LOST, HELD = "lost answer", "answer after some seconds"


class Request:
    def __init__(self, verb: str, body: Dict[str, Any], headers: Any, path: str) -> None:
        self.verb, self.body, self.headers, self.path, self.at = verb, body, headers, path, time.monotonic()


class Scene:
    """The fake server, and the client that is checked."""

    def __init__(self, command: List[str], planned: Dict[str, List[Any]]) -> None:
        self.changed = threading.Condition()
        self.requests: List[Request] = []
        self.runs: List[Dict[str, Any]] = []
        # Answers that come first, by verb: LOST, seconds for Retry-After, or a word.
        self.planned = {verb: list(answers) for verb, answers in planned.items()}
        self.claims: Dict[str, List[Dict[str, Any]]] = {}
        self.given = 0
        self.is_over = False
        scene = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                scene.answer(self, json.loads(text))

            def log_message(self, *_: Any) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                if not isinstance(sys.exc_info()[1], OSError):  # The client hung up.
                    super().handle_error(*_)

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.dir = tempfile.TemporaryDirectory()
        token = os.path.join(self.dir.name, "token")
        with open(token, "w", encoding="utf-8") as file:
            file.write(TOKEN + "\n")
        words = {"{url}": f"http://127.0.0.1:{self.server.server_port}", "{queue}": QUEUE, "{token_file}": token}
        for word, value in words.items():
            command = [part.replace(word, value) for part in command]
        self.errors = open(os.path.join(self.dir.name, "errors"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(command, stdout=self.errors, stderr=self.errors, stdin=subprocess.DEVNULL)

    def answer(self, handler: http.server.BaseHTTPRequestHandler, body: Dict[str, Any]) -> None:
        verb = handler.path.rsplit("/", 1)[-1]
        with self.changed:
            self.requests.append(Request(verb, body, handler.headers, handler.path))
            planned = self.planned.get(verb, [])
            plan = planned.pop(0) if planned else None
            self.changed.notify_all()
        if isinstance(plan, int):
            document = {"status": 503, "title": "busy", "code": "busy", "detail": "busy"}
            return self.send(handler, 503, document, {"Retry-After": str(plan)})
        if verb == "claim":
            document = {"runs": [] if plan == "drain" else self.claimed(body), "drain": plan == "drain"}
            if plan == HELD:
                with self.changed:
                    self.changed.wait_for(lambda: self.is_over, 3.0)
        else:
            word = "ok" if plan in (None, LOST) else plan
            document = {"runs": [{"run_id": run["run_id"], "result": word} for run in body["runs"]]}
        if plan == LOST:
            handler.close_connection = True
        else:
            self.send(handler, 200, document, {})

    def claimed(self, body: Dict[str, Any]) -> List[Dict[str, Any]]:
        """Returns the runs of the question. The same claim_id gets the same runs."""
        until = time.monotonic() + body.get("wait_ms", 0) / 1000
        with self.changed:
            found = self.claims.get(body["claim_id"], [])
            while not found and not self.is_over:
                found, self.runs = self.runs[: body["max"]], self.runs[body["max"] :]
                self.claims[body["claim_id"]] = found
                if found or time.monotonic() >= until:
                    break
                self.changed.wait(0.1)
            return [{**run, "lease_ms": body.get("lease_ms", 30000)} for run in found]

    @staticmethod
    def send(handler: http.server.BaseHTTPRequestHandler, status: int, document: Any, headers: Dict[str, str]) -> None:
        text = json.dumps(document).encode()
        try:
            handler.send_response(status)
            fields = {"Content-Type": "application/json", "Content-Length": str(len(text)), **headers}
            for name, value in fields.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(text)
        except OSError:
            pass  # The client hung up.

    def offer(self, payload: Dict[str, Any]) -> str:
        """Makes a run ready. Returns its id."""
        with self.changed:
            self.given += 1
            run_id = f"check@{self.given}"
            self.runs.append({"run_id": run_id, "job": "check", "handler": "conformance", "payload": payload,
                              "due": "2026-01-01T00:00:00Z", "attempt": 1, "fence": self.given,
                              "token": f"{self.given}.{'0' * 32}", "timeout_ms": 60000})
            self.changed.notify_all()
            return run_id

    def wait(self, what: str, *verbs: str, after: int = 0) -> Tuple[int, Request]:
        """Returns the first request of these verbs behind the place `after`, and the place behind it."""
        until = time.monotonic() + PATIENCE
        with self.changed:
            while True:
                for place, request in enumerate(self.requests[after:], after + 1):
                    if request.verb in verbs:
                        return place, request
                if time.monotonic() > until:
                    raise AssertionError(f"{what} did not come; {self.seen()}")
                self.changed.wait(0.1)

    def lease(self) -> float:
        """Returns the seconds of the leases that the client asks for."""
        return float(self.wait("a question", "claim")[1].body.get("lease_ms", 30000)) / 1000

    def seen(self) -> str:
        self.errors.flush()
        self.errors.seek(0)
        return f"seen: {[request.verb for request in self.requests]}; printed: {self.errors.read()[-400:]!r}"

    def ended(self) -> int:
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the client did not end; {self.seen()}") from None

    def close(self) -> None:
        with self.changed:
            self.is_over = True
            self.changed.notify_all()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.server.shutdown()
        self.server.server_close()
        self.errors.close()
        self.dir.cleanup()


def demand(holds: bool, fault: str) -> None:
    if not holds:
        raise AssertionError(fault)


def item(request: Request, run_id: str) -> Dict[str, Any]:
    """Returns the report about the run, which has its token and no unknown member."""
    found = [run for run in request.body["runs"] if run["run_id"] == run_id]
    demand(len(found) == 1, f"no {request.verb} of {run_id}: {request.body}")
    number = run_id.split("@")[1]
    demand(found[0].get("token") == f"{number}.{'0' * 32}", f"another token: {found[0]}")
    unknown = set(found[0]) - {"run_id", "token"} - REPORT[request.verb]
    demand(not unknown, f"unknown members {unknown} in {request.verb}")
    return found[0]


def question(scene: Scene) -> None:
    request = scene.wait("a question", "claim")[1]
    body = request.body
    demand(request.path == f"/v1/queues/{QUEUE}/claim", f"path {request.path}")
    demand(request.headers.get("Authorization") == f"Bearer {TOKEN}", "no header Authorization: Bearer TOKEN")
    demand(request.headers.get_content_type() == "application/json", "Content-Type is not application/json")
    demand(not set(body) - QUESTION, f"unknown members {set(body) - QUESTION}")
    demand(isinstance(body.get("claim_id"), str) and 0 < len(body["claim_id"].encode()) <= 200, "claim_id")
    demand(bool(body.get("worker", {}).get("name")), "worker.name")
    demand(1 <= body.get("max", 0) <= 500, "max")
    demand(0 <= body.get("wait_ms", 0) <= 55000, "wait_ms")
    demand(1000 <= body.get("lease_ms", 30000) <= 43200000, "lease_ms")


def completes(scene: Scene) -> None:
    text = "gr\u00fc\u00dfe \u2713"
    run = scene.offer({"do": "echo", "text": text})
    place, request = scene.wait("complete", *ENDS)
    demand(request.verb == "complete", f"{request.verb}: {request.body}")
    demand(item(request, run).get("output", "").strip() == text, f"output: {request.body}")
    first, second = scene.wait("a question", "claim")[1], scene.wait("the next question", "claim", after=place)[1]
    demand(first.body["claim_id"] != second.body["claim_id"], "the next question has the same claim_id")


def fails(scene: Scene) -> None:
    run = scene.offer({"do": "fail", "text": "no such user"})
    request = scene.wait("fail", *ENDS)[1]
    demand(request.verb == "fail" and "no such user" in item(request, run).get("error", ""), f"{request.body}")


def releases(scene: Scene) -> None:
    run = scene.offer({"do": "again", "text": ""})
    request = scene.wait("release", *ENDS)[1]
    demand(request.verb == "release", f"{request.verb}: {request.body}")
    item(request, run)


def lost_claim(scene: Scene) -> None:
    run = scene.offer({"do": "echo", "text": "x"})
    place, first = scene.wait("a question", "claim")
    second = scene.wait("a question after a lost answer", "claim", after=place)[1]
    demand(first.body["claim_id"] == second.body["claim_id"], "after a lost answer the claim_id is another")
    item(scene.wait("complete", "complete")[1], run)


def busy(scene: Scene) -> None:
    place, first = scene.wait("a question", "claim")
    again = scene.wait("the question after 503", "claim", after=place)[1]
    demand(again.at - first.at >= 1.0, f"asked again {again.at - first.at:.2f} s after 503 with Retry-After: 1")


def lost_report(scene: Scene) -> None:
    run = scene.offer({"do": "echo", "text": "x"})
    place, first = scene.wait("complete", "complete")
    place, second = scene.wait("complete again", "complete", after=place)
    third = scene.wait("complete after 503", "complete", after=place)[1]
    demand(item(first, run) == item(second, run) == item(third, run), "the repeated report is another")


def heartbeats(scene: Scene) -> None:
    lease = scene.lease()
    run = scene.offer({"do": "wait", "seconds": lease * 1.2, "text": ""})
    first = scene.wait("a heartbeat", "heartbeat")[1]
    item(first, run)
    scene.wait("the end", *ENDS)
    times = [request.at for request in scene.requests if request.verb in ("heartbeat", *ENDS)]
    longest = max(later - earlier for earlier, later in zip([times[0], *times], times))
    demand(longest < lease, f"{longest:.2f} s between two reports, the lease is {lease} s")


def cancelled(scene: Scene) -> None:
    run = scene.offer({"do": "wait", "seconds": 120, "text": ""})
    item(scene.wait("the end of the cancelled run", *ENDS)[1], run)


def loses(scene: Scene) -> None:
    scene.offer({"do": "wait", "seconds": 120, "text": ""})
    place, _ = scene.wait("a heartbeat", "heartbeat")
    next_run = scene.offer({"do": "echo", "text": "x"})
    request = scene.wait("the end of the next run", *ENDS, after=place)[1]
    demand(request.body["runs"][0]["run_id"] == next_run, f"reported a lost run: {request.verb} {request.body}")


def unheard(scene: Scene) -> None:
    run = scene.offer({"do": "wait", "seconds": scene.lease() * 0.6, "text": ""})
    scene.wait("a heartbeat", "heartbeat")
    item(scene.wait("complete", "complete")[1], run)


def stale(scene: Scene) -> None:
    for _ in range(3):
        scene.offer({"do": "echo", "text": "x"})
    place = 0
    for _ in range(3):
        place, _request = scene.wait("complete", "complete", after=place)
    ids = [run["run_id"] for request in scene.requests if request.verb == "complete" for run in request.body["runs"]]
    demand(len(ids) == len(set(ids)), f"reported again after stale or unknown: {ids}")


def drains(scene: Scene) -> None:
    place, _ = scene.wait("a question", "claim")
    demand(scene.wait("a question after drain", "claim", after=place)[1].body["claim_id"] != "", "claim_id")
    scene.offer({"do": "echo", "text": "x"})
    scene.wait("complete", "complete")


def stops_while_it_asks(scene: Scene) -> None:
    run = scene.offer({"do": "echo", "text": "x"})
    place, asked = scene.wait("a question", "claim")
    scene.process.send_signal(signal.SIGTERM)
    # The run is claimed for this question. The client waits for the answer, or hangs up and asks again.
    demand(scene.ended() == 0, f"exit code {scene.process.returncode}; {scene.seen()}")
    later = [request for request in scene.requests[place:] if request.verb == "claim"]
    ids = {request.body["claim_id"] for request in [asked, *later]}
    demand(len(ids) == 1, f"a new question after TERM: {ids}")
    item(scene.wait("the end of the run", *ENDS)[1], run)


def stops_while_it_works(scene: Scene) -> None:
    run = scene.offer({"do": "sleep", "seconds": scene.lease() / 2 + 0.5, "text": "done"})
    scene.wait("a heartbeat", "heartbeat")
    with scene.changed:
        place = len(scene.requests)
    scene.process.send_signal(signal.SIGTERM)
    demand(scene.ended() == 0, f"exit code {scene.process.returncode}; {scene.seen()}")
    item(scene.wait("the end of the run", "complete", "release", after=place)[1], run)
    demand(all(request.verb != "claim" for request in scene.requests[place:]), "a question after TERM")


CHECKS: List[Tuple[str, Callable[[Scene], None], Dict[str, List[Any]]]] = [
    ("asks with all members within their bounds", question, {}),
    ("completes a run with its token and output, and asks anew", completes, {}),
    ("fails an attempt with its reason", fails, {}),
    ("releases a run", releases, {}),
    ("asks with the same claim_id after a lost answer", lost_claim, {"claim": [LOST]}),
    ("waits as Retry-After says", busy, {"claim": [1]}),
    ("repeats a report whose answer was lost, or that met a busy server", lost_report, {"complete": [LOST, 1]}),
    ("sends heartbeats within the lease", heartbeats, {}),
    ("stops a cancelled run, and reports its end", cancelled, {"heartbeat": ["cancel"]}),
    ("stops a lost run, and reports nothing about it", loses, {"heartbeat": ["lost"]}),
    ("goes on with a run whose heartbeat was not recorded", unheard, {"heartbeat": ["again"]}),
    ("goes on after stale and unknown", stale, {"complete": ["stale", "unknown"]}),
    ("asks again after drain", drains, {"claim": ["drain"]}),
    ("ends at TERM while it asks, and gives back what it got", stops_while_it_asks, {"claim": [HELD]}),
    ("ends at TERM with its run completed or released", stops_while_it_works, {}),
]


def run(command: List[str], only: str) -> Iterator[Tuple[str, Optional[str]]]:
    """Returns the name of each check, and its fault if it has one."""

    def one(check: Tuple[str, Callable[[Scene], None], Dict[str, List[Any]]]) -> Tuple[str, Optional[str]]:
        name, function, planned = check
        scene = Scene(command, planned)
        try:
            function(scene)
            return name, None
        except AssertionError as fault:
            return name, str(fault)
        except (LookupError, TypeError, ValueError, AttributeError) as fault:
            return name, f"{fault!r}; {scene.seen()}"
        finally:
            scene.close()

    with ThreadPoolExecutor(7) as pool:
        yield from pool.map(one, (check for check in CHECKS if only in check[0]))
