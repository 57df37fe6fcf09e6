// What limits the numbers: warnings, what was left out, and the intervals of estimates.

import { useApp } from "../app";
import { ofGroup, ofSite, ofTotal } from "../data/estimates";
import type { Group } from "../data/groups";
import { bytes, count, duration, plural } from "../format";
import { rangeOptions } from "../state";
import { Whisker } from "./whisker";

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

const GAPS = 4;

/** When events are missing, below a curve that is hatched there. */
export function GapNotes() {
  const { recording, state, model } = useApp();
  const { gaps, elsewhere } = model.missing(state);
  const at = (time: number) => duration(time - recording.start);
  const notes = gaps.slice(0, GAPS).map((gap) => {
    if (gap.to === null) return `nothing was recorded after ${at(gap.from)}, and the program went on`;
    const when = `between ${at(gap.from)} and ${at(gap.to)}`;
    return gap.events > 0 ? `${plural(gap.events, "event")} missing ${when}` : `not all events were read ${when}`;
  });
  if (gaps.length > GAPS) {
    const events = gaps.slice(GAPS).reduce((sum, it) => sum + it.events, 0);
    notes.push(`${plural(gaps.length - GAPS, "more time", "more times")}${events > 0 ? ` with ${plural(events, "missing event")}` : ""}`);
  }
  const sentences: string[] = [];
  if (notes.length > 0) sentences.push(`Hatched: ${notes.join("; ")}.`);
  if (elsewhere > 0) sentences.push(`${plural(elsewhere, "event")} missing at times that are not known, so not hatched.`);
  if (sentences.length === 0) return null;
  return (
    <p class="gaps" data-gaps={gaps.length} data-elsewhere={elsewhere}>
      <svg width="18" height="12" aria-hidden="true">
        <path d="M1 11L8 1M6 11L13 1M11 11L17 2" stroke="currentColor" />
      </svg>{" "}
      {sentences.join(" ")}
    </p>
  );
}

/** How many events the totals lack. */
export function MissingEvents() {
  const { state, model } = useApp();
  const { events, gaps } = model.missing(state);
  if (events === 0 && gaps.length === 0) return null;
  const text = events > 0 ? `${plural(events, "event")} missing: these totals are too low, and blocks whose deallocation is missing count as live.` : "These totals are of what was recorded; the program did more.";
  return <p class="gaps missing">{text}</p>;
}

/** Above a table of what the page does not have by time, while a range is chosen: that it is of
 * the whole run, and the command that has it of the range. */
export function OfWholeRun({ by }: { by: "size" | "entry" | "process" }) {
  const { recording, state, model } = useApp();
  if (!model.hasRange(state)) return null;
  const process = by === "process" || recording.processes.length === 1 ? null : model.process(state);
  const options = `${rangeOptions(model.range(state), recording.start, recording.end)} --by ${by}`;
  return (
    <p class="quiet">
      These are of the whole run, not of the range; <code>{`allotrope report FILE ${options}${process ? ` --process ${process.id}` : ""}`}</code> has those of the range.
    </p>
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

/** Below so many samples, a figure says little more than that there is something. */
const FEW_SAMPLES = 4;

/** An estimate with its interval, if it is one, and how many samples it is made of; a bar
 * shows how wide the interval is, on the scale of `most` if that is given. */
export function Uncertain({ metric, value, group, site, most }: { metric: string; value: number; group?: Group; site?: number; most?: number }) {
  const { recording } = useApp();
  const show = metric === "leaked" || metric === "bytes" ? bytes : count;
  const estimate = site !== undefined ? ofSite(recording, metric, site) : group ? ofGroup(recording, metric, group) : ofTotal(recording, metric);
  if (!estimate) return <>{show(value)}</>;
  const { low, high: highest, samples } = estimate;
  const interval = { low, high: highest };
  const isSeen = samples < FEW_SAMPLES;
  return (
    <span class="uncertain" title={`${count(interval.low)} to ${count(interval.high)}, with 95 % confidence`}>
      {isSeen && samples > 0 ? "seen" : show(value)}{" "}
      <small>
        {show(interval.low)} – {show(interval.high)} · {plural(samples, "sample")}
      </small>
      <Whisker value={value} low={interval.low} high={interval.high} most={Math.max(most ?? interval.high, 1)} />
    </span>
  );
}
