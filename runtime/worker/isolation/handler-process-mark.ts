/**
 * Whether this process runs isolated handlers for a worker. Kept on the global object, because a module that is loaded
 * twice (another copy of the package) must see it as well, and not in the environment, which handlers hand on to
 * processes of their own.
 */
const KEY = Symbol.for("callboard.isolated")

/** Said once, when the process begins. */
export const markHandlerProcess = (): void => {
  Reflect.set(globalThis, KEY, true)
}

export const isHandlerProcess = (): boolean => Reflect.get(globalThis, KEY) === true
