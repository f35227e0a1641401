/** The page as it was built: `npm run page` writes assets.js, which is not in the repository. */

export interface Asset {
  /** Ends up in the address; holds a hash of the content. */
  readonly name: string
  readonly type: string
  /** The content, compressed, as base64. */
  readonly gzip: string
}

export const assets: ReadonlyArray<Asset>

/** The document at each address of the page. `{{base}}` stands for the path under which it is mounted. */
export const shell: string
