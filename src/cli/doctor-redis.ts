import type { Runtime } from '../app/runtime.ts';
import { inspectRedis, type RedisInspection } from '../redis/inspect.ts';
import { runningRedis } from '../redis/server.ts';
import { type Config, defaultRedis } from '../runtime/config.ts';
import type { Finding } from './doctor-finding.ts';

const versionMin = [6, 2] as const;
const skewMsMax = 500;

/** Each configured Redis, and the private one where it runs. Redis is never needed: what is wrong here costs speed. */
export async function examineRedis(config: Config, runtime: Runtime): Promise<Finding[]> {
  const servers = [...config.redis.servers];
  const own = await runningRedis(config.redis.dataDir);
  if (own && !servers.some(({ name }) => name === defaultRedis))
    servers.push({ name: defaultRedis, url: own.url });
  if (servers.length === 0) {
    const detail = config.redis.embedded
      ? 'The private one runs with the engine only.'
      : 'None: Postgres arbitrates.';
    return [{ check: 'redis', state: 'ok', detail }];
  }
  const found = await Promise.all(servers.map((server) => examineServer(server, runtime)));
  return found.flat();
}

async function examineServer(server: { name: string; url: string }, runtime: Runtime): Promise<Finding[]> {
  const check = `redis ${server.name}`;
  try {
    return (await inspectRedis(server.url, runtime)).flatMap((seen) => findingsOf(check, seen));
  } catch (error) {
    return [
      {
        check,
        state: 'wrong',
        detail: `It cannot be asked: ${(error as Error).message}`,
        remedy:
          'Check its address, its password and that it runs. Until then Postgres arbitrates its partitions.',
      },
    ];
  }
}

function findingsOf(check: string, seen: RedisInspection): Finding[] {
  const { address, version, skewMs, evictionPolicy: policy } = seen;
  const wrong = (detail: string, remedy: string): Finding => ({
    check,
    state: 'wrong',
    detail: `${address}: ${detail}`,
    remedy,
  });
  const findings: Finding[] = [];
  if (!isRecent(version)) findings.push(wrong(`version ${version}`, 'Use Redis 6.2 or later, or a Valkey.'));
  if (!seen.primary) findings.push(wrong('a replica', 'Name its primary: a replica refuses every claim.'));
  if (policy !== null && policy !== 'noeviction') {
    findings.push(
      wrong(
        `maxmemory-policy ${policy}`,
        'Set it to noeviction: whatever is evicted would free seats that are held.',
      ),
    );
  }
  if (Math.abs(skewMs) > skewMsMax) {
    findings.push(
      wrong(
        `its clock is ${Math.abs(skewMs)} ms ${skewMs > 0 ? 'ahead' : 'behind'}`,
        'Run an NTP client on both machines: a Redis whose clock is off is not trusted.',
      ),
    );
  }
  if (seen.clusterState !== null && seen.clusterState !== 'ok')
    findings.push(
      wrong(`the cluster's state is ${seen.clusterState}`, 'Mend the cluster: redis-cli --cluster check.'),
    );
  if (findings.length === 0) {
    const kind = seen.clusterState === null ? '' : ', a primary of a cluster';
    findings.push({
      check,
      state: 'ok',
      detail: `${address}: version ${version}${kind}, ${skewMs} ms off our clock`,
    });
  }
  if (policy === null) {
    findings.push({
      check,
      state: 'note',
      detail: `${address} does not tell its settings`,
      remedy: 'Make sure of maxmemory-policy noeviction.',
    });
  }
  if (seen.saves) {
    findings.push({
      check,
      state: 'note',
      detail: `${address} saves its memory, which is not relied on: after a restart it is rebuilt from Postgres.`,
    });
  }
  return findings;
}

function isRecent(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > versionMin[0] || (major === versionMin[0] && minor >= versionMin[1]);
}
