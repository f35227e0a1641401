type W3<T> = T extends { readonly run: infer F } ? F : 0
type W4<T> = T extends { run: infer F } ? F : 0
type W5<T> = T extends { run: unknown } ? T["run"] : 0
type W6<T> = "run" extends keyof T ? T["run" & keyof T] : 0
declare function p4<M>(d: { [K in keyof M]: M[K] }): { readonly [K in keyof M]: [W3<M[K]>, W4<M[K]>, W5<M[K]>, W6<M[K]>] }
declare function p5<M>(d: M): { readonly [K in keyof M]: [W3<M[K]>, W4<M[K]>, W5<M[K]>, W6<M[K]>] }
export const e3: 1 = p4({ long: { description: "x", run: 1 } })
export const e4: 1 = p4({ long: { description: "x", run: () => 1} })
export const e5: 1 = p5({ long: { description: "x", run: () => 1} })
export const e6: 1 = p4({ long: { description: "x", run: (i: number) => 1} })
export const e7: 1 = p5({ long: { description: "x", run: (i: number) => 1} })
