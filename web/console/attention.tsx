import { useEffect, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { texts } from '../shared/texts/texts.ts';
import { hashOf, placeOfEvent } from './place.ts';
import type { Mail, OrganiserEvent } from './shapes.ts';

const words = consoleTexts.attention;
const lookEveryMs = 30_000;

interface Found {
  payments: number;
  mails: number;
  doubles: number;
}

/** Problems that the organiser must notice, each with a link to the place where it is handled. */
export function Attention({ event, shown }: { event: OrganiserEvent; shown: boolean }) {
  const [found, setFound] = useState<Found | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    if (!shown) return;
    const load = async () => {
      if (document.hidden) return;
      const base = `/api/organiser/events/${encodeURIComponent(event.id)}`;
      const [payments, mails, entries] = await Promise.all([
        call<{ total: number }>(`/api/organiser/attention?limit=1&event=${encodeURIComponent(event.id)}`),
        call<{ mails: Mail[] }>('/api/organiser/mails'),
        call<{ doubleUses: unknown[] }>(`${base}/entries`),
      ]);
      const all = payments.kind === 'ok' && mails.kind === 'ok' && entries.kind === 'ok';
      setFailed(!all);
      if (!all) return;
      setFound({
        payments: payments.body.total,
        mails: mails.body.mails.filter((mail) => mail.event === event.id).length,
        doubles: entries.body.doubleUses.length,
      });
    };
    void load();
    const timer = window.setInterval(() => void load(), lookEveryMs);
    return () => window.clearInterval(timer);
  }, [event.id, shown]);

  const lines: { says: string; href: string; where: string }[] = [];
  if (event.phase === 'cancelled') {
    lines.push({ says: words.cancelled, href: placeOfEvent(event.id, 'cancel'), where: words.toCancel });
  }
  if (found && found.payments > 0) {
    const href = hashOf({ tab: 'payments', event: event.id });
    lines.push({ says: words.payments(found.payments), href, where: words.toPayments });
  }
  if (found && found.mails > 0) {
    lines.push({ says: words.mails(found.mails), href: hashOf({ tab: 'mails' }), where: words.toMails });
  }
  if (found && found.doubles > 0) {
    const href = placeOfEvent(event.id, 'entry');
    lines.push({ says: words.doubles(found.doubles), href, where: words.toDoubles });
  }
  return (
    <section class="card stack">
      <h3>{words.title}</h3>
      {!found && !failed && <p class="pulse">{texts.loading}</p>}
      {failed && <p>{words.failed}</p>}
      {found && lines.length === 0 && <p class="muted">{words.none}</p>}
      {lines.length > 0 && (
        <ul class="plain stack">
          {lines.map(({ says, href, where }) => (
            <li key={where}>
              {says} <a href={href}>{where}</a>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
