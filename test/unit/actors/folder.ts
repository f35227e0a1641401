/** A folder of its own for a test, removed with `await using`. */
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"

export interface Folder extends AsyncDisposable {
  readonly path: string
}

export const folderWith = async (files: Readonly<Record<string, string | Uint8Array>> = {}): Promise<Folder> => {
  const path = await realpath(await mkdtemp(join(tmpdir(), "callboard-actors-")))
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(path, name)), { recursive: true })
    await writeFile(join(path, name), content)
  }
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}
