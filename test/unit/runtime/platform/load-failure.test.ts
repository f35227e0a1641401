/** Files that Node cannot load: what discovery says about each. On Bun and Deno most of them load. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { spawnProcess, temporaryFolder } from "../../../support/servers/process.ts"
import { findNode } from "../../../support/tools/node.js"

const folder = temporaryFolder()
afterAll(() => folder.remove())

const cases = {
  enum: ["export enum Color { Red }", /mod\.ts:1:8 cannot be loaded: Node cannot run an enum: write const Color = /],
  property: [
    "export class A { constructor(private b: string) {} }",
    /mod\.ts:1:\d+ .* parameter property: write a field/,
  ],
  decorator: [
    "const log = (of: unknown) => of\n@log\nexport class A {}",
    /mod\.ts cannot be loaded: .* cannot run a decorator, so call it as a function/,
  ],
  namespace: ["export namespace A { export const b = 1 }", /mod\.ts:1:8 .* namespace with values: write a module/],
  require: ['import a = require("./_q.ts")\nexport { a }', /mod\.ts:1:1 .* write import … from …/],
  cast: ["export const a = <string>process.title", /mod\.ts:1:\d+ .*'as' syntax/],
  js: [
    'import "./_q.js"',
    /mod\.ts cannot be loaded: there is no file \.\/_q\.js: write "\.\/_q\.ts", since Node imports/,
  ],
  bare: ['import "./_q"', /mod\.ts cannot be loaded: there is no file \.\/_q: write "\.\/_q\.ts", since Node imports/],
  folder: ['import "./_lib"', /there is no file \.\/_lib: write "\.\/_lib\/index\.ts"/],
  missing: ['import "./_none.ts"', /mod\.ts cannot be loaded: Cannot find module '.*_none\.ts'/],
  alias: [
    'import "@/q"',
    /there is no package @\/q: write a relative path, since Node does not read the paths of tsconfig/,
  ],
  type: [
    'import { T } from "./_q.ts"\nexport type U = T',
    /mod\.ts:1:10 .*\.\/_q\.ts exports no value T: .* write import type \{ T \} from/,
  ],
  exported: [
    "type T = string\nexport { T }",
    /cannot be loaded: T is not a value: for a type, write export type \{ T \}/,
  ],
  json: ['import data from "./_q.json"\nexport { data }', /with \{ type: "json" \}/],
  brace: ["export const a = {\n  b: 1,\n\n}}", /mod\.ts:4:2 cannot be loaded: Expression expected/],
  broken: ["export const a: string =", /mod\.ts:1 cannot be loaded: Expression expected/],
} as const

const answers: Record<string, string> = {}
beforeAll(async () => {
  for (const [name, [text]] of Object.entries(cases)) {
    const actors = join(folder.path, name)
    mkdirSync(join(actors, "_lib"), { recursive: true })
    writeFileSync(join(actors, "mod.ts"), `${text}\n`)
    writeFileSync(join(actors, "_q.ts"), "export const q = 1\nexport type T = string\n")
    writeFileSync(join(actors, "_lib/index.ts"), "export const lib = 1\n")
    writeFileSync(join(actors, "_q.json"), "{}")
  }
  writeFileSync(join(folder.path, "package.json"), '{ "type": "module" }')
  const program = join(folder.path, "load.ts")
  const discover = new URL("../../../../runtime/actor/discover.ts", import.meta.url).href
  const source = `import { discoverActors } from "${discover}"
const answers = {}
for (const name of process.argv.slice(2)) await discoverActors(name).catch((error) => { answers[name] = error.message })
console.log(JSON.stringify(answers))`
  writeFileSync(program, source)
  await using child = spawnProcess(findNode(), [program, ...Object.keys(cases)], { cwd: folder.path })
  await child.closed
  Object.assign(answers, JSON.parse(child.stdout))
})

test.each(Object.entries(cases))("%s", (name, [, expected]) => {
  expect(answers[name]).toMatch(expected)
  expect(answers[name]).not.toContain("\n")
})
