// Small parts of all views: times, states of loading, errors, a key, a question.

import { html, useEffect, useRef, useState } from "./htm-preact.mjs";
import { forgetKey, setKey } from "./api.js";

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
const MINUTE = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });

const OFFSET = /[+-]\d\d:\d\d$/;

/** A time as the formats above take it: by the clock of who spoke, where it was sent with its offset, else in UTC. */
const told = (at) => new Date(typeof at === "string" ? at.replace(OFFSET, "Z") : at);
const clock = (at) => `UTC${OFFSET.exec(at)?.[0] ?? ""}`;
export const day = (at) => DAY.format(told(at));
export const minute = (at) => MINUTE.format(told(at));
export const plural = (number, word, more = `${word}s`) => `${number.toLocaleString("en")} ${number === 1 ? word : more}`;
export const short = (id) => id.slice(0, 8);

/** The days of an interval, as short as they can be said. */
export const days = (first, last) => DAY.formatRange(...[told(first), told(last)].sort((one, other) => one - other));

/** Event time: when it was said. */
export function At({ at, time = true }) {
  return html`<time class="at" datetime=${at} title=${at}>${day(at)}${time && html` <span>${minute(at)} ${clock(at)}</span>`}</time>`;
}

/** Log time: when memory may know it. */
export function Known({ at, word = "known since" }) {
  return html`<span class="log">${word} <time datetime=${at} title="log time ${at}">${day(at)} ${minute(at)} UTC</time></span>`;
}

/** The last day on which a memory holds, where its text names one and nothing has ended it before. */
export function Until({ memory }) {
  if (!memory.expires_at || memory.ending) return null;
  return html` · <span class="log">until <time datetime=${memory.expires_at}>${day(told(memory.expires_at) - 1)}</time></span>`;
}

/** Text of people: its own direction, and never markup. */
export const Said = ({ text, class: name = "" }) => html`<span dir="auto" class=${`said ${name}`}>${text}</span>`;

/** A long text, cut until it is asked for. */
export function LongSaid({ text, limit = 600 }) {
  const [whole, setWhole] = useState(false);
  if (text.length <= limit) return html`<${Said} text=${text} />`;
  return html`<${Said} text=${whole ? text : `${text.slice(0, limit)} …`} /> <button class="plain" onClick=${() => setWhole(!whole)}>
      ${whole ? "less" : `all ${plural(text.length, "character")}`}
    </button>`;
}

export const STATUS = { current: "holds", superseded: "superseded", retired: "ended" };
export const Status = ({ status }) => html`<span class=${`status ${status}`}>${STATUS[status] || status}</span>`;

/** The code, model and prompt that decided something. */
export function MadeBy({ by }) {
  if (!by) return null;
  const rules = by.fallback ? "offline rules, for want of a valid answer" : by.prompt ? "a model" : "offline rules";
  const names = [by.code, by.model, by.prompt && `prompt ${by.prompt}`].filter(Boolean).join(" · ");
  return html`<span class="log">decided by ${rules} <code>${names}</code></span>`;
}

export const Loading = ({ what }) => html`<p class="quiet pad" role="status">Loading ${what} …</p>`;
export const Empty = ({ title, children }) => html`<div class="empty"><h3>${title}</h3><p>${children}</p></div>`;

/** An error with a way on: a key for 401, the scope for 403, a countdown where a server is away. */
export function Fault({ error, retry }) {
  const [left, setLeft] = useState(error.retryAfter);
  useEffect(() => {
    setLeft(error.retryAfter);
    if (!error.retryAfter || !retry) return undefined;
    const timer = setInterval(() => setLeft((number) => Math.max(0, number - 1)), 1000);
    return () => clearInterval(timer);
  }, [error]);
  useEffect(() => {
    if (error.retryAfter && retry && left === 0) retry();
  }, [left]);
  if (error.status === 401) return html`<${KeyForm} why="The gateway does not know this key." done=${retry} />`;
  return html`<div class="fault" role="alert">
    <h3>${error.title}</h3>
    <p>${error.message}${retry && left > 0 && html` Trying again in ${left} s.`}</p>
    ${error.instance && html`<p class="log">request <code>${error.instance}</code></p>`}
    ${retry && html`<button onClick=${retry}>Try again</button>`}
  </div>`;
}

/** Data, or the state it is in; an error beside data that was there before leaves it shown. */
export function Shown({ of: { data, error, reload }, what, children }) {
  if (error && data === null) return html`<${Fault} error=${error} retry=${reload} />`;
  if (data === null) return html`<${Loading} what=${what} />`;
  return html`${error && html`<${Fault} error=${error} retry=${reload} />`}${children(data)}`;
}

export function KeyForm({ why, done }) {
  const save = (event) => {
    event.preventDefault();
    setKey(event.target.elements.key.value);
    dispatchEvent(new Event("eunoe-key"));
    if (done) done();
  };
  return html`<form class="key" onSubmit=${save}>
    <h2>A key, please</h2>
    <p>${why} <code>eunoe up</code> prints an address with one; <code>eunoe keys create</code> makes others.</p>
    <label>Key <input name="key" type="password" autocomplete="off" required placeholder="eu_…" /></label>
    <button class="main">Open</button>
    <p class="log">It stays in this tab until it is closed, and is sent to this address alone.</p>
  </form>`;
}

export function leave() {
  forgetKey();
  dispatchEvent(new Event("eunoe-key"));
}

/** A question before something that cannot be taken back; resolves to whether it was confirmed. */
export function Confirm({ title, children, action, close }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  return html`<dialog ref=${dialog} aria-labelledby="confirm" onClose=${() => close(dialog.current.returnValue === "yes")}>
    <form method="dialog">
      <h3 id="confirm">${title}</h3>
      <p>${children}</p>
      <menu><button value="no" autofocus>Cancel</button><button value="yes" class="main">${action}</button></menu>
    </form>
  </dialog>`;
}
