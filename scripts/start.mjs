import { checkNode } from './check-node.mjs';

// `npm start`: installs, builds and runs, from a fresh clone on.
checkNode();
const { ensureInstalled, ensurePages, runOnsale, runToExit } = await import('./prepare.mjs');
await runToExit(async () => {
  await ensureInstalled({ dev: false });
  await ensurePages();
  return await runOnsale(['start', ...process.argv.slice(2)]);
});
