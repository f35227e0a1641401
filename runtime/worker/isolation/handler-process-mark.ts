/**
 * Marks a process that runs isolated handlers for a worker. The mark is on the global object, because another copy of
 * the package that is loaded in this process must see it. It is not in the environment, because child processes of a
 * handler would inherit it.
 */
const KEY = Symbol.for("callboard.isolated")

/** Sets the mark. Called once, when the process begins. */
export const markHandlerProcess = (): void => {
  Reflect.set(globalThis, KEY, true)
}

export const isHandlerProcess = (): boolean => Reflect.get(globalThis, KEY) === true
