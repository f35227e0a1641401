/** Checks answers against the OpenAPI document that the service publishes: what is not declared there is a failure. */
import { Ajv2020 } from "ajv/dist/2020.js"
import { PROBLEMS } from "../../../../runtime/http/response.ts"

interface Described {
  readonly paths: Record<string, Record<string, { readonly responses: Record<string, Response> }>>
  readonly components: object
}
interface Response {
  readonly content?: Record<string, { readonly schema: object }>
  readonly headers?: Record<string, unknown>
}

export interface Answered {
  readonly method: string
  /** Without query. */
  readonly path: string
  readonly status: number
  readonly contentType: string
  readonly body: unknown
}

export class DocumentCheck {
  readonly #document: Described
  readonly #ajv: Ajv2020
  readonly #validators = new Map<string, ReturnType<Ajv2020["compile"]>>()
  /** By the text of the document: most services of a run publish the same one, and compiling its schemas takes long. */
  static readonly #known = new Map<string, DocumentCheck>()

  static of(text: string): DocumentCheck {
    const known = DocumentCheck.#known.get(text) ?? new DocumentCheck(JSON.parse(text) as Described)
    DocumentCheck.#known.set(text, known)
    return known
  }

  private constructor(document: Described) {
    this.#document = document
    this.#ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false })
    this.#ajv.addSchema({ $id: "document", components: document.components })
  }

  /** Throws with everything that the document does not allow. */
  check({ method, path, status, contentType, body }: Answered): void {
    const template = this.#templateOf(method.toLowerCase(), path)
    // A path or a method that does not exist is described nowhere; it is a problem all the same.
    const operation = template === undefined ? undefined : this.#document.paths[template]?.[method.toLowerCase()]
    if (operation === undefined) {
      if (status === 404 || status === 405 || status === 403) return
      throw new Error(`${method} ${path} is not described, and was answered with ${status}`)
    }
    const response = operation.responses[String(status)]
    if (response === undefined)
      throw new Error(`${method} ${template} does not describe a ${status}: ${JSON.stringify(body)}`)
    if (response.content === undefined) {
      if (body !== undefined && body !== "") throw new Error(`${method} ${template} ${status} has a body`)
      return
    }
    const described = response.content[contentType]
    if (described === undefined) throw new Error(`${method} ${template} ${status}: ${contentType} is not described`)
    if (!contentType.endsWith("json")) return
    const validate = this.#validatorOf(described.schema)
    if (!validate(body)) {
      throw new Error(
        `${method} ${template} ${status}: ${this.#ajv.errorsText(validate.errors)} in ${JSON.stringify(body)}`,
      )
    }
    if (status >= 400) this.#checkProblem(status, body)
  }

  #checkProblem(status: number, body: unknown): void {
    const { code } = body as { readonly code: keyof typeof PROBLEMS }
    if (PROBLEMS[code].status !== status) throw new Error(`${code} was sent with status ${status}`)
  }

  #validatorOf(schema: object): ReturnType<Ajv2020["compile"]> {
    const text = JSON.stringify(schema).replaceAll('"#/components/', '"document#/components/')
    const known = this.#validators.get(text) ?? this.#ajv.compile(JSON.parse(text))
    this.#validators.set(text, known)
    return known
  }

  #templateOf(method: string, path: string): string | undefined {
    const matches = Object.keys(this.#document.paths).filter(
      (template) =>
        new RegExp(`^${template.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(path) &&
        this.#document.paths[template]?.[method] !== undefined,
    )
    return matches.sort((a, b) => Number(a.includes("{")) - Number(b.includes("{")))[0]
  }
}
