/**
 * A count with its word: "1 ticket", "2,000 tickets", "0 tickets". `many` where an s does not make it: "entries", "things do not
 * fit".
 */
export function counted(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
}
