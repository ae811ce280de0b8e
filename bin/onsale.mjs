#!/usr/bin/env node
import { checkNode } from '../scripts/check-node.mjs';

// `npx onsale …`: the command line alone; `npm start` is what installs and builds.
checkNode();
const { SetupProblem, isInstalled, runOnsale, runToExit } = await import('../scripts/prepare.mjs');
await runToExit(async () => {
  if (!isInstalled({ dev: false }))
    throw new SetupProblem('Dependencies are missing or out of date: run npm ci first.');
  return await runOnsale(process.argv.slice(2));
});
