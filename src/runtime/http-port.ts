import net from 'node:net';

const firstPort = 3_000;
const portsTried = 100;

/** The port asked for; without one the first that is free from 3000 on; 0: any free one. */
export async function freeHttpPort(host: string, wanted: number | undefined): Promise<number> {
  if (wanted) return wanted;
  if (wanted === undefined) {
    for (let port = firstPort; port < firstPort + portsTried; port++) {
      if ((await tryPort(host, port)) !== null) return port;
    }
  }
  const port = await tryPort(host, 0);
  if (port === null) throw new Error(`no port is free on ${host}`);
  return port;
}

function tryPort(host: string, port: number): Promise<number | null> {
  return new Promise((resolve) => {
    const probe = net.createServer();
    probe.once('error', () => resolve(null));
    probe.listen(port, host, () => {
      const address = probe.address() as net.AddressInfo;
      probe.close(() => resolve(address.port));
    });
  });
}
