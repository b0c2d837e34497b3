// A task that is asked for again and again, and comes to its end all the same.

const PATIENCE = 20000; // milliseconds: what takes longer may never come, and is given up for a newer one

/**
 * `{ask, stop}` of a task that takes a signal. Asked for while it runs, it runs once more behind it: so it is never
 * broken off by the next, and never runs twice at a time.
 */
export function repeated(task) {
  let now = null;
  const start = async () => {
    const own = { stop: new AbortController(), late: false, again: false };
    now = own;
    const timer = setTimeout(() => (own.late = true), PATIENCE);
    await task(own.stop.signal);
    clearTimeout(timer);
    if (now !== own) return;
    now = null;
    if (own.again) start();
  };
  const stop = () => {
    now?.stop.abort();
    now = null;
  };
  const ask = () => {
    if (now && !now.late) return (now.again = true);
    stop();
    return start();
  };
  return { ask, stop };
}
