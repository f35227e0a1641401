/**
 * Celery out of Debian's packages, in the versions of two suites, on the Python of this machine's own suite; nothing is
 * installed.
 */
import { existsSync } from "node:fs"
import { basename, delimiter, join } from "node:path"
import { debianPackage, environmentOf, ownSuiteFirst } from "./debian.ts"
import { type Spawned, spawnProcess } from "./process.ts"

/** Where packages of Python lie in those of Debian. */
export const PACKAGES = "usr/lib/python3/dist-packages"

/** Python, which the Celery of its own suite brings along. */
export const PYTHON = {
  name: "python3-celery",
  program: "usr/bin/python3",
  libraries: /^(python3|lib(?!c6$|c-bin$|gcc|stdc))/,
} as const

/** The versions that clients and workers are tried with, and the suites that have them. */
const SUITES = { "5.6": "forky", "5.5": "trixie" } as const
export type CeleryVersion = keyof typeof SUITES

/** Clients of Redis and of what bodies may be in: Celery only suggests them. */
const ALSO = ["python3-redis", "python3-async-timeout", "python3-msgpack", "python3-yaml", "tzdata"]
/** Packages that any Python runs: they were not compiled for the one of their suite. */
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

/** The program of Python, and the environment in which it has Celery of a version; its own modules are in `home`. */
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
      // A worker that runs as root warns at length.
      C_FORCE_ROOT: "1",
    },
  }
}

/** Starts Python with Celery of a version; `home` is the folder of the program, in which it finds its own modules. */
export const startCelery = async (
  version: CeleryVersion,
  home: string,
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>> = {},
): Promise<Spawned> => {
  const { program, env: own } = await celeryProgram(version, home)
  return spawnProcess(program, args, { cwd: home, env: { ...env, ...own } })
}
