/** The README and the pages of docs/, and the blocks of code in them, for the tests of the documentation. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../../..", import.meta.url))

export interface Block {
  readonly language: string
  readonly text: string
}

export interface Page {
  /** From the root of the repository: `docs/actors.md`. */
  readonly path: string
  readonly text: string
  readonly blocks: ReadonlyArray<Block>
}

export const readPage = (path: string): Page => {
  const text = readFileSync(join(root, path), "utf8")
  const blocks = [...text.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(({ 1: language = "", 2: code = "" }) => ({
    language,
    text: code,
  }))
  return { path, text, blocks }
}

/** The pages for users, the README first. */
export const pages: ReadonlyArray<Page> = [
  "README.md",
  ...readdirSync(join(root, "docs"))
    .filter((file) => file.endsWith(".md"))
    .sort()
    .map((file) => `docs/${file}`),
].map(readPage)

/** The first block of a page in a language. */
export const firstOf = ({ path, blocks }: Page, language: string): Block => {
  const found = blocks.find((block) => block.language === language)
  if (found === undefined) throw new Error(`${path} has no ${language} block`)
  return found
}

/** A block of shell, found by its first line. */
export const shellBlock = (first: string): string => {
  const found = pages.flatMap(({ blocks }) => blocks).find(({ text }) => text.startsWith(`${first}\n`))
  if (found === undefined) throw new Error(`there is no shell block that begins with ${first}`)
  return found.text
}

/** Blocks that need a Celery worker; `test/interop` runs them. */
export const celeryBlocks = {
  start: shellBlock(
    "npx callboard worker --transport redis://localhost:6379/0 --result-backend redis://localhost:6379/1 -Q moved",
  ),
  look: shellBlock("celery -A proj.tasks inspect registered"),
  move: shellBlock("python3 -c 'from proj.tasks import add; print(add.delay(2, 3).get(timeout=20))'"),
}

/** Programs that submit over NATS without any code of Callboard; `test/e2e` and `test/interop` run them. */
export const producers = {
  "producer.mjs": firstOf(readPage("docs/wire-nats.md"), "js").text,
  "producer.py": firstOf(readPage("docs/wire-nats.md"), "python").text,
} as const

/** Blocks of shell that need an installed package, by their first line: the tests of the package run them. */
export const installedBlocks = {
  project: "mkdir ../my-tasks",
  postgres: "npm install pg",
  transport: "mkdir callboard-transport-mine && cd callboard-transport-mine",
  esbuild: "npx esbuild service.ts --bundle --platform=node --format=esm --outfile=dist/service.mjs \\",
  binary: "bun build --compile service.ts --outfile=service",
  kit: "bun kit.ts postgres://user:password@localhost/postgres",
} as const

/**
 * The TypeScript blocks that begin with the name of their file; those of one file belong together, in order. A file is
 * written by one page only, and a block without a name is the README's first one, `service.ts`.
 */
export const exampleFiles = (): ReadonlyMap<string, string> => {
  const files = new Map<string, string>()
  const writers = new Map<string, string>()
  for (const { path, blocks } of pages) {
    for (const { language, text } of blocks) {
      const [, name] = /^\/\/ (\S+\.ts)\n/.exec(text) ?? []
      // Quoted from the sources, see docs.test.ts.
      if (language !== "ts" || name?.startsWith("plugins/")) continue
      const file = name ?? "service.ts"
      if ((writers.get(file) ?? path) !== path) throw new Error(`${file} is in ${writers.get(file)} and in ${path}`)
      writers.set(file, path)
      files.set(file, (files.get(file) ?? "") + text)
    }
  }
  return files
}

/** The headings of a page as the anchors that links name. */
export const anchorsOf = ({ text }: Page): ReadonlyArray<string> =>
  [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replaceAll(/[^\w -]/g, "")
      .replaceAll(" ", "-"),
  )
