"""Submits to a worker of RQ and waits until its jobs have finished: rq_submit.py <redis url> <jobs>"""

import sys
import time

from program import PAYLOAD, begin, report, wait_for
from redis import Redis
from rq import Queue
from rq.registry import FinishedJobRegistry
from rq_tasks import noop

connection = Redis.from_url(sys.argv[1])
jobs = int(sys.argv[2])
queue = Queue("noop", connection=connection)
finished = FinishedJobRegistry(queue=queue)


def count_finished():
    # Without the clean-up that `finished.count` does first.
    return connection.zcard(finished.key)


def cycle(count):
    goal = count_finished() + count
    began = time.monotonic()
    for start in range(0, count, 1000):
        batch = [Queue.prepare_data(noop, (n, PAYLOAD)) for n in range(start, min(start + 1000, count))]
        queue.enqueue_many(batch)
    return count / (wait_for(count_finished, goal) - began)


cycle(min(20, jobs))
begin()
rate = cycle(jobs)
report(jobs=jobs, perSecond=rate)
