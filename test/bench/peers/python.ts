/** Celery and RQ from Debian's packages, with the Python of the same suite. Nothing is installed. */
import { delimiter, join } from "node:path"
import { fileURLToPath } from "node:url"
import { PACKAGES, PYTHON } from "../../support/servers/celery.ts"
import { type Spawned, spawnProcess } from "../../support/servers/process.ts"
import { libraryPath, unpacked, versionIn } from "./unpacked.ts"

const celeryFolder = () => unpacked(PYTHON.name, PYTHON.program, PYTHON.libraries)
/** The folder of RQ's package, with the client of Redis, which Celery's package only suggests. */
const rqFolder = () => unpacked("python3-rq", join(PACKAGES, "rq"), PYTHON.libraries)

export const celeryVersion = async (): Promise<string> => versionIn(await celeryFolder())
export const rqVersion = async (): Promise<string> => versionIn(await rqFolder())

const programs = fileURLToPath(new URL("python/", import.meta.url))

/** Starts Python with the modules of the peer, and those in the folder `python`. */
export const startPython = async (
  peer: "celery" | "rq",
  args: ReadonlyArray<string | number>,
  env: Readonly<Record<string, string>> = {},
): Promise<Spawned> => {
  const rq = await rqFolder()
  const home = peer === "celery" ? await celeryFolder() : rq
  return spawnProcess(join(home, PYTHON.program), args.map(String), {
    cwd: programs,
    env: {
      ...env,
      PYTHONHOME: join(home, "usr"),
      PYTHONPATH: [programs, join(home, PACKAGES), join(rq, PACKAGES)].join(delimiter),
      LD_LIBRARY_PATH: [libraryPath(home), libraryPath(rq)].join(delimiter),
      PYTHONDONTWRITEBYTECODE: "1",
      PYTHONUNBUFFERED: "1",
      PYTHONNOUSERSITE: "1",
    },
  })
}
