// What happened in a range of time: one pass over the cells. The same definitions as
// RangeFigures in allotrope-profile: a block that was allocated at the very start of the
// range was allocated in it; one that was freed at its very end was live there.

import { isChosen } from "./programs";
import { type Cells, LIVE_AT_END, type Process, type Recording } from "./recording";

/** What of a range is counted. */
export const MODES = ["allocated", "alive", "kept", "destroyed", "freed"] as const;
export type Mode = (typeof MODES)[number];

export const MODE_NAMES: Record<Mode, string> = {
  allocated: "Allocated in range",
  alive: "Alive at its end",
  kept: "Created and persisted",
  destroyed: "Created and destroyed",
  freed: "Freed in range",
};

/** From and to, in nanoseconds since the start of the recording; the end is not in it. */
export type Range = readonly [number, number];

/** Blocks and bytes; of sites with wider buckets of time they are known within a bound. */
export interface Sum {
  blocks: number;
  bytes: number;
  /** The most that they are off; 0: they are exact. */
  blocksOff: number;
  bytesOff: number;
}

/** The figures of a range. */
export interface RangeFigures {
  totals: Record<Mode, Sum>;
  /** By row, as in a sum, of the mode that was asked for. */
  blocks: Float64Array;
  bytes: Float64Array;
  blocksOff: Float64Array;
  bytesOff: Float64Array;
}

/** The processes that are looked at and that the page has in full: one, those of a program,
 * or all. */
export function chosenProcesses(recording: Recording, chosen: number | null): Process[] {
  return recording.processes.filter((it) => it.details !== null && isChosen(recording, chosen, it));
}

/** The times at which the numbers of a range are exact, ascending. */
export function boundaries(recording: Recording, process: number | null): Float64Array {
  const chosen = chosenProcesses(recording, process);
  if (chosen.length === 1) {
    const { starts, end } = chosen[0]!.details!;
    return Float64Array.from([...starts, end]);
  }
  return Float64Array.from([recording.start, ...recording.boundaries, recording.end]);
}

/** The index of the first element that is not below a value. */
export function lowerBound(values: ArrayLike<number>, value: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The boundary that is nearest to a time. */
function nearest(bounds: Float64Array, time: number): number {
  const after = Math.min(lowerBound(bounds, time), bounds.length - 1);
  const before = Math.max(after - 1, 0);
  return time - bounds[before]! < bounds[after]! - time ? before : after;
}

/** The range between boundaries that is nearest to one; it is never empty. */
export function snap(bounds: Float64Array, range: Range): Range {
  if (bounds.length < 2) return range;
  let from = nearest(bounds, range[0]);
  let to = nearest(bounds, range[1]);
  if (from >= to) {
    from = Math.min(from, bounds.length - 2);
    to = from + 1;
  }
  return [bounds[from]!, bounds[to]!];
}

/** The buckets of a process in a range, as the first and the one after the last; null: it
 * did not run then. */
export function bucketsIn(process: Process, range: Range): [number, number] | null {
  const { starts, end } = process.details!;
  if (starts.length === 0 || starts[0]! >= range[1] || end < range[0]) return null;
  const from = Math.max(lowerBound(starts, range[0] + 0.5) - 1, 0);
  const to = lowerBound(starts, range[1]);
  return [range[0] >= end && range[0] > starts[0]! ? starts.length : from, Math.max(to, from)];
}

/** Whether a process had ended at a time: its blocks went with it, and are not alive then.
 * To a microsecond, like `allotrope report --at`. */
function hasEnded(process: Process, time: number): boolean {
  // The last bucket may end later than the process was seen to, and what it had is alive there.
  const ended = Math.floor(Math.max(process.started + process.duration, process.details?.end ?? 0) / 1e3);
  return process.exit !== "running" && process.exit !== "cut" && ended < Math.floor(time / 1e3) - 1;
}

/** The figures of sites in a range. What was live when a process ended is kept, but alive
 * only until then. */
export function ofSites(recording: Recording, processes: Process[], range: Range, mode: Mode): RangeFigures {
  const figures = empty(recording.sites.count);
  for (const process of processes) {
    const buckets = bucketsIn(process, range);
    if (!buckets) continue;
    const { sites, totals } = process.details!;
    const isGone = hasEnded(process, range[1]);
    const sums = add(figures, recording.cells, sites, buckets, mode, isGone);
    // Where sites have wider buckets, all of them together are exact here.
    const known = hasCells(recording.totalCells, totals) ? add(null, recording.totalCells, [totals, totals + 1], buckets, mode, isGone) : sums;
    addTotals(figures, known);
  }
  return figures;
}

/** The figures of threads in a range; rows are those of Recording.threads. */
export function ofThreads(recording: Recording, processes: Process[], range: Range, mode: Mode): RangeFigures {
  const figures = empty(recording.threads.length);
  for (const process of processes) {
    const buckets = bucketsIn(process, range);
    const threads = process.details!.threads;
    if (!buckets || threads.length === 0) continue;
    const rows: [number, number] = [threads[0]!.row, threads[threads.length - 1]!.row + 1];
    addTotals(figures, add(figures, recording.threadCells, rows, buckets, mode, hasEnded(process, range[1])));
  }
  return figures;
}

function empty(rows: number): RangeFigures {
  const none = () => ({ blocks: 0, bytes: 0, blocksOff: 0, bytesOff: 0 });
  const column = () => new Float64Array(rows);
  return {
    totals: { allocated: none(), alive: none(), kept: none(), destroyed: none(), freed: none() },
    blocks: column(),
    bytes: column(),
    blocksOff: column(),
    bytesOff: column(),
  };
}

/** Whether a row has cells. */
export function hasCells(cells: Cells, row: number): boolean {
  return cells.first[row + 1]! > cells.first[row]!;
}

/** Least blocks and bytes, most blocks and bytes, by mode. */
const BOUNDS = 4;

function addTotals(figures: RangeFigures, sums: Float64Array): void {
  MODES.forEach((it, at) => {
    const [fewest, least, mostBlocks, most] = sums.subarray(at * BOUNDS, (at + 1) * BOUNDS);
    const total = figures.totals[it];
    const [number, size] = [middle(fewest!, mostBlocks!), middle(least!, most!)];
    total.blocks += number;
    total.blocksOff += mostBlocks! - number;
    total.bytes += size;
    total.bytesOff += most! - size;
  });
}

/** What is at most so far from both bounds as from the upper one. */
const middle = (least: number, most: number) => Math.floor((least + most) / 2);

/** Which modes (bits in the order of MODES) blocks certainly have that were allocated in one of
 * the buckets from `first` to `last` and freed in one of those from `freed` to `lastFreed`, and
 * which they may have. */
function modesOf([first, last]: [number, number], [freed, lastFreed]: [number, number], [from, to]: [number, number], isGone: boolean): [number, number] {
  const bits = (born: boolean, isBefore: boolean, lives: boolean, dies: boolean, isFreed: boolean) =>
    (born ? 1 : 0) | (isBefore && lives && !isGone ? 2 : 0) | (born && lives ? 4 : 0) | (born && dies ? 8 : 0) | (isFreed ? 16 : 0);
  const surely = bits(first >= from && last < to, last < to, freed >= to, lastFreed < to, freed >= from && lastFreed < to);
  const perhaps = bits(last >= from && first < to, first < to, lastFreed >= to, freed < to, lastFreed >= from && freed < to);
  return [surely, perhaps];
}

/** Adds the figures of rows in the wanted mode, and returns the bounds of all modes. */
function add(figures: RangeFigures | null, cells: Cells, rows: [number, number], buckets: [number, number], mode: Mode, isGone: boolean): Float64Array {
  const [from, to] = buckets;
  const wanted = MODES.indexOf(mode);
  const sums = new Float64Array(MODES.length * BOUNDS);
  const ofRow = new Float64Array(BOUNDS);
  const { first, allocated, freed, blocks, bytes, widened } = cells;
  for (let row = rows[0]; row < rows[1]; row++) {
    ofRow.fill(0);
    // So many buckets are one.
    const width = 2 ** (widened[row] ?? 0);
    const start = (bucket: number) => bucket - (bucket % width);
    for (let i = first[row]!; i < first[row + 1]!; i++) {
      const born = start(allocated[i]!);
      if (born >= to) break;
      const died = freed[i]! === LIVE_AT_END ? LIVE_AT_END : start(freed[i]!);
      const lastDied = died === LIVE_AT_END ? died : died + width - 1;
      if (lastDied < from) continue;
      const [surely, perhaps] = modesOf([born, born + width - 1], [died, lastDied], buckets, isGone);
      const [n, size] = [blocks[i]!, bytes[i]!];
      for (let at = 0; at < MODES.length; at++) {
        if (surely & (1 << at)) {
          sums[BOUNDS * at]! += n;
          sums[BOUNDS * at + 1]! += size;
        }
        if (perhaps & (1 << at)) {
          sums[BOUNDS * at + 2]! += n;
          sums[BOUNDS * at + 3]! += size;
        }
      }
      if (surely & (1 << wanted)) {
        ofRow[0]! += n;
        ofRow[1]! += size;
      }
      if (perhaps & (1 << wanted)) {
        ofRow[2]! += n;
        ofRow[3]! += size;
      }
    }
    if (!figures) continue;
    const [number, size] = [middle(ofRow[0]!, ofRow[2]!), middle(ofRow[1]!, ofRow[3]!)];
    figures.blocks[row]! += number;
    figures.blocksOff[row]! += ofRow[2]! - number;
    figures.bytes[row]! += size;
    figures.bytesOff[row]! += ofRow[3]! - size;
  }
  return sums;
}

/** Live bytes of some rows at the end of each bucket of a process. */
export function liveAtEnds(cells: Cells, rows: Iterable<number>, buckets: number): Float64Array {
  const live = new Float64Array(buckets);
  for (const row of rows) {
    for (let i = cells.first[row]!; i < cells.first[row + 1]!; i++) {
      live[cells.allocated[i]!]! += cells.bytes[i]!;
      const freed = cells.freed[i]!;
      if (freed !== LIVE_AT_END) live[freed]! -= cells.bytes[i]!;
    }
  }
  for (let i = 1; i < buckets; i++) live[i]! += live[i - 1]!;
  return live;
}

/** Points of a small curve. */
const POINTS = 128;

/** Live bytes of some sites in parts of equal length of the run. Of one process it is the most that
 * was live in each part, of several the sum of what was live at its end. */
export function liveOverRun(recording: Recording, sites: Iterable<number>): Float64Array {
  const byProcess = new Map<number, number[]>();
  for (const site of sites) {
    const process = recording.sites.process[site]!;
    const rows = byProcess.get(process);
    if (rows) rows.push(site);
    else byProcess.set(process, [site]);
  }
  const sum = new Float64Array(POINTS);
  const step = (recording.end - recording.start) / POINTS;
  for (const [index, rows] of byProcess) {
    const { starts, end } = recording.processes[index]!.details!;
    const live = liveAtEnds(recording.cells, rows, starts.length);
    let bucket = -1;
    for (let i = 0; i < POINTS; i++) {
      const [from, to] = [recording.start + i * step, recording.start + (i + 1) * step];
      // What began before the end of this part, and of one process all that did not end before it.
      let most = from < end && bucket >= 0 ? live[bucket]! : 0;
      while (bucket + 1 < starts.length && starts[bucket + 1]! < to) {
        bucket++;
        most = byProcess.size === 1 ? Math.max(most, live[bucket]!) : live[bucket]!;
      }
      // The end of the last part may be rounded.
      if (byProcess.size === 1 || to - end < step / 1000) sum[i]! += most;
    }
  }
  return sum;
}

/** Bytes allocated, or freed, in each bucket of a process. */
export function rates(cells: Cells, rows: Iterable<number>, buckets: number): { allocated: Float64Array; freed: Float64Array } {
  const allocated = new Float64Array(buckets);
  const freedBytes = new Float64Array(buckets);
  for (const row of rows) {
    for (let i = cells.first[row]!; i < cells.first[row + 1]!; i++) {
      allocated[cells.allocated[i]!]! += cells.bytes[i]!;
      const freed = cells.freed[i]!;
      if (freed !== LIVE_AT_END) freedBytes[freed]! += cells.bytes[i]!;
    }
  }
  return { allocated, freed: freedBytes };
}
