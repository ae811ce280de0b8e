const plainToken = /[{}[\]:,]|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/**
 * The line, from 1, on which a text stops being JSON. The parser of the floor version of Node does not say where it
 * stopped; this walks the tokens again, only after it has failed.
 */
export function lineOfJsonFault(text: string): number {
  const open: ('{' | '[')[] = [];
  // What may come next: a value, a key, a colon, or what follows a finished value.
  let want: 'value' | 'first' | 'key' | 'firstKey' | 'colon' | 'after' = 'value';
  let at = 0;
  let line = 1;
  while (at < text.length) {
    const c = text[at]!;
    if (c === ' ' || c === '\t' || c === '\r' || c === '\n') {
      if (c === '\n') line += 1;
      at += 1;
      continue;
    }
    const end = c === '"' ? endOfText(text, at) : endOfPlainToken(text, at);
    if (end < 0) return line;
    const found = c === '"' ? c : text.slice(at, end);
    at = end;
    const closes = found === '}' || found === ']';
    if (closes) {
      const fits =
        want === 'after' || (want === 'first' && found === ']') || (want === 'firstKey' && found === '}');
      if (!fits || open.pop() !== (found === '}' ? '{' : '[')) return line;
      want = 'after';
    } else if (want === 'value' || want === 'first') {
      if (found === ':' || found === ',') return line;
      if (found === '{' || found === '[') open.push(found);
      want = found === '{' ? 'firstKey' : found === '[' ? 'first' : 'after';
    } else if (want === 'key' || want === 'firstKey') {
      if (found !== '"') return line;
      want = 'colon';
    } else if (want === 'colon') {
      if (found !== ':') return line;
      want = 'value';
    } else {
      if (found !== ',' || open.length === 0) return line;
      want = open.at(-1) === '{' ? 'key' : 'value';
    }
  }
  return line;
}

function endOfPlainToken(text: string, at: number): number {
  plainToken.lastIndex = at;
  return plainToken.test(text) ? plainToken.lastIndex : -1;
}

/** Behind the closing quote; -1 when the text holds what JSON forbids. A loop, because texts may be of any length. */
function endOfText(text: string, at: number): number {
  for (let i = at + 1; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 0x22) return i + 1;
    if (c < 0x20) return -1;
    if (c !== 0x5c) continue;
    const escaped = text[i + 1] ?? '';
    if (escaped === 'u' && /^[0-9a-fA-F]{4}$/.test(text.slice(i + 2, i + 6))) i += 5;
    else if (escaped !== '' && '"\\/bfnrt'.includes(escaped)) i += 1;
    else return -1;
  }
  return -1;
}
