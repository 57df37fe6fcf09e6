// A row below the curve, on its axis of time. Times in which events are missing are hatched, what
// is outside of the range is faded, and a range can be brushed as on the curve.

import { useCallback, useEffect, useRef } from "preact/hooks";
import { useApp } from "../app";
import type { Range } from "../data/ranges";
import { brush, choose } from "./brush";
import { color } from "./colors";
import { hatch } from "./hatch";
import { showTip } from "./plot";

export interface Axis {
  from: number;
  to: number;
  /** Pixels left and right of the axis. */
  left: number;
  right: number;
  /** When events are missing. */
  gaps: { from: number; to: number }[];
}

/** Pixels of times, from the left of the row. */
export type Scale = (time: number) => number;

/** What a row is drawn on. */
export interface Ground {
  context: CanvasRenderingContext2D;
  x: Scale;
  width: number;
  height: number;
  /** Hatches the times in which events are missing. */
  hatchGaps(): void;
}

export type Paint = (ground: Ground) => void;

interface Props extends Axis {
  paint: Paint;
  height: number;
  label: string;
  /** What is at a point of the row; null: nothing. */
  said?: (at: { x: number; y: number }, x: Scale) => string[] | null;
}

export function Track(props: Props) {
  const app = useApp();
  const canvas = useRef<HTMLCanvasElement>(null);
  const over = useRef<HTMLDivElement>(null);
  const latest = useRef({ app, props });
  latest.current = { app, props };
  const range = app.state.range ? app.model.range(app.state) : null;
  useEffect(() => {
    const target = canvas.current!;
    const redraw = () => draw(target, props, range);
    redraw();
    const observer = new ResizeObserver(redraw);
    observer.observe(target);
    return () => observer.disconnect();
  }, [props.paint, props.height, props.from, props.to, props.left, props.right, props.gaps, range?.[0], range?.[1], app.theme]);
  useEffect(() => {
    const target = over.current!;
    const time = (left: number) => {
      const { from, to } = latest.current.props;
      return from + (left / Math.max(target.clientWidth, 1)) * (to - from);
    };
    brush(target, time, (dragged) => choose(latest.current.app, dragged));
  }, []);
  const hover = (event: PointerEvent) => {
    if (!props.said) return;
    const { left, top } = over.current!.getBoundingClientRect();
    const at = { x: event.clientX - left + props.left, y: event.clientY - top };
    showTip({ over: over.current!, cursor: { left: event.clientX - left } }, props.said(at, scaleOf(props, canvas.current!.clientWidth)));
  };
  return (
    <div class="track">
      <canvas ref={canvas} style={{ height: `${props.height}px` }} role="img" aria-label={props.label} />
      <div
        ref={over}
        class="over"
        style={{ left: `${props.left}px`, right: `${props.right}px` }}
        onPointerMove={hover}
        onPointerDown={hover}
        onPointerLeave={() => showTip({ over: over.current!, cursor: {} }, null)}
      />
    </div>
  );
}

function scaleOf({ from, to, left, right }: Axis, width: number): Scale {
  return (time) => left + ((time - from) / Math.max(to - from, 1)) * (width - left - right);
}

function draw(canvas: HTMLCanvasElement, props: Props, range: Range | null): void {
  const scale = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, props.height];
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  const end = width - props.right;
  const x = scaleOf(props, width);
  const hatchGaps = () => {
    for (const gap of props.gaps) {
      const [from, to] = [gap.from, gap.to].map((it) => Math.min(Math.max(x(it), props.left), end)) as [number, number];
      hatch(context, [from, 0, to - from, height], 1);
    }
  };
  props.paint({ context, x, width, height, hatchGaps });
  if (range) {
    const [from, to] = range.map(x) as [number, number];
    context.fillStyle = color("fade");
    // Labels may go on to the right of the axis.
    context.fillRect(props.left, 0, Math.max(0, from - props.left), height);
    context.fillRect(to, 0, Math.max(0, width - to), height);
    context.fillStyle = color("accent");
    for (const at of [from, to]) context.fillRect(at - 0.5, 0, 1.5, height);
  }
}

export interface Bars {
  /** Starts of the buckets, and the end of the last one. */
  bounds: ArrayLike<number>;
  up: ArrayLike<number>;
  down?: ArrayLike<number>;
  /** Names of colours. */
  ink: string;
  inkDown?: string;
}

/** Bytes for each bucket, upwards and downwards, on a logarithmic scale. */
export function BarTrack({ bars, ...rest }: { bars: Bars; height: number; label: string } & Axis) {
  const paint: Paint = useCallback((ground) => drawBars(ground, bars), [bars]);
  return <Track paint={paint} {...rest} />;
}

function drawBars({ context, x, height, hatchGaps }: Ground, bars: Bars): void {
  let most = 1;
  for (const values of [bars.up, bars.down ?? []]) for (let i = 0; i < values.length; i++) most = Math.max(most, values[i]!);
  const middle = bars.down ? height / 2 : height - 1;
  const tall = (value: number) => (value <= 0 ? 0 : Math.max(1, (Math.log1p(value) / Math.log1p(most)) * (middle - 1)));
  const [inkUp, inkDown] = [color(bars.ink), color(bars.inkDown ?? bars.ink)];
  for (let i = 0; i < bars.up.length; i++) {
    const left = x(bars.bounds[i]!);
    const wide = Math.max(x(bars.bounds[i + 1]!) - left - 0.5, 0.5);
    context.fillStyle = inkUp;
    const up = tall(bars.up[i]!);
    context.fillRect(left, middle - up, wide, up);
    if (bars.down) {
      context.fillStyle = inkDown;
      context.fillRect(left, middle, wide, tall(bars.down[i]!));
    }
  }
  context.fillStyle = color("line2");
  context.fillRect(x(bars.bounds[0] ?? 0), middle, x(bars.bounds[bars.up.length] ?? 0) - x(bars.bounds[0] ?? 0), 0.5);
  hatchGaps();
}
