import { execFileSync } from "node:child_process"
import { expect, test } from "vitest"
import { shellWord } from "../../../../runtime/log/shell-word.ts"

test.each(["mail-1", "a.b:c@d/e+f=g,h%", "0199b2f4-7c1e-7000-8000-000000000000"])("%s stays as it is", (word) =>
  expect(shellWord(word)).toBe(word),
)

test.each([
  "x; rm -rf ~",
  "$(id)",
  "`id`",
  "a b",
  "it's",
  "'\\''",
  "a\nb",
  "\u001b[2J'\\x",
  "-x",
  "",
  "*",
  "~",
  "é 👩",
])("%j is one word of a shell", (word) => {
  const command = `printf %s ${shellWord(word)}`
  expect(command).not.toMatch(/\p{Cc}/u)
  expect(execFileSync("bash", ["-c", command], { env: { ...process.env, LC_ALL: "C.UTF-8" } }).toString()).toBe(word)
})
