"""The worker of the Python client for conformance.py: does what the payload says."""

import pathlib
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

from schedd_client import Again, Client, Worker  # noqa: E402

url, queue, token_file = sys.argv[1:]
worker = Worker(Client(url, pathlib.Path(token_file).read_text()), queue, "python", slots=1, lease=4)


@worker.handler("conformance")
def act(payload, run):
    if payload["do"] == "fail":
        raise RuntimeError(payload["text"])
    if payload["do"] == "again":
        raise Again(0)
    if payload["do"] == "wait" and run.cancelled.wait(payload["seconds"]):
        raise RuntimeError("stopped")
    if payload["do"] == "sleep":
        time.sleep(payload["seconds"])
    return payload["text"]


worker.run()
