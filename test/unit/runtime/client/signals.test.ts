/** Calls that take a signal leave no listener on it once they have ended: the signal may outlive very many of them. */
import { connectHttp } from "callboard/client"
import { afterEach, expect, test } from "vitest"
import { watchedSignal } from "../../../support/watched-signal.ts"
import { start, stopAll } from "../http/harness.ts"

afterEach(stopAll)

const serving = async () => {
  const { service, url } = await start()
  const { client } = service
  const { id } = await client.submit("work.echo", { input: 1 })
  await client.job(id).result()
  const boards = ["over a transport", "over HTTP"]
  for (const name of boards) await client.board("builds").post(name)
  return { client, url, id }
}

const notFound = { code: "not-found" }

test("waits of the client over a transport leave no listener on their signal", async () => {
  const { client, id } = await serving()
  const { signal, counts } = watchedSignal()
  const job = client.job(id)
  for (const call of [job.result, job.outcome, job.results]) await call({ signal })
  expect((await Array.fromAsync(job.events({ signal }))).length).toBeGreaterThan(0)
  for await (const _event of job.events({ signal })) break
  setTimeout(() => void client.submit("work.echo"), 10)
  for await (const _change of client.events(signal)) break
  await expect(client.job("unknown").result({ signal })).rejects.toMatchObject(notFound)
  await expect(Array.fromAsync(client.job("unknown").events({ signal }))).rejects.toMatchObject(notFound)
  const late = await client.submit("work.echo", { delay: 60 })
  await expect(late.result({ timeout: 0.01, signal })).rejects.toThrow("0.01")
  const board = client.board("builds")
  await board.wait(1, signal)
  await (await board.take("me", { signal })).consume()
  await expect(client.board("empty").take("me", { wait: 0.01, signal })).rejects.toMatchObject(notFound)
  const [open] = await Array.fromAsync(board.iterate())
  expect(await open?.wait({ timeout: 0.01, signal })).toBe(false)
  expect(counts()).toEqual({ added: expect.any(Number), left: 0 })
  expect(counts().added).toBeGreaterThan(5)
})

test("waits of the client over HTTP leave no listener on their signal", async () => {
  const { client, url, id } = await serving()
  const { signal, counts } = watchedSignal()
  const remote = connectHttp(url)
  const job = remote.job(id)
  for (const call of [job.result, job.outcome, job.results]) await call({ signal })
  await expect(remote.job("unknown").result({ signal })).rejects.toMatchObject(notFound)
  const late = await client.submit("work.echo", { delay: 60 })
  await expect(remote.job(late.id).result({ timeout: 0.01, signal })).rejects.toThrow("0.01")
  const board = remote.board("builds")
  await board.wait(1, signal)
  await (await board.take("me", { signal })).consume()
  await expect(remote.board("empty").take("me", { wait: 0.01, signal })).rejects.toMatchObject(notFound)
  const [open] = await Array.fromAsync(board.iterate())
  expect(await open?.wait({ timeout: 0.01, signal })).toBe(false)
  expect(counts()).toEqual({ added: expect.any(Number), left: 0 })
  expect(counts().added).toBeGreaterThan(5)
})
