/**
 * What a job board costs: cycles of posting, claiming and consuming a job, beside three bare writes of one key each. These come
 * in two forms: of a key of its own, with a value as large as a posting; and as the board itself writes, where one key is created
 * while the oldest of as many keys as jobs wait is changed and removed, with the bytes of a posting and of a claimed one. All
 * three take turns, in blocks. One claimer claims the job that it has posted, several claim the next one, whichever it is.
 * `board.ts <transport> <jobs that wait> <claimers> <cycles>`
 */
import { connect } from "callboard"
import { begin, inBatches, report } from "./program.js"

const [transport = "memory:", backlogText = "0", claimersText = "1", cyclesText = "1000"] = process.argv.slice(2)
const [backlog, claimers, cycles] = [Number(backlogText), Number(claimersText), Number(cyclesText)]
const BLOCKS = 8
const WARM_UP = 20_000

const client = await connect(transport)
const board = client.board("bench")
const { store } = client.connection

const stored = async (id: string): Promise<Uint8Array> => {
  const entries = await store.list({ prefix: "board/bench/", limit: 100 })
  const found = entries.find(({ value }) => new TextDecoder().decode(value).includes(id))
  return found?.value ?? Promise.reject(new Error(`job ${id} is not in the store`))
}
const first = await board.post("job")
const postedValue = await stored(first.id)
const claim = await board.claim(first, "me")
const claimedValue = await stored(first.id)
await claim.consume()

await inBatches(backlog, async (from, size) => {
  await Promise.all(Array.from({ length: size }, (_, at) => board.post(`waiting ${from + at}`)))
})

const cycle = async (): Promise<void> => {
  const job = await board.post("job")
  const claim = claimers === 1 ? await board.claim(job, "me") : await board.take("me")
  await claim.consume()
}

interface Written {
  readonly key: string
  readonly revision: string
}

const write = async (key: string, value: Uint8Array | null, expect: string): Promise<Written> => {
  const written = await store.write([{ key, value, expect }])
  if (written === "conflict") throw new Error(`${key} was written by another`)
  return { key, revision: written[0] ?? "" }
}

// As large as a posting.
const value = new TextEncoder().encode(JSON.stringify({ text: "x".repeat(200) }))
let keys = 0
const bare = async (): Promise<void> => {
  const created = await write(`bare/${++keys}`, value, "")
  const changed = await write(created.key, value, created.revision)
  await write(changed.key, null, changed.revision)
}

const waiting: Array<Written> = []
let oldest = 0
const wait = async (): Promise<void> => {
  waiting.push(await write(`same/${String(++keys).padStart(10, "0")}`, postedValue, ""))
}
const same = async (): Promise<void> => {
  await wait()
  // One claimer claims the job that it has posted.
  const next = claimers === 1 ? waiting.pop() : waiting[oldest++]
  if (next === undefined) throw new Error("no key waits")
  const changed = await write(next.key, claimedValue, next.revision)
  await write(changed.key, null, changed.revision)
}
await inBatches(backlog, async (_, size) => {
  await Promise.all(Array.from({ length: size }, wait))
})

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
const kinds = [cycle, bare, same]
// The compilers need some ten thousand cycles, which a board with a backlog has behind it after its posts, and an empty one has not.
const warmUp = claimers === 1 ? block : Math.max(block, WARM_UP)
for (const kind of kinds) await timed(kind, warmUp)
await begin()
const spent = kinds.map(() => 0)
for (let at = 0; at < BLOCKS; at++)
  for (const [nth, kind] of kinds.entries()) spent[nth] = (spent[nth] ?? 0) + (await timed(kind, block))
const [onBoard = 0, inStore = 0, inSame = 0] = spent
report({
  jobs: block * BLOCKS,
  perSecond: (block * BLOCKS) / onBoard,
  bare: (block * BLOCKS) / inStore,
  ofBare: inStore / onBoard,
  ofSame: inSame / onBoard,
})
