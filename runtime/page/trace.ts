/** Tracebacks: which lines are of the application, and which of libraries. Pure. */

export interface TraceLine {
  readonly text: string
  /** `own`: a place in the application. `other`: in a library, the runtime or Callboard. `cause`: what it was caused by. */
  readonly kind: "" | "own" | "other" | "cause"
}

const OTHER =
  /node_modules|[\\/]callboard[\\/]dist|\(?(?:node|bun|deno|ext|native):|\(<anonymous>\)|\(native\)|callboard\/runtime/

export const traceOf = (traceback: string): ReadonlyArray<TraceLine> =>
  traceback.split("\n").map((text) => ({
    text,
    kind: /^\s+at\s/.test(text)
      ? OTHER.test(text)
        ? "other"
        : "own"
      : /^\s*(?:\[?cause\]?:|Caused by)/i.test(text)
        ? "cause"
        : "",
  }))
