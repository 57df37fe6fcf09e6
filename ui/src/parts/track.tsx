// A row of bars below the curve, on its axis of time: bytes for each bucket, upwards and
// downwards, on a logarithmic scale.

import { useEffect, useRef } from "preact/hooks";
import { useApp } from "../app";
import { color } from "./colors";
import { hatch } from "./hatch";

export interface Bars {
  /** Starts of the buckets, and the end of the last one. */
  bounds: ArrayLike<number>;
  up: ArrayLike<number>;
  down?: ArrayLike<number>;
  /** Names of colours. */
  ink: string;
  inkDown?: string;
}

interface Props {
  bars: Bars | null;
  marks?: { time: number; name: string }[];
  spans?: { from: number; to: number; name: string }[];
  from: number;
  to: number;
  height: number;
  left: number;
  right: number;
  label: string;
  /** When events are missing. */
  gaps: { from: number; to: number }[];
}

export function Track(props: Props) {
  const app = useApp();
  const canvas = useRef<HTMLCanvasElement>(null);
  const range = app.state.range ? app.model.range(app.state) : null;
  useEffect(() => {
    const target = canvas.current!;
    const redraw = () => draw(target, props, range);
    redraw();
    const observer = new ResizeObserver(redraw);
    observer.observe(target);
    return () => observer.disconnect();
  }, [props.bars, props.from, props.to, props.left, props.right, props.gaps, range?.[0], range?.[1], app.theme]);
  return <canvas ref={canvas} class="track" style={{ height: `${props.height}px` }} role="img" aria-label={props.label} />;
}

function draw(canvas: HTMLCanvasElement, props: Props, range: readonly [number, number] | null): void {
  const scale = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, props.height];
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  const inner = width - props.left - props.right;
  const x = (time: number) => props.left + ((time - props.from) / Math.max(props.to - props.from, 1)) * inner;
  if (props.bars) drawBars(context, props.bars, x, height);
  for (const gap of props.gaps) {
    const [from, to] = [gap.from, gap.to].map((it) => Math.min(Math.max(x(it), props.left), props.left + inner)) as [number, number];
    hatch(context, [from, 0, to - from, height], 1);
  }
  drawSpans(context, props, x);
  drawMarks(context, props, x, width);
  if (range) {
    const [from, to] = range.map(x) as [number, number];
    context.fillStyle = color("fade");
    context.fillRect(props.left, 0, Math.max(0, from - props.left), height);
    context.fillRect(to, 0, Math.max(0, props.left + inner - to), height);
    context.fillStyle = color("accent");
    for (const at of [from, to]) context.fillRect(at - 0.5, 0, 1.5, height);
  }
}

function drawBars(context: CanvasRenderingContext2D, bars: Bars, x: (time: number) => number, height: number): void {
  let most = 1;
  for (const values of [bars.up, bars.down ?? []]) for (let i = 0; i < values.length; i++) most = Math.max(most, values[i]!);
  const middle = bars.down ? height / 2 : height - 1;
  const tall = (value: number) => (value <= 0 ? 0 : Math.max(1, (Math.log1p(value) / Math.log1p(most)) * (middle - 1)));
  for (let i = 0; i < bars.up.length; i++) {
    const left = x(bars.bounds[i]!);
    const wide = Math.max(x(bars.bounds[i + 1]!) - left - 0.5, 0.5);
    context.fillStyle = color(bars.ink);
    const up = tall(bars.up[i]!);
    context.fillRect(left, middle - up, wide, up);
    if (bars.down) {
      context.fillStyle = color(bars.inkDown ?? bars.ink);
      context.fillRect(left, middle, wide, tall(bars.down[i]!));
    }
  }
  context.fillStyle = color("line2");
  context.fillRect(x(bars.bounds[0] ?? 0), middle, x(bars.bounds[bars.up.length] ?? 0) - x(bars.bounds[0] ?? 0), 0.5);
}

function drawSpans(context: CanvasRenderingContext2D, props: Props, x: (time: number) => number): void {
  for (const span of props.spans ?? []) {
    const [from, to] = [x(span.from), x(span.to)];
    context.fillStyle = color("ground");
    context.strokeStyle = color("accent");
    context.fillRect(from, 18, Math.max(to - from, 1), 13);
    context.strokeRect(from + 0.5, 18.5, Math.max(to - from - 1, 1), 12);
    if (to - from > 30) write(context, span.name, from + 4, 25, to - from - 8);
  }
}

function drawMarks(context: CanvasRenderingContext2D, props: Props, x: (time: number) => number, width: number): void {
  let free = -Infinity;
  const marks = [...(props.marks ?? [])].sort((a, b) => a.time - b.time);
  for (const mark of marks) {
    const at = x(mark.time);
    context.fillStyle = color("text2");
    context.fillRect(at, 2, 1, 14);
    context.beginPath();
    context.moveTo(at, 2);
    context.lineTo(at + 6, 5);
    context.lineTo(at, 8);
    context.fill();
    if (at < free) continue;
    const room = Math.min(160, width - at - 10);
    free = at + 14 + write(context, mark.name, at + 9, 8, room);
  }
}

/** Writes as much of a text as fits; returns its width. */
function write(context: CanvasRenderingContext2D, text: string, x: number, y: number, room: number): number {
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.fillStyle = color("text2");
  let short = text.slice(0, 200);
  while (short.length > 1 && context.measureText(short).width > room) short = `${short.slice(0, -2)}…`;
  context.fillText(short, x, y);
  return context.measureText(short).width;
}
