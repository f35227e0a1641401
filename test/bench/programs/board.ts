/**
 * What a job board costs: cycles of posting, claiming and consuming a job, beside three bare writes of one key each, which
 * create, change and remove it. Both take turns, in blocks. One claimer claims the job that it has posted, several claim the
 * next one, whichever it is.
 * `board.ts <transport> <jobs that wait> <claimers> <cycles>`
 */
import { connect } from "callboard"
import { begin, inBatches, report } from "./program.js"

const [transport = "memory:", backlogText = "0", claimersText = "1", cyclesText = "1000"] = process.argv.slice(2)
const [backlog, claimers, cycles] = [Number(backlogText), Number(claimersText), Number(cyclesText)]
const BLOCKS = 8

const client = await connect(transport)
const board = client.board("bench")
const { store } = client.connection
await inBatches(backlog, async (from, size) => {
  await Promise.all(Array.from({ length: size }, (_, at) => board.post(`waiting ${from + at}`)))
})

const cycle = async (): Promise<void> => {
  const job = await board.post("job")
  const claim = claimers === 1 ? await board.claim(job, "me") : await board.take("me")
  await claim.consume()
}

// As large as a posting.
const value = new TextEncoder().encode(JSON.stringify({ text: "x".repeat(200) }))
let keys = 0
const bare = async (): Promise<void> => {
  const key = `bare/${++keys}`
  const created = await store.write([{ key, value, expect: "" }])
  const changed = created === "conflict" ? created : await store.write([{ key, value, expect: created[0] ?? "" }])
  const removed = changed === "conflict" ? changed : await store.write([{ key, value: null, expect: changed[0] ?? "" }])
  if (removed === "conflict") throw new Error(`${key} was written by another`)
}

/** How long so many rounds take, in seconds. */
const timed = async (work: () => Promise<void>, rounds: number): Promise<number> => {
  const began = performance.now()
  let left = rounds
  await Promise.all(
    Array.from({ length: claimers }, async () => {
      while (left-- > 0) await work()
    }),
  )
  return (performance.now() - began) / 1_000
}

const block = Math.ceil(cycles / BLOCKS)
await timed(cycle, block)
await timed(bare, block)
await begin()
let [onBoard, inStore] = [0, 0]
for (let at = 0; at < BLOCKS; at++) {
  onBoard += await timed(cycle, block)
  inStore += await timed(bare, block)
}
report({
  jobs: block * BLOCKS,
  perSecond: (block * BLOCKS) / onBoard,
  bare: (block * BLOCKS) / inStore,
  ofBare: inStore / onBoard,
})
