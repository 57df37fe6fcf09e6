// Sites added up: by function, file, or module of the frame that stands for them.

import type { Process, Recording, SiteFigure } from "./recording";
import type { RangeFigures, Sum } from "./ranges";

export type By = "functions" | "files" | "modules";

/** Sites that were added up. */
export interface Group {
  key: string;
  name: string;
  /** Lines or module of the functions, in grey. */
  place: string;
  sites: number[];
}

/** The figures of a group. */
export interface GroupFigures {
  allocations: number;
  bytes: number;
  temporary: number;
  leaked: number;
  leakedBytes: number;
  atPeak: number;
  atPeakBytes: number;
  meanNs: number;
}

/** The groups of the sites of some processes, in order of first use. */
export function groups(recording: Recording, processes: Process[], by: By): Group[] {
  const found = new Map<string | number, Group>();
  for (const process of processes) {
    const [from, to] = process.details!.sites;
    for (let site = from; site < to; site++) {
      const key = keyOf(recording, site, by);
      const group = found.get(key);
      if (group) group.sites.push(site);
      else found.set(key, { key: String(key), name: nameOf(recording, site, by), place: "", sites: [site] });
    }
  }
  const all = [...found.values()];
  if (by === "functions") for (const group of all) group.place = placeOf(recording, group.sites);
  return all;
}

function keyOf(recording: Recording, site: number, by: By): string | number {
  const head = recording.sites.head[site]!;
  if (by === "functions") return recording.groupOf(site);
  if (head === 0) return "";
  return by === "files" ? fileOf(recording, head - 1) : recording.frames.module[head - 1]!;
}

function fileOf(recording: Recording, frame: number): string {
  return recording.name(recording.frames.file[frame]!) || recording.placeOf(frame, true);
}

function nameOf(recording: Recording, site: number, by: By): string {
  const head = recording.sites.head[site]!;
  if (by === "functions") return recording.groupName(recording.groupOf(site));
  if (head === 0) return "[no stack]";
  if (by === "files") return fileOf(recording, head - 1) || "[no file]";
  return recording.modules[recording.frames.module[head - 1]! - 1] ?? "[no module]";
}

/** The file with most bytes at the peak and up to three lines, as `report` has them. */
function placeOf(recording: Recording, sites: number[]): string {
  const { frames } = recording;
  const lines = new Map<number, Map<number, number>>();
  let first = -1;
  for (const site of sites) {
    const frame = recording.sites.head[site]! - 1;
    if (frame < 0) continue;
    if (first < 0) first = frame;
    if (frames.line[frame]! === 0) continue;
    const file = lines.get(frames.file[frame]!) ?? new Map<number, number>();
    lines.set(frames.file[frame]!, file);
    const line = frames.line[frame]!;
    file.set(line, (file.get(line) ?? 0) + recording.sites.figures.at_peak_bytes[site]!);
  }
  if (lines.size === 0) return first < 0 || frames.origin[first]! in { 1: 0, 2: 0 } ? "" : recording.placeOf(first);
  const most = (file: Map<number, number>) => Math.max(...file.values());
  const [file, found] = [...lines].reduce((a, b) => (most(b[1]) > most(a[1]) ? b : a));
  const sorted = [...found].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([line]) => line);
  const name = recording.name(file);
  return `${name.slice(name.lastIndexOf("/") + 1)}:${sorted.slice(0, 3).join(" ")}${sorted.length > 3 ? " …" : ""}`;
}

const known = new WeakMap<Group, GroupFigures>();

/** The figures of a group over the whole run; they are added up once. */
export function figuresOf(recording: Recording, group: Group): GroupFigures {
  let figures = known.get(group);
  if (!figures) {
    figures = addUp(recording, group);
    known.set(group, figures);
  }
  return figures;
}

function addUp(recording: Recording, group: Group): GroupFigures {
  const sum = (name: SiteFigure) => {
    const column = recording.sites.figures[name];
    let total = 0;
    for (const site of group.sites) total += column[site]!;
    return total;
  };
  const { mean_ns: means, blocks } = recording.sites.figures;
  let [time, count] = [0, 0];
  for (const site of group.sites) {
    time += means[site]! * blocks[site]!;
    count += blocks[site]!;
  }
  return {
    allocations: sum("allocations"),
    bytes: sum("bytes"),
    temporary: sum("temporary"),
    leaked: sum("leaked"),
    leakedBytes: sum("leaked_bytes"),
    atPeak: sum("at_peak"),
    atPeakBytes: sum("at_peak_bytes"),
    meanNs: count === 0 ? 0 : time / count,
  };
}

/** The smallest and the largest block of a group, in bytes, as far as the page has sizes. */
export function sizesOf(recording: Recording, group: Group): [number, number] | null {
  const { count, smallest, largest, sizes } = recording.details();
  let [least, most] = [Infinity, 0];
  for (const site of group.sites) {
    if (site >= count || sizes.first[site] === sizes.first[site + 1]) continue;
    least = Math.min(least, smallest[site]!);
    most = Math.max(most, largest[site]!);
  }
  return least <= most ? [least, most] : null;
}

/** The sites of a group that have blocks in a range, those with most bytes first. */
export function sitesIn(group: Group, { blocks, bytes, blocksOff }: RangeFigures): number[] {
  const found = group.sites.filter((site) => blocks[site]! + blocksOff[site]! > 0);
  return found.sort((a, b) => bytes[b]! - bytes[a]! || blocks[b]! - blocks[a]!);
}

/** Blocks and bytes of a group in a range. */
export function rangeOf(group: Group, range: RangeFigures): Sum {
  const sum = { blocks: 0, bytes: 0, blocksOff: 0, bytesOff: 0 };
  for (const site of group.sites) {
    sum.blocks += range.blocks[site]!;
    sum.bytes += range.bytes[site]!;
    sum.blocksOff += range.blocksOff[site]!;
    sum.bytesOff += range.bytesOff[site]!;
  }
  return sum;
}
