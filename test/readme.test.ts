/** The README is what a reader sees first: short, and its first example answers as it says. */
import { join } from "node:path"
import { expect, test } from "vitest"
import { makeExamples } from "./cli/examples.ts"
import { freePort, spawnProcess, spawnScript } from "./support/servers/process.ts"
import { firstOf, readPage } from "./support/tools/pages.ts"

const readme = readPage("README.md")

test("opens with twelve lines of code, a curl and its answer, and no other claims", () => {
  const [first, second, third] = readme.blocks
  expect([first?.language, second?.language, third?.language]).toEqual(["ts", "sh", "json"])
  expect(first?.text.trimEnd().split("\n")).toHaveLength(12)
  expect(readme.text.slice(0, readme.text.indexOf("## Try it"))).not.toMatch(/fast|per second|jobs\/s|effect\.website/i)
})

test.each([readme, readPage("ARCHITECTURE.md")])("$path is read in one go", ({ text }) => {
  expect(text.split("\n").length - 1).toBeLessThanOrEqual(250)
})

test("the first example answers its curl as it says", async () => {
  using project = makeExamples({ "service.ts": "" })
  const port = await freePort()
  const here = (text: string) => text.replaceAll("7420", `${port}`)
  project.write("service.ts", here(firstOf(readme, "ts").text))
  await using service = spawnScript(join(project.path, "service.ts"), [], { cwd: project.path })
  const curl = here(firstOf(readme, "sh").text).replace(
    "curl -s",
    "curl -s --fail --retry 20 --retry-connrefused --retry-delay 1",
  )
  await using pasted = spawnProcess("sh", ["-c", curl])
  const { code } = await pasted.closed
  expect({ code, service: service.stderr }).toMatchObject({ code: 0 })
  const answer: { readonly id: string } = JSON.parse(pasted.stdout)
  const [id = ""] = /[0-9a-f-]{36}/.exec(firstOf(readme, "json").text) ?? []
  const record = await (await fetch(here(`http://localhost:7420/v1/jobs/${answer.id}`))).text()
  expect(answer, record).toEqual(JSON.parse(firstOf(readme, "json").text.replaceAll(id, answer.id)))
  service.kill("SIGTERM")
  expect(await service.exited).toEqual({ code: 0, signal: null })
})
