// Dead letters: what could not be taken in, why, and what to do with it.

import { html, useState } from "./htm-preact.mjs";
import { post, withQuery } from "./api.js";
import { useData, useReturns } from "./data.js";
import { change, go, link } from "./route.js";
import { Confirm, Empty, Fault, Known, Shown, plural } from "./ui.js";

export function Letters({ id, params }) {
  const closed = params.closed === "1";
  const [version, setVersion] = useState(0);
  const list = useData(withQuery("v1/dead-letters", { limit: 200, closed: closed ? "true" : "", conversation_id: params.c }), `${version} ${useReturns()}`);
  return html`<section class="sheet wide"><div class="head"><h1>Dead letters</h1>
      <p class="quiet">Records that a stage could not decode, decide or send. Everything else went on without them.</p></div>
    <p class="tools"><label><input type="checkbox" checked=${closed} onChange=${() => change({ closed: closed ? undefined : 1 })} /> resolved ones too</label></p>
    <${Shown} of=${list} what="dead letters">${({ letters, more }) => html`<div class=${id ? "split" : ""} onKeyDown=${(event) => id && closes(event) && go(["letters"], params)}><div>
      ${!letters.length && html`<${Empty} title="None">Every record was taken in${closed ? "" : ", or its letter is resolved"}.<//>`}
      ${more && html`<p class="quiet">The latest 200 are shown; <code>eunoe dead-letters list</code> has all.</p>`}
      <ul class="cards">${[...letters].reverse().map((one) => html`<li key=${one.id}><a class="card" aria-current=${one.id === id ? "true" : undefined} href=${link(["letters", one.id], params)}>
        <strong>${one.letter.reason.replace(/_/g, " ")}</strong> <span class="log">at ${one.letter.stage}</span>
        ${one.letter.key && html`<code dir="auto" title=${one.letter.key}>${conversationOf(one.letter.key) ?? one.letter.key}</code>`}
        ${one.closed && html`<span class="status current">${one.closed}</span>`}
        <span class="clip" dir="auto">${one.letter.error}</span><${Known} at=${one.letter.log_time} word="logged" /></a></li>`)}</ul></div>
      ${id && html`<${Letter} key=${id} id=${id} params=${params} done=${() => setVersion((number) => number + 1)} />`}</div>`}<//></section>`;
}

/** Whether a key closes what is open: in a question, Escape answers that. */
const closes = (event) => event.key === "Escape" && !event.target.closest("dialog");

/** The conversation that a key names: tenant and id, percent-encoded. Null for any other key. */
function conversationOf(key) {
  const [, id, ...more] = (key || "").split("/");
  try {
    return id && !more.length ? decodeURIComponent(id) : null;
  } catch {
    return null;
  }
}

function Letter({ id, params, done }) {
  const path = `v1/dead-letters/${encodeURIComponent(id)}`;
  const [version, setVersion] = useState(0);
  const data = useData(path, version);
  const [asking, setAsking] = useState(null);
  const [{ error, busy }, setState] = useState({ error: null, busy: false });
  const act = async (what) => {
    setAsking(null);
    setState({ error: null, busy: true });
    const error = await post(`${path}/${what}`).then(() => null, (fault) => fault);
    setState({ error, busy: false });
    setVersion((number) => number + 1); // where the answer was lost, too: the letter says what became of it
    done();
  };
  return html`<aside class="panel" aria-label="The dead letter"><a class="close" href=${link(["letters"], params)} aria-label="Close">×</a>
    <${Shown} of=${data} what="the letter">${(found) => html`<h3>${found.letter.reason.replace(/_/g, " ")}</h3>
      <p dir="auto">${found.letter.error}</p>
      <dl><dt>stage</dt><dd>${found.letter.stage}, ${plural(found.letter.attempts, "attempt")}</dd>
        <dt>record</dt><dd><code>${found.letter.topic}/${found.letter.partition}@${found.letter.offset}</code></dd>
        ${conversationOf(found.letter.key) !== null && html`<dt>conversation</dt><dd><a href=${link(["c", conversationOf(found.letter.key)])} dir="auto">${conversationOf(found.letter.key)}</a></dd>`}
        <dt>key</dt><dd><code dir="auto">${found.letter.key || "none"}</code></dd>
        <dt>state</dt><dd>${found.closed || "open"}</dd></dl>
      <h4>Its bytes, ${found.letter.size.toLocaleString("en")}${found.letter.truncated ? ", of which the first are kept" : ""}</h4>
      <pre class="context" dir="auto" tabindex="0">${decoded(found.value)}</pre>
      ${error && html`<${Fault} error=${error} />`}
      ${!found.closed && html`<menu><button class="main" disabled=${busy || !found.retryable} onClick=${() => setAsking("retry")}>Retry …</button><button disabled=${busy} onClick=${() => setAsking("discard")}>Discard …</button></menu>`}
      ${!found.closed && found.obstacle && html`<p class="log">cannot be retried: ${found.obstacle}</p>`}`}<//>
    ${asking === "retry" && html`<${Confirm} title="Send it back to its stage?" action="Retry" close=${(yes) => (yes ? act("retry") : setAsking(null))}>The record goes to the stage again, as it is. If the reason still holds, another dead letter follows.<//>`}
    ${asking === "discard" && html`<${Confirm} title="Mark it as resolved?" action="Discard" close=${(yes) => (yes ? act("discard") : setAsking(null))}>Nothing more happens with this record: what it says does not become memory. The letter stays in the log.<//>`}
  </aside>`;
}

function decoded(value) {
  const bytes = Uint8Array.from(atob(value || ""), (one) => one.charCodeAt(0));
  return new TextDecoder().decode(bytes).replace(/\u0000/g, "␀");
}
