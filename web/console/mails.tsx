import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { announce } from '../shared/live.tsx';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { shortDateTime } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { refusal, type Said, SaidView } from './fields.tsx';
import { LongList } from './long-list.tsx';
import { placeOfEvent } from './place.ts';
import type { Mail, OrganiserEvent } from './shapes.ts';

const words = consoleTexts.mails;
/** Refresh interval for an order with a mail under way. */
const lookEveryMs = 3_000;

/** Codes that mean that the mail will not be sent any more. */
const goneCodes = ['mail_not_needed', 'unknown_mail'];

/** Sends one again; says what came of it. */
async function sendAgain(mail: string, copy: boolean): Promise<Said> {
  const body = copy ? { copy } : undefined;
  const answer = await call(`/api/organiser/mails/${mail}/again`, { method: 'POST', body });
  if (answer.kind === 'ok') return { tone: 'good', text: copy ? words.copied : words.again };
  const gone = answer.kind === 'problem' && goneCodes.includes(answer.problem.code);
  return gone ? { tone: 'warn', text: words.gone } : refusal(answer);
}

/** The mails that could not be sent, of all events. */
export function Mails({ events }: { events: OrganiserEvent[] }) {
  const [all, setAll] = useState<{ count: number; mails: Mail[] } | null>(null);
  const [said, setSaid] = useState<Said>(null);
  /** How many of how many are sent again just now. */
  const [going, setGoing] = useState<[number, number] | null>(null);
  const load = async () => {
    const answer = await call<{ count: number; mails: Mail[] }>('/api/organiser/mails');
    if (answer.kind === 'ok') setAll(answer.body);
    else setSaid(refusal(answer));
  };
  useEffect(() => void load(), []);
  const again = async (mail: string) => {
    setSaid(await sendAgain(mail, false));
    await load();
  };
  const refused = all?.mails.filter(({ state }) => state === 'refused') ?? [];
  const everyAgain = async () => {
    if (going) return;
    let sent = 0;
    let trouble: Said = null;
    for (const [i, { mail }] of refused.entries()) {
      setGoing([i, refused.length]);
      const went = await sendAgain(mail, false);
      if (went?.tone === 'good') sent++;
      else trouble = went;
      // Whatever keeps one from being asked for keeps the others too.
      if (went?.tone === 'bad') break;
    }
    setGoing(null);
    setSaid(trouble?.tone === 'bad' ? trouble : { tone: 'good', text: words.allAgain(sent, refused.length) });
    await load();
  };
  const nameOf = (event: string) => events.find(({ id }) => id === event)?.name ?? event;
  return (
    <section class="card stack">
      <h2>{words.title}</h2>
      <p class="muted">{words.help}</p>
      <SaidView said={said} />
      {!all && !said && <p class="pulse">{texts.loading}</p>}
      {all && (
        <div class="event-row">
          <p>{words.count(all.count, all.mails.length)}</p>
          <div class="row">
            {refused.length > 1 && (
              <button
                type="button"
                class="button small"
                aria-disabled={going !== null}
                onClick={() => void everyAgain()}
              >
                {going ? words.going(...going) : words.sendAll(refused.length)}
              </button>
            )}
            <button
              type="button"
              class="button small"
              onClick={() => void load().then(() => announce(words.reloaded))}
            >
              {words.reload}
            </button>
          </div>
        </div>
      )}
      <LongList
        items={all?.mails ?? []}
        keyOf={({ mail }) => mail}
        row={(mail) => (
          <MailRow mail={mail} of={nameOf(mail.event)} onAgain={() => void again(mail.mail)}>
            <a class="button quiet small" href={placeOfEvent(mail.event, 'orders', mail.order)}>
              {words.toOrder}
              <span class="visually-hidden"> {mail.order}</span>
            </a>
          </MailRow>
        )}
      />
    </section>
  );
}

/** Mails that the order's buyer received or is about to receive. */
export function OrderMails({ order, to }: { order: string; to: string }) {
  const [mails, setMails] = useState<Mail[] | null>(null);
  const [said, setSaid] = useState<Said>(null);
  const load = async () => {
    const answer = await call<{ mails: Mail[] }>(`/api/organiser/mails?order=${order}`);
    if (answer.kind === 'ok') setMails(answer.body.mails);
    else setSaid(refusal(answer));
  };
  const waits = mails?.some(({ state }) => state === 'due') ?? false;
  useEffect(() => void load(), [order]);
  useEffect(() => {
    if (!waits) return;
    const timer = window.setInterval(() => {
      if (document.visibilityState === 'visible') void load();
    }, lookEveryMs);
    return () => window.clearInterval(timer);
  }, [order, waits]);
  const act = async (mail: string, copy: boolean) => {
    setSaid(await sendAgain(mail, copy));
    await load();
  };
  return (
    <div class="stack parted">
      <h4>{words.ofOrder}</h4>
      <p class="muted who">{words.to(to)}</p>
      <SaidView said={said} />
      {!mails && !said && <p class="pulse">{texts.loading}</p>}
      {mails?.length === 0 && <p class="muted">{words.none}</p>}
      <LongList
        items={mails ?? []}
        keyOf={({ mail }) => mail}
        row={(mail) => (
          <MailRow
            mail={mail}
            onAgain={() => void act(mail.mail, false)}
            onCopy={() => void act(mail.mail, true)}
          />
        )}
      />
    </div>
  );
}

function MailRow(props: {
  mail: Mail;
  /** Its event, where mails of several are listed. */
  of?: string;
  onAgain: () => void;
  onCopy?: () => void;
  children?: ComponentChildren;
}) {
  const { mail, onCopy } = props;
  const what = words.whats[mail.what] ?? mail.what;
  const inVain = mail.state === 'refused' || (mail.state === 'due' && mail.error !== null);
  const name = <span class="visually-hidden"> {words.of(what, shortDateTime(mail.createdAt))}</span>;
  return (
    <div class="event-row">
      <div class="who">
        <strong>{what}</strong>
        {` · ${shortDateTime(mail.createdAt)} · ${sayState(mail)}`}
        {mail.copyOf !== null && ` · ${words.aCopy}`}
        {props.of !== undefined && (
          <div class="small">
            <bdi>{props.of}</bdi>
          </div>
        )}
        {inVain && (
          <div class="muted small">
            {words.attempts(mail.attempts)} {words.said(mail.error ?? '')} {sayNext(mail)}
          </div>
        )}
      </div>
      <div class="row">
        {inVain && (
          <button type="button" class="button small" onClick={props.onAgain}>
            {words.send}
            {name}
          </button>
        )}
        {mail.state === 'sent' && onCopy && (
          <button type="button" class="button small" onClick={onCopy}>
            {words.sendCopy}
            {name}
          </button>
        )}
        {props.children}
      </div>
    </div>
  );
}

function sayState({ state, error }: Mail): string {
  return state === 'due' && error !== null ? words.inVain : words.states[state];
}

/** When it is tried next; of refused ones the list says that they are not. */
function sayNext(mail: Mail): string {
  if (mail.state === 'refused') return '';
  return mail.nextAt === null ? words.notByItself : words.next(shortDateTime(mail.nextAt));
}
