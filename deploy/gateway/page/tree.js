// The tree of summaries: a level is fetched when it is opened, and only the rows in view are drawn.

import { html, useEffect, useMemo, useRef, useState } from "./htm-preact.mjs";
import { get, inConversation, withQuery } from "./api.js";
import { MemoryPanel } from "./history.js";
import { change } from "./route.js";
import { Rows, useActive } from "./rows.js";
import { Empty, Fault, Loading, Said, days, plural } from "./ui.js";

const ROOT = "root";
const KEPT = 40;

export function Tree({ id, params, status, version }) {
  const { children, failed, load } = useLevels(id, version);
  const open = useMemo(() => new Set((params.open || "").split(",").filter(Boolean)), [params.open]);
  const loadAll = () => [ROOT, ...open].forEach(load);
  useEffect(loadAll, [params.open, version]);
  const rows = useMemo(() => flat(children, open), [children, open]);
  const [active, setActive] = useActive(rows, nodeOf);
  const lost = [ROOT, ...open].find((node) => failed.has(node));
  const fault = lost && html`<${Fault} key=${lost} error=${failed.get(lost)} retry=${loadAll} />`;
  if (fault && !rows.length) return fault;
  if (!children.has(ROOT)) return html`<${Loading} what="the tree" />`;
  if (!rows.length && !status.applied.tree) return html`<${Empty} title="No tree yet">It grows when the first session is remembered.<//>`;
  if (!rows.length) return html`<${Empty} title="The tree is empty">It grows when a session brings memories.<//>`;
  const toggle = (row, wanted) => {
    const next = new Set(open);
    if (wanted) next.add(row.node.node_id);
    else next.delete(row.node.node_id);
    change({ open: [...next].slice(-KEPT).join(",") }, { replace: true });
  };
  const openRow = (place) => {
    const row = rows[place];
    if (row.leaf) change({ m: row.node.entry });
    else toggle(row, !row.open);
  };
  const keys = (event) => {
    const row = rows[active];
    if (!row) return false;
    if (event.key === "ArrowRight" && !row.leaf) return row.open ? setActive(active + 1) : toggle(row, true), true;
    if (event.key === "ArrowLeft") return row.open ? toggle(row, false) : setActive(rows.findIndex((one) => one.node.node_id === row.node.parent)), true;
    if (event.key === "Escape" && params.m) return change({ m: undefined }), true;
    return false;
  };
  const attrs = (row) => ({ "aria-level": row.level, "aria-expanded": row.leaf ? undefined : row.open, "aria-setsize": row.of, "aria-posinset": row.place });
  return html`<div class=${params.m ? "split" : ""}><div>${fault}
      <p class="tools"><span>${plural(leaves(children), "memory", "memories")} below ${plural(children.get(ROOT).length, "branch", "branches")}</span><span class="log">arrow keys open and close</span></p>
      <${Rows} rows=${rows} idOf=${nodeOf} height=${40} role="tree" rowRole="treeitem" label="Tree of memories" active=${active} onActive=${setActive} onOpen=${openRow} onKey=${keys} attrs=${attrs} row=${(one) => html`<${Row} row=${one} />`} />
    </div>
    ${params.m && html`<${MemoryPanel} key=${params.m} id=${id} memory=${params.m} version=${version} close=${() => change({ m: undefined })} />`}
  </div>`;
}

const nodeOf = (row) => row.node.node_id;
const leaves = (children) => children.get(ROOT).reduce((sum, one) => sum + (one.descendants || 1), 0);

function Row({ row: { node, level, leaf, open } }) {
  return html`<span class="node" style=${{ paddingLeft: `${(level - 1) * 18}px` }}>
    <span class="twist" aria-hidden="true">${leaf ? "·" : open ? "▾" : "▸"}</span>
    <span class=${`what ${node.ended ? "superseded" : ""} ${leaf ? "" : "inner"}`}><${Said} text=${node.text || "(not summed up yet)"} /></span>
    <span class="meta">${!leaf && plural(node.descendants, "memory", "memories")} ${node.first_at && days(node.first_at, node.last_at)}</span></span>`;
}

function without(map, key) {
  const rest = new Map(map);
  rest.delete(key);
  return rest;
}

/** The rows of all opened nodes, in the order of a walk. */
function flat(children, open) {
  const rows = [];
  const walk = (id, level) => {
    const below = children.get(id) || [];
    below.forEach((node, at) => {
      const leaf = node.entry !== null;
      const isOpen = !leaf && open.has(node.node_id);
      rows.push({ node, level, leaf, open: isOpen, place: at + 1, of: below.length });
      if (isOpen) walk(node.node_id, level + 1);
    });
  };
  walk(ROOT, 1);
  return rows;
}

/** Node → its children, fetched once for each version of the memory; and the errors of those that did not come. */
function useLevels(id, version) {
  const [state, setState] = useState({ children: new Map(), failed: new Map() });
  const asked = useRef(new Set());
  const known = useRef(new Map()); // node → version: an answer that comes late takes no place of a later one
  useEffect(() => {
    asked.current = new Set();
  }, [id, version]);
  const load = (node) => {
    if (asked.current.has(node)) return;
    asked.current.add(node);
    const own = asked.current;
    const take = (change) => {
      if (known.current.get(node) > version) return;
      known.current.set(node, version);
      setState(change);
    };
    get(withQuery(inConversation(id, "/tree"), { node })).then(
      (found) => take(({ children, failed }) => ({ children: new Map(children).set(node, found.children), failed: without(failed, node) })),
      (error) => {
        own.delete(node);
        take((old) => ({ ...old, failed: new Map(old.failed).set(node, error) }));
      },
    );
  };
  return { ...state, load };
}
