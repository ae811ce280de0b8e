/** Phases of an event's on-sale. */
export const phases = [
  'draft',
  'scheduled',
  'pre_queue',
  'open',
  'paused',
  'sold_out',
  'closed',
  'cancelled',
] as const;
export type Phase = (typeof phases)[number];

/** Which change an operator or the leader may make. Anything else is refused with the phases that are possible. */
export const phaseTransitions: Record<Phase, readonly Phase[]> = {
  draft: ['scheduled', 'cancelled'],
  scheduled: ['pre_queue', 'open', 'cancelled'],
  pre_queue: ['open', 'cancelled'],
  open: ['paused', 'sold_out', 'closed', 'cancelled'],
  paused: ['open', 'closed', 'cancelled'],
  sold_out: ['open', 'closed', 'cancelled'],
  closed: ['cancelled'],
  cancelled: [],
};

/** The phases that an operator may set. A published event is cancelled by an operation of its own, which refunds all orders. */
export function phasesByHand(phase: Phase): readonly Phase[] {
  return phaseTransitions[phase].filter((next) => next !== 'cancelled' || phase === 'draft');
}

/** The actions that are allowed to buyers in each phase. */
const allowed = {
  join: ['pre_queue', 'open', 'paused', 'sold_out'],
  redeem: ['open'],
  hold: ['open'],
  reserve: ['open', 'paused', 'sold_out', 'closed'],
  pay: ['open', 'paused', 'sold_out', 'closed'],
  confirm: ['draft', 'scheduled', 'pre_queue', 'open', 'paused', 'sold_out', 'closed'],
} as const satisfies Record<string, readonly Phase[]>;

export type PhasedAct = keyof typeof allowed;

export function allows(phase: Phase, act: PhasedAct): boolean {
  return (allowed[act] as readonly Phase[]).includes(phase);
}
