// What limits the numbers: warnings, what was left out, and the intervals of estimates.

import { useApp } from "../app";
import type { Group } from "../data/groups";
import { bytes, count, plural } from "../format";

/** Warnings of the recording, and what the page does not have. */
export function Notes() {
  const { recording } = useApp();
  const { meta } = recording;
  const notes = [...meta.warnings, ...meta.unrecorded.map((it) => `Not recorded: ${it}`)];
  if (meta.growing) notes.unshift("The recording goes on; this is what was recorded until now.");
  if (notes.length === 0) return null;
  return (
    <ul class="notes" aria-label="Warnings">
      {notes.map((note) => (
        <li key={note}>{note}</li>
      ))}
    </ul>
  );
}

/** Sentences on what the page does not have, or has only roughly. */
export function leftOut(app: ReturnType<typeof useApp>): string[] {
  const { left_out: left, names_cut, carried, source } = app.recording.meta;
  const notes: string[] = [...source];
  if (left.totals_only > 0) notes.push(`The ${count(carried)} processes with most allocations are here in full; of ${count(left.totals_only)} others only their totals.`);
  if (left.processes > 0) notes.push(`${plural(left.processes, "process", "processes")} with few allocations left out.`);
  if (left.stacks > 0) notes.push(`${plural(left.stacks, "light site")} (${plural(left.stack_allocations, "allocation")}) without callers: they are added up by function.`);
  if (left.widened > 0) notes.push(`${plural(left.widened, "site")} with times in buckets up to ${count(2 ** left.widest)} times as wide: in a range, their numbers are rough.`);
  if (left.details > 0) notes.push(`${plural(left.details, "site")} without sizes and who frees.`);
  if (left.source > 0) notes.push(`${plural(left.source, "place")} without source code: there is no room for more.`);
  if (names_cut > 0) notes.push(`${plural(names_cut, "long name")} cut in the middle.`);
  return notes;
}

/** An estimate with its interval, if it is one; a bar shows how wide the interval is. */
export function Uncertain({ metric, value, group }: { metric: string; value: number; group?: Group }) {
  const { recording } = useApp();
  const samples = recording.meta.samples;
  const show = metric === "leaked" || metric === "bytes" ? bytes : count;
  const index = samples?.metrics.indexOf(metric) ?? -1;
  const numbers = group && new Set(group.sites.map((site) => recording.sites.number[site]!));
  const found = numbers ? samples?.functions.find(([number]) => numbers.has(number))?.[1] : samples?.total;
  const interval = found?.[index];
  if (!interval) return <>{show(value)}</>;
  const high = Math.max(interval.high, 1);
  const at = (part: number) => `${((part / high) * 56).toFixed(1)}`;
  return (
    <span class="uncertain" title={`${count(interval.low)} to ${count(interval.high)}, with 95 % confidence`}>
      {show(value)}{" "}
      <small>
        {show(interval.low)} – {show(interval.high)}
      </small>
      <svg width="58" height="8" aria-hidden="true">
        <path d={`M${at(interval.low)} 4H${at(interval.high)}M${at(interval.low)} 1V7M${at(interval.high)} 1V7`} class="whisker" />
        <circle cx={at(Math.min(value, high))} cy="4" r="2.2" class="estimate" />
      </svg>
    </span>
  );
}
