import { createInProcessArbiter } from '../../models/arbiter.ts';
import type { Phase } from '../../src/core/phase.ts';
import type { ArbiterWorld } from './arbiter-world.ts';

export async function inProcessWorld(): Promise<ArbiterWorld> {
  let now = 1_800_000_000_000;
  let phase: Phase = 'open';
  let mode: 'postgres' | 'moving' = 'postgres';
  let epoch = 1;
  let graceUntil: number | null = null;
  return {
    arbiter: createInProcessArbiter({
      clock: { now: () => now },
      phaseOf: () => phase,
      modeOf: () => ({ mode, epoch, graceUntil }),
    }),
    event: 1,
    epoch,
    advance: async (ms) => {
      now += ms;
    },
    setPhase: async (to) => {
      phase = to;
    },
    setMode: async (to) => {
      mode = to;
      graceUntil = null;
      epoch += 1;
      return epoch;
    },
    lose: async (graceMs) => {
      mode = 'postgres';
      graceUntil = now + graceMs;
      epoch += 1;
      return epoch;
    },
  };
}
