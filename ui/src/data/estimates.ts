// Estimates of a sampled profile: intervals, numbers of samples, and ranks.

import type { Group } from "./groups";
import type { Recording, SampledSums } from "./recording";

/** With 95 % confidence, and how many samples it is made of. */
export interface Estimate {
  low: number;
  high: number;
  samples: number;
}

/** Whether a metric is of the live blocks. */
const isLive = (metric: string) => metric.startsWith("leaked");

/** By group of frames: which of the intervals of functions is its, and how many sites it has. */
type Indexes = Map<number, { index: number; sites: number }>;

const byGroup = new WeakMap<Recording, Indexes>();

function indexes(recording: Recording): Indexes {
  let found = byGroup.get(recording);
  if (!found) {
    found = new Map();
    const sites = new Map<number, number>();
    const counts = new Map<number, number>();
    for (let site = 0; site < recording.sites.count; site++) {
      sites.set(recording.sites.number[site]!, site);
      counts.set(recording.groupOf(site), (counts.get(recording.groupOf(site)) ?? 0) + 1);
    }
    const functions = recording.meta.samples?.functions ?? [];
    functions.forEach((it, index) => {
      const site = sites.get(it.site);
      if (site !== undefined) found!.set(recording.groupOf(site), { index, sites: counts.get(recording.groupOf(site))! });
    });
    byGroup.set(recording, found);
  }
  return found;
}

/** The sums of what is looked at: all processes or one; those of a program have none, because the
 * interval of a sum is not the sum of the intervals. */
export function sumsOf(recording: Recording, process: number | null): SampledSums | null {
  const samples = recording.meta.samples;
  return (process === null ? samples?.total : samples?.processes[process]) ?? null;
}

/** Of all blocks. */
export function ofTotal(recording: Recording, metric: string, process: number | null): Estimate | null {
  const sums = sumsOf(recording, process);
  const interval = sums?.intervals[recording.meta.samples!.metrics.indexOf(metric)];
  return interval ? { ...interval, samples: sums!.samples[isLive(metric) ? 0 : 1] } : null;
}

/** Of a function, unless only some of its sites are looked at: the interval of a sum is not
 * the sum of the intervals. */
export function ofGroup(recording: Recording, metric: string, group: Group): Estimate | null {
  const samples = recording.meta.samples;
  if (group.sites.length === 1) return ofSite(recording, metric, group.sites[0]!);
  const all = indexes(recording).get(recording.groupOf(group.sites[0]!));
  const found = all?.sites === group.sites.length ? samples?.functions[all.index] : undefined;
  const interval = found?.intervals[samples!.metrics.indexOf(metric)];
  return interval ? { ...interval, samples: found!.samples[isLive(metric) ? 0 : 1] } : null;
}

/** Of a site. */
export function ofSite(recording: Recording, metric: string, site: number): Estimate | null {
  const metrics = recording.meta.samples?.metrics ?? [];
  const at = site * metrics.length + metrics.indexOf(metric);
  const { low, high, samples, liveSamples } = recording.sites;
  if (at >= low.length) return null;
  return { low: low[at]!, high: high[at]!, samples: (isLive(metric) ? liveSamples : samples)[site]! };
}

/** The ranks that each may have: it is surely behind those whose intervals are above its own,
 * and surely before those whose are below. */
export function ranks(estimates: Estimate[]): [number, number][] {
  const lows = Float64Array.from(estimates, (it) => it.low).sort();
  const highs = Float64Array.from(estimates, (it) => it.high).sort();
  const below = (values: Float64Array, value: number, orEqual: boolean) => {
    let [from, to] = [0, values.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (values[middle]! < value || (orEqual && values[middle] === value)) from = middle + 1;
      else to = middle;
    }
    return from;
  };
  return estimates.map((it) => {
    const before = lows.length - below(lows, it.high, true);
    const behind = below(highs, it.low, false);
    return [before + 1, estimates.length - behind];
  });
}
