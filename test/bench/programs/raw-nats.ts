/**
 * The ceiling of this machine for a job over JetStream: submission to ack in one process. One subscriber receives every
 * terminal record, as a process that waits for results does. `raw-nats.ts <url> <jobs> <concurrency>`
 */
import { createInbox, Empty, type Msg } from "nats"
import { begin, report, rssMiB } from "./program.js"
import { LEVELS, openRawNats } from "./raw-nats-board.ts"

const [url = "nats://127.0.0.1:4222", jobsText = "50000", concurrencyText = "200"] = process.argv.slice(2)
const board = await openRawNats(url)
const { connection, ns } = board
connection.subscribe(`${ns}.ev.>`, { callback: () => {} })

/** A producer with a window of 1,024. */
const produce = async (run: string, jobs: number): Promise<void> => {
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < jobs) await board.submit(`${run}-${next++}`)
  }
  await Promise.all(Array.from({ length: 1_024 }, lane))
}

/** A puller that asks the highest level first. */
const consume = (jobs: number, concurrency: number): Promise<void> =>
  new Promise((resolve, reject) => {
    let done = 0
    let active = 0
    let level = 0
    let outstanding = 0
    const inbox = createInbox()
    const ask = (): void => {
      const free = concurrency - active
      if (done === jobs || outstanding > 0 || free < concurrency / 4) return
      outstanding = free
      board.pull(LEVELS[level] ?? "0", { batch: free, no_wait: true }, inbox)
    }
    const run = async (message: Msg): Promise<void> => {
      await board.settle(message.subject.slice(message.subject.lastIndexOf(".") + 1))
      if (message.reply !== undefined) connection.publish(message.reply, Empty)
      active--
      if (++done < jobs) return ask()
      subscription.unsubscribe()
      resolve()
    }
    const subscription = connection.subscribe(inbox, {
      callback: (error, message) => {
        if (error !== null) return reject(error)
        if (message.subject === inbox) {
          // Nothing more on this level: the next one down, and the top again after the last.
          outstanding = 0
          level = (level + 1) % LEVELS.length
          return ask()
        }
        outstanding--
        active++
        if (outstanding === 0) level = 0
        void run(message).catch(reject)
      },
    })
    ask()
  })

const cycle = async (run: string, jobs: number): Promise<number> => {
  const began = performance.now()
  await Promise.all([produce(run, jobs), consume(jobs, Number(concurrencyText))])
  await connection.flush()
  return jobs / ((performance.now() - began) / 1_000)
}

const jobs = Number(jobsText)
await cycle("warm", Math.min(5_000, jobs))
await begin()
const perSecond = await cycle("job", jobs)
report({ jobs, perSecond, rssMiB: rssMiB() })
