import { impossible } from '../core/outcome.ts';
import {
  advanceRun,
  dueRun,
  type Finding,
  type Misfit,
  moneyOfObject,
  moneyOfOrders,
  openedPayments,
  openFindings,
  type ReconcileRun,
  type RunPage,
  soldUnpaid,
  startRun,
  unvisitedFindings,
} from '../orders/reconcile-findings.ts';
import type { ListAnswer, PaymentProvider, PaymentView, ProviderAnswer } from '../payments/provider.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Loops } from '../runtime/loops.ts';
import { type Judgement, judgePayment, missingThere, unpaidSale } from './reconcile-judge.ts';

export interface ReconcileReportOptions {
  db: Db;
  provider: Pick<PaymentProvider, 'list' | 'lookup'>;
  /**
   * Tells the saga of a payment that names our order and does not fit it, as if the provider had sent an event about it.
   * Repeatable in a run.
   */
  handOver(object: string, run: string): Promise<void>;
  clock: Clock;
  log: Logger;
  /** This process's name; the same after a restart takes up its own run at once. */
  owner: string;
}

export type ReconcileOutcome =
  | { kind: 'compared'; run: ReconcileRun; findings: Finding[] }
  /** The provider did not answer: the run stands where it was and may be gone on with. */
  | { kind: 'unanswered'; run: ReconcileRun; detail: string }
  /** Another process took the run over, or this one was asked to stop. */
  | { kind: 'taken'; run: ReconcileRun };

/** How often the worker compares, and how far it looks back: payments that changed late are seen many times. */
export const reconcileSchedule = {
  everyMs: 15 * 60_000,
  backMs: 24 * 60 * 60_000,
  /** Younger payments are on their way. */
  youngMs: 2 * 60_000,
} as const;

const lookEveryMs = 30_000;
/** A run over a day of payments lists them page by page. */
const runLateMs = 30 * 60_000;
const listTriesMax = 4;
const listRetryMs = 2_000;
const openedMax = 500;
const againMax = 100;
const lookupsAtOnce = 8;
const findingsMax = 1_000;

type Looked = Judgement | { kind: 'unanswered'; detail: string };

/**
 * Compares the provider's payments with the record in both directions: theirs without ours, and ours without theirs. It lists
 * differences and never fixes them. A payment that names one of our orders is passed to the saga, which handles it by its own
 * rules, because the provider's event about it may have been lost.
 *
 * A page is read before the record's side of it, so a difference may only mean that the record is newer. Each difference is
 * looked up again before it is listed.
 */
export function createReconcileReport(options: ReconcileReportOptions) {
  const { db, provider, clock, log, owner, handOver } = options;

  /** Works a run to its end, page by page; each page is kept with where to go on. */
  async function compare(
    from: ReconcileRun,
    onPage: (run: ReconcileRun) => void = () => {},
    signal?: AbortSignal,
  ): Promise<ReconcileOutcome> {
    let run = from;
    while (run.step !== 'done') {
      const page = await pageOf(run, signal);
      // The next run reads an interrupted page again.
      if (signal?.aborted) return { kind: 'taken', run };
      if (page.kind === 'unanswered') return { ...page, run };
      const next = await advanceRun(db, owner, run, page.page);
      if (!next) return { kind: 'taken', run };
      run = next;
      onPage(run);
    }
    const findings = (await openFindings(db, findingsMax)).filter((one) => one.lastSeenAt >= run.startedAt);
    return { kind: 'compared', run, findings };
  }

  type Page = { kind: 'page'; page: RunPage } | { kind: 'unanswered'; detail: string };

  function pageOf(run: ReconcileRun, signal?: AbortSignal): Promise<Page> {
    switch (run.step) {
      case 'theirs':
        return theirs(run, signal);
      case 'ours':
        return ours(run, signal);
      case 'again':
        return again(run, signal);
      case 'done':
        throw new Error(`run ${run.run} is done`);
      default:
        return impossible(run.step, 'run step');
    }
  }

  async function theirs(run: ReconcileRun, signal?: AbortSignal): Promise<Page> {
    const answer = await listed(run, signal);
    if (answer.kind === 'unknown')
      return { kind: 'unanswered', detail: `${answer.reason}: ${answer.detail}` };
    const { payments, next } = answer;
    const orders = await moneyOfOrders(
      db,
      payments.flatMap(({ view }) => (view ? [view.reference] : [])),
    );
    const tally = createTally();
    tally.add('payments', payments.length);
    const doubtful: string[] = [];
    for (const { object, view } of payments) {
      const judged = view && judgePayment(view, orders.get(view.reference) ?? null);
      if (!judged || judged.kind === 'misfit' || judged.kind === 'stray') doubtful.push(object);
      else tally.judged(object, judged);
    }
    await inTurn(doubtful, signal, async (object) => tally.judged(object, await look(object)));
    await tell(run, tally);
    const seen = payments.map(({ object }) => object);
    return {
      kind: 'page',
      page: { ...tally.page(), seen, step: next === null ? 'ours' : 'theirs', cursor: next },
    };
  }

  async function listed(run: ReconcileRun, signal?: AbortSignal): Promise<ListAnswer> {
    const query = { createdFrom: run.from, createdTo: run.to, cursor: run.cursor };
    for (let tries = 1; ; tries += 1) {
      const answer = await provider.list(query);
      if (answer.kind === 'page' || tries >= listTriesMax || signal?.aborted) return answer;
      await clock.sleep(listRetryMs * tries, signal).catch(() => {});
    }
  }

  async function ours(run: ReconcileRun, signal?: AbortSignal): Promise<Page> {
    const tally = createTally();
    const opened = await openedPayments(db, run, run.cursor, openedMax);
    tally.add('opened', opened.length);
    const unseen = opened.flatMap(({ object, seen }) => (object === null || seen ? [] : [object]));
    tally.add('unlisted', unseen.length);
    await inTurn(unseen, signal, async (object) => tally.judged(object, await look(object)));
    if (run.cursor === null) {
      const unpaid = await soldUnpaid(db, run, findingsMax);
      for (const order of unpaid) tally.judged(order.order, { kind: 'misfit', misfit: unpaidSale(order) });
    }
    await tell(run, tally);
    const last = opened.length < openedMax;
    return {
      kind: 'page',
      page: {
        ...tally.page(),
        seen: [],
        step: last ? 'again' : 'ours',
        cursor: last ? null : opened.at(-1)!.place,
      },
    };
  }

  /** Checks earlier findings that are outside the window or were not reached. They may match by now. */
  async function again(run: ReconcileRun, signal?: AbortSignal): Promise<Page> {
    const tally = createTally();
    const before = await unvisitedFindings(db, run, Number(run.cursor ?? 0), againMax);
    tally.add('again', before.length);
    await inTurn(before, signal, async ({ object, order, subject }) => {
      tally.judged(subject, object === null ? await lookAtSale(order) : await look(object));
    });
    await tell(run, tally);
    const last = before.length < againMax;
    return {
      kind: 'page',
      page: {
        ...tally.page(),
        seen: [],
        step: last ? 'done' : 'again',
        cursor: last ? null : String(before.at(-1)!.finding),
      },
    };
  }

  /** Reads the payment, then its order. */
  async function look(object: string): Promise<Looked> {
    const answer = await provider.lookup(object);
    const view = viewIn(answer);
    if (view) {
      const order = (await moneyOfOrders(db, [view.reference])).get(view.reference) ?? null;
      return judgePayment(view, order);
    }
    if (answer.kind === 'unknown' && answer.reason === 'not_found') {
      const order = await moneyOfObject(db, object);
      if (!order) return { kind: 'idle' };
      return order.underWay ? { kind: 'under_way' } : { kind: 'misfit', misfit: missingThere(object, order) };
    }
    return { kind: 'unanswered', detail: answer.kind === 'unknown' ? answer.reason : answer.kind };
  }

  async function lookAtSale(order: string | null): Promise<Looked> {
    const money = order === null ? undefined : (await moneyOfOrders(db, [order])).get(order);
    if (!money || !['confirmed', 'paid'].includes(money.state)) return { kind: 'fits' };
    const isPaid = money.underWay || money.payments.some(({ captured }) => captured > 0);
    return isPaid ? { kind: 'fits' } : { kind: 'misfit', misfit: unpaidSale(money) };
  }

  async function tell(run: ReconcileRun, tally: Tally): Promise<void> {
    for (const object of tally.ofOurs) {
      await handOver(object, run.run);
      tally.add('handedOver', 1);
    }
  }

  /** Starts the scheduled run if one is due. Null otherwise. */
  async function runIfDue(signal?: AbortSignal): Promise<ReconcileOutcome | null> {
    const run = await dueRun(db, owner, reconcileSchedule);
    return run && (await compare(run, () => {}, signal));
  }

  /** Looks regularly whether a run is due. Stopping waits for the calls at hand. */
  function start(loops: Loops): void {
    loops.run({
      name: 'compare payments with the provider',
      everyMs: lookEveryMs,
      waitsFirst: true,
      lateAfterMs: runLateMs,
      turn: async (signal) => {
        const outcome = await runIfDue(signal);
        if (outcome) report(outcome);
      },
    });
  }

  function report(outcome: ReconcileOutcome): void {
    const { run } = outcome;
    if (outcome.kind === 'unanswered') {
      log.warn({ run: run.run, detail: outcome.detail }, 'the provider did not list its payments');
    } else if (outcome.kind === 'compared' && outcome.findings.length > 0) {
      log.error({ ...run.counts, found: outcome.findings.length }, 'payments and record do not fit');
    }
  }

  return {
    compare,
    runIfDue,
    start,
    /** Compares the payments that were opened in a window now. Epoch ms. */
    onDemand: async (window: { from: number; to: number }, onPage?: (run: ReconcileRun) => void) =>
      compare(await startRun(db, owner, window), onPage),
  };
}

function viewIn(answer: ProviderAnswer): PaymentView | null {
  return 'view' in answer ? answer.view : null;
}

type Tally = ReturnType<typeof createTally>;

/** Counts the results of a page. */
function createTally() {
  const counts: Record<string, number> = {};
  const found: Misfit[] = [];
  const fitting: string[] = [];
  const ofOurs: string[] = [];
  const add = (what: string, n: number): void => {
    counts[what] = (counts[what] ?? 0) + n;
  };
  return {
    add,
    /** Payments that do not fit and name an order of ours. */
    ofOurs,
    judged(subject: string, judged: Looked): void {
      switch (judged.kind) {
        case 'fits':
        case 'idle':
        case 'foreign':
          add(judged.kind, 1);
          fitting.push(subject);
          return;
        case 'under_way':
          add('underWay', 1);
          return;
        case 'unanswered':
          add('unanswered', 1);
          return;
        case 'stray':
          add('strays', 1);
          ofOurs.push(subject);
          if (judged.misfit) found.push(judged.misfit);
          else fitting.push(subject);
          return;
        case 'misfit':
          add('misfits', 1);
          found.push(judged.misfit);
          if (isOfOurs(judged.misfit)) ofOurs.push(subject);
          return;
        default:
          impossible(judged, 'judgement');
      }
    },
    page: () => ({ counts, found, fitting }),
  };
}

/** One that the provider does not know has nothing to be looked at. */
function isOfOurs({ kind, object, order }: Misfit): boolean {
  return object !== null && order !== null && kind !== 'missing_there';
}

/** A few at a time: the provider limits how many calls a second it takes. */
async function inTurn<Item>(
  items: readonly Item[],
  signal: AbortSignal | undefined,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const left = [...items];
  const next = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined && !signal?.aborted; item = left.shift()) {
      await work(item);
    }
  };
  await Promise.all(Array.from({ length: Math.min(lookupsAtOnce, items.length) }, next));
}
