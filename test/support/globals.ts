/**
 * Globals that a test replaces and must put back: test files share those of their thread, and a file that comes later would hang
 * or read another time.
 */

/** What holds each global, and the names under which it has them. */
const KEPT: ReadonlyArray<readonly [label: string, holder: object, names: ReadonlyArray<string>]> = [
  [
    "",
    globalThis,
    [
      ...["setTimeout", "clearTimeout", "setInterval", "clearInterval", "setImmediate", "clearImmediate"],
      ...["queueMicrotask", "Date", "performance", "fetch"],
    ],
  ],
  ["Date.", Date, ["now"]],
  ["Date.prototype.", Date.prototype, ["getTimezoneOffset"]],
  ["performance.", performance, ["now"]],
  ["Math.", Math, ["random"]],
  ["crypto.", crypto, ["getRandomValues", "randomUUID"]],
  // The test runner itself replaces `process.exit`.
  ["process.", process, ["kill", "nextTick"]],
]

export interface Globals {
  /** Puts back what is replaced, and returns the names of it. */
  restore(): ReadonlyArray<string>
}

const keepGlobals = (): Globals => {
  const kept = KEPT.flatMap(([label, holder, names]) =>
    names.map((name) => ({ name, label, holder, value: Reflect.get(holder, name) })),
  )
  return {
    restore: () =>
      kept.flatMap(({ name, label, holder, value }) => {
        if (Reflect.get(holder, name) === value) return []
        Object.defineProperty(holder, name, { value, configurable: true, writable: true })
        return [`${label}${name}`]
      }),
  }
}

let first: Globals | undefined

/** The globals as they were before the first test file of this thread, which share this module. */
export const globalsOfThread = (): Globals => {
  first ??= keepGlobals()
  return first
}

/** Remembers the variables of the environment as they are now. */
export const keepVariables = (): Globals => {
  const kept = { ...process.env }
  return {
    restore: () => {
      const names = new Set([...Object.keys(kept), ...Object.keys(process.env)])
      return [...names].flatMap((name) => {
        const value = kept[name]
        if (process.env[name] === value) return []
        if (value === undefined) delete process.env[name]
        else process.env[name] = value
        return [`process.env.${name}`]
      })
    },
  }
}
