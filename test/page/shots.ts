/**
 * Takes pictures of the views: `npm run page:shots -- FOLDER`. Each view of a filled board in both themes and both widths; the
 * pictures are for people, and no test compares them.
 */
import { mkdirSync } from "node:fs"
import { join, resolve } from "node:path"
import { parseArgs } from "node:util"
import { chromium } from "playwright-core"
import sharp from "sharp"
import { startChromium } from "../support/servers/chromium.ts"
import { buildPage } from "../support/tools/page.ts"
import { openBoard } from "./board.ts"
import { fill } from "./scene.ts"
import { settled, THEMES, WIDTHS } from "./watching.ts"

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    /** Only views whose name contains this text. */
    only: { type: "string", default: "" },
  },
})
const folder = resolve(positionals[0] ?? "shots")
mkdirSync(folder, { recursive: true })

await buildPage()
await using board = await openBoard()
const { views } = await fill(board)
await using program = await startChromium()
const browser = await chromium.connectOverCDP(program.url)
for (const theme of THEMES) {
  for (const [width, viewport] of Object.entries(WIDTHS)) {
    const context = await browser.newContext({ viewport, colorScheme: theme, reducedMotion: "reduce" })
    const page = await context.newPage()
    for (const [name, path] of Object.entries(views).filter(([name]) => name.includes(values.only))) {
      await page.goto(`${board.url}${path}`)
      await settled(page)
      // With a palette a picture has less than half the bytes. Two pictures are part of the package.
      const picture = sharp(await page.screenshot()).png({ palette: true, effort: 10 })
      await picture.toFile(join(folder, `${name}-${theme}-${width}.png`))
    }
    await context.close()
  }
}
await browser.close()
process.stdout.write(`${folder}\n`)
