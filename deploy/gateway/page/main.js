// The frame of the page: the bar at the top, and the view that the address names.

import { html, render, useEffect, useState } from "./htm-preact.mjs";
import { hasKey, snapshot, takeKey } from "./api.js";
import { Conversation } from "./conversation.js";
import { Conversations } from "./conversations.js";
import { Letters } from "./letters.js";
import { Processes } from "./processes.js";
import { link, useRoute } from "./route.js";
import { KeyForm, day, leave } from "./ui.js";

function Page() {
  const route = useRoute();
  const [, redraw] = useState(0);
  useEffect(() => {
    const again = () => redraw((number) => number + 1);
    addEventListener("eunoe-key", again);
    return () => removeEventListener("eunoe-key", again);
  }, []);
  const [kind, id] = route.parts;
  const named = kind === "c" && id ? id : { letters: "dead letters", processes: "processes" }[kind] || "";
  useEffect(() => {
    document.title = named ? `${named} – eunoe` : "eunoe";
  }, [named]);
  return html`<a class="skip" href="#main" onClick=${toMain}>Skip to the content</a>
    <header class="bar">
      <a class="home" href=${link([])}><span class="mark" aria-hidden="true"></span>eunoe</a>
      ${named && html`<span class="crumb" aria-hidden="true">/</span><span class="where" dir="auto">${named}</span>`}
      <nav aria-label="Page">
        ${snapshot
          ? html`<span class="log">as of ${day(snapshot.written)}</span>`
          : html`<a href=${link([])}>Conversations</a><a href=${link(["processes"])}>Processes</a><a href=${link(["letters"])}>Dead letters</a>
              ${hasKey() && html`<button class="plain" onClick=${leave}>Forget key</button>`}`}
      </nav>
    </header>
    <main id="main" tabindex="-1">${hasKey() ? view(route) : html`<${KeyForm} why="Memory is for those who hold a key." />`}</main>`;
}

function view({ parts: [kind, id, name], params }) {
  if (snapshot) return html`<${Conversation} id=${snapshot.conversation} view=${name} params=${params} />`;
  if (kind === "c" && id) return html`<${Conversation} key=${id} id=${id} view=${name} params=${params} />`;
  if (kind === "letters") return html`<${Letters} id=${id} params=${params} />`;
  if (kind === "processes") return html`<${Processes} />`;
  return html`<${Conversations} params=${params} />`;
}

function toMain(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

takeKey();
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#key=")) {
    takeKey();
    dispatchEvent(new Event("eunoe-key"));
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
});
if (snapshot && !location.hash) location.hash = link(["c", snapshot.conversation]);
const root = document.getElementById("page");
root.replaceChildren();
render(html`<${Page} />`, root);
