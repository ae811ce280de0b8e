import type { ManifestMapping } from './import-manifest.ts';

const fields = [
  'section',
  'row',
  'seat',
  'x',
  'y',
  'category',
  'group',
  'id',
  'attributes',
  'capacity',
] as const;

/**
 * Reads `section=zone,row=rowNumber,seat=colNumber`: which column of a manifest is what; several columns of one field are
 * joined with `+`. A column whose name has a comma or an equals sign cannot be named here: rename it in the file.
 */
export function parseMapping(
  text: string,
): { kind: 'ok'; mapping: ManifestMapping } | { kind: 'invalid'; sentence: string } {
  const mapping: ManifestMapping = {};
  for (const part of text.split(',')) {
    const at = part.indexOf('=');
    const field = part.slice(0, at).trim();
    const column = part.slice(at + 1).trim();
    if (at < 1 || column === '') {
      return { kind: 'invalid', sentence: `"${part.trim()}" is not of the form field=column.` };
    }
    if (!isField(field)) {
      return {
        kind: 'invalid',
        sentence: `"${field}" is no field of a plan; fields are ${fields.join(', ')}.`,
      };
    }
    if (mapping[field] !== undefined) return { kind: 'invalid', sentence: `"${field}" is mapped twice.` };
    mapping[field] = column;
  }
  return { kind: 'ok', mapping };
}

function isField(text: string): text is (typeof fields)[number] {
  return (fields as readonly string[]).includes(text);
}
