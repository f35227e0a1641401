/** Leases: a delivery has its task until the lease ends, or longer if extended; then another delivery may get it. */
import { delay, freeLeases } from "../../case.ts"
import { between, check, equal } from "../../check.ts"
import { type DriverCase, holdsOn, ownTokens } from "../case.ts"
import { size, sleep, taken } from "../context.ts"
import { idOf, idsOf, recordOf } from "../task.ts"

const group = "lease"
/** The shortest lease that the contract allows, in milliseconds. */
const lease = 1_000

export const leaseCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "a delivery that is not ended comes again after its lease, not before, with a higher fence",
    lease,
    async run({ peer, fresh, task, elsewhere, harness, lease, tolerance, slack, timed }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const posting = task({ queue })
      await peer.publish(posting)
      const start = Date.now()
      const first = await peer.one(queue)
      const took = timed()
      const late = lease + harness.capabilities.leaseResolution + slack
      const second = await other.one(queue, late + 3_000)
      between(Date.now() - start, lease - tolerance, Infinity, "milliseconds from asking to the second delivery")
      took(0, late, "milliseconds from the first delivery to the second")
      equal(idOf(second), posting.id, "what comes")
      check(second.fence > first.fence, `fences must rise: ${first.fence}, then ${second.fence}`)
      check(second.token !== first.token, "tokens must differ")
      equal(second.sequence, first.sequence, "sequence of the second delivery")
      check([1, 2].includes(second.deliveries), `deliveries must be counted, or 1: ${second.deliveries}`)
    },
  },
  {
    group,
    name: "first is said of the first delivery of a task, and never when it was handed over before",
    needs: [freeLeases],
    lease,
    async run({ peer, fresh, task, elsewhere }) {
      const [lapsed, released, closed] = [fresh("lapsed"), fresh("released"), fresh("closed")]
      const other = await elsewhere()
      await peer.publish(...[lapsed, released, closed].map((queue) => task({ queue })))
      const before = [await peer.one(lapsed), await peer.one(released), await other.one(closed)]
      equal(
        before.map(({ first }) => first),
        [true, true, true],
        "what first deliveries say",
      )
      await other.close()
      for (const delivery of before) if (delivery.queue === released) await peer.release(delivery)
      for (const queue of [released, lapsed, closed]) {
        equal((await peer.one(queue, 8_000)).first, false, `what the second delivery of a task says that was ${queue}`)
      }
    },
  },
  {
    group,
    name: "a lease that is extended in time does not lapse",
    lease: 2 * lease,
    async run({ peer, fresh, task, elsewhere, lease, tolerance, inTime }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      await peer.publish(task({ queue }))
      // The lease is counted from before the take, since the driver counts it from a later moment.
      let end = Date.now() + lease - tolerance
      const delivery = await peer.one(queue)
      const extending = async () => {
        for (let at = 0; at < 4; at++) {
          await sleep(0.4 * lease)
          const next = Date.now() + lease - tolerance
          equal(await peer.extend(delivery.token), [true], `extension ${at + 1}`)
          // An extension that comes too late does not count, so that the checks after it do not blame the driver.
          if (Date.now() < end) end = next
        }
      }
      await inTime(
        () => end,
        async () => {
          await Promise.all([other.none(queue, "its lease is extended", 1.9 * lease), extending()])
          await peer.end(delivery)
        },
      )
    },
  },
  {
    group,
    name: "an extension lasts one lease from then",
    lease: 2 * lease,
    async run({ peer, fresh, task, harness, lease, tolerance, slack, inTime, timed }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      const end = Date.now() + lease - tolerance
      const delivery = await peer.one(queue)
      await sleep(0.4 * lease)
      const took = timed()
      await inTime(end, async () => equal(await peer.extend(delivery.token), [true], "extension"))
      const late = lease + harness.capabilities.leaseResolution + slack
      await peer.one(queue, late + 3_000)
      took(lease - tolerance, late, "milliseconds from the extension to the next delivery")
    },
  },
  {
    group,
    name: "extending says for each token whether it has its task: not when another delivery has it, nor when it ended",
    needs: [ownTokens],
    lease,
    async run({ peer, fresh, task, lease, tolerance, inTime }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      // The second lease begins no earlier than the first one ends.
      const end = Date.now() + 2 * (lease - tolerance)
      const lost = await peer.one(queue)
      const ours = await peer.one(queue, 8_000)
      await inTime(end, async () => {
        equal(await peer.extend(lost.token, ours.token), [false, true], "extensions of the old and the new token")
        await peer.end(ours)
      })
      equal(await peer.extend(ours.token), [false], "extension of a token whose task was taken off its queue")
    },
  },
  {
    group,
    name: "what was never a token has no task, and harms no other",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      const { token } = await peer.one(queue)
      equal(await peer.extend("", token, "no token", "9.9.9"), [false, true, false, false], "extensions")
    },
  },
  {
    group,
    name: "a token works on another connection",
    needs: [freeLeases],
    lease: 2 * lease,
    async run({ peer, fresh, task, elsewhere, lease, tolerance, inTime }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      await peer.publish(task({ queue }))
      const end = Date.now() + lease - tolerance
      const delivery = await peer.one(queue)
      await sleep(0.5 * lease)
      const extended = Date.now() + lease - tolerance
      await inTime(end, async () => {
        equal(await other.extend(delivery.token), [true], "extension from another connection")
      })
      await inTime(extended, async () => {
        await peer.none(queue, "its lease was extended", 0.7 * lease)
        await other.end(delivery)
      })
      await peer.none(queue, "it was acked", 1.2 * lease)
    },
  },
  {
    group,
    name: "a lease lapses although nobody takes",
    lease,
    async run({ peer, fresh, task, harness, lease, slack, timed }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      await peer.publish(posting)
      await peer.one(queue)
      await sleep(lease + harness.capabilities.leaseResolution + 100)
      const took = timed()
      equal(idOf(await peer.one(queue, 2 * slack)), posting.id, "what comes at once")
      took(0, slack, "milliseconds until it comes")
    },
  },
  {
    group,
    name: "a lease that is over holds until another delivery has the task: it extends, ends and gives back",
    needs: [ownTokens, freeLeases, holdsOn],
    lease,
    async run({ peer, fresh, task, harness, lease, slack }) {
      const queues = [fresh("acked"), fresh("released"), fresh("extended")] as const
      await peer.publish(...queues.map((queue) => task({ queue })))
      const [acked, released, extended] = await Promise.all(queues.map((queue) => peer.one(queue)))
      check(acked !== undefined && released !== undefined && extended !== undefined, "three deliveries must come")
      await sleep(lease + harness.capabilities.leaseResolution + slack / 5)
      equal(await peer.extend(extended.token), [true], "extension")
      await peer.end(acked)
      const answer = await peer.commit({
        id: idOf(released),
        task: { kind: "hand-back", token: released.token, delay: 0 },
      })
      equal(answer, { status: "committed", revision: "" }, "answer to giving it back")
      equal(idsOf(await peer.take(queues, { max: 3, wait: slack })), [idOf(released)], "what comes")
    },
  },
  {
    group,
    name: "of an ack and a return of one delivery at the same time one is done, and the task is as the answers say",
    needs: [ownTokens, freeLeases],
    async run({ peer, fresh, tasks, elsewhere }) {
      const other = await elsewhere()
      const queue = fresh("queue")
      const rounds = size(30, 200)
      for (const posting of tasks(rounds, { queue })) {
        const { delivery } = await taken(peer, posting)
        const { id, token } = { id: posting.id, token: delivery.token }
        const [acked, released] = await Promise.all([
          peer.commit({ id, task: { kind: "ack", token } }),
          other.commit({ id, task: { kind: "hand-back", token, delay: 0 } }),
        ])
        const done = [acked, released].filter((each) => each.status === "committed" && !each.gone)
        equal(done.length, 1, "how many of the two are done")
        const { deliveries } = await peer.ask(queue)
        equal(deliveries.length, done.includes(released) ? 1 : 0, "tasks that come, one if it was given back")
        for (const each of deliveries) await peer.end(each)
      }
    },
  },
  {
    group,
    name: "of a take and a withdrawal at the same time, a task that was removed is not said to be acked",
    needs: [ownTokens],
    async run({ peer, fresh, task, elsewhere, repeats }) {
      const other = await elsewhere()
      const queue = fresh("queue")
      for (const _ of repeats(size(30, 200))) {
        const posting = task({ queue })
        const { id } = posting
        await peer.publish(posting)
        const [{ deliveries }] = await Promise.all([
          peer.ask(queue),
          other.committed({ id, task: { kind: "withdraw" } }),
        ])
        const isThere = (await peer.read(id))?.task !== undefined
        for (const { token } of deliveries) {
          const answer = await peer.commit({ id, task: { kind: "ack", token } })
          equal(
            answer.status === "committed" && !answer.gone,
            isThere,
            "whether the task that is in the queue is acked",
          )
        }
        equal((await peer.ask(queue)).deliveries, [], "what comes after that")
      }
    },
  },
  {
    group,
    name: "fences rise over many deliveries of one task, compared as text",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      let last = ""
      // More deliveries than a number that is padded to two digits can order.
      for (let at = 0; at < 104; at++) {
        const delivery = await peer.one(queue)
        check(delivery.fence > last, `fence ${at + 1} must be above "${last}": "${delivery.fence}"`)
        last = delivery.fence
        await peer.release(delivery)
      }
    },
  },
  ...(["acked", "given back"] as const).map(
    (how): DriverCase => ({
      group,
      name: `a token whose task was ${how} is spent: it extends, ends and gives back nothing`,
      needs: [ownTokens, ...(how === "given back" ? [delay] : [])],
      async run({ peer, fresh, task, tolerance, inTime }) {
        const queue = fresh("queue")
        const posting = task({ queue })
        const { id } = posting
        await peer.publish(posting)
        const delivery = await peer.one(queue)
        const { token } = delivery
        const due = Date.now() + 2_000 - tolerance
        await (how === "acked" ? peer.end(delivery) : peer.release(delivery, 2_000))
        equal(await peer.extend(token), [false], "extension")
        for (const end of [{ kind: "hand-back", token, delay: 0 } as const, { kind: "ack", token } as const]) {
          equal(await peer.commit({ id, task: end }), { status: "committed", revision: "", gone: true }, end.kind)
        }
        await inTime(due, () => peer.none(queue, "its token was spent"))
        if (how === "given back") equal(idOf(await peer.one(queue, 8_000)), id, "what comes after its delay")
      },
    }),
  ),
  ...(["ack", "hand-back"] as const).map(
    (kind): DriverCase => ({
      group,
      name: `the ${kind} of an overtaken delivery does nothing to the task, and says so; its record counts`,
      needs: [ownTokens],
      lease,
      async run({ peer, fresh, task, lease, tolerance, inTime }) {
        const queue = fresh("queue")
        const posting = task({ queue })
        const { id } = posting
        await peer.publish(posting)
        const end = Date.now() + 2 * (lease - tolerance)
        const { token } = await peer.one(queue)
        const ours = await peer.one(queue, 8_000)
        const late = kind === "ack" ? ({ kind, token } as const) : ({ kind, token, delay: 0 } as const)
        const answer = await peer.commit({ id, record: recordOf(posting, "started", { says: "late" }), task: late })
        check(answer.status === "committed", `the record must be committed: ${answer.status}`)
        equal(answer.gone, true, "whether the answer says that the task is gone")
        await inTime(end, async () => {
          equal(await peer.extend(ours.token), [true], "extension of the newer delivery")
          await peer.none(queue, "the newer delivery has it")
          await peer.end(ours)
        })
        equal((await peer.known(id)).revision, answer.revision, "revision")
        equal(await peer.says(id), "late", "record")
      },
    }),
  ),
]
