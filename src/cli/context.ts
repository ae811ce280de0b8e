import type { AddressRule } from '../fulfilment/webhook-addresses.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';

/** Services of cli.ts for the commands. Commands set the exit code through `fail` only. */
export interface CliContext {
  /** The database of this installation, the embedded one started when nothing runs. It is opened once, and closed in the end. */
  openDatabase(): Promise<{ db: Db; url: string }>;
  /** The arbiter of that database's events. The caller closes it. */
  openArbiter(db: Db): Promise<{ arbiter: Arbiter; close(): Promise<void> }>;
  /** Names of the Redis servers that are configured here. Empty: the servers may know more, any name is accepted. */
  redisServers(): readonly string[];
  /** ONSALE_ACCOUNT_SECRET is set here. */
  namesAccounts(): boolean;
  /** Where webhooks may go. */
  webhookAddresses(): AddressRule;
  /** Folder with the keys of this installation. */
  dataDir(): string;
  clock: Clock;
  random: Random;
  print(text: string): void;
  /** A line on stderr about work that takes a while. */
  progress(line: string): void;
  /** A sentence on stderr, and exit code 1 in the end. */
  fail(sentence: string): void;
}

/** The actor in the action log for what the command line does. */
export const cliActor = 'command line';

/** A number for an operation. Other text is passed on unchanged, so that the operation refuses it. */
export function numeric(text: string): number;
export function numeric(text: string | undefined): number | undefined;
export function numeric(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const number = Number(text);
  return text.trim() === '' || Number.isNaN(number) ? (text as unknown as number) : number;
}
