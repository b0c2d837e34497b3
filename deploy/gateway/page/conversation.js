// One conversation: its progress, the tabs of its views, and the feed that refreshes what is open.

import { html, useEffect, useState } from "./htm-preact.mjs";
import { follow, inConversation, snapshot } from "./api.js";
import { Ask } from "./ask.js";
import { sizes } from "./conversations.js";
import { useData } from "./data.js";
import { Generations } from "./generations.js";
import { Insights, Memories } from "./memories.js";
import { Progress } from "./progress.js";
import { go, link } from "./route.js";
import { Sessions } from "./sessions.js";
import { Timelines } from "./timelines.js";
import { Tree } from "./tree.js";
import { Fault, Loading } from "./ui.js";
import { Why } from "./why.js";

const VIEWS = { sessions: Sessions, memories: Memories, insights: Insights, timelines: Timelines, tree: Tree, ask: Ask, why: Why, progress: Progress, generations: Generations };
const NEED_GATEWAY = ["ask", "why", "progress", "generations"];

export function Conversation({ id, view, params }) {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const soon = () => {
      clearTimeout(timer);
      timer = setTimeout(() => setVersion((number) => number + 1), 500);
    };
    follow(inConversation(id, "/remembered"), soon, stop.signal);
    return () => (clearTimeout(timer), stop.abort());
  }, [id]);
  const status = useData(inConversation(id), version);
  const name = view in VIEWS ? view : "memories";
  const View = VIEWS[name];
  return html`<section class="sheet wide">
    <div class="head"><h1 dir="auto">${id}</h1><p class="quiet" role="status">${status.data ? sizes(status.data) : ""}</p></div>
    <${Tabs} id=${id} name=${name} />
    <div role="tabpanel" id="panel" aria-labelledby=${`tab-${name}`} tabindex="-1">
      ${status.error && html`<${Fault} error=${status.error} retry=${status.reload} />`}
      ${!status.data && !status.error && html`<${Loading} what="the conversation" />`}
      ${status.data && html`<${View} id=${id} params=${params} status=${status.data} version=${version} />`}
    </div>
  </section>`;
}

function Tabs({ id, name }) {
  const names = Object.keys(VIEWS).filter((one) => !(snapshot && NEED_GATEWAY.includes(one)));
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = names[(names.indexOf(name) + step + names.length) % names.length];
    go(["c", id, next]);
    document.getElementById(`tab-${next}`).focus();
  };
  return html`<div class="tabs" role="tablist" aria-label="Views" onKeyDown=${move}>
    ${names.map((one) => html`<a role="tab" id=${`tab-${one}`} href=${link(["c", id, one])} aria-selected=${one === name}
      aria-controls="panel" tabindex=${one === name ? 0 : -1}>${one}</a>`)}
  </div>`;
}
