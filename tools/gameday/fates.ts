import type { Clock } from '../../src/runtime/clock.ts';
import type { HoldEvent } from '../crowd/basket.ts';

const trailsMax = 5;

/** The outcome of the holds that were live when Redis failed. */
export interface Fates {
  note(event: HoldEvent): void;
  /** The blow falls now: the holds that live at this moment have to be recovered. */
  blow(): void;
  summary(): {
    /** Holds that lived at the blow, in the partition that was hurt, and whose owners stayed. */
    live: number;
    /** Holds among them that their receipts brought back, or that were still known when they were paid for or given back. */
    recovered: number;
    lost: number;
    /** Holds that were lost although they came later or were not touched. */
    lostOthers: number;
    /** How often owners received each reason. */
    why: Record<string, number>;
    /** Responses to owners of lost holds, in seconds from the failure: the first few. */
    lostTrails: string[];
  };
}

interface Fate {
  hurt: boolean;
  lives: boolean;
  atBlow: boolean;
  end: HoldEvent['kind'] | null;
  why: string | null;
  trail: { at: number; says: string }[];
}

/** `hurts`: whether a seat is in the partition that is going to be hurt. */
export function createFates(hurts: (seat: number) => boolean, clock: Clock): Fates {
  const fates = new Map<string, Fate>();
  let blowAt = 0;
  return {
    note(event) {
      if (event.kind === 'granted') {
        const hurt = hurts(event.hold.seats[0]!.seat);
        const trail = [{ at: clock.monotonic(), says: 'granted' }];
        fates.set(event.hold.hold, { hurt, lives: true, atBlow: false, end: null, why: null, trail });
        return;
      }
      const id = typeof event.hold === 'string' ? event.hold : event.hold.hold;
      const fate = fates.get(id);
      if (!fate) return;
      const says = event.kind === 'answered' ? `${event.to} ${event.says.trim()}` : event.kind;
      fate.trail.push({ at: clock.monotonic(), says });
      if (event.kind === 'answered') return;
      fate.end = event.kind;
      fate.lives = event.kind === 'recovered';
      if (event.kind === 'lost') fate.why = event.why;
    },
    blow() {
      blowAt = clock.monotonic();
      for (const fate of fates.values()) fate.atBlow = fate.lives;
    },
    summary() {
      const all = [...fates.values()];
      const counted = all.filter(({ atBlow, hurt, end }) => atBlow && hurt && end !== 'left');
      const lost = counted.filter(({ end }) => end === 'lost');
      const why: Record<string, number> = {};
      for (const { end, why: said } of all) {
        if (end === 'lost' && said !== null) why[said] = (why[said] ?? 0) + 1;
      }
      return {
        live: counted.length,
        recovered: counted.length - lost.length,
        lost: lost.length,
        lostOthers: all.filter(({ end }) => end === 'lost').length - lost.length,
        why,
        lostTrails: all
          .filter(({ end }) => end === 'lost')
          .slice(0, trailsMax)
          .map(({ trail }) =>
            trail.map(({ at, says }) => `${((at - blowAt) / 1_000).toFixed(1)} ${says}`).join(', '),
          ),
      };
    },
  };
}
