import { createHmac, randomBytes } from "node:crypto"
import { once } from "node:events"
import { createServer } from "node:net"
import { actor } from "callboard"
import { type RunOptions, runActor, virtualClock } from "callboard/testing"
import { Webhook } from "standardwebhooks"
import { describe, expect, test } from "vitest"
import { addressGuard } from "../../../actors/webhook/address.ts"
import { retryAfter } from "../../../actors/webhook/request.ts"
import webhook, { type WebhookOptions, webhookActor } from "../../../actors/webhook.ts"
import { endpoint, statuses } from "./endpoint.ts"

const key = randomBytes(24)
const secret = `whsec_${key.toString("base64")}`
const event = { type: "invoice.paid", data: { id: 7, note: "größe" } }

const run = (options: WebhookOptions = {}, runOptions: RunOptions = {}) =>
  runActor(webhookActor({ secrets: { default: secret }, allow: ["127.0.0.0/8", "::1/128"], ...options }), runOptions)

describe("webhook.send", () => {
  test("sends a signed event that the other side can verify", async () => {
    await using hook = await endpoint(statuses(204))
    await using worker = await run()
    const job = await worker.submit.send({ url: hook.url, ...event, timestamp: "2026-01-02T03:04:05Z" })
    expect(await job.result({ timeout: 60 })).toEqual({ id: job.id, status: 204, milliseconds: expect.any(Number) })
    const [{ method, path, headers, body } = never()] = hook.received
    expect([method, path, headers["content-type"], headers.host]).toEqual([
      "POST",
      "/hook?a=1",
      "application/json",
      `127.0.0.1:${hook.port}`,
    ])
    expect(JSON.parse(body)).toEqual({ ...event, timestamp: "2026-01-02T03:04:05Z" })
    // By hand, as the specification says it: base64(hmac-sha256(secret, `${id}.${timestamp}.${body}`)).
    const signed = createHmac("sha256", key)
      .update(`${job.id}.${headers["webhook-timestamp"]}.${body}`)
      .digest("base64")
    expect(headers["webhook-signature"]).toBe(`v1,${signed}`)
    expect(new Webhook(secret).verify(body, textHeaders(headers))).toMatchObject(event)
    expect(Math.abs(Number(headers["webhook-timestamp"]) - Date.now() / 1000)).toBeLessThan(5)
  })

  test("signs as the example of the specification does", async () => {
    const signature = new Webhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").sign(
      "msg_p5jXN8AQM9LWM0D4loKWxJek",
      new Date(1614265330_000),
      '{"test": 2432232314}',
    )
    expect(signature).toBe("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
  })

  test("signs with every secret of a name while one replaces the other", async () => {
    const next = `whsec_${randomBytes(24).toString("base64")}`
    await using hook = await endpoint(statuses(200))
    await using worker = await run({ secrets: { shop: [secret, next] } })
    await worker.call.send({ url: hook.url, ...event, secret: "shop" })
    const [{ headers, body } = never()] = hook.received
    expect(headers["webhook-signature"]).toMatch(/^v1,\S+ v1,\S+$/)
    for (const each of [secret, next]) new Webhook(each).verify(body, textHeaders(headers))
    expect(await (await worker.submit.send({ url: hook.url, ...event })).outcome()).toMatchObject({
      state: "failed",
      error: { name: "NoSecret", message: "no secret default is configured; set WEBHOOK_SECRET" },
    })
  })

  test("tries again while the endpoint is busy, with the same id and a fresh signature", async () => {
    await using hook = await endpoint(statuses(503, 429, 500, 200))
    await using worker = await run()
    const job = await worker.submit.send({ url: hook.url, ...event })
    expect(await job.result({ timeout: 60 })).toMatchObject({ status: 200 })
    expect((await job.find()).attempts).toBe(4)
    expect(new Set(hook.received.map(({ headers }) => headers["webhook-id"]))).toEqual(new Set([job.id]))
    for (const { headers, body } of hook.received) new Webhook(secret).verify(body, textHeaders(headers))
  })

  test("gives up after the last retry, and says why", async () => {
    await using hook = await endpoint(statuses(503))
    await using worker = await run()
    const job = await worker.submit.send({ url: hook.url, ...event }, { retry: { max: 2 } })
    expect(await job.outcome({ timeout: 60 })).toMatchObject({
      state: "failed",
      error: { name: "EndpointBusy", message: "the endpoint answered 503" },
    })
    expect(hook.received).toHaveLength(3)
  })

  test("waits as long as Retry-After says", async () => {
    await using hook = await endpoint((response) => response.writeHead(429, { "retry-after": "120" }).end())
    await using worker = await run({}, { backoff: "real" })
    const job = await worker.submit.send({ url: hook.url, ...event })
    for await (const news of job.events()) {
      if (news.type !== "transition" || news.state !== "scheduled") continue
      expect((Date.parse(news.due ?? "") - Date.parse(news.at)) / 1000).toBeCloseTo(120, 0)
      break
    }
    await job.cancel()
  })

  test("gives up with the answer as its reason when Retry-After comes too often", async () => {
    await using hook = await endpoint((response) => response.writeHead(429, { "retry-after": "1" }).end())
    await using worker = await run()
    const job = await worker.submit.send({ url: hook.url, ...event }, { retry: { max: 1 } })
    expect(await job.outcome({ timeout: 60 })).toMatchObject({ state: "failed", error: { name: "EndpointBusy" } })
    expect(hook.received).toHaveLength(2)
  })

  test.each([400, 401, 404, 410, 422])("an answer of %i ends it at once", async (status) => {
    await using hook = await endpoint(statuses(status))
    await using worker = await run()
    const job = await worker.submit.send({ url: hook.url, ...event })
    expect(await job.outcome({ timeout: 60 })).toMatchObject({
      state: "failed",
      error: { name: "EndpointRefused", message: `the endpoint answered ${status}` },
    })
    expect(hook.received).toHaveLength(1)
  })

  test.each([301, 302, 307, 308])("a redirect (%i) is not followed", async (status) => {
    await using other = await endpoint(statuses(200))
    await using hook = await endpoint((response) => response.writeHead(status, { location: other.url }).end())
    await using worker = await run()
    await expect(worker.call.send({ url: hook.url, ...event })).rejects.toMatchObject({
      error: { name: "EndpointRedirected", message: expect.stringContaining(other.url) },
    })
    expect([hook.received.length, other.received.length]).toEqual([1, 0])
  })

  test("an endpoint that never answers is left at the soft limit, and tried again", async () => {
    const arrived = Promise.withResolvers<void>()
    await using hook = await endpoint((response, at) => {
      if (at > 0) response.writeHead(200).end()
      else arrived.resolve()
    })
    // Time passes only while the endpoint owes its first answer, so that the second comes in time on a busy machine too.
    using clock = virtualClock()
    await using worker = await run({}, { clock })
    const job = await worker.submit.send({ url: hook.url, ...event }, { timeLimit: { soft: 20, hard: 60 } })
    await arrived.promise
    await clock.advance(19)
    expect(hook.received).toHaveLength(1)
    await clock.advance(2)
    expect(await job.result()).toMatchObject({ status: 200 })
    expect((await job.find()).attempts).toBe(2)
  })

  test("an answer whose body never ends is not waited for", async () => {
    await using hook = await endpoint((response) => void response.writeHead(200).write("and so on"))
    await using worker = await run()
    expect(await worker.call.send({ url: hook.url, ...event })).toMatchObject({ status: 200 })
  })

  test("a cancelled job hangs up", async () => {
    const arrived = Promise.withResolvers<void>()
    const hungUp = Promise.withResolvers<void>()
    await using hook = await endpoint((response) => {
      response.on("close", () => hungUp.resolve())
      arrived.resolve()
    })
    await using worker = await run()
    const job = await worker.submit.send({ url: hook.url, ...event })
    await arrived.promise
    await job.cancel()
    await hungUp.promise
    expect(await job.outcome()).toEqual({ state: "cancelled" })
  })

  test("a connection that is cut, or was never there, is tried again", async () => {
    await using hook = await endpoint(
      (response, at) => void (at === 0 ? response.destroy() : response.writeHead(200).end()),
    )
    await using worker = await run()
    const job = await worker.submit.send({ url: hook.url, ...event })
    expect(await job.result({ timeout: 60 })).toMatchObject({ status: 200 })
    expect((await job.find()).attempts).toBe(2)

    const closed = createServer().listen(0, "127.0.0.1")
    await once(closed, "listening")
    const address = closed.address()
    await new Promise((resolve) => closed.close(resolve))
    const port = typeof address === "object" ? address?.port : 0
    const lost = await worker.submit.send({ url: `http://127.0.0.1:${port}/`, ...event }, { retry: { max: 1 } })
    expect(await lost.outcome({ timeout: 60 })).toMatchObject({
      state: "failed",
      error: { name: "EndpointUnreachable" },
    })
    expect((await lost.find()).attempts).toBe(2)
  })
})

/** Jobs to tell of. */
const shop = actor("shop", {
  methods: {
    sell: () => "tea",
    fail: () => {
      throw new RangeError("sold out")
    },
    wait: () => new Promise(() => undefined),
  },
})

describe("webhook.notify", () => {
  const runShop = (options: WebhookOptions = {}) =>
    runActor(webhookActor({ secrets: { default: secret }, allow: ["127.0.0.0/8"], ...options }), { actors: [shop] })

  test("tells how the job ended that it follows, signed where there is a secret", async () => {
    await using hook = await endpoint(statuses(200))
    await using worker = await runShop()
    const sold = await worker.client.submit("shop.sell")
    await sold.result()
    const notify = await worker.submit.notify({ url: hook.url }, { parentId: sold.id })
    expect(await notify.result()).toMatchObject({ id: notify.id, status: 200 })
    const [{ method, headers, body } = never()] = hook.received
    const { times } = await sold.find()
    expect([method, headers["content-type"], JSON.parse(body)]).toEqual([
      "POST",
      "application/json",
      {
        job_id: sold.id,
        func_name: "shop.sell",
        status: "finished",
        enqueued_at: times.submitted,
        ended_at: times.ended,
      },
    ])
    expect(new Webhook(secret).verify(body, textHeaders(headers))).toMatchObject({ job_id: sold.id })
  })

  test("GET has no body, needs no record, and is signed all the same", async () => {
    await using hook = await endpoint(statuses(200))
    await using worker = await runShop()
    await worker.call.notify({ url: hook.url, method: "GET" })
    const [{ method, headers, body } = never()] = hook.received
    expect([method, body, headers["content-type"]]).toEqual(["GET", "", undefined])
    const signed = createHmac("sha256", key)
      .update(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`)
      .digest("base64")
    expect(headers["webhook-signature"]).toBe(`v1,${signed}`)
  })

  test("is not signed where no secret is configured; one that it names must be", async () => {
    await using hook = await endpoint(statuses(200))
    await using worker = await runShop({ secrets: {} })
    expect(await worker.call.notify({ url: hook.url, method: "GET" })).toMatchObject({ status: 200 })
    expect(hook.received[0]?.headers["webhook-signature"]).toBeUndefined()
    await expect(worker.call.notify({ url: hook.url, method: "GET", secret: "shop" })).rejects.toMatchObject({
      error: { name: "NoSecret" },
    })
  })

  test("tries again while the endpoint is busy", async () => {
    await using hook = await endpoint(statuses(503, 200))
    await using worker = await runShop()
    const failed = await worker.client.submit("shop.fail")
    await failed.outcome()
    const job = await worker.submit.notify({ url: hook.url }, { parentId: failed.id })
    expect(await job.result({ timeout: 60 })).toMatchObject({ status: 200 })
    expect(hook.received.map(({ body }) => JSON.parse(body))).toEqual([
      expect.objectContaining({ status: "failed", exc_info: expect.stringContaining("sold out") }),
      expect.objectContaining({ job_id: failed.id }),
    ])
  })

  test("fails at once when there is nothing to tell", async () => {
    await using hook = await endpoint(statuses(200))
    await using worker = await runShop()
    const outcomeAfter = async (parentId?: string) => {
      const job = await worker.submit.notify({ url: hook.url }, parentId === undefined ? {} : { parentId })
      return { ...(await job.outcome({ timeout: 60 })), attempts: (await job.find()).attempts }
    }
    const nothing = (message: string) => ({
      attempts: 1,
      error: { name: "NoEndedJob", message: expect.stringContaining(message) },
    })
    expect(await outcomeAfter()).toMatchObject(nothing("it follows no job"))
    expect(await outcomeAfter("unheard-of")).toMatchObject(nothing("job unheard-of is no longer kept"))
    const forgotten = await worker.client.submit("shop.sell")
    await forgotten.result()
    await forgotten.delete()
    expect(await outcomeAfter(forgotten.id)).toMatchObject(nothing("is no longer kept"))
    const waiting = await worker.client.submit("shop.wait", { delay: 60 })
    expect(await outcomeAfter(waiting.id)).toMatchObject(nothing(`job ${waiting.id} is scheduled`))
    expect(hook.received).toEqual([])
  })

  test("speaks to public addresses only, too", async () => {
    await using worker = await runShop({ allow: [] })
    await expect(worker.call.notify({ url: "http://127.0.0.1:9/", method: "GET" })).rejects.toMatchObject({
      error: { name: "AddressRefused" },
    })
  })

  test.each([
    [{ url: "nonsense" }, "url"],
    [{ url: "https://example.com", method: "PUT" }, "method"],
    [{ url: "https://example.com", data: {} }, "data"],
  ])("%j is refused, naming %s", async (input, field) => {
    await using worker = await runShop()
    const job = await worker.client.submit("webhook.notify", { input })
    expect(await job.outcome()).toMatchObject({ state: "failed", error: { name: "InvalidInput", field } })
  })
})

describe("webhook speaks to public addresses only", () => {
  test.each([
    "http://127.0.0.1:9/",
    "http://localhost:9/",
    "http://[::1]:9/",
    "http://[::ffff:127.0.0.1]:9/",
    "http://[::127.0.0.1]:9/",
    "http://[::10.1.2.3]:9/",
    "http://2130706433:9/",
    "http://0x7f.1:9/",
    "http://10.1.2.3/",
    "http://172.16.0.1/",
    "http://192.168.1.1/",
    "https://169.254.169.254/latest/meta-data/",
    "http://100.64.0.1/",
    "http://0.0.0.0:9/",
    "http://[fd00::1]/",
    "http://[fe80::1]/",
    "http://[64:ff9b::a00:1]/",
    "http://224.0.0.1/",
  ])("%s is refused, without a retry", async (url) => {
    await using worker = await run({ allow: [] })
    const job = await worker.submit.send({ url, ...event })
    expect(await job.outcome({ timeout: 60 })).toMatchObject({ state: "failed", error: { name: "AddressRefused" } })
    expect((await job.find()).attempts).toBe(1)
  })

  test("a network that is allowed is spoken to, its neighbours are not", async () => {
    await using hook = await endpoint(statuses(200))
    await using worker = await run({ allow: ["127.0.0.1/32"] })
    expect(await worker.call.send({ url: hook.url, ...event })).toMatchObject({ status: 200 })
    await expect(worker.call.send({ url: "http://127.0.0.2:9/", ...event })).rejects.toMatchObject({
      error: { name: "AddressRefused" },
    })
  })

  test("a name is connected to at the address that was checked", async () => {
    await using hook = await endpoint(statuses(200))
    await using worker = await run()
    expect(await worker.call.send({ url: `http://localhost:${hook.port}/named`, ...event })).toMatchObject({
      status: 200,
    })
    expect(hook.received[0]?.headers.host).toBe(`localhost:${hook.port}`)
  })

  test("public addresses pass", () => {
    const guard = addressGuard([])
    for (const host of ["93.184.215.14", "[2606:4700::1111]", "example.com"]) guard.checkHost(host)
  })
})

describe("webhook configuration", () => {
  test.each([
    [{ allow: ["10.0.0.0"] }, "10.0.0.0 is not a network such as 10.1.0.0/16"],
    [{ secrets: { shop: "whsec_%%%" } }, "the secret shop is not base64 after whsec_"],
  ])("%j is refused when the worker starts", async (options, message) => {
    await expect(run(options)).rejects.toMatchObject({
      _tag: "ActorStartFailed",
      message: `actor webhook did not start: ${message}`,
    })
  })
})

describe("webhook input", () => {
  test.each([
    [{ ...event }, "url"],
    [{ ...event, url: "nonsense" }, "url"],
    [{ ...event, url: "file:///etc/passwd" }, "url"],
    [{ ...event, url: "https://user:pass@example.com" }, "url"],
    [{ ...event, url: "https://example.com", type: "a b" }, "type"],
    [{ ...event, url: "https://example.com", timestamp: "yesterday" }, "timestamp"],
    [{ ...event, url: "https://example.com", body: 1 }, "body"],
  ])("%j is refused, naming %s", async (input, field) => {
    await using worker = await runActor(webhook)
    const job = await worker.client.submit("webhook.send", { input })
    expect(await job.outcome()).toMatchObject({ state: "failed", error: { name: "InvalidInput", field } })
  })
})

describe("Retry-After", () => {
  const now = Date.UTC(2026, 0, 1)
  test.each([
    [undefined, undefined],
    ["", undefined],
    ["soon", undefined],
    ["0", 0],
    ["120", 120],
    ["Thu, 01 Jan 2026 00:01:00 GMT", 60],
    ["Wed, 31 Dec 2025 23:59:00 GMT", 0],
    ["99999999999", 86_400],
  ])("%j is %j seconds", (header, seconds) => {
    expect(retryAfter(header, now)).toBe(seconds)
  })
})

const never = (): never => {
  throw new Error("nothing was received")
}

const textHeaders = (headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
