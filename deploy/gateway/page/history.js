// One memory: what it rests on, who decided it, and its history with because and by.

import { html, useEffect, useRef } from "./htm-preact.mjs";
import { inConversation } from "./api.js";
import { useData } from "./data.js";
import { change, link } from "./route.js";
import { Quote } from "./sessions.js";
import { At, Known, MadeBy, Said, Shown, Status, Until, short } from "./ui.js";

export const KINDS = {
  added: "was formed",
  reinforced: "was said again",
  suspected: "is perhaps contradicted",
  superseded: "was superseded",
  retired: "ended",
};

export function MemoryPanel({ id, memory, version, close }) {
  const data = useData(inConversation(id, `/memories/${memory}/history`), version);
  const panel = useRef(null);
  useEffect(() => panel.current.scrollIntoView({ block: "nearest" }), []);
  return html`<aside class="panel" ref=${panel} aria-label="The memory" onKeyDown=${(event) => event.key === "Escape" && close()}>
    <button class="close" onClick=${close} aria-label="Close">×</button>
    <${Shown} of=${data} what="its history">${({ changes }) => {
      const own = (changes.find((one) => one.memory.memory_id === memory) || {}).memory;
      return html`${own && html`<${Memory} id=${id} memory=${own} />`}<h4>History</h4><${History} changes=${changes} own=${memory} />`;
    }}<//>
  </aside>`;
}

export function Memory({ id, memory }) {
  const status = memory.ending ? memory.ending.status : "current";
  return html`<h3><${Said} text=${memory.text} /></h3>
    <p><${Status} status=${status} /> <${At} at=${memory.at} time=${false} /> · <span dir="auto">${memory.speaker}</span> · from ${ORIGINS[memory.origin]}
      <${Until} memory=${memory} /></p>
    <p><${Known} at=${memory.known_from} /></p><p><${MadeBy} by=${memory.made_by} /></p>
    <h4>It rests on</h4>
    ${memory.evidence.map((line) => html`<${Quote} key=${line.utterance_id} id=${id} line=${line} session=${memory.session} />`)}
    <p><a href=${link(["c", id, "timelines"], { t: memory.memory_id })}>Its timeline</a></p>`;
}

const ORIGINS = { summary: "the summary of a session", insight: "an insight at a turn", fusion: "two memories merged" };

/** The changes of a memory, of those before it and those after it. */
export function History({ changes, own }) {
  return html`<ol class="history">${changes.map((one, place) => html`<li key=${place} class=${one.kind}>
    <p><span class="kind">${one.memory.memory_id === own ? "this" : html`<${Other} memory=${one.memory} />`} ${KINDS[one.kind]}</span>
      ${one.by && html` by ${one.by.memory_id === own ? "this" : html`<${Other} memory=${one.by} />`}`}</p>
    ${one.because && html`<p>because <${Said} text=${one.because} /></p>`}
    <p class="log">said <${At} at=${one.at} /> · session ${one.session}, <${Known} at=${one.known_from} word="closed" /></p>
  </li>`)}</ol>`;
}

function Other({ memory }) {
  return html`<button class="plain text" title=${short(memory.memory_id)} onClick=${() => change({ m: memory.memory_id })}>“<${Said} text=${memory.text} />”</button>`;
}
