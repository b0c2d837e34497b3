// Sessions by day; an opened one shows its topic segments as bands, as they were said or denoised.

import { html, useEffect, useRef, useState } from "./htm-preact.mjs";
import { inConversation, snapshot, withQuery } from "./api.js";
import { useData } from "./data.js";
import { change, link } from "./route.js";
import { At, Empty, Known, LongSaid, MadeBy, Said, Shown, days, minute, plural } from "./ui.js";

const PAGE = 50;

export function Sessions({ id, params, status, version }) {
  const last = Math.ceil(status.sessions / PAGE) - 1;
  const page = params.page !== undefined ? Number(params.page) : params.s ? pageOf(params.s) : Math.max(0, last);
  const toggle = (session, open) => change({ s: open ? undefined : session, page: page === last ? undefined : page, line: undefined });
  const list = useData(withQuery(inConversation(id, "/sessions"), { limit: PAGE, after_session: page * PAGE }), version);
  if (!status.sessions && !status.open.length) {
    return html`<${Empty} title="No session yet">A session begins with its first utterance, and is closed by its client or after some idle time.<//>`;
  }
  return html`<${Shown} of=${list} what="sessions">${({ sessions }) => html`
    <${Pages} page=${page} last=${last} />
    <ol class="sessions" reversed>
      ${page === Math.max(0, last) && [...status.open].reverse().map((one) => html`<${Open} key=${one.last_utterance_id} id=${id} item=${one} />`)}
      ${[...sessions].reverse().map((one) => html`<${Session} key=${one.session} id=${id} item=${one} open=${String(one.session) === params.s} toggle=${toggle} version=${version} />`)}
    </ol>`}<//>`;
}

const pageOf = (session) => Math.floor((session - 1) / PAGE);

function Pages({ page, last }) {
  if (last < 1) return null;
  const to = (number) => change({ page: number, s: undefined });
  return html`<nav class="pages" aria-label="Pages of sessions">
    <button disabled=${page >= last} onClick=${() => to(page + 1)}>Newer</button>
    <span>sessions ${page * PAGE + 1} and on</span>
    <button disabled=${page <= 0} onClick=${() => to(page - 1)}>Older</button>
  </nav>`;
}

function Session({ id, item, open, toggle, version }) {
  const when = item.first_at ? days(item.first_at, item.last_at) : item.status === "remembered" ? "nothing is kept" : item.status;
  const own = useRef(null);
  useEffect(() => open && own.current.scrollIntoView(), []); // a link leads to it, however many are above
  return html`<li class=${open ? "open" : ""} ref=${own}>
    <button class="opener" aria-expanded=${open} onClick=${() => toggle(item.session, open)}>
      <strong>${when}</strong>
      <span>session ${item.session}${item.lines ? ` · ${plural(item.lines, "line")} · ${plural(item.segments, "segment")}` : ""}</span>
      ${item.status !== "remembered" && html`<span class="status retired">${item.status}</span>`}
      ${item.session_id && html`<code dir="auto">${item.session_id}</code>`}
    </button>
    ${open && html`<${Opened} id=${id} session=${item.session} version=${version} />`}
  </li>`;
}

function Opened({ id, session, version }) {
  const [denoised, setDenoised] = useState(false);
  const data = useData(inConversation(id, `/sessions/${session}`), version);
  return html`<${Shown} of=${data} what="the session">${(found) => html`<div class="segments">
    <p class="tools"><label><input type="checkbox" checked=${denoised} onChange=${() => setDenoised(!denoised)} /> denoised, as retrieval reads it</label>
      ${found.segments[0] && html`<${Known} at=${found.segments[0].known_from} />`}
      ${found.missing.length > 0 && html`<span class="log">not applied yet: ${found.missing.join(", ")}</span>`}</p>
    ${!found.segments.length && html`<p class="quiet">${found.missing.length
      ? "Its segments are not there yet; the stages are at work, or it was skipped (see dead letters)."
      : "Nothing is kept of it: it was erased, or skipped (see dead letters)."}</p>`}
    ${found.segments.map((one) => html`<section class="segment" key=${one.segment_id} aria-label=${`segment ${one.index + 1}`}>
      <h3>segment ${one.index + 1}</h3>
      ${denoised ? html`<p class="denoised"><${LongSaid} text=${one.denoised || "(nothing is left)"} /></p>` : html`<${Lines} id=${id} lines=${one.lines} />`}
      ${denoised && html`<${MadeBy} by=${one.made_by} />`}
    </section>`)}
  </div>`}<//>`;
}

function Open({ id, item }) {
  const name = item.session_id ? `id:${item.session_id}` : "open";
  const [shown, setShown] = useState(false);
  const data = useData(shown ? inConversation(id, `/sessions/${encodeURIComponent(name)}`) : null, item.lines);
  return html`<li class=${shown ? "open" : ""}>
    <button class="opener" aria-expanded=${shown} onClick=${() => setShown(!shown)}>
      <strong>open now</strong><span>${plural(item.lines, "line")} · no number yet</span>
      ${item.session_id && html`<code dir="auto">${item.session_id}</code>`}<${Known} at=${item.active} word="last spoken in" />
    </button>
    ${shown && html`<div class="segments"><section class="segment"><${Shown} of=${data} what="the session">${(found) =>
      html`<${Lines} id=${id} lines=${found.lines} />`}<//></section></div>`}
  </li>`;
}

/** The lines of a transcript; a reply leads to its reasons. */
export function Lines({ id, lines, cited = () => false }) {
  const wanted = new URLSearchParams(location.hash.split("?")[1]).get("line");
  const led = useRef(null); // where a link led: once, and not again at each refresh
  useEffect(() => {
    const found = wanted !== led.current && document.getElementById(`line-${wanted}`);
    if (found) found.scrollIntoView({ block: "center" });
    if (found) led.current = wanted;
  }, [lines, wanted]);
  return html`<ul class="lines">${lines.map((line) => html`<li key=${line.utterance_id} id=${`line-${line.utterance_id}`}
    class=${`${line.reply_id ? "reply" : ""} ${cited(line) || line.utterance_id === wanted ? "cited" : ""}`}>
    <b dir="auto">${line.speaker}</b><${LongSaid} text=${line.text} />
    ${line.reply_id && !snapshot && html`<a class="why" href=${link(["c", id, "why"], { reply: line.reply_id, at: line.at })}>why this reply?</a>`}
    <span class="log" title=${line.at}>${minute(line.at)}</span>
  </li>`)}</ul>`;
}

/** A cited line as a link to its place in its session. */
export function Quote({ id, line, session }) {
  const said = html`<b dir="auto">${line.speaker}</b> <${Said} text=${line.text.length > 400 ? `${line.text.slice(0, 400)} …` : line.text} />`;
  return html`<blockquote>${said}<footer><${At} at=${line.at} />
    ${session && html` · <a href=${link(["c", id, "sessions"], { s: session, line: line.utterance_id })}>in session ${session}</a>`}
    ${line.utterance_id && html` <code>${line.utterance_id}</code>`}</footer></blockquote>`;
}
