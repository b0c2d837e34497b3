// Sends the values of standard input, one a line: node produce.mjs BOOTSTRAP TOPIC KEY CODEC
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import kafkajs from "kafkajs";

const { CompressionCodecs, CompressionTypes, Kafka, Partitioners, logLevel } = kafkajs;

const require = createRequire(import.meta.url);
const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy };
CompressionCodecs[CompressionTypes.Snappy] = require("kafkajs-snappy");

const [bootstrap, topic, key, codec] = process.argv.slice(2);
const values = readFileSync(0, "utf8").split("\n").filter((line) => line);
const producer = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.ERROR }).producer({
  createPartitioner: Partitioners.DefaultPartitioner,
});
await producer.connect();
try {
  const messages = values.map((value) => ({ key, value }));
  await producer.send({ topic, acks: -1, compression: codecs[codec], messages });
} finally {
  await producer.disconnect();
}
