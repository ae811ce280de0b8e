import type { Layout } from './seat-map.ts';

/** Made once a layout: it never changes. */
const namesByLayout = new WeakMap<Layout, Map<string, string>>();

/**
 * Returns the name of each section for people, by its id. Block 1 of one stand is not block 1 of another, so the stand is part
 * of the name.
 */
export function sectionNames(layout: Layout): Map<string, string> {
  let names = namesByLayout.get(layout);
  if (!names) {
    const count = new Map<string, number>();
    for (const { name } of layout.sections) count.set(name, (count.get(name) ?? 0) + 1);
    names = new Map(
      layout.sections.map(({ id, name, group }) => [
        id,
        group && count.get(name)! > 1 ? `${group}, ${name}` : name,
      ]),
    );
    namesByLayout.set(layout, names);
  }
  return names;
}
