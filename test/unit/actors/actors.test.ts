import { fileURLToPath } from "node:url"
import { discoverActors } from "callboard"
import { describe, expect, test } from "vitest"
import image from "../../../actors/image.ts"
import order from "../../../actors/order.ts"
import text from "../../../actors/text.ts"
import webhook from "../../../actors/webhook.ts"

describe("the actors that ship", () => {
  test("are found in their folder by themselves, beside the files they are made of", async () => {
    const found = await discoverActors(fileURLToPath(new URL("../../../actors", import.meta.url)))
    expect(found.map((actor) => actor.name).sort()).toEqual(["image", "order", "text", "webhook"])
  })

  test("say what they and their methods do, and check what they get", () => {
    for (const actor of [image, order, text, webhook]) {
      expect(actor.description).toBeTruthy()
      for (const method of actor.methods.values()) {
        expect(method.description, `${actor.name}.${method.name}`).toBeTruthy()
        expect(method.input, `${actor.name}.${method.name}`).toBeDefined()
      }
    }
  })
})
