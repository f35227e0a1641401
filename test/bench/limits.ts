/**
 * What a limit costs, and how well a rate is kept: prints starts per second as JSON.
 * `limits.ts <transport> starts [limited|free]`: 2,000 jobs of 5 ms each, ten at a time, by a limit or by the worker alone.
 * `limits.ts <transport> rate <per second> <seconds>`: starts per second of a rate, over that time, with more jobs waiting.
 */
import { actor, type ServeOptions, type Service, serve } from "callboard"

const [transport = "memory:", part = "starts", ...words] = process.argv.slice(2)

type Served = NonNullable<ServeOptions["actors"]>

const serving = (actors: Served, concurrency: number): Promise<Service> =>
  serve({ transport, actors, concurrency, logLevel: "warn", signals: false })

const CHUNK = 1_000
const fill = async (service: Service, task: string, count: number): Promise<void> => {
  for (let left = count; left > 0; left -= CHUNK) {
    const size = Math.min(CHUNK, left)
    for (const answer of await service.client.submitMany(Array.from({ length: size }, () => ({ task })))) {
      if (answer instanceof Error) throw answer
    }
  }
}

const starts = async (isLimited: boolean): Promise<number> => {
  const jobs = 2_000
  let ended = 0
  let began = 0
  const all = Promise.withResolvers<number>()
  const nap = actor("nap", {
    methods: {
      run: {
        ...(isLimited ? { limit: { concurrency: 10 } } : {}),
        run: async () => {
          began ||= performance.now()
          await new Promise((resolve) => setTimeout(resolve, 5))
          if (++ended === jobs) all.resolve(performance.now())
        },
      },
    },
  })
  const service = await serving([nap], isLimited ? 20 : 10)
  await service.ready()
  await fill(service, "nap", jobs)
  const took = (await all.promise) - began
  await service.stop()
  return jobs / (took / 1_000)
}

const rate = async (perSecond: number, seconds: number): Promise<number> => {
  const at: Array<number> = []
  const tick = actor("tick", {
    methods: { run: { limit: { rate: `${perSecond}/s` }, run: async () => void at.push(performance.now()) } },
  })
  const service = await serving([tick], 50)
  await service.ready()
  await fill(service, "tick", Math.ceil(perSecond * seconds * 1.2) + 10)
  while (at.length === 0) await new Promise((resolve) => setTimeout(resolve, 10))
  await new Promise((resolve) => setTimeout(resolve, (seconds + 1) * 1_000))
  const first = at[0] ?? 0
  const counted = at.filter((time) => time < first + seconds * 1_000).length
  await service.stop()
  return counted / seconds
}

const perSecond =
  part === "rate" ? await rate(Number(words[0]), Number(words[1])) : await starts(words[0] === "limited")
console.log(JSON.stringify({ perSecond }))
process.exit(0)
