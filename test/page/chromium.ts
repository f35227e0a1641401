/** The browser that all test files share. */
import { type Browser, chromium } from "playwright-core"
import { inject } from "vitest"
import type {} from "./setup.ts"

let connecting: Promise<Browser> | undefined

/** Connects to the browser, once per test thread. The connection ends when the browser is closed. */
export const connectChromium = (): Promise<Browser> => {
  const found = inject("chromium")
  if ("missing" in found) throw new Error(found.missing)
  connecting ??= chromium.connectOverCDP(found.url)
  return connecting
}
