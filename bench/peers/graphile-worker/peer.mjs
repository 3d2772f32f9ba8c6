// graphile-worker under measurement: `peer.mjs load N`, then `peer.mjs work N WARM_UP`.
//
// Tuned as its documentation says (docs/performance): a local queue and batched completion.
// Three pools in one process, so that one fetches while the jobs of another run.

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const BATCH = 4000;
const POOLS = 3;
const LOOK_MILLISECONDS = 2;
const [, , command, ...counts] = process.argv;
const [items, warmUp = 0] = counts.map(Number);
const connectionString = process.env.DUELEDGER_PEER_DSN;
const payload = JSON.parse(process.env.DUELEDGER_PEER_PAYLOAD);
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const report = (event, fields = {}) => console.log(JSON.stringify({ event, ...fields }));

async function load() {
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  const began = performance.now();
  for (let from = 0; from < items; from += BATCH) {
    const size = Math.min(BATCH, items - from);
    await utils.addJobs(Array.from({ length: size }, () => ({ identifier: "bench", payload })));
  }
  report("loaded", { seconds: (performance.now() - began) / 1000 });
  await utils.release();
}

async function work() {
  const client = new pg.Client({ connectionString });
  await client.connect();
  let done = 0;
  let began = 0;
  let all;
  const handled = new Promise((resolve) => (all = resolve));
  const bench = () => {
    done += 1;
    if (done === warmUp) {
      began = performance.now();
      report("measuring");
    }
    if (done === items + warmUp) all();
  };
  const preset = {
    worker: {
      connectionString,
      logger,
      concurrentJobs: 24,
      maxPoolSize: 25,
      pollInterval: 100,
      localQueue: { size: 1000 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  };
  const runners = await Promise.all(
    Array.from({ length: POOLS }, () =>
      run({ preset, taskList: { bench }, noHandleSignals: true }),
    ),
  );
  await handled;
  const left = "select exists (select from graphile_worker._private_jobs) as left";
  while ((await client.query(left)).rows[0].left) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MILLISECONDS));
  }
  report("finished", { seconds: (performance.now() - began) / 1000 });
  await Promise.all(runners.map((runner) => runner.stop()));
  await client.end();
}

await { load, work }[command]();
