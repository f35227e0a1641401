/** The programs of the threads and processes that a worker starts. */
import { existsSync } from "node:fs"

/**
 * The program beside the module that starts it, whose URL is `from`. `undefined` in a bundle and in a binary, which have no
 * such file: there the main program is started again, whose serve() becomes what it was started as.
 */
export const ownProgram = (name: string, from: string | undefined): URL | undefined => {
  if (from === undefined) return undefined
  // The repository runs TypeScript and the package JavaScript; the program has the same extension as the module.
  const file = new URL(`${name}${from.endsWith(".ts") ? ".ts" : ".js"}`, from)
  return file.protocol !== "file:" || existsSync(file) ? file : undefined
}

/** The program that this process was started with: a path. */
export const mainProgram = (): string => process.argv[1] ?? ""

/** The arguments of that program. */
export const mainArguments = (): ReadonlyArray<string> => process.argv.slice(2)

/**
 * Options that are only for the program that was started with them: they inspect, watch, test or are it, or this process has
 * applied them already (variables of files, the folder).
 */
const OWN_OPTION = /^(?:--(?:inspect|debug-port|watch|hot|test|eval|print|input-type|env-file|cwd)(?:[-=].*)?|-p?e|-p)$/

/**
 * The options of Node or Bun with which this process was started and which another program needs too, such as `--import`,
 * `--conditions` and limits of memory. Their relative paths count from the current folder.
 */
export const runtimeOptions = (given: ReadonlyArray<string> = process.execArgv): ReadonlyArray<string> => {
  let isOwn = false
  return given.filter((each) => {
    // A text that begins with no dash is the value of the option before it.
    if (each.startsWith("-")) isOwn = OWN_OPTION.test(each)
    return !isOwn
  })
}
