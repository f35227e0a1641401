/** Packages that an application installs only if it uses them: drivers of brokers, transports, tracing. */
import { TransportError } from "./errors.ts"

/**
 * Whether an `import()` failed because this package is not installed. A package that is there fails to load in other ways: its
 * own code throws, or it imports a package that is missing.
 */
export const isNotInstalled = (name: string, cause: unknown): boolean => {
  if (!(cause instanceof Error)) return false
  const { message, code }: { readonly message: string; readonly code?: unknown } = cause
  // Vite gives the import of a missing package an error without a code.
  const isResolution = /MODULE_NOT_FOUND$/.test(String(code)) || message.startsWith("Could not resolve ")
  // The first quoted text is the missing one: the runtimes and bundlers name the file that imports it after it.
  const missing = /["'`]([^"'`]*)["'`]/.exec(message)?.[1]
  // Deno under Vite resolves a bare name beside the file that imports it.
  return isResolution && (missing === name || (missing?.startsWith("file:") === true && missing.endsWith(`/${name}`)))
}

/** Why a package could not be loaded, for a message. */
export const loadProblem = (name: string, cause: unknown): string => {
  if (isNotInstalled(name, cause)) return `the package ${name} is missing: npm install ${name}`
  return `the package ${name} cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`
}

/**
 * The error of a plugin whose client library, an optional peer dependency, could not be loaded: if the library is not installed,
 * it says how to install it, otherwise it has the cause. A plugin writes `import("…")` with the name of the library inside a
 * `try`, and throws this in the `catch`: bundlers include a library that is installed, and accept a missing one, only in that form.
 */
export const missingLibrary = (plugin: string, name: string, cause: unknown): TransportError =>
  new TransportError("unsupported", `${plugin}: ${loadProblem(name, cause)}`, { cause })
