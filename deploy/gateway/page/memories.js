// Memories now, or as of the closing of a session; an opened one tells its evidence and its history.

import { html, useMemo } from "./htm-preact.mjs";
import { asOf, useMemories } from "./data.js";
import { change } from "./route.js";
import { Rows, useActive } from "./rows.js";
import { Empty, Fault, Known, Said, Status, Until, day, plural } from "./ui.js";
import { MemoryPanel } from "./history.js";

const FILTERS = { current: "hold", ended: "ended", all: "all" };
const HEIGHT = 58;

/** The memories that were noted at turns, beside the summaries of sessions. */
export function Insights(props) {
  return html`<${Memories} ...${props} origin="insight" />`;
}

const NONE = {
  insight: html`<${Empty} title="No insights">Insights are memories noted at a turn, while a session is open. <code>EUNOE_INTAKE__BLEND</code> says for which turns they are made.<//>`,
  undefined: html`<${Empty} title="Nothing is remembered yet">Memories are formed when a session closes: send <code>session_ended</code>, or wait for the idle time.<//>`,
};

export function Memories({ id, params, status, version, origin, kept }) {
  const sessions = status.applied.update;
  const { memories: all, more, error, reload } = useMemories(id, sessions, version, kept);
  const memories = useMemo(() => (origin ? all.filter((one) => one.origin === origin) : all), [all, origin]);
  const at = params.at === undefined ? sessions : Math.min(sessions, Number(params.at));
  const shown = useMemo(() => chosen(memories, at, params), [memories, at, params.status, params.q, params.by]);
  const speakers = useMemo(() => [...new Set(memories.map((one) => one.speaker))].sort(), [memories]);
  const [active, setActive] = useActive(shown, memoryOf);
  const open = params.m;
  if (!more && !error && !memories.length) return NONE[origin];
  return html`<div class=${open ? "split" : ""}>
    <div>
      <${Filters} params=${params} speakers=${speakers} />
      <${Slider} at=${at} sessions=${sessions} memories=${memories} />
      ${(!error || all.length > 0) && html`<p class="tools" role="status"><span>${plural(shown.length, "memory", "memories")}</span>
        ${more && html`<span class="log">older ones are loading: ${all.length.toLocaleString("en")} so far</span>`}</p>`}
      ${error && html`<${Fault} error=${error} retry=${reload} />`}
      ${!shown.length && !more && !error && html`<${Empty} title="None of these">Another filter, or a later date, shows more.<//>`}
      ${shown.length > 0 && html`<${Rows} rows=${shown} idOf=${memoryOf} height=${HEIGHT} label="Memories" active=${active} onActive=${setActive}
        onOpen=${(place) => change({ m: shown[place].memory_id })} onKey=${(event) => event.key === "Escape" && open && (change({ m: undefined }), true)}
        attrs=${(one) => ({ "data-open": one.memory_id === open ? "" : undefined })} row=${(one) => html`<${Row} memory=${one} />`} />`}
    </div>
    ${open && html`<${MemoryPanel} key=${open} id=${id} memory=${open} version=${version} close=${() => change({ m: undefined })} />`}
  </div>`;
}

const memoryOf = (one) => one.memory_id;

function Row({ memory }) {
  return html`<span class=${`what ${memory.status}`}><${Said} text=${memory.text} /></span>
    <span class="meta"><time datetime=${memory.at}>${day(memory.at)}</time> · <span dir="auto">${memory.speaker}</span>
      ${memory.origin !== "summary" && ` · ${memory.origin}`} ${memory.status !== "current" && html`<${Status} status=${memory.status} />`}
      <${Until} memory=${memory} />
      ${memory.reinforced.length > 0 && html`<span class="status current">said again</span>`}
      ${memory.suspected.length > 0 && !memory.ending && html`<span class="status suspected">perhaps contradicted</span>`}</span>`;
}

/** The memories of a filter, as of a session, the latest first. */
function chosen(memories, at, { status = "current", q = "", by = "" }) {
  const words = q.toLowerCase();
  const known = memories.map((one) => asOf(one, at)).filter(Boolean);
  return known.filter(
    (one) =>
      (status === "all" || (status === "current") === (one.status === "current")) &&
      (!by || one.speaker === by) &&
      (!words || one.text.toLowerCase().includes(words)),
  );
}

function Filters({ params, speakers }) {
  const status = params.status || "current";
  return html`<div class="tools">
    <div class="choice" role="group" aria-label="Which memories">${Object.entries(FILTERS).map(
      ([name, word]) => html`<button aria-pressed=${name === status} onClick=${() => change({ status: name === "current" ? undefined : name })}>${word}</button>`,
    )}</div>
    <input type="search" placeholder="Words in them" aria-label="Words in the memories" value=${params.q || ""}
      onInput=${(event) => change({ q: event.target.value }, { replace: true })} />
    <label>by <select value=${params.by || ""} onChange=${(event) => change({ by: event.target.value })}>
      <option value="">everyone</option>${speakers.map((one) => html`<option value=${one}>${one}</option>`)}</select></label>
  </div>`;
}

/** A slider over the closings of sessions: log time, since that is when memory learns. */
function Slider({ at, sessions, memories }) {
  if (sessions < 2) return null;
  const last = memories.find((one) => one.session <= at);
  const move = (event) => {
    const number = Number(event.target.value);
    change({ at: number >= sessions ? undefined : number }, { replace: true });
  };
  const told = at >= sessions ? "now" : at ? `after session ${at}` : "before the first session";
  return html`<div class="slider">
    <label for="as-of">As known</label>
    <input id="as-of" type="range" min="0" max=${sessions} value=${at} onInput=${move} aria-valuetext=${told} />
    <output for="as-of"><strong>${told}</strong> ${last && at < sessions && html`<${Known} at=${last.known_from} word="closed by" />`}</output>
  </div>`;
}
