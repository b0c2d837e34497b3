// The processes of the deployment: how far they are behind, how fresh memory is, what was decided offline.

import { html, useEffect, useState } from "./htm-preact.mjs";
import { useData } from "./data.js";
import { At, Empty, Shown, plural } from "./ui.js";

const EVERY_MS = 5000;
const ORDER = ["intake", "segment", "compress", "summarize", "update", "link", "tree", "blend", "respond", "erase"];

export function Processes() {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setVersion((number) => number + 1), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  const data = useData("v1/processes", version);
  return html`<section class="sheet wide"><div class="head"><h1>Processes</h1>
      <p class="quiet">What the workers say of themselves, every few seconds; counted since each started.</p></div>
    <${Shown} of=${data} what="the processes">${({ processes, silent_after_s: limit }) => processes.length
      ? html`<${Stages} processes=${processes} /><h3>${plural(processes.length, "process", "processes")}</h3>
          <ul class="cards">${processes.map((one) => html`<${Process} key=${one.status.name} item=${one} limit=${limit} />`)}</ul>`
      : html`<${Empty} title="No process is at work">What is said waits in the log until one is: <code>eunoe up</code>, or <code>eunoe worker all</code>.<//>`}<//></section>`;
}

function Process({ item: { status, age_s: age, silent }, limit }) {
  const state = silent ? "silent" : !status.live ? "stuck" : status.ready ? "at work" : "waits";
  const stages = Object.keys(status.stages).sort((one, other) => ORDER.indexOf(one) - ORDER.indexOf(other));
  return html`<li class="card still"><strong dir="auto">${status.name}</strong>
    <span class=${`status ${state === "at work" ? "current" : "superseded"}`}>${state}</span>
    <span class="log">generation ${status.generation} · since <${At} at=${status.started} /> · heard ${seconds(age)} ago</span>
    <span class="clip log">${stages.join(" · ")}</span>
    ${silent && html`<p class="clip">It wrote nothing for more than ${seconds(limit)}: it ended without a word, or cannot reach Redis.</p>`}
    ${!silent && status.why.map((one) => html`<p class="clip" dir="auto">${one}</p>`)}</li>`;
}

/** Sums over the processes that are heard; conversations that stand still are counted once, since all know them. */
function Stages({ processes }) {
  const heard = processes.filter((one) => !one.silent).map((one) => one.status.stages);
  const names = ORDER.filter((name) => heard.some((stages) => name in stages));
  const most = Math.max(1, ...names.map((name) => sum(of(heard, name), "lag")));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Stages"><table class="numbers"><thead><tr><th scope="col">Stage</th><th scope="col">Behind</th>
      <th scope="col">Oldest</th><th scope="col">Handled</th><th scope="col">Took: half · 19 of 20</th><th scope="col">Decided offline</th><th scope="col">Stand still</th><th scope="col">Dead letters</th></tr></thead>
    <tbody>${names.map((name) => html`<${Stage} key=${name} name=${name} parts=${of(heard, name)} most=${most} />`)}</tbody></table></div>`;
}

function Stage({ name, parts, most }) {
  const lag = sum(parts, "lag");
  const items = sum(parts, "items");
  const offline = sum(parts, "items_offline");
  const still = Math.max(...parts.map((one) => one.parked + one.held));
  return html`<tr><th scope="row">${name}</th>
    <td><meter min="0" max=${most} value=${lag} aria-label=${`${name}: ${lag} behind`}></meter> ${lag.toLocaleString("en")}</td>
    <td>${seconds(Math.max(...parts.map((one) => one.oldest_s)))}</td>
    <td>${sum(parts, "events").toLocaleString("en")}</td>
    <td><${Took} parts=${parts.map((one) => one.took).filter((one) => one.count)} what=${parts[0].answers ? "ask" : "session"} /></td>
    <td>${items ? `${offline.toLocaleString("en")} of ${items.toLocaleString("en")} (${Math.round((100 * offline) / items)} %)` : html`<span class="quiet">no model asked</span>`}</td>
    <td>${still || "–"}</td><td>${sum(parts, "dead_letters") || "–"}</td></tr>`;
}

function Took({ parts, what }) {
  if (!parts.length) return html`<span class="quiet">–</span>`;
  const bound = (name) => (parts.some((one) => one[name] === null) ? "longer" : `≤ ${seconds(Math.max(...parts.map((one) => one[name])))}`);
  return html`${bound("half_s")} · ${bound("most_s")} <span class="log">(${plural(sum(parts, "count"), what)})</span>`;
}

const of = (heard, name) => heard.map((stages) => stages[name]).filter(Boolean);
const sum = (parts, name) => parts.reduce((total, one) => total + one[name], 0);

function seconds(number) {
  if (number < 1) return number ? `${Math.round(number * 1000)} ms` : "0 s";
  if (number < 120) return `${Math.round(number)} s`;
  if (number < 7200) return `${Math.round(number / 60)} min`;
  return number < 172800 ? `${Math.round(number / 3600)} h` : plural(Math.round(number / 86400), "day");
}
