import type { EventId } from '../core/hold.ts';
import type { Phase } from '../core/phase.ts';

/**
 * The shared objects that everybody reads: one per event, the same for all, cacheable, no cookie, no per-visitor state
 * (W4). Published by the leader, served from memory. Versions are [term, count], compared in that order: browser and edge
 * ignore an older one.
 */
export type Version = [term: number, count: number];

/** Max-age of each object, seconds. */
export const maxAgeSeconds = { status: 1, availability: 2, counts: 5, event: 5 } as const;

/** GET /api/events/{event}/status */
export interface StatusObject {
  v: Version;
  event: EventId;
  phase: Phase;
  /** Last number called, per shard. */
  frontier: number[];
  /** Last number issued, per shard: how long the line is. */
  last: number[];
  /**
   * For each shard, ahead of the frontier, at most four ranges [first, last] of numbers that may or may not have been issued,
   * because the store that issued them was lost. They are not counted as visitors, and are passed in one step.
   */
  gaps: [first: number, last: number][][];
  /**
   * Partitions whose Redis was just lost, and until when (epoch ms) only receipts of holds are honoured in them: a page
   * with a hold there presents its receipt again.
   */
  grace: { partition: number; until: number }[];
  /** Passes a second: measured over the last 30 s, and what the controller aims at. */
  rate: { measured: number; target: number };
  /** Smoothed share of called numbers that did not come. */
  noShow: number;
  seats: {
    total: number;
    /** Coarse: exact below 100, else rounded down to two digits. */
    left: number;
    /** Held or reserved and unpaid: may come back. Coarse as `left`. */
    inBaskets: number;
  };
  /** Minor units over the categories that have seats left; null when none has. */
  priceRange: { min: number; max: number; currency: string } | null;
  /** Everything is sold: final unless seats come back. */
  soldOut: boolean;
  poll: { minMs: number; maxMs: number };
  message: string | null;
  /** Epoch ms at publishing, the store's clock; of an event about which nothing changes, as late as that is known. */
  serverTime: number;
  /** Epoch ms; null when not scheduled. */
  opensAt: number | null;
  /** Epoch ms; null when open-ended. */
  closesAt: number | null;
  layout: string;
  /** Hash of the fairness log's last entry; null until the log exists. */
  log: string | null;
}

/** GET /api/events/{event}/counts */
export interface CountsObject {
  v: Version;
  layout: string;
  total: { available: number; seats: number };
  sections: Record<string, number>;
  categories: Record<string, number>;
}

/**
 * GET /api/events/{event}/availability and /availability/{section}: `application/octet-stream`. The whole event: one bit a
 * seat by seat_no, least significant bit first, 1 = available. A section: the same in the order of `LayoutSection.seats`.
 * Headers `x-onsale-version: term.count`, `x-onsale-layout: hash`.
 */
export type AvailabilityBits = Uint8Array;

/** GET /api/events/{event} */
export interface EventObject {
  v: Version;
  id: EventId;
  name: string;
  phase: Phase;
  currency: string;
  performanceAt: string | null;
  /** IANA name of the venue's time zone, in which pages show these times. */
  timeZone: string;
  /** The seating plan's name: of the venue, as a rule. */
  venue: string;
  opensAt: string | null;
  closesAt: string | null;
  prices: {
    category: string;
    color: string;
    price: number;
    fee: number;
    /** The price for other ticket types, by their ids. Undefined means that the category is not sold as any of them. */
    kinds?: Record<string, number>;
    /** Only an access code opens it. */
    locked?: true;
  }[];
  /** Ticket types other than full. Undefined if there are none. */
  kinds?: { id: string; name: string; conditions: string; locked?: true }[];
  /**
   * From then until `opensAt` only buyers with an access code that opens the presale may buy. Undefined if there is no presale.
   */
  presaleAt?: string;
  orderFee: number;
  limits: {
    holdSeatsMax: number;
    accountSeatsMax: number | null;
    /** Seats bought with one card. Undefined means no limit. */
    instrumentSeatsMax?: number;
    holdMinutes: number;
  };
  seatCount: number;
  /** Seats are held by account: the page needs the token by which the embedding platform names it. */
  accountFirst?: true;
  /**
   * Parts of the venue that are sold separately: a hold takes seats of one part. Each has the ids of its sections; null means
   * all sections that no other part names. Undefined means that there is only one part.
   */
  partitions?: { partition: number; sections: string[] | null }[];
  /** `/api/events/{event}/layout-{hash}.json` */
  layout: string;
  payment: { publishableKey: string; script: string; test: boolean };
}
