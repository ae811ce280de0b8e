import type { HoldEvent } from '../crowd/basket.ts';

/** What became of the holds that lived when Redis was hurt. */
export interface Fates {
  told(event: HoldEvent): void;
  /** Now: whatever lives from here on is what has to be recovered. */
  blow(): void;
  summary(): {
    /** Holds that lived at the blow, in the partition that was hurt, and whose owners stayed. */
    live: number;
    /** Of these: brought back by their receipts, or still known when they were paid for or given back. */
    recovered: number;
    lost: number;
    /** Holds that were lost although they came later or were not touched. */
    lostOthers: number;
    /** How often an owner was told which reason. */
    why: Record<string, number>;
  };
}

interface Fate {
  hurt: boolean;
  lives: boolean;
  atBlow: boolean;
  end: HoldEvent['kind'] | null;
  why: string | null;
}

/** `hurts`: whether a seat is in the partition that is going to be hurt. */
export function createFates(hurts: (seat: number) => boolean): Fates {
  const fates = new Map<string, Fate>();
  return {
    told(event) {
      if (event.kind === 'granted') {
        const hurt = hurts(event.hold.seats[0]!.seat);
        fates.set(event.hold.hold, { hurt, lives: true, atBlow: false, end: null, why: null });
        return;
      }
      const id = typeof event.hold === 'string' ? event.hold : event.hold.hold;
      const fate = fates.get(id);
      if (!fate) return;
      fate.end = event.kind;
      fate.lives = event.kind === 'recovered';
      if (event.kind === 'lost') fate.why = event.why;
    },
    blow() {
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
      };
    },
  };
}
