// The key, requests to the gateway, and its streams. A page that `eunoe show --html` wrote answers from what it carries.

const carried = document.getElementById("carried");
export const snapshot = carried ? JSON.parse(carried.textContent) : null;

const KEY = "eunoe-key";

/** An error as the gateway describes it (RFC 9457). */
export class Problem extends Error {
  constructor(status, body = {}, retryAfter = 0) {
    super(body.detail || body.title || "no answer");
    this.status = status;
    this.title = body.title || (status ? `Error ${status}` : "No connection");
    this.instance = body.instance || "";
    this.retryAfter = retryAfter;
  }
}

/** Take the key out of `#key=…`: a fragment reaches no server, and must not stay in the address. */
export function takeKey() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (!given.has("key")) return;
  sessionStorage.setItem(KEY, given.get("key"));
  history.replaceState(null, "", `#${given.get("view") || "/"}`);
}

export const hasKey = () => snapshot !== null || Boolean(sessionStorage.getItem(KEY));
export const setKey = (key) => sessionStorage.setItem(KEY, key.trim());
export const forgetKey = () => sessionStorage.removeItem(KEY);

/** The key as a header can hold it: the gateway refuses another, as a pasted one with a character that is not seen. */
const headers = () => ({ Authorization: `Bearer ${(sessionStorage.getItem(KEY) || "").replace(/[^\x21-\x7e]/g, "?")}` });

/** The address of a conversation, or of something in it. */
export const inConversation = (id, rest = "") => `v1/conversations/${encodeURIComponent(id)}${rest}`;

/** A path with the parameters that are set. */
export function withQuery(path, params) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== undefined && value !== ""));
  return query.size ? `${path}?${query}` : path;
}

export async function get(path, signal) {
  if (snapshot) {
    const found = snapshot.answers[path];
    if (found !== undefined) return typeof found === "string" ? snapshot.answers[found] : found; // a text names another
    throw new Problem(404, { title: "Not in this file", detail: "this file holds one conversation as it was written" });
  }
  return send(path, { signal, headers: headers() });
}

export async function post(path, body, more = {}) {
  const sent = { method: "POST", headers: { ...headers(), ...more } };
  if (body !== undefined) {
    sent.body = JSON.stringify(body);
    sent.headers["Content-Type"] = "application/json";
  }
  return send(path, sent);
}

async function send(path, options) {
  const answer = await answered(path, options);
  return answer.json().catch((fault) => {
    if (fault.name === "AbortError") throw fault;
    throw new Problem(0, { detail: "The answer was cut off." }, 5);
  });
}

/** The answer to a request, whose body is not read yet. */
async function answered(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, credentials: "omit" });
  } catch (fault) {
    if (fault.name === "AbortError") throw fault;
    throw new Problem(0, { detail: "The gateway does not answer. Is it running?" }, 5);
  }
  if (!answer.ok) throw await problemOf(answer);
  return answer;
}

async function problemOf(answer) {
  const body = await answer.json().catch(() => ({}));
  return new Problem(answer.status, body, Number(answer.headers.get("Retry-After")) || 0);
}

export const AWAY = [0, 429, 503, 504]; // 504: the gateway waits no longer for this answer, but it may come
const TRIES = 100; // each after a second, or after as long as a stream lasts

/**
 * The reply to a question, however long a model takes for it: by a stream, which goes on where it broke. Before it is
 * known to be accepted, a fault is told and nothing is sent again.
 */
export async function ask(id, body, signal) {
  const path = inConversation(id, "/asks");
  const accepts = { ...headers(), Accept: "text/event-stream" };
  const sent = { method: "POST", headers: { ...accepts, "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const seen = { place: "", asked: "" };
  let answer = await answered(path, { ...sent, signal });
  for (let tries = 1; ; tries += 1) {
    const found = answer && (await replyIn(answer.body, seen));
    if (found) return found;
    if (!seen.asked || tries > TRIES) throw new Problem(0, { detail: "The gateway broke off before it answered. Ask again." });
    await pause(1000, signal);
    const again = { headers: { ...accepts, "Last-Event-ID": seen.place }, signal };
    answer = await answered(`${path}/${encodeURIComponent(seen.asked)}`, again).catch((fault) => {
      if (AWAY.includes(fault.status)) return null;
      throw fault;
    });
  }
}

/** The reply in a stream; null where it broke off. `seen` keeps the question's id, and the place to go on from. */
async function replyIn(body, seen) {
  try {
    for await (const { event, id, data } of events(body)) {
      seen.place = id ?? seen.place;
      if (event === "accepted") seen.asked = JSON.parse(data).request_id;
      if (event === "reply") return JSON.parse(data);
      if (event === "error") {
        const fault = problemOfEvent(data);
        if (AWAY.includes(fault.status) && seen.asked) return null;
        throw fault;
      }
    }
  } catch (fault) {
    if (fault instanceof Problem || fault.name === "AbortError") throw fault;
  }
  return null;
}

function problemOfEvent(data) {
  const body = JSON.parse(data);
  return new Problem(body.status, body);
}

/**
 * Read a stream of events until the signal ends it; connects again where it broke. `EventSource` cannot send a key. Its
 * beginning is taken, too: what is read after it misses nothing. So is a key that is no longer known: what is open is
 * fetched again, and says so.
 */
export async function follow(path, take, signal) {
  let last = "";
  while (!signal.aborted && !snapshot) {
    try {
      const more = last ? { "Last-Event-ID": last } : {};
      const answer = await fetch(path, { headers: { ...headers(), ...more, Accept: "text/event-stream" }, signal });
      if (answer.status === 401) take({ event: "refused" });
      if ([401, 403, 404, 422].includes(answer.status)) return;
      if (answer.ok) for await (const event of events(answer.body)) last = handled(event, last, take);
    } catch (fault) {
      if (fault.name === "AbortError") return;
    }
    await pause(3000, signal);
  }
}

const TOLD = ["remembered", "derived", "reset"];

/** Take an event; the place to go on from. A `reset` without one ends the stream: the next begins with another, and its place. */
function handled(event, last, take) {
  if (TOLD.includes(event.event) || (event.event === "ready" && !last)) take(event);
  return event.id ?? last;
}

async function* events(body) {
  let text = "";
  for await (const chunk of chunks(body.pipeThrough(new TextDecoderStream()).getReader())) {
    const parts = (text + chunk).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const fields = part.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]);
      yield Object.fromEntries(fields);
    }
  }
}

const SILENCE = 45000; // three comments of the gateway did not come: what lies between was cut off without a word

// readable streams are not iterable everywhere
async function* chunks(reader) {
  try {
    for (;;) {
      const { done, value } = await within(SILENCE, reader.read());
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {}); // whoever stops reading closes the connection
  }
}

/** What is awaited, unless it takes longer than a time in milliseconds: then an error. */
function within(time, awaited) {
  return new Promise((done, failed) => {
    const timer = setTimeout(() => failed(new Error("nothing came in time")), time);
    awaited.then(done, failed).finally(() => clearTimeout(timer));
  });
}

const pause = (time, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, time);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
