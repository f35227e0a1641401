/** Acceptance scenarios of job boards, A and B: posting, iterating, claiming, consuming, abandoning, trashing. */
import { type BoardJob, reorder } from "callboard"
import { describe, expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { all, BOARD, begin, namesOf, refusal } from "./board-scene.ts"
import { onEveryBoard } from "./boards.ts"

onEveryBoard((newBoard) => {
  describe("posting and iterating", () => {
    test("S001 defaults of a posting", async () => {
      const { board } = await begin(newBoard())
      const job = await board.post("a")
      expect(job).toMatchObject({ name: "a", priority: "NORMAL", details: {}, book: null })
      expect(job.id).toMatch(/^[A-Za-z0-9_-]{20,}$/)
      expect(await job.state()).toBe("UNCLAIMED")
      expect(await job.owner()).toBeNull()
      expect(await board.count()).toBe(1)
      expect((await all(board.iterate())).map(({ id }) => id)).toEqual([job.id])
    })

    test("S002 posting content survives", async () => {
      const { board, other } = await begin(newBoard())
      const before = await board.post("before")
      const details = { n: 1, s: "ü✓", l: [1, 2, null] }
      const began = Date.now()
      const job = await board.post("a", { details, book: { name: "b", uuid: "u" }, priority: "high" })
      const [found] = await all((await other()).iterate({ fresh: true }))
      expect(found).toMatchObject({ id: job.id, name: "a", priority: "HIGH", details, book: { name: "b", uuid: "u" } })
      expect(Math.abs((found?.createdAt.getTime() ?? 0) - began)).toBeLessThan(2_000)
      expect(found?.sequence).toBeGreaterThan(before.sequence)
    })

    test("S004 priority values", async () => {
      const { board } = await begin(newBoard())
      expect((await board.post("a", { priority: "high" })).priority).toBe("HIGH")
      expect((await board.post("b", { priority: "HIGH" })).priority).toBe("HIGH")
      await expect(board.post("c", { priority: "urgent" })).rejects.toMatchObject(refusal("invalid-input"))
      expect(await board.count()).toBe(2)
    })

    test("S005 names are not unique", async () => {
      const { board } = await begin(newBoard())
      const [first, second] = [await board.post("a"), await board.post("a")]
      expect(first.id).not.toBe(second.id)
      expect(await board.count()).toBe(2)
      expect((await all(board.iterate())).map(({ id }) => id)).toEqual([first.id, second.id])
    })

    test("S006 reorder, and a board in that order, oldest first inside a priority", async () => {
      expect(reorder(["LOW", 1], ["HIGH", 2])).toEqual([2, 1])
      expect(reorder(["NORMAL", "a"], ["NORMAL", "b"])).toEqual(["a", "b"])
      expect(reorder(["LOW", "x"], ["VERY_HIGH", "y"], ["NORMAL", "z"], ["VERY_HIGH", "w"])).toEqual([
        "y",
        "w",
        "z",
        "x",
      ])
      const { board, other } = await begin(newBoard())
      const second = await other()
      for (const [at, priority] of ["LOW", "VERY_HIGH", "NORMAL", "VERY_LOW", "VERY_HIGH", "HIGH", "LOW"].entries())
        await (at % 2 === 0 ? board : second).post(`${priority} ${at}`, { priority })
      expect(await namesOf(board.iterate())).toEqual([
        "VERY_HIGH 1",
        "VERY_HIGH 4",
        "HIGH 5",
        "NORMAL 2",
        "LOW 0",
        "LOW 6",
        "VERY_LOW 3",
      ])
    })

    test("S008 empty board", async () => {
      const { board } = await begin(newBoard())
      expect(await all(board.iterate())).toEqual([])
      expect(await board.count()).toBe(0)
    })

    test("S009 only unclaimed", async () => {
      const { board } = await begin(newBoard())
      const jobs = [await board.post("a"), await board.post("b"), await board.post("c")]
      await board.claim(jobs[1] ?? "", "me")
      expect(await namesOf(board.iterate({ onlyUnclaimed: true }))).toEqual(["a", "c"])
      expect(await namesOf(board.iterate())).toEqual(["a", "b", "c"])
      expect(board.iterate({ onlyUnclaimed: true })).toMatchObject({ board, onlyUnclaimed: true, fresh: false })
    })

    test("S009 a job that is claimed while it is iterated freshly is left out", async () => {
      const { board, other } = await begin(newBoard())
      const [, second] = [await board.post("a"), await board.post("b"), await board.post("c")]
      const iterator = board.iterate({ onlyUnclaimed: true, fresh: true })
      expect((await iterator.next()).value).toMatchObject({ name: "a" })
      await (await other()).claim(second.id, "me")
      expect(await namesOf(iterator)).toEqual(["c"])
    })

    test("S011 visible to others", async () => {
      const { board, other } = await begin(newBoard())
      const second = await other()
      expect(await second.count()).toBe(0)
      const job = await board.post("a")
      expect((await all(second.iterate({ fresh: true }))).map(({ id }) => id)).toEqual([job.id])
    })

    test("S013 unreadable posting", async () => {
      const { board, client } = await begin(newBoard())
      const first = await board.post("a")
      await board.post("b")
      const { store } = client.connection
      const [entry] = await store.list({ prefix: `board/${BOARD}/2/0/`, limit: 1 })
      const key = `${entry?.key.replace(/[^/]+$/, "")}zz`
      await store.write([{ key, value: new TextEncoder().encode("{garbage") }])
      const reported: Array<unknown> = []
      await board.on("UNREADABLE", (told) => reported.push(told))
      const once = board.iterate()
      expect(await namesOf(once)).toEqual(["a", "b"])
      expect(once.unreadable).toEqual([key])
      await board.post("c")
      await board.claim(first, "me")
      const twice = board.iterate()
      expect(await namesOf(twice)).toEqual(["a", "b", "c"])
      expect(twice.unreadable).toEqual([key])
      expect(await board.count()).toBe(3)
      expect((await board.take("me")).job.name).toBe("b")
      await eventually(() => reported.length > 0, { message: "it is reported" })
      expect(reported).toEqual([{ event: "UNREADABLE", key }])
    })

    test("jobs of a backlog of many buckets come in order, and are taken in order", async () => {
      const { board, other } = await begin(newBoard())
      const boards = [board, await other()]
      const posts: Array<{ readonly sequence: number; readonly name: string }> = []
      for (let at = 0; at < 640; at += 8) {
        posts.push(
          ...(await Promise.all(
            Array.from({ length: 8 }, (_, i) => boards[i % 2]?.post(`${at + i}`) ?? board.post("")),
          )),
        )
      }
      const inOrder = posts.toSorted((a, b) => a.sequence - b.sequence).map(({ name }) => name)
      expect(new Set(inOrder).size).toBe(640)
      expect(await namesOf(board.iterate())).toEqual(inOrder)
      const first = await Promise.all(Array.from({ length: 10 }, () => board.take("me")))
      expect(first.map(({ job }) => job.name)).toEqual(inOrder.slice(0, 10))
      await Promise.all(first.map((claim) => claim.consume()))
      await board.post("urgent", { priority: "VERY_HIGH" })
      expect((await board.take("me")).job.name).toBe("urgent")
      expect((await board.take("me")).job.name).toBe(inOrder[10])
      expect(await board.count()).toBe(631)
    })
  })

  describe("claim, consume, abandon, trash", () => {
    test("S016 claim", async () => {
      const { board, other } = await begin(newBoard())
      const job = await board.post("a")
      await board.claim(job, "me")
      expect(await job.state()).toBe("CLAIMED")
      expect(await board.findOwner(job)).toBe("me")
      expect(await (await other()).findOwner(job.id)).toBe("me")
    })

    test("S017 second claimer", async () => {
      const { board, other } = await begin(newBoard())
      const job = await board.post("a")
      await board.claim(job, "me")
      await expect((await other()).claim(job.id, "other")).rejects.toMatchObject({
        ...refusal("unclaimable"),
        message: expect.stringContaining('"me"'),
      })
      await expect(board.claim(job, "me", { expiry: 9 })).rejects.toMatchObject(refusal("unclaimable"))
      expect(await job.expiresIn()).toBeGreaterThan(50)
      expect(await board.findOwner(job)).toBe("me")
    })

    test("S019 applicant names", async () => {
      const { board, client } = await begin(newBoard())
      const job = await board.post("a")
      const before = await client.connection.store.list({ prefix: "board/", limit: 100 })
      for (const owner of ["", 7, "a\u0000", "x".repeat(256)]) {
        const text = owner as string
        for (const call of [
          () => board.claim(job, text),
          () => board.take(text),
          () => board.consume(job, text),
          () => board.abandon(job, text),
          () => board.trash(job, text),
        ]) {
          await expect(call()).rejects.toMatchObject({ ...refusal("invalid-input"), details: { field: "owner" } })
        }
      }
      expect(await client.connection.store.list({ prefix: "board/", limit: 100 })).toEqual(before)
    })

    test("S020 consume", async () => {
      const { board, other } = await begin(newBoard())
      const job = await board.post("a")
      await board.post("b")
      await board.claim(job, "me")
      const view = await board.consume(job, "me")
      expect(view.story.map(({ step }) => step)).toEqual(["posted", "claimed", "consumed"])
      expect(await job.state()).toBe("COMPLETE")
      expect(await board.findOwner(job)).toBeNull()
      expect(await namesOf((await other()).iterate())).toEqual(["b"])
      expect(await board.count()).toBe(1)
      expect(await job.wait()).toBe(true)
    })

    test("S021 consume without claim", async () => {
      const { board } = await begin(newBoard())
      const job = await board.post("a")
      await expect(board.consume(job, "me")).rejects.toMatchObject(refusal("not-found"))
      expect(await job.state()).toBe("UNCLAIMED")
      await board.claim(job, "me")
      await expect(board.consume(job, "other")).rejects.toMatchObject({
        ...refusal("not-owner"),
        message: expect.stringContaining('"me"'),
      })
      expect(await job.state()).toBe("CLAIMED")
    })

    test("S023 consume twice", async () => {
      const { board } = await begin(newBoard())
      const job = await board.post("a")
      const claim = await board.claim(job, "me")
      await claim.consume()
      await expect(claim.consume()).rejects.toMatchObject(refusal("not-found"))
      await expect(board.consume(job, "me")).rejects.toMatchObject(refusal("not-found"))
    })

    test("S024 claim a consumed job", async () => {
      const { board, client, other } = await begin(newBoard())
      const job = await board.post("a")
      const second = await other()
      const handle = await second.job(job.id)
      await (await board.claim(job, "me")).consume()
      const before = await client.connection.store.list({ prefix: "board/", limit: 100 })
      for (const given of [handle, job.id]) {
        await expect(second.claim(given, "other")).rejects.toMatchObject(refusal("not-found"))
      }
      await expect(board.claim(job, "me")).rejects.toMatchObject(refusal("not-found"))
      expect(await client.connection.store.list({ prefix: "board/", limit: 100 })).toEqual(before)
      expect(await handle.state()).toBe("COMPLETE")
      await expect(second.job(job.id)).rejects.toMatchObject(refusal("not-found"))
      await expect(second.job("no such id")).rejects.toMatchObject(refusal("not-found"))
    })

    test("S024 a job that has the place of a consumed one is another job", async () => {
      const { board, client } = await begin(newBoard())
      const job = await board.post("a")
      await (await board.claim(job, "me")).consume()
      const { store } = client.connection
      const next = await board.post("b")
      const [entry] = await store.list({ prefix: `board/${BOARD}/2/0/`, limit: 1 })
      // The same place, as a poster may choose it.
      const place = job.id.slice(36).split("-").at(-1) ?? ""
      const moved = {
        ...JSON.parse(new TextDecoder().decode(entry?.value)),
        id: `${next.id.slice(0, 36)}${job.id.slice(36)}`,
      }
      await store.write([
        { key: entry?.key ?? "", value: null },
        { key: `board/${BOARD}/2/0/${place}`, value: new TextEncoder().encode(JSON.stringify(moved)) },
      ])
      await expect(board.claim(job, "me")).rejects.toMatchObject(refusal("not-found"))
      await expect(board.consume(job.id, "me")).rejects.toMatchObject(refusal("not-found"))
      expect(await board.findOwner(job)).toBeNull()
      expect(await board.findOwner(moved.id)).toBeNull()
      expect((await board.take("me")).job.id).toBe(moved.id)
    })

    test("S025 abandon", async () => {
      const { board, other } = await begin(newBoard())
      const job = await board.post("a")
      await board.claim(job, "me")
      await board.abandon(job, "me")
      expect(await job.state()).toBe("UNCLAIMED")
      const second = await other()
      expect(await namesOf(second.iterate({ onlyUnclaimed: true }))).toEqual(["a"])
      const claim = await second.claim(job.id, "other")
      expect(claim.view).toMatchObject({ lastOwner: "me", earlier: [{ owner: "me", ended: "abandoned" }] })
    })

    test("S026 abandon without claim", async () => {
      const { board } = await begin(newBoard())
      const job = await board.post("a")
      await expect(board.abandon(job, "me")).rejects.toMatchObject(refusal("not-found"))
      await board.claim(job, "me")
      await board.abandon(job, "me")
      await expect(board.abandon(job, "me")).rejects.toMatchObject(refusal("not-found"))
    })

    test("S028 trash, listed, read and restored; without a claim it is refused", async () => {
      const { board, other } = await begin(newBoard())
      const job = await board.post("a", { details: { n: 1 } })
      await board.post("b")
      await expect(board.trash(job, "me")).rejects.toMatchObject(refusal("not-found"))
      expect(await namesOf(board.iterate())).toEqual(["a", "b"])
      await board.claim(job, "me")
      await board.trash(job, "me")
      expect(await namesOf(board.iterate())).toEqual(["b"])
      expect(await job.state()).toBe("COMPLETE")
      const second = await other()
      expect(await second.trashed()).toMatchObject([{ id: job.id, name: "a", lastOwner: "me" }])
      expect(await second.trashedJob(job.id)).toMatchObject({ details: { n: 1 } })
      await expect(second.claim(job.id, "me")).rejects.toMatchObject(refusal("not-found"))
      const restored = await second.restore(job.id)
      expect(restored).toMatchObject({ id: job.id, sequence: job.sequence })
      await expect(second.restore(job.id)).rejects.toMatchObject(refusal("not-found"))
      await expect(second.trashedJob(job.id)).rejects.toMatchObject(refusal("not-found"))
      expect(await second.trashed()).toEqual([])
      expect(await namesOf(board.iterate())).toEqual(["a", "b"])
      const claim = await board.take("me")
      expect(claim.job.id).toBe(job.id)
      expect((await claim.consume()).story.map(({ step }) => step)).toEqual([
        "posted",
        "claimed",
        "trashed",
        "restored",
        "claimed",
        "consumed",
      ])
      expect(await board.count()).toBe(1)
    })

    test("S029 claim race", async () => {
      const { board, other } = await begin(newBoard())
      const jobs: Array<BoardJob> = []
      for (let at = 0; at < 20; at++) jobs.push(await board.post(`${at}`))
      const claimers = await Promise.all(Array.from({ length: 6 }, () => other()))
      const attempts = await Promise.allSettled(
        claimers.flatMap((each, at) => jobs.map((job) => each.claim(job.id, `claimer ${at}`))),
      )
      const won = attempts.flatMap((each) => (each.status === "fulfilled" ? [each.value.job.id] : []))
      expect(won.toSorted()).toEqual(jobs.map(({ id }) => id).toSorted())
      const codes = attempts.flatMap((each) => (each.status === "rejected" ? [each.reason.code] : []))
      expect(codes).toEqual(Array.from({ length: 100 }, () => "unclaimable"))
    })

    test("S029 a race of claims of the next job", async () => {
      const { board, other } = await begin(newBoard())
      for (let at = 0; at < 40; at++) await board.post(`${at}`)
      const claimers = await Promise.all(Array.from({ length: 4 }, () => other()))
      const taken = await Promise.allSettled(
        Array.from({ length: 44 }, (_, at) => (claimers[at % 4] ?? board).take(`claimer ${at}`)),
      )
      const names = taken.flatMap((each) => (each.status === "fulfilled" ? [each.value.job.name] : []))
      expect(new Set(names).size).toBe(40)
      expect(names).toHaveLength(40)
      const codes = taken.flatMap((each) => (each.status === "rejected" ? [each.reason.code] : []))
      expect(codes).toEqual(["not-found", "not-found", "not-found", "not-found"])
    })

    test("S031 owner of nothing", async () => {
      const { board } = await begin(newBoard())
      const job = await board.post("a")
      expect(await board.findOwner(job)).toBeNull()
      await (await board.claim(job, "me")).consume()
      expect(await board.findOwner(job)).toBeNull()
      expect(await board.findOwner("unknown")).toBeNull()
    })

    test("S034 last modified", async () => {
      const { board } = await begin(newBoard())
      const job = await board.post("a")
      const times = [job.createdAt.getTime()]
      const look = async () => times.push((await job.lastModified()).getTime())
      await look()
      await board.claim(job, "me")
      await look()
      await board.abandon(job, "me")
      await look()
      await board.claim(job, "me")
      await look()
      expect(times).toEqual(times.toSorted((a, b) => a - b))
    })
  })
})
