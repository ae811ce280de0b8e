/** Stripe's request bodies: form fields whose names nest by brackets, `card[number]=…`, `expand[]=…`, `expand[0]=…`. */
export type FormValue = string | FormTree;
export interface FormTree {
  [name: string]: FormValue;
}

const MAX_DEPTH = 8;

/** Null when a name is malformed or used both as a value and as a tree. */
export function parseForm(text: string): FormTree | null {
  const root = emptyTree();
  for (const [name, value] of new URLSearchParams(text)) {
    const path = splitName(name);
    if (path === null || !assign(root, path, value)) return null;
  }
  return root;
}

function emptyTree(): FormTree {
  // No prototype: a field named `__proto__` is an ordinary field.
  return Object.create(null) as FormTree;
}

function splitName(name: string): string[] | null {
  const match = /^([^[\]]+)((?:\[[^[\]]*\])*)$/.exec(name);
  if (!match) return null;
  const inner = [...(match[2] ?? '').matchAll(/\[([^[\]]*)\]/g)].map((part) => part[1] ?? '');
  return inner.length < MAX_DEPTH ? [match[1] ?? '', ...inner] : null;
}

function assign(root: FormTree, path: string[], value: string): boolean {
  let node = root;
  for (const [depth, part] of path.entries()) {
    const name = part === '' ? String(Object.keys(node).length) : part;
    if (depth === path.length - 1) {
      if (typeof node[name] === 'object') return false;
      node[name] = value;
      return true;
    }
    const next = node[name] ?? emptyTree();
    if (typeof next === 'string') return false;
    node[name] = next;
    node = next;
  }
  return false;
}

export function text(tree: FormTree, name: string): string | undefined {
  const value = tree[name];
  return typeof value === 'string' ? value : undefined;
}

export function subtree(tree: FormTree, name: string): FormTree | undefined {
  const value = tree[name];
  return typeof value === 'object' ? value : undefined;
}

/** The texts of a list, or of a single value. */
export function list(tree: FormTree, name: string): string[] {
  const value = tree[name];
  if (value === undefined) return [];
  if (typeof value === 'string') return [value];
  return Object.values(value).filter((item): item is string => typeof item === 'string');
}

/** The flat texts of a tree such as `metadata`. */
export function texts(tree: FormTree | undefined): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, value] of Object.entries(tree ?? {})) if (typeof value === 'string') found[name] = value;
  return found;
}
