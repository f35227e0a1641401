/** The options that programs of a worker share with it. */
import { expect, test } from "vitest"
import { runtimeOptions } from "../../../../runtime/platform/program.ts"

test.each([
  [
    "--import ./a.mjs --conditions=x -C y --max-old-space-size=64",
    "--import ./a.mjs --conditions=x -C y --max-old-space-size=64",
  ],
  ["--smol --preload ./a.ts -r ./b.ts", "--smol --preload ./a.ts -r ./b.ts"],
  ["--inspect --inspect-brk=9229 --inspect-port 9230 --debug-port=9 --smol", "--smol"],
  ["--watch --watch-path src --watch-path=lib --hot --import ./a.mjs", "--import ./a.mjs"],
  ["--input-type=module -e text", ""],
  ["--conditions x --eval text", "--conditions x"],
  ["-p text", ""],
  ["-pe text --smol", "--smol"],
  ["--test --test-name-pattern a --test-reporter=tap --enable-source-maps", "--enable-source-maps"],
  ["--env-file .env --env-file-if-exists=.b --cwd sub --experimental-sqlite", "--experimental-sqlite"],
])("%s", (given, kept) => {
  const words = (text: string) => text.split(" ").filter((word) => word !== "")
  expect(runtimeOptions(words(given))).toEqual(words(kept))
})
