/**
 * An answer of the API that is not the object asked for. `stored` says whether an idempotency key remembers it: what
 * was refused before execution began is not remembered, so that a corrected or later repeat may still succeed.
 */
export class ApiError extends Error {
  readonly status: number;
  readonly error: ErrorBody;
  readonly stored: boolean;
  readonly headers: Record<string, string>;

  constructor(
    status: number,
    error: ErrorBody,
    options: { stored?: boolean; headers?: Record<string, string> } = {},
  ) {
    super(error.message);
    this.name = 'ApiError';
    this.status = status;
    this.error = error;
    this.stored = options.stored ?? false;
    this.headers = options.headers ?? {};
  }
}

export interface ErrorBody {
  type: 'api_error' | 'card_error' | 'idempotency_error' | 'invalid_request_error';
  message: string;
  code?: string;
  decline_code?: string;
  param?: string;
  charge?: string;
  payment_intent?: unknown;
  payment_method?: unknown;
}

export function invalid(message: string, param?: string, code?: string): ApiError {
  return new ApiError(400, {
    type: 'invalid_request_error',
    message,
    ...(code && { code }),
    ...(param && { param }),
  });
}

export function missing(what: string, id: string, param: string, status = 404): ApiError {
  return new ApiError(status, {
    type: 'invalid_request_error',
    code: 'resource_missing',
    message: `No such ${what}: '${id}'`,
    param,
  });
}

/** The call does not fit what the intent is; `code` says how. */
export function unexpectedState(code: string, message: string, intent: unknown): ApiError {
  return new ApiError(
    400,
    {
      type: 'invalid_request_error',
      code,
      message,
      payment_intent: intent,
    },
    { stored: true },
  );
}

export function internalError(): ApiError {
  return new ApiError(500, { type: 'api_error', message: 'An unknown error occurred.' });
}

export function keyInUse(key: string): ApiError {
  return new ApiError(409, {
    type: 'idempotency_error',
    code: 'idempotency_key_in_use',
    message: `There is currently another in-progress request using this Idempotency Key (that probably means you submitted twice, and the other request is still going through): ${key}.`,
  });
}

export function keyMismatch(key: string): ApiError {
  return new ApiError(400, {
    type: 'idempotency_error',
    message: `Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '${key}' if you meant to execute a different request.`,
  });
}

/** The errors that a fault responds with, by the verdict's name. */
export const FAULT_ERRORS = {
  server_error: internalError,
  unavailable: () =>
    new ApiError(503, { type: 'api_error', message: 'The service is temporarily unavailable.' }),
  rate_limit: () =>
    new ApiError(
      429,
      {
        type: 'invalid_request_error',
        code: 'rate_limit',
        message: 'Too many requests hit the API too quickly.',
      },
      { headers: { 'retry-after': '1' } },
    ),
  lock_timeout: () =>
    new ApiError(
      429,
      {
        type: 'invalid_request_error',
        code: 'lock_timeout',
        message:
          'This object cannot be accessed right now because another API request or Stripe process is currently accessing it.',
      },
      { headers: { 'stripe-should-retry': 'true' } },
    ),
  key_in_use: keyInUse,
  key_mismatch: keyMismatch,
} as const satisfies Record<string, (key: string) => ApiError>;
