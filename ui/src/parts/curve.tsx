// The curve of live bytes with the resident set, drawn by uPlot: its peak is marked, a range
// of it can be brushed with the pointer, and what is outside of the range is faded.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { type App, useApp } from "../app";
import { bytes, bytesParts, duration } from "../format";
import type { Range } from "../data/ranges";
import { brush, choose } from "./brush";
import { color } from "./colors";
import { type CurveData, useCurve } from "./curve-data";
import { hatch } from "./hatch";
import { type Box, crosses } from "./place";
import { bottomAxis, byteAxis, ceiling, roundSplits, showTip, usePlot } from "./plot";

interface Props {
  height: number;
  /** Without axes and labels, for the ribbon. */
  small?: boolean;
  /** Pixels left of the curve. */
  left?: number;
}

export function Curve({ height, small = false, left = 64 }: Props) {
  const app = useApp();
  const data = useCurve();
  const { state, model } = app;
  const range = state.range ? model.range(state) : null;
  const resident = state.resident && !small;
  const latest = useRef({ app, range });
  latest.current = { app, range };
  const { element, plot } = usePlot(data.columns, (width) => options(data, width, { height, small, resident, left }, latest), [data, height, small, resident, left, app.theme]);

  useEffect(() => plot.current?.redraw(false), [range?.[0], range?.[1]]);

  return <div class={small ? "curve small" : "curve"} ref={element} role="img" aria-label={data.label} style={{ height: `${height}px` }} />;
}

interface Shape {
  height: number;
  small: boolean;
  /** With the resident set. */
  resident: boolean;
  left: number;
}

/** Shows or hides the resident set, beside which the live bytes may be a flat line. */
export function ResidentSwitch() {
  const { state, set } = useApp();
  if (useCurve().lastResident === null) return null;
  return (
    <button type="button" class="link" aria-pressed={state.resident} onClick={() => set({ resident: !state.resident })}>
      {state.resident ? "Hide" : "Show"} the resident set
    </button>
  );
}

function options(
  data: CurveData,
  width: number,
  { height, small, resident, left }: Shape,
  latest: { current: { app: App; range: Range | null } },
): uPlot.Options {
  const most = Math.max(resident ? data.most : data.mostLive, 1);
  const right = small ? 0 : width < 600 ? 8 : 96;
  return {
    width,
    height,
    legend: { show: false },
    padding: [small ? 4 : 8, right, small ? 2 : 0, 0],
    scales: { x: { time: false, range: [data.from, data.to] }, y: { range: [0, small ? most : ceiling(most)] } },
    axes: small
      ? [{ show: false }, { show: false }]
      : [
          bottomAxis((it) => (it === data.zero ? "0" : duration(it - data.zero).replace(/\.0+(?=\D)/, "")), (from, to) => roundSplits(from, to, data.zero, width)),
          byteAxis(left),
        ],
    series: [
      {},
      { stroke: color("accent"), width: 1.5, fill: color("area"), paths: uPlot.paths.stepped!({ align: 1 }), points: { show: false } },
      { show: resident, stroke: color("resident"), width: 1.5, dash: [5, 3], points: { show: false }, spanGaps: true },
    ],
    cursor: {
      y: false,
      points: { show: false },
      drag: { x: false, y: false },
    },
    hooks: {
      ready: [(self) => brush(self.over, (left) => self.posToVal(left, "x"), (dragged) => choose(latest.current.app, dragged))],
      setCursor: [(self) => small || hover(self, data, resident)],
      draw: [(self) => decorate(self, resident ? data : { ...data, lastResident: null }, small, latest.current.range)],
    },
  };
}

/** What the curve is at the pointer. */
function hover(self: uPlot, data: CurveData, isResident: boolean): void {
  const index = self.cursor.idx;
  if (index === null || index === undefined || (self.cursor.left ?? -1) < 0) return showTip(self, null);
  const [time, live, resident] = self.data.map((column) => column[index]);
  const words = [duration(time! - data.zero), `live ${bytes(live ?? 0)}`];
  if (isResident && resident !== null && resident !== undefined) words.push(`resident ${bytes(resident)}`);
  showTip(self, words);
}

function decorate(self: uPlot, data: CurveData, small: boolean, range: Range | null): void {
  const { ctx, bbox } = self;
  const scale = devicePixelRatio;
  const x = (time: number) => Math.round(self.valToPos(time, "x", true));
  ctx.save();
  for (const gap of data.gaps) {
    const [from, to] = [Math.max(x(gap.from), bbox.left), Math.min(x(gap.to), bbox.left + bbox.width)];
    if (to >= from) hatch(ctx, [from, bbox.top, to - from, bbox.height], scale, small ? "" : gap.text);
  }
  if (range) {
    const [from, to] = [x(range[0]), x(range[1])];
    // Half of a line at 0, or at an end, is outside of the box.
    const more = 2 * scale;
    const [left, right] = [bbox.left - more, bbox.left + bbox.width + more];
    ctx.fillStyle = color("fade");
    ctx.fillRect(left, bbox.top - more, Math.max(0, from - left), bbox.height + 2 * more);
    ctx.fillRect(to, bbox.top - more, Math.max(0, right - to), bbox.height + 2 * more);
    ctx.fillStyle = color("accent");
    for (const at of [from, to]) ctx.fillRect(at - scale / 2, bbox.top, 1.5 * scale, bbox.height);
  }
  if (!small && data.peak) drawPeak(self, data.peak, data.zero, data.isSum ? "at most" : "peak");
  if (!small) drawEnds(self, data);
  ctx.restore();
}

function drawPeak(self: uPlot, peak: { time: number; bytes: number }, zero: number, word: string): void {
  const { ctx, bbox } = self;
  const scale = devicePixelRatio;
  const [x, y] = [self.valToPos(peak.time, "x", true), self.valToPos(peak.bytes, "y", true)];
  ctx.strokeStyle = color("text1");
  ctx.lineWidth = scale;
  ctx.setLineDash([scale, 2 * scale]);
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.fillStyle = color("bg");
  ctx.lineWidth = 1.8 * scale;
  ctx.beginPath();
  ctx.arc(x, y, 4 * scale, 0, 2 * Math.PI);
  ctx.fill();
  ctx.stroke();
  const bold = `${word} ${bytesParts(peak.bytes).join(" ")}`;
  const rest = ` at ${duration(peak.time - zero)}`;
  ctx.textBaseline = "middle";
  ctx.font = `600 ${11 * scale}px system-ui, sans-serif`;
  const boldWidth = ctx.measureText(bold).width;
  const whole = boldWidth + ctx.measureText(rest).width;
  const box = placeLabel(self, x, y, whole);
  ctx.fillStyle = color("bg");
  ctx.fillRect(box.left - 2 * scale, box.top, box.width + 4 * scale, box.height);
  const write = (text: string, at: number, weight: number) => {
    ctx.font = `${weight} ${11 * scale}px system-ui, sans-serif`;
    ctx.fillStyle = color("text1");
    ctx.fillText(text, at, box.top + box.height / 2);
  };
  ctx.textAlign = "left";
  write(bold, box.left, 600);
  write(rest, box.left + boldWidth, 400);
}

/** A place beside a point for a label of a width: above it or below it, where no curve crosses the
 * label, or at least not the first one. If there is none, below it. */
function placeLabel(self: uPlot, x: number, y: number, width: number): Box {
  const { bbox } = self;
  const scale = devicePixelRatio;
  const height = 16 * scale;
  const [right, bottom] = [bbox.left + bbox.width, bbox.top + bbox.height];
  const [after, before] = [x + 10 * scale, x - 10 * scale - width];
  const lefts = [after, before].filter((it) => it >= bbox.left + 4 * scale && it + width <= right);
  if (lefts.length === 0) lefts.push(Math.max(after + width > right ? before : after, bbox.left + 4 * scale));
  const below = Math.min(y + 6 * scale, bottom - height - 2 * scale);
  const tops = [y - 22 * scale, below].filter((it) => it >= bbox.top - 6 * scale);
  const xs = Array.from(self.data[0], (it) => self.valToPos(it, "x", true));
  const curves = self.data.slice(1).map((column) => Array.from(column, (it) => (typeof it === "number" ? self.valToPos(it, "y", true) : null)));
  const boxes = tops.flatMap((top) => lefts.map((left) => ({ left, top, width, height })));
  const clear = (of: typeof curves) => boxes.find((box) => !of.some((ys) => crosses(box, xs, ys)));
  return clear(curves) ?? clear(curves.slice(0, 1)) ?? { left: lefts[0]!, top: below, width, height };
}

/** Names the curves at their ends, where there is room for it. */
function drawEnds(self: uPlot, data: CurveData): void {
  const { ctx, bbox } = self;
  const scale = devicePixelRatio;
  const room = self.ctx.canvas.width - bbox.left - bbox.width;
  if (room < 80 * scale) return;
  const ends = [
    { name: "live", value: data.lastLive, ink: color("accent") },
    { name: "resident", value: data.lastResident, ink: color("resident") },
  ].filter((it): it is { name: string; value: number; ink: string } => it.value !== null);
  ends.sort((a, b) => b.value - a.value);
  let before = -Infinity;
  const lowest = bbox.top + bbox.height - (ends.length - 1) * 28 * scale - 12 * scale;
  ends.forEach((it, i) => {
    const wanted = Math.min(self.valToPos(it.value, "y", true), lowest + i * 28 * scale);
    const y = Math.max(wanted, before + 28 * scale, bbox.top + 6 * scale);
    before = y;
    ctx.fillStyle = it.ink;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    ctx.font = `${11 * scale}px system-ui, sans-serif`;
    ctx.fillText(it.name, bbox.left + bbox.width + 8 * scale, y - 6 * scale);
    ctx.fillText(bytesParts(it.value).join(" "), bbox.left + bbox.width + 8 * scale, y + 6 * scale);
  });
}
