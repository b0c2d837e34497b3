// Says a small session: node produce.mjs localhost:9092 eunoe.conversations mina-and-jonas
import { randomUUID } from "node:crypto";
import { Kafka, Partitioners, logLevel } from "kafkajs";

if (process.argv.length !== 5) {
  console.error("usage: node produce.mjs BOOTSTRAP TOPIC CONVERSATION");
  process.exit(2);
}
const [bootstrap, topic, conversationId] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "example", brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
const producer = kafka.producer({
  createPartitioner: Partitioners.DefaultPartitioner, // murmur2, as in Java; LegacyPartitioner is another one
  idempotent: true, // a repeated request is written once
  maxInFlightRequests: 1, // keeps the order when a request is repeated
});

// encodeURIComponent leaves !'()* as they are
const percentEncoded = (text) =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase());
const key = `default/${percentEncoded(conversationId)}`;

// the event with its conversation, its time and its key; the broker sets the time of the record
const record = (event) => ({
  key,
  value: JSON.stringify({ conversation_id: conversationId, at: new Date().toISOString(), ...event }),
});

const sessionId = randomUUID();
const said = ([speaker, text]) =>
  record({ type: "utterance", utterance_id: randomUUID(), session_id: sessionId, speaker, text });
const messages = [
  ["Mina", "Did you survive the football match? ⚽"],
  ["Jonas", "Barely. I twisted my knee and see a doctor on Monday."],
  ["Mina", "빨리 나아!"],
].map(said);

await producer.connect();
try {
  const ended = record({ type: "session_ended", session_id: sessionId });
  await producer.send({ topic, acks: -1, messages: [...messages, ended] }); // throws where a broker does not have them
} finally {
  await producer.disconnect();
}
