/** Runs before all files, and once more after them. */
import type { TestProject } from "vitest/node"
import { startChromium } from "../support/servers/chromium.ts"
import { MissingServer } from "../support/servers/missing.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** Where the browser is reached, or why there is none: each test says that, and none is skipped. */
    chromium: { readonly url: string } | { readonly missing: string }
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  try {
    const chromium = await startChromium()
    project.provide("chromium", { url: chromium.url })
    return async () => chromium[Symbol.asyncDispose]()
  } catch (error) {
    if (!(error instanceof MissingServer)) throw error
    project.provide("chromium", { missing: error.message })
    return async () => undefined
  }
}
