// What the curves of all pages have in common: a plot of uPlot that is as wide as its element,
// the look of its axes, and the words at the pointer.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { bytes } from "../format";
import { color } from "./colors";

/** Keeps a plot in the element of `element`, made anew when its width or one of `inputs`
 * changes. Without data there is none. */
export function usePlot(data: uPlot.AlignedData | null, options: (width: number) => uPlot.Options, inputs: unknown[]) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  useEffect(() => {
    const target = element.current;
    if (!target || data === null) return;
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(target.clientWidth), data, target);
    };
    make();
    let width = target.clientWidth;
    const observer = new ResizeObserver(() => {
      if (target.clientWidth === width) return;
      width = target.clientWidth;
      make();
    });
    observer.observe(target);
    return () => {
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [data, ...inputs]);
  return { element, plot };
}

function look(): uPlot.Axis {
  return { stroke: color("text3"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
}

/** The axis below, whose numbers `said` puts in words. */
export function bottomAxis(said: (value: number) => string, splits: (from: number, to: number) => number[]): uPlot.Axis {
  return { ...look(), size: 28, grid: { show: false }, values: (_, ticks) => ticks.map(said), splits: (_plot, _axis, from, to) => splits(from, to) };
}

/** The axis of bytes at the left. */
export function byteAxis(size = 64): uPlot.Axis {
  return { ...look(), size, values: (_, ticks) => ticks.map((it) => (it === 0 ? "0" : bytes(it).replace(".0", ""))), splits: (_plot, _axis, _min, max) => byteSplits(max) };
}

/** Three to six round numbers of bytes. */
function byteSplits(max: number): number[] {
  const unit = 1024 ** Math.floor(Math.log(Math.max(max, 1)) / Math.log(1024));
  const steps = [1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128, 200, 256, 512].map((it) => it * unit);
  const fractions = [unit / 8, unit / 4, unit / 2].filter((it) => it >= 1);
  const step = [...fractions, ...steps].find((it) => max / it <= 5) ?? max;
  return Array.from({ length: Math.floor(max / step + 1e-9) + 1 }, (_, i) => i * step);
}

/** The end of the axis of bytes: a round number above the largest. */
export function ceiling(most: number): number {
  const splits = byteSplits(most);
  const step = splits[1] ?? most;
  return Math.ceil((most * 1.02) / step) * step;
}

/** Round numbers on an axis that counts from `zero`. */
export function roundSplits(from: number, to: number, zero: number, width: number): number[] {
  const count = Math.max(3, Math.floor(width / 120));
  const raw = Math.max((to - from) / count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((it) => it * power).find((it) => it >= raw) ?? raw;
  const first = Math.ceil((from - zero) / step) * step + zero;
  const splits: number[] = [];
  for (let at = first; at <= to; at += step) splits.push(at);
  return splits;
}

/** Shows words at the pointer over an element; null: there is nothing to say. */
export function showTip(self: { over: HTMLElement; cursor: { left?: number } }, words: string[] | null): void {
  let tip = self.over.querySelector<HTMLDivElement>(".tip");
  if (!tip) {
    tip = document.createElement("div");
    tip.className = "tip";
    self.over.append(tip);
  }
  tip.hidden = words === null;
  if (words === null) return;
  tip.textContent = words.join(" · ");
  const left = self.cursor.left ?? 0;
  tip.style.transform = `translateX(${Math.min(left + 8, Math.max(0, self.over.clientWidth - tip.offsetWidth))}px)`;
}
