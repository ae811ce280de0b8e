import { useRef, useState } from 'preact/hooks';
import type { Problem } from '../../src/http/api-types.ts';
import { Notice } from '../shared/shell.tsx';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { texts } from '../shared/texts/texts.ts';
import { useRequest } from './use-request.ts';

const words = consoleTexts.signIn;

export function SignIn({ onIn }: { onIn: (email: string) => void }) {
  const email = useRef<HTMLInputElement>(null);
  const password = useRef<HTMLInputElement>(null);
  const [refused, setRefused] = useState<string | null>(null);
  const { busy, request } = useRequest();
  const submit = async (event: Event) => {
    event.preventDefault();
    if (busy) return;
    const body = { email: email.current!.value, password: password.current!.value };
    const answer = await request<{ email: string }>('/api/organiser/sessions', { method: 'POST', body });
    if (answer.kind === 'ok') return onIn(answer.body.email);
    setRefused(answer.kind === 'lost' ? texts.problems.unexpected : sentence(answer.problem));
    password.current!.focus();
  };
  return (
    <form class="card stack sign-in" onSubmit={(event) => void submit(event)}>
      <h2>{words.title}</h2>
      <div role="alert">{refused && <Notice tone="bad">{refused}</Notice>}</div>
      <div class="field">
        <label for="email">{words.email}</label>
        <input id="email" ref={email} type="email" autoComplete="username" required />
      </div>
      <div class="field">
        <label for="password">{words.password}</label>
        <input id="password" ref={password} type="password" autoComplete="current-password" required />
      </div>
      <button type="submit" class="button primary" aria-disabled={busy}>
        {busy ? consoleTexts.busy : words.go}
      </button>
      <p class="muted small">{words.hint}</p>
    </form>
  );
}

function sentence(problem: Problem): string {
  return problem.code === 'sign_in_refused' ? words.refused : problem.detail;
}
