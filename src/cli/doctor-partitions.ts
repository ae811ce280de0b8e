import type { Finding } from './doctor.ts';

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
  return named
    .filter(({ store }) => !servers.includes(store))
    .map(({ store, events }) => ({
      check,
      // Where there is no Redis at all, Postgres arbitrates every partition.
      state: servers.length > 0 ? ('wrong' as const) : ('note' as const),
      detail: `No Redis server is named ${store} here, and ${events.slice(0, 5).join(', ')} sells through it.`,
      remedy: `Add ${store} to ONSALE_REDIS_SERVERS of every process. Until then its seats cannot be held from here while Redis arbitrates them.`,
    }));
}
