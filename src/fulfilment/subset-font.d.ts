declare module 'subset-font' {
  /** The letters of `text` out of a font (TrueType, WOFF or WOFF2), and what its shaping of them needs. */
  export default function subsetFont(
    font: Buffer,
    text: string,
    options: {
      targetFormat: 'truetype' | 'woff' | 'woff2';
      /** A number fixes a variable font's axis there. */
      variationAxes?: Record<string, number>;
    },
  ): Promise<Buffer>;
}
