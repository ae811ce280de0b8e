/** Copies a published event, seats and all, `count` times, not on sale yet (its sale starts in a year); returns their numbers. */
export async function copyEvent(
  query: (sql: string, values: unknown[]) => Promise<{ event_no: number }[]>,
  event: number,
  count: number,
): Promise<number[]> {
  const copies = await query(
    `INSERT INTO events (event_id, name, plan_id, currency, performance_at, on_sale_at, prices, settings, phase, layout_hash,
       seat_count, published_at)
     SELECT event_id || '-' || n, name, plan_id, currency, now() + interval '400 days', now() + interval '365 days', prices,
       settings, 'scheduled', layout_hash, seat_count, now()
     FROM events, generate_series(1, $2) n WHERE event_no = $1 RETURNING event_no`,
    [event, count],
  );
  for (const { event_no: copy } of copies) {
    await query('SELECT create_event_tables($1), 0 AS event_no', [copy]);
    await query(
      `INSERT INTO event_seats SELECT $1, seat_no, seat_guid, section_id, row_label, seat_label, category, removed
       FROM event_seats WHERE event_no = $2`,
      [copy, event],
    );
    await query(
      'INSERT INTO seats (event_no, seat_no) SELECT $1, seat_no FROM event_seats WHERE event_no = $2',
      [copy, event],
    );
  }
  return copies.map(({ event_no: copy }) => copy);
}
