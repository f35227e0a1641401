/** A field that is `undefined` compiles wherever options are taken, also with `exactOptionalPropertyTypes`. */
import {
  type Client,
  type Config,
  connect,
  connectCelery,
  connectSync,
  fetchBoard,
  type HttpOptions,
  http as hono,
  type ReconnectOptions,
  serve,
  type Token,
} from "callboard"
import { connectHttp } from "callboard/client"
import { crashEverywhere, forEachSeed, runActor, virtualClock } from "callboard/testing"

export const submits = async (client: Client): Promise<void> => {
  const job = await client.submit("a", {
    input: undefined,
    delay: undefined,
    timeLimit: { soft: undefined, hard: 5 },
    retry: { max: 1, on: undefined, backoff: { base: undefined } },
    repeat: { times: 1, interval: undefined },
    callbacks: [{ task: "b", delay: undefined, retry: { max: 1, front: undefined } }],
    after: undefined,
    meta: undefined,
  })
  await client.submitMany([{ task: "a", queue: undefined, chain: [{ task: "b", errbacks: undefined }] }])
  await job.result({ timeout: undefined, signal: undefined })
  await job.results({ wait: undefined })
  await job.cancel({ terminate: undefined, release: undefined })
  await job.retry({ from: undefined })
  await job.delete({ dependents: undefined })
  job.events({ lastEventId: undefined, signal: undefined })
  await client.jobs({ states: undefined, task: undefined, since: undefined, limit: undefined })
  await client.purge("q", { budget: undefined })
  await client.waiting("q", { offset: undefined, limit: undefined })
  await client.suspend("w", { ttl: undefined })
  await client.revoke({ header: "h", values: ["v"], terminate: undefined, ttl: undefined })
  await client.schedules.create("s", { task: "a", cron: undefined, every: 60, timeZone: undefined, retry: undefined })
  await client.schedules.list({ limit: undefined, after: undefined })
  const board = client.board("b", { lease: undefined, reclaimAfter: undefined })
  const posted = await board.post("n", { details: undefined, priority: undefined, book: undefined })
  await board.claim(posted.id, "me", { expiry: undefined })
  await board.waitFor(posted.id, { timeout: undefined, delay: undefined })
  await board.list({ onlyUnclaimed: undefined, limit: undefined, after: undefined })
  // @ts-expect-error a field that must be there
  await client.submitMany([{ task: undefined }])
  // @ts-expect-error a misspelt field
  await client.submit("a", { dealy: undefined })
  // @ts-expect-error a misspelt field within a field
  await client.submit("a", { retry: { backof: undefined } })
}

export const submitsOverHttp = async (): Promise<void> => {
  const job = await connectHttp("http://127.0.0.1:1").submit("a", { input: 1, retry: { max: 1, on: undefined } })
  await job.result({ timeout: undefined })
}

export const config: Config = {
  concurrency: undefined,
  retry: { max: undefined },
  http: { port: undefined },
  logLevel: undefined,
}

export const settings = async (): Promise<void> => {
  const reconnect = { enabled: undefined, base: undefined, jitter: undefined } satisfies ReconnectOptions
  const token: Token = { token: "0123456789abcdef", scopes: ["read"], name: undefined }
  const http = { port: undefined, host: undefined, tokens: [token], page: undefined } satisfies HttpOptions
  await connect("memory:", { namespace: undefined, lease: undefined, reconnectDelay: undefined })
  await connectSync("memory:", { actors: [], resultTtl: undefined, timeLimit: { soft: undefined, hard: 5 } })
  connectHttp("http://127.0.0.1:1", { token: undefined, timeout: undefined })
  await serve({ reconnect, http, actors: undefined, onFailure: undefined, onReady: undefined, timeLimit: undefined })
  hono(await connect("memory:"), { tokens: undefined, open: true, bounds: { streams: undefined }, log: undefined })
  fetchBoard("b", "memory:", { boards: undefined, transports: undefined, lease: undefined })
}

export const celery = async (): Promise<void> => {
  const client = await connectCelery({ broker: "memory:", resultBackend: "rpc:", queue: undefined, name: undefined })
  const timeLimit = { soft: undefined, hard: 5 }
  const job = await client.submit("add", { args: undefined, kwargs: undefined, delay: undefined, timeLimit })
  await client.chain({ task: "add", args: undefined }, { task: "add", queue: undefined })
  await job.result({ timeout: undefined })
  await client.control("ping", { arguments: undefined, destination: undefined, timeout: undefined })
}

export const tests = async (actor: Parameters<typeof runActor>[0]): Promise<void> => {
  const run = await runActor(actor, { actors: undefined, concurrency: undefined, timeout: undefined, clock: undefined })
  await run.drain({ timeout: undefined })
  await virtualClock({ start: undefined, seed: undefined }).until(Promise.resolve(), { within: undefined })
  await forEachSeed({ seeds: undefined, from: undefined }, async () => undefined)
  await crashEverywhere(actor, { method: "run", look: () => 1, begin: undefined, freeze: undefined, wrap: undefined })
}
