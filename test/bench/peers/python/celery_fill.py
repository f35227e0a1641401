"""Only submits to Celery's queue: celery_fill.py <jobs>"""

import sys

from celery_app import app, noop
from program import PAYLOAD, begin, report

jobs = int(sys.argv[1])
begin()
with app.producer_pool.acquire(block=True) as producer:
    for n in range(jobs):
        noop.apply_async((n, PAYLOAD), producer=producer)
report(jobs=jobs)
