/**
 * Builds the page: `npm run page`, which goes on and builds again at each change, or `npm run page -- --once`. Bundles
 * runtime/page and writes runtime/http/page/assets.js, which the HTTP application loads at the first request for the page.
 * Fails above the budget for its weight.
 */
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, watch, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { gzipSync } from "node:zlib"

/** What this needs of Bun, which runs it. */
declare const Bun: {
  build(options: Readonly<Record<string, unknown>>): Promise<{
    readonly success: boolean
    readonly outputs: ReadonlyArray<{ text(): Promise<string> }>
    readonly logs: ReadonlyArray<unknown>
  }>
}

const root = fileURLToPath(new URL("../../..", import.meta.url))
const source = join(root, "runtime/page")
const target = join(root, "runtime/http/page/assets.js")

/** What a first visit may load in all, compressed. */
const BUDGET = 60_000

/** What the bundle holds of others, whose licences go with it. */
const LIBRARIES = ["preact", "@preact/signals", "@preact/signals-core"]

interface File {
  readonly name: string
  readonly type: string
  readonly content: string
}

/** Without comments and the white space that means nothing; strings of this style sheet hold none of `{};,`. */
const smaller = (css: string): string =>
  css
    .replaceAll(/\/\*[\s\S]*?\*\//g, "")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/ ?([{};,]) ?/g, "$1")
    .replaceAll(/: /g, ":")
    .replaceAll(";}", "}")
    .trim()

const bundle = async (): Promise<string> => {
  const built = await Bun.build({
    entrypoints: [join(source, "main.tsx")],
    target: "browser",
    format: "esm",
    minify: true,
    sourcemap: "none",
    define: { "process.env.NODE_ENV": '"production"' },
    throw: false,
  })
  const [output] = built.outputs
  if (!built.success || output === undefined) throw new Error(`the page cannot be bundled:\n${built.logs.join("\n")}`)
  return output.text()
}

/** The name with a hash of the content in it: `main-1a2b3c4d5e6f.js`. */
const hashed = ({ name, content }: File): string => {
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 12)
  return name.replace(/(?=\.\w+$)/, `-${hash}`)
}

/** Builds the page. Returns its weight in bytes, compressed. */
export const buildPage = async (): Promise<number> => {
  const text = (name: string) => readFileSync(join(source, name), "utf8")
  const files: ReadonlyArray<File> = [
    { name: "main.js", type: "text/javascript; charset=utf-8", content: await bundle() },
    { name: "page.css", type: "text/css; charset=utf-8", content: smaller(text("page.css")) },
    { name: "icon.svg", type: "image/svg+xml", content: text("icon.svg") },
  ]
  const assets = files.map((file) => ({
    name: hashed(file),
    type: file.type,
    gzip: gzipSync(file.content, { level: 9 }).toString("base64"),
  }))
  const document = text("index.html").replace(
    "<!-- shell.css -->",
    () => `<style>${smaller(text("shell.css"))}</style>`,
  )
  const shell = files.reduce((html, file) => html.replaceAll(`{{${file.name}}}`, hashed(file)), document)
  const weight = gzipSync(shell).length + assets.reduce((sum, { gzip }) => sum + Buffer.from(gzip, "base64").length, 0)
  if (weight > BUDGET) throw new Error(`the page weighs ${weight} bytes compressed, and may weigh ${BUDGET}`)
  const module = `// Written by \`npm run page\`.\nexport const assets = ${JSON.stringify(assets)}\nexport const shell = ${JSON.stringify(shell)}\n`
  // Renamed, because tests of two runtimes may build and load it at once.
  const draft = `${target}.${process.pid}`
  writeFileSync(draft, module)
  renameSync(draft, target)
  return weight
}

/** Whether the page was built since its sources, or this script, have changed. */
const isBuilt = (): boolean => {
  if (!existsSync(target)) return false
  const at = statSync(target).mtimeMs
  const sources = readdirSync(source, { recursive: true, encoding: "utf8" }).map((file) => join(source, file))
  return [...sources, fileURLToPath(import.meta.url), join(root, "package-lock.json")].every(
    (file) => statSync(file).mtimeMs < at,
  )
}

/** Builds the page unless it stands as its sources say: for tests. */
export const ensurePage = async (): Promise<void> => {
  if (!isBuilt()) await buildPage()
}

/** The licences of what the bundle holds of others. */
const writeLicences = (file: string): void => {
  const texts = LIBRARIES.map((name) => {
    const folder = join(root, "node_modules", name)
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}\n`
  })
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(
    file,
    `The page of Callboard (dist/runtime/http/page/assets.js) holds:\n\n${texts.join(`\n${"-".repeat(80)}\n\n`)}`,
  )
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      /** Build and end. */
      once: { type: "boolean", default: false },
      /** Build only if a source has changed since. */
      "if-needed": { type: "boolean", default: false },
      /** Where the licences of the libraries go. */
      licences: { type: "string" },
    },
  })
  const build = async () => {
    const weight = await buildPage()
    process.stdout.write(`page: ${(weight / 1000).toFixed(1)} kB of ${BUDGET / 1000} kB\n`)
  }
  if (values.licences !== undefined) writeLicences(values.licences)
  if (values["if-needed"]) await ensurePage()
  else await build()
  if (!values.once && !values["if-needed"]) {
    let timer: ReturnType<typeof setTimeout> | undefined
    watch(source, { recursive: true }, () => {
      clearTimeout(timer)
      timer = setTimeout(() => build().catch((error: Error) => process.stderr.write(`${error.message}\n`)), 50)
    })
  }
}
