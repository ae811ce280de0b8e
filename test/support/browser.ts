import fs from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

/**
 * The browser of the browser tests: the one that scripts/test.mjs found or installed (ONSALE_TEST_CHROMIUM; an empty
 * text says that there is none), else Debian's.
 */
const executable = process.env.ONSALE_TEST_CHROMIUM ?? '/usr/bin/chromium';

/** For the `skip` of a test: why it cannot run here, or false. In CI a skipped test is a failure. */
export const withoutBrowser: string | false = fs.existsSync(executable) ? false : 'there is no Chromium here';

/** Close it in `after`. Root needs the sandbox off; the pages are our own. */
export async function openBrowser(): Promise<Browser> {
  return await chromium.launch({
    executablePath: executable,
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
}
