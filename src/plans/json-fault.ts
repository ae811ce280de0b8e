const token =
  /[ \t\r\n]+|[{}[\]:,]|"(?:[^"\\\p{Cc}]|\u007f|[\u0080-\u009f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/uy;

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
    token.lastIndex = at;
    const found = token.exec(text)?.[0];
    if (found === undefined) return line;
    at += found.length;
    if (/^\s/.test(found)) {
      line += found.split('\n').length - 1;
      continue;
    }
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
      if (!found.startsWith('"')) return line;
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
