/**
 * What Callboard does, in ten seconds: board, worker and HTTP on the embedded transport in a temporary folder, and three
 * jobs for the actors that ship, posted and followed over HTTP. Ends with exit code 1 if anything is not as expected;
 * with `--stay` it goes on after that, so that its page can be looked at.
 */
import { createHmac, randomBytes } from "node:crypto"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { isDeepStrictEqual, parseArgs } from "node:util"
import { serve } from "callboard"
import sharp from "sharp"
import { imageActor } from "../../../actors/image.ts"
import { textActor } from "../../../actors/text.ts"
import { webhookActor } from "../../../actors/webhook.ts"
import { ensurePage } from "./page.ts"

const { values: options } = parseArgs({ options: { stay: { type: "boolean", default: false } } })

/** The demo takes a few seconds; when it hangs, it fails after this time. */
const DEADLINE_MS = 60_000

const deadline = setTimeout(() => fail(`it did not end within ${DEADLINE_MS / 1000} s`), DEADLINE_MS)

const fail = (why: string): never => {
  console.error(`\nThe demo failed: ${why}`)
  cleanUp()
  process.exit(1)
}

const expectEqual = (what: string, found: unknown, expected: unknown): void => {
  if (!isDeepStrictEqual(found, expected)) {
    fail(`${what}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`)
  }
}

const folder = mkdtempSync(join(tmpdir(), "callboard-demo-"))
const cleanUp = () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
process.once("exit", cleanUp)

const began = performance.now()

// ── The service ─────────────────────────────────────────────────────────────────────────────────────────────────────

// The page is bundled by Bun; on Deno there is one if it was built before.
if ("bun" in process.versions) await ensurePage()
const secret = randomBytes(24)
const transport = `sqlite:${join(folder, "board.db")}`
const service = await serve({
  transport,
  actors: [
    textActor({ root: folder }),
    imageActor({ root: folder }),
    webhookActor({ secrets: { default: `whsec_${secret.toString("base64")}` }, allow: ["127.0.0.0/8"] }),
  ],
  http: { port: 0 },
  logLevel: "error",
})
await service.ready()
const { url } = service
if (url === undefined) throw new Error("the service does not answer HTTP")

console.log(`Callboard demo: board, worker and HTTP in one process.

  http    ${url}
  page    ${url}/
  board   ${transport}
  actors  ${(await service.client.actors()).map((actor) => actor.name).join(", ")}`)

// ── What a client does: post, follow, read ──────────────────────────────────────────────────────────────────────────

interface Job {
  readonly id: string
  readonly state: string
  readonly attempts: number
  readonly result?: unknown
  readonly error?: { readonly name: string; readonly message: string }
  readonly transitions: ReadonlyArray<{
    readonly at: string
    readonly state: string
    readonly attempt?: number
    readonly reason?: string
    readonly due?: string
  }>
}

interface Event {
  readonly type: "transition" | "progress"
  readonly state?: string
  readonly fraction?: number
}

const send = async (method: string, path: string, body?: unknown): Promise<{ status: number; answer: unknown }> => {
  const response = await fetch(`${url}${path}`, {
    method,
    ...(body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
  })
  const answer: unknown = await response.json()
  return { status: response.status, answer }
}

/** The job's server-sent events, until it ends. */
const follow = async function* (id: string): AsyncGenerator<Event> {
  const response = await fetch(`${url}/v1/jobs/${id}/events`)
  let rest = ""
  for await (const text of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
    const parts = `${rest}${text}`.split("\n\n")
    rest = parts.pop() ?? ""
    for (const part of parts) {
      const data = /^data: (.*)$/m.exec(part)?.[1]
      if (data !== undefined) yield JSON.parse(data)
    }
  }
}

const bar = (fraction: number): string => {
  const full = Math.round(fraction * 20)
  return `${"█".repeat(full)}${"░".repeat(20 - full)} ${String(Math.round(fraction * 100)).padStart(3)} %`
}

/** Progress in one line that changes, on a terminal; elsewhere now and then. */
const progressPrinter = () => {
  let last = -1
  return {
    show: (fraction: number) => {
      if (process.stdout.isTTY) process.stdout.write(`\r     ${bar(fraction)}`)
      else if (fraction - last >= 0.25 || fraction === 1) console.log(`     ${bar(fraction)}`)
      else return
      last = fraction
    },
    end: () => {
      if (process.stdout.isTTY && last >= 0) process.stdout.write("\n")
    },
  }
}

/** Posts a task, shows how it goes, and returns the job when it has ended. */
const run = async (title: string, body: { readonly task: string; readonly input: unknown }): Promise<Job> => {
  console.log(`\n── ${title}\n\n   POST /v1/jobs ${JSON.stringify(body)}`)
  const { status, answer } = await send("POST", "/v1/jobs", body)
  expectEqual("status of the submission", status, 202)
  const { id } = answer as { id: string }
  console.log(`   202 ${JSON.stringify(answer)}\n\n   GET /v1/jobs/${id}/events`)
  const progress = progressPrinter()
  for await (const { type, fraction } of follow(id)) if (type === "progress") progress.show(fraction ?? 0)
  progress.end()
  const found = await send("GET", `/v1/jobs/${id}`)
  expectEqual("status of the job", found.status, 200)
  const job = found.answer as Job
  for (const { at, state, attempt, reason } of job.transitions) {
    const more = [attempt === undefined ? "" : `attempt ${attempt}`, reason ?? ""]
      .filter((text) => text !== "")
      .join(", ")
    console.log(`     ${at.slice(11, 23)}  ${state.padEnd(9)}  ${more}`.trimEnd())
  }
  if (job.state !== "succeeded") fail(`${body.task} ${job.state}: ${job.error?.name}: ${job.error?.message}`)
  console.log(`\n   result ${JSON.stringify(job.result)}`)
  return job
}

// ── Three jobs ──────────────────────────────────────────────────────────────────────────────────────────────────────

const LINE = "All the world is a stage and all the men and women merely players.\n"
const LINES = 60_000
writeFileSync(join(folder, "play.txt"), LINE.repeat(LINES))
const counted = await run(`Count the words of ${Math.round((LINE.length * LINES) / 1e6)} MB of text`, {
  task: "text.count",
  input: { files: "play.txt", top: 3 },
})
expectEqual("words", (counted.result as { words: number }).words, LINE.split(" ").length * LINES)

mkdirSync(join(folder, "pictures"))
await sharp({ create: { width: 1_600, height: 1_200, channels: 3, background: "#7a3b2e" } })
  .png()
  .toFile(join(folder, "pictures/curtain.png"))
const { result: pictures } = await run("Make thumbnails of a picture", {
  task: "image.thumbnails",
  input: { file: "pictures/curtain.png", sizes: [160, 640], formats: ["webp", "jpeg"] },
})
const { thumbnails } = pictures as { thumbnails: ReadonlyArray<{ file: string; width: number }> }
expectEqual(
  "thumbnails",
  thumbnails.map(({ width }) => width),
  [160, 160, 640, 640],
)
for (const { file, width } of thumbnails) expectEqual(file, (await sharp(join(folder, file)).metadata()).width, width)

/** The server that receives the webhook. It answers 503 at first, so that the job is retried. */
const received: Array<{ readonly id: string; readonly signed: boolean }> = []
const endpoint = createServer((request, response) => {
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    const header = (name: string) => String(request.headers[name])
    const signed = `${header("webhook-id")}.${header("webhook-timestamp")}.${Buffer.concat(chunks).toString("utf8")}`
    const signature = `v1,${createHmac("sha256", secret).update(signed).digest("base64")}`
    received.push({ id: header("webhook-id"), signed: header("webhook-signature") === signature })
    response.writeHead(received.length === 1 ? 503 : 204, { "retry-after": "1" }).end()
  })
})
await new Promise<void>((resolve) => endpoint.listen(0, "127.0.0.1", resolve))
const address = endpoint.address()
const hook = await run("Deliver a webhook to a server that is busy at first", {
  task: "webhook.send",
  input: {
    url: `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/hooks`,
    type: "play.opened",
    data: { seats: 1_599 },
  },
})
endpoint.close()
expectEqual("deliveries", received, Array(2).fill({ id: hook.id, signed: true }))
expectEqual("attempts", hook.attempts, 2)

// ── What is wrong is said so ────────────────────────────────────────────────────────────────────────────────────────

console.log("\n── A task with a mistake in it\n")
const wrong = { task: "text.count", input: { files: "play.txt" }, prioritty: 9 }
const refused = await send("POST", "/v1/jobs", wrong)
console.log(`   POST /v1/jobs ${JSON.stringify(wrong)}\n   ${refused.status} ${JSON.stringify(refused.answer)}`)
expectEqual("status of the refusal", refused.status, 400)
expectEqual("code of the refusal", (refused.answer as { code: string }).code, "unknown-field")

const { answer: list } = await send("GET", "/v1/jobs?state=succeeded")
expectEqual("jobs that succeeded", (list as { jobs: ReadonlyArray<unknown> }).jobs.length, 3)
clearTimeout(deadline)
console.log(`\nAll as expected, in ${((performance.now() - began) / 1000).toFixed(1)} s. Next: README.md`)
if (options.stay) {
  console.log(`The page stays at ${url}/ until Ctrl-C.`)
  await service.stopped
} else await service.stop()
process.exit(0)
