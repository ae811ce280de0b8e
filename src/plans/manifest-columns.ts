import { type Findings, quoted } from './findings.ts';
import { comparable } from './labels.ts';

const targets = [
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
export type ManifestTarget = (typeof targets)[number];

/**
 * The column of each part; several columns joined with `+` (`section=tribune+sector`). An empty value means that there is none
 * and that it is not guessed.
 */
export type ManifestMapping = Partial<Record<ManifestTarget, string>>;

/** Column indices per target; an empty list means that the file has none. */
export type ManifestColumns = Record<ManifestTarget, number[]>;

/** Header names met in real manifests, most telling first, compared without case, spaces, `_` and `-`. */
const usualNames: Record<ManifestTarget, string[]> = {
  section: [
    'section',
    'sectionname',
    'block',
    'sector',
    'sektor',
    'zone',
    'area',
    'sec',
    'bereich',
    'bloc',
    'bloque',
    'blok',
    'сектор',
    'блок',
    '區域',
    '区域',
  ],
  row: [
    'row',
    'rowname',
    'rownumber',
    'rowlabel',
    'reihe',
    'ряд',
    'fila',
    'rij',
    'rangée',
    'rangee',
    'rad',
    'rząd',
    'řada',
    '排',
  ],
  seat: [
    'seat',
    'seatnumber',
    'seatno',
    'seatlabel',
    'seatname',
    'colnumber',
    'platz',
    'sitz',
    'sitzplatz',
    'sitznummer',
    'sitznr',
    'platznummer',
    'platznr',
    'место',
    'місце',
    'asiento',
    'stoel',
    'siège',
    'sedadlo',
    'miejsce',
    '座位',
    '號',
    'number',
  ],
  x: ['x', 'posx', 'xposition', 'positionx', 'xcoord'],
  y: ['y', 'posy', 'yposition', 'positiony', 'ycoord'],
  category: [
    'category',
    'pricelevel',
    'pricecategory',
    'pricezone',
    'kategorie',
    'preiskategorie',
    'категория',
    'категорія',
    'catégorie',
    'categoría',
  ],
  group: [
    'group',
    'stand',
    'tribune',
    'tribüne',
    'level',
    'tier',
    'floor',
    'ebene',
    'rang',
    'трибуна',
    'этаж',
  ],
  id: ['id', 'seatid', 'guid', 'seatguid', 'externalid', 'uuid', 'key'],
  attributes: ['attributes', 'seattype', 'accessibility', 'flags'],
  capacity: ['capacity', 'kapazität', 'capacité', 'aforo', 'вместимость'],
};

function plain(header: string): string {
  return comparable(header)
    .toLowerCase()
    .replace(/[\s_\-.]+/g, '');
}

/** Decides the meaning of each column. Returns null after reporting what is needed, with the headers that were found. */
export function chooseColumns(
  headers: readonly string[],
  mapping: ManifestMapping,
  findings: Findings,
): ManifestColumns | null {
  const shown = headers.slice(0, 40).map((header) => quoted(header));
  const found = `The columns found are ${shown.join(', ')}${headers.length > 40 ? ', …' : ''}`;
  const columns = Object.fromEntries(targets.map((target) => [target, []])) as unknown as ManifestColumns;
  for (const [target, value] of Object.entries(mapping)) {
    if (!targets.includes(target as ManifestTarget)) {
      findings.refuse(
        'unknown_target',
        `${quoted(target)} cannot be mapped; known are ${targets.join(', ')}.`,
        'mapping',
      );
      continue;
    }
    if (typeof value !== 'string' || value === '') continue;
    columns[target as ManifestTarget] = namedColumns(value, headers, found, findings);
  }
  if (findings.problemCount() > 0) return null;
  guessRest(columns, headers, mapping);
  // In a file with stands and without sections, the stands are its sections.
  if (columns.section.length === 0 && columns.group.length > 0 && mapping.group === undefined) {
    columns.section = columns.group;
    columns.group = [];
  }
  const lacking = columns.section.length === 0 ? ['section'] : [];
  if (columns.seat.length === 0 && columns.capacity.length === 0) lacking.push('seat');
  if (columns.x.length !== columns.y.length) lacking.push(columns.x.length === 0 ? 'x' : 'y');
  if (lacking.length === 0) return columns;
  findings.refuse(
    'mapping_needed',
    `Say which column is the ${lacking.join(' and the ')}, for example section=…,row=…,seat=…. ${found}.`,
    'line 1',
  );
  return null;
}

function namedColumns(
  value: string,
  headers: readonly string[],
  found: string,
  findings: Findings,
): number[] {
  const names = headers.some((header) => comparable(header) === comparable(value))
    ? [value]
    : value.split('+');
  return names.flatMap((name) => {
    const exact = indicesOf(headers, (header) => comparable(header) === comparable(name.trim()));
    const loose = exact.length > 0 ? exact : indicesOf(headers, (header) => plain(header) === plain(name));
    if (loose.length === 1) return loose;
    if (loose.length === 0)
      findings.refuse('unknown_column', `There is no column ${quoted(name)}. ${found}.`, 'line 1');
    else
      findings.refuse(
        'ambiguous_column',
        `The column ${quoted(name)} stands ${loose.length} times; rename all but one.`,
        'line 1',
      );
    return [];
  });
}

function guessRest(columns: ManifestColumns, headers: readonly string[], mapping: ManifestMapping): void {
  const used = new Set(Object.values(columns).flat());
  const plainHeaders = headers.map(plain);
  for (const target of targets) {
    if (mapping[target] !== undefined) continue;
    for (const name of usualNames[target]) {
      const at = plainHeaders.indexOf(name);
      if (at < 0 || used.has(at)) continue;
      columns[target] = [at];
      used.add(at);
      break;
    }
  }
  // Positions come in pairs or not at all when they are only guessed.
  if (columns.x.length !== columns.y.length && mapping.x === undefined && mapping.y === undefined) {
    columns.x = [];
    columns.y = [];
  }
}

function indicesOf(headers: readonly string[], fits: (header: string) => boolean): number[] {
  return headers.flatMap((header, i) => (fits(header) ? [i] : []));
}
