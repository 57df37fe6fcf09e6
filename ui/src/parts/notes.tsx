// What limits the numbers: warnings, what was left out, and the intervals of estimates.

import { useApp } from "../app";
import { type Estimate, ofGroup, ofSite, ofTotal } from "../data/estimates";
import type { Group } from "../data/groups";
import { bytes, count, duration, plural, share } from "../format";
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

/** Whether what is looked at has processes that are not here in full. */
export function isPart({ model, state }: ReturnType<typeof useApp>): boolean {
  return model.processes(state).length < model.all(state).length || (state.process === null && model.recording.meta.left_out.processes > 0);
}

/** Of which processes the figures below it are, if not of all. */
export function PartOnly() {
  const app = useApp();
  if (!isPart(app)) return null;
  const { model, state, recording } = app;
  const full = model.processes(state);
  const others = model.all(state).length - full.length + (state.process === null ? recording.meta.left_out.processes : 0);
  const sum = (of: typeof full) => of.reduce((total, it) => total + it.allocations, 0);
  return (
    <p class="quiet part">
      Of the {plural(full.length, "process", "processes")} with most allocations, which made {share(sum(full), sum(model.all(state)))} of them. Of {plural(others, "other process", "other processes")} only totals are here.
    </p>
  );
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
  const { left_out: left, names_cut, source } = app.recording.meta;
  const notes: string[] = [...source];
  if (left.stacks > 0) notes.push(`${plural(left.stacks, "light site")} (${plural(left.stack_allocations, "allocation")}) without callers: they are added up by function.`);
  if (left.widened > 0) notes.push(`${plural(left.widened, "site")} with times in buckets up to ${count(2 ** left.widest)} times as wide: in a range, their numbers are in the middle of what they may be, and ± is the most that they are off.`);
  if (left.details > 0) notes.push(`${plural(left.details, "site")} without sizes, and without who allocates and frees.`);
  if (left.source > 0) notes.push(`${plural(left.source, "place")} without source code: there is no room for more.`);
  if (names_cut > 0) notes.push(`${plural(names_cut, "long name")} cut in the middle.`);
  return notes;
}

/** The most that a figure of a range is off, if it is not exact. */
export function Off({ value, show }: { value: number; show: (value: number) => string }) {
  return value > 0 ? <small class="off"> ± {show(value)}</small> : null;
}

/** Below so many samples, a figure says little more than that there is something. */
const FEW_SAMPLES = 4;

/** A figure with its interval, if it is an estimate. */
export function Uncertain({ metric, value, group, site, most }: { metric: string; value: number; group?: Group; site?: number; most?: number }) {
  const { recording, state } = useApp();
  const show = metric === "leaked" || metric === "bytes" ? bytes : count;
  const estimate = site !== undefined ? ofSite(recording, metric, site) : group ? ofGroup(recording, metric, group) : ofTotal(recording, metric, state.process);
  return estimate ? <Estimated value={value} estimate={estimate} show={show} most={most} /> : <>{show(value)}</>;
}

/** An estimate with its interval, and how many samples it is made of; a bar shows how wide the
 * interval is, on the scale of `most` if that is given. */
export function Estimated({ value, estimate, show, most }: { value: number; estimate: Estimate; show: (value: number) => string; most?: number }) {
  const { low, high, samples } = estimate;
  return (
    <span class="uncertain" title={`${count(low)} to ${count(high)}, with 95 % confidence`}>
      {samples < FEW_SAMPLES && samples > 0 ? "seen" : show(value)}{" "}
      <small>
        {show(low)} – {show(high)} · {plural(samples, "sample")}
      </small>
      <Whisker value={value} low={low} high={high} most={Math.max(most ?? high, 1)} />
    </span>
  );
}

/** A number of blocks, with its interval if it is an estimate. */
export function blocks(value: number, interval: { low: number; high: number } | null | undefined): string {
  return interval ? `${plural(value, "block")} (${count(interval.low)} – ${count(interval.high)})` : plural(value, "block");
}
