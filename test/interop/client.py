"""A Celery client: it submits tasks and checks what it gets. Prints one line per check, and the number of failed checks.

  client.py suite <queue> <protocol>
  client.py mixed <queue> <count> <queue of Python> <queue of Callboard>

A check that takes too long ends the program: the last line is the name of the check, followed by the stacks of all threads.
"""

import datetime as dt
import decimal
import faulthandler
import gc
import json
import os
import sys
import threading
import time
import uuid

import kombu.serialization
from celery import chain, chord, group
from celery.exceptions import TimeoutError

# Seconds that a check waits for a result. A check waits for two results at most.
TIMEOUT = 20
# Seconds after which a check counts as stuck.
LATE = 60
failed = 0


def check(name, attempt, late=LATE):
    global failed
    print(f"{name}: ", end="", flush=True)
    faulthandler.dump_traceback_later(late, exit=True)
    try:
        ok, seen = attempt()
    except Exception as error:
        ok, seen = False, repr(error)
    # With redis-py 6.1, the client of Celery 5.5 waits for itself for ever if Python's garbage collection ends a result
    # while it subscribes to another (celery/celery#10477, redis/redis-py#3640). So garbage is collected only here.
    gc.collect()
    faulthandler.cancel_dump_traceback_later()
    failed += not ok
    print(json.dumps({"ok": bool(ok), "seen": seen}, default=repr), flush=True)


def value(result, expected):
    try:
        seen = result.get(timeout=TIMEOUT, interval=0.02)
    except TimeoutError:
        # The state says whether the result was not stored, or was stored and not published.
        return False, {"late": {each.id: each.state for each in getattr(result, "results", [result])}}
    return seen == expected and type(seen) is type(expected), seen


def error(result, kind, state="FAILURE", text=None):
    try:
        return False, result.get(timeout=TIMEOUT, interval=0.02)
    except Exception as raised:
        seen = [type(raised).__name__, str(raised), result.state]
        return seen[0] == kind and seen[2] == state and (text is None or text in seen[1]), seen


def suite(app, queue, protocol):
    def send(name, *args, **options):
        kwargs = options.pop("kwargs", None)
        return app.send_task(name, args, kwargs, queue=queue, **options)

    def sign(name, *args, **options):
        return app.signature(name, args=args, **options).set(queue=queue)

    def workflow(name, signature, expected):
        check(name, lambda: value(signature.apply_async(), expected))

    now = dt.datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=dt.timezone.utc)
    typed = [now, now.date(), now.time(), decimal.Decimal("1.10"), uuid.UUID(int=7), b"\x00\xff"]
    check("add", lambda: value(send("lab.add", 2, 3), 5))
    check("kwargs", lambda: value(send("lab.add", kwargs={"x": 40, "y": 2}), 42))
    check("unicode", lambda: value(send("lab.echo", "🦀 žluťoučký", 1), {"args": ["🦀 žluťoučký", 1], "kwargs": {}}))
    check("none", lambda: value(send("lab.noop"), None))
    check("float", lambda: value(send("lab.add", 0.1, 0.2), 0.1 + 0.2))
    check("large integer", lambda: value(send("lab.echo", 2**60 + 1), {"args": [2**60 + 1], "kwargs": {}}))
    check("typed values", lambda: value(send("lab.echo", *typed), {"args": typed, "kwargs": {}}))
    for serializer in ("msgpack", "yaml"):
        check(serializer, lambda: value(send("lab.add", 5, 6, serializer=serializer), 11))
    for compression in ("zlib", "bzip2"):
        long = {"args": ["z" * 3000], "kwargs": {}}
        check(compression, lambda: value(send("lab.echo", "z" * 3000, compression=compression), long))
    check("error", lambda: error(send("lab.fail", "msg", 3), "LabError", text="msg"))
    check("error of Python", lambda: error(send("lab.fail_value", "oops"), "ValueError", text="oops"))
    check("unknown task", lambda: error(send("no.such.task"), "NotRegistered"))
    check("traceback", lambda: traceback_of(send("lab.fail", "msg", 3)))
    check("retries", lambda: value(send("lab.retry_twice", "tag", 0.2), {"tag": "tag", "retries": 2}))
    check("most retries", lambda: error(send("lab.retry_forever", 0.1), "MaxRetriesExceededError"))

    def countdown():
        began = time.time()
        ok, seen = value(send("lab.add", 1, 1, countdown=1.5), 2)
        return ok and time.time() - began >= 1.4, seen

    check("countdown", countdown)
    if not app.conf.broker_url.startswith("amqp"):
        # RabbitMQ drops an expired task, so its client gets no result.
        past = dt.datetime.now(dt.timezone.utc) - dt.timedelta(seconds=9)
        check("expired", lambda: error(send("lab.add", 1, 1, expires=past), "TaskRevokedError", "REVOKED", "expired"))
    soft = {"soft_time_limit": 1, "time_limit": 8}
    check("soft limit", lambda: value(send("lab.soft", 9, **soft), "soft limit reached"))
    check("hard limit", lambda: error(send("lab.sleep", 9, time_limit=1), "TimeLimitExceeded", text="1"))
    check("priority", lambda: value(send("lab.add", 1, 2, priority=9), 3))
    check("id", lambda: value(send("lab.add", 1, 2, task_id=f"custom-{uuid.uuid4()}"), 3))

    workflow("chain", chain(sign("lab.add", 2, 3), sign("lab.mul", 4), sign("lab.add", 1)), 21)
    workflow("immutable", chain(sign("lab.add", 2, 3), sign("lab.mul", 6, 7, immutable=True)), 42)
    workflow("group", group(sign("lab.add", i, i) for i in range(4)), [0, 2, 4, 6])
    # Clients refuse chords with rpc.
    if not app.conf.result_backend.startswith("rpc"):
        chords(app, queue, protocol, sign, send)
    each = {"task": dict(sign("lab.add")), "it": [[1, 2], [3, 4]]}
    check("starmap", lambda: value(send("celery.starmap", kwargs=each), [3, 7]))
    chunks = app.tasks["lab.add"].chunks([(1, 2), (3, 4), (5, 6)], 2).group()
    workflow("chunks", group(part.set(queue=queue) for part in chunks.tasks), [[3, 7], [11]])

    def linked(name, field, *args):
        callback = sign("lab.add", 1) if field == "link" else sign("lab.on_error")
        follow = callback.freeze()
        result = send(name, *args, **{field: callback})
        return result, follow

    check("link", lambda: value(linked("lab.add", "link", 2, 3)[1], 6))

    def errback():
        result, follow = linked("lab.fail", "link_error", "no", 1)
        return value(follow, f"errback for {result.id}")

    check("link_error", errback)
    broken = chain(sign("lab.fail", "no", 1), sign("lab.add", 1), sign("lab.add", 1))
    if protocol == 2:
        # A result that is made from the id alone has no parents, whose error `get` would raise instead of its own.
        check("chain that fails", lambda: error(app.AsyncResult(broken.apply_async().id), "LabError"))
    bad = [sign("lab.add", 1, 1), sign("lab.fail", "no", 1)]
    check("group that fails", lambda: error(group(bad).apply_async().results[1], "LabError", text="no"))

    def context():
        result = send("lab.whoami", 1, kwargs={"k": 2}, headers={"x-h": "v"}, shadow="shadow-name")
        seen = result.get(timeout=TIMEOUT)
        wanted = {"id": result.id, "correlation_id": result.id, "headers": {"x-h": "v"}}
        if protocol == 2:
            wanted.update(root_id=result.id, shadow="shadow-name")
        return {**seen, **wanted} == seen, seen

    check("request", context)

    def long_header():
        result = send("lab.whoami", headers={"x-h": [{"at": 1_900_000_000_000}, -(2**40)]})
        seen = result.get(timeout=TIMEOUT)["headers"]["x-h"]
        return seen == [{"at": 1_900_000_000_000}, -(2**40)], seen

    check("integers of 64 bits in a header", long_header)

    def told():
        from tasks import notes

        result = send("lab.told")
        seen = []

        def heard(meta):
            # A client to which results are sent reads them only while it waits for the last one.
            seen.append([meta["status"], meta["result"]])
            notes.set(f"told:{result.id}", 1)

        if app.conf.result_backend.startswith("rpc"):
            last = result.get(timeout=TIMEOUT, interval=0.02, on_message=heard)
        else:
            end = time.time() + TIMEOUT
            while time.time() < end and result.state == "PENDING":
                time.sleep(0.05)
            heard({"status": result.state, "result": result.info})
            _, last = value(result, "told")
        return last == "told" and seen[0] == ["PROGRESS", {"current": 1, "total": 2}], [seen, last]

    check("progress", told)

    def ignored():
        result = send("lab.add", 1, 1, ignore_result=True)
        value(send("lab.add", 1, 1), 2)
        return result.state == "PENDING", result.state

    if protocol == 2:
        check("ignore_result", ignored)

    def pickled():
        kombu.serialization.enable_insecure_serializers(["pickle"])
        result = send("lab.add", 1, 1, serializer="pickle")
        kombu.serialization.disable_insecure_serializers(["json", "msgpack", "yaml"])
        value(send("lab.add", 1, 1), 2)
        return result.state != "SUCCESS", result.state

    check("pickle is refused", pickled)
    check("revoke before it is due", lambda: revoked(app, send("lab.add", 1, 1, countdown=30), False, "revoked"))
    check("revoke and terminate", lambda: revoked(app, send("lab.sleep", 60), True, "terminated"))
    check("events", lambda: events(app, lambda: send("lab.add", 1, 2), "task-succeeded", {"result": "3"}))
    failure = {"exception": "ValueError('oops')"}
    check("events of a failure", lambda: events(app, lambda: send("lab.fail_value", "oops"), "task-failed", failure))


def chords(app, queue, protocol, sign, send):
    def workflow(name, signature, expected):
        check(name, lambda: value(signature.apply_async(), expected))

    workflow("chord", chord([sign("lab.add", i, 1) for i in range(3)], sign("lab.tsum")), 6)
    body = chain(sign("lab.tsum"), sign("lab.mul", 10))
    workflow("chord with a chain", chord([sign("lab.add", 1, 1), sign("lab.add", 2, 2)], body), 60)
    members = group(sign("lab.add", 1, 1), sign("lab.mul", 3, 3))
    workflow("group in a chain", chain(members, sign("lab.tsum"), sign("lab.add", 100)), 111)
    chains = [chain(sign("lab.add", i, 1), sign("lab.mul", 2)) for i in range(3)]
    workflow("chord of chains", chord(chains, sign("lab.tsum")), 12)
    if protocol == 2:
        after = chain(sign("lab.add", 1, 1), group(sign("lab.add", 10), sign("lab.mul", 5)), sign("lab.tsum"))
        workflow("chord after a task", after, 22)
    bad = [sign("lab.add", 1, 1), sign("lab.fail", "no", 1)]

    def broken_chord():
        body = sign("lab.tsum")
        told = sign("lab.on_error")
        follow = told.freeze()
        result = chord(bad, body.on_error(told)).apply_async()
        ok, seen = error(app.AsyncResult(result.id), "ChordError", text="LabError")
        return ok and follow.get(timeout=TIMEOUT) == f"errback for {result.id}", seen

    check("chord that fails", broken_chord)

    def unlocked():
        """Submits the task with which clients wait for a chord if their back end has no counters."""
        results = [send("lab.add", i, 1, countdown=0.2) for i in range(3)]
        signature = sign("lab.tsum")
        last = signature.freeze()
        kwargs = {"interval": 0.2, "result": [r.as_tuple() for r in results]}
        send("celery.chord_unlock", str(uuid.uuid4()), signature, kwargs=kwargs)
        return value(last, 6)

    check("chord_unlock", unlocked)


def traceback_of(result):
    error(result, "LabError")
    return "LabError" in (result.traceback or ""), result.traceback


def revoked(app, result, terminate, why):
    if terminate:
        # Waits until the task runs: one that has not begun would be revoked without termination.
        end = time.time() + TIMEOUT
        while time.time() < end:
            active = app.control.inspect(timeout=1).active() or {}
            if any(task["id"] == result.id for tasks in active.values() for task in tasks):
                break
    else:
        time.sleep(0.5)
    app.control.revoke(result.id, terminate=terminate, reply=True, timeout=1)
    return error(result, "TaskRevokedError", "REVOKED", why)


def events(app, send, last, fields):
    seen = []

    def listen():
        with app.connection_for_read() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": seen.append})
            try:
                receiver.capture(limit=None, timeout=TIMEOUT, wakeup=True)
            except Exception:
                pass

    threading.Thread(target=listen, daemon=True).start()
    end = time.time() + TIMEOUT
    while time.time() < end and not seen:
        time.sleep(0.05)
    result = send()
    wanted = ["task-received", "task-started", last]

    def mine():
        return [event for event in seen if event.get("uuid") == result.id]

    while time.time() < end and len(mine()) < len(wanted):
        time.sleep(0.05)
    clocks = [event["clock"] for event in mine()]
    told = [event["type"] for event in mine()] == wanted and {**mine()[-1], **fields} == mine()[-1]
    return told and clocks == sorted(clocks), mine()


def mixed(app, queue, count, python, ours):
    from tasks import notes

    def sign(name, where, *args):
        return app.signature(name, args=args).set(queue=where)

    sides = {"python": 0, "ours": 0}

    def marks():
        results = [app.send_task("lab.mark", [n], queue=queue) for n in range(count)]
        seen = [result.get(timeout=120, interval=0.01) for result in results]
        for _, side in seen:
            sides[side] += 1
        return [n for n, _ in seen] == list(range(count)), sides

    def once():
        ran = {int(n): int(times) for n, times in notes.hgetall("ran").items()}
        return ran == {n: 1 for n in range(count)}, {n: times for n, times in ran.items() if times != 1}

    check("every result is right", marks, 150)
    check("both have worked", lambda: (min(sides.values()) > 0, sides))
    check("none ran twice", once)
    for first, second in ((python, ours), (ours, python)):
        steps = chain(sign("lab.add", first, 2, 3), sign("lab.mul", second, 4), sign("lab.add", first, 1))
        check(f"chain from {first}", lambda: value(steps.apply_async(), 21))
        header = [sign("lab.add", first, 1, 1), sign("lab.add", second, 2, 2), sign("lab.add", first, 3, 3)]
        for body in (first, second):
            check(f"chord to {body}", lambda: value(chord(header, sign("lab.tsum", body)).apply_async(), 12))
        retried = chain(sign("lab.retry_twice", second, "t", 0.1), sign("lab.echo", first))
        wanted = {"args": [{"tag": "t", "retries": 2}], "kwargs": {}}
        check(f"retries on {second}", lambda: value(retried.apply_async(), wanted))


def main():
    what, queue, *rest = sys.argv[1:]
    from tasks import app

    gc.disable()
    app.set_current()
    if what == "suite":
        app.conf.task_protocol = int(rest[0])
        suite(app, queue, int(rest[0]))
    else:
        mixed(app, queue, int(rest[0]), *rest[1:])
    print(json.dumps({"failed": failed}), flush=True)
    # Ends the process although threads still listen.
    os._exit(failed > 0)


main()
