/** A clock that a test sets, for processes of their own: the library libfaketime from Debian's package. */
import { existsSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { debianPackage, ownSuiteFirst } from "./debian.ts"
import { MissingServer } from "./missing.ts"

const LIBRARY = "faketime/libfaketimeMT.so.1"

/** The library in a folder whose `usr/lib` has a part for each architecture. */
const libraryIn = (folder: string): string | undefined => {
  const below = join(folder, "usr/lib")
  const parts = existsSync(below) ? readdirSync(below).filter((each) => each.includes("-linux-")) : []
  return parts.map((part) => join(below, part, LIBRARY)).find((path) => existsSync(path))
}

/** The path of the library, which is fetched where it is not installed. Rejects with `MissingServer`. */
const library = async (): Promise<string> => {
  try {
    const suites = ownSuiteFirst(["trixie", "bookworm"])
    return libraryIn("/") ?? (await debianPackage({ name: "libfaketime", suites, accept: libraryIn }))
  } catch (error) {
    throw new MissingServer("libfaketime", `install the package libfaketime (${(error as Error).message})`)
  }
}

/** The environment of processes that live by the clock of a file. Their monotonic clock is the machine's. */
export const livingBy = async (file: string): Promise<Readonly<Record<string, string>>> => ({
  LD_PRELOAD: await library(),
  FAKETIME_TIMESTAMP_FILE: file,
  FAKETIME_NO_CACHE: "1",
  FAKETIME_DONT_FAKE_MONOTONIC: "1",
})

/** Sets the clock of a file: so many seconds ahead of the machine's. */
export const setClock = (file: string, seconds: number): void =>
  writeFileSync(file, `${seconds < 0 ? "" : "+"}${seconds}\n`)
