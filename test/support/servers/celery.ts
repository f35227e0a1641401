/**
 * Starts Celery from Debian's packages, in two versions, on the Python of the machine's own suite. Nothing is
 * installed.
 */
import { existsSync } from "node:fs"
import { basename, delimiter, join } from "node:path"
import { debianPackage, environmentOf, ownSuiteFirst } from "./debian.ts"
import { type Spawned, spawnProcess } from "./process.ts"

/** The folder of Python packages in a Debian package. */
export const PACKAGES = "usr/lib/python3/dist-packages"

/** Python itself, as a dependency of the Celery package of the same suite. */
export const PYTHON = {
  name: "python3-celery",
  program: "usr/bin/python3",
  libraries: /^(python3|lib(?!c6$|c-bin$|gcc|stdc))/,
} as const

/** The tested versions of Celery, and the Debian suites that have them. */
const SUITES = { "5.6": "forky", "5.5": "trixie" } as const
export type CeleryVersion = keyof typeof SUITES

/** Packages that Celery only suggests: for Redis, and for the formats of bodies. */
const ALSO = ["python3-redis", "python3-async-timeout", "python3-msgpack", "python3-yaml", "tzdata"]
/** Packages in plain Python: they run on the Python of another suite too. */
const PORTABLE =
  /^python3-(amqp|async-timeout|billiard|click|click-.*|dateutil|kombu|packaging|prompt-toolkit|pyparsing|six|tz|tzlocal|typing-extensions|vine|wcwidth)$/

const pythonFolder = () =>
  debianPackage({
    name: PYTHON.name,
    suites: ownSuiteFirst(["bookworm", "trixie"]),
    libraries: PYTHON.libraries,
    accept: (folder) => (existsSync(join(folder, PYTHON.program)) ? folder : undefined),
  })

const celeryFolder = (version: CeleryVersion) =>
  debianPackage({
    name: PYTHON.name,
    also: ALSO,
    suites: [SUITES[version]],
    libraries: PORTABLE,
    accept: (folder) => {
      const isIt = basename(folder).startsWith(`${PYTHON.name}_${version}.`)
      return isIt && existsSync(join(folder, PACKAGES, "async_timeout")) ? folder : undefined
    },
  })

/** The path of Python, and the environment in which it finds Celery and the modules of the folder `home`. */
export const celeryProgram = async (version: CeleryVersion, home: string) => {
  const [python, celery] = [await pythonFolder(), await celeryFolder(version)]
  return {
    program: join(python, PYTHON.program),
    env: {
      PYTHONHOME: join(python, "usr"),
      PYTHONPATH: [home, join(celery, PACKAGES)].join(delimiter),
      ...environmentOf(python),
      PYTHONDONTWRITEBYTECODE: "1",
      PYTHONUNBUFFERED: "1",
      PYTHONNOUSERSITE: "1",
      // Without this a worker that runs as root prints a long warning.
      C_FORCE_ROOT: "1",
    },
  }
}

/** Starts Python with a version of Celery. `home`: the folder of the program, in which it finds its own modules. */
export const startCelery = async (
  version: CeleryVersion,
  home: string,
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>> = {},
): Promise<Spawned> => {
  const { program, env: own } = await celeryProgram(version, home)
  return spawnProcess(program, args, { cwd: home, env: { ...env, ...own } })
}
