// Starts the page of a recording, of a comparison or of an allocator report; and the page of a
// recording itself.

import { render } from "preact";
import { useMemo, useState } from "preact/hooks";
import { AllocatorsPage, titleOf as titleOfAllocators } from "./allocators/page";
import { type App, AppContext, Model } from "./app";
import { ComparisonPage, titleOf } from "./comparison/page";
import { AllocatorReport } from "./data/allocators";
import { Comparison } from "./data/comparison";
import { knows } from "./data/known";
import { load } from "./data/load";
import { programOf, programs } from "./data/programs";
import { lowerBound } from "./data/ranges";
import type { Recording } from "./data/recording";
import { bytes, count, duration, fileName, plural, programName } from "./format";
import { Curve } from "./parts/curve";
import { KEYS, Keys } from "./parts/keys";
import { Controls, Logo, Said, Views, restoreTheme, useKeys, useSaid, useTheme, useUrlState } from "./parts/page";
import { type State, type View, fromFragment, toFragment } from "./state";
import "./style.css";
import { Flame } from "./views/flame";
import { Functions } from "./views/functions";
import { Overview } from "./views/overview";
import { Tables } from "./views/tables";
import { Timeline } from "./views/timeline";

const TITLES: Record<View, string> = { overview: "Overview", timeline: "Timeline", flame: "Flame graph", functions: "Functions", tables: "Tables" };

/** The views that a recording has: what was not recorded is absent. */
function viewsOf(recording: Recording): View[] {
  const { kind } = recording.meta;
  const hasSites = recording.sites.count > 0;
  const views: View[] = ["overview"];
  if (kind === "recording" && hasSites) views.push("timeline");
  if (hasSites) views.push("flame", "functions");
  if (recording.processes.length > 0 && kind !== "stacks") views.push("tables");
  return views;
}

function Page({ recording }: { recording: Recording }) {
  const model = useMemo(() => new Model(recording), [recording]);
  const views = viewsOf(recording);
  const read = () => {
    const state = fromFragment(location.hash, recording.start);
    if (!views.includes(state.view)) state.view = "overview";
    if (state.process !== null && !isThere(recording, state.process)) state.process = null;
    return state;
  };
  const url = useUrlState<State>(read, (it) => toFragment(it, recording.start), changed);
  const { state, set } = url;
  const { theme, switchTheme } = useTheme();
  const [help, setHelp] = useState(false);
  const { said, say } = useSaid();
  const app: App = { model, recording, state, set, theme, say };
  const move = (from: number, to: number) => moveRange({ ...app, state: url.latest.current }, from, to);
  const actions = {
    l: () => set({ library: !url.latest.current.library, zoom: [] }),
    r: () => set({ resident: !url.latest.current.resident }),
    i: () => set({ from: url.latest.current.from === "main" ? "allocation" : "main", zoom: [] }),
    "[": () => move(-1, -1),
    "]": () => move(1, 1),
    "{": () => move(1, -1),
    "}": () => move(-1, 1),
  };
  useKeys({ views, url, actions, undo: (now) => undo(now, set), help, setHelp, switchTheme });

  const View = { overview: Overview, timeline: Timeline, flame: Flame, functions: Functions, tables: Tables }[state.view];
  const hasRibbon = (state.view === "flame" || state.view === "functions" || state.view === "tables") && recording.meta.kind === "recording" && recording.sites.count > 0;
  return (
    <AppContext.Provider value={app}>
      <Header app={app} views={views} onTheme={switchTheme} onHelp={() => setHelp(true)} />
      {hasRibbon && <Ribbon app={app} />}
      <main>
        <View key={state.view} />
      </main>
      <footer class="quiet">
        Allotrope {recording.meta.tool} · <code>{recording.meta.file}</code> {recording.meta.system}
      </footer>
      {help && <Keys keys={KEYS} hint="Drag over a curve, or a track of the timeline, to choose a range of time; a click clears it." onClose={() => setHelp(false)} />}
      <Said text={said} />
    </AppContext.Provider>
  );
}

/** What was started, by the name that it was started with. */
function nameOfRun({ processes, meta }: Recording): string {
  return programName({ command: meta.command, executable: processes[0]?.executable ?? "" }) || fileName(meta.file);
}

/** Whether a process, or those of a program, can be looked at. */
function isThere(recording: Recording, chosen: number): boolean {
  if (chosen >= 0) return Boolean(recording.processes[chosen]?.details);
  return programOf(recording, chosen)?.processes.some((it) => it.details) ?? false;
}

function Header({ app, views, onTheme, onHelp }: { app: App; views: View[]; onTheme: () => void; onHelp: () => void }) {
  const { recording, state, set } = app;
  const allocations = recording.processes.reduce((total, it) => total + it.allocations, 0);
  const name = nameOfRun(recording);
  const { kind } = recording.meta;
  const facts = kind === "stacks" ? [] : [duration(recording.end - recording.start)];
  if (knows(recording, "allocations")) facts.push(`${kind === "sampled" ? "about " : ""}${plural(allocations, "allocation")}`);
  return (
    <header>
      <div class="brand">
        <Logo />
        <strong title={recording.meta.command}>{name}</strong>
        <span class="facts">{facts.join(" · ")}</span>
      </div>
      <Views views={views} titles={TITLES} shown={state.view} href={(view) => toFragment(changed(state, { view }), recording.start)} onView={(view) => set({ view })} />
      <div class="controls">
        {recording.processes.length > 1 && (
          <select
            aria-label="Process"
            value={state.process === null ? "" : String(state.process)}
            onChange={(event) => set({ process: event.currentTarget.value === "" ? null : Number(event.currentTarget.value), range: null, zoom: [], row: "" })}
          >
            <option value="">All {count(recording.processes.length)} processes</option>
            {programs(recording).map((program) => {
              const options = program.processes
                .filter((it) => it.details)
                .map((it) => (
                  <option key={it.index} value={String(it.index)}>
                    {it.pid} {it.command.slice(0, 60)}
                  </option>
                ));
              if (options.length === 0 || program.processes.length === 1) return options;
              const name = fileName(program.executable) || "?";
              return (
                <optgroup key={program.key} label={`${name} ×${count(program.processes.length)}, ${bytes(program.bytes)}`}>
                  <option value={String(program.key)}>
                    {program.processes.length === options.length ? `All ${count(options.length)}` : `The ${count(options.length)} in full of`} {name}
                  </option>
                  {options}
                </optgroup>
              );
            })}
          </select>
        )}
        <Controls onTheme={onTheme} onHelp={onHelp} />
      </div>
    </header>
  );
}

function Ribbon({ app }: { app: App }) {
  const { recording, state, model, set } = app;
  const range = model.range(state);
  const text = state.range ? `${duration(range[0] - recording.start)} – ${duration(range[1] - recording.start)}` : `whole run, ${duration(range[1] - range[0])}`;
  return (
    <div class="ribbon">
      <Curve height={40} small />
      <span>
        Range: {text}
        {state.range && (
          <button type="button" class="link" onClick={() => set({ range: null })}>
            clear
          </button>
        )}
      </span>
    </div>
  );
}

/** The state after a change: rows and columns of another view are others. */
function changed(before: State, patch: Partial<State>): State {
  const next = { ...before, ...patch };
  if (next.view !== before.view) {
    next.sort = patch.sort ?? "";
    next.row = patch.row ?? "";
    // The tables are searched for processes, other views for functions.
    if ([before.view, next.view].includes("tables")) next.search = patch.search ?? "";
  }
  return next;
}

/** Undoes one thing: the zoom, the open row, the search, the range. */
function undo(state: State, set: App["set"]): void {
  if (state.zoom.length > 0) set({ zoom: [] });
  else if (state.row !== "") set({ row: "" });
  else if (state.search !== "") set({ search: "" });
  else if (state.range) set({ range: null });
}

/** Moves the ends of the range by a step, a part of it; without a range, it begins with a
 * tenth of the run. */
function moveRange({ state, model, set, recording }: App, from: number, to: number): void {
  if (recording.meta.kind !== "recording" || recording.sites.count === 0) return;
  const bounds = model.boundaries(state);
  const whole = model.whole(state);
  if (!state.range) {
    const tenth = (whole[1] - whole[0]) / 10;
    set({ range: model.range({ ...state, range: to > 0 ? [whole[0], whole[0] + tenth] : [whole[1] - tenth, whole[1]] }) });
    return;
  }
  const range = model.range(state);
  const last = bounds.length - 1;
  const ends = range.map((it) => lowerBound(bounds, it)) as [number, number];
  const step = Math.max(1, Math.round((ends[1] - ends[0]) / 4));
  let [first, end] = [ends[0] + from * step, ends[1] + to * step];
  if (from === to) {
    const shift = first < 0 ? -first : end > last ? last - end : 0;
    [first, end] = [first + shift, end + shift];
  }
  first = Math.min(Math.max(first, 0), last - 1);
  end = Math.min(Math.max(end, first + 1), last);
  set({ range: [bounds[first]!, bounds[end]!] });
}

restoreTheme();
const element = document.getElementById("app")!;
load().then(
  (data) => {
    element.replaceChildren();
    if (data instanceof AllocatorReport) {
      document.title = `${titleOfAllocators(data)} · Allotrope`;
      render(<AllocatorsPage data={data} />, element);
    } else if (data instanceof Comparison) {
      document.title = `${titleOf(data)} · Allotrope`;
      render(<ComparisonPage comparison={data} />, element);
    } else {
      document.title = `${nameOfRun(data)} · Allotrope`;
      render(<Page recording={data} />, element);
    }
    performance.mark("opened");
  },
  (error: unknown) => {
    element.textContent = `This page cannot be shown: ${error instanceof Error ? error.message : String(error)}.`;
  },
);
