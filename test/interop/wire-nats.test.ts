/** The producer of docs/wire-nats.md in Python, which speaks the protocol of NATS over a socket and needs no package. */
import { actor, connect } from "callboard"
import { expect, test } from "vitest"
import { makeProject } from "../cli/project.ts"
import { startCelery } from "../support/servers/celery.ts"
import { keep } from "../support/servers/keep.ts"
import { startNats } from "../support/servers/nats.ts"
import { start } from "../support/services.ts"
import { producers } from "../support/tools/pages.ts"

const hello = actor("hello", { methods: { count: ({ to }: { readonly to: number }) => ({ counted: to }) } })

test("a program in Python submits over a socket, and receives the end of its job", { timeout: 300_000 }, async ({
  onTestFailed,
}) => {
  const nats = keep(await startNats())
  using project = makeProject({ "producer.py": producers["producer.py"] })
  const run = async () => {
    const program = await startCelery("5.6", project.path, ["producer.py"], { NATS_URL: nats.url })
    onTestFailed(() => console.error(`The producer has printed:\n${program.output}`))
    return program
  }
  await using early = await run()
  expect(await early.closed).toMatchObject({ code: 1 })
  expect(early.output).toContain("there is no such stream")
  await start([hello], { transport: nats.url })
  await using producer = await run()
  const { code } = await producer.closed
  expect({ code, output: producer.output }).toEqual({
    code: 0,
    output: 'stored in callboard_queue\nsucceeded {"counted":3}\n',
  })
  const client = keep(await connect(nats.url))
  expect((await client.jobs()).jobs).toMatchObject([{ name: "hello.count", state: "succeeded", attempts: 1 }])
})
