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
