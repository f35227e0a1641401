import { readdir, readFile, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { runActor } from "callboard/testing"
import sharp from "sharp"
import { describe, expect, test } from "vitest"
import image, { imageActor } from "../../../actors/image.ts"
import { folderWith } from "./folder.ts"

const picture = (width: number, height: number, format: "png" | "jpeg" = "png", orientation?: number) => {
  const made = sharp({ create: { width, height, channels: 3, background: "teal" } })
  return (orientation === undefined ? made : made.withMetadata({ orientation })).toFormat(format).toBuffer()
}

describe("image.thumbnails", () => {
  test("writes every size in every format, never enlarged, and tells what it wrote", async () => {
    await using folder = await folderWith({ "trip/cat.png": await picture(400, 200) })
    await using run = await runActor(imageActor({ root: folder.path }))
    const job = await run.submit.thumbnails({
      file: "trip/cat.png",
      sizes: [100, 1000, 100],
      formats: ["webp", "avif", "jpeg"],
    })
    const { thumbnails } = await job.result({ timeout: 60 })
    expect(thumbnails.map(({ file, width, height }) => [file, width, height])).toEqual([
      ["thumbnails/trip/cat.png/100.webp", 100, 50],
      ["thumbnails/trip/cat.png/100.avif", 100, 50],
      ["thumbnails/trip/cat.png/100.jpeg", 100, 50],
      ["thumbnails/trip/cat.png/1000.webp", 400, 200],
      ["thumbnails/trip/cat.png/1000.avif", 400, 200],
      ["thumbnails/trip/cat.png/1000.jpeg", 400, 200],
    ])
    for (const { file, width, height, bytes, format } of thumbnails) {
      const written = await readFile(join(folder.path, file))
      expect(written.length).toBe(bytes)
      expect(await sharp(written).metadata()).toMatchObject({
        width,
        height,
        format: format === "avif" ? "heif" : format,
      })
    }
    expect(await readdir(join(folder.path, "thumbnails/trip/cat.png"))).toHaveLength(6)
    expect((await job.find()).progress).toMatchObject({ fraction: 1 })
  })

  test("turns a photo upright, cuts it square, drops its metadata", async () => {
    await using folder = await folderWith({ "photo.jpg": await picture(400, 200, "jpeg", 6) })
    await using run = await runActor(imageActor({ root: folder.path }))
    const upright = await run.call.thumbnails({ file: "photo.jpg", sizes: [100], folder: "upright" })
    expect(upright.thumbnails[0]).toMatchObject({ file: "thumbnails/upright/100.webp", width: 50, height: 100 })
    const square = await run.call.thumbnails({ file: "photo.jpg", sizes: [100], fit: "cover", formats: ["jpeg"] })
    expect(square.thumbnails[0]).toMatchObject({ width: 100, height: 100 })
    const { orientation, exif } = await sharp(join(folder.path, square.thumbnails[0]?.file ?? "")).metadata()
    expect([orientation, exif]).toEqual([undefined, undefined])
  })

  test("a cancelled job stops before the next picture and leaves no drafts", async () => {
    await using folder = await folderWith({ "big.png": await picture(6_000, 4_000) })
    await using run = await runActor(imageActor({ root: folder.path }))
    const sizes = Array.from({ length: 20 }, (_, at) => 1_000 + at)
    const job = await run.submit.thumbnails({ file: "big.png", sizes })
    for await (const event of job.events()) if (event.type === "progress") break
    await job.cancel()
    expect(await job.outcome()).toEqual({ state: "cancelled" })
    await run.close()
    const written = await readdir(join(folder.path, "thumbnails/big.png"))
    expect(written.length).toBeGreaterThan(0)
    expect(written.length).toBeLessThan(20)
    expect(written.filter((name) => name.startsWith("."))).toEqual([])
  })

  test("the soft time limit stops it as well", async () => {
    await using folder = await folderWith({ "big.png": await picture(6_000, 4_000) })
    await using run = await runActor(imageActor({ root: folder.path }))
    const sizes = Array.from({ length: 20 }, (_, at) => 1_000 + at)
    const job = await run.submit.thumbnails({ file: "big.png", sizes }, { timeLimit: { soft: 0.3, hard: 10 } })
    expect(await job.outcome({ timeout: 60 })).toMatchObject({
      state: "failed",
      error: { name: "SoftTimeLimitExceeded", reason: "timeout" },
    })
  })

  test("a picture of too many pixels is refused before it is decoded", async () => {
    await using folder = await folderWith({ "bomb.png": await picture(2_000, 1_000) })
    await using run = await runActor(imageActor({ root: folder.path, maxPixels: 1_999_999 }))
    await expect(run.call.thumbnails({ file: "bomb.png" })).rejects.toMatchObject({
      error: { name: "TooManyPixels", message: "bomb.png has 2000000 pixels; at most 1999999 are allowed" },
    })
    await expect(run.call.info({ file: "bomb.png" })).rejects.toMatchObject({ error: { name: "TooManyPixels" } })
    expect(await readdir(folder.path)).toEqual(["bomb.png"])
  })

  test("a picture that is cut off fails, and leaves nothing behind", async () => {
    const whole = await picture(2_000, 2_000, "jpeg")
    await using folder = await folderWith({ "cut.jpg": whole.subarray(0, whole.length / 2) })
    await using run = await runActor(imageActor({ root: folder.path }))
    const job = await run.submit.thumbnails({ file: "cut.jpg" })
    expect(await job.outcome()).toMatchObject({ state: "failed" })
    expect(await readdir(join(folder.path, "thumbnails/cut.jpg"))).toEqual([])
  })

  test.each([
    ["notes.txt", "just text"],
    ["drawing.svg", '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"/>'],
    ["empty.png", ""],
  ])("%s is no picture", async (file, content) => {
    await using folder = await folderWith({ [file]: content })
    await using run = await runActor(imageActor({ root: folder.path }))
    await expect(run.call.thumbnails({ file })).rejects.toMatchObject({ error: { name: "NotAnImage" } })
  })
})

describe("image.info", () => {
  test("tells the size as it is shown and as it is stored", async () => {
    const photo = await picture(400, 200, "jpeg", 6)
    await using folder = await folderWith({ "photo.jpg": photo })
    await using run = await runActor(imageActor({ root: folder.path }))
    expect(await run.call.info({ file: "photo.jpg" })).toEqual({
      format: "jpeg",
      width: 200,
      height: 400,
      stored: { width: 400, height: 200 },
      pages: 1,
      hasAlpha: false,
      bytes: photo.length,
    })
  })
})

describe("image stays in its folder", () => {
  test.each([
    [{ file: "../outside.png" }],
    [{ file: "/etc/passwd" }],
    [{ file: "leak.png" }],
    [{ file: "in.png", folder: ".." }],
    [{ file: "in.png", folder: "a/../../../elsewhere" }],
    [{ file: "in.png", folder: "/tmp" }],
    [{ file: "in.png", folder: "leak" }],
    [{ file: "in.png", folder: "leak/deeper/still" }],
  ])("%j is refused, and nothing is written", async (input) => {
    const png = await picture(10, 10)
    await using folder = await folderWith({
      "outside.png": png,
      "inside/in.png": png,
      "inside/thumbnails/a/keep": "",
      "other/keep": "",
    })
    const inside = join(folder.path, "inside")
    await symlink(join(folder.path, "outside.png"), join(inside, "leak.png"))
    await symlink(join(folder.path, "other"), join(inside, "thumbnails/leak"))
    await using run = await runActor(imageActor({ root: inside }))
    const before = await readdir(folder.path, { recursive: true })
    await expect(run.call.thumbnails(input)).rejects.toMatchObject({ error: { name: "OutsideRoot" } })
    expect((await readdir(folder.path, { recursive: true })).sort()).toEqual(before.sort())
  })

  test("a link in the place of a thumbnail is replaced, not followed", async () => {
    await using folder = await folderWith({
      "victim.txt": "precious",
      "inside/in.png": await picture(10, 10),
      "inside/thumbnails/t/x": "",
    })
    await symlink(join(folder.path, "victim.txt"), join(folder.path, "inside/thumbnails/t/160.webp"))
    await using run = await runActor(imageActor({ root: join(folder.path, "inside") }))
    await run.call.thumbnails({ file: "in.png", sizes: [160], folder: "t" })
    expect(await readFile(join(folder.path, "victim.txt"), "utf8")).toBe("precious")
  })

  test("a file that is not there", async () => {
    await using folder = await folderWith()
    await using run = await runActor(imageActor({ root: folder.path }))
    await writeFile(join(folder.path, "there.txt"), "")
    await expect(run.call.info({ file: "nowhere.png" })).rejects.toMatchObject({ error: { name: "NoSuchFile" } })
  })
})

describe("image input", () => {
  test.each([
    [{}, "file"],
    [{ file: "a.png", sizes: [] }, "sizes"],
    [{ file: "a.png", sizes: [0] }, "sizes.0"],
    [{ file: "a.png", sizes: [5_000] }, "sizes.0"],
    [{ file: "a.png", formats: ["bmp"] }, "formats.0"],
    [{ file: "a.png", quality: 101 }, "quality"],
    [{ file: "a.png", size: 3 }, ""],
  ])("%j is refused, naming %j", async (input, field) => {
    await using run = await runActor(image)
    const job = await run.client.submit("image.thumbnails", { input })
    expect(await job.outcome()).toMatchObject({
      state: "failed",
      error: { name: "InvalidInput", ...(field === "" ? { message: expect.stringContaining("size") } : { field }) },
    })
  })
})
