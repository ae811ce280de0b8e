import type { Command } from 'commander';
import { isEventTime } from '../catalogue/events.ts';
import { counted } from '../core/counted.ts';
import {
  type CountedLimit,
  cooldownDefault,
  cooldownFault,
  countedLimits,
  type EventLimits,
  limitBounds,
  limitMost,
  limitsOf,
} from '../core/limits.ts';
import { accountNamed, isPlatformAccount } from '../orders/accounts.ts';
import { listCooldowns } from '../orders/cooldowns.ts';
import {
  type Allowance,
  type AllowedBuyer,
  allowBuyer,
  changeLimits,
  endAllowance,
  findBuyer,
  listAllowances,
} from '../orders/limits.ts';
import { durationMs } from './audit.ts';
import { type CliContext, cliActor, withEvent } from './organise.ts';

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
      'Except one buyer from every limit of the event, and end a cooldown. It is in the audit log.',
    )
    .argument('<event>')
    .requiredOption('--reason <text>', 'why')
    .option('--account <e-mail>', 'the buyer, by e-mail address')
    .option('--visitor <reference>', 'the buyer, by the reference that the page shows')
    .option('--order <order>', 'the buyer, by any order of his')
    .option('--until <time>', 'ISO 8601; without it until the exception is ended')
    .option('--json', 'print JSON')
    .action((id: string, flags: AllowFlags, command: Command) => allowCommand(context, id, flags, command));
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

function showCommand(context: CliContext, id: string, flags: { json?: boolean }): Promise<void> {
  return withEvent(context, id, async (db, _events, event) => {
    const limits = limitsOf(event.settings);
    const allowances = await listAllowances(db, event.eventNo);
    const { count, cooldowns } = await listCooldowns(db, event.eventNo);
    if (flags.json) {
      context.print(
        JSON.stringify({ event: id, limits, allowances, coolingCount: count, cooling: cooldowns }),
      );
      return;
    }
    context.print(
      [
        ...limitLines(limits),
        `In a cooldown now: ${count}`,
        allowances.length === 0 ? 'No exceptions.' : 'Exceptions:',
        ...allowances.map((one) => `  ${allowanceText(one)}`),
      ].join('\n'),
    );
  });
}

function findCommand(
  context: CliContext,
  id: string,
  reference: string,
  flags: { json?: boolean },
): Promise<void> {
  return withEvent(context, id, async (db, _events, event) => {
    const found = await findBuyer(db, event.eventNo, reference);
    if (flags.json) return context.print(JSON.stringify(found));
    const { bought, unpaid, unpaidHolds, coolingUntil, excepted, orders } = found;
    const cooling =
      coolingUntil === null ? '' : `, in a cooldown until ${new Date(coolingUntil).toISOString()}`;
    context.print(
      [
        `Seats bought: ${bought}, reserved and unpaid: ${unpaid}`,
        `Unpaid holds in a row: ${unpaidHolds}${cooling}`,
        excepted ? 'An exception is in force.' : 'No exception is in force.',
        ...orders.map(
          (one) =>
            `  ${one.order}  ${one.state}${one.reason === null ? '' : ` (${one.reason})`}  ${counted(one.seats, 'seat')}  ${new Date(one.createdAt).toISOString()}`,
        ),
      ].join('\n'),
    );
  });
}

async function setCommand(context: CliContext, id: string, flags: SetFlags, command: Command): Promise<void> {
  const wrong = (sentence: string): never => command.error(sentence);
  await withEvent(context, id, async (db, _events, event) => {
    const replaces = limitsOf(event.settings);
    const limits: Partial<EventLimits> = {
      ...Object.assign({}, ...countedLimits.map((name) => countedFlag(name, flags[name], wrong))),
      ...cooldownFlags(replaces, flags, wrong),
    };
    if (Object.keys(limits).length === 0) return wrong('Name a limit to be changed.');
    const outcome = await changeLimits(db, { event: event.eventNo, actor: cliActor, replaces, limits });
    if (outcome.kind === 'unknown') context.fail(`There is no event ${id}.`);
    else if (outcome.kind === 'conflict')
      context.fail('Somebody changed the limits just now: look again and repeat.');
    else context.print(flags.json ? JSON.stringify(outcome.limits) : limitLines(outcome.limits).join('\n'));
  });
}

function countedFlag(
  name: CountedLimit,
  text: string | undefined,
  wrong: (sentence: string) => never,
): Partial<EventLimits> {
  if (text === undefined) return {};
  if (text === 'none') return { [name]: null };
  const most = limitMost(name);
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1 && value <= most) return { [name]: value };
  const flag = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  return wrong(`${flag} takes 1 to ${most}, or "none".`);
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
  const fault = cooldownFault(rule);
  return fault === null ? { cooldown: rule } : wrong(fault);
}

/** The reference of a buyer's page names his browser, or his account where it has one. */
const byReference = (reference: string): AllowedBuyer =>
  isPlatformAccount(reference) ? { account: reference } : { visitor: reference };

async function allowCommand(
  context: CliContext,
  id: string,
  flags: AllowFlags,
  command: Command,
): Promise<void> {
  const account = flags.account === undefined ? undefined : accountNamed(flags.account);
  if (account === null)
    command.error('--account takes an e-mail address, or sub: and the name of an account.');
  const buyers: AllowedBuyer[] = [
    ...(account ? [{ account }] : []),
    ...(flags.visitor === undefined ? [] : [byReference(flags.visitor)]),
    ...(flags.order === undefined ? [] : [{ order: flags.order }]),
  ];
  const [buyer] = buyers;
  if (!buyer || buyers.length > 1)
    command.error('Name the buyer by one of --account, --visitor and --order.');
  if (flags.order !== undefined && !uuidForm.test(flags.order)) command.error('--order takes an order’s id.');
  const reason = flags.reason.trim();
  if (reason === '' || reason.length > limitBounds.reasonLengthMax)
    command.error(`--reason takes 1 to ${limitBounds.reasonLengthMax} characters.`);
  const until = flags.until === undefined ? null : Date.parse(flags.until);
  if (until !== null && !(isEventTime(until) && until > context.clock.now()))
    command.error('--until takes a time that is still to come, such as 2027-01-31T20:00:00Z.');
  await withEvent(context, id, async (db, _events, event) => {
    const outcome = await allowBuyer(db, {
      event: event.eventNo,
      actor: cliActor,
      buyer: buyer!,
      reason,
      until,
    });
    if (outcome.kind === 'unknown_order') context.fail(`${id} has no order ${flags.order}.`);
    else context.print(flags.json ? JSON.stringify(outcome.allowance) : allowanceText(outcome.allowance));
  });
}

function endCommand(
  context: CliContext,
  id: string,
  allowance: string,
  flags: { json?: boolean },
): Promise<void> {
  return withEvent(context, id, async (db, _events, event) => {
    const outcome = uuidForm.test(allowance)
      ? await endAllowance(db, { event: event.eventNo, allowance, actor: cliActor })
      : { kind: 'unknown' as const };
    if (outcome.kind === 'unknown') context.fail(`${id} has no exception ${allowance}.`);
    else context.print(flags.json ? JSON.stringify(outcome.allowance) : allowanceText(outcome.allowance));
  });
}

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

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

function allowanceText(one: Allowance): string {
  const whom = [one.account, one.visitor === null ? null : `browser ${one.visitor}`].filter(
    (name) => name !== null,
  );
  const at = (ms: number) => new Date(ms).toISOString();
  const term =
    one.endedAt !== null
      ? `ended ${at(one.endedAt)} by ${one.endedBy}`
      : one.until === null
        ? 'until it is ended'
        : `until ${at(one.until)}${one.inForce ? '' : ' (over)'}`;
  return `${one.allowance}  ${whom.join(', ')}  ${term}  ${one.reason} (${one.actor}, ${at(one.createdAt)})`;
}
