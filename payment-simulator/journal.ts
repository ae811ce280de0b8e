import { createReadStream } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Append-only file of JSON lines. An append resolves once its line is on disk (written and synced); lines that arrive
 * while a sync runs share the next one. A line that a crash cut short was never acknowledged and is removed at start.
 */
export interface Journal<T> {
  append(record: T): Promise<void>;
  /** Resolves when everything appended so far is on disk. */
  settled(): Promise<void>;
  close(): Promise<void>;
}

export async function openJournal<T>(path: string, onRecord: (record: T) => void): Promise<Journal<T>> {
  await mkdir(dirname(path), { recursive: true });
  const file = await open(path, 'a+', 0o600);
  const { size } = await file.stat();
  const sound = await replay(path, size, onRecord).catch(async (cause) => {
    await file.close();
    throw cause;
  });
  if (sound < size) await file.truncate(sound);
  await file.sync();
  await syncDirectory(dirname(path));

  let waiting: string[] = [];
  let flushing: Promise<void> | null = null;

  const flush = async (): Promise<void> => {
    while (waiting.length > 0) {
      const lines = waiting;
      waiting = [];
      await file.appendFile(lines.join(''));
      await file.datasync();
    }
  };
  // A failed write leaves `flushing` rejected for ever: an oracle that lost a line must not go on answering.
  const settled = (): Promise<void> => {
    if (flushing) return flushing.then(() => settledTail());
    return settledTail();
  };
  const settledTail = (): Promise<void> => {
    if (waiting.length === 0) return Promise.resolve();
    flushing = flush().then(() => {
      flushing = null;
    });
    return flushing;
  };

  return {
    append: (record) => {
      waiting.push(`${JSON.stringify(record)}\n`);
      return settled();
    },
    settled,
    close: async () => {
      await settled();
      await file.close();
    },
  };
}

/** The file's name is on disk only once its directory is. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/**
 * Feeds each whole line to `onRecord`. Returns how many bytes of the file are sound. Lines end only at line feeds: JSON may
 * contain the other characters that text readers treat as line ends.
 */
async function replay<T>(path: string, size: number, onRecord: (record: T) => void): Promise<number> {
  let sound = 0;
  for await (const line of wholeLines(path)) {
    const end = sound + line.length + 1;
    const record = parse<T>(line.toString('utf8'));
    if (record === undefined) {
      if (end < size) throw new Error(`${path}: broken line at byte ${sound}, followed by others`);
      break;
    }
    onRecord(record);
    sound = end;
  }
  return sound;
}

/**
 * Yields each line without its line feed. What follows the last line feed was cut short and is left out, even
 * if it happens to parse.
 */
async function* wholeLines(path: string): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    let from = 0;
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
      yield Buffer.concat([...parts, chunk.subarray(from, at)]);
      parts = [];
      from = at + 1;
    }
    if (from < chunk.length) parts.push(chunk.subarray(from));
  }
}

const LINE_FEED = 0x0a;

function parse<T>(line: string): T | undefined {
  try {
    return JSON.parse(line) as T;
  } catch {
    return undefined;
  }
}
