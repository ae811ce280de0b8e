import { type Point, rounded } from './plan-geometry.ts';
import type { PlanDecoration } from './seat-map.ts';

/** A section that has a shape of its own but no place yet: `width` along its rows, `depth` from the front row back. */
export interface LooseBlock {
  name: string;
  group: string;
  width: number;
  depth: number;
}

/** Where a block goes: the middle of its front edge, and which way its back points. */
export interface BlockPlace {
  x: number;
  y: number;
  back: 'down' | 'up' | 'left' | 'right';
}

export interface Arrangement {
  places: BlockPlace[];
  decorations: PlanDecoration[];
  width: number;
  height: number;
}

/** Plan units between blocks, between lines of blocks, and around the whole. */
const blockGap = 50;
const lineGap = 90;
const margin = 120;

/**
 * A drawing for a venue of which only names are known. Stands named after compass points go around a pitch; anything else
 * becomes lines of blocks, group below group. No two blocks overlap.
 */
export function arrangeBlocks(blocks: readonly LooseBlock[]): Arrangement {
  const sides = blocks.map((block) => sideOf(block.group) ?? sideOf(block.name));
  const named = sides.filter((side) => side !== null);
  const around = named.length === blocks.length && new Set(named).size >= 2;
  return around ? aroundPitch(blocks, sides as Side[]) : inBands(blocks);
}

/** Turns a point of a block (u along the row from its middle, v from the front row back) into the plan's coordinates. */
export function placePoint(place: BlockPlace, u: number, v: number): Point {
  switch (place.back) {
    case 'down':
      return [place.x + u, place.y + v];
    case 'up':
      return [place.x - u, place.y - v];
    case 'left':
      return [place.x - v, place.y + u];
    case 'right':
      return [place.x + v, place.y - u];
  }
}

type Side = 'north' | 'south' | 'west' | 'east';

const sideWords: Record<Side, string[]> = {
  north: ['north', 'nord', 'norte', 'północna', 'sever', 'північ', 'северная', 'север', '北'],
  south: ['south', 'süd', 'sud', 'sur', 'południowa', 'jih', 'південь', 'південна', 'южная', 'юг', '南'],
  west: ['west', 'ouest', 'oeste', 'zachodnia', 'západ', 'захід', 'західна', 'западная', 'запад', '西'],
  east: [
    'east',
    'ost',
    'est',
    'este',
    'wschodnia',
    'východ',
    'схід',
    'східна',
    'восточная',
    'восток',
    '東',
    '东',
  ],
};

function sideOf(name: string): Side | null {
  const words = name
    .normalize('NFC')
    .toLowerCase()
    .split(/[^\p{L}]+/u);
  for (const side of Object.keys(sideWords) as Side[]) {
    for (const known of sideWords[side]) {
      const fits = (word: string) =>
        known.length === 1 || known.length >= 5 || known === 'west'
          ? word.startsWith(known)
          : word === known || word === `${known}tribüne`;
      if (words.some(fits)) return side;
    }
  }
  return null;
}

interface Line {
  members: number[];
  width: number;
  depth: number;
}

/** Breaks a run of blocks into lines of about equal width, none much wider than `wanted`. */
function linesOf(blocks: readonly LooseBlock[], members: readonly number[], wanted: number): Line[] {
  const total = members.reduce((sum, i) => sum + blocks[i]!.width + blockGap, 0);
  const target = total / Math.max(1, Math.ceil(total / wanted));
  const lines: Line[] = [];
  for (const i of members) {
    const { width, depth } = blocks[i]!;
    const line = lines.at(-1);
    if (line && line.width + blockGap + width / 2 <= target) {
      line.members.push(i);
      line.width += blockGap + width;
      line.depth = Math.max(line.depth, depth);
    } else lines.push({ members: [i], width, depth });
  }
  return lines;
}

function widest(lines: readonly Line[]): number {
  return lines.reduce((most, line) => Math.max(most, line.width), 0);
}

function aroundPitch(blocks: readonly LooseBlock[], sides: readonly Side[]): Arrangement {
  const ground = blocks.reduce((sum, block) => sum + (block.width + blockGap) * (block.depth + lineGap), 0);
  const on = (side: Side, share: number): Line[] =>
    linesOf(
      blocks,
      blocks.flatMap((_, i) => (sides[i] === side ? [i] : [])),
      Math.sqrt(ground) * share,
    );
  // Two stands that face each other alone are made longer than sides of a whole ring.
  const hasEnds = sides.includes('west') || sides.includes('east');
  const hasSides = sides.includes('north') || sides.includes('south');
  const north = on('north', hasEnds ? 0.95 : 1.3);
  const south = on('south', hasEnds ? 0.95 : 1.3);
  const west = on('west', hasSides ? 0.7 : 1.2);
  const east = on('east', hasSides ? 0.7 : 1.2);
  const across = Math.max(widest(north), widest(south), widest(west) * 0.6, widest(east) * 0.6, 600);
  const down = Math.max(widest(west), widest(east), across * 0.5);
  const thick = (lines: readonly Line[]): number =>
    lines.reduce((sum, line) => sum + line.depth + lineGap, 0);

  const left = margin + thick(west);
  const top = margin + thick(north);
  const places: BlockPlace[] = blocks.map(() => ({ x: 0, y: 0, back: 'down' as const }));
  const fill = (lines: readonly Line[], at: (along: number, away: number) => BlockPlace): void => {
    let away = lineGap;
    for (const line of lines) {
      let along = -line.width / 2;
      for (const i of line.members) {
        places[i] = at(along + blocks[i]!.width / 2, away);
        along += blocks[i]!.width + blockGap;
      }
      away += line.depth + lineGap;
    }
  };
  const cx = left + across / 2;
  const cy = top + down / 2;
  // The gap to the pitch's edge is already in `thick`, once a line.
  fill(north, (along, away) => ({ x: cx + along, y: top + lineGap - away, back: 'up' }));
  fill(south, (along, away) => ({ x: cx + along, y: top + down - lineGap + away, back: 'down' }));
  fill(west, (along, away) => ({ x: left + lineGap - away, y: cy + along, back: 'left' }));
  fill(east, (along, away) => ({ x: left + across - lineGap + away, y: cy + along, back: 'right' }));
  return {
    places,
    decorations: [pitch(cx, cy, across - 2 * lineGap, down - 2 * lineGap)],
    width: Math.ceil(left + across + thick(east) + margin),
    height: Math.ceil(top + down + thick(south) + margin),
  };
}

function pitch(cx: number, cy: number, width: number, height: number): PlanDecoration {
  const left = rounded(cx - width / 2);
  const right = rounded(cx + width / 2);
  const top = rounded(cy - height / 2);
  const bottom = rounded(cy + height / 2);
  return {
    shape: {
      kind: 'polygon',
      points: [
        [left, top],
        [right, top],
        [right, bottom],
        [left, bottom],
      ],
    },
    color: '#4a9c5a',
    borderColor: '#ffffff',
    label: 'Pitch',
  };
}

function inBands(blocks: readonly LooseBlock[]): Arrangement {
  const ground = blocks.reduce((sum, block) => sum + (block.width + blockGap) * (block.depth + lineGap), 0);
  const wanted = Math.max(Math.sqrt(ground) * 1.25, ...blocks.map((block) => block.width));
  const groups = new Map<string, number[]>();
  blocks.forEach(({ group }, i) => {
    const members = groups.get(group);
    if (members) members.push(i);
    else groups.set(group, [i]);
  });
  const bands = [...groups].map(([name, members]) => ({ name, lines: linesOf(blocks, members, wanted) }));
  const width = Math.max(...bands.map((band) => widest(band.lines)), 1) + 2 * margin;
  const places: BlockPlace[] = blocks.map(() => ({ x: 0, y: 0, back: 'down' as const }));
  const decorations: PlanDecoration[] = [];
  let y = margin;
  for (const { name, lines } of bands) {
    if (name !== '') {
      decorations.push({
        shape: { kind: 'text', x: rounded(width / 2), y: rounded(y + 40), size: 80, text: name },
        color: '#333333',
        borderColor: '',
        label: '',
      });
      y += 120;
    }
    for (const line of lines) {
      let x = (width - line.width) / 2;
      for (const i of line.members) {
        places[i] = { x: x + blocks[i]!.width / 2, y, back: 'down' };
        x += blocks[i]!.width + blockGap;
      }
      y += line.depth + lineGap;
    }
    if (name !== '') y += 60;
  }
  return { places, decorations, width: Math.ceil(width), height: Math.ceil(y + margin) };
}
