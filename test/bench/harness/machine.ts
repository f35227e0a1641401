/** The machine and the versions with which the figures were measured. */
import { execFileSync } from "node:child_process"
import { arch, availableParallelism, cpus, release, totalmem, type } from "node:os"
import { natsProgram } from "../../support/servers/nats-program.ts"
import { searchPath } from "../../support/servers/process.ts"
import { redisProgram } from "../../support/servers/redis.ts"
import { npmPeers } from "../peers/npm.ts"
import { celeryVersion, rqVersion } from "../peers/python.ts"

export const machine = (): string =>
  [
    `${availableParallelism()} × ${cpus()[0]?.model ?? arch()}`,
    `${Math.round(totalmem() / 2 ** 30)} GiB`,
    `${type()} ${release()}`,
  ].join(", ")

/** The version that `find` returns. Where it fails, the reason is shown beside the rows that need the program. */
const look = async (find: () => string | Promise<string>): Promise<string> => {
  try {
    return await find()
  } catch {
    return "missing"
  }
}

/** Versions of runtimes, brokers and peers. Fetches missing programs, so that no measurement waits for that. */
export const versions = async ({ isFull }: { readonly isFull: boolean }): Promise<Readonly<Record<string, string>>> => {
  const env = { ...process.env, PATH: searchPath }
  const program = (command: string) => execFileSync(command, ["--version"], { env, encoding: "utf8" }).trim()
  return {
    Bun: process.versions["bun"] ?? "none",
    Node: await look(() => program("node")),
    "nats-server": await look(async () => (await natsProgram()).version),
    Redis: await look(async () => (await redisProgram()).version),
    BullMQ: await look(async () => (await npmPeers())["bullmq"] ?? "none"),
    ioredis: await look(async () => (await npmPeers())["ioredis"] ?? "none"),
    ...(isFull
      ? {
          bunqueue: await look(async () => (await npmPeers())["bunqueue"] ?? "none"),
          Celery: await look(celeryVersion),
          RQ: await look(rqVersion),
        }
      : {}),
  }
}
