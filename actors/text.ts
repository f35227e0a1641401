/**
 * Statistics over text files: how many words, which ones, how hard to read.
 *
 * ```sh
 * curl localhost:7420/v1/jobs -H 'content-type: application/json' -H 'prefer: wait=10' \
 *   -d '{"task": "text.count", "input": {"files": ["README.md", "docs/**\/*.md"], "top": 5}}'
 * ```
 *
 * Files are streamed, so their size does not matter to memory, and progress is by bytes. Submitted paths are confined to
 * one folder: `textActor({ root })`, else the environment's `TEXT_ROOT`, else the folder the worker was started in.
 * Hidden files and `node_modules` are never read through a pattern, and nothing is read through a link that leads out.
 *
 * Fails with `OutsideRoot`, `NoSuchFile`, `TooManyFiles`. Files that are no UTF-8 text are left out and named in `skipped`.
 */
import { resolve } from "node:path"
import { actor, type Job } from "callboard"
import { Effect, Schema } from "effect"
import { findFiles, type TextFile } from "./text/folder.ts"
import { lix, NotText, readParagraphs, Tally } from "./text/tally.ts"

export interface TextOptions {
  /** Folder that submitted paths are relative to and cannot leave. Defaults to `TEXT_ROOT`, else the working folder. */
  readonly root?: string
  /** Most files that one task may read. Defaults to 10,000. */
  readonly maxFiles?: number
}

const isLanguage = (tag: string): boolean => {
  try {
    return Intl.getCanonicalLocales(tag).length === 1
  } catch {
    return false
  }
}

const Pattern = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(1_000))

const Language = Schema.String.annotate({
  description: "The language for words and sentences, such as en or pt-BR",
}).check(Schema.makeFilter(isLanguage, { message: "must be a language tag such as en or pt-BR" }))

/** An Effect Schema can be given as it is; then a misspelt field would be ignored, and here it is refused. */
const strict = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) =>
  Schema.toStandardSchemaV1(schema, { parseOptions: { onExcessProperty: "error" } })

const FilesInput = Schema.Struct({
  files: Schema.Union([
    Pattern,
    Schema.Array(Pattern).check(Schema.isMinLength(1), Schema.isMaxLength(1_000)),
  ]).annotate({
    description: "Paths or patterns, relative to the actor's folder: `docs/**/*.md`",
  }),
  language: Language.pipe(Schema.withDecodingDefaultKey(Effect.succeed("en"))),
})

const CountInput = Schema.Struct({
  ...FilesInput.fields,
  top: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000 }))
    .annotate({ description: "How many of the most frequent words to list" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed(10))),
})

export const textActor = (options: TextOptions = {}) =>
  actor("text", {
    description: "Statistics over text files",
    start: () => ({
      root: resolve(options.root ?? process.env["TEXT_ROOT"] ?? "."),
      maxFiles: options.maxFiles ?? 10_000,
    }),
    methods: {
      count: {
        description: "Words, sentences and the most frequent words of files, added up",
        input: strict(CountInput),
        timeLimit: { soft: "10 minutes", hard: "11 minutes" },
        run: async ({ files, language, top }, job) => {
          const total = new Tally(language)
          let read = 0
          let bytes = 0
          const skipped = await readAll(files, language, job, (file, tally) => {
            read++
            bytes += file.bytes
            total.merge(tally)
          })
          return { files: read, bytes, ...total.summary(), top: total.top(top), skipped }
        },
      },
      readability: {
        description: "How hard each file is to read, hardest first: LIX, which needs no dictionary",
        input: strict(FilesInput),
        timeLimit: { soft: "10 minutes", hard: "11 minutes" },
        run: async ({ files, language }, job) => {
          const rated: Array<Rated> = []
          const skipped = await readAll(files, language, job, (file, tally) => {
            rated.push({ file: file.path, words: tally.words, ...lix(tally) })
          })
          return { files: rated.sort((a, b) => b.lix - a.lix || (a.file < b.file ? -1 : 1)), skipped }
        },
      },
    },
  })

export default textActor()

interface Skipped {
  readonly file: string
  readonly reason: string
}

interface Rated extends ReturnType<typeof lix> {
  readonly file: string
  readonly words: number
}

/**
 * Reads files one after the other, each into a tally of its own; says how far it is, and stops when the job must. Returns
 * what was left out.
 */
const readAll = async (
  patterns: string | ReadonlyArray<string>,
  language: string,
  job: Job<{ readonly root: string; readonly maxFiles: number }>,
  onRead: (file: TextFile, tally: Tally) => void,
): Promise<ReadonlyArray<Skipped>> => {
  const { root, maxFiles } = job.use
  const found = await findFiles(root, typeof patterns === "string" ? [patterns] : patterns, maxFiles)
  const skipped: Array<Skipped> = [...found.skipped]
  const all = found.files.reduce((total, file) => total + file.bytes, 0)
  let before = 0
  for (const file of found.files) {
    const tally = new Tally(language)
    try {
      let read = 0
      for await (const { text, bytes } of readParagraphs(file.location, job.signal)) {
        tally.add(text)
        read += bytes
        if (bytes > 0) job.progress((before + read) / all, { file: file.path })
      }
      onRead(file, tally)
    } catch (cause) {
      if (!(cause instanceof NotText)) throw cause
      job.log.info("a file was skipped", { file: file.path, reason: cause.message })
      skipped.push({ file: file.path, reason: cause.message })
    }
    before += file.bytes
  }
  return skipped
}
