/**
 * Stands in for Stripe.js in a browser, so that the shop's page runs the same code with the simulator as with Stripe:
 * `Stripe(publishableKey)`, `.elements(options)`, `.create('payment')`, `.mount`, `.on`, `elements.submit()` and
 * `stripe.createConfirmationToken({ elements })`. The card goes from the buyer's browser straight to the simulator;
 * the shop's own server never sees it. Plain script, as Stripe's is; styles through the CSSOM, which a strict
 * Content-Security-Policy permits.
 */
(() => {
  const origin = new URL(document.currentScript.src).origin;

  /** Offered for choosing; the simulator knows many more. */
  const TEST_CARDS = [
    ['4242424242424242', 'Visa: succeeds'],
    ['5555555555554444', 'Mastercard: succeeds'],
    ['4000000000003220', 'Visa: bank asks for authentication'],
    ['4000000000000002', 'Visa: declined'],
    ['4000000000009995', 'Visa: insufficient funds'],
    ['4000000000000069', 'Visa: expired'],
    ['4000000000000127', 'Visa: wrong security code'],
  ];

  let forms = 0;

  function element(tag, attributes = {}, children = []) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function styled(node, style) {
    Object.assign(node.style, style);
    return node;
  }

  const FULL_WIDTH = {
    display: 'block',
    boxSizing: 'border-box',
    width: '100%',
    minHeight: '44px',
    font: 'inherit',
  };

  /** A labelled text field with a place for its error, which assistive technology reads with the field. */
  function field(prefix, name, label, attributes) {
    const id = `${prefix}-${name}`;
    const input = element('input', {
      id,
      type: 'text',
      inputmode: 'numeric',
      spellcheck: 'false',
      'aria-describedby': `${id}-error`,
      ...attributes,
    });
    styled(input, { ...FULL_WIDTH, padding: '8px 12px' });
    const error = styled(element('p', { id: `${id}-error` }), { margin: '4px 0 0', minHeight: '1.5em' });
    const row = styled(element('div', {}, [element('label', { for: id }, [label]), input, error]), {
      flex: '1 1 8em',
      minWidth: '0',
    });
    return { input, row, error };
  }

  function createFields() {
    forms += 1;
    const prefix = `simulated-card-${forms}`;
    return {
      prefix,
      number: field(prefix, 'number', 'Card number', { autocomplete: 'cc-number', maxlength: '23' }),
      expiry: field(prefix, 'expiry', 'Expiry (MM / YY)', { autocomplete: 'cc-exp', maxlength: '7' }),
      cvc: field(prefix, 'cvc', 'Security code', { autocomplete: 'cc-csc', maxlength: '4' }),
    };
  }

  /** The list of test cards; choosing one fills the fields in. */
  function createChooser({ prefix, number, expiry, cvc }, changed) {
    const id = `${prefix}-test`;
    const options = TEST_CARDS.map(([value, label]) => element('option', { value }, [label]));
    const select = element('select', { id, 'aria-describedby': `${id}-note` }, [
      element('option', { value: '' }, ['Choose…']),
      ...options,
    ]);
    select.addEventListener('change', () => {
      if (select.value === '') return;
      number.input.value = grouped(select.value);
      expiry.input.value = `12 / ${String((new Date().getFullYear() + 2) % 100).padStart(2, '0')}`;
      cvc.input.value = '123';
      changed();
    });
    const note = element('p', { id: `${id}-note` }, ['Payment simulator: no real money, test cards only.']);
    const label = element('label', { for: id }, ['Fill in a test card']);
    return styled(element('div', {}, [note, label, styled(select, FULL_WIDTH)]), { margin: '0 0 16px' });
  }

  function createForm(fields, filledIn, changed) {
    const { number, expiry, cvc } = fields;
    const short = styled(element('div', {}, [expiry.row, cvc.row]), {
      display: 'flex',
      flexWrap: 'wrap',
      alignItems: 'flex-end',
      gap: '0 16px',
    });
    const legend = element('legend', {}, ['Card']);
    const group = element('fieldset', {}, [legend, createChooser(fields, filledIn), number.row, short]);
    styled(group, { border: '0', margin: '0', padding: '0', minWidth: '0' });
    number.input.addEventListener('blur', () => {
      number.input.value = grouped(number.input.value);
    });
    for (const { input, error } of [number, expiry, cvc]) {
      input.addEventListener('input', () => {
        error.textContent = '';
        input.removeAttribute('aria-invalid');
        changed();
      });
    }
    return group;
  }

  function showProblems(fields, problems) {
    for (const [i, { input, error }] of fields.entries()) {
      error.textContent = problems[i];
      if (problems[i]) input.setAttribute('aria-invalid', 'true');
      else input.removeAttribute('aria-invalid');
    }
  }

  /** Listeners by type; those for types that never happen here are kept and never called. */
  function createListeners() {
    const listeners = new Map();
    const of = (type) => listeners.get(type) ?? [];
    return {
      on: (type, listener) => listeners.set(type, [...of(type), listener]),
      off: (type, listener) =>
        listeners.set(
          type,
          of(type).filter((other) => other !== listener),
        ),
      emit: (type, detail) => {
        for (const listener of of(type)) listener(detail);
      },
    };
  }

  function createPaymentElement() {
    const fields = createFields();
    const inOrder = [fields.number, fields.expiry, fields.cvc];
    const listeners = createListeners();
    let root = null;

    const problems = () => [
      numberProblem(fields.number.input.value),
      expiryProblem(fields.expiry.input.value),
      cvcProblem(fields.cvc.input.value),
    ];
    const changed = () =>
      listeners.emit('change', {
        elementType: 'payment',
        empty: inOrder.every(({ input }) => input.value === ''),
        complete: problems().every((problem) => problem === ''),
        collapsed: false,
        value: { type: 'card' },
      });
    const filledIn = () => {
      showProblems(inOrder, ['', '', '']);
      changed();
    };

    const payment = {
      mount(target) {
        const parent = typeof target === 'string' ? document.querySelector(target) : target;
        if (!parent) throw new Error('The element to mount on was not found.');
        root ??= createForm(fields, filledIn, changed);
        parent.replaceChildren(root);
        queueMicrotask(() => listeners.emit('ready', { elementType: 'payment' }));
      },
      unmount: () => root?.remove(),
      destroy: () => root?.remove(),
      focus: () => fields.number.input.focus(),
      clear() {
        for (const { input } of inOrder) input.value = '';
        filledIn();
      },
      update() {},
      on(type, listener) {
        listeners.on(type, listener);
        return payment;
      },
      off(type, listener) {
        listeners.off(type, listener);
        return payment;
      },
    };

    /** The first problem, shown at its field, which is given the focus; null when there is none. */
    const check = () => {
      const found = problems();
      showProblems(inOrder, found);
      const first = found.findIndex((problem) => problem !== '');
      if (first < 0) return null;
      inOrder[first].input.focus();
      return found[first];
    };
    const card = () => {
      const [month, year] = fields.expiry.input.value.split('/').map((part) => part.trim());
      const number = digits(fields.number.input.value);
      return { number, exp_month: month, exp_year: year, cvc: fields.cvc.input.value.trim() };
    };
    return { payment, check, card };
  }

  function digits(text) {
    return text.replace(/[\s-]/g, '');
  }

  function grouped(text) {
    return digits(text).replace(/(.{4})(?=.)/g, '$1 ');
  }

  function numberProblem(text) {
    const number = digits(text);
    if (number === '') return 'Your card number is incomplete.';
    return /^\d{12,19}$/.test(number) ? '' : 'Your card number is invalid.';
  }

  function expiryProblem(text) {
    const match = /^\s*(\d{1,2})\s*\/\s*(\d{2}|\d{4})\s*$/.exec(text);
    if (!match) return "Your card's expiration date is incomplete (month / year).";
    const month = Number(match[1]);
    const year = Number(match[2]) < 100 ? 2000 + Number(match[2]) : Number(match[2]);
    if (month < 1 || month > 12) return "Your card's expiration month is invalid.";
    const today = new Date();
    const past = year * 12 + month < today.getFullYear() * 12 + today.getMonth() + 1;
    return past ? "Your card's expiration date is in the past." : '';
  }

  function cvcProblem(text) {
    return /^\d{3,4}$/.test(text.trim()) ? '' : "Your card's security code is incomplete.";
  }

  function createElements(options = {}) {
    const settings = { ...options };
    let form = null;
    return {
      create(type) {
        if (type !== 'payment') throw new Error(`The simulator has no element of type '${type}'.`);
        if (form) throw new Error("Can only create one Element of type 'payment'.");
        form = createPaymentElement();
        return form.payment;
      },
      getElement(type) {
        return type === 'payment' ? (form?.payment ?? null) : null;
      },
      update(changes) {
        Object.assign(settings, changes);
      },
      async submit() {
        const message = form ? form.check() : 'There is no payment element.';
        return message === null ? { selectedPaymentMethod: 'card' } : { error: invalid(message) };
      },
      /** Only for this script: the card as the buyer typed it. */
      card: () => form?.card() ?? null,
    };
  }

  function invalid(message) {
    return { type: 'validation_error', code: 'incomplete', message };
  }

  function encode(fields, prefix, into = new URLSearchParams()) {
    for (const [name, value] of Object.entries(fields)) {
      if (value === undefined || value === null) continue;
      const path = prefix ? `${prefix}[${name}]` : name;
      if (typeof value === 'object') encode(value, path, into);
      else into.append(path, String(value));
    }
    return into;
  }

  async function post(key, path, fields) {
    try {
      const response = await fetch(`${origin}${path}`, {
        method: 'POST',
        mode: 'cors',
        credentials: 'omit',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/x-www-form-urlencoded' },
        body: encode(fields).toString(),
      });
      const body = await response.json();
      return response.ok ? { made: body } : { error: body.error };
    } catch {
      return {
        error: { type: 'api_connection_error', message: 'The payment service cannot be reached. Try again.' },
      };
    }
  }

  window.Stripe = (publishableKey) => {
    if (typeof publishableKey !== 'string' || !publishableKey.startsWith('pk_')) {
      throw new Error('Stripe(): expected a publishable key, which starts with pk_.');
    }
    return {
      elements: createElements,
      async createConfirmationToken({ elements, params = {} }) {
        const card = elements.card();
        if (!card) return { error: invalid('There is no payment element.') };
        const details = params.payment_method_data?.billing_details;
        const { made, error } = await post(publishableKey, '/v1/confirmation_tokens', {
          payment_method_data: { type: 'card', card, billing_details: details },
          return_url: params.return_url,
        });
        return error ? { error } : { confirmationToken: made };
      },
      async createPaymentMethod({ elements, params = {} }) {
        const card = elements.card();
        if (!card) return { error: invalid('There is no payment element.') };
        const { made, error } = await post(publishableKey, '/v1/payment_methods', {
          type: 'card',
          card,
          billing_details: params.billing_details,
        });
        return error ? { error } : { paymentMethod: made };
      },
    };
  };
})();
