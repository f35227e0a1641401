/** Packages that cannot be loaded: installed or not, by the errors of the runtime that runs this test, and of others. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { afterAll, expect, test } from "vitest"
import { missingLibrary } from "../../../../runtime/transport/mod.ts"
import { temporaryFolder } from "../../../support/servers/process.ts"

const folder = temporaryFolder()
afterAll(() => folder.remove())

/** The error with which the import of a package fails. Its code: `undefined` if it is not installed. */
const failureOf = async (name: string, code: string | undefined): Promise<unknown> => {
  if (code !== undefined) {
    const place = join(folder.path, "node_modules", name)
    mkdirSync(place, { recursive: true })
    writeFileSync(join(place, "package.json"), JSON.stringify({ name, type: "module", main: "main.js" }))
    writeFileSync(join(place, "main.js"), code)
  }
  const importer = join(folder.path, `${name.replaceAll("/", "-")}.mjs`)
  writeFileSync(importer, `export const load = () => import("${name}")\n`)
  const { load } = await import(pathToFileURL(importer).href)
  return load().then(
    () => undefined,
    (cause: unknown) => cause,
  )
}

test.each(["absent-library", "@absent/library"])(
  "%s is not installed: the message says what to install",
  async (name) => {
    const cause = await failureOf(name, undefined)
    expect(missingLibrary("plugin", name, cause)).toMatchObject({
      reason: "unsupported",
      message: `plugin: the package ${name} is missing: npm install ${name}`,
      cause,
    })
  },
)

test.each([
  ["throws-at-load", 'throw new Error("no native part")', "no native part"],
  ["needs-another", 'import "absent-dependency"', "absent-dependency"],
])("%s is installed: the message has the cause", async (name, code, reason) => {
  const { message } = missingLibrary("plugin", name, await failureOf(name, code))
  expect(message).toContain(`plugin: the package ${name} cannot be loaded: `)
  expect(message).toContain(reason)
  expect(message).not.toContain("npm install")
})

const failed = (message: string, code?: string) => Object.assign(new Error(message), code === undefined ? {} : { code })

test.each([
  ["Node", failed("Cannot find package 'pg' imported from /app/pg/a.js", "ERR_MODULE_NOT_FOUND"), true],
  ["Node, require", failed("Cannot find module 'pg'\nRequire stack:\n- /app/a.js", "MODULE_NOT_FOUND"), true],
  ["Deno", failed('Import "pg" not a dependency', "ERR_MODULE_NOT_FOUND"), true],
  [
    "Deno, with an import map",
    failed('Import "pg" not a dependency and not in import map from "file:///a.ts"', "ERR_MODULE_NOT_FOUND"),
    true,
  ],
  ["Vite", failed('Could not resolve "pg" imported by "callboard".'), true],
  ["another package", failed("Cannot find package 'pg-types' imported from 'pg'", "ERR_MODULE_NOT_FOUND"), false],
  ["its own error", failed("the option 'pg' is wrong"), false],
  ["no error", "'pg'", false],
])("the message of %s", (_, cause, missing) => {
  expect(missingLibrary("postgres", "pg", cause).message.includes("npm install pg")).toBe(missing)
})
