// Two generations of a conversation side by side: what a rebuild changed.

import { html, useState } from "./htm-preact.mjs";
import { inConversation, withQuery } from "./api.js";
import { useData, useReturns } from "./data.js";
import { change } from "./route.js";
import { Empty, Said, Shown, day, plural } from "./ui.js";

const PARTS = [
  ["only_old", "only in the old one"],
  ["changed", "in both, changed"],
  ["same", "in both, the same"],
  ["only_new", "only in the new one"],
];

export function Generations({ id, params, version }) {
  const list = useData("v1/generations", `${version} ${useReturns()}`);
  return html`<${Shown} of=${list} what="the generations">${({ generations }) => generations.length < 2
    ? html`<${Empty} title="There is one generation">A rebuild makes another beside it, for example <code>eunoe rebuild v2 --set link.associative=5</code>. Here you see what it changed, before you let it answer.<//>`
    : html`<${Compared} id=${id} params=${params} version=${version} known=${generations} />`}<//>`;
}

function Compared({ id, params, version, known }) {
  const live = known.find((one) => one.live) || known[0];
  const old = params.old || live.name;
  const fresh = [...known].reverse().find((one) => one.name !== old);
  const name = params.new || fresh.name;
  const data = useData(withQuery(inConversation(id, `/generations/${encodeURIComponent(name)}/diff`), { against: old, examples: 20 }), version);
  return html`<form class="tools" onSubmit=${(event) => event.preventDefault()}>
      <${Chooser} label="old" of=${known} name=${old} set=${(one) => change({ old: one })} />
      <${Chooser} label="new" of=${known} name=${name} set=${(one) => change({ new: one })} /></form>
    <${Made} one=${known.find((each) => each.name === name)} />
    <${Shown} of=${data} what="both generations">${(found) => html`<${Difference} found=${found} />`}<//>`;
}

function Chooser({ label, of, name, set }) {
  return html`<label>${label} <select value=${name} onChange=${(event) => set(event.target.value)}>
    ${of.map((one) => html`<option value=${one.name} selected=${one.name === name}>${one.name}${one.live ? " (answers now)" : ""}</option>`)}</select></label>`;
}

function Made({ one }) {
  if (!one?.made_at) return null;
  const changes = Object.entries(one.changes).map(([name, value]) => `${name} = ${value}`);
  return html`<p class="log">${one.name} was built on ${day(one.made_at)} from ${one.source}, ${one.state}${changes.length ? " with " : ", with the same settings"}${changes.map((text) => html`<code>${text}</code> `)}</p>`;
}

function Difference({ found }) {
  const behind = found.sessions[0] !== found.sessions[1];
  return html`<p class="verdict" role="status"><strong>${found.equal ? "Both are equal, to the last byte." : verdict(found)}</strong>
      ${behind && html` <span class="log">${found.old} has applied ${plural(found.sessions[0], "session")}, ${found.new} ${found.sessions[1]}</span>`}</p>
    <ul class="legend" aria-label="Parts">${PARTS.map(([part, words]) => html`<li key=${part}><span class=${`swatch ${part}`}></span>${words}</li>`)}</ul>
    ${found.kinds.filter((kind) => kind.old || kind.new).map((kind) => html`<${Kind} key=${kind.kind} kind=${kind} found=${found} />`)}
    <p class="log">tree: ${shape(found.trees[0])} → ${shape(found.trees[1])}</p>`;
}

function verdict({ kinds }) {
  const changed = kinds.filter((kind) => kind.only_old || kind.only_new || kind.changed);
  return changed.length ? `They differ in ${changed.map((kind) => kind.kind).join(", ")}.` : "They differ in details that are not compared here, as explanations and vectors.";
}

const shape = (tree) => `${plural(tree.nodes, "node")}, depth ${tree.depth}`;

function Kind({ kind, found }) {
  const counts = { ...kind, same: kind.old - kind.only_old - kind.changed };
  const all = Math.max(1, ...[counts.only_old + counts.changed + counts.same + counts.only_new]);
  const told = PARTS.map(([part, words]) => `${counts[part]} ${words}`).join(", ");
  return html`<section class="kind-diff"><h3>${kind.kind} <span class="log">${kind.old.toLocaleString("en")} → ${kind.new.toLocaleString("en")}</span></h3>
    <div class="bar-parts" role="img" aria-label=${told}>${PARTS.filter(([part]) => counts[part]).map(([part, words]) => html`<span key=${part} class=${part} title=${`${counts[part]} ${words}`}
      style=${{ flexGrow: Math.max(counts[part], all / 25) }}>${counts[part].toLocaleString("en")}</span>`)}</div>
    ${kind.examples.length > 0 && html`<${Examples} kind=${kind} found=${found} />`}</section>`;
}

function Examples({ kind, found }) {
  const [all, setAll] = useState(false);
  const shown = all ? kind.examples : kind.examples.slice(0, 4);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`Differences in ${kind.kind}`}><table class="sides"><thead><tr><th scope="col">${found.old}</th><th scope="col">${found.new}</th></tr></thead>
      <tbody>${shown.map((one, at) => html`<tr key=${at}><td class=${one.new === null ? "only_old" : one.old === null ? "" : "changed"}>${one.old === null ? html`<span class="quiet">–</span>` : html`<${Said} text=${one.old} />`}</td>
        <td class=${one.old === null ? "only_new" : one.new === null ? "" : "changed"}>${one.new === null ? html`<span class="quiet">–</span>` : html`<${Said} text=${one.new} />`}</td></tr>`)}</tbody></table></div>
    ${kind.examples.length > 4 && html`<button class="plain" onClick=${() => setAll(!all)}>${all ? "fewer" : `${kind.examples.length} examples`}</button>`}`;
}
