// What is shown, as the fragment of the address: `#/c/<id>/<view>?…`. Every state can be shared as a link.

import { useEffect, useState } from "./htm-preact.mjs";

/** The parts of the fragment's path, unquoted, and its parameters. */
export function readRoute(hash) {
  const [, path, query = ""] = hash.match(/^#?([^?]*)\??(.*)$/s);
  const parts = path.split("/").filter(Boolean).map(unquoted);
  return { parts, params: Object.fromEntries(new URLSearchParams(query)) };
}

function unquoted(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(parts, params = {}) {
  const set = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = set.length ? `?${new URLSearchParams(set)}` : "";
  return `#/${parts.map(encodeURIComponent).join("/")}${query}`;
}

export function go(parts, params) {
  write();
  location.hash = link(parts, params);
}

const PACE = 100; // milliseconds: browsers refuse to change the address some two hundred times within ten seconds
let waits = null; // a state that the address does not say yet
let pace = 0;

addEventListener("hashchange", (event) => event.isTrusted && (waits = null)); // the reader went elsewhere

const shown = () => waits ?? location.hash;

function write() {
  pace = 0;
  if (waits === null) return;
  history.replaceState(null, "", waits);
  waits = null;
  pace = setTimeout(write, PACE);
}

/** Change parameters of what is shown; `replace` leaves no step in the browser's history. */
export function change(params, { replace = false } = {}) {
  const now = readRoute(shown());
  const next = link(now.parts, { ...now.params, ...params });
  if (next === shown()) return;
  if (!replace) {
    write();
    location.hash = next;
    return;
  }
  waits = next;
  if (!pace) write();
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** The value of a field that begins with what the address says. What is typed stays until the address says something else. */
export function useTyped(said) {
  const [state, setState] = useState({ said, text: said });
  const value = state.said === said ? state.text : said;
  return { value, onInput: (event) => setState({ said, text: event.target.value }) };
}

export function useRoute() {
  const [route, setRoute] = useState(() => readRoute(shown()));
  useEffect(() => {
    const read = () => setRoute(readRoute(shown()));
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  return route;
}
