/** What the base class of drivers does for announcements that a broker carries in parts. */
import { expect, test } from "vitest"
import { type Capabilities, PlainDriver } from "../../../../runtime/transport/mod.ts"
import { leastCapabilities } from "../../../kit/driver/least-driver.ts"

class Parts extends PlainDriver {
  readonly capabilities: Capabilities = leastCapabilities
  readonly sent: Array<string> = []
  readonly broadcast = this.createBroadcastInParts(100, async (parts) => this.sent.push(...parts))
  hear(part: string | undefined): void {
    this.emitPart(part ?? "")
  }
}

const driverOf = () => new Parts({ namespace: "parts", lease: 1_000, name: "test", timeout: 1_000 })

test.each([0, 1, 74, 75, 76, 1_000])("an announcement of %i bytes arrives byte for byte", async (length) => {
  const driver = driverOf()
  const heard: Array<Uint8Array> = []
  await driver.broadcast.listen("topic", (payload) => heard.push(payload), new AbortController().signal)
  const payload = Uint8Array.from({ length }, (_, at) => at % 256)
  await driver.broadcast.send("topic", payload)
  for (const part of driver.sent) driver.hear(part)
  expect(heard).toEqual([payload])
  expect(Math.max(...driver.sent.map((part) => part.length))).toBeLessThanOrEqual(110)
})

test("an announcement that was cut off, and a text of another program, do not spoil the next one", async () => {
  const driver = driverOf()
  const heard: Array<Uint8Array> = []
  await driver.broadcast.listen("topic", (payload) => heard.push(payload), new AbortController().signal)
  const [cut, whole] = [new Uint8Array(200).fill(1), new Uint8Array(200).fill(2)]
  await driver.broadcast.send("topic", cut)
  driver.hear(driver.sent.splice(0)[0])
  driver.hear("not a part")
  await driver.broadcast.send("topic", whole)
  for (const part of driver.sent) driver.hear(part)
  expect(heard).toEqual([whole])
})
