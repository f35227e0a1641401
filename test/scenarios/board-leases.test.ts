/** Acceptance scenarios of job boards, C: leases, and owners that are lost. */
import { fileURLToPath } from "node:url"
import { connect } from "callboard"
import { describe, expect, onTestFinished, test } from "vitest"
import { freeze } from "../e2e/processes.ts"
import { bundled } from "../support/servers/bundle.ts"
import { eventually, spawnScript } from "../support/servers/process.ts"
import { BOARD, begin, namesOf, refusal } from "./board-scene.ts"
import { onEveryBoard } from "./boards.ts"
import { mortal } from "./mortal.ts"

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** A process that has claimed the first job. */
const owner = async (url: string, lease: number, expiry: number | "" = "") => {
  const program = bundled(fileURLToPath(new URL("board-owner.ts", import.meta.url)))
  const child = spawnScript(program, [url, BOARD, `${lease}`, `${expiry}`])
  onTestFinished(() => child[Symbol.asyncDispose]())
  await child.waitForLine(/^claimed/)
  return child
}

onEveryBoard((newBoard, transport) => {
  describe("leases", () => {
    test("S036 lease lapses", async () => {
      const { board } = await begin(newBoard())
      const job = await board.post("a")
      await board.claim(job, "me", { expiry: 0.5 })
      expect(await job.owner()).toBe("me")
      await wait(600)
      expect(await job.state()).toBe("UNCLAIMED")
      expect(await namesOf(board.iterate({ onlyUnclaimed: true }))).toEqual(["a"])
      const { story } = await job.find()
      expect(story.map(({ step }) => step)).toEqual(["posted", "claimed", "lapsed"])
    })

    test("S037 expires in", async () => {
      const { board } = await begin(newBoard())
      const job = await board.post("a")
      expect(await job.expiresIn()).toBe("NOT_CLAIMED")
      await board.claim(job, "me", { expiry: null })
      expect(await job.expiresIn()).toBe("DOES_NOT_EXPIRE")
      await board.abandon(job, "me")
      await board.claim(job, "me", { expiry: "2s" })
      expect(await job.expiresIn()).toBeGreaterThan(1)
      expect(await job.expiresIn()).toBeLessThanOrEqual(2)
      expect(await job.extendExpiry(30)).toBe(true)
      expect(await job.expiresIn()).toBeGreaterThan(25)
      expect(await board.extendExpiry(job, 5, { owner: "me" })).toBe(true)
      expect(await job.expiresIn()).toBeLessThanOrEqual(5)
      await expect(board.extendExpiry(job, 5, { owner: "other" })).rejects.toMatchObject(refusal("not-owner"))
      await board.abandon(job, "me")
      expect(await job.extendExpiry(30)).toBe(false)
    })

    test("S040 bad expiry", async () => {
      const { board } = await begin(newBoard())
      const job = await board.post("a")
      for (const expiry of [0, -1, "0s", Number.NaN, "soon"]) {
        await expect(board.claim(job, "me", { expiry })).rejects.toMatchObject({
          ...refusal("invalid-input"),
          details: { field: "expiry" },
        })
      }
      expect(await job.state()).toBe("UNCLAIMED")
    })

    test("S041 owner after lapse", async () => {
      const { board } = await begin(newBoard())
      const job = await board.post("a")
      const claim = await board.claim(job, "me", { expiry: 0.2 })
      await wait(250)
      for (const late of [claim.consume, claim.abandon, claim.trash]) {
        await expect(late()).rejects.toMatchObject(refusal("not-found"))
      }
      await expect(board.consume(job.id, "me")).rejects.toMatchObject(refusal("not-found"))
      expect(await namesOf(board.iterate())).toEqual(["a"])
    })

    test("an owner that was overtaken is refused, also by one of its own name", async () => {
      const { board, other } = await begin(newBoard())
      const job = await board.post("a")
      const first = await board.claim(job, "me", { expiry: 0.2 })
      await wait(250)
      const second = await (await other()).claim(job.id, "me")
      expect(second.number).toBe(2)
      expect(second.view).toMatchObject({ lastOwner: "me", earlier: [{ owner: "me", ended: "lapsed" }] })
      for (const late of [first.consume, first.abandon, first.trash]) {
        await expect(late()).rejects.toMatchObject(refusal("not-owner"))
      }
      await expect(board.extendExpiry(job, 9)).rejects.toMatchObject(refusal("not-owner"))
      expect(await board.findOwner(job)).toBe("me")
      expect((await second.consume()).story.map(({ step }) => step)).toEqual([
        "posted",
        "claimed",
        "lapsed",
        "taken-over",
        "consumed",
      ])
    })

    test("a claim without an expiry is renewed while its board is connected, and its signal tells of the loss", async () => {
      const { board, other } = await begin(newBoard(), { lease: 1 })
      const job = await board.post("a")
      const claim = await board.claim(job, "me")
      const second = await other()
      await wait(2_500)
      await expect(second.claim(job.id, "other")).rejects.toMatchObject(refusal("unclaimable"))
      expect(claim.signal.aborted).toBe(false)
      await board.close()
      expect(claim.signal.aborted).toBe(true)
      await eventually(() => second.claim(job.id, "other"), { deadline: 5_000, message: "it lapses" })
    })

    test("reclaimAfter delays a takeover, and onTakeover may roll back first", async () => {
      const { board, client } = await begin(newBoard())
      const rolledBack: Array<string> = []
      let fails = true
      const onTakeover = ({ name }: { readonly name: string }, lost: { readonly owner: string }) => {
        if (fails) throw new Error("cannot roll back")
        rolledBack.push(`${name} of ${lost.owner}`)
      }
      const careful = client.board(BOARD, { reclaimAfter: "500ms", onTakeover })
      // Longer than a busy machine holds this process up.
      const patient = client.board(BOARD, { reclaimAfter: "1h", onTakeover })
      const job = await board.post("a")
      await board.claim(job, "me", { expiry: 0.2 })
      await wait(250)
      await expect(patient.claim(job.id, "other")).rejects.toMatchObject({
        ...refusal("unclaimable"),
        message: expect.stringContaining('"me"'),
      })
      await expect(patient.take("other")).rejects.toMatchObject(refusal("not-found"))
      await expect(careful.take("other", { wait: 30 })).rejects.toThrow(/onTakeover failed.*cannot roll back/)
      expect(await job.state()).toBe("UNCLAIMED")
      fails = false
      // A board without a hook takes it over, and loses it in its turn.
      await board.claim(job, "third", { expiry: 0.1 })
      const claim = await careful.take("other", { wait: 30 })
      expect(rolledBack).toEqual(["a of third"])
      await claim.consume()
    })

    test("S043 owner process killed", async () => {
      const url = newBoard()
      const { board } = await begin(url)
      const job = await board.post("a")
      if (transport === "memory") {
        // Memory dies with its process: the owner is cut off from it instead.
        const { transports, die } = mortal()
        const gone = await connect(url.replace("memory:", "mortal:"), { transports })
        onTestFinished(() => gone.close().catch(() => undefined))
        await gone.board(BOARD).claim(job.id, "owner", { expiry: 3 })
        die()
      } else {
        const child = await owner(url, 60, 3)
        child.kill("SIGKILL")
        await child.closed
      }
      const dead = await job.find()
      // On a busy machine the claim may have lapsed by now.
      expect(dead.owner ?? dead.story.at(-1)?.step).toMatch(/^(owner|lapsed)$/)
      const claim = await board.take("other", { wait: 60 })
      expect(claim.view.lastOwner).toBe("owner")
      const { story } = claim.view
      expect(story.map(({ step }) => step)).toEqual(["posted", "claimed", "lapsed", "taken-over"])
      const [, claimed = 0, lapsed = 0, takenOver = 0] = story.map(({ at }) => Date.parse(at) / 1_000)
      // The claim lapses by its own expiry, and not by the lease of the board, which is ten times as long or more.
      expect(lapsed - claimed).toBeCloseTo(3, 1)
      expect(takenOver - claimed).toBeLessThan(25)
    })

    // Memory is of one process. A frozen one cannot be overtaken there.
    if (transport !== "memory")
      test("an owner process that was frozen while another took over is refused", async () => {
        const url = newBoard()
        const { board, client } = await begin(url)
        const job = await board.post("a")
        const child = await owner(url, 1)
        await wait(1_500)
        expect(await board.findOwner(job)).toBe("owner")
        await freeze(child, client)
        const claim = await board.take("owner", { wait: 10 })
        child.kill("SIGCONT")
        child.write("consume\n")
        await child.waitForLine(/^(not-owner|lost)$/)
        child.write("consume\n")
        await child.waitForLine(/^not-owner$/)
        expect(await job.owner()).toBe("owner")
        expect((await claim.consume()).story.map(({ step }) => step)).toEqual([
          "posted",
          "claimed",
          "lapsed",
          "taken-over",
          "consumed",
        ])
      })

    test("S044 on transports with leases a claim stays when its board is closed", async () => {
      const { board, other } = await begin(newBoard())
      const job = await board.post("a")
      const second = await other()
      await second.claim(job.id, "me", { expiry: 30 })
      await second.close()
      expect(await job.state()).toBe("CLAIMED")
      await board.abandon(job, "me")
      expect(await job.state()).toBe("UNCLAIMED")
    })

    test("S045 kept alive", async () => {
      const { board, other } = await begin(newBoard())
      const job = await board.post("a")
      const second = await other()
      const seen = new Set<string>()
      /** Looks for longer than the claim holds by itself. Returns the longest time between two extensions. */
      const observe = async (): Promise<number> => {
        await board.claim(job, "me", { expiry: 3 })
        seen.clear()
        let [extended, longest] = [performance.now(), 0]
        const extend = setInterval(() => {
          const asked = performance.now()
          void board.extendExpiry(job, 3).then(() => {
            longest = Math.max(longest, performance.now() - extended)
            extended = asked
          })
        }, 400)
        onTestFinished(() => clearInterval(extend))
        const end = performance.now() + 4_500
        while (performance.now() < end) {
          seen.add(await job.state())
          seen.add(
            await second.claim(job.id, "other").then(
              () => "claimed",
              ({ code }) => code,
            ),
          )
          await wait(100)
        }
        clearInterval(extend)
        await second.abandon(job.id, "other").catch(() => undefined)
        await board.abandon(job, "me").catch(() => undefined)
        return Math.max(longest, performance.now() - extended)
      }
      // A machine that holds this process up for as long as the claim holds cannot keep it alive.
      await eventually(async () => (await observe()) < 2_500, { deadline: 60_000, message: "the claim is extended" })
      expect([...seen].toSorted()).toEqual(["CLAIMED", "unclaimable"])
    })
  })
})
