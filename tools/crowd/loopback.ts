import net from 'node:net';

/** Buyers that share an address: a household. */
const householdMax = 4;
/** Each address has connections of its own. */
const addressesMax = 500;
const perBlock = 250;

/**
 * Addresses of this machine for `buyers` browsers, so that bounds by address see households and not one client. Empty if the sale
 * is not on 127.0.0.1, or if the system (macOS) has no further loopback addresses: then all buyers share one.
 */
export async function householdsOf(url: string, buyers: number): Promise<string[]> {
  const { hostname } = new URL(url);
  if (!/^(127(\.\d{1,3}){3}|localhost)$/.test(hostname)) return [];
  const count = Math.min(addressesMax, Math.ceil(buyers / householdMax));
  const addresses = Array.from(
    { length: count },
    (_, i) => `127.1.${1 + Math.floor(i / perBlock)}.${1 + (i % perBlock)}`,
  );
  return (await canBind(addresses[0]!)) ? addresses : [];
}

function canBind(host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.once('error', () => resolve(false));
    server.listen({ host, port: 0, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
