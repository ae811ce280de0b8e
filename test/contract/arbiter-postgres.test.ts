import { after } from 'node:test';
import { testDatabase } from '../support/postgres.ts';
import { postgresWorld, testDb } from './arbiter-postgres-world.ts';
import { arbiterSuite } from './arbiter-suite.ts';

const database = await testDatabase();
const db = testDb(database, 4);
after(() => db.close());

arbiterSuite('postgres', () => postgresWorld(database, db));
