// pg-boss under measurement: `peer.mjs load N`, then `peer.mjs work N WARM_UP`.
//
// Raw fetch and complete in batches, the fastest way its documentation knows, from several loops so
// that one fetches while another completes; a queue with a table of its own, no supervision.

import { PgBoss } from "pg-boss";

const BATCH = 2000;
const LOOPS = 3;
const QUEUE = "bench";
const [, , command, ...counts] = process.argv;
const [items, warmUp = 0] = counts.map(Number);
const data = JSON.parse(process.env.DUELEDGER_PEER_PAYLOAD);
const report = (event, fields = {}) => console.log(JSON.stringify({ event, ...fields }));

async function started() {
  const boss = new PgBoss({
    connectionString: process.env.DUELEDGER_PEER_DSN,
    max: LOOPS + 1,
    supervise: false,
    schedule: false,
  });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

async function load() {
  const boss = await started();
  await boss.createQueue(QUEUE, { partition: true });
  const began = performance.now();
  for (let from = 0; from < items; from += BATCH) {
    const size = Math.min(BATCH, items - from);
    await boss.insert(QUEUE, Array.from({ length: size }, () => ({ data })));
  }
  report("loaded", { seconds: (performance.now() - began) / 1000 });
  await boss.stop();
}

async function work() {
  const boss = await started();
  let done = 0;
  let began = 0;
  const loop = async () => {
    for (;;) {
      const jobs = await boss.fetch(QUEUE, { batchSize: BATCH });
      if (jobs.length === 0) return;
      const before = done;
      done += jobs.length;
      if (before < warmUp && done >= warmUp) {
        began = performance.now();
        report("measuring");
      }
      await boss.complete(
        QUEUE,
        jobs.map((job) => job.id),
      );
    }
  };
  await Promise.all(Array.from({ length: LOOPS }, loop));
  if (done !== items + warmUp) throw new Error(`${done} of ${items + warmUp} jobs were fetched`);
  report("finished", { seconds: (performance.now() - began) / 1000 });
  await boss.stop();
}

await { load, work }[command]();
