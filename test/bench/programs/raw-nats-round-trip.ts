/**
 * One job at a time over JetStream: publish, delivery to a pull that waits, terminal record, and its event.
 * `raw-nats-round-trip.ts <url> <jobs> <ms between jobs>`
 */
import { createInbox, Empty } from "nats"
import { begin, nap, quantiles, report } from "./program.js"
import { openRawNats } from "./raw-nats-board.ts"

const [url = "nats://127.0.0.1:4222", jobsText = "1000", gapText = "0"] = process.argv.slice(2)
const jobs = Number(jobsText)
const gapMs = Number(gapText)
const board = await openRawNats(url)

let known: () => void = () => {}
board.connection.subscribe(`${board.ns}.ev.>`, { callback: () => known() })

const inbox = createInbox()
const ask = (): void => board.pull("4", { batch: 1, expires: 60_000_000_000 }, inbox)
board.connection.subscribe(inbox, {
  callback: (error, message) => {
    if (error !== null) throw error
    // A request that has expired is answered on the inbox itself.
    if (message.subject === inbox) return ask()
    void board.settle(message.subject.slice(message.subject.lastIndexOf(".") + 1)).then(() => {
      if (message.reply !== undefined) board.connection.publish(message.reply, Empty)
    })
    ask()
  },
})
ask()

const trips = async (run: string, count: number): Promise<ReadonlyArray<number>> => {
  const times: Array<number> = []
  for (let n = 0; n < count; n++) {
    if (gapMs > 0) await nap(gapMs)
    const began = performance.now()
    const event = new Promise<void>((resolve) => {
      known = resolve
    })
    await board.submit(`${run}-${n}`)
    await event
    times.push(performance.now() - began)
  }
  return times
}

await trips("warm", 100)
await begin()
report({ jobs, ...quantiles(await trips("job", jobs)) })
