import { create as createQr } from 'qrcode';
import type { DocumentFont, FontChoice, Weight } from './document-fonts.ts';
import { breakLines, type Direction, directionOf, visualPieces } from './visual-text.ts';

/** Paints foreign text and codes on a page, in points from its upper left corner. */
export interface Painter {
  /** At most `linesMax` (1) lines; from `size` down to `least` until it fits. Answers where the next text may begin. */
  text(text: string, style: TextStyle): number;
  qr(code: string, place: { x: number; y: number; size: number }): void;
  frame(box: { x: number; y: number; width: number; height: number }): void;
}

export interface TextStyle {
  x: number;
  y: number;
  width: number;
  size: number;
  least?: number;
  weight?: Weight;
  color?: string;
  linesMax?: number;
}

const lineHeight = 1.3;
/**
 * Distance from the top of a line to its base line, as a share of the font size. The same for all fonts, so that they share a
 * base line.
 */
const ascent = 1.02;
const shrinkBy = 0.88;
/** Modules of white around a QR code that scanners want (ISO/IEC 18004). */
const quietModules = 4;
const black = '#14171f';

export function createPainter(doc: PDFKit.PDFDocument, fonts: FontChoice): Painter {
  const registered = new Set<DocumentFont>();

  function use(font: DocumentFont, size: number): void {
    if (!registered.has(font)) {
      doc.registerFont(font.name, font.font as never);
      registered.add(font);
    }
    doc.font(font.name).fontSize(size);
  }

  /** An empty list of features: a whole piece goes to the shaper at once, not word by word. */
  const shaped = { lineBreak: false, features: [] };

  function pieces(line: string, direction: Direction, weight: Weight) {
    return visualPieces<DocumentFont>(line, direction, (character, before) =>
      fonts.fontOf(character, weight, before),
    );
  }

  function widthOf(line: string, direction: Direction, size: number, weight: Weight): number {
    return pieces(line, direction, weight).reduce((sum, piece) => {
      use(piece.font, size);
      return sum + doc.widthOfString(piece.text, shaped);
    }, 0);
  }

  function paintLine(
    line: string,
    at: { x: number; y: number },
    direction: Direction,
    style: TextStyle,
  ): void {
    const { size, weight = 'regular', color = black } = style;
    let { x } = at;
    for (const piece of pieces(line, direction, weight)) {
      use(piece.font, size);
      doc.fillColor(color).text(piece.text, x, at.y + size * ascent, { ...shaped, baseline: 'alphabetic' });
      x += doc.widthOfString(piece.text, shaped);
    }
  }

  return {
    text(text, style) {
      const { width, linesMax = 1, weight = 'regular', least = style.size } = style;
      if (text === '') return style.y;
      const direction = directionOf(text);
      const breakAt = (size: number) =>
        breakLines(text, { width, linesMax }, (line) => widthOf(line, direction, size, weight));
      let { size } = style;
      let broken = breakAt(size);
      while (!broken.whole && size > least) {
        size = Math.max(least, size * shrinkBy);
        broken = breakAt(size);
      }
      let { y } = style;
      for (const line of broken.lines) {
        paintLine(line, { x: style.x, y }, direction, { ...style, size });
        y += size * lineHeight;
      }
      return y;
    },

    qr(code, { x, y, size }) {
      const { modules } = createQr(code, { errorCorrectionLevel: 'M' });
      const side = size / (modules.size + 2 * quietModules);
      doc.rect(x, y, size, size).fill('#ffffff');
      for (let row = 0; row < modules.size; row += 1) {
        for (let from = 0; from < modules.size; from += 1) {
          let to = from;
          while (to < modules.size && modules.get(row, to)) to += 1;
          if (to === from) continue;
          doc.rect(
            x + (from + quietModules) * side,
            y + (row + quietModules) * side,
            (to - from) * side,
            side,
          );
          from = to;
        }
      }
      doc.fill('#000000');
    },

    frame({ x, y, width, height }) {
      doc.roundedRect(x, y, width, height, 14).lineWidth(1).stroke('#c9ced8');
    },
  };
}
