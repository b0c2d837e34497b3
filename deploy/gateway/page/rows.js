// A list of rows of one height that draws only those in view.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./htm-preact.mjs";

/** The row that the arrow keys move, as `[place, setPlace]`, −1 for none: it stays that row where others come before it. */
export function useActive(rows, idOf) {
  const [id, setId] = useState(null);
  const place = useMemo(() => (id === null ? -1 : rows.findIndex((one) => idOf(one) === id)), [rows, id]);
  return [place, (next) => setId(rows[next] ? idOf(rows[next]) : null)];
}

/**
 * Rows of one height, of which those in view are drawn. The list has the focus, and `active` is the row that the arrow
 * keys move; so focus survives that rows come and go. What is read stays in its place where rows come above it.
 */
export function Rows({ rows, idOf, height, active, onActive, onOpen, onKey, role = "listbox", rowRole = "option", label, row, attrs }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const read = useRef(null); // the first row in view, and how much of it is above
  const look = () => {
    if (!box.current) return;
    const { scrollTop: top, clientHeight } = box.current;
    const first = rows[Math.floor(top / height)];
    read.current = top > 0 && first ? { id: idOf(first), above: top % height } : null;
    setView({ top, height: clientHeight });
  };
  useLayoutEffect(() => {
    look();
    const watch = new ResizeObserver(look);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  useLayoutEffect(() => {
    const place = read.current ? rows.findIndex((one) => idOf(one) === read.current.id) : -1;
    if (place >= 0) box.current.scrollTop = place * height + read.current.above;
  }, [rows]);
  useLayoutEffect(() => {
    const { scrollTop, clientHeight } = box.current;
    const top = active * height;
    if (active < 0) return;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + height > scrollTop + clientHeight) box.current.scrollTop = top + height - clientHeight;
  }, [active]);
  useEffect(() => {
    const all = () => setView({ top: 0, height: rows.length * height }); // paper is not scrolled
    addEventListener("beforeprint", all);
    addEventListener("afterprint", look);
    return () => (removeEventListener("beforeprint", all), removeEventListener("afterprint", look));
  }, [rows]);
  const first = Math.max(0, Math.floor(view.top / height) - 6);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / height) + 6);
  const page = Math.max(1, Math.floor(view.height / height) - 1);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length };
  const key = (event) => {
    if (onKey && onKey(event)) return event.preventDefault();
    if (event.key in steps) onActive(Math.max(0, Math.min(rows.length - 1, Math.max(0, active) + steps[event.key])));
    else if ((event.key === "Enter" || event.key === " ") && active >= 0) onOpen(active);
    else return undefined;
    return event.preventDefault();
  };
  const id = (number) => `${label.replace(/\W/g, "-")}-${number}`;
  const inView = active >= first && active < last;
  return html`<div class="rows" ref=${box} role=${role} aria-label=${label} tabindex="0" onScroll=${look} onKeyDown=${key}
    aria-activedescendant=${inView ? id(active) : undefined}>
    <div class="spacer" role="presentation" style=${{ height: `${rows.length * height}px` }}>
      ${rows.slice(first, last).map(
        (one, at) => html`<div key=${idOf(one)} id=${id(first + at)} role=${rowRole} aria-posinset=${first + at + 1}
          aria-setsize=${rows.length} aria-selected=${first + at === active} class=${`row ${first + at === active ? "active" : ""}`}
          style=${{ top: `${(first + at) * height}px`, height: `${height}px` }} ...${attrs ? attrs(one) : {}}
          onClick=${() => (onActive(first + at), onOpen(first + at))}>${row(one)}</div>`,
      )}
    </div>
  </div>`;
}
