/** Which process a worker is, and of which one it can be known that it is gone. */
import { hostname } from "node:os"
import { describe, expect, test } from "vitest"
import {
  isDead,
  isThisProcess,
  newWorkerName,
  newWorkerProcess,
  type WorkerProcess,
} from "../../../../runtime/cluster/worker-process.ts"

/** No process can have this number. */
const NONE = 2 ** 30

describe("a worker counts as dead", () => {
  const own = { pid: process.pid, pidSpace: "a" }
  const dead = (worker: WorkerProcess, me: { pid: number; pidSpace: string | undefined } = own) => isDead(worker, me)

  test("by its process id only in the PID namespace of this process", () => {
    expect(dead({ pid: NONE, pidSpace: "a", instance: "x.1" })).toBe(true)
    expect(dead({ pid: process.ppid, pidSpace: "a", instance: "x.1" })).toBe(false)
    expect(dead({ pid: NONE, pidSpace: "b", instance: "x.1" })).toBe(false)
    // Two containers have a process 1 each.
    expect(dead({ pid: process.pid, pidSpace: "b", instance: "x.1" })).toBe(false)
  })

  test("never where a namespace is not known", () => {
    const unknown = { pid: process.pid, pidSpace: undefined }
    for (const pid of [NONE, process.pid]) {
      expect(dead({ pid, instance: "x.1" })).toBe(false)
      expect(dead({ pid, instance: "x.1" }, unknown)).toBe(false)
      expect(dead({ pid, pidSpace: "a", instance: "x.1" }, unknown)).toBe(false)
      // As an older version describes it.
      expect(dead({ pid })).toBe(false)
    }
  })

  test("if this process has its process id, and is not its own", () => {
    expect(dead({ pid: process.pid, pidSpace: "a", instance: "x.1" })).toBe(true)
    expect(dead({ ...newWorkerProcess(), pidSpace: "a" })).toBe(false)
  })
})

test("the workers of a process are told apart, and from those of other processes", () => {
  const [one, two] = [newWorkerProcess(), newWorkerProcess()]
  expect(one).toMatchObject({ pid: process.pid, pidSpace: two.pidSpace })
  expect(one.instance).not.toBe(two.instance)
  expect([one, two].map(isThisProcess)).toEqual([true, true])
  expect([isThisProcess({ pid: process.pid, instance: "x.1" }), isThisProcess({ pid: process.pid })]).toEqual([
    false,
    false,
  ])
  expect([one, two].map((worker) => isDead(worker))).toEqual([false, false])
})

test("names that nobody has given differ, and begin with the host's", () => {
  const names = Array.from({ length: 50 }, newWorkerName)
  expect(new Set(names).size).toBe(50)
  for (const name of names) expect(name.replace(hostname(), "HOST")).toMatch(/^HOST-[0-9a-f]{6}$/)
})
