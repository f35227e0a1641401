/** The browser that the files share. */
import { type Browser, chromium } from "playwright-core"
import { inject } from "vitest"
import type {} from "./setup.ts"

let connecting: Promise<Browser> | undefined

/** One connection per thread; it ends with the browser. */
export const connectChromium = (): Promise<Browser> => {
  const found = inject("chromium")
  if ("missing" in found) throw new Error(found.missing)
  connecting ??= chromium.connectOverCDP(found.url)
  return connecting
}
