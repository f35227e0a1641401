/** Writes the table of settings into its page: `bun test/support/tools/write-settings-table.ts`. A test says when that is due. */
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { withSettingsTable } from "./settings-table.ts"

const path = fileURLToPath(new URL("../../../docs/configuration.md", import.meta.url))
writeFileSync(path, withSettingsTable(readFileSync(path, "utf8")))
