// Where spans, flags and labels go on a chart. Nothing is drawn here.

import { count } from "../format";

export interface Span {
  from: number;
  to: number;
}

/** The lane of each span, so that no two spans of a lane overlap by more than `rounded`: the first
 * lane that is free, in order of starts (greedy interval colouring, which needs the fewest
 * lanes). null: all `most` lanes are taken. */
export function lanesOf(spans: Span[], most: number, rounded = 0): (number | null)[] {
  // Those that start together stay in their order, which is that of opening.
  const order = spans.map((_, i) => i).sort((a, b) => spans[a]!.from - spans[b]!.from);
  const lanes = new Array<number | null>(spans.length).fill(null);
  const ends: number[] = [];
  for (const i of order) {
    const free = ends.findIndex((end) => end - rounded <= spans[i]!.from);
    const lane = free >= 0 ? free : ends.length;
    if (lane >= most) continue;
    lanes[i] = lane;
    ends[lane] = spans[i]!.to;
  }
  return lanes;
}

/** A flag for one or more marks: indexes of the first and of the one after the last. */
export interface Flag {
  first: number;
  end: number;
  /** Pixels between its pole and the next flag, or the end of the row. */
  room: number;
}

/** Flags at ascending positions. One that is nearer than `near` to the one before shares its
 * flag. */
export function flagsOf(positions: number[], near: number, end: number): Flag[] {
  const flags: Flag[] = [];
  positions.forEach((position, i) => {
    const last = flags[flags.length - 1];
    if (last && position - positions[i - 1]! < near) {
      last.end = i + 1;
      return;
    }
    if (last) last.room = position - positions[last.first]!;
    flags.push({ first: i, end: i + 1, room: end - position });
  });
  return flags;
}

/** The index of the item at the least distance, at most `within`; -1: nothing is near. */
export function nearest<T>(items: T[], distance: (item: T, i: number) => number, within: number): number {
  let found = -1;
  let least = within;
  items.forEach((item, i) => {
    const here = distance(item, i);
    if (here > least || (here === least && found >= 0)) return;
    least = here;
    found = i;
  });
  return found;
}

/** As much of a text as fits, with an ellipsis; empty if that is fewer than `least` characters. */
export function fitted(text: string, room: number, width: (text: string) => number, least = 3): string {
  if (width(text) <= room) return text;
  const characters = [...text.slice(0, 200)];
  let [low, high] = [0, characters.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (width(`${characters.slice(0, middle).join("")}…`) <= room) low = middle;
    else high = middle - 1;
  }
  return low < least ? "" : `${characters.slice(0, low).join("")}…`;
}

/** The first of many texts, and how many more there are. */
export function listed(texts: string[], most = 50): string {
  const more = texts.length - most;
  const first = texts.slice(0, most).join(", ");
  return more > 0 ? `${first} and ${count(more)} more` : first;
}

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** Whether a curve through points, ascending in x, may cross a box. Each piece counts as the
 * rectangle around its ends, so that it may be a step. */
export function crosses(box: Box, xs: ArrayLike<number>, ys: ArrayLike<number | null>): boolean {
  let before = -1;
  for (let i = 0; i < xs.length; i++) {
    const y = ys[i];
    if (y === null || y === undefined) continue;
    const [x0, y0] = before < 0 ? [xs[i]!, y] : [xs[before]!, ys[before]!];
    before = i;
    if (xs[i]! < box.left || x0 > box.left + box.width) continue;
    if (Math.max(y, y0) >= box.top && Math.min(y, y0) <= box.top + box.height) return true;
  }
  return false;
}
