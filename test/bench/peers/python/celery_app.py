"""The application of Celery: Redis for tasks and results, with settings that suit many small tasks."""

import os

from celery import Celery

URL = os.environ.get("BENCH_REDIS", "redis://127.0.0.1:6379")
app = Celery("bench", broker=f"{URL}/0", backend=f"{URL}/1")
app.conf.update(
    worker_prefetch_multiplier=64,
    worker_send_task_events=False,
    task_serializer="json",
    result_serializer="json",
    accept_content=["json"],
)


@app.task
def noop(n, payload):
    return {"n": n}
