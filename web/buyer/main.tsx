import { render } from 'preact';
import { takeAccount } from './account.ts';
import { App } from './app.tsx';
import { createBuyer } from './session.ts';

/** `/events/{event}` */
const eventId = decodeURIComponent(location.pathname.split('/')[2] ?? '');
takeAccount(eventId);
render(<App buyer={createBuyer(eventId)} />, document.getElementById('app')!);
