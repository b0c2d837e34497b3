// How far the stages have come with a conversation, what they keep of it, and what is unfinished.

import { html } from "./htm-preact.mjs";
import { inConversation } from "./api.js";
import { useData, useReturns } from "./data.js";
import { Shown, plural } from "./ui.js";

export function Progress({ id, status, version }) {
  const state = useData(inConversation(id, "/state"), `${version} ${useReturns()}`);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Stages"><table><thead><tr><th scope="col">Stage</th><th scope="col">Sessions applied</th><th scope="col">Behind</th></tr></thead>
      <tbody>${Object.entries(status.applied).map(([stage, applied]) => html`<tr key=${stage}><th scope="row">${stage}</th>
        <td><meter min="0" max=${status.sessions || 1} value=${applied} aria-label=${`${stage}: ${applied} of ${status.sessions}`}></meter> ${applied} of ${status.sessions}</td>
        <td>${Math.max(0, status.sessions - applied) || "–"}</td></tr>`)}</tbody></table></div>
    <${Shown} of=${state} what="the state">${(found) => html`
      <h3>What is kept</h3>
      <div class="scroll" tabindex="0" role="region" aria-label="What is kept"><table><tbody>${Object.entries(found.stages).map(([stage, part]) => html`<tr key=${stage}><th scope="row">${stage}</th>
        <td>${Object.entries(part.tables).map(([table, number]) => `${table} ${number.toLocaleString("en")}`).join(" · ") || "–"}</td></tr>`)}</tbody></table></div>
      <h3>Decided offline</h3>
      ${found.decisions.length
        ? html`<table><thead><tr><th scope="col">Stage</th><th scope="col">Items</th><th scope="col">Offline</th></tr></thead><tbody>${found.decisions.map((one) => html`<tr key=${one.stage}><th scope="row">${one.stage}</th>
          <td>${one.items.toLocaleString("en")}</td><td>${one.items_offline.toLocaleString("en")} (${Math.round((100 * one.items_offline) / Math.max(1, one.items))} %)</td></tr>`)}</tbody></table>`
        : html`<p class="quiet">No model was asked: everything is decided by the offline rules.</p>`}
      <h3>Checks</h3>
      <ul><li>${found.index_findings.length ? `${plural(found.index_findings.length, "disagreement")} of the vector index` : "The vector index agrees with the state."}</li>
        <li>${found.unfinished.length ? `unfinished: ${found.unfinished.join("; ")}` : "No work is unfinished."}</li></ul>
      ${found.index_findings.length > 0 && html`<pre class="context" tabindex="0">${found.index_findings.slice(0, 50).join("\n")}</pre>`}
      <p class="log">digest <code>${found.digest}</code></p>`}<//>`;
}
