/** Starts a real Chromium for tests, without a window, with a new profile. */

import { existsSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { chromiumProgram } from "./chromium-program.ts"
import { environmentOf, unpackedAt } from "./debian.ts"
import { spawnProcess, temporaryFolder } from "./process.ts"

export interface Chromium extends AsyncDisposable {
  /** URL of its developer tools, by which tests control it. */
  readonly url: string
  readonly version: string
}

/** As root Chromium cannot use its sandbox, so it runs without. It loads only pages of the tests. */
const isRoot = process.getuid?.() === 0

const ARGUMENTS = [
  "--headless",
  // Chromium chooses a free port and prints it.
  "--remote-debugging-port=0",
  "--no-first-run",
  "--no-default-browser-check",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-default-apps",
  "--disable-extensions",
  "--disable-sync",
  "--disable-breakpad",
  "--metrics-recording-only",
  "--mute-audio",
  "--hide-scrollbars",
  "--force-color-profile=srgb",
  // Containers have a small /dev/shm, and test machines seldom have a graphics card.
  "--disable-dev-shm-usage",
  "--disable-gpu",
  // A tab in the background must be as fast as others; tests set the visibility themselves.
  "--disable-backgrounding-occluded-windows",
  "--disable-renderer-backgrounding",
  "--disable-background-timer-throttling",
  // All hosts but the loopback are unreachable, whatever a page requests.
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
  "--no-proxy-server",
  "--lang=en-US",
  ...(isRoot ? ["--no-sandbox"] : []),
]

/** The fonts that were unpacked with the browser, for a machine without fonts. */
const fontsOf = (unpacked: string | undefined, folder: string): Readonly<Record<string, string>> => {
  const fonts = unpacked === undefined ? "" : join(unpacked, "usr/share/fonts")
  if (!existsSync(fonts)) return {}
  const file = join(folder, "fonts.conf")
  const families = [
    ["sans-serif", "DejaVu Sans"],
    ["serif", "DejaVu Serif"],
    ["monospace", "DejaVu Sans Mono"],
  ].map(([family, name]) => `<alias><family>${family}</family><prefer><family>${name}</family></prefer></alias>`)
  const lines = [`<dir>${fonts}</dir>`, `<cachedir>${join(folder, "fonts")}</cachedir>`, ...families]
  writeFileSync(file, `<?xml version="1.0"?>\n<fontconfig>\n${lines.join("\n")}\n</fontconfig>\n`)
  return { FONTCONFIG_FILE: file }
}

export async function startChromium(): Promise<Chromium> {
  const { path, version } = await chromiumProgram()
  const folder = temporaryFolder()
  const unpacked = unpackedAt(path)
  const home = join(folder.path, "home")
  mkdirSync(home)
  const shown = spawnProcess(path, [...ARGUMENTS, `--user-data-dir=${join(folder.path, "profile")}`, "about:blank"], {
    cwd: folder.path,
    env: { ...environmentOf(unpacked), ...fontsOf(unpacked, folder.path), HOME: home, TZ: "UTC" },
  })
  const end = async () => {
    await shown.end()
    folder.remove()
  }
  try {
    const [, url = ""] = await shown.waitForLine(/^DevTools listening on (ws:\S+)$/)
    return { url, version, [Symbol.asyncDispose]: end }
  } catch (error) {
    await end()
    throw error
  }
}
