import type { Command } from 'commander';
import { counted } from '../../src/core/counted.ts';
import type { Clock } from '../../src/runtime/clock.ts';
import { type Random, seededRandom } from '../../src/runtime/random.ts';
import { type CrowdReport, runCrowd } from './crowd.ts';

interface CrowdFlags {
  url: string;
  event?: string;
  buyers: string;
  over: string;
  patience: string;
  seed?: string;
  json?: boolean;
}

/** `onsale crowd`: sends buyers over HTTP to a running sale and prints what became of them. */
export function registerCrowdCommand(
  program: Command,
  context: { clock: Clock; random: Random; print(text: string): void; fail(sentence: string): void },
): void {
  const { clock, random, print, fail } = context;
  program
    .command('crowd')
    .description('Send a crowd of buyers over HTTP (test cards only) to a running sale on this machine.')
    .option('--url <url>', 'the sale', 'http://127.0.0.1:3000')
    .option('--event <event>', 'id of the event; the only one when absent')
    .option('--buyers <number>', 'how many people', '500')
    .option('--over <seconds>', 'they arrive within that time', '20')
    .option('--patience <seconds>', 'then those who still wait give up', '120')
    .option('--seed <number>', 'repeatable chance')
    .option('--json', 'print JSON')
    .action(async (flags: CrowdFlags, command: Command) => {
      const [buyers, over, patience] = [flags.buyers, flags.over, flags.patience].map(Number) as [
        number,
        number,
        number,
      ];
      if (!(Number.isInteger(buyers) && buyers >= 1 && buyers <= 100_000 && over >= 0 && patience >= 1)) {
        command.error('--buyers takes 1 to 100000, --over and --patience take seconds.');
      }
      if (!isLoopback(flags.url)) {
        fail('A crowd goes to this machine only (http://127.0.0.1:…): it is a load generator.');
        return;
      }
      const event = flags.event ?? (await onlyEvent(flags.url));
      if (event === null) {
        fail(
          `No sale answers at ${flags.url} (npm start runs one; --url names another), or several are open: name one with --event.`,
        );
        return;
      }
      const report = await runCrowd({
        url: flags.url,
        event,
        buyers,
        overMs: over * 1_000,
        patienceMs: patience * 1_000,
        clock,
        random: flags.seed === undefined ? random : seededRandom(Number(flags.seed)),
        onProgress: flags.json ? undefined : (progress) => print(progressLine(progress)),
      });
      print(flags.json ? JSON.stringify(report) : reportText(report));
      if (report.faults.length > 0) fail(`${counted(report.faults.length, 'unexpected answer')}.`);
    });
}

async function onlyEvent(url: string): Promise<string | null> {
  try {
    const answer = await fetch(new URL('/api/events', url));
    const { events } = (await answer.json()) as { events: { id: string }[] };
    return events.length === 1 ? events[0]!.id : null;
  } catch {
    return null;
  }
}

function isLoopback(url: string): boolean {
  return URL.canParse(url) && /^(127(\.\d{1,3}){3}|localhost|\[::1\])$/.test(new URL(url).hostname);
}

function progressLine(report: CrowdReport): string {
  const { ends } = report;
  return `${Math.round(report.tookMs / 1_000)} s: ${report.arrived}/${report.buyers} arrived, ${report.present} present, ${ends.bought} bought ${counted(report.seatsBought, 'seat')}, ${ends.sold_out} told sold out, ${counted(report.refusedTaken, 'refusal')}`;
}

function reportText(report: CrowdReport): string {
  const lines = [
    '',
    `${counted(report.buyers, 'buyer')} in ${Math.round(report.tookMs / 1_000)} s, ${counted(report.requests, 'request')}`,
    ...Object.entries(report.ends).map(([end, count]) => `  ${end.padEnd(10)} ${count}`),
    `  seats bought ${report.seatsBought}, refusals "taken" ${report.refusedTaken}`,
    '  answers: ' +
      Object.entries(report.statuses)
        .map(([status, count]) => `${status} ${count}`)
        .join(', '),
    '',
    '  p50, p95, p99 in ms',
    ...Object.entries(report.latency).map(
      ([route, { count, p50, p95, p99 }]) => `  ${route.padEnd(44)} ${count} x  ${p50}  ${p95}  ${p99}`,
    ),
    ...report.faults.map((fault) => `  ! ${fault}`),
  ];
  return lines.join('\n');
}
