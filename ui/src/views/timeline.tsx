// The second view: tracks on one axis of time, and what of a brushed range was allocated,
// alive, kept, destroyed or freed.

import { useMemo } from "preact/hooks";
import { type App, useApp } from "../app";
import { type Group, rangeOf } from "../data/groups";
import { MODES, MODE_NAMES, type Mode, type Sum, hasCells, rates } from "../data/ranges";
import type { Thread } from "../data/recording";
import { bytes, count, duration, plural, share } from "../format";
import { Choice } from "../parts/choice";
import { Curve, ResidentSwitch } from "../parts/curve";
import { useCurve } from "../parts/curve-data";
import { type Mark, MOST_LANES, MarkTrack, type NamedSpan } from "../parts/mark-track";
import { Bytes, FunctionName, Prose } from "../parts/names";
import { GapNotes, Off, PartOnly, isPart, leftOut } from "../parts/notes";
import { lanesOf } from "../parts/place";
import { Search } from "../parts/search";
import { type Column, Table } from "../parts/table";
import { BarTrack, type Bars } from "../parts/track";
import { GroupCurve } from "./overview";

const INKS = ["accent", "third", "fourth", "resident"];
const MOST_TRACKS = 6;
/** Also the most that the page has of one process; see processes.rs. */
const MOST_WINDOWS = 2000;
/** Nanoseconds: times of windows are rounded to a microsecond. */
const ROUNDED = 1000;

export function Timeline() {
  const app = useApp();
  const { state, model, recording, set } = app;
  const whole = model.whole(state);
  const range = model.range(state);
  const process = model.process(state);
  const length = duration(range[1] - range[0]);
  // What is alive at this bound is what was alive at the peak.
  const peak = process?.details?.afterPeak ?? null;
  const presets: Record<string, () => void> = {
    whole: () => set({ range: null }),
    until: () => peak !== null && set({ range: model.range({ ...state, range: [whole[0], peak] }) }),
    peak: () => peak !== null && set({ range: model.range({ ...state, range: [whole[0], peak] }), mode: "alive" }),
    after: () => peak !== null && set({ range: model.range({ ...state, range: [peak, whole[1]] }) }),
  };
  const names: [string, string][] = [["whole", "Whole run"]];
  if (peak !== null) names.push(["until", "Up to the peak"], ["peak", "Alive at it"], ["after", "After it"]);
  return (
    <>
      <div class="heading">
        <h1 class="range" aria-live="polite" data-from={range[0] - recording.start} data-to={range[1] - recording.start}>
          {range[0] === whole[0] && state.process === null ? "0\u00a0s" : duration(range[0] - recording.start)} – {duration(range[1] - recording.start)}{" "}
          <small>{state.range ? `${length} of ${duration(whole[1] - whole[0])}` : "the whole run; drag over the curve or a track to choose a range"}</small>
        </h1>
        <div class="tools">
          <ResidentSwitch />
          <Choice label="Range" values={names} value={!state.range ? "whole" : peak === null || range[1] !== peak || range[0] !== whole[0] ? null : state.mode === "alive" ? "peak" : "until"} onChange={(it) => presets[it]!()} />
        </div>
      </div>
      <Tracks />
      <GapNotes />
      <PartOnly />
      <Modes />
      <Rows />
      <p class="quiet">
        <Prose text={bounds(app)} />
      </p>
    </>
  );
}

/** At which times the numbers are exact. */
function bounds(app: App): string {
  const { model, state } = app;
  const bounds = model.boundaries(state);
  const whole = model.whole(state);
  const several = model.process(state) ? "" : " of all processes";
  return `Ranges snap to ${count(bounds.length - 1)} buckets${several} of at most ${duration((whole[1] - whole[0]) / Math.min(bounds.length - 1, 256))}, to marks, windows, forks${model.process(state) ? " and the peak" : ""}; at these bounds the numbers are exact${app.recording.meta.left_out.widened > 0 ? ", but for those with a ±," : ""}${isPart(app) ? " for these processes" : ", and equal those of `allotrope report --from --to`"}.`;
}

function Tracks() {
  const app = useApp();
  const { state, model } = app;
  const data = useCurve();
  const isNarrow = innerWidth < 700;
  const left = isNarrow ? 64 : 216;
  const right = isNarrow ? 8 : 96;
  const axis = { from: data.from, to: data.to, left, right, gaps: data.gaps };
  const process = model.process(state);
  const bars = useMemo(() => (process ? barsOf(app, process.index) : null), [model, process]);
  const marks = useMemo(() => app.recording.marks.filter((it) => data.from <= it.time && it.time <= data.to).sort(byTime), [data]);
  const forks = useMemo(() => forksOf(app), [model, state.process]);
  const windows = useMemo(() => spansOf(app), [model, state.process]);
  const [row, ...alsoRows] = [marks.length > 0 && "Marks", forks.length > 0 && "Forks", windows.spans.length > 0 && "Windows"].filter((it) => it !== false);
  return (
    <div class={isNarrow ? "tracks narrow" : "tracks"}>
      <div class="lane">
        <p>
          <b>Live bytes</b>
          <span>{[data.isSum && `${data.whose} together`, data.lastResident !== null && state.resident && "dashed: resident"].filter(Boolean).join("; ")}</span>
        </p>
        <Curve height={160} left={left} />
      </div>
      {bars && (
        <div class="lane">
          <p>
            <b>
              Allocated <i class="up">▲</i> freed <i class="down">▼</i>
            </b>
            <span>bytes in each bucket, log scale</span>
          </p>
          <BarTrack bars={bars.all} {...axis} height={62} label="Bytes allocated and freed in each bucket of time" />
        </div>
      )}
      {bars?.threads.map(({ name, allocations, bars }, i) => (
        <div class="lane" key={i}>
          <p>
            <b>{name}</b>
            <span>{plural(allocations, "allocation")}</span>
          </p>
          <BarTrack bars={bars} {...axis} height={36} label={`Bytes that thread ${name} allocated in each bucket of time`} />
        </div>
      ))}
      {bars?.others && (
        <p class="quiet">
          {bars.others} <TableLink table="threads">the table of threads</TableLink>.
        </p>
      )}
      {row && (
        <div class="lane">
          <p>
            <b>{row}</b>
            <span>{alsoRows.join(", ").toLowerCase()}</span>
          </p>
          <MarkTrack marks={marks} forks={forks} spans={windows.spans} lanes={windows.lanes} zero={data.zero} {...axis} />
        </div>
      )}
      {windows.note !== "" && (
        <p class="quiet">
          {windows.note} <TableLink table="windows">the table of windows</TableLink>.
        </p>
      )}
      {!process && (
        <p class="quiet">
          {plural(model.all(state).length, "process", "processes")}. Choose one above for its threads and its own buckets of time.
        </p>
      )}
    </div>
  );
}

function TableLink({ table, children }: { table: "threads" | "windows"; children: string }) {
  const { set } = useApp();
  return (
    <button type="button" class="link" onClick={() => set({ view: "tables", table })}>
      {children}
    </button>
  );
}

interface ThreadBars {
  name: string;
  allocations: number;
  bars: Bars;
}

/** The bars of a process, those of its busiest threads, and a sentence on its other threads.
 * Cells of threads are of blocks that the thread allocated, so what it freed is not known by
 * time. */
function barsOf({ recording }: App, index: number): { all: Bars; threads: ThreadBars[]; others: string } {
  const details = recording.processes[index]!.details!;
  const bounds = [...details.starts, details.end];
  const buckets = details.starts.length;
  const sites = Array.from({ length: details.sites[1] - details.sites[0] }, (_, i) => details.sites[0] + i);
  const { totals } = details;
  const { allocated, freed } = hasCells(recording.totalCells, totals) ? rates(recording.totalCells, [totals], buckets) : rates(recording.cells, sites, buckets);
  const busiest = details.threads.filter((it) => it.allocations > 0).sort((a, b) => b.allocations - a.allocations);
  const threads = busiest.length < 2 ? [] : busiest.slice(0, MOST_TRACKS);
  return {
    all: { bounds, up: allocated, down: freed, ink: "accent", inkDown: "less" },
    threads: threads.map((thread, i) => ({
      name: threads.some((other) => other !== thread && other.name === thread.name) ? `${thread.name} ${thread.tid}` : thread.name || `thread ${thread.tid}`,
      allocations: thread.allocations,
      bars: { bounds, up: rates(recording.threadCells, [thread.row], buckets).allocated, ink: INKS[i % INKS.length]! },
    })),
    others: otherThreads(details.threads, busiest.slice(MOST_TRACKS)),
  };
}

/** On the threads without a track; empty if there are none. */
function otherThreads(threads: Thread[], quiet: Thread[]): string {
  const freeing = threads.filter((it) => it.allocations === 0 && it.deallocations > 0);
  const parts: string[] = [];
  if (quiet.length > 0) parts.push(`${plural(quiet.length, "more thread")} with ${plural(quiet.reduce((sum, it) => sum + it.allocations, 0), "allocation")}`);
  if (freeing.length > 0) parts.push(`${plural(freeing.length, "thread")} that only ${freeing.length === 1 ? "frees" : "free"}`);
  return parts.length === 0 ? "" : `Without a track: ${parts.join(", and ")}. All are in`;
}

const byTime = (a: Mark, b: Mark) => a.time - b.time;

function forksOf({ recording, state, model }: App): Mark[] {
  const chosen = new Set(model.all(state));
  const forks: Mark[] = [];
  for (const child of recording.processes) {
    const parent = child.forkedFrom === null ? undefined : recording.processes[child.forkedFrom];
    if (parent && chosen.has(parent)) forks.push({ time: child.started, name: `fork: child ${child.pid}`, more: ` of ${parent.pid}` });
  }
  return forks.sort(byTime);
}

/** The windows in their lanes, and what is said of those that are not drawn. */
function spansOf({ model, state }: App): { spans: NamedSpan[]; lanes: (number | null)[]; note: string } {
  const processes = model.processes(state);
  const all = processes.flatMap((process) => process.details!.windows.map((it) => ({ from: process.started + it.opened, to: process.started + it.opened + it.duration, name: it.name })));
  const spans = all.sort((a, b) => a.from - b.from).slice(0, MOST_WINDOWS);
  const lanes = lanesOf(spans, MOST_LANES, ROUNDED);
  const left = all.length - lanes.filter((it) => it !== null).length;
  const notes: string[] = [];
  if (left > 0) notes.push(`${plural(left, "window")} not drawn: there is room for the first ${count(MOST_WINDOWS)}, and for ${MOST_LANES} at the same time.`);
  if (processes.some((it) => it.details!.windows.length >= MOST_WINDOWS)) notes.push(`The page has at most ${count(MOST_WINDOWS)} windows of a process.`);
  return { spans, lanes, note: notes.length === 0 ? "" : `${notes.join(" ")} All that the page has are in` };
}

function Modes() {
  const { state, model, set } = useApp();
  const { totals } = model.figures(state);
  return (
    <div class="modes" role="group" aria-label="What of the range is counted">
      {MODES.map((mode) => (
        <button key={mode} type="button" aria-pressed={mode === state.mode} onClick={() => set({ mode })}>
          <span>
            {MODE_NAMES[mode]}
            <Pictogram mode={mode} />
          </span>
          <strong data-bytes={totals[mode].bytes} data-blocks={totals[mode].blocks} data-mode={mode}>
            <Bytes value={totals[mode].bytes} />
          </strong>
          <Off value={totals[mode].bytesOff} show={bytes} />{" "}
          <small>
            {plural(totals[mode].blocks, "block")}
            <Off value={totals[mode].blocksOff} show={count} />
          </small>
        </button>
      ))}
    </div>
  );
}

/** A life against the range. */
function Pictogram({ mode }: { mode: Mode }) {
  const lives: Record<Mode, [number, number]> = { allocated: [7, 28], alive: [0, 34], kept: [9, 28], destroyed: [11, 22], freed: [0, 20] };
  const [from, to] = lives[mode];
  return (
    <svg width="34" height="12" viewBox="0 0 34 12" aria-hidden="true">
      <path d="M8 1H5V11H8M25 1H28V11H25" fill="none" stroke="currentColor" />
      <path d={`M${from} 6H${to}`} stroke="currentColor" stroke-width="2" />
    </svg>
  );
}

interface Row {
  key: string;
  name: string;
  place: string;
  group: Group;
  sum: Sum;
}

function Rows() {
  const { state, model, set } = useApp();
  const range = model.figures(state);
  const words = state.search.toLowerCase();
  const rows: Row[] = model
    .groups(state, "functions")
    .map((group) => ({ key: group.key, name: group.name, place: group.place, group, sum: rangeOf(group, range) }))
    .filter((it) => it.sum.blocks > 0 && (words === "" || `${it.name} ${it.place}`.toLowerCase().includes(words)));
  const whole = range.totals[state.mode].bytes;
  const most = rows.reduce((a, b) => Math.max(a, b.sum.bytes), 1);
  const columns: Column<Row>[] = [
    { key: "name", title: `${MODE_NAMES[state.mode]}: function`, text: true, value: (it) => it.name, cell: (it) => <FunctionName name={it.name} place={it.place} /> },
    { key: "curve", title: "Alive over the run", wide: true, cell: (it) => <GroupCurve group={it.group} /> },
    { key: "bytes", title: "Bytes", value: (it) => it.sum.bytes, cell: (it) => <><Bytes value={it.sum.bytes} /><Off value={it.sum.bytesOff} show={bytes} /></> },
    { key: "blocks", title: "Blocks", value: (it) => it.sum.blocks, cell: (it) => <>{count(it.sum.blocks)}<Off value={it.sum.blocksOff} show={count} /></> },
    { key: "share", title: "Share", cell: (it) => share(it.sum.bytes, whole) },
    { key: "bar", title: "", wide: true, kind: "bar", cell: (it) => <span class="bar" style={{ width: `${(it.sum.bytes / most) * 100}%` }} /> },
  ];
  return (
    <>
      <div class="tools">
        <Search>{words === "" ? "" : plural(rows.length, "function")}</Search>
      </div>
      <Table
        caption={MODE_NAMES[state.mode]}
        rows={rows}
        rowKey={(it) => it.key}
        columns={columns}
        sort={state.sort || "bytes"}
        onSort={(sort) => set({ sort })}
        first={20}
        onOpen={(row) => set({ view: "functions", by: "functions", row, sort: "" })}
        empty="Nothing in this range."
      />
      {leftOut(useApp()).map((it) => (
        <p class="quiet" key={it}>
          {it}
        </p>
      ))}
    </>
  );
}
