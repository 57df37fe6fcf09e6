// The first view of an allocator report: the answer, how sure it is, the allocators beside each
// other, and what stands out in each.

import type { Allocator, Change, Spread, Switch } from "../data/allocators";
import { bytes, count, duration, fileName, plural } from "../format";
import { Bytes, Prose } from "../parts/names";
import { type Column, Table } from "../parts/table";
import { Whisker } from "../parts/whisker";
import { Memory } from "./memory";
import { figure, nanoseconds, percent, useApp } from "./app";

export function Summary() {
  const { report } = useApp().data;
  const { recording } = report;
  const [answer = "Nothing was measured.", ...others] = report.summary;
  const found = report.allocators.flatMap((it) => it.findings.map((finding) => [it.name, finding] as const));
  return (
    <>
      <h1>{answer}</h1>
      <p class="facts">
        <code>{fileName(recording.executable)}</code> · {plural(recording.operations, "operation")} · {plural(recording.threads, "thread")} · ran {duration(recording.wall_seconds * 1e9)} ·{" "}
        {bytes(recording.peak_live_bytes)} live at most
      </p>
      <ul class="answers">
        {others.map((it) => (
          <li key={it}>{it}</li>
        ))}
      </ul>
      <Allocators />
      <Memory />
      <Switching />
      {report.changes.map((it) => (
        <Changed key={it.name} change={it} />
      ))}
      <section>
        <h2>What stands out</h2>
        {found.length === 0 && <p class="quiet">Nothing in the operations that were stepped.</p>}
        <ul class="answers">
          {found.map(([name, finding]) => (
            <li key={`${name} ${finding}`}>
              <b>{name}</b>: <Prose text={finding} />
            </li>
          ))}
        </ul>
      </section>
    </>
  );
}

/** Whether its time is less than that of the first one that was measured. */
function verdict(it: Allocator): string {
  if (it.refused !== null) return "not measured";
  if (it.compared === null) return "–";
  return { less: "faster", more: "slower", tied: "tied", unknown: "one run does not tell" }[it.compared];
}

/** A time with the lowest and the highest run. */
export function Time({ spread, most }: { spread: Spread; most: number }) {
  return (
    <span class="uncertain" title={`median ${nanoseconds(spread.median)}, runs from ${nanoseconds(spread.low)} to ${nanoseconds(spread.high)}`}>
      {nanoseconds(spread.median)}{" "}
      <small>
        {spread.low.toFixed(1)} – {spread.high.toFixed(1)}
      </small>
      <Whisker value={spread.median} low={spread.low} high={spread.high} most={most} />
    </span>
  );
}

/** What is not known is said, and is never 0. */
export function None({ why }: { why: string | null }) {
  return (
    <span class="quiet" title={why ?? undefined}>
      unavailable
    </span>
  );
}

function Allocators() {
  const { data, state, set } = useApp();
  const { report } = data;
  const rows = report.allocators;
  const first = rows.find((it) => it.ns_per_operation !== null)?.name ?? "";
  const most = rows.reduce((largest, it) => Math.max(largest, it.ns_per_operation?.high ?? 0), 1);
  // What was not measured is last, whichever the direction.
  const known = (value: number | null | undefined) => value ?? (state.sort.startsWith("-") ? Number.MAX_VALUE : -1);
  const columns: Column<Allocator>[] = [
    {
      key: "name",
      title: "Allocator",
      text: true,
      kind: "allocator",
      value: (it) => it.name,
      cell: (it) => (
        <span title={it.library ?? "the C library's"}>
          <b>{it.name}</b>
        </span>
      ),
    },
    { key: "time", title: "Time an operation", value: (it) => known(it.ns_per_operation?.median), cell: (it) => (it.ns_per_operation ? <Time spread={it.ns_per_operation} most={most} /> : <None why={it.refused} />) },
    { key: "compared", title: first === "" ? "Compared" : `Against ${first}`, text: true, cell: (it) => <span class={it.compared === "tied" ? "badge" : it.compared === null ? "quiet" : ""}>{verdict(it)}</span> },
    { key: "instructions", title: "Instructions", wide: true, value: (it) => known(it.instructions[0]?.mean), cell: (it) => (it.instructions[0] ? figure(it.instructions[0].mean) : <None why={it.refused ?? it.not_stepped} />) },
    {
      key: "peak",
      title: "Peak RSS",
      value: (it) => known(it.peak_rss_bytes),
      cell: (it) => (it.peak_rss_bytes === null ? <None why={it.refused} /> : <Bytes value={it.peak_rss_bytes} />),
    },
    { key: "overhead", title: "Fragmentation", wide: true, value: (it) => known(it.peak_overhead), cell: (it) => (it.peak_overhead === null ? <None why={it.refused} /> : `${it.peak_overhead.toFixed(2)}×`) },
    { key: "final", title: "Final RSS", wide: true, value: (it) => known(it.final_rss_bytes), cell: (it) => (it.final_rss_bytes === null ? <None why={it.refused} /> : <Bytes value={it.final_rss_bytes} />) },
  ];
  const refused = rows.filter((it) => it.refused !== null || it.not_stepped !== null);
  return (
    <section>
      <h2>Allocators</h2>
      <Table caption="Allocators, time and memory" rows={rows} rowKey={(it) => it.name} columns={columns} sort={state.sort} onSort={(sort) => set({ sort })} />
      <p class="quiet said-of-all">
        Median of {plural(report.replay.runs, "run")}; whiskers are the lowest and the highest one. Medians that differ by less than the larger spread are tied. Fragmentation is the peak RSS divided by the
        most live bytes.
      </p>
      {refused.map((it) => (
        <p class="quiet" key={it.name}>
          <b>{it.name}</b> {it.refused !== null ? it.refused : `was replayed, but not stepped: ${it.not_stepped}`}
        </p>
      ))}
    </section>
  );
}

const WORTH: Record<string, string> = { no: "no", time: "yes, for time", memory: "yes, for memory", both: "yes, for time and memory", "too-little": "too little to tell" };

/** A saving of time of several threads is a bound. */
function worth(it: Switch): string {
  if (it.is_bound && it.worth === "time") return "perhaps, for time";
  if (it.is_bound && it.worth === "both") return "yes, for memory, and perhaps for time";
  return WORTH[it.worth] ?? it.worth;
}

/** What is saved, with its noise. */
function Saved({ value, error, text }: { value: number; error: number; text: (size: number) => string }) {
  return (
    <>
      {value < 0 ? "−" : ""}
      {text(Math.abs(value))} <span class="quiet">±{text(error)}</span>
      {Math.abs(value) <= error && (
        <>
          {" "}
          <span class="badge">inside the noise</span>
        </>
      )}
    </>
  );
}

function Switching() {
  const { switching } = useApp().data.report;
  const columns: Column<Switch>[] = [
    { key: "name", title: "To", text: true, kind: "allocator", cell: (it) => <b>{it.name}</b> },
    { key: "worth", title: "Worth it?", text: true, cell: worth },
    { key: "time", title: "Saved of the program's time", cell: (it) => <>{it.is_bound && "at most "}<Saved value={it.saved_share} error={it.saved_share_error} text={percent} /></> },
    { key: "seconds", title: switching.to.some((it) => it.is_bound) ? "Saved CPU time of all threads" : "Saved time", wide: true, cell: (it) => <Saved value={it.saved_seconds} error={it.saved_seconds_error} text={(seconds) => duration(seconds * 1e9)} /> },
    { key: "memory", title: "Saved peak memory", cell: (it) => <Saved value={it.saved_peak_rss_bytes} error={it.saved_peak_rss_bytes_error} text={bytes} /> },
  ];
  if (switching.unknown !== null) return null;
  if (switching.to.length === 0) return null;
  return (
    <section>
      <h2>Switching from {switching.from}</h2>
      <Table caption="What switching saves" rows={switching.to} rowKey={(it) => it.name} columns={columns} sort="" onSort={() => {}} />
    </section>
  );
}

/** An allocator before and after its change. */
export function Changed({ change }: { change: Change }) {
  const { data, state, set } = useApp();
  const { time } = change;
  const show = (before: boolean) => set({ view: "paths", allocator: change.name, before });
  const most = time ? Math.max(time.before_ns_per_operation.high, time.after_ns_per_operation.high, 1) : 1;
  return (
    <section>
      <div class="heading">
        <h2>{change.name}, before and after the change</h2>
        {state.view === "summary" && data.before(change.name) && (
          <p>
            Flame graph{" "}
            <button type="button" class="link" onClick={() => show(true)}>
              before
            </button>{" "}
            ·{" "}
            <button type="button" class="link" onClick={() => show(false)}>
              after
            </button>
          </p>
        )}
      </div>
      {change.refused !== null && <p class="quiet">The instructions cannot be compared: {change.refused}</p>}
      {change.not_timed !== null && <p class="quiet">The earlier version has no time: it {change.not_timed}</p>}
      <dl class="totals">
        <div>
          <dt>Instructions saved, measured</dt>
          <dd>
            <strong>{change.measured_saving === null ? "unavailable" : figure(change.measured_saving)}</strong> <span>an operation</span>
          </dd>
        </div>
        <div>
          <dt>Estimated</dt>
          <dd>
            <strong>{change.estimated_saving === null ? "–" : figure(change.estimated_saving)}</strong>{" "}
            <span>{change.estimated_saving === null ? "no callee was removed" : `without ${[...new Set(change.removed.map((it) => it.function))].join(", ")}`}</span>
          </dd>
        </div>
        <div>
          <dt>Time saved</dt>
          <dd>
            <strong>{time === null ? "unavailable" : nanoseconds(time.measured_saving_ns)}</strong> {time && <span>{`±${nanoseconds(time.measured_saving_ns_error)}, ${time.verdict}`}</span>}
          </dd>
        </div>
      </dl>
      {time && (
        <p class="facts">
          Before <Time spread={time.before_ns_per_operation} most={most} /> · after <Time spread={time.after_ns_per_operation} most={most} /> · peak RSS {bytes(time.before_peak_rss_bytes)} →{" "}
          {bytes(time.after_peak_rss_bytes)}
        </p>
      )}
      {change.rows.length > 0 && <EntryPoints change={change} />}
    </section>
  );
}

function EntryPoints({ change }: { change: Change }) {
  type Row = Change["rows"][number];
  const columns: Column<Row>[] = [
    { key: "entry", title: "Entry point", text: true, cell: (it) => <code>{it.entry_point}</code> },
    { key: "operations", title: "Operations", wide: true, cell: (it) => count(it.operations) },
    { key: "before", title: "Instructions before", cell: (it) => figure(it.before) },
    { key: "after", title: "After", cell: (it) => figure(it.after) },
    {
      key: "change",
      title: "Change",
      cell: (it) => {
        const change = it.after - it.before;
        const isTied = Math.abs(change) <= it.noise;
        // Reports of runs that differ from each other have noise.
        if (isTied) return <span class="quiet">{change === 0 ? "the same" : "inside the noise"}</span>;
        return <span class={change > 0 ? "rise" : "fall"}>{`${change > 0 ? "▲\u00a0+" : "▼\u00a0−"}${figure(Math.abs(change))}`}{it.before > 0 && <span class="wide"> ({percent(Math.abs(change) / it.before)})</span>}</span>;
      },
    },
  ];
  return <Table caption="Instructions an operation, before and after" rows={change.rows} rowKey={(it) => it.entry_point} columns={columns} sort="" onSort={() => {}} />;
}
