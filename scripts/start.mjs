import { checkNode } from './check-node.mjs';

// `npm start`: installs, builds and runs, from a fresh clone on. `npm run start:redis` adds --redis.
checkNode();
const { ensureInstalled, ensurePages, runOnsale, runToExit } = await import('./prepare.mjs');
await runToExit(async () => {
  const given = process.argv.slice(2);
  // Whoever names a Redis of their own wants no private one beside it.
  if (given.includes('--redis') && !process.env.REDIS_URL?.trim()) process.env.ONSALE_EMBEDDED_REDIS = 'yes';
  await ensureInstalled({ dev: false });
  await ensurePages();
  return await runOnsale(['start', ...given.filter((argument) => argument !== '--redis')]);
});
