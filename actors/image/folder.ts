/** Confines submitted paths to a folder, links resolved. */
import { mkdir, realpath } from "node:fs/promises"
import { dirname, isAbsolute, relative, resolve, sep } from "node:path"

/** A path that leads out of the folder. */
export class OutsideRoot extends Error {
  readonly _tag = "OutsideRoot"
  override readonly name = "OutsideRoot"
}

export class NoSuchFile extends Error {
  readonly _tag = "NoSuchFile"
  override readonly name = "NoSuchFile"
}

const isInside = (root: string, location: string): boolean => {
  const path = relative(root, location)
  return path !== ".." && !path.startsWith(`..${sep}`) && !isAbsolute(path)
}

const outside = (path: string): OutsideRoot =>
  new OutsideRoot(`${path}: paths are relative to the actor's folder, and within`)

/** Where an existing file really is. Fails with {@link OutsideRoot}, {@link NoSuchFile}. */
export const confine = async (root: string, path: string): Promise<string> => {
  const asked = resolve(root, path)
  if (isAbsolute(path) || !isInside(root, asked)) throw outside(path)
  const real = await Promise.all([realpath(root), realpath(asked)]).catch((cause: unknown) => {
    throw new NoSuchFile(`there is no file ${path}`, { cause })
  })
  const [realRoot, location] = real
  if (!isInside(realRoot, location)) throw outside(path)
  return location
}

/** A folder to write to, made where it is missing. Fails with {@link OutsideRoot}. */
export const confineFolder = async (root: string, path: string): Promise<string> => {
  const asked = resolve(root, path)
  if (isAbsolute(path) || !isInside(root, asked)) throw outside(path)
  await mkdir(root, { recursive: true })
  // Looked at before anything is made: the part that exists may be a link to elsewhere.
  let existing = asked
  while (true) {
    const location = await realpath(existing).catch(() => undefined)
    if (location !== undefined) {
      if (!isInside(await realpath(root), location)) throw outside(path)
      break
    }
    existing = dirname(existing)
  }
  await mkdir(asked, { recursive: true })
  return realpath(asked)
}
