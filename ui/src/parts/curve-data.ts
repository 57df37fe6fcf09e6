// The columns of the curve: of one process its series of maxima, of several the sum of what
// was live at the ends of equal parts of the recording.

import { useMemo } from "preact/hooks";
import type uPlot from "uplot";
import { type Model, useApp } from "../app";
import type { Process } from "../data/recording";
import type { State } from "../state";
import type { Gap } from "../data/gaps";
import { bytes, count, duration, plural } from "../format";

export interface CurveData {
  columns: uPlot.AlignedData;
  /** Of the axis of time, and where times count from. */
  from: number;
  to: number;
  zero: number;
  most: number;
  mostLive: number;
  /** Width of a step, in nanoseconds. */
  step: number;
  peak: { time: number; bytes: number } | null;
  /** When events are missing. */
  gaps: { from: number; to: number; text: string }[];
  lastLive: number | null;
  lastResident: number | null;
  /** What the curve shows, for those who cannot see it. */
  label: string;
  isSum: boolean;
  /** Whose curve it is, of several processes. */
  whose: string;
}

/** The part of the axis after a recording that is cut, in which nothing is known. */
const AFTER_CUT = 0.08;

export function useCurve(): CurveData {
  const { model, state } = useApp();
  return useMemo(() => curve(model, state), [model, state.process]);
}

function curve(model: Model, state: State): CurveData {
  const process = model.process(state);
  const data = process ? ofProcess(process, model.recording.start) : ofAll(model, state);
  const { gaps } = model.missing(state);
  const isCut = gaps.some((it) => it.to === null);
  const to = isCut ? data.to + AFTER_CUT * (data.to - data.from) : data.to;
  const text = (gap: Gap) => (gap.events > 0 ? `${plural(gap.events, "event")} lost` : "not recorded");
  return {
    ...data,
    to,
    gaps: gaps.map((it) => ({ from: it.from, to: it.to ?? to, text: text(it) })),
    label: gaps.length === 0 ? data.label : `${data.label}; hatched where events are missing`,
  };
}

function ofProcess(process: Process, zero: number): CurveData {
  const { live, resident, end, starts } = process.details!;
  const times: number[] = [];
  const values: number[] = [];
  const sets: (number | null)[] = [];
  let at = 0;
  let set: number | null = null;
  live.max.forEach((value, i) => {
    times.push(live.from + i * live.width);
    values.push(value);
    while (at < resident.time.length && resident.time[at]! < live.from + (i + 1) * live.width) set = resident.bytes[at++]!;
    sets.push(set);
  });
  const from = starts[0] ?? process.started;
  const lastLive = live.bytes[live.bytes.length - 1] ?? 0;
  const lastResident = resident.bytes[resident.bytes.length - 1] ?? null;
  // The step of the last bucket ends with the process.
  times.push(Math.max(end, times[times.length - 1] ?? from));
  values.push(lastLive);
  sets.push(lastResident);
  const peak = process.peakBytes > 0 ? { time: process.peakAt, bytes: process.peakBytes } : null;
  return {
    columns: [times, values, sets],
    from,
    to: Math.max(end, from + 1),
    zero,
    most: Math.max(process.peakBytes, ...resident.bytes),
    mostLive: process.peakBytes,
    step: live.width,
    peak,
    lastLive,
    lastResident,
    label: peak
      ? `Live bytes over the run of ${duration(process.duration)}: the peak of ${bytes(peak.bytes)} is ${duration(peak.time - zero)} after the start, ${bytes(lastLive)} are live at the end`
      : "Nothing was allocated",
    gaps: [],
    isSum: false,
    whose: "",
  };
}

function ofAll(model: Model, state: State): CurveData {
  const { recording } = model;
  const [from, to] = model.whole(state);
  const processes = model.processes(state);
  const [values, resident] = state.process === null ? [Array.from(recording.sumOfLive), Array.from(recording.sumOfResident)] : sums(processes, from, to);
  const step = (to - from) / Math.max(values.length, 1);
  const times = values.map((_, i) => from + i * step);
  const last = values[values.length - 1] ?? 0;
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  const at = from + (values.lastIndexOf(most) + 1) * step;
  const sets = times.map((_, i) => resident[i] ?? null);
  const lastSet = sets[sets.length - 1] ?? null;
  const number = state.process === null ? recording.processes.length : processes.length;
  const whose = state.process === null ? "all processes" : `${count(processes.length)} processes`;
  return {
    columns: [[...times, to], [...values, last], [...sets, lastSet]],
    from,
    to: Math.max(to, from + 1),
    zero: recording.start,
    most: resident.reduce((a, b) => Math.max(a, b), most),
    mostLive: most,
    step,
    peak: most > 0 ? { time: at, bytes: most } : null,
    gaps: [],
    lastLive: last,
    lastResident: lastSet,
    label: `Live bytes of ${number} processes over ${duration(to - from)}: together ${bytes(most)} at most, ${duration(at - recording.start)} after the start`,
    isSum: true,
    whose,
  };
}

const POINTS = 256;

/** Live bytes and resident sets of some processes at the end of each equal part of the run,
 * as `processes.rs` adds them up for all. */
function sums(processes: Process[], from: number, to: number): [number[], number[]] {
  const width = Math.max(Math.ceil((to - from) / POINTS), 1);
  const live = new Array<number>(POINTS).fill(0);
  const resident = new Array<number>(POINTS).fill(0);
  for (const process of processes) {
    const { live: series, resident: sets } = process.details!;
    const ended = process.started + process.duration;
    let set = 0;
    for (let i = 0; i < POINTS; i++) {
      const time = Math.min(from + (i + 1) * width, to);
      while (set < sets.time.length && sets.time[set]! <= time) set++;
      // To a microsecond, as the ends of processes are known.
      if (time < process.started || time > ended + 1e3) continue;
      const at = Math.min(Math.floor(Math.max(time - series.from, 0) / Math.max(series.width, 1)), series.bytes.length - 1);
      live[i]! += series.bytes[at] ?? 0;
      if (set > 0) resident[i]! += sets.bytes[set - 1]!;
    }
  }
  return [live, resident.some((it) => it > 0) ? resident : []];
}
