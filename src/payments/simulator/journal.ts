import { createReadStream } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';

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
  if (sound < size) {
    await file.truncate(sound);
    await file.sync();
  }

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

/** Feeds each whole line to `onRecord`; answers how many bytes of the file are sound. */
async function replay<T>(path: string, size: number, onRecord: (record: T) => void): Promise<number> {
  const lines = createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY });
  let sound = 0;
  for await (const line of lines) {
    const end = sound + Buffer.byteLength(line) + 1;
    // Without its newline the last line was cut short, even where it happens to parse.
    if (end > size) break;
    const record = parse<T>(line);
    if (record === undefined) {
      if (end < size) throw new Error(`${path}: broken line at byte ${sound}, followed by others`);
      break;
    }
    onRecord(record);
    sound = end;
  }
  return sound;
}

function parse<T>(line: string): T | undefined {
  try {
    return JSON.parse(line) as T;
  } catch {
    return undefined;
  }
}
