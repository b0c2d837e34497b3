// The time by the clock of who looks at the page.

const pad = (number) => String(number).padStart(2, "0");

/** RFC 3339 with the offset of the browser's clock, by which "yesterday" in a question is a day. */
export function byOwnClock(time) {
  const ahead = -time.getTimezoneOffset();
  const shown = new Date(time.getTime() + ahead * 60_000).toISOString().slice(0, -1);
  return `${shown}${ahead < 0 ? "-" : "+"}${pad(Math.trunc(Math.abs(ahead) / 60))}:${pad(Math.abs(ahead) % 60)}`;
}
