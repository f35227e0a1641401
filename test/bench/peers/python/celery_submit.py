"""Submits to a worker of Celery and waits for the stored results: celery_submit.py <jobs>"""

import sys
import time

import redis
from celery_app import URL, app, noop
from program import PAYLOAD, begin, report, wait_for

jobs = int(sys.argv[1])
# Each result is a key of this database.
results = redis.Redis.from_url(f"{URL}/1")


def cycle(count):
    goal = results.dbsize() + count
    began = time.monotonic()
    with app.producer_pool.acquire(block=True) as producer:
        for n in range(count):
            noop.apply_async((n, PAYLOAD), producer=producer)
    return count / (wait_for(results.dbsize, goal) - began)


# The worker may still be starting: it takes these when it is there.
cycle(min(500, jobs))
begin()
rate = cycle(jobs)
report(jobs=jobs, perSecond=rate)
