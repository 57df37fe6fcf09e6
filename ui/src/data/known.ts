// Which figures a page has. Stacks that another tool wrote have sums of some metrics only, and what
// is not among them is unknown: it is shown nowhere as 0.

import type { Weight } from "../state";
import type { Recording, SiteFigure } from "./recording";

/** By metric, as `allotrope` names it: the figure of sites that has it. */
const FIGURES: Record<string, SiteFigure> = {
  allocations: "allocations",
  bytes: "bytes",
  temporary: "temporary",
  "leaked-allocations": "leaked",
  leaked: "leaked_bytes",
  "peak-allocations": "at_peak",
  peak: "at_peak_bytes",
  lifetime: "mean_ns",
  reallocations: "reallocations",
};

/** Whether the page has the metric. */
export function knows({ meta }: Pick<Recording, "meta">, metric: string): boolean {
  return meta.kind !== "stacks" || meta.known.includes(metric);
}

/** The metrics by which the functions of stacks are ranked, the best first. */
const RANKED = ["peak", "leaked", "bytes", "allocations", "leaked-allocations", "peak-allocations", "temporary", "reallocations"] as const;
export type Ranked = (typeof RANKED)[number];

/** The one by which functions are ranked at first. */
export function ranked(recording: Pick<Recording, "meta">): Ranked {
  const { kind } = recording.meta;
  if (kind === "sampled") return "leaked";
  return kind === "stacks" ? (RANKED.find((it) => knows(recording, it)) ?? "allocations") : "peak";
}

/** Whether it counts blocks and not bytes. */
export function isCount(metric: string): boolean {
  return !["peak", "leaked", "bytes"].includes(metric);
}

/** The sum of a metric over sites. */
export function sumOf(recording: Recording, metric: string, sites: Iterable<number>): number {
  const figures = recording.sites.figures[FIGURES[metric]!];
  let sum = 0;
  for (const site of sites) sum += figures[site]!;
  return sum;
}

/** A metric after its number. */
export const WORDS: Record<Ranked, string> = {
  peak: "at the peak",
  leaked: "leaked",
  bytes: "allocated",
  allocations: "allocations",
  "leaked-allocations": "leaked blocks",
  "peak-allocations": "blocks at the peak",
  temporary: "temporary allocations",
  reallocations: "reallocations",
};

/** What a flame graph of stacks may be as wide as. */
export function knownWeights(recording: Recording): Weight[] {
  const weights: Weight[] = ["peak", "leaked", "bytes", "allocations", "temporary"];
  return weights.filter((it) => knows(recording, it));
}
