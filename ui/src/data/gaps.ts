// When events of processes are missing, and how many.

import type { Process, Recording } from "./recording";

/** Times in nanoseconds since the start of the recording. */
export interface Gap {
  from: number;
  /** null: the recording does not have the end of the process. */
  to: number | null;
  /** 0: unknown. */
  events: number;
}

/** What is missing of some processes. */
export interface Missing {
  /** In order of time, and apart from each other. */
  gaps: Gap[];
  /** Events whose time is unknown. */
  elsewhere: number;
  /** All events that are known to be missing. */
  events: number;
}

/** What is missing. A recording that goes on has no end yet, but misses nothing. */
export function missing(recording: Recording, processes: Process[]): Missing {
  const all = processes.flatMap((it) => it.gaps).filter((it) => !(recording.meta.growing && it.to === null));
  const gaps: Gap[] = [];
  for (const gap of all.sort((a, b) => a.from - b.from)) {
    const last = gaps[gaps.length - 1];
    const isApart = !last || (last.to !== null && gap.from >= last.to) || (last.events === 0) !== (gap.events === 0);
    if (isApart) gaps.push({ ...gap });
    else {
      last.to = last.to === null || gap.to === null ? null : Math.max(last.to, gap.to);
      last.events += gap.events;
    }
  }
  const events = processes.reduce((total, it) => total + it.lost, 0);
  const elsewhere = processes.reduce((total, it) => total + Math.max(0, it.lost - it.gaps.reduce((sum, gap) => sum + gap.events, 0)), 0);
  return { gaps, elsewhere, events };
}

/** What is left at the end, in a word: a leak only where the end is known. */
export function leftWord(recording: Recording, processes: Process[]): string {
  if (recording.meta.kind === "sampled") return "Live";
  if (recording.meta.growing) return "Live now";
  const cut = processes.filter((it) => !it.complete).length;
  if (cut === 0) return "Leaked";
  return cut === processes.length ? "Alive at the cut" : "Leaked, or alive at the cut";
}
