/** Finds the lines of a traceback that belong to the application, and those of libraries. Pure. */

export interface TraceLine {
  readonly text: string
  /**
   * `own`: a line of the application. `other`: a line of a library, the runtime or Callboard. `cause`: the heading of
   * the error's cause.
   */
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
