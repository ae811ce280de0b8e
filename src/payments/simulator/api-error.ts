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

export function unexpectedState(message: string, intent: unknown): ApiError {
  return new ApiError(
    400,
    {
      type: 'invalid_request_error',
      code: 'payment_intent_unexpected_state',
      message,
      payment_intent: intent,
    },
    { stored: true },
  );
}
