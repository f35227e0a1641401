/**
 * Builds the page: `npm run page`, which goes on and builds again at each change, or `npm run page -- --once`. Bundles
 * runtime/page and writes runtime/http/page/assets.js, which the HTTP application loads at the first request for the page.
 * Fails above the budget for its weight.
 */
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, watch, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { gzipSync } from "node:zlib"

/** What this needs of Bun, which runs it. */
declare const Bun: {
  build(options: Readonly<Record<string, unknown>>): Promise<{
    readonly success: boolean
    readonly outputs: ReadonlyArray<{ readonly path: string; readonly kind: string; text(): Promise<string> }>
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

/** The code: what each visit loads, and the views that are loaded when they are opened. Names have a hash in them. */
const bundle = async (): Promise<{ readonly main: File; readonly later: ReadonlyArray<File> }> => {
  const built = await Bun.build({
    entrypoints: [join(source, "main.tsx")],
    target: "browser",
    format: "esm",
    minify: true,
    splitting: true,
    sourcemap: "none",
    naming: { entry: "[name]-[hash].[ext]", chunk: "[name]-[hash].[ext]" },
    define: { "process.env.NODE_ENV": '"production"' },
    throw: false,
  })
  if (!built.success) throw new Error(`the page cannot be bundled:\n${built.logs.join("\n")}`)
  const files = await Promise.all(
    built.outputs.map(async (output) => ({
      kind: output.kind,
      name: basename(output.path),
      type: "text/javascript; charset=utf-8",
      content: await output.text(),
    })),
  )
  const [main, ...more] = files.filter(({ kind }) => kind === "entry-point")
  const later = files.filter(({ kind }) => kind === "chunk")
  // A file that the first one needs would cost a first visit one more round trip.
  const needed = /\bfrom\s*"\.\//.exec(main?.content ?? "")
  if (main === undefined || more.length > 0 || needed !== null) throw new Error("the page is to begin with one file")
  return { main, later }
}

/** The file under a name with a hash of its content: `page-1a2b3c4d5e6f.css`. */
const hashed = (name: string, type: string, content: string): File => {
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 12)
  return { name: name.replace(/(?=\.\w+$)/, `-${hash}`), type, content }
}

const zipped = ({ content }: File): Buffer => gzipSync(content, { level: 9 })

/** Builds the page. Returns what a first visit loads, in bytes, compressed. */
export const buildPage = async (): Promise<number> => {
  const text = (name: string) => readFileSync(join(source, name), "utf8")
  const { main, later } = await bundle()
  const first: Readonly<Record<string, File>> = {
    "main.js": main,
    "page.css": hashed("page.css", "text/css; charset=utf-8", smaller(text("page.css"))),
    "icon.svg": hashed("icon.svg", "image/svg+xml", text("icon.svg")),
  }
  const assets = [...Object.values(first), ...later].map((file) => ({
    name: file.name,
    type: file.type,
    gzip: zipped(file).toString("base64"),
  }))
  const document = text("index.html").replace(
    "<!-- shell.css -->",
    () => `<style>${smaller(text("shell.css"))}</style>`,
  )
  const shell = Object.entries(first).reduce(
    (html, [name, file]) => html.replaceAll(`{{${name}}}`, file.name),
    document,
  )
  const weight = gzipSync(shell).length + Object.values(first).reduce((sum, file) => sum + zipped(file).length, 0)
  if (weight > BUDGET) throw new Error(`a first visit loads ${weight} bytes compressed, and may load ${BUDGET}`)
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
