"""The Celery application of the interop tests: tasks for its worker, with settings from the environment."""

import os
import time

import redis
from celery import Celery

app = Celery("lab", broker=os.environ["CELERY_BROKER"], backend=os.environ["CELERY_BACKEND"])
notes = redis.Redis.from_url(os.environ["LAB_NOTES"])
app.conf.update(
    accept_content=["json", "msgpack", "yaml"],
    task_default_queue=os.environ.get("CELERY_QUEUE", "celery"),
    broker_connection_retry_on_startup=True,
    worker_send_task_events=True,
)


class LabError(Exception):
    pass


@app.task(name="lab.add")
def add(x, y):
    return x + y


@app.task(name="lab.mul")
def mul(x, y):
    return x * y


@app.task(name="lab.tsum")
def tsum(values):
    return sum(values)


@app.task(name="lab.echo")
def echo(*args, **kwargs):
    return {"args": list(args), "kwargs": kwargs}


@app.task(name="lab.fail")
def fail(message="boom", code=7):
    raise LabError(message, code)


@app.task(name="lab.retry_twice", bind=True, max_retries=3)
def retry_twice(self, tag="t", countdown=0.5):
    if self.request.retries < 2:
        raise self.retry(countdown=countdown, exc=LabError("again", self.request.retries))
    return {"tag": tag, "retries": self.request.retries}


@app.task(name="lab.sleep")
def sleep(seconds):
    time.sleep(seconds)
    return seconds


@app.task(name="lab.replaced", bind=True)
def replaced(self, x, queue):
    """Hands its id, and what follows it, over to another task, which may run on the other side."""
    raise self.replace(add.s(x, 1).set(queue=queue))


@app.task(name="lab.stated", bind=True)
def stated(self):
    """Ends once the client has seen its state."""
    self.update_state(state="PACKING", meta={"boxes": 3})
    while not notes.exists(f"told:{self.request.id}"):
        time.sleep(0.05)
    return "packed"


@app.task(name="lab.mark")
def mark(n):
    """Counts its runs in a Redis. Returns which side has run it."""
    notes.hincrby("ran", n, 1)
    return [n, "python"]
