/** Global set-up of the page's tests: bundles the page, and starts the browser, which is closed after all files. */
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import type { TestProject } from "vitest/node"
import { startChromium } from "../support/servers/chromium.ts"
import { MissingServer } from "../support/servers/missing.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** The address of the browser, or why there is none. Without a browser each test fails with this reason; none is skipped. */
    chromium: { readonly url: string } | { readonly missing: string }
  }
}

/** Bundles the page as for the package. */
const buildPage = (): void => {
  const script = fileURLToPath(new URL("../support/tools/page.ts", import.meta.url))
  const { status, stdout, stderr } = spawnSync(process.execPath, ["run", script, "--if-needed"], { encoding: "utf8" })
  if (status !== 0) throw new Error(`the page could not be built:\n${stdout}${stderr}`)
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  buildPage()
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
