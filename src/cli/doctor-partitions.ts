import { counted } from '../core/counted.ts';
import { defaultRedis } from '../runtime/config.ts';
import type { Finding } from './doctor-finding.ts';

type Ask = (sql: string) => Promise<Record<string, unknown>>;

/** Events name Redis servers; what is not configured here cannot be reached from here. Drafts count too. */
export async function examinePartitions(ask: Ask, servers: readonly string[]): Promise<Finding[]> {
  const check = 'partitions';
  const { ready } = await ask(
    `SELECT count(*) = 1 AS ready FROM information_schema.columns
     WHERE table_name = 'event_partitions' AND column_name = 'store' AND table_schema = current_schema()`,
  );
  if (!ready) return [];
  const { named } = (await ask(
    `SELECT coalesce(json_agg(json_build_object('store', store, 'events', events) ORDER BY store), '[]') AS named FROM (
       SELECT store, array_agg(DISTINCT event_id ORDER BY event_id) AS events FROM (
         SELECT e.event_id, p.store FROM events e JOIN event_partitions p USING (event_no)
          WHERE e.phase NOT IN ('draft','closed','cancelled')
         UNION ALL
         SELECT e.event_id, p ->> 'redis' FROM events e, jsonb_array_elements(coalesce(e.settings -> 'partitions', '[]')) p
          WHERE e.phase = 'draft') all_named
       WHERE store IS NOT NULL GROUP BY store) by_store`,
  )) as { named: { store: string; events: string[] }[] };
  const strangers: Finding[] = named
    .filter(({ store }) => !servers.includes(store))
    .map(({ store, events }) => ({
      check,
      // Where there is no Redis at all, Postgres arbitrates every partition.
      state: servers.length > 0 ? ('wrong' as const) : ('note' as const),
      detail: `No Redis server is named ${store} here, and ${events.slice(0, 5).join(', ')} sells through it.`,
      remedy: `Add ${store} to ONSALE_REDIS_SERVERS of every process. Until then its seats cannot be held from here while Redis arbitrates them.`,
    }));
  return [...(await whoDecides(ask, servers)), ...strangers];
}

/** Reports which store decides about the seats of each event that is not over, from the rows that every process reads. */
async function whoDecides(ask: Ask, servers: readonly string[]): Promise<Finding[]> {
  const { events } = (await ask(
    `SELECT coalesce(json_agg(json_build_object('event', event_id, 'places', places) ORDER BY event_id), '[]') AS events FROM (
       SELECT event_id, json_agg(json_build_object('mode', mode, 'store', store, 'partitions', partitions, 'reason', reason,
                'since', since) ORDER BY mode, store) AS places FROM (
         SELECT e.event_id, p.mode, p.store, count(*) AS partitions, max(p.reason) AS reason,
                to_char(max(p.changed_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"') AS since
           FROM events e JOIN event_partitions p USING (event_no)
          WHERE e.phase NOT IN ('draft','closed','cancelled') GROUP BY 1, 2, 3) by_place
       GROUP BY event_id) by_event`,
  )) as { events: { event: string; places: Place[] }[] };
  return events.map(({ event, places }) => {
    const detail = `${event}: ${places.map(placeText).join('; ')}`;
    const lost = places.find(
      ({ mode, store }) => mode === 'redis' && !servers.includes(store ?? defaultRedis),
    );
    if (!lost) return { check: 'arbiter', state: 'ok', detail };
    return {
      check: 'arbiter',
      state: 'wrong',
      detail,
      remedy: `No Redis server is named ${lost.store ?? defaultRedis} here: run doctor with the settings of the servers (REDIS_URL, ONSALE_REDIS_SERVERS).`,
    };
  });
}

interface Place {
  mode: 'postgres' | 'moving' | 'redis';
  store: string | null;
  partitions: number;
  reason: string | null;
  since: string | null;
}

function placeText({ mode, store, partitions, reason, since }: Place): string {
  const seats = counted(partitions, 'partition');
  const redis = `Redis ${store ?? defaultRedis}`;
  if (mode === 'redis') return `${seats} decided by ${redis}, since ${since}`;
  if (mode === 'moving') return `${seats} on the way to ${redis}`;
  return `${seats} decided by Postgres${reason ? ` since ${since}: ${redis} was lost (${reason})` : ''}`;
}
