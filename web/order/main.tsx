import { render } from 'preact';
import { OrderPage } from './order.tsx';

/** `/orders/{order}#{secret}`: the part after # never reaches a server on its own. */
const orderId = decodeURIComponent(location.pathname.split('/')[2] ?? '');
const secret = location.hash.length > 1 ? decodeURIComponent(location.hash.slice(1)) : null;
// Removes the parameters that the bank's return added, so that they are not copied with the link.
if (location.search) history.replaceState(null, '', location.pathname + location.hash);
render(<OrderPage orderId={orderId} secret={secret} />, document.getElementById('app')!);
