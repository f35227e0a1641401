"""What the worker of RQ runs."""


def noop(n, payload):
    return {"n": n}
