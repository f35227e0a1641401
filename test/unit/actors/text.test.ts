import { symlink } from "node:fs/promises"
import { join } from "node:path"
import { runActor } from "callboard/testing"
import { describe, expect, test } from "vitest"
import text, { textActor } from "../../../actors/text.ts"
import { folderWith } from "./folder.ts"

const POEM = "The cat sat.\nThe cat ran!\n\nA dog?\n"

describe("text.count", () => {
  test("counts words, sentences and the most frequent words over files and patterns, each file once", async () => {
    await using folder = await folderWith({
      "a.md": POEM,
      "deep/er/b.md": "Cat — the end.",
      "deep/c.txt": "not matched",
    })
    await using run = await runActor(textActor({ root: folder.path }))
    expect(await run.call.count({ files: ["a.md", "**/*.md"], top: 2 })).toEqual({
      files: 2,
      bytes: Buffer.byteLength(`${POEM}Cat — the end.`),
      words: 11,
      sentences: 4,
      characters: expect.any(Number),
      lix: 2.8,
      level: "very easy",
      top: [
        { word: "cat", count: 3 },
        { word: "the", count: 3 },
      ],
      skipped: [],
    })
  })

  test("a language decides what a word is", async () => {
    await using folder = await folderWith({ "ja.txt": "吾輩は猫である。名前はまだ無い。", "tr.txt": "ISI ısı" })
    await using run = await runActor(textActor({ root: folder.path }))
    expect(await run.call.count({ files: "ja.txt", language: "ja" })).toMatchObject({ sentences: 2, words: 9 })
    expect((await run.call.count({ files: "tr.txt", language: "tr" })).top).toEqual([{ word: "ısı", count: 2 }])
  })

  test("streams a file that is far longer than what it keeps, with progress by bytes", async () => {
    const line = "some words that are repeated "
    const bytes = line.repeat(200_000)
    await using folder = await folderWith({ "one-line.txt": bytes })
    await using run = await runActor(textActor({ root: folder.path }))
    const job = await run.submit.count({ files: "one-line.txt", top: 1 })
    const seen: Array<number> = []
    for await (const event of job.events()) if (event.type === "progress") seen.push(event.fraction)
    expect(await job.result()).toMatchObject({ words: 1_000_000, top: [{ word: "are", count: 200_000 }] })
    expect(seen.length).toBeGreaterThan(0)
    expect(seen).toEqual([...seen].sort((a, b) => a - b))
    expect((await job.find()).progress).toMatchObject({ fraction: 1, detail: { file: "one-line.txt" } })
  })

  test("a cancelled job stops reading", async () => {
    await using folder = await folderWith({ "long.txt": "word ".repeat(4_000_000) })
    await using run = await runActor(textActor({ root: folder.path }))
    const job = await run.submit.count({ files: "long.txt" })
    for await (const event of job.events()) if (event.type === "progress") break
    await job.cancel()
    expect(await job.outcome()).toEqual({ state: "cancelled" })
    await run.close()
    expect((await run.logs.at(-1))?.fields).toMatchObject({ stuck: 0 })
  })

  test("leaves out what is no text, and says so", async () => {
    await using folder = await folderWith({
      "a.txt": "fine",
      "binary.txt": new Uint8Array([65, 0, 66]),
      "latin1.txt": new Uint8Array([0x67, 0x72, 0xfc, 0x6e]),
      "cut.txt": new Uint8Array([0x61, 0xe2, 0x82]),
      "empty.txt": "",
    })
    await using run = await runActor(textActor({ root: folder.path }))
    expect(await run.call.count({ files: "*.txt" })).toMatchObject({
      files: 2,
      words: 1,
      skipped: [
        { file: "binary.txt", reason: "is binary" },
        { file: "cut.txt", reason: "is not UTF-8" },
        { file: "latin1.txt", reason: "is not UTF-8" },
      ],
    })
  })

  test("an empty file has no words and is easy to read", async () => {
    await using folder = await folderWith({ "empty.txt": "" })
    await using run = await runActor(textActor({ root: folder.path }))
    expect(await run.call.count({ files: "empty.txt" })).toMatchObject({
      words: 0,
      lix: 0,
      level: "very easy",
      top: [],
    })
  })

  test("keeps words whole where paragraphs, lines and chunks end", async () => {
    // Two bytes per letter, at every offset to the chunks of 64 KiB.
    const files = Object.fromEntries(
      [0, 1, 2, 3].map((shift) => [`${shift}.txt`, `${"x".repeat(shift)} ${"größe\r\n\r\n".repeat(20_000)}`]),
    )
    await using folder = await folderWith(files)
    await using run = await runActor(textActor({ root: folder.path }), { timeout: "30 seconds" })
    expect((await run.call.count({ files: "*.txt", top: 1 })).top).toEqual([{ word: "größe", count: 80_000 }])
  })
})

describe("text.readability", () => {
  test("rates each file, hardest first", async () => {
    await using folder = await folderWith({
      "easy.md": "The cat sat. It ran off. We saw it go.",
      "hard.md":
        "Notwithstanding considerable institutional reservations, administrative representatives subsequently recommended comprehensive infrastructural investigations.",
    })
    await using run = await runActor(textActor({ root: folder.path }))
    expect(await run.call.readability({ files: "*.md" })).toEqual({
      files: [
        { file: "hard.md", words: 11, lix: 111, level: "very hard" },
        { file: "easy.md", words: 10, lix: 3.3, level: "very easy" },
      ],
      skipped: [],
    })
  })
})

describe("text stays in its folder", () => {
  const outside = ["../secret.txt", "a/../../secret.txt", "{..,a}/*.txt", "@(..|a)/*.txt", "..\\secret.txt"]
  test.each([...outside, "/etc/passwd", "leak.txt"])("%s is refused", async (files) => {
    await using folder = await folderWith({ "secret.txt": "secret", "inside/a/b.txt": "fine" })
    await symlink(join(folder.path, "secret.txt"), join(folder.path, "inside/leak.txt"))
    await using run = await runActor(textActor({ root: join(folder.path, "inside") }))
    const job = await run.submit.count({ files })
    expect(await job.outcome()).toMatchObject({ state: "failed", error: { name: "OutsideRoot", reason: "handler" } })
  })

  test.each(["*?*?*?*?*?*?*?*?*?*?*?*?*?*?*x", "{1..3000000}", "{a,b}{a,b}", "+(+(?))x", "**/a/**/b/**/c"])(
    "%s is refused, since matching it could take for ever",
    async (files) => {
      await using folder = await folderWith({ "some-long-name-of-a-file-that-is-there.md": "x" })
      await using run = await runActor(textActor({ root: folder.path }))
      const job = await run.submit.count({ files })
      expect(await job.outcome({ timeout: 10 })).toMatchObject({ state: "failed", error: { name: "CostlyPattern" } })
    },
  )

  test("patterns skip links that lead out, hidden files and packages; links within are the file they lead to", async () => {
    await using folder = await folderWith({
      "secret/secret.txt": "secret",
      "inside/a.txt": "fine",
      "inside/.env.txt": "hidden",
      "inside/.git/b.txt": "hidden",
      "inside/node_modules/c.txt": "package",
    })
    const inside = join(folder.path, "inside")
    await symlink(join(folder.path, "secret/secret.txt"), join(inside, "leak.txt"))
    await symlink(join(folder.path, "secret"), join(inside, "leaks"))
    await symlink(join(inside, "a.txt"), join(inside, "again.txt"))
    await symlink(inside, join(inside, "round"))
    await using run = await runActor(textActor({ root: inside }))
    const { files, words, skipped } = await run.call.count({ files: ["**/*.txt", "leaks/*.txt"] })
    expect([files, words]).toEqual([1, 1])
    expect(skipped).toContainEqual({ file: "leak.txt", reason: "is outside the folder" })
    expect(skipped).toContainEqual({ file: "leaks/secret.txt", reason: "is outside the folder" })
  })

  test.each([
    ["nowhere.txt", "NoSuchFile"],
    ["*.nothing", "NoSuchFile"],
    ["a", "NoSuchFile"],
    ["**/*.txt", "TooManyFiles"],
  ])("%s fails with %s", async (files, name) => {
    await using folder = await folderWith({ "a/1.txt": "1", "a/2.txt": "2", "a/3.txt": "3" })
    await using run = await runActor(textActor({ root: folder.path, maxFiles: 2 }))
    await expect(run.call.count({ files })).rejects.toMatchObject({ _tag: "JobFailed", error: { name } })
  })

  test("a folder that is not there is told when a task asks for it", async () => {
    await using run = await runActor(textActor({ root: "/nowhere/at/all" }))
    await expect(run.call.count({ files: "*" })).rejects.toMatchObject({
      error: { message: expect.stringContaining("TEXT_ROOT") },
    })
  })
})

describe("text input", () => {
  test.each([
    [{}, "files"],
    [{ files: "" }, "files"],
    [{ files: [] }, "files"],
    [{ files: "a", top: -1 }, "top"],
    [{ files: "a", language: "not a language" }, "language"],
    [{ files: "a", pot: 1 }, "pot"],
  ])("%j is refused, naming %s", async (input, field) => {
    await using run = await runActor(text)
    const job = await run.client.submit("text.count", { input })
    expect(await job.outcome()).toMatchObject({ state: "failed", error: { name: "InvalidInput", field } })
  })
})
