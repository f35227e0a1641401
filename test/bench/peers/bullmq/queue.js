/** What the programs of BullMQ have in common. */
export const NAME = "noop"

/** @param {string | undefined} port */
export const at = (port) => ({
  connection: { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: /** @type {null} */ (null) },
})

/** @param {Error} error */
export const fail = (error) => {
  console.error(error)
  process.exit(1)
}
