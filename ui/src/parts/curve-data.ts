// The columns of the curve: of one process its series of maxima, of several the sum of what
// was live at the ends of equal parts of the recording.

import { useMemo } from "preact/hooks";
import type uPlot from "uplot";
import { type Model, useApp } from "../app";
import type { Process } from "../data/recording";
import type { State } from "../state";
import { bytes, duration } from "../format";

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
  lastLive: number | null;
  lastResident: number | null;
  /** What the curve shows, for those who cannot see it. */
  label: string;
  isSum: boolean;
}

export function useCurve(): CurveData {
  const { model, state } = useApp();
  return useMemo(() => curve(model, state), [model, state.process]);
}

function curve(model: Model, state: State): CurveData {
  const process = model.process(state);
  return process ? ofProcess(process, model.recording.start) : ofAll(model, state);
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
    isSum: false,
  };
}

function ofAll(model: Model, state: State): CurveData {
  const { recording } = model;
  const [from, to] = model.whole(state);
  const sums = recording.sumOfLive;
  const step = (to - from) / Math.max(sums.length, 1);
  const times = Array.from(sums, (_, i) => from + i * step);
  const values = Array.from(sums);
  const last = values[values.length - 1] ?? 0;
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  return {
    columns: [[...times, to], [...values, last], [...times, to].map(() => null)],
    from,
    to: Math.max(to, from + 1),
    zero: recording.start,
    most,
    mostLive: most,
    step,
    peak: null,
    lastLive: last,
    lastResident: null,
    label: `Live bytes of ${recording.processes.length} processes over ${duration(to - from)}: ${bytes(most)} at most`,
    isSum: true,
  };
}
