// Why a reply says what it says: its lines, the memories behind them, the operations that made or ended these.

import { html } from "./htm-preact.mjs";
import { inConversation, withQuery } from "./api.js";
import { useData } from "./data.js";
import { History } from "./history.js";
import { change, link, useTyped } from "./route.js";
import { Quote } from "./sessions.js";
import { At, Empty, Known, MadeBy, Said, Shown, Status, plural } from "./ui.js";

export function Why({ id, params, anew }) {
  const find = (event) => {
    event.preventDefault();
    change({ reply: event.target.elements.reply.value.trim(), at: undefined });
  };
  return html`<form class="tools" onSubmit=${find}><label class="grow">Reply <input name="reply" size="40" ...${useTyped(params.reply || "")} placeholder="reply_id" /></label><button>Why?</button></form>
    ${params.reply
      ? html`<${Explained} key=${anew} id=${id} reply=${params.reply} at=${params.at} />`
      : html`<${Empty} title="Which reply?">Ask something, follow “why?” in a transcript, or paste the <code>reply_id</code> that came with the reply.<//>`}`;
}

export function Explained({ id, reply, at, brief = false }) {
  const data = useData(withQuery(inConversation(id, `/replies/${encodeURIComponent(reply)}/why`), { at }));
  if (data.error?.status === 404) {
    return html`<${Empty} title="No reasons are kept for this reply">Those of eunoe's own replies are kept for a week; imported replies, and those of another assistant, have none. What it cited stands in the transcript; its memories are in “memories”.<//>`;
  }
  return html`<${Shown} of=${data} what="the reasons">${(found) => html`
    <${ReplyCard} reply=${found.reply} />
    <${Cited} id=${id} found=${found} />
    <${Behind} id=${id} found=${found} brief=${brief} />
    <${NotCited} id=${id} found=${found} />
    <${LeftOut} id=${id} found=${found} />
    <details><summary>The memory as it stood in the prompt</summary><${Context} found=${found} /></details>`}<//>`;
}

/** The reply itself, with what it knew. */
function ReplyCard({ reply }) {
  return html`<section class="answer"><blockquote class="big"><${Said} text=${reply.text || reply.error || "(no text)"} /></blockquote>
    <p class="log">${reply.speaker} · strategy ${reply.strategy} · ${plural(reply.context_tokens, "token")} of memory · knew ${plural(reply.known_session, "session")}
      ${reply.freshness?.at && html`, up to <${At} at=${reply.freshness.at} />`}</p>
    <p><${MadeBy} by=${reply.made_by} /></p></section>`;
}

/** The prompt's memory, row by row; the rows that the reply cites are marked. */
function Context({ found }) {
  const cited = found.lines.filter((one) => one.cited && one.line).map((one) => one.line.text);
  const rows = (found.reply.context || "(none)").split("\n");
  const isCited = (row) => cited.some((text) => row.endsWith(text));
  return html`<pre class="context" tabindex="0">${rows.map((row, at) => html`<span key=${at} dir="auto" class=${isCited(row) ? "marked" : ""}>${`${row}\n`}</span>`)}</pre>`;
}

function Cited({ id, found }) {
  const cited = found.lines.filter((one) => one.cited);
  return html`<h3>It cites ${plural(cited.length, "utterance")}</h3>
    ${!cited.length && html`<p class="quiet">The reply names no utterance: it may say that memory holds nothing, or come from the dialogue alone.</p>`}
    ${cited.map((one) => one.line
      ? html`<${Quote} key=${one.utterance_id} id=${id} line=${one.line} session=${one.session} />`
      : html`<p key=${one.utterance_id}><code>${one.utterance_id}</code> <span class="log">is in no remembered session</span></p>`)}`;
}

/** The memories behind the cited lines, with what made and ended them. */
function Behind({ id, found, brief }) {
  const behind = found.memories.filter((one) => one.cited);
  const title = behind.length ? `Behind these: ${plural(behind.length, "memory", "memories")}` : "No memory rests on these lines";
  return html`<h3>${title}</h3>
    ${!behind.length && html`<p class="quiet">The reply was shown the utterances themselves; nothing of them became a memory of its own.</p>`}
    ${behind.map((one) => html`<article class="because" key=${one.memory.memory_id}>
      <h4><${MemoryLink} id=${id} memory=${one.memory} /> <${Status} status=${one.status} /></h4>
      <p><${MadeBy} by=${one.memory.made_by} /></p>
      ${!brief && html`<p class="log">rests on ${one.memory.evidence.map((line) => line.utterance_id).join(", ")}</p>`}
      <${History} changes=${one.changes} own=${one.memory.memory_id} />
    </article>`)}`;
}

/** What was in the prompt and is not cited, with the memories that rest on it; those that no longer hold come first. */
function NotCited({ id, found }) {
  const rest = found.lines.filter((one) => !one.cited);
  const memories = found.memories.filter((one) => !one.cited);
  const ended = memories.filter((one) => one.status !== "current");
  const ordered = [...ended, ...memories.filter((one) => one.status === "current")];
  return html`<details><summary>Shown, but not cited: ${plural(rest.length, "utterance")}</summary>
      <ul class="lines">${rest.map((one) => html`<li key=${one.utterance_id}>${one.line
        ? html`<b dir="auto">${one.line.speaker}</b><${Said} text=${one.line.text} /><span class="log"><${At} at=${one.line.at} time=${false} /></span>`
        : html`<code>${one.utterance_id}</code>`}</li>`)}</ul></details>
    <details><summary>Memories that rest on these: ${memories.length}${ended.length > 0 && `, of which ${ended.length} no longer hold`}</summary>
      ${ordered.map((one) => html`<article class="because" key=${one.memory.memory_id}><h4><${MemoryLink} id=${id} memory=${one.memory} /> <${Status} status=${one.status} /></h4>
        ${one.changes.length > 0 ? html`<${History} changes=${one.changes} own=${one.memory.memory_id} />` : html`<p><${Known} at=${one.memory.known_from} /></p>`}</article>`)}</details>`;
}

export const REASONS = {
  budget: "too long for what was left of the budget",
  rank: "ranked below all that is shown",
  superseded: "no longer holds",
};

/** The best of what was found and is not in the prompt, with the reason. */
function LeftOut({ id, found: { left_out: parts } }) {
  if (!parts.length) return null;
  return html`<details><summary>Found, but left out: the best ${parts.length}</summary>
    ${parts.map((one, place) => html`<article class="because left" key=${place}>
      <p><span class=${`status ${one.reason === "superseded" ? "superseded" : "left"}`}>${REASONS[one.reason]}</span></p>
      ${one.lines.map((line) => html`<${Quote} key=${line.utterance_id} id=${id} line=${line} session=${one.session} />`)}
      ${one.memories.map((memory) => html`<p key=${memory.memory_id}>${memory.ending ? "once the memory" : "the memory"} <${MemoryLink} id=${id} memory=${memory} /></p>`)}
    </article>`)}</details>`;
}

function MemoryLink({ id, memory }) {
  return html`<a href=${link(["c", id, "memories"], { m: memory.memory_id, status: "all" })}><${Said} text=${memory.text} /></a>`;
}
