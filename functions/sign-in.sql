-- Attempts to sign in as the organiser, counted in one place for all web processes.

-- Reserves the time slot of one attempt in one step, so that attempts that arrive together get slots one after the other. The
-- attempt counts from now on; sign_in_done gives it back if the password was right. Without a range and without a known device
-- nothing is counted.
--   p_spacings_ms  [n + 1] is the time that stays free after an attempt that follows n others; the last entry is for all further ones
CREATE OR REPLACE FUNCTION sign_in_slot(p_range text, p_device text, p_email text,
  p_spacings_ms integer[], p_forget_ms integer, p_wait_max_ms integer,
  OUT budget text, OUT wait_ms double precision, OUT refused boolean)
LANGUAGE plpgsql AS $$
DECLARE
  v_known sign_in_budgets;
  v_now timestamptz;
  v_slot timestamptz;
  v_attempts double precision;
  v_spacing integer;
BEGIN
  wait_ms := 0;
  refused := false;
  SELECT * INTO v_known FROM sign_in_budgets b WHERE b.budget = 'device:' || p_device AND b.email = p_email FOR UPDATE;
  IF NOT FOUND THEN
    IF p_range IS NULL THEN RETURN; END IF;
    -- The update locks a row that exists already.
    INSERT INTO sign_in_budgets AS b (budget) VALUES ('range:' || p_range)
      ON CONFLICT ON CONSTRAINT sign_in_budgets_pkey DO UPDATE SET budget = b.budget RETURNING * INTO v_known;
  END IF;
  budget := v_known.budget;
  v_now := clock_timestamp();
  v_slot := greatest(v_now, v_known.next_at);
  wait_ms := extract(epoch FROM v_slot - v_now) * 1000;
  IF wait_ms > p_wait_max_ms THEN
    refused := true;
    RETURN;
  END IF;
  v_attempts := greatest(0, v_known.attempts - extract(epoch FROM v_now - v_known.counted_at) * 1000 / p_forget_ms);
  v_spacing := p_spacings_ms[least(ceil(v_attempts)::integer + 1, cardinality(p_spacings_ms))];
  UPDATE sign_in_budgets b
     SET attempts = least(v_attempts + 1, cardinality(p_spacings_ms)), counted_at = greatest(v_now, b.counted_at),
         next_at = v_slot + v_spacing * interval '1 ms'
   WHERE b.budget = v_known.budget;
END $$;

-- The password was right: gives the attempt back, and gives the browser a budget of its own.
CREATE OR REPLACE FUNCTION sign_in_done(p_budget text, p_device text, p_email text) RETURNS void
LANGUAGE sql AS $$
  UPDATE sign_in_budgets SET attempts = greatest(0, attempts - 1) WHERE budget = p_budget;
  INSERT INTO sign_in_budgets (budget, email) VALUES ('device:' || p_device, p_email)
    ON CONFLICT (budget) DO UPDATE SET email = excluded.email, counted_at = clock_timestamp();
$$;
