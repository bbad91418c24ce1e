"""Celery as a peer of script/bench peers: `add` adds the jobs of standard input, `work` runs them until it is killed."""

import datetime
import http.client
import json
import os
import subprocess
import sys
import time
from urllib.parse import urlsplit

from celery import Celery, signals

app = Celery("peer", broker=f"redis+socket://{os.environ['PEER_SOCKET']}")
app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)
connection = None


def report(text):
    file = os.open(os.environ["PEER_ENDS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{text}\n".encode())
    os.close(file)


def request(action):
    global connection
    url = urlsplit(action["url"])
    connection = connection or http.client.HTTPConnection(url.netloc)
    connection.request(action["method"], url.path, action["body"], action["headers"])
    connection.getresponse().read()


@app.task(name="job")
def job(action):
    if "http" in action:
        return request(action["http"])
    subprocess.run(action.get("command") or ["/bin/sh", "-c", action["shell"]], check=True)
    report(time.time() * 1000)


@signals.worker_ready.connect
def ready(**_):
    report("ready")


def add():
    jobs = [json.loads(line) for line in sys.stdin]
    started = time.monotonic()
    with app.producer_pool.acquire(block=True) as producer:
        for item in jobs:
            eta = datetime.datetime.fromtimestamp(item["at"] / 1000, datetime.timezone.utc)
            job.apply_async([item["action"]], eta=eta, producer=producer)
    print(time.monotonic() - started)


if __name__ == "__main__":
    if sys.argv[1] == "add":
        add()
    else:
        app.worker_main(["worker", "--loglevel=ERROR"])
