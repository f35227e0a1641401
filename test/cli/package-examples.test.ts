/** All examples of the pages compile, with the compiler's settings of a new project. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { expect, test } from "vitest"
import { spawnProcess } from "../support/servers/process.ts"
import { exampleFiles } from "../support/tools/pages.ts"
import { examplePaths, makeExamples, surroundings } from "./examples.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))

test("all examples compile", { timeout: 120_000 }, async () => {
  using project = makeExamples({ ...surroundings, ...Object.fromEntries(exampleFiles()) })
  const template = JSON.parse(readFileSync(join(root, "runtime/cli/templates/tsconfig.json"), "utf8"))
  // The sources need a newer library than the declarations of the package do, and some of them are plain JavaScript.
  const sources = { lib: ["ESNext", "DOM"], types: ["node"], allowJs: true, paths: examplePaths }
  const compilerOptions = { ...template.compilerOptions, ...sources }
  project.write("package.json", JSON.stringify({ type: "module" }))
  project.write("tsconfig.json", JSON.stringify({ compilerOptions, include: ["*.ts", "actors"] }))
  // The compiler is a native program; the script that starts it is plain JavaScript for Node.
  await using compiler = spawnProcess("node", [
    join(root, "node_modules/typescript/bin/tsc"),
    "--singleThreaded",
    "-p",
    project.path,
  ])
  expect({ ...(await compiler.closed), output: compiler.output }).toEqual({ code: 0, signal: null, output: "" })
})
