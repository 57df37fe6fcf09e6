// The memory of each allocator over the replay, beside the live bytes: what lies between them is
// fragmentation and what the allocator keeps for itself.

import { useMemo } from "preact/hooks";
import uPlot from "uplot";
import type { Allocator } from "../data/allocators";
import { bytes, count, plural } from "../format";
import { color } from "../parts/colors";
import { bottomAxis, byteAxis, ceiling, roundSplits, showTip, usePlot } from "../parts/plot";
import { useApp } from "./app";

const HEIGHT = 200;
const INKS = ["more", "third", "fourth", "resident"] as const;
/** Because colour alone says nothing to some. */
const DASHES = [
  { name: "dashed", dash: [6, 3] },
  { name: "dotted", dash: [2, 2] },
  { name: "solid", dash: [] },
] as const;

/** The colour and dashes of the curve of an allocator. */
function style(index: number) {
  return { ink: INKS[index % INKS.length]!, ...DASHES[index % DASHES.length]! };
}

export function Memory() {
  const { data, theme } = useApp();
  const measured = data.report.allocators.filter((it) => it.points.length > 0);
  const columns = useMemo(() => columnsOf(measured), [data]);
  const { element } = usePlot(columns, (width) => options(measured, width), [theme]);
  if (columns === null) return null;
  // The recording's own peak: the largest of the moments can be a little less.
  const live = data.report.recording.peak_live_bytes;
  const said = (it: Allocator) => `${it.name}: at most ${bytes(Math.max(...it.points.map((point) => point.rss_bytes)))}, ${bytes(it.points[it.points.length - 1]!.rss_bytes)} at the end`;
  return (
    <section>
      <div class="heading">
        <h2>Memory over the replay</h2>
        <p class="legend">
          <span>
            <i />
            live: at most {bytes(live)}
          </span>
          {measured.map((it, i) => (
            <span key={it.name}>
              <i style={{ borderTop: `2px ${style(i).name} var(--${style(i).ink})` }} />
              {said(it)}
            </span>
          ))}
        </p>
      </div>
      <div class="curve" ref={element} role="img" aria-label={`Resident memory after each operation, beside ${bytes(live)} live at most. ${measured.map(said).join("; ")}`} style={{ height: `${HEIGHT}px` }} />
      <p class="quiet said-of-all">Resident memory at {plural(measured[0]!.points.length, "moment")} of the run in which each call is measured; beside it the bytes that the program had requested and not freed.</p>
    </section>
  );
}

/** Operations, live bytes, and the resident memory with each allocator. */
function columnsOf(measured: Allocator[]): uPlot.AlignedData | null {
  if (measured.length === 0) return null;
  const live = measured[0]!.points;
  return uPlot.join([
    [live.map((it) => it.operations), live.map((it) => it.live_bytes)],
    ...measured.map((it): uPlot.AlignedData => [it.points.map((point) => point.operations), it.points.map((point) => point.rss_bytes)]),
  ]);
}

function options(measured: Allocator[], width: number): uPlot.Options {
  const points = measured.flatMap((it) => it.points);
  const most = points.reduce((largest, it) => Math.max(largest, it.live_bytes, it.rss_bytes), 1);
  const end = points.reduce((last, it) => Math.max(last, it.operations), 1);
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    padding: [8, 24, 0, 0],
    scales: { x: { time: false, range: [0, end] }, y: { range: [0, ceiling(most)] } },
    axes: [bottomAxis((it) => (it === 0 ? "0 operations" : count(it)), (from, to) => roundSplits(from, to, 0, width)), byteAxis()],
    series: [
      {},
      { stroke: color("accent"), width: 1.5, fill: color("area"), points: { show: false }, spanGaps: true },
      ...measured.map((_, i): uPlot.Series => ({ stroke: color(style(i).ink), width: 1.5, dash: [...style(i).dash], points: { show: false }, spanGaps: true })),
    ],
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    hooks: { setCursor: [(self) => hover(self, measured)] },
  };
}

function hover(self: uPlot, measured: Allocator[]): void {
  const index = self.cursor.idx;
  if (index === null || index === undefined || (self.cursor.left ?? -1) < 0) return showTip(self, null);
  const names = ["live", ...measured.map((it) => it.name)];
  const values = names.flatMap((name, i) => {
    const value = self.data[i + 1]![index];
    return value === null || value === undefined ? [] : [`${name} ${bytes(value)}`];
  });
  showTip(self, [plural(self.data[0]![index]!, "operation"), ...values]);
}
