import http from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Received {
  /** Id of the delivery, as its header says. */
  delivery: string;
  attempt: number;
  signature: string;
  body: string;
  path: string;
}

export interface Receiver {
  url: string;
  received: Received[];
  /** Requests that were not answered yet, and the most that there were at once. */
  open: number;
  openMost: number;
  /** How the next ones are answered; 200 at first. */
  answer: (response: http.ServerResponse, received: Received) => void;
}

type Context = { after(run: () => Promise<void>): void };

/** A receiver of webhooks on an address of its own machine (127.0.0.1 unless told otherwise). */
export async function startReceiver(
  t: Context,
  options: { host?: string; port?: number } = {},
): Promise<Receiver> {
  const { host = '127.0.0.1', port = 0 } = options;
  const receiver: Receiver = {
    url: '',
    received: [],
    open: 0,
    openMost: 0,
    answer: (response) => response.writeHead(200).end(),
  };
  const server = http.createServer((request, response) => {
    receiver.open += 1;
    receiver.openMost = Math.max(receiver.openMost, receiver.open);
    response.on('close', () => {
      receiver.open -= 1;
    });
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const received: Received = {
        delivery: String(request.headers['onsale-delivery']),
        attempt: Number(request.headers['onsale-attempt']),
        signature: String(request.headers['onsale-signature']),
        body: Buffer.concat(chunks).toString('utf8'),
        path: request.url ?? '',
      };
      receiver.received.push(received);
      receiver.answer(response, received);
    });
  });
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  receiver.url = `http://${host}:${(server.address() as AddressInfo).port}`;
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return receiver;
}
