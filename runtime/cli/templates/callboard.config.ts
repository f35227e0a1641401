import type { Config } from "callboard"

/** Every setting is optional; flags and CALLBOARD_* variables take precedence. `npx callboard doctor` shows them all. */
export default {
  // transport: "nats://localhost",
  // queues: ["high", "default"],
  // concurrency: 8,
} satisfies Config
