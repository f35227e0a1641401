/** `npm run demo`: everything in it is as it expects, and nothing of it stays. */
import { readdirSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { expect, test } from "vitest"
import { spawnScript, temporaryFolder } from "../support/servers/process.ts"

test("the demo ends well, and leaves nothing behind", { timeout: 60_000 }, async () => {
  using folder = temporaryFolder()
  const script = fileURLToPath(new URL("../support/tools/demo.ts", import.meta.url))
  await using demo = spawnScript(script, [], { env: { TMPDIR: folder.path } })
  const { code } = await demo.closed
  expect({ code, errors: demo.stderr }).toEqual({ code: 0, errors: "" })
  expect(demo.stdout).toMatch(/attempt 2/)
  expect(demo.stdout).toMatch(/^All as expected, in \d+\.\d s/m)
  expect(readdirSync(folder.path)).toEqual([])
})

test("it goes on where it is told to, with its page, until it is ended", { timeout: 90_000 }, async () => {
  using folder = temporaryFolder()
  const script = fileURLToPath(new URL("../support/tools/demo.ts", import.meta.url))
  await using demo = spawnScript(script, ["--stay"], { env: { TMPDIR: folder.path } })
  const [, url = ""] = await demo.waitForLine(/^The page stays at (\S+) until Ctrl-C\.$/)
  const page = await fetch(url, { headers: { accept: "text/html" } })
  expect([page.status, await page.text()]).toEqual([200, expect.stringContaining("<title>Callboard</title>")])
  demo.killGroup("SIGINT")
  expect(await demo.closed).toEqual({ code: 0, signal: null })
  expect(readdirSync(folder.path)).toEqual([])
})
