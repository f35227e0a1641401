/** The producer of docs/wire-nats.md on Node. It uses the package `nats` only, and no code of Callboard. */
import { mkdirSync, symlinkSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { actor, connect } from "callboard"
import { expect, test } from "vitest"
import { makeProject } from "../cli/project.ts"
import { keep } from "../support/servers/keep.ts"
import { startNats } from "../support/servers/nats.ts"
import { spawnProcess } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { producers } from "../support/tools/pages.ts"

const hello = actor("hello", { methods: { count: ({ to }: { readonly to: number }) => ({ counted: to }) } })

test("a program on Node submits with native headers, and receives the end of its job", async () => {
  const nats = keep(await startNats())
  await start([hello], { transport: nats.url })
  using project = makeProject({ "producer.mjs": producers["producer.mjs"] })
  mkdirSync(`${project.path}/node_modules`, { recursive: true })
  symlinkSync(fileURLToPath(new URL("../../node_modules/nats", import.meta.url)), `${project.path}/node_modules/nats`)
  await using run = spawnProcess("node", ["producer.mjs"], { cwd: project.path, env: { NATS_URL: nats.url } })
  const { code } = await run.closed
  expect({ code, output: run.output }).toEqual({
    code: 0,
    output: 'stored in callboard_queue\nsucceeded {"counted":3}\n',
  })
  const client = keep(await connect(nats.url))
  expect((await client.jobs()).jobs).toMatchObject([{ name: "hello.count", state: "succeeded", attempts: 1 }])
})
