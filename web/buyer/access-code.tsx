import { useRef, useState } from 'preact/hooks';
import type { CodeAnswer, EventObject, StatusObject } from '../../src/http/api-types.ts';
import { call, persist } from '../shared/api.ts';
import { announce } from '../shared/live.tsx';
import { problemText } from '../shared/problem.tsx';
import { texts } from '../shared/texts/texts.ts';
import type { Buyer, BuyerState } from './session.ts';

const words = texts.access;

/** Whether anything about the event is opened by codes. */
export function hasCodes(event: EventObject): boolean {
  return (
    event.presaleAt !== undefined ||
    event.prices.some(({ locked }) => locked) ||
    (event.kinds ?? []).some(({ locked }) => locked)
  );
}

/** Open, but only to those whose code opens the presale. `now`: server's time. */
export function isPresale(event: EventObject, status: StatusObject, now: number): boolean {
  return (
    status.phase === 'open' &&
    event.presaleAt !== undefined &&
    status.opensAt !== null &&
    now < status.opensAt
  );
}

/** Shows the code once; from then on the browser carries it. `onWait`: it is checked again after so many seconds. */
async function showCode(
  buyer: Buyer,
  code: string,
  onWait: (seconds: number) => void,
): Promise<string | null> {
  const { store, keep } = buyer;
  if (store.get().busy) return null;
  store.set({ busy: 'code' });
  const answer = await persist<CodeAnswer>(
    `/api/events/${encodeURIComponent(buyer.eventId)}/code`,
    { method: 'POST', body: { code } },
    {
      onTrouble(tries, problem) {
        if (problem?.code !== 'too_many_requests') return buyer.trouble(tries);
        onWait(Math.ceil((problem.retryAfterMs ?? 0) / 1_000));
      },
    },
  );
  store.set({ busy: null, trouble: 0 });
  if (answer.kind !== 'ok') return answer.kind === 'problem' ? problemText(answer.problem) : null;
  keep.write('code', answer.body);
  const { problem } = store.get();
  store.set({ code: answer.body, codeOver: null, problem: problem?.field === '/code' ? null : problem });
  return null;
}

/**
 * Whether the code that this browser carries still opens something: an order may have been its last use. Not while an order
 * is unpaid: that is a use which may come back.
 */
export async function checkCode(buyer: Buyer): Promise<void> {
  const { store, keep } = buyer;
  const { code, order } = store.get();
  if (!code || order) return;
  // Tries once. If the server cannot check the code now, the next step that needs it will.
  const answer = await call<CodeAnswer>(`/api/events/${encodeURIComponent(buyer.eventId)}/code`, {
    method: 'POST',
    body: { code: code.code },
  });
  if (store.get().code?.code !== code.code) return;
  if (answer.kind === 'ok') store.set({ code: answer.body });
  if (answer.kind !== 'problem' || !(answer.problem.code in words.over)) return;
  keep.drop('code');
  store.set({ code: null, codeOver: { code: code.code, why: answer.problem.code } });
}

/** The field for a code; once one is taken, what it opens, and the way to another. */
export function AccessCode({ buyer, state }: { buyer: Buyer; state: BuyerState }) {
  const input = useRef<HTMLInputElement>(null);
  const taken = useRef<HTMLParagraphElement>(null);
  const [error, setError] = useState<string | null>(null);
  const [waitSeconds, setWaitSeconds] = useState<number | null>(null);
  const [again, setAgain] = useState(false);
  const busy = state.busy === 'code';
  const refused = state.problem?.field === '/code';
  if (state.code && !again && !refused) {
    return (
      <section class="access-code stack" aria-label={words.title}>
        <p ref={taken} tabIndex={-1}>
          <strong>{state.code.code}</strong> · {words.opened(whatOpens(state.event!, state.code))}
          {state.code.seatsMax !== null && ` ${words.seatsMax(state.code.seatsMax)}`}
        </p>
        <div>
          <button type="button" class="button small" onClick={() => setAgain(true)}>
            {words.other}
          </button>
        </div>
      </section>
    );
  }
  const submit = async (event: Event) => {
    event.preventDefault();
    if (busy) return;
    const code = input.current!.value.trim();
    setError(null);
    const wrong = code === '' ? words.missing : await showCode(buyer, code, setWaitSeconds);
    setWaitSeconds(null);
    setError(wrong);
    const opened = buyer.store.get().code;
    if (wrong) input.current?.focus();
    else if (opened) {
      setAgain(false);
      announce(words.opened(whatOpens(state.event!, opened)));
      // The field that had the focus is gone by then.
      requestAnimationFrame(() => taken.current?.focus());
    }
  };
  return (
    <form
      class="access-code stack"
      aria-label={words.title}
      noValidate
      onSubmit={(event) => void submit(event)}
    >
      {state.codeOver && <p>{words.over[state.codeOver.why]?.(state.codeOver.code)}</p>}
      <div class="field">
        <label for="access-code">{words.code}</label>
        <div class="row">
          <input
            id="access-code"
            ref={input}
            autoComplete="off"
            autoCapitalize="characters"
            spellcheck={false}
            maxLength={100}
            aria-invalid={error ? 'true' : undefined}
            aria-describedby="access-code-hint access-code-error"
          />
          <button type="submit" class="button" aria-disabled={busy}>
            {busy ? words.checking : words.use}
          </button>
        </div>
        <span id="access-code-hint" class="hint">
          {words.hint}
        </span>
        <span class="hint" role="status">
          {waitSeconds !== null && words.wait(waitSeconds)}
        </span>
        <span id="access-code-error" class="error" role="alert">
          {error}
        </span>
      </div>
    </form>
  );
}

function whatOpens(event: EventObject, code: CodeAnswer): string[] {
  const names = code.kinds.map((id) => event.kinds?.find((kind) => kind.id === id)?.name ?? id);
  return [...(code.presale ? [words.opensPresale] : []), ...code.categories, ...names];
}
