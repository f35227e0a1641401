/** The first connection to a board whose servers have just started. */
import { type Client, connect } from "callboard"
import { eventually } from "../support/servers/process.ts"

/**
 * Connects as soon as the board can be used. On a busy machine a server may take longer to make its streams than a connection may
 * last, and the servers of a cluster find each other some time after they have started.
 */
export const connectWhenUp = (url: string): Promise<Client> =>
  eventually(() => connect(url), { deadline: 90_000, every: 250, message: "a client connects" })
