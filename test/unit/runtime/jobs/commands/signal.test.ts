/** Names and keys of signals that no job takes, refused alike by the client over a transport and over HTTP. */
import { connectHttp } from "callboard/client"
import { afterEach, expect, test } from "vitest"
import { start, stopAll } from "../../http/harness.ts"

afterEach(stopAll)

const TEXT = "must be well-formed text of 1 to 128 bytes without control characters"

test("names and keys that no signal may have are refused in the same words in code and over HTTP", async () => {
  const { service, url } = await start()
  const { id } = await service.client.submit("work.echo", { delay: 600 })
  for (const client of [service.client, connectHttp(url)]) {
    const job = client.job(id)
    const fails = (field: string, message: string) => ({ code: "invalid-input", message: `${field}: ${message}` })
    for (const text of ["", "\ud800", "a\nb", "é".repeat(65)])
      await expect(job.signal("go", 1, { key: text })).rejects.toMatchObject(fails("key", TEXT))
    for (const text of ["", ".", "..", "\ud800", "a\nb", "é".repeat(65)])
      await expect(job.signal(text)).rejects.toMatchObject(fails("name", `${TEXT}, and not . or ..`))
    for (const name of ["...", "a/b", "50 %", "é".repeat(64)]) await job.signal(name, 1, { key: "." })
    await expect(client.job("\ud800").find()).rejects.toMatchObject({ code: "not-found" })
  }
  expect((await service.client.job(id).find()).signals?.map(({ name }) => name)).toEqual(["..."])
})
