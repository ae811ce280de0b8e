/**
 * For the default branch of a switch over outcomes. An outcome is a value of a union with a `kind`. A member without a case is
 * a type error here, and an assertion in production.
 */
export function impossible(value: never, where: string): never {
  throw new Error(`impossible ${where}: ${JSON.stringify(value)}`);
}

/** An invariant of our own code. A failure is a bug: it fails the request, never the process. */
export function assert(condition: unknown, what: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${what}`);
}
