import type { Command } from 'commander';
import { createEvents } from '../catalogue/events.ts';
import { type QueueReport, reportQueue } from '../waiting-room/order-records.ts';
import type { CliContext } from './context.ts';

type QueueContext = Pick<CliContext, 'openDatabase' | 'clock' | 'print' | 'fail'>;

export function registerQueueCommands(program: Command, context: QueueContext): void {
  program
    .command('queue')
    .description('The waiting room: what its order was.')
    .command('report')
    .description('How far the order in which the line was called was from the order of arrival.')
    .argument('<event>', 'the id in its address')
    .option('--json', 'print JSON')
    .action(async (id: string, flags: { json?: boolean }) => {
      const { db } = await context.openDatabase();
      const event = await createEvents({ db, clock: context.clock }).find(id);
      if (!event) return context.fail(`There is no event ${id}; "onsale event list" shows all.`);
      const report = await reportQueue(db, event.eventNo);
      context.print(flags.json ? JSON.stringify({ event: id, ...report }) : reportText(id, report));
    });
}

function reportText(id: string, report: QueueReport): string {
  const { tau, pairs, worstInversionSeconds, people, clockDifferenceMs, shards } = report;
  const facts: [string, string][] = [
    ['People called', whole(people)],
    ['Kendall tau', tau === null ? 'nothing to compare' : tau.toFixed(6)],
    ['Pairs in order', whole(pairs.inOrder)],
    ['Pairs inverted', whole(pairs.inverted)],
    [
      'Worst inversion',
      worstInversionSeconds === 0 ? 'none' : `less than ${worstInversionSeconds} s of arrival`,
    ],
    ['Clocks differed by', `at most ${clockDifferenceMs} ms`],
  ];
  const table = [
    ['shard', 'issued', 'called', 'unknown', 'busiest second'],
    ...shards.map(({ shard, issued, called, unknown, busiest }) => [
      String(shard),
      whole(issued),
      whole(called),
      whole(unknown),
      busiest === null
        ? '-'
        : `${whole(busiest.arrivals)} at ${new Date(busiest.second * 1000).toISOString().slice(0, 19)}Z`,
    ]),
  ];
  const widths = table[0]!.map((_, column) => Math.max(...table.map((row) => row[column]!.length)));
  return [
    `Order of the line of ${id}`,
    ...facts.map(([name, value]) => `  ${name.padEnd(20)} ${value}`),
    '',
    ...table.map(
      (row) =>
        `  ${row
          .map((cell, column) => cell.padEnd(widths[column]!))
          .join('  ')
          .trimEnd()}`,
    ),
    '',
    '  Kendall tau: 1 is strict order of arrival. Pairs of the same second of arrival, or called at once, are not compared.',
    '  Unknown: passed over when the store of numbers was lost; whether anybody had drawn them is not known.',
  ].join('\n');
}

function whole(value: number): string {
  return value.toLocaleString('en-GB');
}
