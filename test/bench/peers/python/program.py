"""What the programs in Python have in common; see ../../harness/program.ts."""

import json
import sys
import time

PAYLOAD = "x" * 232


def begin():
    print("READY", flush=True)
    sys.stdin.readline()


def report(**figures):
    print(json.dumps(figures), flush=True)
    sys.stdin.read()


def wait_for(look, goal):
    """Waits until a look gives the goal, and says when that was."""
    end = time.monotonic() + 600
    while look() < goal:
        if time.monotonic() > end:
            raise SystemExit(f"{look()} of {goal} after ten minutes")
        time.sleep(0.005)
    return time.monotonic()
