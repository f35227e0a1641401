/**
 * What each user of the account file reaches on a real server, subject by subject: as a request, as the reply subject of each
 * request that it may send, and by headers. A new subject of the transport gets a line in `SUBJECTS`.
 */
import { connect } from "callboard"
import { headers, type NatsConnection } from "nats"
import { describe, expect, test } from "vitest"
import { keep } from "../support/servers/keep.ts"
import type { NatsServer } from "../support/servers/nats.ts"
import type { NatsRelease } from "../support/servers/nats-program.ts"
import { eventually } from "../support/servers/process.ts"
import { freely, plainly, startSecured, urlFor } from "./nats-accounts.ts"

/** `mail-submitter` is a submitter whose account imports the tasks of the queue `mail` alone. */
const ACCOUNTS = {
  operator: "CALLBOARD",
  worker: "CALLBOARD",
  submitter: "CALLBOARD_SUBMITTERS",
  "mail-submitter": "MAIL_SUBMITTERS",
  reader: "CALLBOARD_READERS",
} as const
type User = keyof typeof ACCOUNTS

const USERS: ReadonlyArray<User> = ["operator", "worker", "submitter", "mail-submitter", "reader"]
/** Users in accounts of their own. */
const OUTSIDE: ReadonlyArray<User> = USERS.filter((user) => ACCOUNTS[user] !== "CALLBOARD")

/** All of them; those that record outcomes; those that submit; and so on. */
const [ALL, RUN, SUBMIT, SUBMIT_MAIL, OPERATE, NOBODY] = [
  USERS,
  USERS.slice(0, 2),
  USERS.slice(0, 3),
  USERS.slice(0, 4),
  USERS.slice(0, 1),
  [],
]

/** Each subject, and the users that may publish to it. */
const SUBJECTS: ReadonlyArray<readonly [subject: string, may: ReadonlyArray<User>]> = [
  // Tasks.
  ["callboard.j.bank.4.b1", SUBMIT],
  ["callboard.j.bank.4.bank%2epay.%.5.b1", SUBMIT],
  ["callboard.s.bank.4.bank%2epay.%.5.b1", SUBMIT],
  ["callboard.j.mail.4.m1", SUBMIT_MAIL],
  ["callboard.s.mail.4.mail%2esend.%.5.m1", SUBMIT_MAIL],
  // Records and lists.
  ["callboard.t.b1", RUN],
  ["callboard.x.live.bank.bank%2epay.%.5.b1", RUN],
  ["callboard.ev.t.b1", RUN],
  ["callboard.ev.k.pause%2f.bank", RUN],
  // The store.
  ["callboard.k.queue%2f.bank", RUN],
  ["callboard.k.board%2f.builds%2f.1", RUN],
  ["callboard.k.board-id", RUN],
  ["callboard.k.after%2f.1%2f.b1", RUN],
  ["callboard.k.schedule%2f.nightly", RUN],
  ["callboard.k.worker%2f.w1", RUN],
  ["callboard.k.limit%2f.bank", RUN],
  ["callboard.k.pause%2f.bank", OPERATE],
  ["callboard.k.suspend%2f.w1", OPERATE],
  ["callboard.k.revocation%2f.tenant", OPERATE],
  ["callboard.c.0", RUN],
  // Broadcasts.
  ["callboard.news.inspect", ALL],
  ["callboard.news.control", OPERATE],
  ["callboard.news.cancel", RUN],
  ["callboard.news.limit", RUN],
  ["callboard.news.board", RUN],
  ["callboard.news.event", SUBMIT_MAIL],
  ["callboard.news.reply%2e1", RUN],
  ["callboard.lease.n1", RUN],
  // Reading.
  ["$JS.API.INFO", ALL],
  ["$JS.API.STREAM.INFO.callboard_queue", ALL],
  ["$JS.API.STREAM.MSG.GET.callboard_state", ALL],
  ["$JS.API.DIRECT.GET.callboard_store", ALL],
  ["$JS.API.DIRECT.GET.callboard_store.callboard.k.pause%2f.bank", ALL],
  ["$JS.API.CONSUMER.LIST.callboard_queue", ALL],
  ["$JS.API.CONSUMER.INFO.callboard_queue.bank-4", ALL],
  ["$JS.API.STREAM.LIST", OPERATE],
  ["$JS.API.STREAM.NAMES", OPERATE],
  ["$JS.API.CONSUMER.NAMES.callboard_queue", OPERATE],
  ["$JS.API.STREAM.SNAPSHOT.callboard_queue", OPERATE],
  // Streams.
  ["$JS.API.STREAM.CREATE.callboard_more", OPERATE],
  ["$JS.API.STREAM.UPDATE.callboard_queue", OPERATE],
  ["$JS.API.STREAM.DELETE.callboard_queue", OPERATE],
  ["$JS.API.STREAM.RESTORE.callboard_queue", OPERATE],
  ["$JS.API.STREAM.LEADER.STEPDOWN.callboard_queue", OPERATE],
  ["$JS.API.STREAM.PURGE.callboard_queue", RUN],
  ["$JS.API.STREAM.PURGE.callboard_state", RUN],
  ["$JS.API.STREAM.MSG.DELETE.callboard_store", RUN],
  // Consumers.
  ["$JS.API.CONSUMER.CREATE.callboard_queue.bank-4", RUN],
  ["$JS.API.CONSUMER.CREATE.callboard_queue.mail-4.callboard.j.mail.4.*.*.*.*", RUN],
  ["$JS.API.CONSUMER.CREATE.callboard_state", OPERATE],
  ["$JS.API.CONSUMER.DURABLE.CREATE.callboard_queue.bank-4", OPERATE],
  ["$JS.API.CONSUMER.MSG.NEXT.callboard_queue.bank-4", RUN],
  ["$JS.API.CONSUMER.DELETE.callboard_queue.bank-4", OPERATE],
  ["$JS.API.CONSUMER.PAUSE.callboard_queue.bank-4", OPERATE],
  ["$JS.API.CONSUMER.LEADER.STEPDOWN.callboard_queue.bank-4", OPERATE],
  ["$JS.ACK.callboard_queue.bank-4.1.1.1.0.0", RUN],
  // Of nobody.
  ["$JS.API.SERVER.REMOVE", OPERATE],
  ["$JS.EVENT.ADVISORY.x", NOBODY],
  ["$SYS.REQ.SERVER.PING", NOBODY],
  ["_INBOX.x.1", NOBODY],
]

/** Subjects that users of these accounts hear when something is published in the account of the streams. */
const HEARD: ReadonlyArray<readonly [subject: string, may: ReadonlyArray<User>]> = [
  ["callboard.ev.t.b1", ALL],
  ["callboard.ev.k.pause%2f.bank", ALL],
  ["callboard.news.event", ALL],
  ["callboard.news.reply%2e1", ALL],
  ["callboard.j.bank.4.b1", RUN],
  ["callboard.t.b1", RUN],
  ["callboard.k.pause%2f.bank", RUN],
  ["callboard.lease.n1", RUN],
  // Deliveries of tasks, and answers.
  ["_INBOX.x.1", RUN],
  ["$JS.EVENT.ADVISORY.x", NOBODY],
]

/** Requests that JetStream answers. */
const isAnswered = (subject: string): boolean =>
  !/^callboard\.(news|ev|lease)\.|^\$JS\.(ACK|EVENT)\.|^\$JS\.API\.CONSUMER\.MSG|^\$SYS|^_INBOX/.test(subject)

const may = (user: User): ReadonlyArray<string> =>
  SUBJECTS.flatMap(([subject, users]) => (users.includes(user) ? [subject] : []))

const encoder = new TextEncoder()

/** What a connection hears on all subjects. */
const hearing = async (connection: NatsConnection, subject = ">") => {
  const heard: Array<{ readonly subject: string; readonly text: string }> = []
  connection.subscribe(subject, {
    callback: (_, message) => void heard.push({ subject: message.subject, text: message.string() }),
  })
  await connection.flush()
  return heard
}

/** Subjects whose messages of a connection the server has refused, by permission or for their reply. */
const refusals = (connection: NatsConnection): ReadonlyArray<string> => {
  const refused: Array<string> = []
  void (async () => {
    for await (const { permissionContext } of connection.status())
      if (permissionContext?.operation === "publish") refused.push(permissionContext.subject)
  })()
  return refused
}

/** Resolves when the server has handled what was sent, and both connections have received what came of it. */
const settled = async (sender: NatsConnection, hearer: NatsConnection): Promise<void> => {
  await sender.flush()
  await hearer.flush()
  // The client passes on refusals in a later step.
  await new Promise((resolve) => setTimeout(resolve))
}

/** Makes the streams: those of the transport, or where the server is too old for these some with their subjects. */
const makeStreams = async (server: NatsServer, release: NatsRelease): Promise<void> => {
  if (release === "current") {
    keep(await connect(urlFor(server, "operator")))
    return
  }
  const operator = await freely(server, "CALLBOARD")
  const streams = { queue: ["j.>", "s.>"], state: ["t.*"], index: ["x.>"], store: ["k.>", "c.*"] }
  for (const [name, subjects] of Object.entries(streams)) {
    const config = {
      name: `callboard_${name}`,
      subjects: subjects.map((subject) => `callboard.${subject}`),
      allow_direct: true,
    }
    await operator.request(`$JS.API.STREAM.CREATE.${config.name}`, JSON.stringify(config))
  }
}

const secured = async (release: NatsRelease) => {
  const server = await startSecured(release)
  await makeStreams(server, release)
  const witness = await freely(server, "CALLBOARD")
  return { server, witness, heard: await hearing(witness) }
}

// The old server is one that the transport refuses. What holds there depends on nothing that came later: docs/nats.md has
// the versions.
describe.each<NatsRelease>(["current", "old"])("on the %s nats-server", (release) => {
  test("a user reaches the subjects of its role, and is told of all others", { timeout: 60_000 }, async () => {
    const { server, witness, heard } = await secured(release)
    const reached: Record<string, ReadonlyArray<string>> = {}
    const refused: Record<string, ReadonlyArray<string>> = {}
    for (const user of USERS) {
      const connection = await plainly(server, user)
      const refusedOf = refusals(connection)
      heard.length = 0
      // No request of JetStream's can be read from this, so that none does anything.
      for (const [subject] of SUBJECTS) connection.publish(subject, `by ${user}`)
      await settled(connection, witness)
      const subjects = heard.flatMap(({ subject, text }) => (text === `by ${user}` ? [subject] : []))
      reached[user] = SUBJECTS.flatMap(([subject]) => (subjects.includes(subject) ? [subject] : []))
      refused[user] = refusedOf
    }
    for (const user of USERS) {
      expect({ user, reached: reached[user] }).toEqual({ user, reached: may(user) })
      const others = SUBJECTS.map(([subject]) => subject).filter((subject) => !may(user).includes(subject))
      expect({ user, refused: refused[user] }).toEqual({ user, refused: others })
    }
  })

  test.each(OUTSIDE)(
    "the account of the %s reaches no more than it, whatever its users may",
    { timeout: 60_000 },
    async (user) => {
      const { server, witness, heard } = await secured(release)
      const free = await freely(server, ACCOUNTS[user])
      for (const [subject] of SUBJECTS) free.publish(subject, "freely")
      await settled(free, witness)
      const subjects = heard.flatMap(({ subject, text }) => (text === "freely" ? [subject] : []))
      expect(SUBJECTS.flatMap(([subject]) => (subjects.includes(subject) ? [subject] : []))).toEqual(may(user))
    },
  )

  test.each(OUTSIDE)(
    "answers to a %s stay in its account, whatever reply subject it names",
    { timeout: 60_000 },
    async (user) => {
      const { server, witness, heard } = await secured(release)
      const connection = await plainly(server, user)
      const own = await freely(server, ACCOUNTS[user])
      const ownHeard = await hearing(own)
      const targets = SUBJECTS.flatMap(([subject]) =>
        may(user).includes(subject) || subject.startsWith("$JS.ACK.") ? [] : [subject],
      )
      for (const request of may(user).filter(isAnswered)) {
        ownHeard.length = 0
        heard.length = 0
        for (const reply of targets) connection.publish(request, "{}", { reply })
        await eventually(() => targets.every((target) => ownHeard.some(({ subject }) => subject === target)), {
          message: `all requests to ${request} are answered`,
        })
        await settled(own, witness)
        const leaked = heard.filter(({ subject }) => targets.includes(subject))
        expect({ request, leaked }).toEqual({ request, leaked: [] })
      }
    },
  )

  test.each(USERS)("a %s has nothing acknowledged by an answer", { timeout: 60_000 }, async (user) => {
    const { server, witness, heard } = await secured(release)
    const connection = await plainly(server, user)
    const requests = may(user).filter(isAnswered)
    const replies = ["$JS.ACK.callboard_queue.bank-4.1.1.1.0.0", "_R_.x"]
    for (const request of requests) for (const reply of replies) connection.publish(request, "{}", { reply })
    await settled(connection, witness)
    expect(heard).toEqual([])
  })

  // This is why the page calls them trusted. It is also what shows that the test of the other accounts can fail.
  test("answers to a worker go where it may not publish", { timeout: 60_000 }, async () => {
    const { server, heard } = await secured(release)
    const connection = await plainly(server, "worker")
    const targets = ["callboard.news.control", "callboard.k.pause%2f.bank", "$JS.API.STREAM.DELETE.callboard_state"]
    for (const reply of targets) connection.publish("$JS.API.STREAM.INFO.callboard_state", "", { reply })
    await eventually(() => targets.every((target) => heard.some(({ subject }) => subject === target)), {
      message: "the answers are published",
    })
  })

  test("users hear what their account imports, and no deliveries or answers of others", {
    timeout: 60_000,
  }, async () => {
    const { server, witness } = await secured(release)
    const hearers: Array<{ user: User; connection: NatsConnection; heard: Awaited<ReturnType<typeof hearing>> }> = []
    for (const user of USERS) {
      const connection = await plainly(server, user)
      const heard = await hearing(connection, "callboard.>")
      connection.subscribe("_INBOX.>", { callback: (_, { subject }) => void heard.push({ subject, text: "said" }) })
      connection.subscribe("$JS.EVENT.>", { callback: (_, { subject }) => void heard.push({ subject, text: "said" }) })
      hearers.push({ user, connection, heard })
    }
    for (const { connection } of hearers) await connection.flush()
    for (const [subject] of HEARD) witness.publish(subject, "said")
    for (const { user, connection, heard } of hearers) {
      await settled(witness, connection)
      const subjects = heard.flatMap(({ subject, text }) => (text === "said" ? [subject] : []))
      const found = HEARD.flatMap(([subject]) => (subjects.includes(subject) ? [subject] : []))
      const expected = HEARD.flatMap(([subject, users]) => (users.includes(user) ? [subject] : []))
      expect({ user, heard: found }).toEqual({ user, heard: expected })
    }
  })
})

describe("headers by which a message reaches other subjects", () => {
  const answerTo = async (connection: NatsConnection, subject: string, lines: Readonly<Record<string, string>>) => {
    const given = headers()
    for (const [name, value] of Object.entries(lines)) given.set(name, value)
    return (await connection.request(subject, encoder.encode("{}"), { headers: given, timeout: 10_000 })).string()
  }
  const STORED = expect.stringMatching(/^\{"stream":"callboard_queue","seq":\d+\}$/)
  const LATER = { "Nats-Schedule": "@at 2100-01-01T00:00:00Z" }

  // JetStream cannot refuse these headers in a stream that keeps tasks until they are due.
  test("whoever may publish one task can move, replace and remove all that wait, in every queue", {
    timeout: 60_000,
  }, async () => {
    const { server, witness } = await secured("current")
    const submitter = await plainly(server, "mail-submitter")
    const waiting = async (): Promise<ReadonlyArray<string>> => {
      const info = await witness.request("$JS.API.STREAM.INFO.callboard_queue", '{"subjects_filter":">"}')
      const { state } = info.json<{ state: { subjects?: Record<string, number> } }>()
      return Object.keys(state.subjects ?? {}).sort()
    }
    const later = "callboard.s.bank.4.bank%2epay.%.5.b2"
    await answerTo(witness, "callboard.j.bank.4.b1", { task: "bank.pay" })
    await answerTo(witness, later, { ...LATER, "Nats-Schedule-Target": later.replace(".s.", ".j.") })
    const one = expect.stringMatching(/^callboard\.j\.bank\.4\.%\.%\.\d+\.b1$/)
    expect(await waiting()).toEqual([one, later])
    const purge = { "Nats-Scheduler": later, "Nats-Schedule-Next": "purge" }
    expect(await answerTo(submitter, "callboard.j.mail.4.m1", purge)).toEqual(STORED)
    expect(await waiting()).toEqual([one, expect.stringContaining(".m1")])
    const due = { "Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": "callboard.j.bank.4.forged" }
    expect(await answerTo(submitter, "callboard.s.mail.4.mail%2esend.%.5.m2", due)).toEqual(STORED)
    await eventually(
      async () => (await waiting()).some((subject) => /^callboard\.j\.bank\..*\.forged$/.test(subject)),
      {
        message: "the task is in the other queue",
      },
    )
    expect(await answerTo(submitter, "callboard.j.mail.4.m3", { "Nats-Rollup": "all" })).toEqual(STORED)
    expect(await waiting()).toEqual([expect.stringContaining(".m3")])
  })

  // The markers of expired values need a stream that takes this header.
  test("whoever may write one key of the store can remove all, so that no account outside may", {
    timeout: 60_000,
  }, async () => {
    const { server, witness } = await secured("current")
    const keys = async () => {
      const info = await witness.request("$JS.API.STREAM.INFO.callboard_store", '{"subjects_filter":">"}')
      return Object.keys(info.json<{ state: { subjects?: Record<string, number> } }>().state.subjects ?? {})
    }
    await answerTo(witness, "callboard.k.pause%2f.bank", {})
    const worker = await plainly(server, "worker")
    await answerTo(worker, "callboard.k.queue%2f.bank", { "Nats-Rollup": "all" })
    expect(await keys()).toEqual(["callboard.k.queue%2f.bank"])
    for (const user of OUTSIDE) expect(may(user).filter((subject) => /^callboard\.[ktxc]\./.test(subject))).toEqual([])
  })

  test("the trace of a message goes where its sender may publish, in its account", { timeout: 60_000 }, async () => {
    const { server, witness, heard } = await secured("current")
    const control = headers()
    control.set("Nats-Trace-Dest", "callboard.news.control")
    const own = await freely(server, "CALLBOARD_SUBMITTERS")
    const ownHeard = await hearing(own)
    own.publish("callboard.j.bank.4.b1", "traced", { headers: control })
    await eventually(() => ownHeard.some(({ subject }) => subject === "callboard.news.control"), {
      message: "the trace is in the account of the submitter",
    })
    const worker = await plainly(server, "worker")
    const refused = refusals(worker)
    worker.publish("callboard.t.b1", "traced", { headers: control })
    await settled(worker, witness)
    expect(refused).toEqual(["callboard.news.control"])
    expect(heard.map(({ subject }) => subject)).toEqual(["callboard.j.bank.4.b1"])
  })
})
