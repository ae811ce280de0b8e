/** The slots of a Redis Cluster: which one a hash tag falls into, and which node serves it. */
export const slotCount = 16_384;

const polynomial = 0x1021;
const table = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? (crc << 1) ^ polynomial : crc << 1;
  return crc;
});

/** CRC16 (XMODEM) of what stands between the first braces, or of the whole: as the cluster specification says. */
export function slotOf(key: string): number {
  const open = key.indexOf('{');
  const close = open < 0 ? -1 : key.indexOf('}', open + 1);
  const hashed = close > open + 1 ? key.slice(open + 1, close) : key;
  let crc = 0;
  for (const byte of Buffer.from(hashed)) crc = ((crc << 8) & 0xffff) ^ table[((crc >> 8) ^ byte) & 0xff]!;
  return crc % slotCount;
}

/** `host:port` of each slot's primary; undefined where the cluster has none. */
export type SlotMap = (string | undefined)[];

/** CLUSTER SLOTS: ranges with their nodes, the primary first. A node that does not know its own name is the one asked. */
export function slotMapOf(reply: unknown, askedHost: string): SlotMap {
  const map: SlotMap = new Array(slotCount).fill(undefined);
  for (const [from, to, primary] of reply as [number, number, [string | null, number]][]) {
    const host = primary[0] && primary[0] !== '?' ? primary[0] : askedHost;
    map.fill(`${host}:${primary[1]}`, from, to + 1);
  }
  return map;
}

/** Where a node sends us: for good, or for this one call while the slot's keys are moved. */
export interface Redirection {
  kind: 'MOVED' | 'ASK';
  slot: number;
  /** host:port */
  at: string;
}

/** `MOVED 3999 127.0.0.1:6381` and `ASK …`; without a host it is that of the node which said so. */
export function redirectionOf(message: string, askedHost: string): Redirection | null {
  const found = /^(MOVED|ASK) (\d+) (.*):(\d+)$/.exec(message);
  if (!found) return null;
  const [, kind, slot, host, port] = found;
  return { kind: kind as Redirection['kind'], slot: Number(slot), at: `${host || askedHost}:${port}` };
}

export function hostOf(at: string): string {
  return at.slice(0, at.lastIndexOf(':'));
}
