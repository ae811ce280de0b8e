import { checkNode } from './check-node.mjs';

// `npm test`: installs what is missing and runs everything; `npm test -- unit` or `-- seat-map` runs a part, without
// types, lint and build. With CI=true nothing may be missing or skipped.
checkNode();
const { ensureInstalled, runToExit } = await import('./prepare.mjs');
await runToExit(async () => {
  await ensureInstalled({ dev: true });
  const { runAllTests } = await import('./test-environment.mjs');
  return await runAllTests(process.argv.slice(2));
});
