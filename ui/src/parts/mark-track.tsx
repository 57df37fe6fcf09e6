// The row of what happened at one time or for some time: marks and forks as flags, windows as
// spans, those that overlap one below the other.

import { useCallback, useMemo } from "preact/hooks";
import { count, duration } from "../format";
import { color } from "./colors";
import { type Span, fitted, flagsOf, listed, nearest } from "./place";
import { type Axis, type Ground, type Paint, type Scale, Track } from "./track";

export interface Mark {
  time: number;
  name: string;
  /** What is only said at the pointer and to screen readers. */
  more?: string;
}

export interface NamedSpan extends Span {
  name: string;
}

/** Marks or forks, ascending in time. */
interface FlagRow {
  /** What one is called, and what all are. */
  word: string;
  title: string;
  marks: Mark[];
  ink: string;
  /** Their names may be cut. */
  cut: boolean;
}

/** Pixels: of a row of flags, of a lane of spans; how near marks share a flag; how near the
 * pointer has to be. */
const FLAGS = 18;
const LANE = 16;
const SHARED = 8;
const NEAR = 10;
export const MOST_LANES = 6;

interface Props extends Axis {
  marks: Mark[];
  forks: Mark[];
  spans: NamedSpan[];
  /** By span; null: it is not drawn. */
  lanes: (number | null)[];
  /** Where times count from. */
  zero: number;
}

export function MarkTrack({ marks, forks, spans, lanes, zero, ...axis }: Props) {
  const rows = useMemo(() => {
    const all: FlagRow[] = [
      { word: "mark", title: "Marks", marks, ink: "text2", cut: true },
      { word: "fork", title: "Forks", marks: forks, ink: "text3", cut: false },
    ];
    return all.filter((it) => it.marks.length > 0);
  }, [marks, forks]);
  const label = useMemo(() => labelOf(rows, spans, zero), [rows, spans, zero]);
  const under = rows.length * FLAGS;
  const height = under + lanes.reduce((most: number, it) => Math.max(most, it === null ? 0 : it + 1), 0) * LANE + 4;
  const paint: Paint = useCallback(
    (ground) => {
      ground.hatchGaps();
      rows.forEach((row, i) => drawFlags(ground, row, i * FLAGS + 2));
      drawSpans(ground, axis, spans, (i) => (lanes[i] === null ? null : under + lanes[i]! * LANE + 2));
    },
    [rows, spans, lanes, axis.left, axis.right],
  );
  const said = ({ x: left, y }: { x: number; y: number }, x: Scale) => {
    const row = rows[Math.floor(y / FLAGS)];
    if (row) return saidOfFlag(row, left, x, zero);
    const lane = Math.floor((y - under) / LANE);
    const found = nearest(spans, (it, i) => (lanes[i] === lane ? Math.max(x(it.from) - left, left - x(it.to), 0) : Infinity), NEAR);
    return found < 0 ? null : spanInWords(spans[found]!, zero);
  };
  return <Track paint={paint} said={said} height={height} label={label} {...axis} />;
}

/** A name that is at most 100 characters long. */
function short(name: string): string {
  return fitted(name, 100, (text) => text.length);
}

function markInWords({ time, name, more = "" }: Mark, zero: number): [string, string] {
  return [`at ${duration(time - zero)}`, short(name) + more];
}

function spanInWords({ from, to, name }: NamedSpan, zero: number): [string, string] {
  return [`from ${duration(from - zero)} for ${duration(to - from)}`, short(name)];
}

/** The flag that is nearest; if it has several marks, also the nearest of them. */
function saidOfFlag({ marks, word }: FlagRow, left: number, x: Scale, zero: number): string[] | null {
  const found = nearest(marks, (it) => Math.abs(x(it.time) - left), NEAR);
  if (found < 0) return null;
  const flag = flagsOf(marks.map((it) => x(it.time)), SHARED, 0).find((it) => found < it.end)!;
  const one: string[] = markInWords(marks[found]!, zero);
  const number = flag.end - flag.first;
  return number === 1 ? one : [...one, `one of ${count(number)} ${word}s from ${duration(marks[flag.first]!.time - zero)} to ${duration(marks[flag.end - 1]!.time - zero)}`];
}

/** All of it in words. */
function labelOf(rows: FlagRow[], spans: NamedSpan[], zero: number): string {
  const all = rows.map(({ title, marks }) => [title, marks.map((it) => markInWords(it, zero))] as const);
  if (spans.length > 0) all.push(["Windows", spans.map((it) => spanInWords(it, zero))]);
  return all.map(([what, items]) => `${what}: ${listed(items.map(([when, name]) => `${name} ${when}`))}`).join(". ");
}

function drawFlags({ context, x, width }: Ground, { word, marks, ink, cut }: FlagRow, top: number): void {
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.fillStyle = color(ink);
  const positions = marks.map((it) => x(it.time));
  for (const { first, end, room } of flagsOf(positions, SHARED, width)) {
    const at = positions[first]!;
    context.fillRect(at, top, 1, 14);
    context.beginPath();
    context.moveTo(at, top);
    context.lineTo(at + 6, top + 3);
    context.lineTo(at, top + 6);
    context.fill();
    // Those that share the flag are strokes at its foot.
    for (let i = first + 1; i < end; i++) context.fillRect(positions[i]!, top + 11, 1, 3);
    const isOne = end - first === 1;
    const name = isOne ? marks[first]!.name : `${count(end - first)} ${word}s`;
    context.fillText(cutLabel(context, name, room - 15, isOne && cut), at + 9, top + 5);
  }
}

/** `top` is where a span is; null: it is not drawn. */
function drawSpans({ context, x, width }: Ground, { left, right }: Axis, spans: NamedSpan[], top: (i: number) => number | null): void {
  const [ground, line, text] = [color("ground"), color("accent"), color("text2")];
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.strokeStyle = line;
  spans.forEach((span, i) => {
    const y = top(i);
    if (y === null) return;
    const [from, to] = [span.from, span.to].map((it) => Math.min(Math.max(x(it), left), width - right)) as [number, number];
    context.fillStyle = ground;
    context.fillRect(from, y, Math.max(to - from, 1), 13);
    context.strokeRect(from + 0.5, y + 0.5, Math.max(to - from - 1, 1), 12);
    context.fillStyle = text;
    context.fillText(cutLabel(context, span.name, to - from - 8, true), from + 4, y + 7);
  });
}

/** A text as it fits into some pixels: whole, cut if it may be, or not at all. */
function cutLabel(context: CanvasRenderingContext2D, text: string, room: number, cut: boolean): string {
  if (room < 10) return "";
  return fitted(text, room, (it) => context.measureText(it).width, cut ? 3 : Infinity);
}
