// A question to the memory: the reply, and what it was shown. Nothing of it is kept unless "say it" is ticked.

import { html, useEffect, useRef, useState } from "./htm-preact.mjs";
import { AWAY, ask, inConversation, post } from "./api.js";
import { byOwnClock } from "./clock.js";
import { change, link, useTyped } from "./route.js";
import { Fault, Loading, Said, day, plural } from "./ui.js";
import { Explained, REASONS } from "./why.js";

const STRATEGIES = ["fused", "segment", "timeline", "tree", "current", "insight"];

export function Ask({ id, params, status, anew }) {
  const [state, setState] = useState({ busy: false, error: null, recalled: null });
  const derived = useRef(anew);
  derived.current = anew;
  const lost = useRef(null); // a question whose answer did not come: asked again it is the same one, and is said once
  const [left] = useState(() => new AbortController()); // a late answer changes nothing in the view that was gone to
  useEffect(() => () => left.abort(), []);
  const run = async (form, recallOnly) => {
    const { text, speaker, strategy, budget, record } = Object.fromEntries(new FormData(form));
    if (!form.reportValidity()) return;
    const asked = { q: text, by: speaker, strategy, budget };
    change({ ...asked, reply: undefined, at: undefined }, { replace: true });
    setState({ busy: true, error: null, recalled: null });
    const chosen = { strategy: strategy || undefined, budget_tokens: budget ? Number(budget) : undefined };
    try {
      if (recallOnly) return setState(await recall({ query: text, speaker, ...chosen, at: byOwnClock(new Date()) }));
      const body = named({ text, speaker, record: record === "on", ...chosen }, lost);
      const reply = await ask(id, body, left.signal);
      lost.current = null;
      setState({ busy: false, error: null, recalled: null });
      return change({ ...asked, reply: reply.reply_id, at: new Date().toISOString() });
    } catch (error) {
      if (error.status && !AWAY.includes(error.status)) lost.current = null;
      return error.name !== "AbortError" && setState({ busy: false, error, recalled: null });
    }
  };
  const recall = async (body) => {
    for (;;) {
      const before = derived.current;
      const recalled = await post(inConversation(id, "/recall"), body);
      if (before === derived.current) return { busy: false, error: null, recalled, anew: before }; // else it may hold what was erased
    }
  };
  const recalled = state.anew === anew ? state.recalled : null;
  return html`<form class="ask" onSubmit=${(event) => (event.preventDefault(), run(event.target, event.submitter?.value === "recall"))}>
      <label class="grow">Question <input name="text" required dir="auto" ...${useTyped(params.q || "")} placeholder="Where does Mina live now?" /></label>
      <label>asked by <input name="speaker" required size="10" ...${useTyped(params.by || "user")} /></label>
      <label>strategy <select name="strategy">${["", ...STRATEGIES].map((one) => html`<option value=${one} selected=${one === (params.strategy || "")}>${one || "as it is set"}</option>`)}</select></label>
      <label>budget <input name="budget" type="number" min="1" max="16000" placeholder="tokens" ...${useTyped(params.budget || "")} /></label>
      <label class="tick"><input name="record" type="checkbox" /> say it: it becomes part of the conversation</label>
      <menu><button class="main" value="ask" disabled=${state.busy}>Ask</button><button value="recall" disabled=${state.busy}>Recall only</button></menu>
    </form>
    <div aria-live="polite">
      ${state.busy && html`<${Loading} what="the answer" />`}
      ${state.error && html`<${Fault} error=${state.error} />`}
      ${recalled && html`<${Recalled} id=${id} found=${recalled} />`}
      ${!state.busy && !recalled && params.reply && html`<${Explained} key=${anew} id=${id} reply=${params.reply} at=${params.at} brief />`}
      ${!state.busy && !state.error && !recalled && !params.reply && html`<p class="quiet pad">A question here leaves no trace. The reply shows what it rests on; “recall only” shows the memory that would be in the prompt, and asks no model.
        ${status.sessions > status.remembered && " Some sessions are not in memory yet: the answer says what it knows."}</p>`}
    </div>`;
}

/** A question with an id and a time of its own; those of one that was lost, where it is the same. */
function named(question, lost) {
  const said = JSON.stringify(question);
  if (lost.current?.said !== said) lost.current = { said, body: { ...question, request_id: newId(), at: byOwnClock(new Date()) } };
  return lost.current.body;
}

const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) => one.toString(16).padStart(2, "0")).join("");

function Recalled({ id, found }) {
  const { freshness } = found;
  return html`<section class="answer"><h3>What memory gives for a prompt</h3>
    <p class="log">${plural(found.rows.length, "row")} · ${plural(found.tokens, "token")} · strategy ${found.strategy} · knows ${plural(found.known_session, "session")}
      ${freshness?.utterance_id && ` up to ${freshness.utterance_id}`}</p>
    <ul class="lines">${found.rows.map((row, place) => html`<li key=${place} class=${row.holds ? "" : "superseded"}>
      <b dir="auto">${row.speaker}</b><${Said} text=${row.text} /><span class="log">${day(row.at)}${row.is_memory ? " · memory" : ""}${row.holds ? "" : " · no longer holds"}</span></li>`)}</ul>
    ${found.left_out?.length > 0 && html`<h4>Found, but left out</h4><ul>${found.left_out.map((one, place) => html`<li key=${place}>
      ${one.utterance_ids.map((line) => html`<a href=${link(["c", id, "sessions"], { s: one.session, line })}><code>${line}</code></a> `)}
      <span class="log">${REASONS[one.reason]}</span></li>`)}</ul>`}</section>`;
}
