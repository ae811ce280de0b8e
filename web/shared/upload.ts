import { type Answer, answerOf } from './api.ts';

export interface UploadProgress {
  step: 'uploading' | 'waiting' | 'reading' | 'checking' | 'storing';
  /** Percentage of the file that has been sent. */
  percent: number;
}

const timeoutMs = 10 * 60_000;

/**
 * Sends a file and reports progress: how much is sent, then the step that the server names. `fetch` cannot say how much was
 * sent, so this is an XMLHttpRequest. The answer comes as JSON lines, the outcome in the last one.
 */
export function upload<T>(
  path: string,
  file: Blob,
  onProgress: (progress: UploadProgress) => void,
): Promise<Answer<T>> {
  const request = new XMLHttpRequest();
  request.open('POST', path);
  request.timeout = timeoutMs;
  request.setRequestHeader('accept', 'application/x-ndjson, application/json');
  request.setRequestHeader('content-type', 'application/octet-stream');
  request.upload.onprogress = ({ loaded, total }) => {
    const percent = total > 0 ? Math.floor((loaded / total) * 100) : 0;
    onProgress(percent < 100 ? { step: 'uploading', percent } : { step: 'waiting', percent });
  };
  request.onprogress = () => {
    const { step } = lastLine(request.responseText) ?? {};
    if (step) onProgress({ step, percent: 100 });
  };
  return new Promise((resolve) => {
    request.onload = () => {
      const last = lastLine(request.responseText) as { status?: number; body?: unknown } | null;
      // A refusal before the work began comes as it is everywhere else: one JSON object with its own status.
      const isPlain = !request.getResponseHeader('content-type')?.includes('ndjson');
      if (!last) resolve({ kind: 'lost' });
      else if (isPlain) resolve(answerOf<T>(request.status, last));
      else if (last.status === undefined) resolve({ kind: 'lost' });
      else resolve(answerOf<T>(last.status, last.body));
    };
    request.onerror = () => resolve({ kind: 'lost' });
    request.ontimeout = () => resolve({ kind: 'lost' });
    request.send(file);
  });
}

/** Null while the line is cut. */
function lastLine(text: string): { step?: UploadProgress['step'] } | null {
  try {
    return JSON.parse(text.trimEnd().split('\n').at(-1) ?? '');
  } catch {
    return null;
  }
}
