// What the programs use of the peers, since `npm install` in the root of the repository does not install them.

declare module "bullmq" {
  interface Connection {
    readonly host: string
    readonly port: number
    readonly maxRetriesPerRequest: null
  }
  interface Data {
    readonly n: number
    readonly payload?: string
  }
  interface Added {
    readonly name: string
    readonly data: Data
    readonly opts?: { readonly delay?: number }
  }
  export interface Job {
    readonly data: Data
    readonly delay: number
    readonly timestamp: number
    readonly returnvalue: unknown
    waitUntilFinished(events: QueueEvents): Promise<unknown>
  }
  export class Queue {
    constructor(name: string, options: { readonly connection: Connection })
    add(name: string, data: Data): Promise<Job>
    addBulk(jobs: ReadonlyArray<Added>): Promise<ReadonlyArray<Job>>
    getCompleted(from: number, to: number): Promise<ReadonlyArray<Job>>
    setGlobalConcurrency(concurrency: number): Promise<unknown>
    waitUntilReady(): Promise<unknown>
  }
  export class QueueEvents {
    constructor(name: string, options: { readonly connection: Connection })
    waitUntilReady(): Promise<unknown>
  }
  interface WorkerOptions {
    readonly connection: Connection
    readonly concurrency?: number
    readonly autorun?: boolean
    readonly limiter?: { readonly max: number; readonly duration: number }
  }
  export class Worker {
    constructor(name: string, handler: (job: Job) => Promise<unknown>, options: WorkerOptions)
    on(event: "completed", listener: () => void): this
    on(event: "error", listener: (error: Error) => void): this
    run(): Promise<void>
    waitUntilReady(): Promise<unknown>
  }
}

declare module "bunqueue/client" {
  interface Place {
    readonly embedded: true
    readonly dataPath?: string
  }
  interface Data {
    readonly n: number
    readonly payload: string
  }
  export interface Job {
    readonly id: string
    readonly data: Data
    readonly returnvalue?: unknown
    waitUntilFinished(events: QueueEvents): Promise<unknown>
  }
  export class Queue {
    constructor(name: string, options: Place)
    add(name: string, data: Data): Promise<Job>
    addBulk(jobs: ReadonlyArray<{ readonly name: string; readonly data: Data }>): Promise<ReadonlyArray<Job>>
    getJob(id: string): Promise<Job | null>
  }
  export class QueueEvents {
    constructor(name: string, options: Place)
    waitUntilReady(): Promise<void>
  }
  interface WorkerOptions extends Place {
    readonly concurrency: number
    readonly batchSize?: number
  }
  export class Worker {
    constructor(name: string, handler: (job: Job) => Promise<unknown>, options: WorkerOptions)
    on(event: "completed", listener: () => void): this
    on(event: "error", listener: (error: Error) => void): this
  }
}
