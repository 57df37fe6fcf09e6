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

export interface Sum {
  blocks: number;
  bytes: number;
}

/** The figures of a range. */
export interface RangeFigures {
  totals: Record<Mode, Sum>;
  /** By row: blocks and bytes of the mode that was asked for. */
  blocks: Float64Array;
  bytes: Float64Array;
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
  const ended = Math.round((process.started + process.duration) / 1e3);
  return process.exit !== "running" && ended < Math.floor(time / 1e3) - 1;
}

/** The figures of sites in a range. What was live when a process ended is kept, but alive
 * only until then. */
export function ofSites(recording: Recording, processes: Process[], range: Range, mode: Mode): RangeFigures {
  const figures = empty(recording.sites.count);
  for (const process of processes) {
    const buckets = bucketsIn(process, range);
    if (!buckets) continue;
    const isGone = range[1] < recording.end && hasEnded(process, range[1]);
    add(figures, recording.cells, process.details!.sites, buckets, mode, isGone);
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
    add(figures, recording.threadCells, rows, buckets, mode, range[1] < recording.end && hasEnded(process, range[1]));
  }
  return figures;
}

function empty(rows: number): RangeFigures {
  const none = () => ({ blocks: 0, bytes: 0 });
  return {
    totals: { allocated: none(), alive: none(), kept: none(), destroyed: none(), freed: none() },
    blocks: new Float64Array(rows),
    bytes: new Float64Array(rows),
  };
}

function add(figures: RangeFigures, cells: Cells, rows: [number, number], buckets: [number, number], mode: Mode, isGone: boolean): void {
  const [from, to] = buckets;
  const wanted = MODES.indexOf(mode);
  const sums = new Float64Array(10);
  const { first, allocated, freed, blocks, bytes } = cells;
  for (let row = rows[0]; row < rows[1]; row++) {
    let rowBlocks = 0;
    let rowBytes = 0;
    for (let i = first[row]!; i < first[row + 1]!; i++) {
      const born = allocated[i]!;
      if (born >= to) break;
      const died = freed[i]!;
      if (died < from) continue;
      // Bits in the order of MODES.
      const isBorn = born >= from;
      const lives = died >= to;
      let bits = 0;
      if (isBorn) bits |= lives ? 1 | 2 | 4 : 1 | 8;
      else if (lives) bits |= 2;
      if (!lives) bits |= 16;
      if (isGone) bits &= ~2;
      const [n, size] = [blocks[i]!, bytes[i]!];
      for (let at = 0; at < 5; at++) {
        if (bits & (1 << at)) {
          sums[2 * at]! += n;
          sums[2 * at + 1]! += size;
        }
      }
      if (bits & (1 << wanted)) {
        rowBlocks += n;
        rowBytes += size;
      }
    }
    figures.blocks[row]! += rowBlocks;
    figures.bytes[row]! += rowBytes;
  }
  MODES.forEach((it, at) => {
    figures.totals[it].blocks += sums[2 * at]!;
    figures.totals[it].bytes += sums[2 * at + 1]!;
  });
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
