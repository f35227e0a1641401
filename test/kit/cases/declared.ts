/** What a transport says about itself. */
import type { Case } from "../case.ts"
import { check, equal, refuses } from "../check.ts"
import { PARTS } from "../harness.ts"

export const declaredCases: ReadonlyArray<Case> = [
  {
    group: "declared",
    name: "the capabilities are those that its author expects",
    async run({ peer, harness }) {
      equal(peer.transport.capabilities, harness.capabilities, "capabilities")
      check(peer.transport.name.length > 0, "a transport must have a name")
    },
  },
  {
    group: "declared",
    name: "the optional members are those that its author expects",
    async run({ peer, harness }) {
      const { records, store, broadcast, queue } = peer.transport
      const { stats, overdue, waiting } = queue
      const members = { records, store, broadcast, stats, overdue, waiting }
      const found = Object.entries(members).flatMap(([part, member]) => (member === undefined ? [] : [part]))
      equal(
        found,
        // Whether it has lists is known when it is asked for one.
        PARTS.filter((part) => part !== "query" && (harness.parts ?? PARTS).includes(part)),
        "optional members",
      )
      if (harness.capabilities.browse)
        check(stats !== undefined && waiting !== undefined, "browse needs stats and waiting")
    },
  },
  {
    group: "declared",
    name: "a namespace outside of its alphabet is refused as invalid",
    async run({ harness, options, within }) {
      for (const namespace of ["", "a b", "a.b", "a>b", "../up", "ü", "n".repeat(65)]) {
        const connecting = harness.connect({ ...options(), namespace })
        const closed = connecting.then((transport) => transport.close().then(() => "a transport"))
        await within(`the refusal of namespace "${namespace}"`, refuses(closed, "invalid", `namespace "${namespace}"`))
      }
    },
  },
]
