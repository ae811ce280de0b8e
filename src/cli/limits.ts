import type { Command } from 'commander';
import { counted } from '../core/counted.ts';
import { type CountedLimit, cooldownDefault, countedLimits, type EventLimits } from '../core/limits.ts';
import {
  changeLimits,
  createAllowance,
  endAllowance,
  findLimitedBuyer,
  getLimits,
} from '../operate/limits.ts';
import type { OutputOf } from '../operate/operation.ts';
import { durationMs } from './audit.ts';
import { call } from './call.ts';
import type { CliContext } from './context.ts';

interface SetFlags extends Partial<Record<CountedLimit, string>> {
  cooldown?: string;
  cooldownAfter?: string;
  cooldownFirst?: string;
  cooldownMax?: string;
  cooldownForget?: string;
  json?: boolean;
}

interface AllowFlags {
  account?: string;
  visitor?: string;
  order?: string;
  reason: string;
  until?: string;
  json?: boolean;
}

/** `onsale limits`: what an event limits, and who is excepted. */
export function registerLimitCommands(program: Command, context: CliContext): void {
  const limits = program
    .command('limits')
    .description('What one buyer may buy of an event, and who is excepted from it.');
  limits
    .command('show')
    .description('The limits of an event, its exceptions, and how many buyers are in a cooldown.')
    .argument('<event>', 'the id in its address')
    .option('--json', 'print JSON')
    .action((id: string, flags: { json?: boolean }) => showCommand(context, id, flags));
  limits
    .command('set')
    .description(
      'Change the limits; what is not named stays. Orders not yet confirmed are decided by the new ones.',
    )
    .argument('<event>')
    .option('--account-seats-max <seats>', 'seats bought with one e-mail address, or "none"')
    .option('--instrument-seats-max <seats>', 'seats bought with one card, or "none"')
    .option('--visitor-seats-max <seats>', 'seats bought or reserved by one browser, or "none"')
    .option(
      '--address-seats-max <seats>',
      'seats held or reserved from one address in a partition, or "none"',
    )
    .option('--joins-per-minute <joins>', 'joins from one address a minute at one process, or "none"')
    .option('--claims-per-minute <claims>', 'claims by one browser a minute at one process, or "none"')
    .option('--cooldown <on|off>', 'make buyers wait who let holds end unpaid again and again')
    .option('--cooldown-after <holds>', 'unpaid holds in a row before the first one')
    .option('--cooldown-first <time>', 'length of the first, as 60s or 2m; each further one is twice as long')
    .option('--cooldown-max <time>', 'length of the longest')
    .option('--cooldown-forget <time>', 'after so long without another unpaid hold they are forgotten')
    .option('--json', 'print JSON')
    .action((id: string, flags: SetFlags, command: Command) => setCommand(context, id, flags, command));
  limits
    .command('find')
    .description('What counts against the limits of one buyer, named by the reference that a refusal shows.')
    .argument('<event>')
    .argument('<reference>', 'of a browser, or sub: and the name of an account')
    .option('--json', 'print JSON')
    .action((id: string, reference: string, flags: { json?: boolean }) =>
      findCommand(context, id, reference, flags),
    );
  limits
    .command('allow')
    .description(
      'Except one buyer from every limit of the event, and end a cooldown. It is in the log of actions.',
    )
    .argument('<event>')
    .requiredOption('--reason <text>', 'why')
    .option('--account <e-mail>', 'the buyer, by e-mail address')
    .option('--visitor <reference>', 'the buyer, by the reference that the page shows')
    .option('--order <order>', 'the buyer, by any order of his')
    .option('--until <time>', 'ISO 8601; without it until the exception is ended')
    .option('--json', 'print JSON')
    .action((id: string, flags: AllowFlags) => allowCommand(context, id, flags));
  limits
    .command('end')
    .description('End an exception; what was bought under it stays bought.')
    .argument('<event>')
    .argument('<allowance>', 'its id, as "limits show" lists it')
    .option('--json', 'print JSON')
    .action((id: string, allowance: string, flags: { json?: boolean }) =>
      endCommand(context, id, allowance, flags),
    );
}

async function showCommand(context: CliContext, event: string, flags: { json?: boolean }): Promise<void> {
  const shown = await call(context, getLimits, { event });
  if (!shown) return;
  if (flags.json) return context.print(JSON.stringify(shown));
  const { limits, allowances, coolingCount } = shown;
  context.print(
    [
      ...limitLines(limits),
      `In a cooldown now: ${coolingCount}`,
      allowances.length === 0 ? 'No exceptions.' : 'Exceptions:',
      ...allowances.map((one) => `  ${allowanceText(one)}`),
    ].join('\n'),
  );
}

async function findCommand(
  context: CliContext,
  event: string,
  reference: string,
  flags: { json?: boolean },
): Promise<void> {
  const found = await call(context, findLimitedBuyer, { event, reference });
  if (!found) return;
  if (flags.json) return context.print(JSON.stringify(found));
  const { bought, unpaid, unpaidHolds, coolingUntil, excepted, orders } = found;
  const cooling = coolingUntil === null ? '' : `, in a cooldown until ${coolingUntil}`;
  context.print(
    [
      `Seats bought: ${bought}, reserved and unpaid: ${unpaid}`,
      `Unpaid holds in a row: ${unpaidHolds}${cooling}`,
      excepted ? 'An exception is in force.' : 'No exception is in force.',
      ...orders.map(
        (one) =>
          `  ${one.order}  ${one.state}${one.reason === null ? '' : ` (${one.reason})`}  ${counted(one.seats, 'seat')}  ${one.createdAt}`,
      ),
    ].join('\n'),
  );
}

async function setCommand(
  context: CliContext,
  event: string,
  flags: SetFlags,
  command: Command,
): Promise<void> {
  const wrong = (sentence: string): never => command.error(sentence);
  const shown = await call(context, getLimits, { event });
  if (!shown) return;
  const limits: Partial<EventLimits> = {
    ...Object.assign({}, ...countedLimits.map((name) => countedFlag(name, flags[name]))),
    ...cooldownFlags(shown.limits, flags, wrong),
  };
  if (Object.keys(limits).length === 0) return wrong('Name a limit to be changed.');
  const changed = await call(context, changeLimits, { event, replaces: shown.limits, ...limits });
  if (!changed) return;
  context.print(flags.json ? JSON.stringify(changed.limits) : limitLines(changed.limits).join('\n'));
}

/** Text that is not a number is passed on unchanged, so that the operation rejects it. */
function countedFlag(name: CountedLimit, text: string | undefined): Record<string, unknown> {
  if (text === undefined) return {};
  return { [name]: text === 'none' ? null : Number.isNaN(Number(text)) ? text : Number(text) };
}

function cooldownFlags(
  before: EventLimits,
  flags: SetFlags,
  wrong: (sentence: string) => never,
): Partial<EventLimits> {
  const { cooldown, cooldownAfter, cooldownFirst, cooldownMax, cooldownForget } = flags;
  const parts = [cooldownAfter, cooldownFirst, cooldownMax, cooldownForget];
  const isNamed = parts.some((part) => part !== undefined);
  if (cooldown === 'off' && !isNamed) return { cooldown: null };
  if (cooldown === undefined && !isNamed) return {};
  if (cooldown !== undefined && cooldown !== 'on') return wrong('--cooldown takes on, or off alone.');
  const time = (flag: string, text: string | undefined, otherwise: number): number => {
    if (text === undefined) return otherwise;
    return durationMs(text) ?? wrong(`${flag} takes a time, as 60s or 2m.`);
  };
  const known = before.cooldown ?? cooldownDefault;
  const rule = {
    afterUnpaid: cooldownAfter === undefined ? known.afterUnpaid : Number(cooldownAfter),
    firstMs: time('--cooldown-first', cooldownFirst, known.firstMs),
    maxMs: time('--cooldown-max', cooldownMax, known.maxMs),
    forgetMs: time('--cooldown-forget', cooldownForget, known.forgetMs),
  };
  return { cooldown: rule };
}

async function allowCommand(context: CliContext, event: string, flags: AllowFlags): Promise<void> {
  const { account, visitor, order, reason, until } = flags;
  const allowance = await call(context, createAllowance, { event, account, visitor, order, reason, until });
  if (allowance) context.print(flags.json ? JSON.stringify(allowance) : allowanceText(allowance));
}

async function endCommand(
  context: CliContext,
  event: string,
  id: string,
  flags: { json?: boolean },
): Promise<void> {
  const allowance = await call(context, endAllowance, { event, allowance: id });
  if (allowance) context.print(flags.json ? JSON.stringify(allowance) : allowanceText(allowance));
}

const limitNames: Record<CountedLimit, string> = {
  accountSeatsMax: 'Seats per e-mail address',
  instrumentSeatsMax: 'Seats per card',
  visitorSeatsMax: 'Seats per browser',
  addressSeatsMax: 'Seats held or reserved per address, in one partition',
  joinsPerMinute: 'Joins per address a minute, at one process',
  claimsPerMinute: 'Claims per browser a minute, at one process',
};

export function limitLines(limits: EventLimits): string[] {
  const { cooldown } = limits;
  const seconds = (ms: number) => `${Math.round(ms / 1000)} s`;
  return [
    ...countedLimits.map((name) => `${limitNames[name]}: ${limits[name] ?? 'no limit'}`),
    cooldown === null
      ? 'Cooldown: none'
      : `Cooldown: from ${cooldown.afterUnpaid === 1 ? 'the first unpaid hold' : `${cooldown.afterUnpaid} unpaid holds in a row`} on, ${seconds(cooldown.firstMs)} doubling to ${seconds(cooldown.maxMs)}; forgotten after ${seconds(cooldown.forgetMs)}`,
  ];
}

function allowanceText(one: OutputOf<typeof endAllowance>): string {
  const whom = [one.account, one.visitor === null ? null : `browser ${one.visitor}`].filter(
    (name) => name !== null,
  );
  const term =
    one.endedAt !== null
      ? `ended ${one.endedAt} by ${one.endedBy}`
      : one.until === null
        ? 'until it is ended'
        : `until ${one.until}${one.inForce ? '' : ' (over)'}`;
  return `${one.allowance}  ${whom.join(', ')}  ${term}  ${one.reason} (${one.actor}, ${one.createdAt})`;
}
