import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, test } from "vitest"
import { loadConfigFile } from "../../../../runtime/config/file.ts"
import { temporaryFolder } from "../../../support/servers/process.ts"

describe("the configuration file", () => {
  const load = async (files: Record<string, string>) => {
    using folder = temporaryFolder()
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder.path, name), text)
    return await loadConfigFile(folder.path)
  }

  test("may be absent, an object or a function", async () => {
    expect(await load({})).toBeUndefined()
    expect(await load({ "callboard.config.ts": "export default { prefetch: 2 as number }" })).toEqual({
      name: "callboard.config.ts",
      value: { prefetch: 2 },
    })
    expect(await load({ "callboard.config.mjs": "export default async () => ({ prefetch: 3 })" })).toEqual({
      name: "callboard.config.mjs",
      value: { prefetch: 3 },
    })
  })

  test("there may be one, and it must load", async () => {
    await expect(load({ "callboard.config.ts": "", "callboard.config.js": "" })).rejects.toThrow(/both .* remove one/)
    await expect(load({ "callboard.config.ts": "throw new Error('no database')" })).rejects.toThrow(
      "callboard.config.ts cannot be loaded: no database",
    )
  })
})
