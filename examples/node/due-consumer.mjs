// Works due items in Node with nothing but kafkajs. Run it in this folder, after `npm ci`, as it stands:
//
//   node due-consumer.mjs localhost:9092 due.LetterDue letters out
//
// The kind's definition says `dispatch: {kafka: {topic: due.LetterDue, settled_by: topic, compression: gzip}}`,
// because kafkajs does not read lz4, and `dueledger work --outcomes` records what this reports.
// See docs/other-languages.md.

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Kafka, logLevel, Partitioners } from 'kafkajs';

const [servers, topic, group, folder, outcomes = 'due-outcomes'] = process.argv.slice(2);
if (!folder) throw new Error('usage: due-consumer.mjs SERVERS TOPIC GROUP FOLDER [OUTCOME_TOPIC]');

const kafka = new Kafka({ brokers: servers.split(','), logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId: group });
const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });

async function stop(exitCode) {
  process.exitCode = exitCode;
  await consumer.disconnect(); // what is worked now is finished first
  await producer.disconnect();
}

process.once('SIGTERM', () => stop(0));
process.once('SIGINT', () => stop(0));
// As a batch whose codec kafkajs does not have. After other errors it starts again by itself.
consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || stop(1));

await producer.connect();
await consumer.connect();
await consumer.subscribe({ topics: [topic], fromBeginning: true });
await consumer.run({
  autoCommit: false,
  async eachBatch({ batch, heartbeat, isRunning }) {
    for (let from = 0; from < batch.messages.length && isRunning(); from += 100) {
      const polled = batch.messages.slice(from, from + 100);
      const answers = [];
      for (const message of polled) answers.push(outcome(message, await answer(message)));
      await producer.send({ topic: outcomes, acks: -1, messages: answers }); // throws where an answer is not durable …
      const offset = String(BigInt(polled.at(-1).offset) + 1n);
      await consumer.commitOffsets([{ topic, partition: batch.partition, offset }]); // … and then the work comes again
      await heartbeat(); // Kafka's, for the place in the group
    }
  },
});

/** Does the work of one item and returns the verdict, with what belongs to it. */
async function answer(message) {
  const { address } = JSON.parse(message.value) ?? {};
  if (address === undefined) return { verdict: 'park', reason: 'no "address"' };
  try {
    return { verdict: 'completed', evidence: { letter: await write(message) } };
  } catch (failure) {
    return { verdict: 'retry', after: 'PT5M', reason: failure.message };
  }
}

/** The effect. It may be asked for twice: the item's id is the key to have it once. */
async function write(message) {
  const letter = `${header(message, 'ce_dueitem')}.txt`;
  await writeFile(join(folder, letter), `${header(message, 'ce_subject')}\n${message.value}\n`);
  return letter;
}

/** What is reported: what the work record says about where it was handed out. */
function outcome(message, said) {
  const value = {
    item: header(message, 'ce_dueitem'),
    fence: Number(header(message, 'ce_duefence')), // below 2^53, as every number of a ledger
    token: header(message, 'ce_duetoken'),
    position: Number(header(message, 'ce_dueposition')),
    ...said,
  };
  return {
    key: header(message, 'ce_subject'),
    value: JSON.stringify(value),
    headers: {
      ce_specversion: '1.0',
      ce_id: `${header(message, 'ce_id')}:outcome`,
      ce_source: '/examples/node',
      ce_type: 'dueledger.outcome',
      'content-type': 'application/json',
    },
  };
}

function header(message, name) {
  return message.headers[name].toString();
}
