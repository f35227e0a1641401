"""What the worker of RQ runs."""

import time


def noop(n, payload):
    return {"n": n}


def nap(n, ms):
    time.sleep(ms / 1000)
    return {"n": n}
