import { createFiguresTask } from './figures-task.ts';
import type { Task, Tasks } from './job-queue.ts';
import { createMailTask, type MailTaskParts } from './mail-task.ts';

export type TaskParts = MailTaskParts;

/** Every kind of job by the name under which SQL enqueues it (`job_enqueue`); one file a task. */
export function createTasks(parts: TaskParts): Tasks {
  return {
    mail: createMailTask(parts),
    figures: createFiguresTask(parts),
  } satisfies Record<(typeof jobNames)[number], Task>;
}

export const jobNames = ['mail', 'figures'] as const;
