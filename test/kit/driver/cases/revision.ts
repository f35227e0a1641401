/** The record of a commit: it is stored only over the expected revision, and kept as long as was asked. */

import type { Commit, Delivery, Posting } from "../../../../runtime/transport/driver.ts"
import { between, check, equal, sameSet } from "../../check.ts"
import type { DriverCase } from "../case.ts"
import type { DriverPeer } from "../peer.ts"
import { bytes, idOf, recordOf } from "../task.ts"

const group = "commit"

/** The further steps of a commit beside its record, each with a check that it was not done. */
interface Beside {
  readonly name: string
  readonly needsDelivery: boolean
  commit(delivery: Delivery | undefined, follower: Posting): Partial<Commit>
  undone(peer: DriverPeer, posting: Posting, follower: Posting): Promise<void>
}

const tokenOf = (delivery: Delivery | undefined): string => delivery?.token ?? ""

const besides: ReadonlyArray<Beside> = [
  {
    name: "posts nothing",
    needsDelivery: false,
    commit: (_, follower) => ({ post: [follower] }),
    undone: async (peer, _, { queue }) => peer.none(queue, "the commit was a conflict"),
  },
  {
    name: "acks nothing",
    needsDelivery: true,
    commit: (delivery) => ({ task: { kind: "ack", token: tokenOf(delivery) } }),
    undone: async (peer, { id }) => {
      check((await peer.known(id)).task !== undefined, "the task must still be there: the commit was a conflict")
    },
  },
  {
    name: "gives nothing back",
    needsDelivery: true,
    commit: (delivery) => ({ task: { kind: "hand-back", token: tokenOf(delivery), delay: 0 } }),
    undone: async (peer, { queue }) => peer.none(queue, "the commit was a conflict"),
  },
  {
    name: "withdraws nothing",
    needsDelivery: false,
    commit: () => ({ task: { kind: "withdraw" } }),
    undone: async (peer, { id, queue }) => equal(idOf(await peer.one(queue)), id, "what still comes"),
  },
]

export const revisionCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "a record is stored only over the revision that is expected",
    async run({ peer, fresh, task }) {
      const posting = task({ queue: fresh("queue") })
      const { id } = posting
      const commit = (expect: string, says: string) =>
        peer.commit({ id, record: recordOf(posting, "failed", { expect, says }) })
      equal((await commit("9", "0")).status, "conflict", "answer where nothing is stored, and something is expected")
      const first = await peer.put(id, recordOf(posting, "failed", { says: "1" }))
      const second = await peer.put(id, recordOf(posting, "failed", { expect: first, says: "2" }))
      for (const expect of [first, "", "9"]) {
        equal(await commit(expect, "3"), { status: "conflict" }, `answer to a commit that expects "${expect}"`)
      }
      equal((await peer.known(id)).revision, second, "revision")
      equal(await peer.says(id), "2", "record")
    },
  },
  {
    group,
    name: "nothing is stored only where not even a hidden record is",
    async run({ peer, fresh, task, elsewhere }) {
      const other = await elsewhere()
      const posting = task({ queue: fresh("queue") })
      const { id } = posting
      const hidden = { ...posting.index, state: "succeeded", hidden: true } as const
      const revision = await peer.put(id, { ...recordOf(posting, "succeeded", { says: "hidden" }), index: hidden })
      for (const each of [peer, other]) {
        const answer = await each.commit({ id, record: recordOf(posting, "queued"), post: [posting] })
        equal(answer, { status: "conflict" }, "answer to a commit that expects nothing")
        equal(await each.known(id), { revision, record: bytes("hidden") }, "what is known of a hidden record")
      }
      await peer.put(id, recordOf(posting, "queued", { expect: revision }))
    },
  },
  ...besides.map(
    ({ name, needsDelivery, commit, undone }): DriverCase => ({
      group,
      name: `a conflict ${name}`,
      async run({ peer, fresh, task }) {
        const posting = task({ queue: fresh("queue") })
        const follower = task({ queue: fresh("next") })
        const { id, queue } = posting
        await peer.publish(posting)
        const delivery = needsDelivery ? await peer.one(queue) : undefined
        const first = await peer.put(id, recordOf(posting, "started", { says: "1" }))
        await peer.put(id, recordOf(posting, "started", { expect: first, says: "2" }))
        const late = recordOf(posting, "succeeded", { expect: first, says: "3" })
        equal(await peer.commit({ id, record: late, ...commit(delivery, follower) }), { status: "conflict" }, "answer")
        equal(await peer.says(id), "2", "record")
        await undone(peer, posting, follower)
      },
    }),
  ),
  {
    group,
    name: "of commits that expect the same at the same time, one is committed",
    async run({ peer, fresh, task, elsewhere }) {
      const other = await elsewhere()
      const posting = task({ queue: fresh("queue") })
      const { id } = posting
      let expect = ""
      for (let round = 0; round < 10; round++) {
        const answers = await Promise.all(
          [peer, other, peer, other].map((each, by) =>
            each.commit({ id, record: recordOf(posting, "failed", { expect, says: `${round}.${by}` }) }),
          ),
        )
        sameSet(
          answers.map(({ status }) => status),
          ["committed", "conflict", "conflict", "conflict"],
          `answers of round ${round}`,
        )
        const winner = answers.findIndex(({ status }) => status === "committed")
        equal(await peer.says(id), `${round}.${winner}`, "record")
        expect = (await peer.known(id)).revision
      }
    },
  },
  {
    group,
    name: "a revision never repeats, also when the same is written again or the record was removed in between",
    async run({ peer, fresh, task, until }) {
      const posting = task({ queue: fresh("queue") })
      const { id } = posting
      const seen: Array<string> = []
      const write = async (keep?: number): Promise<void> => {
        const expect = (await peer.read(id, "record"))?.revision ?? ""
        const fields = keep === undefined ? { expect } : { expect, keep }
        seen.push(await peer.put(id, recordOf(posting, "failed", { says: "same", ...fields })))
      }
      for (let at = 0; at < 12; at++) await write(at === 11 ? 1_000 : undefined)
      await until("the end of a record", async () => (await peer.says(id)) === undefined, 10_000)
      const late = recordOf(posting, "failed", { expect: seen.at(-1) ?? "", says: "late" })
      equal((await peer.commit({ id, record: late })).status, "conflict", "answer, expecting what was removed")
      for (let at = 0; at < 12; at++) await write()
      equal(new Set(seen).size, seen.length, "different revisions of so many commits")
    },
  },
  // ── How long a record is kept ─────────────────────────────────────────────────────────────────────────────────────
  {
    group,
    name: "a record is kept as long as was asked, and removed then",
    async run({ peer, fresh, task, until, tolerance }) {
      const [brief, long, ever] = [task({ queue: fresh("queue") }), task({ queue: "q" }), task({ queue: "q" })]
      const start = Date.now()
      await peer.put(brief.id, recordOf(brief, "succeeded", { keep: 1_500 }))
      await peer.put(long.id, recordOf(long, "succeeded", { keep: 60_000 }))
      await peer.put(ever.id, recordOf(ever, "succeeded"))
      await until("the end of a record", async () => (await peer.says(brief.id)) === undefined, 10_000)
      between(Date.now() - start, 1_500 - tolerance, Infinity, "milliseconds that it was kept")
      for (const { id } of [long, ever]) equal(await peer.says(id), "succeeded", "record that is kept")
    },
  },
  {
    group,
    name: "how long a record is kept is replaced by the next one, also by none",
    async run({ peer, fresh, task, until, tolerance, inTime }) {
      const [longer, ever, brief] = [task({ queue: fresh("queue") }), task({ queue: "q" }), task({ queue: "q" })]
      for (const [posting, keep] of [
        [longer, { keep: 60_000 }],
        [ever, {}],
        [brief, { keep: 1_000 }],
      ] as const) {
        const before = posting === brief ? 60_000 : 1_000
        const end = Date.now() + before - tolerance
        const expect = await peer.put(posting.id, recordOf(posting, "succeeded", { keep: before }))
        const next = recordOf(posting, "succeeded", { expect, ...keep, says: "replaced" })
        await inTime(end, () => peer.put(posting.id, next))
      }
      await until(
        "the end of the record that is kept the least",
        async () => (await peer.says(brief.id)) === undefined,
        10_000,
      )
      for (const { id } of [longer, ever]) equal(await peer.says(id), "replaced", "record that is kept")
    },
  },
]
