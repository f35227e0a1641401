/** Tracebacks without the frames that tell the user nothing: Callboard's own, Effect's, and the JavaScript engine's. */
import { dirname } from "node:path"
import { fileURLToPath } from "node:url"

/** Where the runtime is, as Bun writes the place of a frame, and as Deno does. */
const OURS = [fileURLToPath(import.meta.url), import.meta.url].map((file) => `${dirname(dirname(dirname(file)))}/`)

const FOREIGN = /[\\/]node_modules[\\/]effect[\\/]|[( ](?:native|node:|ext:|bun:|internal:|<anonymous>\)$)/

const isFrame = (line: string): boolean => /^\s+at /.test(line)
const isOwn = (line: string): boolean => !FOREIGN.test(line) && !OURS.some((folder) => line.includes(folder))

/** A stack with the application's own frames alone; with all of them where none is its own. */
export const ownFrames = (stack: string): string => {
  const lines = stack.split("\n")
  const kept = lines.filter((line) => !isFrame(line) || isOwn(line))
  return kept.some(isFrame) ? kept.join("\n") : stack
}
