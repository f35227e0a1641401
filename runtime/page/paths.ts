/**
 * The addresses of the page. The server answers each of them with the shell, and any other with 404; the page shows the
 * view of that name.
 */
export const PATHS = {
  overview: "/",
  jobs: "/jobs",
  job: "/jobs/:id",
  errors: "/errors",
  error: "/errors/:id",
  queues: "/queues",
  queue: "/queues/:id",
  workers: "/workers",
  worker: "/workers/:id",
  schedules: "/schedules",
  dead: "/dead",
} as const

export type ViewName = keyof typeof PATHS
