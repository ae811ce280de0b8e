import { checkNode } from './check-node.mjs';

// `npm start`: installs, builds and runs, from a fresh clone on. `npm run start:redis` adds --redis.
checkNode();
const { ensureInstalled, ensurePages, runOnsale, runToExit } = await import('./prepare.mjs');
await runToExit(async () => {
  const given = process.argv.slice(2);
  await ensureInstalled({ dev: false });
  // An operator who names a Redis of their own wants no private one.
  if (given.includes('--redis') && !process.env.REDIS_URL?.trim()) {
    process.env.ONSALE_EMBEDDED_REDIS = 'yes';
    const { findOrInstall, redis } = await import('./programs.mjs');
    await findOrInstall(redis);
  }
  await ensurePages();
  return await runOnsale(['start', ...given.filter((argument) => argument !== '--redis')]);
});
