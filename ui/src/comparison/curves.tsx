// Live bytes of both sides on one axis, each over the time since its own start.

import { useMemo } from "preact/hooks";
import uPlot from "uplot";
import type { Comparison, SideCurve } from "../data/comparison";
import { bytes, duration } from "../format";
import { color } from "../parts/colors";
import { bottomAxis, byteAxis, ceiling, roundSplits, showTip, usePlot } from "../parts/plot";
import { useApp } from "./app";

const NAMES = ["before", "after"] as const;

export function SideCurves() {
  const { comparison, theme } = useApp();
  const data = useMemo(() => columns(comparison.curves), [comparison]);
  const { element } = usePlot(data, (width) => options(comparison.curves, width), [theme]);
  if (data === null) return null;
  const missing = NAMES.filter((_, i) => comparison.curves[i]!.bytes.length === 0);
  const sums = NAMES.filter((_, i) => comparison.curves[i]!.processes > 1);
  return (
    <section>
      <div class="heading">
        <h2>Live bytes</h2>
        <p class="legend">
          {NAMES.map((name, i) => comparison.curves[i]!.bytes.length > 0 && (
            <span key={name}>
              <i class={name} />
              {said(comparison.curves[i]!, name)}
            </span>
          ))}
        </p>
      </div>
      <div class="curve" ref={element} role="img" aria-label={label(comparison)} style={{ height: "180px" }} />
      {missing.length > 0 && <p class="quiet">{isEmpty(comparison, missing[0]!) ? `Nothing was allocated ${missing[0]}.` : `Of the side ${missing[0]}, live bytes over time are not known.`}</p>}
      {sums.length > 0 && <p class="quiet">The curve {sums.join(" and ")} is the sum of the live bytes of all processes at the end of each part of the run.</p>}
    </section>
  );
}

function isEmpty(comparison: Comparison, side: (typeof NAMES)[number]): boolean {
  return comparison.all.every((it) => it[side] === 0);
}

function most(curve: SideCurve): number {
  return curve.bytes.reduce((a, b) => Math.max(a, b), curve.peakBytes);
}

function said(curve: SideCurve, name: string): string {
  const peak = curve.processes > 1 ? `at most ${bytes(most(curve))}` : `peak ${bytes(curve.peakBytes)}`;
  return `${name}: ${duration(curve.end)}, ${peak}`;
}

function label(comparison: Comparison): string {
  const parts = NAMES.map((name, i) => (comparison.curves[i]!.bytes.length > 0 ? said(comparison.curves[i]!, name) : ""));
  return `Live bytes over time since the start. ${parts.filter(Boolean).join("; ")}`;
}

/** One column of times for both curves; null: there is no curve. */
function columns(curves: SideCurve[]): uPlot.AlignedData | null {
  if (curves.every((it) => it.bytes.length === 0)) return null;
  const tables = curves.map((curve): uPlot.AlignedData => {
    const times = Array.from(curve.bytes, (_, i) => curve.from + i * curve.width);
    const values = Array.from(curve.bytes);
    // The step of the last bucket ends with the run.
    const last = times[times.length - 1];
    if (last !== undefined && curve.end > last) {
      times.push(curve.end);
      values.push(values[values.length - 1]!);
    }
    return [times, values];
  });
  return uPlot.join(tables);
}

function options(curves: SideCurve[], width: number): uPlot.Options {
  const end = Math.max(...curves.map((it) => it.end), 1);
  const largest = Math.max(...curves.map(most), 1);
  const stepped = uPlot.paths.stepped!({ align: 1 });
  return {
    width,
    height: 180,
    legend: { show: false },
    padding: [8, 24, 0, 0],
    scales: { x: { time: false, range: [0, end] }, y: { range: [0, ceiling(largest)] } },
    axes: [bottomAxis((it) => (it === 0 ? "0" : duration(it).replace(/\.0+(?=\D)/, "")), (from, to) => roundSplits(from, to, 0, width)), byteAxis()],
    // Dashed and solid, because colour alone says nothing to some.
    series: [
      {},
      { stroke: color("more"), width: 1.5, dash: [6, 3], paths: stepped, points: { show: false }, spanGaps: true },
      { stroke: color("accent"), width: 1.5, fill: color("area"), paths: stepped, points: { show: false }, spanGaps: true },
    ],
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    hooks: { setCursor: [(self) => hover(self, curves)] },
  };
}

/** What both curves are at the pointer. */
function hover(self: uPlot, curves: SideCurve[]): void {
  const left = self.cursor.left ?? -1;
  if (left < 0) return showTip(self, null);
  const time = self.posToVal(left, "x");
  const words = [duration(time)];
  curves.forEach((curve, i) => {
    const at = Math.floor((time - curve.from) / Math.max(curve.width, 1));
    if (curve.bytes.length === 0) return;
    const value = curve.bytes[Math.min(at, curve.bytes.length - 1)];
    words.push(time > curve.end ? `${NAMES[i]} has ended` : `${NAMES[i]} ${bytes(at < 0 ? 0 : (value ?? 0))}`);
  });
  showTip(self, words);
}
