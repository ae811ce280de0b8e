import type { OrderAnswer } from '../../src/http/api-types.ts';
import { persist } from '../shared/api.ts';
import { type Buyer, isBought, isEnded, setOrder } from './session.ts';

/** An order known by id only: taken up where it stands, or left aside when it is bought or over. */
export async function recallOrder(buyer: Buyer, id: string): Promise<void> {
  const kept = buyer.keep.read<{ order: string; secret: string | null }>('order');
  const secret = kept?.order === id ? kept.secret : null;
  const answer = await persist<OrderAnswer>(
    `/api/orders/${encodeURIComponent(id)}`,
    { secret },
    { triesMax: 5 },
  );
  if (answer.kind !== 'ok') {
    if (answer.kind === 'problem' && answer.problem.status === 404) setOrder(buyer, null);
    return;
  }
  const order = answer.body;
  buyer.keep.drop('hold');
  if (isBought(order)) buyer.store.set({ hold: null, order: null, bought: { order: id, secret } });
  else if (isEnded(order)) {
    setOrder(buyer, null);
    buyer.store.set({ hold: null });
  } else {
    buyer.store.set({ hold: null });
    setOrder(buyer, order);
  }
}

export async function closeOrder(buyer: Buyer): Promise<void> {
  const { store } = buyer;
  const { order, busy } = store.get();
  if (!order || busy) return;
  store.set({ busy: 'close', problem: null });
  const answer = await persist<unknown>(
    `/api/orders/${encodeURIComponent(order.order)}`,
    { method: 'DELETE' },
    { onTrouble: buyer.trouble },
  );
  store.set({ busy: null, trouble: 0 });
  if (answer.kind === 'ok' || (answer.kind === 'problem' && answer.problem.code === 'order_ended')) {
    setOrder(buyer, null);
    // 202: the bank's reservation is still being lifted.
    const lifting = answer.kind === 'ok' && answer.status === 202;
    store.set({ notice: lifting ? 'order_cancelling' : 'order_cancelled', payment: 'idle' });
  } else if (answer.kind === 'problem') store.set({ problem: answer.problem });
}
