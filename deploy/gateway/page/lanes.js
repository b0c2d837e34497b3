// Places memories in lanes over time. Pure: the view draws what comes out.

/** A lane for each memory, oldest first: that of an older one it goes on from, else one that is free, else a new one. */
export function placeLanes(memories, edges) {
  const older = new Map(memories.map((one) => [one.memory_id, []]));
  const left = new Map();
  for (const edge of edges) {
    older.get(edge.newer)?.push(edge.older);
    left.set(edge.older, (left.get(edge.older) || 0) + 1);
  }
  const tails = [];
  const lanes = new Map();
  for (const { memory_id: id } of memories) {
    const before = older.get(id);
    let lane = tails.findIndex((tail) => before.includes(tail));
    for (const one of before) left.set(one, left.get(one) - 1);
    if (lane < 0) lane = tails.findIndex((tail) => !left.get(tail));
    if (lane < 0) lane = tails.length;
    tails[lane] = id;
    lanes.set(id, lane);
  }
  return { lanes, count: tails.length };
}

/** Where a month begins, by the rank of its first memory. */
export function monthRules(memories) {
  const rules = [];
  memories.forEach(({ at }, rank) => {
    const month = at.slice(0, 7);
    if (!rules.length || rules[rules.length - 1].month !== month) rules.push({ rank, month });
  });
  return rules;
}

/** Equal parts of the time with memories in them: how many, when it begins, and the rank of the first; times in order. */
export function densities(times, parts) {
  const [first, last] = [times[0], times[times.length - 1]];
  const width = Math.max(1, (last - first) / parts);
  const bars = [];
  let part = -1;
  times.forEach((time, rank) => {
    const own = Math.max(part, Math.min(parts - 1, Math.floor((time - first) / width)));
    if (own !== part) bars.push({ at: time, rank, count: 0 });
    part = own;
    bars[bars.length - 1].count += 1;
  });
  return bars;
}

/** A curve from one mark to a later one. */
export function curve(from, to) {
  const bend = Math.max(12, Math.min(60, (to.x - from.x) / 2));
  return `M${from.x},${from.y} C${from.x + bend},${from.y} ${to.x - bend},${to.y} ${to.x},${to.y}`;
}
