/** The declarations of a driver, and whether it has the members that it declares. */

import { randomUUID } from "node:crypto"
import { inspect } from "node:util"
import { check, equal, refuses } from "../../check.ts"
import { atomic, type DriverCase, offered } from "../case.ts"
import { sleep } from "../context.ts"
import { DRIVER_PARTS, type DriverPart, partsOf } from "../harness.ts"
import { idOf, recordOf } from "../task.ts"

const group = "declared"

export const declaredCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "the capabilities are those that its author expects",
    async run({ peer, harness }) {
      equal(peer.driver.capabilities, harness.capabilities, "capabilities")
      check(peer.driver.name.length > 0, "a driver must have a name")
    },
  },
  {
    group,
    name: "the optional members are those that its author expects, each whole or absent",
    async run({ peer, harness }) {
      const { query, count, queues, waiting, broadcast, store, orphans, capabilities } = peer.driver
      check((queues === undefined) === (waiting === undefined), "queues and waiting are there together, or not at all")
      check(capabilities.atomic || orphans !== undefined, "a driver that is not atomic must have orphans")
      const members = { query, count, browse: queues, broadcast, watch: store.watch, orphans }
      const has = (parts: (part: DriverPart) => boolean) => DRIVER_PARTS.filter(parts)
      const expected = partsOf(harness)
      equal(
        has((part) => members[part] !== undefined),
        has((part) => expected.includes(part)),
        "optional members",
      )
    },
  },
  {
    group,
    name: "every optional member that is there answers",
    async run({ peer, fresh, task, within }) {
      const { driver } = peer
      const posting = task({ queue: fresh("queue") })
      await peer.publish(posting)
      const { signal } = new AbortController()
      const calls: ReadonlyArray<readonly [string, (() => Promise<unknown>) | undefined]> = [
        ["query", driver.query && (async () => driver.query?.({ limit: 1 }))],
        ["count", driver.count && (async () => driver.count?.("failed"))],
        ["queues", driver.queues && (async () => driver.queues?.())],
        ["waiting in a queue", driver.waiting && (async () => driver.waiting?.({ queue: posting.queue }, 1))],
        ["waiting past their expires", driver.waiting && (async () => driver.waiting?.({ expiredBy: Date.now() }, 1))],
        ["orphans", driver.orphans && (async () => driver.orphans?.(Date.now(), 1))],
        ["broadcast", driver.broadcast && (async () => driver.broadcast?.send("a", new Uint8Array(1)))],
        ["watch", driver.store.watch && (async () => driver.store.watch?.("a", () => undefined, signal))],
      ]
      for (const [name, call] of calls) {
        const failure = await within(name, call?.().then(() => undefined, String) ?? Promise.resolve(undefined))
        check(failure === undefined, `it declares ${name}, which fails: ${failure}`)
      }
    },
  },
  {
    group,
    name: "a driver that says it is atomic is: what sees the record of a commit sees its postings and the end of its task",
    needs: [atomic],
    async run({ peer, fresh, task, tasks, elsewhere, until }) {
      const [queue, next] = [fresh("queue"), fresh("next")]
      const other = await elsewhere()
      await peer.publish(...tasks(20, { queue }))
      for (const delivery of await peer.all(queue, 20)) {
        const [id, follower] = [idOf(delivery), task({ queue: next })]
        const seeing = until("the record of a commit", async () => {
          while ((await other.read(id, "record"))?.record === undefined) await sleep(0)
          const [own, posted] = await other.reads([id, follower.id])
          check(posted !== undefined, "the record of an atomic commit was seen before its posting")
          check(own?.task === undefined, "the record of an atomic commit was seen before the end of its task")
          return true
        })
        const record = recordOf(follower, "succeeded")
        await Promise.all([seeing, peer.end(delivery, { record, post: [follower] })])
      }
    },
  },
  {
    group,
    name: "a namespace outside of its alphabet is refused as invalid",
    async run({ harness, options, within }) {
      for (const namespace of ["", "a b", "a.b", "a>b", "../up", "ü", "n".repeat(65)]) {
        const connecting = harness.connect({ ...options(), namespace })
        const closed = connecting.then((driver) => driver.close().then(() => "a driver"))
        await within(`the refusal of namespace "${namespace}"`, refuses(closed, "invalid", `namespace "${namespace}"`))
      }
    },
  },
  {
    group,
    name: "credentials that the broker refuses fail as unauthorized, and the error does not tell them",
    needs: [offered("intrude")],
    async run({ harness, options, within }) {
      const password = `secret-${randomUUID()}`
      const connecting = harness.intrude?.(options(), password) ?? Promise.reject(new Error("it has no intrude"))
      const closed = connecting.then((driver) => driver.close().then(() => "a driver"))
      let text = ""
      const noting = closed.catch((error: unknown) => {
        text = `${String(error)} ${inspect(error, { depth: 5, showHidden: true })}`
        throw error
      })
      await within("the refusal of credentials", refuses(noting, "unauthorized", "connecting with wrong credentials"))
      check(!text.includes(password), "the error must not tell the password, nor may its causes")
    },
  },
]
