// Processes that ran the same program in the same way (first, forked, or by exec), as in
// `allotrope report --by process --merge`: those with most bytes first.

import type { Process, Recording } from "./recording";

export interface Program {
  /** In place of the index of a process in the state: below 0. */
  key: number;
  executable: string;
  /** Those with most bytes first. */
  processes: Process[];
  allocations: number;
  bytes: number;
  leakedBytes: number;
  /** The largest peak of one of them. */
  peakBytes: number;
  /** How long the longest of them ran. */
  duration: number;
}

const known = new WeakMap<Recording, Program[]>();

/** All programs of a recording. */
export function programs(recording: Recording): Program[] {
  let all = known.get(recording);
  if (!all) {
    all = group(recording.processes);
    known.set(recording, all);
  }
  return all;
}

/** The program with a key. */
export function programOf(recording: Recording, key: number): Program | undefined {
  return programs(recording)[-1 - key];
}

/** Whether a process belongs to what is looked at. */
export function isChosen(recording: Recording, chosen: number | null, process: Process): boolean {
  if (chosen === null) return true;
  if (chosen >= 0) return process.index === chosen;
  return programOf(recording, chosen)?.processes.includes(process) ?? false;
}

function group(processes: Process[]): Program[] {
  const sorted = [...processes].sort((a, b) => b.bytes - a.bytes || a.id - b.id);
  const found = new Map<string, Process[]>();
  for (const process of sorted) {
    const key = `${process.origin} ${process.executable}`;
    const alike = found.get(key);
    if (alike) alike.push(process);
    else found.set(key, [process]);
  }
  const all = [...found.values()].map((alike) => {
    const sum = (of: "allocations" | "bytes" | "leakedBytes") => alike.reduce((total, it) => total + it[of], 0);
    const most = (of: "peakBytes" | "duration") => alike.reduce((a, it) => Math.max(a, it[of]), 0);
    return {
      key: 0,
      executable: alike[0]!.executable,
      processes: alike,
      allocations: sum("allocations"),
      bytes: sum("bytes"),
      leakedBytes: sum("leakedBytes"),
      peakBytes: most("peakBytes"),
      duration: most("duration"),
    };
  });
  all.sort((a, b) => b.bytes - a.bytes);
  all.forEach((it, i) => (it.key = -1 - i));
  return all;
}
