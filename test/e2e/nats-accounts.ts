/** Servers with the account file of the documentation, and its users. */
import { readFileSync } from "node:fs"
import { connect, type NatsConnection } from "nats"
import { onTestFinished } from "vitest"
import { keep } from "../support/servers/keep.ts"
import { type NatsServer, startNats } from "../support/servers/nats.ts"
import type { NatsRelease } from "../support/servers/nats-program.ts"

/** The users of the account file, the one with the most rights first. */
export const ROLES = ["operator", "worker", "submitter", "reader"] as const
export type Role = (typeof ROLES)[number]

const accounts = readFileSync(new URL("../../docs/nats-accounts.conf", import.meta.url), "utf8")

/** A submitter that may publish to the queue `mail` alone, as the page describes it. */
const ofOneQueue = (block: string): string =>
  block
    .replaceAll("CALLBOARD_SUBMITTERS", "MAIL_SUBMITTERS")
    .replaceAll("user: submitter", "user: mail-submitter")
    .replaceAll(/callboard\.([js])\.>/g, "callboard.$1.mail.>")

const blockOf = (account: string): string => {
  const [block] = new RegExp(`^ {2}${account} \\{$.*?^ {2}\\}$`, "ms").exec(accounts) ?? []
  if (block === undefined) throw new Error(`the account file has no ${account}`)
  return block
}

/** Adds a user to each account that may do all that the account can: named as the account, its password is `free`. */
const withFreeUsers = (config: string): string =>
  config.replaceAll(/^ {2}(\w+) \{$(.*?)^ {4}users: \[$/gms, "$&\n{ user: $1, password: free }")

const passwords = ROLES.map((role) => `${role.toUpperCase()}_PASSWORD: "pw"`).join("\n")

/** Starts a server with the accounts of the documentation. */
export const startSecured = async (release: NatsRelease = "current"): Promise<NatsServer> => {
  const submitters = blockOf("CALLBOARD_SUBMITTERS")
  const config = withFreeUsers(accounts.replace(submitters, () => `${submitters}\n${ofOneQueue(submitters)}`))
  return keep(await startNats({ config: `${passwords}\n${config}`, release }))
}

export const urlFor = (server: NatsServer, role: Role): string => `nats://${role}:pw@127.0.0.1:${server.port}?lease=2`

/** A plain connection as a user of the server; ended with the test. */
export const plainly = async (server: NatsServer, user: string, pass = "pw"): Promise<NatsConnection> => {
  const connection = await connect({ servers: `127.0.0.1:${server.port}`, user, pass })
  onTestFinished(() => connection.close())
  return connection
}

/** A user that may do all that an account can. */
export const freely = (server: NatsServer, account: string): Promise<NatsConnection> => plainly(server, account, "free")
