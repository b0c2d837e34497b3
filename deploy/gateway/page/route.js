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
  location.hash = link(parts, params);
}

/** Change parameters of what is shown; `replace` leaves no step in the browser's history. */
export function change(params, { replace = false } = {}) {
  const now = readRoute(location.hash);
  const next = link(now.parts, { ...now.params, ...params });
  if (next === location.hash) return;
  if (!replace) location.hash = next;
  else {
    history.replaceState(null, "", next);
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
}

/** The value of a field that begins with what the address says. What is typed stays until the address says something else. */
export function useTyped(said) {
  const [state, setState] = useState({ said, text: said });
  const value = state.said === said ? state.text : said;
  return { value, onInput: (event) => setState({ said, text: event.target.value }) };
}

export function useRoute() {
  const [route, setRoute] = useState(() => readRoute(location.hash));
  useEffect(() => {
    const read = () => setRoute(readRoute(location.hash));
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  return route;
}
