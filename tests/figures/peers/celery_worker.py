"""Celery as a peer of script/bench peers: `add` adds the jobs of standard input one by one, by so many callers or by one,
`work` and `handle` run them until they are killed, and `greet` adds a job for the first worker."""

import datetime
import http.client
import json
import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from celery import Celery, signals

app = Celery("peer", broker=f"redis+socket://{os.environ['PEER_SOCKET']}")
app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False, broker_pool_limit=32)
connection = None
counted = multiprocessing.Value("i")  # shared by all processes


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
    if isinstance(action, int):
        with counted:
            counted.value += 1
            is_last = counted.value == action
        return report(time.time() * 1000) if is_last else None
    if "http" in action:
        return request(action["http"])
    subprocess.run(action.get("command") or ["/bin/sh", "-c", action["shell"]], check=True)
    report(time.time() * 1000)


@signals.worker_ready.connect
def ready(**_):
    report("ready")


def add(callers):
    jobs = [json.loads(line) for line in sys.stdin]

    def add_share(caller):
        with app.producer_pool.acquire(block=True) as producer:
            for item in jobs[caller::callers]:
                eta = datetime.datetime.fromtimestamp(item["at"] / 1000, datetime.timezone.utc)
                job.apply_async([item["action"]], eta=eta, producer=producer)

    started = time.monotonic()
    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(add_share, range(callers)))
    print(time.monotonic() - started)


if __name__ == "__main__":
    if sys.argv[1] == "add":
        add(int((sys.argv[2:] or [1])[0]))
    elif sys.argv[1] == "greet":
        app.send_task("greet", ["ann"])
    else:
        app.worker_main(["worker", "--loglevel=ERROR"])
