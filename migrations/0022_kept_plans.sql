-- What a crowd asks for keeps its plans, as the arbiter's claims do (0002). With a table's partitions to choose from, the planner
-- would find a plan for this one event cheaper each time, and planning costs more than the step. Plans are made while the
-- tables are empty and kept through a sale's first minutes: none of them may read a table from its first row to its last, so
-- no sequential scans, and of joins only those that look each row up. (Bitmap scans stay: "hold_id = … OR order_id = …" needs
-- one.) test/services/growth.test.ts counts the rows.
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT p.oid::regprocedure FROM pg_proc p
            WHERE p.pronamespace = 'public'::regnamespace
              AND p.proname IN ('queue_join','queue_redeem','queue_redeem_all',
                                'order_reserve','order_reserve_with_code','order_abandon','order_confirm','order_close',
                                'money_begin','money_opened','money_authorised','money_refused','money_park','money_end',
                                'money_voided','money_captured','money_stray','refund_make','refund_settle','entry_check_in')
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', f);
    EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', f);
    EXECUTE format('ALTER FUNCTION %s SET enable_hashjoin = off', f);
    EXECUTE format('ALTER FUNCTION %s SET enable_mergejoin = off', f);
  END LOOP;
END $$;
