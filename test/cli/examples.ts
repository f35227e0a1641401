/** A folder with examples of the documentation in it, which finds the libraries of this repository. */
import { existsSync, readFileSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { makeProject, type Project } from "./project.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))

/** What the published names mean in the folder: the sources. */
export const examplePaths = {
  callboard: [join(root, "runtime/mod.ts")],
  "callboard/client": [join(root, "runtime/client/mod.ts")],
  "callboard/http": [join(root, "runtime/client/http-mod.ts")],
  "callboard/testing": [join(root, "runtime/testing/mod.ts")],
  "callboard/conformance": [join(root, "test/kit/mod.ts")],
}

export const makeExamples = (files: Readonly<Record<string, string>>): Project => {
  const project = makeProject(files)
  if (!existsSync(join(project.path, "node_modules"))) {
    symlinkSync(join(root, "node_modules"), join(project.path, "node_modules"))
  }
  project.write("tsconfig.json", JSON.stringify({ compilerOptions: { paths: examplePaths } }))
  return project
}

/** Modules that examples import and that an application would have. */
export const surroundings = {
  "actors/hello.ts": readFileSync(join(root, "runtime/cli/templates/actors/hello.ts"), "utf8"),
  "logger.ts": `
const say = (fields: unknown, message: string) => console.log("own log:", message)
export const logger = { debug: say, info: say, warn: say, error: say, isLevelEnabled: (level: string) => level !== "debug" }
`,
  "mod.ts": `export * from "${join(root, "plugins/postgres/mod.ts")}"\n`,
}
