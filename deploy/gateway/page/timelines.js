// Timelines: groups of linked memories. One is opened at a time, in lanes over time or as a table.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./htm-preact.mjs";
import { get, inConversation, withQuery } from "./api.js";
import { useData, useTimeline } from "./data.js";
import { MemoryPanel } from "./history.js";
import { curve, densities, monthRules, placeLanes } from "./lanes.js";
import { change } from "./route.js";
import { Rows, useActive } from "./rows.js";
import { Empty, Fault, Loading, Said, Shown, Status, day, plural } from "./ui.js";

const STEPS = [18, 60, 200, 290];
const GAP = 90;
const LANE = 92;
const TOP = 34;
const OVERVIEW = 200;
const BARS = 120;
const ROWS = 200;

export function Timelines({ id, params, status, version }) {
  if (params.t) return html`<${One} key=${params.t} id=${id} params=${params} version=${version} />`;
  return html`<${All} id=${id} sessions=${status.applied.link} version=${version} />`;
}

function All({ id, sessions, version }) {
  const { roots, more, error, reload } = useTimelines(id, version);
  const [active, setActive] = useActive(roots, rootOf);
  const fault = error && html`<${Fault} error=${error} retry=${reload} />`;
  if (!roots.length && error) return fault;
  if (!roots.length && more) return html`<${Loading} what="timelines" />`;
  if (!roots.length) {
    return html`<${Empty} title="No memories are linked">A timeline begins when a memory of a later session is related to an earlier one.
      ${sessions < 2 ? " It takes two sessions." : " The offline rules link only what they are sure of; a language model finds more (OPENAI_BASE_URL)."}<//>`;
  }
  return html`${fault}<p class="tools" role="status">${plural(roots.length, "timeline")}, the longest first${more ? " …" : ""}</p>
    <${Rows} rows=${roots} idOf=${rootOf} height=${58} label="Timelines" active=${active} onActive=${setActive} onOpen=${(place) => change({ t: roots[place].root })}
      row=${(one) => html`<${Beginning} id=${id} one=${one} version=${version} />`} />`;
}

const rootOf = (one) => one.root;

/** A row of the list: its oldest memory is fetched as it comes into view. */
function Beginning({ id, one: { oldest, size }, version }) {
  const { data, error } = useData(inConversation(id, `/memories/${encodeURIComponent(oldest)}/history`), version);
  const found = data?.changes.find((each) => each.memory.memory_id === oldest)?.memory;
  return html`<span class="what"><${Said} text=${found ? found.text : error ? "(no answer)" : "…"} /></span>
    <span class="meta">${plural(size, "memory", "memories")}${found && ` · since ${day(found.at)}`}</span>`;
}

/** All timelines, page by page. */
function useTimelines(id, version) {
  const [state, setState] = useState({ roots: [], more: true, error: null });
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const known = new Map();
    const read = async () => {
      for (let after = 0; after !== null; ) {
        const page = await get(withQuery(inConversation(id, "/timelines"), { limit: 200, after_session: after }), stop.signal);
        for (const one of page.timelines) known.set(one.root, one);
        after = page.next;
        setState({ roots: [...known.values()].sort((one, other) => other.size - one.size), more: after !== null, error: null });
      }
    };
    read().catch((error) => error.name !== "AbortError" && setState((old) => ({ ...old, more: false, error })));
    return () => stop.abort();
  }, [id, version, tries]);
  return { ...state, reload: () => setTries((number) => number + 1) };
}

function One({ id, params, version }) {
  const data = useTimeline(id, params.t, version);
  const table = params.as === "table";
  return html`<p class="tools"><button onClick=${() => change({ t: undefined, m: undefined, as: undefined })}>← all timelines</button>
      <label><input type="checkbox" checked=${table} onChange=${() => change({ as: table ? undefined : "table" })} /> as a table</label></p>
    <${Shown} of=${data} what="the timeline">${(found) => html`
      <p class="quiet" role="status">${found.memories.length < found.size ? `${found.memories.length.toLocaleString("en")} of ` : ""}${plural(found.size, "memory", "memories")}, ${plural(found.edges.length, "link")}
        ${found.memories.length > 0 && ` · ${day(found.memories[0].at)} – ${day(found.memories[found.memories.length - 1].at)}`}</p>
      ${table ? html`<${Table} found=${found} />` : html`<${Lanes} found=${found} open=${params.m} />`}
      ${params.m && html`<${MemoryPanel} key=${params.m} id=${id} memory=${params.m} version=${version} close=${() => change({ m: undefined })} />`}`}<//>`;
}

/** Cards in lanes, of which those in the window are drawn; zoomed out they become dots. */
function Lanes({ found, open }) {
  const { memories, edges } = found;
  const box = useRef(null);
  const [zoom, setZoom] = useState(memories.length > 40 ? 1 : 3);
  const [view, setView] = useState({ left: 0, width: 1000 });
  const look = () => box.current && setView({ left: box.current.scrollLeft, width: box.current.clientWidth });
  useLayoutEffect(() => {
    look();
    const watch = new ResizeObserver(look);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const { lanes, count } = useMemo(() => placeLanes(memories, edges), [found]);
  const rank = useMemo(() => new Map(memories.map((one, at) => [one.memory_id, at])), [found]);
  const rules = useMemo(() => monthRules(memories), [found]);
  const step = STEPS[zoom];
  const cards = step >= 200;
  const lane = cards ? LANE : 40;
  const x = (at) => 20 + at * step;
  const y = (number) => TOP + number * lane + lane / 2;
  const place = (id, side) => ({ x: x(rank.get(id)) + (cards ? side * (step - GAP) : 10), y: y(lanes.get(id)) });
  const inView = (at, slack = step) => x(at) > view.left - slack && x(at) < view.left + view.width + slack;
  const first = Math.max(0, Math.floor((view.left - 20) / step) - 1);
  const shown = memories.slice(first, first + Math.ceil(view.width / step) + 3);
  const lines = edges.filter((edge) => {
    const [first, last] = [x(rank.get(edge.older)), x(rank.get(edge.newer))];
    return last > view.left - 50 && first < view.left + view.width + 50;
  });
  const keys = (event) => moveFocus(event, { memories, lanes, rank, box, x });
  const months = rules.filter(({ rank: at }, number) => inView(at, 400) && (number === 0 || (at - rules[number - 1].rank) * step > 8));
  return html`<div class="tools"><div class="choice" role="group" aria-label="Zoom">
      <button onClick=${() => setZoom(Math.max(0, zoom - 1))} disabled=${zoom === 0} aria-label="Zoom out">−</button>
      <button onClick=${() => setZoom(Math.min(3, zoom + 1))} disabled=${zoom === 3} aria-label="Zoom in">+</button></div><${Legend} edges=${edges} /></div>
    ${memories.length > OVERVIEW && html`<${Overview} memories=${memories} from=${(view.left - 20) / step} to=${(view.left + view.width) / step} go=${(at) => { box.current.scrollLeft = x(at) - view.width / 2; }} />`}
    <div class="lanes" ref=${box} onScroll=${look} onKeyDown=${keys} tabindex="0" role="group" aria-label="Timeline; arrow keys go from memory to memory">
      <div class="plane" style=${{ width: `${x(memories.length) + 40}px`, height: `${TOP + count * lane + 16}px` }}>
        ${months.map((rule) => html`<span key=${rule.month} class="month" style=${{ left: `${x(rule.rank) - 6}px` }}>${month(rule.month)}</span>`)}
        <svg class="edges" aria-hidden="true" style=${{ left: `${view.left}px` }} width=${view.width} height=${TOP + count * lane}>
          ${lines.map((edge) => html`<${Link} key=${`${edge.older} ${edge.newer}`} edge=${edge} from=${place(edge.older, 1)} to=${place(edge.newer, 0)} left=${view.left} label=${cards} />`)}
        </svg>
        ${shown.map((one) => html`<button key=${one.memory_id} data-id=${one.memory_id} title=${one.text} onClick=${() => change({ m: one.memory_id })}
          aria-label=${`${day(one.at)}: ${one.text}`} aria-current=${one.memory_id === open ? "true" : undefined}
          class=${`mem ${cards ? "cardlike" : "dot"} ${one.ending ? one.ending.status : "current"}`}
          style=${{ left: `${x(rank.get(one.memory_id))}px`, top: `${y(lanes.get(one.memory_id)) - (cards ? 38 : 10)}px`, width: `${cards ? step - GAP : 20}px` }}>
          ${cards && html`<span class="date">${day(one.at)}</span><${Said} text=${one.text} />`}</button>`)}
      </div>
    </div>`;
}

/** How many memories fall into each part of the time, and which part is in view; a click goes there. */
function Overview({ memories, from, to, go }) {
  const bars = useMemo(() => densities(memories.map((one) => Date.parse(one.at)), BARS), [memories]);
  const most = Math.max(...bars.map((bar) => bar.count));
  const jump = (event) => {
    const part = (event.clientX - event.currentTarget.getBoundingClientRect().left) / event.currentTarget.clientWidth;
    const bar = bars[Math.min(bars.length - 1, Math.floor(part * bars.length))];
    go(bar.rank + bar.count / 2);
  };
  return html`<div class="overview" aria-hidden="true" onClick=${jump}>
    ${bars.map((bar) => html`<span key=${bar.rank} class=${bar.rank < to && bar.rank + bar.count > from ? "in-view" : ""} title=${`${day(bar.at)}: ${plural(bar.count, "memory", "memories")}`}>
      <i style=${{ height: `${Math.max(6, Math.round((100 * bar.count) / most))}%` }}></i></span>`)}
  </div>`;
}

function month(text) {
  return new Intl.DateTimeFormat("en-GB", { month: "short", year: "numeric", timeZone: "UTC" }).format(new Date(`${text}-01T00:00:00Z`));
}

/** Along a lane with left and right, to the next lane with up and down. */
function moveFocus(event, { memories, lanes, rank, box, x }) {
  const id = event.target.dataset?.id;
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const side = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step && !side) return;
  event.preventDefault();
  const at = id ? rank.get(id) : -1;
  const lane = id ? lanes.get(id) + (side || 0) : 0;
  const inLane = memories.filter((one) => lanes.get(one.memory_id) === lane);
  const far = (one) => Math.abs(rank.get(one.memory_id) - at);
  const later = inLane.filter((one) => !step || (rank.get(one.memory_id) - at) * step > 0);
  const next = later.sort((one, other) => far(one) - far(other))[0];
  if (!next) return;
  const left = x(rank.get(next.memory_id));
  const { scrollLeft, clientWidth } = box.current;
  if (left < scrollLeft + 20 || left > scrollLeft + clientWidth - 200) box.current.scrollLeft = left - clientWidth / 2;
  requestAnimationFrame(() => requestAnimationFrame(() => box.current?.querySelector(`[data-id="${CSS.escape(next.memory_id)}"]`)?.focus()));
}

const relationClass = (relation) => `r-${relation.toLowerCase()}`;
const words = (relation) => relation.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();

function Link({ edge, from, to, left, label }) {
  const [start, end] = [{ x: from.x - left, y: from.y }, { x: to.x - left, y: to.y }];
  const name = `${words(edge.relation)}${edge.suspicion ? "?" : ""}`;
  return html`<g class=${`edge ${relationClass(edge.relation)} ${edge.suspicion ? "suspected" : ""}`}>
    <path d=${curve(start, end)} /><circle cx=${end.x} cy=${end.y} r="3.5" />
    ${label && html`<text x=${end.x - 8} y=${end.y - 7} text-anchor="end">${name}</text>`}</g>`;
}

function Legend({ edges }) {
  const present = [...new Set(edges.map((edge) => edge.relation))];
  return html`<ul class="legend" aria-label="Relations">${present.map((one) => html`<li key=${one} class=${relationClass(one)}>
    <svg width="34" height="10" aria-hidden="true"><g class=${`edge ${relationClass(one)}`}><path d="M2,5 L32,5" /></g></svg>${words(one)}</li>`)}</ul>`;
}

function Table({ found: { memories, edges } }) {
  const [most, setMost] = useState(ROWS);
  const texts = new Map(memories.map((one) => [one.memory_id, one.text]));
  const into = (id) => edges.filter((edge) => edge.newer === id && texts.has(edge.older));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="The timeline as a table"><table><thead><tr><th scope="col">When</th><th scope="col">Memory</th><th scope="col">Goes on from</th></tr></thead>
    <tbody>${memories.slice(0, most).map((one) => html`<tr key=${one.memory_id}><td>${day(one.at)}</td>
      <td><button class="plain text" onClick=${() => change({ m: one.memory_id })}><${Said} text=${one.text} /></button> ${one.ending && html`<${Status} status=${one.ending.status} />`}</td>
      <td>${into(one.memory_id).map((edge) => html`<p key=${edge.older}><em>${words(edge.relation)}${edge.suspicion ? "?" : ""}</em> <${Said} text=${texts.get(edge.older)} />
        ${edge.explanation && html`<span class="log"> ${edge.explanation}</span>`}</p>`)}</td></tr>`)}</tbody></table></div>
    ${memories.length > most && html`<p class="pad"><button onClick=${() => setMost(most + ROWS)}>More rows: ${plural(memories.length - most, "memory", "memories")} left</button></p>`}`;
}
