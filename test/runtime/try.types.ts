import { actor } from "callboard"
export const a = actor("x", { methods: { a: (_input: unknown, job) => job.id } })
export const b = actor("x", { methods: { a: (_input: { n: 1 }, job) => job.id } })
export const c = actor("x", { methods: { a: (_input, job) => job.id } })
export const d = actor("x", { methods: { run: (_input, job) => job.id, b: () => 1 } })
export const e = actor("x", { methods: { run: (_input: unknown, job) => job.id, b: () => 1 } })
export const f = actor("x", { methods: { b: () => 1, run: (_input: unknown, job) => job.id} })
export const g = actor("x", { methods: { b: (i: unknown) => i, run: (_input: unknown, job) => job.id} })
export const h = actor("x", { methods: { b: (i) => i, run: (_input: unknown, job) => job.id} })
