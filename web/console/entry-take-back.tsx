import { useRef, useState } from 'preact/hooks';
import { Notice } from '../shared/shell.tsx';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { shortDateTime } from '../shared/texts/format.ts';
import { Field, refusal, type Said } from './fields.tsx';
import type { EntryPlace } from './shapes.ts';
import { useRequest } from './use-request.ts';

const words = consoleTexts.entry;

/** There is nothing left to take back. */
const goneCodes = ['not_entered', 'unknown_ticket'];

export interface TakenBack {
  said: Said;
  /** False: it was refused, and may be asked for again. */
  done: boolean;
}

/** Why a use of a ticket is taken back, in place. */
export function TakeBack(props: {
  id: string;
  event: string;
  /** The use is named by its time: a request repeated after a lost answer must not take back a later use. */
  use: { ticket: string; at: string };
  /** Null if the check-in is left unchanged. */
  onEnded: (ended: TakenBack | null) => void;
}) {
  const { id, event, use, onEnded } = props;
  const [reason, setReason] = useState('');
  const { busy, request } = useRequest();
  const before = useRef(document.activeElement);
  const leave = () => {
    if (before.current instanceof HTMLElement && before.current.isConnected) before.current.focus();
    onEnded(null);
  };
  const send = async () => {
    if (busy || reason.trim() === '') return;
    const answer = await request<{ next: { at: string; gate: string | null } | null }>(
      '/api/organiser/checkin/undo',
      { method: 'POST', body: { ...use, event, reason: reason.trim() } },
    );
    if (answer.kind === 'ok') {
      const { next } = answer.body;
      const text = next ? words.takeBack.counts(shortDateTime(next.at), next.gate) : words.takeBack.free;
      return onEnded({ said: { tone: 'good', text }, done: true });
    }
    const gone = answer.kind === 'problem' && goneCodes.includes(answer.problem.code);
    if (gone) return onEnded({ said: { tone: 'warn', text: words.takeBack.gone }, done: true });
    onEnded({ said: refusal(answer), done: false });
  };
  return (
    <Notice tone="warn">
      <form
        class="stack"
        onSubmit={(submit) => {
          submit.preventDefault();
          void send();
        }}
      >
        <Field
          id={`${id}-why`}
          focus
          label={words.takeBack.why}
          value={reason}
          hint={words.takeBack.whyHint}
          onValue={setReason}
        />
        <div class="row">
          <button type="submit" class="button danger" aria-disabled={busy || reason.trim() === ''}>
            {busy ? consoleTexts.busy : words.takeBack.yes}
          </button>
          <button type="button" class="button" onClick={leave}>
            {words.takeBack.no}
          </button>
        </div>
      </form>
    </Notice>
  );
}

export function sayPlace(seat: EntryPlace | null): string {
  return seat ? words.place(seat.section, seat.row, seat.number) : '';
}
