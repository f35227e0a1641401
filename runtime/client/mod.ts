/**
 * Callboard for applications that only submit and follow jobs: loads neither the HTTP server nor a worker, and runs on
 * Node as well.
 */
export {
  connectHttp,
  type HttpClient,
  type HttpClientSettings,
  type HttpJob,
  type HttpSubmittedJob,
} from "./http-client.ts"
export * from "./shared.ts"
