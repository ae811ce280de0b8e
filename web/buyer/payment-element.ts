/**
 * The card form of the payment provider: Stripe.js, or the stand-in of our payment simulator with the same few calls. The
 * card itself goes from its form to the provider; we only ever see the confirmation token's id.
 */
interface ProviderError {
  message?: string;
}

interface PaymentElement {
  mount(target: HTMLElement): void;
  unmount?(): void;
  destroy?(): void;
  on?(event: 'ready' | 'change', listener: () => void): void;
}

interface Elements {
  create(kind: 'payment', options?: object): PaymentElement;
  submit(): Promise<{ error?: ProviderError }>;
  update?(options: object): void;
}

interface Provider {
  elements(options: object): Elements;
  createConfirmationToken(options: {
    elements: Elements;
    params?: object;
  }): Promise<{ error?: ProviderError; confirmationToken?: { id: string } }>;
}

declare global {
  interface Window {
    Stripe?: (key: string) => Provider;
  }
}

export interface CardForm {
  /** `incomplete`: the form itself shows what is missing. */
  token(): Promise<{ kind: 'token'; id: string } | { kind: 'incomplete'; message: string | null }>;
  remove(): void;
}

const loading = new Map<string, Promise<void>>();

function loadScript(url: string): Promise<void> {
  let promise = loading.get(url);
  if (!promise) {
    promise = new Promise<void>((resolve, reject) => {
      const script = document.createElement('script');
      script.src = url;
      script.async = true;
      script.onload = () => resolve();
      script.onerror = () => {
        loading.delete(url);
        script.remove();
        reject(new Error(`script ${url} did not load`));
      };
      document.head.append(script);
    });
    loading.set(url, promise);
  }
  return promise;
}

export async function mountCardForm(
  target: HTMLElement,
  how: {
    script: string;
    publishableKey: string;
    amount: number;
    currency: string;
    name: string;
    email: string;
  },
): Promise<CardForm> {
  await loadScript(how.script);
  if (!window.Stripe) throw new Error('the payment script defined no Stripe');
  const provider = window.Stripe(how.publishableKey);
  const elements = provider.elements({
    mode: 'payment',
    amount: how.amount,
    currency: how.currency.toLowerCase(),
    captureMethod: 'manual',
    paymentMethodCreation: 'manual',
    paymentMethodTypes: ['card'],
    appearance: { theme: window.matchMedia('(prefers-color-scheme: dark)').matches ? 'night' : 'stripe' },
  });
  const element = elements.create('payment', {
    defaultValues: { billingDetails: { name: how.name, email: how.email } },
  });
  element.mount(target);
  return {
    async token() {
      const submitted = await elements.submit();
      if (submitted.error) return { kind: 'incomplete', message: submitted.error.message ?? null };
      const result = await provider.createConfirmationToken({ elements });
      if (result.confirmationToken) return { kind: 'token', id: result.confirmationToken.id };
      return { kind: 'incomplete', message: result.error?.message ?? null };
    },
    remove() {
      (element.destroy ?? element.unmount)?.call(element);
    },
  };
}
