import { type Code, problemCodes } from '../core/problems.ts';

/** The page that the `type` URL of each problem links to. */
export function errorsPage(): string {
  const rows = Object.entries<Code>(problemCodes).map(
    ([code, { status, title, advice }]) =>
      `<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${title}</td><td>${advice}</td></tr>`,
  );
  return [
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Error codes</title><h1>Error codes</h1>',
    '<table><thead><tr><th>Code</th><th>Status</th><th>Title</th><th>What to do</th></tr></thead>',
    `<tbody>${rows.join('')}</tbody></table></html>`,
  ].join('');
}

/** docs/reference/errors.md; a test compares the file with this. */
export function errorsReference(): string {
  const rows = Object.entries<Code>(problemCodes).map(
    ([code, { status, title, advice }]) =>
      `| <a id="${code}"></a>\`${code}\` | ${status} | ${title} | ${advice} |`,
  );
  return [
    '# Error codes',
    '',
    'Errors are `application/problem+json` (RFC 9457): `type`, `title`, `status`, `code`, `detail`, where a field is at',
    'fault `field`, where waiting helps `retryAfterMs` and `Retry-After`. `code` is stable; `detail` is a sentence for',
    'people. Made from the table in `src/core/problems.ts` by `node --import tsx scripts/write-reference.ts`.',
    '',
    '| code | status | title | what to do |',
    '|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}
