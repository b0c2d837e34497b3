// The list of conversations: what was listed stays, while another view is shown, for whoever comes back.

import { useEffect, useRef, useState } from "./htm-preact.mjs";
import { get, withQuery } from "./api.js";

export const PAGE = 50;

const NOTHING = { items: [], next: "" };
let kept = NOTHING; // of one key alone
addEventListener("eunoe-key", () => (kept = NOTHING));

/**
 * `{items, next, loading, error, more, reload}`: the conversations that were listed, the last active first. They are read
 * from the first one at each visit and each return, as far as anything changed; `more(limit)` reads those behind them.
 */
export function useConversations(returns) {
  const [state, setState] = useState(() => ({ ...kept, loading: true, error: null }));
  const [tries, setTries] = useState(0);
  const stop = useRef(new AbortController());
  const read = (behind, limit) => {
    stop.current.abort();
    const own = (stop.current = new AbortController());
    setState((old) => ({ ...old, loading: true, error: null }));
    const found = behind ? further(kept, limit, own.signal) : fresh(kept, own.signal);
    found.then(
      (list) => !own.signal.aborted && setState({ ...(kept = list), loading: false, error: null }),
      (error) => !own.signal.aborted && setState((old) => ({ ...old, loading: false, error })),
    );
  };
  useEffect(() => read(false), [returns, tries]);
  useEffect(() => () => stop.current.abort(), []);
  return { ...state, more: (limit) => read(true, limit), reload: () => setTries((number) => number + 1) };
}

const page = (cursor, limit, signal) => get(withQuery("v1/conversations", { limit, cursor }), signal);

async function further(list, limit, signal) {
  const { conversations, next } = await page(list.next, limit, signal);
  return { ...list, items: joined(list.items, conversations), next };
}

/** The list as it is now: read until it meets what was listed, which goes on behind. */
async function fresh(list, signal) {
  const places = new Map(list.items.map((one, place) => [`${one.active} ${one.conversation_id}`, place]));
  let items = [];
  let met = -1;
  let next = "";
  do {
    const found = await page(next, PAGE, signal);
    items = joined(items, found.conversations);
    met = Math.max(met, ...found.conversations.map((one) => places.get(`${one.active} ${one.conversation_id}`) ?? -1));
    next = found.next;
  } while (next && met < 0 && items.length < list.items.length);
  const rest = met < 0 ? [] : list.items.slice(met + 1);
  return { ...list, items: joined(items, rest), next: rest.length ? list.next : next };
}

/** Two parts of a list; one that was active between their readings is in the first. */
function joined(first, second) {
  const ids = new Set(first.map((one) => one.conversation_id));
  return [...first, ...second.filter((one) => !ids.has(one.conversation_id))];
}
