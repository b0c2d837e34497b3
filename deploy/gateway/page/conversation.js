// One conversation: its progress, the tabs of its views, and the feed that refreshes what is open.

import { html, useEffect, useMemo, useRef, useState } from "./htm-preact.mjs";
import { follow, inConversation, snapshot } from "./api.js";
import { Ask } from "./ask.js";
import { sizes } from "./conversations.js";
import { useData, useReturns } from "./data.js";
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
const FEED_WAIT = 1500; // milliseconds: a feed that does not begin keeps nobody from reading
const SOON = 500; // milliseconds between the sessions of a feed and the refresh that shows them
const NEED_GATEWAY = ["ask", "why", "progress", "generations"];
const NAMES = Object.keys(VIEWS).filter((one) => !(snapshot && NEED_GATEWAY.includes(one)));
const FORMS = ["ask", "why"]; // what is typed there is the reader's, and stays: they read anew by themselves

export function Conversation({ id, view, params }) {
  const [version, setVersion] = useState(0);
  const [anew, setAnew] = useState(0); // of a memory that was derived again nothing is kept: something may be erased
  const [keys, setKeys] = useState(0);
  const [begun, setBegun] = useState(Boolean(snapshot)); // reads follow the feed's beginning: between them nothing is missed
  useEffect(() => {
    const another = () => setKeys((number) => number + 1);
    addEventListener("eunoe-key", another);
    return () => removeEventListener("eunoe-key", another);
  }, []);
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const begin = () => setBegun(true);
    const impatient = setTimeout(begin, FEED_WAIT);
    const refresh = () => setVersion((number) => number + 1);
    const soon = () => (timer = 0, refresh());
    const take = ({ event }) => {
      begin();
      if (event === "remembered") return (timer ||= setTimeout(soon, SOON)); // a feed that never rests must not put it off
      clearTimeout(timer);
      timer = 0;
      if (event === "ready" || event === "refused") return refresh();
      setAnew((number) => number + 1);
      return refresh();
    };
    follow(inConversation(id, "/remembered"), take, stop.signal).then(begin); // it ends where it is refused
    return () => (clearTimeout(timer), clearTimeout(impatient), stop.abort());
  }, [id, keys]);
  const kept = useMemo(() => ({}), [anew]); // what was read, for whoever comes back from another view
  const name = NAMES.includes(view) ? view : "memories";
  const status = useData(begun ? inConversation(id) : null, `${version} ${name} ${useReturns()}`);
  const View = VIEWS[name];
  const refused = status.error && status.error.status === 401; // one form for a key, and not one of each part
  return html`<section class="sheet wide">
    <div class="head"><h1 dir="auto">${id}</h1><p class="quiet" role="status">${status.data ? sizes(status.data) : ""}</p></div>
    <${Tabs} id=${id} name=${name} />
    <div role="tabpanel" id="panel" aria-labelledby=${`tab-${name}`} tabindex="-1">
      ${status.error && html`<${Fault} error=${status.error} retry=${status.reload} />`}
      ${!status.data && !status.error && html`<${Loading} what="the conversation" />`}
      ${status.data && !refused && html`<${View} key=${FORMS.includes(name) ? name : anew} id=${id} params=${params} status=${status.data} version=${version} anew=${anew} kept=${kept} />`}
    </div>
  </section>`;
}

function Tabs({ id, name }) {
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = NAMES[(NAMES.indexOf(name) + step + NAMES.length) % NAMES.length];
    go(["c", id, next]);
    document.getElementById(`tab-${next}`).focus();
  };
  const bar = useRef(null);
  useEffect(() => {
    // a narrow window does not show all of them; scrollIntoView would move the page, too
    const { offsetLeft, offsetWidth } = document.getElementById(`tab-${name}`);
    bar.current.scrollLeft = offsetLeft - bar.current.offsetLeft - (bar.current.clientWidth - offsetWidth) / 2;
  }, [name]);
  return html`<div class="tabs" ref=${bar} role="tablist" aria-label="Views" onKeyDown=${move}>
    ${NAMES.map((one) => html`<a role="tab" id=${`tab-${one}`} href=${link(["c", id, one])} aria-selected=${one === name}
      aria-controls="panel" tabindex=${one === name ? 0 : -1}>${one}</a>`)}
  </div>`;
}
