// Hooks that fetch: they keep what was shown while it is fetched again, and try again where a server is away.

import { useCallback, useEffect, useRef, useState } from "./htm-preact.mjs";
import { get, inConversation, snapshot, withQuery } from "./api.js";
import { repeated } from "./repeated.js";

/** What stays shown beside an error: nothing of what is gone, as after an erasure. */
const left = (data, error) => (error.status === 404 ? null : data);

/** `{data, error, loading, reload}` of an address; another `version` fetches it again. `null` fetches nothing. */
export function useData(path, version = 0) {
  const [state, setState] = useState({ path, data: null, error: null, loading: path !== null });
  const [tries, setTries] = useState(0);
  const reading = useRef(null);
  useEffect(() => {
    if (path === null) return setState({ path, data: null, error: null, loading: false });
    const own = repeated((signal) => {
      setState((old) => ({ path, data: old.path === path ? old.data : null, error: null, loading: true }));
      return get(path, signal).then(
        (data) => !signal.aborted && setState({ path, data, error: null, loading: false }),
        (error) => {
          if (!signal.aborted) setState((old) => ({ ...old, data: left(old.data, error), error, loading: false }));
        },
      );
    });
    reading.current = own;
    return () => (own.stop(), (reading.current = null));
  }, [path, tries]);
  useEffect(() => {
    reading.current?.ask();
  }, [path, version, tries]);
  const reload = useCallback(() => setTries((number) => number + 1), []);
  return { ...state, reload };
}

/** How often the reader came back to the page, as from a terminal: what was said meanwhile is no event of its feed. */
export function useReturns() {
  const [times, setTimes] = useState(0);
  useEffect(() => {
    const back = () => document.visibilityState === "visible" && setTimes((number) => number + 1);
    addEventListener("focus", back);
    document.addEventListener("visibilitychange", back);
    return () => (removeEventListener("focus", back), document.removeEventListener("visibilitychange", back));
  }, []);
  return times;
}

const CHUNK = 200;

/**
 * All memories of a conversation, the latest sessions first, so that there is something to see at once. They come by
 * pages that the gateway bounds; `more` says that some are on their way. `kept` has those that were read whole, for
 * whoever comes back from another view: as long as nothing new is remembered, they are not read again.
 */
export function useMemories(id, sessions, version, kept) {
  const known = useRef(kept.memories ?? new Map());
  const now = `${sessions} ${version}`;
  const [state, setState] = useState(() => ({ memories: inOrder(known.current), more: kept.read !== now, error: null }));
  const [tries, setTries] = useState(0);
  useEffect(() => {
    if (sessions === null || kept.read === now) return undefined;
    const stop = new AbortController();
    const shown = (more, error = null) => setState({ memories: inOrder(known.current), more, error });
    const read = new Map();
    readAll(id, sessions, stop.signal, (items, more) => {
      for (const { memory, status } of items) read.set(memory.memory_id, { ...memory, status });
      known.current = more ? new Map([...known.current, ...read]) : read; // what was erased is read no more
      if (!more) Object.assign(kept, { memories: read, read: now });
      shown(more);
    }).catch((error) => {
      if (error.name === "AbortError") return;
      if (error.status === 404) {
        known.current = new Map();
        Object.assign(kept, { memories: known.current, read: null });
      }
      shown(false, error);
    });
    return () => stop.abort();
  }, [id, sessions, version, tries]);
  return { ...state, reload: () => setTries((number) => number + 1) };
}

const LOOK_THROUGH = 500;

/**
 * All of a timeline: first what lies around its memory, and where that is not all the whole of it by pages, the oldest
 * first. `more` says that some are on their way.
 */
export function useTimeline(id, root, version) {
  const [state, setState] = useState({ data: null, more: true, error: null });
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const path = inConversation(id, `/timelines/${encodeURIComponent(root)}`);
    const read = async () => {
      let data = await get(path, stop.signal);
      const whole = data.memories.length >= data.size || snapshot;
      setState((old) => (old.data && !whole ? old : { data, more: !whole, error: null }));
      if (whole) return;
      const [memories, edges] = [[], []];
      for (let after = 0; after !== null && memories.length < data.size; after = data.next) {
        data = await get(withQuery(path, { after_session: after, limit: LOOK_THROUGH }), stop.signal);
        memories.push(...data.memories);
        edges.push(...data.edges);
        const more = data.next !== null && memories.length < data.size;
        const now = { data: { ...data, memories: [...memories], edges: [...edges] }, more, error: null };
        setState((old) => (more && old.data && old.data.memories.length > memories.length ? old : now));
      }
    };
    read().catch((error) => error.name !== "AbortError" && setState((old) => ({ data: left(old.data, error), more: false, error })));
    return () => stop.abort();
  }, [id, root, version, tries]);
  return { ...state, reload: () => setTries((number) => number + 1) };
}

const inOrder = (memories) => [...memories.values()].sort(bySession);
const bySession = (one, other) => other.session - one.session || other.index - one.index;

async function readAll(id, sessions, signal, take) {
  if (snapshot) return take(snapshot.memories, false);
  let last = sessions;
  let width = 20;
  if (!last) take([], false);
  while (last > 0) {
    const first = Math.max(0, last - width);
    const items = await between(id, first, last, signal);
    take(items, first > 0);
    last = first;
    width = Math.max(1, Math.min(200, Math.round((width * CHUNK) / Math.max(CHUNK / 4, items.length))));
  }
}

/** The memories born after session `first` up to session `last`. */
async function between(id, first, last, signal) {
  const found = [];
  for (let after = first; after !== null && after < last; ) {
    const query = { status: "all", limit: CHUNK, after_session: after };
    const page = await get(withQuery(inConversation(id, "/memories"), query), signal);
    found.push(...page.memories);
    after = page.next;
  }
  return found.filter((item) => item.memory.session <= last);
}

/** A memory as of the end of a session; `null` where it was not known yet. */
export function asOf(memory, session) {
  if (memory.session > session) return null;
  const ended = memory.ending && memory.ending.session <= session;
  return { ...memory, ending: ended ? memory.ending : null, status: ended ? memory.ending.status : "current" };
}
