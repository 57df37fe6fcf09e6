// Tables of what is not a function: threads, sizes, entry points, processes, windows.

import type { ComponentChildren } from "preact";
import { type App, useApp } from "../app";
import { ofTotal } from "../data/estimates";
import { leftWord } from "../data/gaps";
import { programs } from "../data/programs";
import type { Entry, Process, SizeClass, Thread, Window } from "../data/recording";
import { MODE_NAMES, ofThreads } from "../data/ranges";
import { bytes, count, countOrNone, duration, plural, programName, share } from "../format";
import { Choice } from "../parts/choice";
import { Bytes } from "../parts/names";
import { Estimated, Off, OfWholeRun, PartOnly, leftOut } from "../parts/notes";
import { Search } from "../parts/search";
import { type Column, Table, ofRun } from "../parts/table";
import { type Table as Name, TABLES } from "../state";
import { upTo } from "./functions";

const TITLES: Record<Name, string> = { threads: "Threads", sizes: "Sizes", entries: "Entry points", processes: "Processes", windows: "Windows" };

/** The tables that this recording has. */
function known({ recording, model, state }: App): Name[] {
  const details = model.processes(state).map((it) => it.details!);
  const has: Record<Name, boolean> = {
    threads: recording.threads.length > 0,
    sizes: details.some((it) => it.sizes.length > 0),
    entries: details.some((it) => it.entries.length > 0),
    processes: true,
    windows: details.some((it) => it.windows.length > 0),
  };
  return TABLES.filter((it) => has[it]);
}

export function Tables() {
  const app = useApp();
  const { state, set } = app;
  const { left_out: left } = app.recording.meta;
  const names = known(app);
  const name = names.includes(state.table) ? state.table : names[0]!;
  return (
    <>
      <h1 class="hidden">{TITLES[name]}</h1>
      <div class="tools">
        <Choice label="Rows" values={names.map((it) => [it, TITLES[it]] as const)} value={name} onChange={(table) => set({ table, sort: "" })} />
        {name === "processes" && <Search what="Command or process id" />}
      </div>
      {name === "processes" ? left.processes > 0 && <p class="quiet">{plural(left.processes, "process", "processes")} with few allocations left out.</p> : <PartOnly />}
      {name === "threads" && <Threads />}
      {name === "sizes" && <Sizes />}
      {name === "entries" && <Entries />}
      {name === "processes" && <Processes />}
      {name === "windows" && <Windows />}
      {leftOut(app).map((it) => (
        <p class="quiet" key={it}>
          {it}
        </p>
      ))}
    </>
  );
}

function useSort(first: string) {
  const { state, set } = useApp();
  return { sort: state.sort || first, onSort: (sort: string) => set({ sort }) };
}

function Threads() {
  const { recording, state, model } = useApp();
  const processes = model.processes(state);
  const rows = processes.flatMap((it) => it.details!.threads);
  const range = model.hasRange(state) ? ofThreads(recording, processes, model.range(state), state.mode) : null;
  const many = processes.length > 1;
  const known = recording.meta.kind === "recording";
  const names: Column<Thread>[] = [
    { key: "name", title: "Thread", text: true, value: (it) => it.name, cell: (it) => <code>{it.name || "[no name]"}</code> },
    { key: "tid", title: "Id", wide: true, value: (it) => it.tid, cell: (it) => it.tid || "–" },
  ];
  const figures: Column<Thread>[] = [
    { key: "allocations", title: "Allocations", value: (it) => it.allocations, cell: (it) => countOrNone(it.allocations) },
    { key: "bytes", title: "Allocated", wide: range !== null, value: (it) => it.bytes, cell: (it) => <Bytes value={it.bytes} none /> },
    { key: "deallocations", title: "Deallocations", wide: true, value: (it) => it.deallocations, cell: (it) => countOrNone(it.deallocations) },
  ];
  if (known) figures.push({ key: "temporary", title: "Temporary", wide: true, value: (it) => it.temporary, cell: (it) => share(it.temporary, it.allocations) });
  const columns = [...names, ...(range ? figures.map(ofRun) : figures)];
  if (range) columns.push({ key: "range", title: MODE_NAMES[state.mode], value: (it) => range.bytes[it.row]!, cell: (it) => <><Bytes value={range.bytes[it.row]!} none={range.bytesOff[it.row] === 0} /><Off value={range.bytesOff[it.row]!} show={bytes} /></> });
  if (many) columns.splice(1, 0, { key: "process", title: "Process", value: (it) => recording.processes[it.process]!.pid, cell: (it) => recording.processes[it.process]!.pid });
  return <Table caption="Threads" rows={rows} rowKey={(it) => String(it.row)} columns={columns} {...useSort("allocations")} />;
}

/** Adds up rows of several processes that mean the same. */
function addedUp<T extends object>(rows: T[], key: (row: T) => string | number, sums: (keyof T)[]): T[] {
  const found = new Map<string | number, T>();
  for (const row of rows) {
    const sum = found.get(key(row));
    if (!sum) found.set(key(row), { ...row });
    else for (const name of sums) (sum[name] as number) += row[name] as number;
  }
  return [...found.values()];
}

function Sizes() {
  const { recording, state, model } = useApp();
  const all = model.processes(state).flatMap((it) => it.details!.sizes);
  const rows = addedUp<SizeClass>(all, (it) => it.class, ["allocations", "bytes", "atPeak", "atPeakBytes", "leaked", "leakedBytes"]);
  const most = rows.reduce((a, b) => Math.max(a, b.bytes), 1);
  const columns: Column<SizeClass>[] = [
    { key: "size", title: "Requested size", value: (it) => it.class, cell: (it) => (it.class < 3 ? bytes(upTo(it.class)) : `${count(upTo(it.class) / 2 + 1)} – ${count(upTo(it.class))} B`) },
    { key: "allocations", title: "Allocations", value: (it) => it.allocations, cell: (it) => count(it.allocations) },
    { key: "bytes", title: "Allocated", value: (it) => it.bytes, cell: (it) => <Bytes value={it.bytes} /> },
    { key: "peak", title: "At the peak", value: (it) => it.atPeakBytes, cell: (it) => <Bytes value={it.atPeakBytes} none /> },
    { key: "leaked", title: leftWord(recording, model.all(state)), wide: true, value: (it) => it.leakedBytes, cell: (it) => <Bytes value={it.leakedBytes} none /> },
    { key: "bar", title: "", wide: true, kind: "bar", cell: (it) => <span class="bar" style={{ width: `${(it.bytes / most) * 100}%` }} /> },
  ];
  return (
    <>
      <OfWholeRun by="size" />
      <Table caption="Sizes" rows={rows} rowKey={(it) => String(it.class)} columns={columns} {...useSort("-size")} />
    </>
  );
}

function Entries() {
  const { state, model } = useApp();
  const all = model.processes(state).flatMap((it) => it.details!.entries);
  const rows = addedUp<Entry>(all, (it) => it.name, ["allocations", "bytes", "deallocations"]);
  const columns: Column<Entry>[] = [
    { key: "name", title: "Entry point", text: true, value: (it) => it.name, cell: (it) => <code>{it.name}</code> },
    { key: "allocations", title: "Allocations", value: (it) => it.allocations, cell: (it) => countOrNone(it.allocations) },
    { key: "bytes", title: "Allocated", value: (it) => it.bytes, cell: (it) => <Bytes value={it.bytes} none /> },
    { key: "deallocations", title: "Deallocations", value: (it) => it.deallocations, cell: (it) => countOrNone(it.deallocations) },
  ];
  return (
    <>
      <OfWholeRun by="entry" />
      <Table caption="Entry points" rows={rows} rowKey={(it) => it.name} columns={columns} {...useSort("allocations")} />
    </>
  );
}

/** A process, or those of a program. */
interface ProcessRow {
  key: string;
  processes: Process[];
  allocations: number;
  bytes: number;
  leakedBytes: number;
  peakBytes: number;
  duration: number;
}

function rowOfProcess(it: Process): ProcessRow {
  const { allocations, bytes, leakedBytes, peakBytes, duration } = it;
  return { key: String(it.index), processes: [it], allocations, bytes, leakedBytes, peakBytes, duration };
}

function Processes() {
  const { recording, state, set } = useApp();
  const words = state.search.toLowerCase();
  const matches = (it: Process) => words === "" || `${it.pid} ${it.command}`.toLowerCase().includes(words);
  const all = programs(recording);
  const hasEqual = all.some((it) => it.processes.length > 1);
  // A search is for single processes.
  const isMerged = hasEqual && state.merged && words === "";
  const rows: ProcessRow[] = isMerged ? all.map((it) => (it.processes.length === 1 ? rowOfProcess(it.processes[0]!) : { ...it, key: String(it.key) })) : recording.processes.filter(matches).map(rowOfProcess);
  const kind = recording.meta.kind;
  const ends = (it: ProcessRow) => (it.processes.every((process) => process.exit === it.processes[0]!.exit) ? it.processes[0]!.exit : "mixed");
  // Of a sampled profile it is an estimate; several processes together have no interval.
  const figure = (row: ProcessRow, metric: string, value: number, exact: ComponentChildren) => {
    if (kind !== "sampled") return exact;
    const estimate = row.processes.length === 1 ? ofTotal(recording, metric, row.processes[0]!.index) : null;
    return estimate ? <Estimated value={value} estimate={estimate} show={metric === "allocations" ? count : bytes} /> : <>about {exact}</>;
  };
  const about = kind === "sampled" ? "about " : "";
  const columns: Column<ProcessRow>[] = [
    { key: "pid", title: "Process", value: (it) => it.processes[0]!.pid, cell: (it) => (it.processes.length > 1 ? `×${count(it.processes.length)}` : `${it.processes[0]!.pid}`) },
    {
      key: "command",
      title: "Command",
      text: true,
      kind: "command",
      value: (it) => it.processes[0]!.command,
      cell: ({ processes: [first] }) => (
        <code title={first!.command}>
          {programName(first!)} <span class="place">{first!.command.slice(0, 200)}</span>
        </code>
      ),
    },
    { key: "start", title: "Started", wide: true, value: (it) => it.processes[0]!.started, cell: (it) => (it.processes.length > 1 ? "" : duration(it.processes[0]!.started - recording.start)) },
    { key: "ran", title: isMerged ? "Longest" : "Ran for", wide: true, value: (it) => it.duration, cell: (it) => duration(it.duration) },
    { key: "allocations", title: "Allocations", value: (it) => it.allocations, cell: (it) => figure(it, "allocations", it.allocations, count(it.allocations)) },
    { key: "bytes", title: "Allocated", wide: true, value: (it) => it.bytes, cell: (it) => figure(it, "bytes", it.bytes, <Bytes value={it.bytes} none />) },
  ];
  if (kind === "recording") columns.push({ key: "peak", title: isMerged ? "Largest peak" : "Peak", value: (it) => it.peakBytes, cell: (it) => <Bytes value={it.peakBytes} none /> });
  if (kind !== "counts") columns.push({ key: "leaked", title: leftWord(recording, recording.processes), wide: true, value: (it) => it.leakedBytes, cell: (it) => figure(it, "leaked", it.leakedBytes, <Bytes value={it.leakedBytes} none />) });
  columns.push({ key: "exit", title: "End", wide: true, text: true, value: ends, cell: ends });
  const look = (chosen: number) => set({ view: kind === "recording" ? "timeline" : "overview", process: chosen, range: null, zoom: [], row: "", sort: "", search: "" });
  const open = (key: string) => {
    const chosen = Number(key);
    if (key === "" || chosen < 0) set({ row: key });
    else if (recording.processes[chosen]?.details) look(chosen);
  };
  const shown = rows.flatMap((it) => it.processes);
  const sum = (of: "allocations" | "bytes" | "leakedBytes") => shown.reduce((total, it) => total + it[of], 0);
  const left = kind === "counts" ? "" : `, ${bytes(sum("leakedBytes"))} ${leftWord(recording, recording.processes).toLowerCase()}`;
  return (
    <>
      <OfWholeRun by="process" />
      <div class="tools">
        <p class="quiet">
          {plural(shown.length, "process", "processes")}
          {hasEqual && words === "" ? ` of ${plural(all.length, "program")}` : ""}: {about}
          {plural(sum("allocations"), "allocation")} of {bytes(sum("bytes"))}
          {left}.{recording.processes.length > 1 && " A click looks at one of them alone."}
          {shown.some((it) => !it.details) && recording.processes.length > 1 && " Of those that cannot be clicked only these totals are here."}
        </p>
        {hasEqual && words === "" && (
          <Choice
            label="Processes of the same program"
            values={[
              ["merged", "By program"],
              ["each", "Each"],
            ]}
            value={state.merged ? "merged" : "each"}
            onChange={(it) => set({ merged: it === "merged", row: "" })}
          />
        )}
      </div>
      <Table
        caption="Processes"
        rows={rows}
        rowKey={(it) => it.key}
        columns={columns}
        {...useSort("bytes")}
        open={isMerged ? state.row : ""}
        onOpen={recording.processes.length > 1 ? open : undefined}
        opens={(it) => it.processes.length > 1 || it.processes[0]!.details !== null}
        detail={isMerged ? (it) => <Members row={it} look={look} /> : undefined}
        empty="No process matches."
      />
    </>
  );
}

const MEMBERS = 50;

/** The processes of a program, those with most bytes first. */
function Members({ row, look }: { row: ProcessRow; look: (chosen: number) => void }) {
  const full = row.processes.filter((it) => it.details);
  return (
    <>
      {full.length > 1 && (
        <p>
          <button type="button" class="link" onClick={() => look(Number(row.key))}>
            {full.length === row.processes.length ? `All ${count(full.length)} together` : `The ${count(full.length)} that are here in full together`} →
          </button>
        </p>
      )}
      <ul class="members">
        {row.processes.slice(0, MEMBERS).map((it) => (
          <li key={it.index}>
            {it.details ? (
              <button type="button" class="link" onClick={() => look(it.index)}>
                {it.pid}
              </button>
            ) : (
              it.pid
            )}{" "}
            <code>{it.command.slice(0, 120)}</code> <span class="quiet">{plural(it.allocations, "allocation")}, {bytes(it.bytes)}</span>
          </li>
        ))}
      </ul>
      {row.processes.length > MEMBERS && <p class="quiet">… {count(row.processes.length - MEMBERS)} more: choose “Each” above.</p>}
    </>
  );
}

interface WindowRow extends Window {
  key: string;
  pid: number;
  /** When it was opened, in nanoseconds since the start of the recording. */
  from: number;
}

/** The windows of some processes, on the clock that they have in common. */
export function windowsOf(processes: Process[]): WindowRow[] {
  return processes.flatMap(({ index, pid, started, details }) => details!.windows.map((it, i) => ({ ...it, key: `${index}.${i}`, pid, from: started + it.opened })));
}

function Windows() {
  const { recording, state, model, set } = useApp();
  const processes = model.processes(state);
  const rows = windowsOf(processes);
  const columns: Column<WindowRow>[] = [
    { key: "name", title: "Window", text: true, value: (it) => it.name, cell: (it) => <code title={it.name}>{it.name || "[no name]"}</code> },
    { key: "opened", title: "Opened", wide: true, value: (it) => it.from, cell: (it) => duration(it.from - recording.start) },
    { key: "duration", title: "Lasted", wide: true, value: (it) => it.duration, cell: (it) => duration(it.duration) },
    { key: "allocations", title: "Allocations", value: (it) => it.allocations, cell: (it) => countOrNone(it.allocations) },
    { key: "bytes", title: "Allocated", value: (it) => it.bytes, cell: (it) => <Bytes value={it.bytes} none /> },
    { key: "remaining", title: "Remaining", value: (it) => it.remainingBytes, cell: (it) => <Bytes value={it.remainingBytes} none /> },
  ];
  if (processes.length > 1) columns.splice(1, 0, { key: "process", title: "Process", wide: true, value: (it) => it.pid, cell: (it) => it.pid });
  const open = (key: string) => {
    const row = rows.find((it) => it.key === key);
    if (row) set({ view: "timeline", range: model.range({ ...state, range: [row.from, row.from + Math.max(row.duration, 1)] }) });
  };
  return (
    <>
      <p class="quiet">The figures of a window follow the program's own synchronisation, those of a range of time its clock: with several threads they may differ.</p>
      <Table caption="Windows" rows={rows} rowKey={(it) => it.key} columns={columns} {...useSort("-opened")} onOpen={open} />
    </>
  );
}
