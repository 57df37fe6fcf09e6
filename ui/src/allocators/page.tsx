// The page of an allocator report: keeps the state in the URL, listens to keys.

import { useState } from "preact/hooks";
import type { AllocatorReport } from "../data/allocators";
import { fileName } from "../format";
import { Keys } from "../parts/keys";
import { Controls, Logo, Said, Views, useKeys, useSaid, useTheme, useUrlState } from "../parts/page";
import { type App, AppContext } from "./app";
import { Appendix } from "./appendix";
import { Paths } from "./paths";
import { type State, VIEWS, type View, fromFragment, toFragment } from "./state";
import { Summary } from "./summary";

const TITLES: Record<View, string> = { summary: "Summary", paths: "Paths", appendix: "Appendix" };

const KEYS: [string, string][] = [
  ["1 – 3", "views"],
  ["a", "the paths of the next allocator"],
  ["b", "the paths before the change, or after it"],
  ["/", "search in the paths"],
  ["j k", "next and previous row; Enter opens it"],
  ["↑ ↓ ← →", "in the flame graph: choose a cell; Enter zooms"],
  ["c", "in the flame graph: copy the path"],
  ["d", "dark or light"],
  ["Esc", "undo one thing: zoom, row, search"],
  ["?", "these keys"],
];

export function titleOf({ report }: AllocatorReport): string {
  return `${fileName(report.recording.executable)}: allocators`;
}

export function AllocatorsPage({ data }: { data: AllocatorReport }) {
  const { report } = data;
  const stepped = report.allocators.filter((it) => it.instructions.length > 0);
  const names = stepped.map((it) => it.name);
  const url = useUrlState<State>(() => fromFragment(location.hash, names), toFragment, changed);
  const { state, set } = url;
  const { theme, switchTheme } = useTheme();
  const [help, setHelp] = useState(false);
  const { said, say } = useSaid();
  const actions = {
    "/": () => {
      set({ view: "paths" });
      // The field is there when the view is drawn.
      requestAnimationFrame(() => document.getElementById("search")?.focus());
    },
    a: () => {
      if (names.length === 0) return;
      const { view, allocator } = url.latest.current;
      const at = Math.max(names.indexOf(allocator), 0);
      const next = view === "paths" ? names[(at + 1) % names.length]! : names[at]!;
      set({ view: "paths", allocator: next === names[0] ? "" : next });
    },
    b: () => {
      const { view, allocator, before } = url.latest.current;
      const now = view === "paths" ? allocator || names[0]! : "";
      const name = data.before(now) ? now : names.find((it) => data.before(it));
      if (name !== undefined) set({ view: "paths", allocator: name === names[0] ? "" : name, before: name !== now || !before });
    },
  };
  useKeys({ views: VIEWS, url, actions, undo: (now) => undo(now, set), help, setHelp, switchTheme });

  const chosen = stepped.find((it) => it.name === state.allocator) ?? stepped[0] ?? null;
  const app: App = { data, chosen, state, set, theme, say };
  const Shown = { summary: Summary, paths: Paths, appendix: Appendix }[state.view];
  return (
    <AppContext.Provider value={app}>
      <header>
        <div class="brand">
          <Logo />
          <strong class="two" title={report.recording.command.join(" ")}>
            {titleOf(data)}
          </strong>
        </div>
        <Views views={VIEWS} titles={TITLES} shown={state.view} href={(view) => toFragment(changed(state, { view }))} onView={(view) => set({ view })} />
        <div class="controls">
          <Controls onTheme={switchTheme} onHelp={() => setHelp(true)} />
        </div>
      </header>
      <main class="allocators">
        <Shown key={state.view} />
      </main>
      <footer class="quiet">
        Allotrope · <code>{report.format}</code> · replay of <code>{report.recording.command.join(" ")}</code>
      </footer>
      {help && <Keys keys={KEYS} onClose={() => setHelp(false)} />}
      <Said text={said} />
    </AppContext.Provider>
  );
}

/** The state after a change: rows, columns and cells of another table, allocator or version are
 * others. */
function changed(now: State, patch: Partial<State>): State {
  const next = { ...now, ...patch };
  const isOther = next.view !== now.view;
  if (isOther || next.allocator !== now.allocator) next.before = patch.before ?? false;
  if (isOther || next.allocator !== now.allocator || next.before !== now.before) {
    next.row = patch.row ?? "";
    next.zoom = patch.zoom ?? [];
  }
  if (isOther) next.sort = patch.sort ?? "";
  return next;
}

/** Undoes one thing: the zoom, the open row, the search. */
function undo(state: State, set: (patch: Partial<State>) => void): void {
  if (state.view === "paths" && state.zoom.length > 0) set({ zoom: [] });
  else if (state.row !== "") set({ row: "" });
  else if (state.search !== "") set({ search: "" });
}
