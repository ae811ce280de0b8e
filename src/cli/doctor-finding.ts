export interface Finding {
  check: string;
  /** `note`: allowed, but worth knowing. */
  state: 'ok' | 'note' | 'wrong';
  detail: string;
  /** The action that the operator should take. */
  remedy?: string;
}
