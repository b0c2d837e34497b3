// The conversations of the key's tenant, the last active first, with how much of each is in memory.

import { html, useEffect, useState } from "./htm-preact.mjs";
import { inConversation } from "./api.js";
import { useData, useReturns } from "./data.js";
import { PAGE, useConversations } from "./listed.js";
import { change, go, link } from "./route.js";
import { Empty, Fault, Known, Loading, plural } from "./ui.js";

const LOOK_THROUGH = 200;

export function Conversations({ params }) {
  const returns = useReturns();
  const { items: all, next, loading, error, more, reload } = useConversations(returns);
  const wanted = (params.q || "").toLowerCase();
  const shown = all.filter((one) => one.conversation_id.toLowerCase().includes(wanted));
  const looking = Boolean(wanted && next && shown.length < PAGE); // a search is one of all, not of those that are listed
  useEffect(() => {
    if (looking && !loading && !error) more(LOOK_THROUGH);
  }, [looking, next, loading, error]);
  const [entered, setEntered] = useState(false);
  const waits = !error && (looking || loading); // Enter chooses from what is found, which is not all there yet
  useEffect(() => {
    if (!entered || waits) return;
    setEntered(false);
    const one = shown.length === 1 ? shown[0].conversation_id : params.q;
    if (one) go(["c", one]);
  }, [entered, waits]);
  const search = (event) => {
    event.preventDefault();
    setEntered(true);
  };
  const type = (event) => {
    setEntered(false);
    change({ q: event.target.value }, { replace: true });
  };
  return html`<section class="sheet">
    <div class="head"><h1>Conversations</h1>
      <form role="search" onSubmit=${search}><input type="search" aria-label="Search ids; Enter opens one" placeholder="Search ids; Enter opens one"
        value=${params.q || ""} onInput=${type} /></form></div>
    ${error && html`<${Fault} error=${error} retry=${reload} />`}
    ${loading && !all.length && html`<${Loading} what="conversations" />`}
    ${!waits && !error && !all.length && html`<${Empty} title="Nothing is remembered yet">Send an utterance: <code>POST /v1/conversations/ann/events</code>,
      or play the bundled conversation with <code>eunoe demo --attach --no-workers</code>.<//>`}
    ${looking && html`<p class="quiet pad" role="status">Looking through all ids, the last active first …</p>`}
    ${all.length > 0 && !shown.length && !looking && html`<${Empty} title="No id holds this">Enter opens the conversation of exactly this id, if there is one.<//>`}
    <ul class="cards">${shown.map((one) => html`<${Item} key=${one.conversation_id} item=${one} returns=${returns} />`)}</ul>
    ${next && !looking && html`<p class="pad"><button onClick=${() => more(PAGE)} disabled=${loading}>More conversations</button></p>`}
  </section>`;
}

function Item({ item, returns }) {
  const { data: status, error, reload } = useData(inConversation(item.conversation_id), `${item.active} ${returns}`);
  useEffect(() => {
    const timer = error?.retryAfter ? setTimeout(reload, error.retryAfter * 1000) : 0;
    return () => clearTimeout(timer);
  }, [error]);
  return html`<li><a class="card" href=${link(["c", item.conversation_id])}>
    <strong dir="auto">${item.conversation_id}</strong>
    <span>${status ? sizes(status) : "…"}</span>
    <${Known} at=${item.active} word="active" />
  </a></li>`;
}

/** Sessions closed and remembered, and what is open, in a few words. */
export function sizes(status) {
  const behind = status.sessions - status.remembered;
  const open = status.open.reduce((sum, one) => sum + one.lines, 0);
  return [
    `${plural(status.sessions, "session")} closed`,
    behind > 0 ? `${behind} not in memory yet` : !status.sessions ? "" : status.segments === 0 ? "nothing of them is kept" : "all in memory",
    open ? `${plural(open, "line")} in ${plural(status.open.length, "open session")}` : "",
  ].filter(Boolean).join(" · ");
}
