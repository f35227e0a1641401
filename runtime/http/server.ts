export interface HttpOptions { readonly port?: number; readonly host?: string }
export interface HttpServer { readonly url: string; stop(): Promise<void> }
import type { Client } from "../client.ts"
export declare const startHttp: (client: Client, options: HttpOptions, context: { readonly ready: () => boolean; readonly maxBody: number }) => Promise<HttpServer>
