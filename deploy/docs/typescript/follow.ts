type Told = { event: string; id: string; data: string };

const AGAIN = [408, 429]; // of the refusals, those that another attempt may not meet
const SILENCE = 45_000; // three comments of the gateway did not come: what lies between was cut off without a word

/**
 * The events of a stream, which goes on behind the last one where it broke. `EventSource` cannot send a key, so this reads
 * by `fetch`; the key is asked for at each beginning, for tokens expire. Throws where the gateway refuses it,
 * and for an address that cannot be one.
 */
export async function* follow(url: string, key: () => Promise<string>, last = ""): AsyncGenerator<Told> {
  if (!/^https?:/.test(url)) throw new Error(`${url}: no http:// or https:// address`); // "localhost:8700/…" is a URL, too
  for (;;) {
    const headers: Record<string, string> = { Accept: "text/event-stream", Authorization: `Bearer ${await key()}` };
    if (last) headers["Last-Event-ID"] = last;
    const opening = new AbortController();
    const request = new Request(url, { headers, signal: opening.signal }); // throws for what can be no key
    const timer = setTimeout(() => opening.abort(), SILENCE);
    const answer = await fetch(request).catch(() => null);
    clearTimeout(timer);
    if (answer && answer.status >= 400 && answer.status < 500 && !AGAIN.includes(answer.status)) {
      const { detail } = await answer.json().catch(() => ({}));
      throw new Error(`${answer.status}: ${detail ?? "no answer of a gateway: check the address"}`);
    }
    if (answer?.ok && answer.body) {
      for await (const told of events(answer.body)) {
        if (told.event === "error" || told.event === "closing") break;
        last = told.id || last;
        yield told;
      }
    }
    await new Promise((done) => setTimeout(done, 500 + 1000 * Math.random())); // so that not all come at once
  }
}

/** The events in a body, until it ends or breaks. */
async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<Told> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const silent = new Promise<never>((_, cut) => { timer = setTimeout(cut, SILENCE); });
      const { done, value } = await Promise.race([reader.read(), silent]).catch(() => ({ done: true, value: undefined }));
      clearTimeout(timer);
      if (done) return;
      const parts = (text + decoder.decode(value, { stream: true })).split("\n\n");
      text = parts.pop() ?? "";
      for (const part of parts) {
        const told: Told = { event: "", id: "", data: "" };
        for (const line of part.split("\n")) {
          const [name, rest] = [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)];
          if (name === "event" || name === "id" || name === "data") told[name] = rest;
        }
        if (told.event) yield told; // else it is a comment, which keeps the connection open
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // whoever stops reading closes the connection
  }
}

if (process.argv.length !== 5) {
  console.error("usage: node built/follow.js ADDRESS KEY CONVERSATION");
  process.exit(2);
}
const [address, secret, conversation] = process.argv.slice(2) as [string, string, string];
const url = `${address}/v1/conversations/${encodeURIComponent(conversation)}/remembered`;
try {
  for await (const told of follow(url, async () => secret)) {
    console.log(told.event, told.data);
    if (told.event === "remembered") break;
  }
} catch (fault) {
  console.error((fault as Error).message);
  process.exitCode = 1;
}
