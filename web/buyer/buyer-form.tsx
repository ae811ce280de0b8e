import { useRef, useState } from 'preact/hooks';
import { ViewHeading } from '../shared/shell.tsx';
import { texts } from '../shared/texts/texts.ts';
import { startOrder } from './basket-acts.ts';
import type { Buyer, BuyerState } from './session.ts';

const words = texts.payment;

/** Name and e-mail. Each error appears at its field, and the first one gets the focus. */
export function BuyerForm({ buyer, state }: { buyer: Buyer; state: BuyerState }) {
  const name = useRef<HTMLInputElement>(null);
  const email = useRef<HTMLInputElement>(null);
  const [wrong, setWrong] = useState<{ name?: string; email?: string }>({});
  const field = state.problem?.field ?? '';
  const busy = state.busy === 'order';

  const submit = (event: Event) => {
    event.preventDefault();
    if (busy) return;
    const person = { name: name.current!.value.trim(), email: email.current!.value.trim() };
    const found = {
      name: person.name === '' ? words.nameMissing : undefined,
      email: /^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(person.email) ? undefined : words.emailWrong,
    };
    setWrong(found);
    if (found.name) name.current!.focus();
    else if (found.email) email.current!.focus();
    else void startOrder(buyer, person);
  };
  const nameError = wrong.name ?? (field.endsWith('/name') ? words.nameMissing : undefined);
  const emailError = wrong.email ?? (field.endsWith('/email') ? words.emailWrong : undefined);
  return (
    <form class="stack" noValidate onSubmit={submit}>
      <ViewHeading>{words.buyerTitle}</ViewHeading>
      <div class="field">
        <label for="buyer-name">{words.name}</label>
        <input
          id="buyer-name"
          ref={name}
          name="name"
          autoComplete="name"
          required
          maxLength={200}
          aria-invalid={nameError ? 'true' : undefined}
          aria-describedby="buyer-name-hint buyer-name-error"
        />
        <span id="buyer-name-hint" class="hint">
          {words.nameHint}
        </span>
        <span id="buyer-name-error" class="error">
          {nameError}
        </span>
      </div>
      <div class="field">
        <label for="buyer-email">{words.email}</label>
        <input
          id="buyer-email"
          ref={email}
          name="email"
          type="email"
          autoComplete="email"
          required
          maxLength={254}
          aria-invalid={emailError ? 'true' : undefined}
          aria-describedby="buyer-email-hint buyer-email-error"
        />
        <span id="buyer-email-hint" class="hint">
          {words.emailHint}
        </span>
        <span id="buyer-email-error" class="error">
          {emailError}
        </span>
      </div>
      <button type="submit" class="button primary wide" aria-disabled={busy}>
        {busy ? texts.basket.working : words.toCard}
      </button>
      <p class="muted small">{words.reserveNote}</p>
    </form>
  );
}
