import createClient from "openapi-fetch";

import type { paths } from "./schema.js";

if (process.argv.length !== 5) {
  console.error("usage: node built/client.js ADDRESS KEY CONVERSATION");
  process.exit(2);
}
const [address, key, conversation] = process.argv.slice(2) as [string, string, string];
const token = async (): Promise<string> => key; // that of a sign-in expires: ask its library for a valid one here
const memory = createClient<paths>({ baseUrl: address });
memory.use({
  async onRequest({ request }) {
    request.headers.set("Authorization", `Bearer ${await token()}`);
    return request;
  },
});
const path = { conversation };
const refused = (answer: Response, problem?: { detail?: string }): Error =>
  new Error(`${answer.status}: ${problem?.detail ?? "no answer of a gateway: check the address"}`);

async function main(): Promise<void> {
  const told = await memory.POST("/v1/conversations/{conversation}/events", {
    params: { path },
    body: { type: "utterance", speaker: "Ann", text: "I moved to Lyon last week.", utterance_id: crypto.randomUUID(), at: new Date().toISOString() },
  });
  if (!told.data) throw refused(told.response, told.error);

  const recalled = await memory.POST("/v1/conversations/{conversation}/recall", {
    params: { path },
    body: { query: "Where does Ann live?", budget_tokens: 800 },
  });
  if (!recalled.data) throw refused(recalled.response, recalled.error);
  console.log(JSON.stringify({ position: told.data.position, dialogue: recalled.data.dialogue }));
}

await main().catch((fault: Error) => {
  console.error(fault.message);
  process.exitCode = 1;
});
