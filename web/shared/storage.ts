/**
 * Facts that a browser keeps for one event, one key per fact, so that two tabs that write different facts never overwrite each
 * other. If storage is not available (private windows, full), the facts live as long as the page.
 */
export type Fact = 'place' | 'pass' | 'hold' | 'order' | 'code';

export interface Keep {
  read<T>(fact: Fact): T | null;
  write(fact: Fact, value: unknown): void;
  drop(fact: Fact): void;
  /** Another tab changed a fact. */
  onChange(listener: (fact: Fact) => void): () => void;
}

export function createKeep(event: string, area: Storage | null): Keep {
  const memory = new Map<string, string>();
  const name = (fact: Fact) => `onsale.${event}.${fact}`;
  const get = (key: string): string | null => {
    try {
      return area?.getItem(key) ?? memory.get(key) ?? null;
    } catch {
      return memory.get(key) ?? null;
    }
  };
  return {
    read<T>(fact: Fact): T | null {
      try {
        const text = get(name(fact));
        return text === null ? null : (JSON.parse(text) as T);
      } catch {
        return null;
      }
    },
    write(fact, value) {
      const text = JSON.stringify(value);
      memory.set(name(fact), text);
      try {
        area?.setItem(name(fact), text);
      } catch {
        // Kept in memory.
      }
    },
    drop(fact) {
      memory.delete(name(fact));
      try {
        area?.removeItem(name(fact));
      } catch {
        // Nothing was kept.
      }
    },
    onChange(listener) {
      const handle = (change: StorageEvent) => {
        const facts = ['place', 'pass', 'hold', 'order', 'code'] as const;
        const fact = facts.find((one) => name(one) === change.key);
        if (!fact) return;
        memory.delete(name(fact));
        listener(fact);
      };
      window.addEventListener('storage', handle);
      return () => window.removeEventListener('storage', handle);
    },
  };
}

export function storageArea(kind: 'local' | 'session'): Storage | null {
  try {
    return kind === 'local' ? window.localStorage : window.sessionStorage;
  } catch {
    return null;
  }
}

/**
 * One Idempotency-Key per attempt: the same request in the same tab, asked again after a reload or a lost answer, carries
 * the same key until an answer has settled it.
 */
export interface Attempts {
  key(act: string, request: unknown): string;
  settled(act: string): void;
}

export function createAttempts(area: Storage | null, newKey: () => string): Attempts {
  const memory = new Map<string, string>();
  const name = (act: string) => `onsale.attempt.${act}`;
  return {
    key(act, request) {
      const body = JSON.stringify(request);
      const kept = read(area, memory, name(act));
      if (kept?.body === body) return kept.key;
      const key = newKey();
      const text = JSON.stringify({ key, body });
      memory.set(name(act), text);
      try {
        area?.setItem(name(act), text);
      } catch {
        // Kept in memory.
      }
      return key;
    },
    settled(act) {
      memory.delete(name(act));
      try {
        area?.removeItem(name(act));
      } catch {
        // Nothing was kept.
      }
    },
  };
}

function read(
  area: Storage | null,
  memory: Map<string, string>,
  key: string,
): { key: string; body: string } | null {
  try {
    const text = area?.getItem(key) ?? memory.get(key);
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

/** A v4 UUID also where the page is not served over https (crypto.randomUUID needs a secure context). */
export function newKey(): string {
  if (typeof crypto.randomUUID === 'function') return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = [...bytes].map((b) => b.toString(16).padStart(2, '0')).join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
