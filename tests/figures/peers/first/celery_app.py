# The smallest worker of Celery, started by `celery -A celery_app worker`. CELERY_BROKER_URL has the address.

from celery import Celery

app = Celery()


@app.task(name="greet")
def greet(name):
    print(f"hello {name}")
