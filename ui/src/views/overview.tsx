// The first view: a sentence, totals, the curve, what stands out, and what held the memory.

import { type App, useApp } from "../app";
import { ofGroup, ofTotal, sumsOf } from "../data/estimates";
import type { Group } from "../data/groups";
import { WORDS, isCount, knows, ranked, sumOf } from "../data/known";
import { type Finding, type Meta, type Process, ORIGIN } from "../data/recording";
import { leftWord } from "../data/gaps";
import { liveOverRun } from "../data/ranges";
import { bytes, bytesParts, count, duration, moment, nameParts, plural, share } from "../format";
import { Curve, ResidentSwitch } from "../parts/curve";
import { useCurve } from "../parts/curve-data";
import { Bytes, FunctionName, Prose } from "../parts/names";
import { Estimated, GapNotes, MissingEvents, Notes, PartOnly, Uncertain, blocks, isPart, leftOut } from "../parts/notes";
import { Sparkline } from "../parts/sparkline";
import type { State } from "../state";
import { Stack } from "./functions";

export function Overview() {
  const app = useApp();
  const { recording, state, model } = app;
  const { meta } = recording;
  const totals = sum(model.all(state));
  const isThere = meta.kind === "stacks" ? recording.sites.count > 0 : totals.allocations > 0;
  const hasTime = meta.kind === "recording" && model.processes(state).length > 0;
  return (
    <>
      <h1>{sentence(app, totals)}</h1>
      <p class="facts">
        <code>{meta.command || meta.file}</code> · {facts(app).join(" · ")}
      </p>
      <Notes />
      <Totals totals={totals} />
      {meta.kind === "recording" && <MissingEvents />}
      {hasTime && totals.allocations > 0 && <Memory />}
      {isThere && meta.kind !== "counts" && (
        <div class="columns">
          {meta.kind !== "stacks" && (
            <section>
              <h2>What stands out</h2>
              <Findings />
            </section>
          )}
          {totals.allocations === 1 && meta.kind === "recording" ? (
            <section>
              <h2>Its stack</h2>
              <Stack site={0} />
            </section>
          ) : (
          <section>
            <h2>{meta.kind === "stacks" ? `By function: ${WORDS[ranked(recording)]}` : meta.kind === "sampled" ? "Live, by function" : totals.processes.length > 1 ? "Held at the peaks, by function" : "Held at the peak, by function"}</h2>
            <PartOnly />
            <Held />
            {leftOut(app).map((it) => (
              <p class="quiet" key={it}>
                {it}
              </p>
            ))}
          </section>
          )}
          {meta.kind === "stacks" && <Lacks />}
        </div>
      )}
      {meta.kind === "counts" && <CountsOnly totals={totals} />}
      {!isThere && meta.kind === "stacks" && <p class="why">The file has no stacks.</p>}
      {!isThere && meta.kind !== "stacks" && (
        <p class="why">
          The program, or what of it was recorded, made no call that hands out a block. If it should have: <code>allotrope doctor PROGRAM</code> says whether its allocator can be recorded.
        </p>
      )}
    </>
  );
}

export type Totals = ReturnType<typeof sum>;

export function sum(processes: Process[]) {
  const of = (name: "allocations" | "bytes" | "temporary" | "reallocations" | "deallocations" | "leaked" | "leakedBytes" | "peak" | "peakBytes") =>
    processes.reduce((total, it) => total + it[name], 0);
  return {
    processes,
    allocations: of("allocations"),
    bytes: of("bytes"),
    temporary: of("temporary"),
    reallocations: of("reallocations"),
    deallocations: of("deallocations"),
    leaked: of("leaked"),
    leakedBytes: of("leakedBytes"),
    peak: of("peak"),
    peakBytes: of("peakBytes"),
  };
}

function facts({ recording, state, model }: App): string[] {
  const { meta } = recording;
  const processes = model.all(state);
  const facts: string[] = [];
  if (meta.kind === "stacks") return [`${meta.format}: sums of stacks, read as they are`];
  if (meta.started_unix_ms > 0) facts.push(`${meta.kind === "sampled" ? "watched from" : "recorded"} ${moment(meta.started_unix_ms)}`);
  if (processes.length === 1) facts.push(processes[0]!.exit);
  else facts.push(plural(processes.length, "process", "processes"));
  if (meta.kind === "counts") facts.push("calls were counted, not recorded");
  else if (meta.kind === "sampled") facts.push(`one sample each ${bytes(meta.samples?.period ?? 0)} on average`);
  else {
    facts.push(recordedFact(meta, processes.reduce((total, it) => total + it.lost, 0)));
  }
  return facts;
}

/** Whether everything was recorded; `lost` events were not. What is said first is what is known best. */
export function recordedFact({ complete, partly }: Pick<Meta, "complete" | "partly">, lost: number): string {
  if (lost > 0) return `${plural(lost, "event")} lost`;
  if (!complete) return "not complete";
  return partly ? "recorded only in part" : "every allocation recorded, none lost";
}

/** The answer, in a sentence. */
function sentence(app: App, totals: Totals): string {
  const { recording, state, model } = app;
  const { meta } = recording;
  const run = duration(recording.end - recording.start);
  if (meta.kind === "stacks") return sentenceOfStacks(app);
  if (totals.processes.length === 0) return "No process was recorded.";
  if (totals.allocations === 0) return `Nothing was allocated in a run of ${run}.`;
  if (meta.kind === "counts") return `${plural(totals.allocations, "allocation")} of ${bytes(totals.bytes)} in a run of ${run}.`;
  const top = heaviest(model.groups(state, "functions").map((group) => ({ group, value: heldBytes(recording, group) })));
  const held = meta.kind === "sampled" ? totals.leakedBytes : totals.peakBytes;
  // Of processes that are not here in full, nobody knows the functions.
  const by = !isPart(app) && top && top.value > 0 && held > 0 ? `: ${share(top.value, held)} of it in ${shortName(top.group.name)}` : "";
  if (meta.kind === "sampled") return `About ${bytes(held)} live after ${run}${by}.`;
  if (totals.allocations === 1) return `One allocation of ${bytes(totals.bytes)} in a run of ${run}.`;
  const [process] = totals.processes;
  if (totals.processes.length > 1) return `${bytes(held)} at the peaks of ${count(totals.processes.length)} processes${by}.`;
  return `${bytes(held)} at the peak, ${duration(process!.peakAt - process!.started)} into a run of ${duration(process!.duration)}${by}.`;
}

/** The same of stacks that another tool wrote: the best of what they have. */
function sentenceOfStacks({ recording, state, model }: App): string {
  const by = ranked(recording);
  const all = model.groups(state, "functions").map((group) => ({ group, value: sumOf(recording, by, group.sites) }));
  const whole = all.reduce((sum, it) => sum + it.value, 0);
  if (whole === 0) return "The file has no allocations.";
  const top = heaviest(all)!;
  const amount = isCount(by) ? count(whole) : bytes(whole);
  return `${amount} ${WORDS[by]}: ${share(top.value, whole)} of ${isCount(by) ? "them" : "it"} in ${shortName(top.group.name)}.`;
}

/** What the file of another tool does not have, so that nobody looks for it here. */
function Lacks() {
  const { meta } = useApp().recording;
  return (
    <section>
      <h2>Not in the file</h2>
      <p class="quiet">The file has sums of stacks. It does not have: {meta.lacks.join(", ")}. So there are no findings and no timeline.</p>
    </section>
  );
}

function shortName(name: string): string {
  const short = nameParts(name).join("");
  return short.length > 80 ? `${short.slice(0, 79)}…` : short;
}

function heaviest<T extends { value: number }>(all: T[]): T | undefined {
  return all.reduce<T | undefined>((a, b) => (a === undefined || b.value > a.value ? b : a), undefined);
}

function heldBytes(recording: App["recording"], group: Group): number {
  return sumOf(recording, ranked(recording), group.sites);
}

/** In place of a figure that the recording, or the file of another tool, does not have. */
const UNKNOWN = ["not recorded", "not in the file"];

function Totals({ totals }: { totals: Totals }) {
  const { recording, state, model } = useApp();
  const { kind } = recording.meta;
  const of = (value: number, whole: number) => (whole === 0 ? "–" : share(value, whole));
  const sites = kind === "counts" ? 0 : model.sites(state);
  const freed = sumsOf(recording, state.process)?.freed;
  if (kind === "stacks") return <TotalsOfStacks sites={sites} />;
  const unknown = UNKNOWN[0]!;
  const known = kind === "recording";
  const items: [string, preact.ComponentChild, string][] = [
    kind === "sampled"
      ? ["Live", <Uncertain metric="leaked" value={totals.leakedBytes} />, blocks(totals.leaked, ofTotal(recording, "leaked-allocations", state.process))]
      : [totals.processes.length > 1 ? "Peaks, added up" : "Peak", known ? bytes(totals.peakBytes) : unknown, known ? plural(totals.peak, "block") : ""],
    ["Allocations", kind === "sampled" ? <Uncertain metric="allocations" value={totals.allocations} /> : count(totals.allocations), bytes(totals.bytes)],
    ["Temporary", known ? of(totals.temporary, totals.allocations) : unknown, known ? count(totals.temporary) : ""],
    ["Reallocations", kind === "sampled" ? unknown : of(totals.reallocations, totals.allocations), kind === "sampled" ? "" : count(totals.reallocations)],
    kind === "sampled"
      ? ["Allocated", <Uncertain metric="bytes" value={totals.bytes} />, ""]
      : [leftWord(recording, totals.processes), known ? bytes(totals.leakedBytes) : unknown, known ? plural(totals.leaked, "block") : ""],
    ...(freed ? [["Freed", <Estimated value={freed.bytes} estimate={{ ...freed.intervals[0], samples: freed.samples }} show={bytes} />, blocks(freed.blocks, freed.intervals[1])] as [string, preact.ComponentChild, string]] : []),
    ["Functions, sites", kind === "counts" ? unknown : count(model.groups(state, "functions").length), kind === "counts" ? "" : plural(sites, "site")],
  ];
  return <TotalsList items={items} />;
}

/** The sums that a file of another tool has; the others are marked. */
function TotalsOfStacks({ sites }: { sites: number }) {
  const { recording, state, model } = useApp();
  const all = Array.from({ length: recording.sites.count }, (_, site) => site);
  const amount = (metric: string) => (isCount(metric) ? count(sumOf(recording, metric, all)) : bytes(sumOf(recording, metric, all)));
  const of = (metric: string, more?: string): [preact.ComponentChild, string] => [
    knows(recording, metric) ? amount(metric) : UNKNOWN[1]!,
    more !== undefined && knows(recording, more) ? (isCount(more) ? plural(sumOf(recording, more, all), "block") : amount(more)) : "",
  ];
  const items: [string, preact.ComponentChild, string][] = [
    ["Peak", ...of("peak", "peak-allocations")],
    ["Allocations", ...of("allocations")],
    ["Allocated", ...of("bytes")],
    ["Temporary", ...of("temporary")],
    ["Reallocations", ...of("reallocations")],
    ["Leaked", ...of("leaked", "leaked-allocations")],
    ["Functions, sites", count(model.groups(state, "functions").length), plural(sites, "site")],
  ];
  return <TotalsList items={items} />;
}

function TotalsList({ items }: { items: [string, preact.ComponentChild, string][] }) {
  return (
    <dl class="totals">
      {items.map(([title, value, more]) => (
        <div key={title}>
          <dt>{title}</dt>
          <dd>
            {typeof value === "string" && UNKNOWN.includes(value) ? <span>{value}</span> : <strong>{value}</strong>} <span>{more}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Memory() {
  const { state } = useApp();
  const data = useCurve();
  return (
    <section>
      <div class="heading">
        <h2>Memory over the run</h2>
        <p class="legend">
          <span>
            <i class="live" />
            {data.isSum ? `live bytes of ${data.whose}, every ${duration(data.step)}` : `live bytes, maximum in each ${duration(data.step)}`}
          </span>
          {data.lastResident !== null && state.resident && (
            <span>
              <i class="resident" />
              {data.isSum ? "their resident sets" : "resident set"}
            </span>
          )}
          <ResidentSwitch />
        </p>
      </div>
      <Curve height={190} />
      <GapNotes />
    </section>
  );
}

/** Where a finding is proved. */
function proof(app: App, finding: Finding): { patch: Partial<State>; text: string } {
  const { recording } = app;
  const row = finding.frame === null ? "" : String(recording.frames.group[finding.frame]);
  const process = recording.processes.length > 1 ? finding.process : null;
  const at = { process, range: null, search: "", zoom: [] };
  switch (finding.rule) {
    case "temporaries":
      return { patch: { ...at, view: "flame", weight: "temporary", search: nameOf(app, finding) }, text: "Flame graph of temporary allocations" };
    case "growth-chain":
    case "small-blocks":
    case "signal-handler":
      return { patch: { ...at, view: "functions", by: "functions", row }, text: "Open the function" };
    case "not-given-back":
    case "fork-copies":
      return { patch: { ...at, view: "timeline" }, text: "Live and resident over the run" };
    case "spike":
      return { patch: { ...at, view: "timeline", mode: "destroyed", ...around(app, finding) }, text: "The rise in the timeline" };
    case "queue":
      return { patch: { ...at, view: "functions", by: "functions", row }, text: "Lives of its blocks" };
    case "leak":
    case "stragglers":
      return { patch: { ...at, view: "functions", by: "functions", sort: "leaked", row }, text: "Open the function, by what is left" };
    case "growth":
      return { patch: { ...at, view: "timeline", mode: "kept", row }, text: "What was created and persisted" };
    default:
      return { patch: { ...at, view: "flame", weight: "peak", search: nameOf(app, finding) }, text: "Flame graph of the peak" };
  }
}

function nameOf({ recording }: App, finding: Finding): string {
  return finding.frame === null ? "" : recording.functionOf(finding.frame);
}

/** The twentieth of the run around the peak. */
function around({ recording }: App, finding: Finding): Partial<State> {
  const process = finding.process === null ? undefined : recording.processes[finding.process];
  if (!process) return {};
  const half = process.duration / 40;
  return { range: [Math.max(process.started, process.peakAt - half), process.peakAt + half] };
}

function Findings() {
  const app = useApp();
  const { recording, state, model, set } = app;
  const shown = new Set(model.all(state).map((it) => it.index));
  const found = recording.meta.findings.filter((it) => state.process === null || (it.process !== null && shown.has(it.process)));
  if (recording.meta.kind === "sampled") return <p class="quiet">Samples have no times, so the rules that look for queues, growth and leaks do not apply.</p>;
  if (found.length === 0) return <p class="quiet">Nothing stands out that the rules know.</p>;
  return (
    <ol class="findings">
      {found.map((finding, i) => {
        const { patch, text } = proof(app, finding);
        const [first = "", ...rest] = finding.measure.split(", ");
        return (
          <li key={i}>
            <span class="rank">{i + 1}</span>
            <div>
              <h3>
                {finding.title[0]?.toUpperCase() + finding.title.slice(1)} <Severity severity={finding.severity} />
              </h3>
              {finding.frame !== null && <FunctionName name={recording.functionOf(finding.frame)} place={recording.placeOf(finding.frame)} />}
              <p>
                <Prose text={finding.text} />
              </p>
              {finding.advice !== "" && (
                <p class="advice">
                  <span>Try</span> <Prose text={finding.advice} />
                </p>
              )}
              {finding.process !== null || recording.processes.length === 1 ? (
                <p>
                  <button type="button" class="link" onClick={() => set(patch)}>
                    {text} →
                  </button>
                </p>
              ) : null}
            </div>
            <div class="measure">
              <strong>{first}</strong>
              <span>{rest.join(", ")}</span>
              <FindingCurve finding={finding} />
            </div>
          </li>
        );
      })}
    </ol>
  );
}

export function Severity({ severity }: { severity: Finding["severity"] }) {
  return severity === "problem" ? <span class="badge problem">▲ Problem</span> : <span class="badge">○ Hint</span>;
}

function FindingCurve({ finding }: { finding: Finding }) {
  const { recording } = useApp();
  const process = finding.process === null ? undefined : recording.processes[finding.process];
  const details = process?.details;
  if (!details || finding.sites.length === 0) return null;
  const wanted = new Set(finding.sites);
  const rows: number[] = [];
  for (let site = details.sites[0]; site < details.sites[1]; site++) if (wanted.has(recording.sites.number[site]!)) rows.push(site);
  if (rows.length === 0) return null;
  return <Sparkline values={liveOverRun(recording, rows)} width={184} height={36} label="Its live bytes over the run" />;
}

const HELD = 10;

function Held() {
  const { recording, state, model, set } = useApp();
  const sampled = recording.meta.kind === "sampled";
  const isStacks = recording.meta.kind === "stacks";
  const by = ranked(recording);
  const all = model.groups(state, "functions").map((group) => ({ group, value: heldBytes(recording, group) }));
  const held = all.filter((it) => it.value > 0).sort((a, b) => b.value - a.value);
  const whole = held.reduce((total, it) => total + it.value, 0);
  if (held.length === 0) return <p class="quiet">Nothing was held.</p>;
  const most = held.reduce((a, it) => Math.max(a, ofGroup(recording, "leaked", it.group)?.high ?? it.value), 1);
  return (
    <div class="table held">
      <table>
        <thead>
          <tr>
            <th scope="col" class="text">
              Function
            </th>
            {!sampled && !isStacks && <th scope="col">Over time</th>}
            <th scope="col">{isCount(by) ? "Number" : "Bytes"}</th>
            <th scope="col">Share</th>
          </tr>
        </thead>
        <tbody>
          {held.slice(0, HELD).map(({ group, value }) => (
            <tr key={group.key} class="opens" onClick={() => set({ view: "functions", by: "functions", row: group.key })}>
              <td class="text">
                <button type="button" class="row" onClick={() => set({ view: "functions", by: "functions", row: group.key })}>
                  <FunctionName name={group.name} place={group.place} />
                </button>
              </td>
              {!sampled && !isStacks && (
                <td>
                  <GroupCurve group={group} width={56} />
                </td>
              )}
              <td class="number">{sampled ? <Uncertain metric="leaked" value={value} group={group} most={most} /> : isCount(by) ? count(value) : <Bytes value={value} />}</td>
              <td class="number">{share(value, whole)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p>
        <button type="button" class="link" onClick={() => set({ view: "functions", by: "functions", row: "" })}>
          {all.length === 1 ? "The function" : `All ${count(all.length)} functions`} →
        </button>
      </p>
    </div>
  );
}

const curves = new WeakMap<Group, Float64Array>();

/** What a group held over time. Several processes are on one axis, from the first one's
 * start to the last one's end. */
export function GroupCurve({ group, width = 96 }: { group: Group; width?: number }) {
  const { recording } = useApp();
  let values = curves.get(group);
  if (!values) {
    values = liveOverRun(recording, group.sites);
    curves.set(group, values);
  }
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  return <Sparkline values={values} width={width} label={`live bytes over the run, at most ${bytesParts(most).join(" ")}`} />;
}

function CountsOnly({ totals }: { totals: Totals }) {
  const { set } = useApp();
  return (
    <section>
      <h2>What was counted</h2>
      <p>
        {plural(totals.deallocations, "deallocation")}. Calls were counted by thread and entry point, without stacks and times: record without <code>--counts-only</code> for functions, the peak and leaks.
      </p>
      <p>
        <button type="button" class="link" onClick={() => set({ view: "tables", table: "threads" })}>
          Threads →
        </button>{" "}
        <button type="button" class="link" onClick={() => set({ view: "tables", table: "entries" })}>
          Entry points →
        </button>
      </p>
    </section>
  );
}

/** Whether a frame is the program's own. */
export function isOwn(origin: number): boolean {
  return origin >= ORIGIN.program || origin === ORIGIN.unnamed;
}
