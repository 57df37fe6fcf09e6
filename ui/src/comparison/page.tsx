// The page of a comparison: keeps the state in the URL, listens to keys.

import { useState } from "preact/hooks";
import type { Comparison } from "../data/comparison";
import { fileName } from "../format";
import { Keys } from "../parts/keys";
import { Controls, Logo, Said, Views, useKeys, useSaid, useTheme, useUrlState } from "../parts/page";
import { type App, AppContext } from "./app";
import { Changes } from "./changes";
import { DifferentialFlame } from "./flame";
import { type State, VIEWS, type View, fromFragment, toFragment } from "./state";

const TITLES: Record<View, string> = { changes: "What changed", flame: "Flame graph" };

const KEYS: [string, string][] = [
  ["1 2", "views"],
  ["/", "search"],
  ["j k", "next and previous row; Enter opens it"],
  ["m", "the next metric"],
  ["↑ ↓ ← →", "in the flame graph: choose a cell; Enter zooms"],
  ["c", "copy the stack that is open, or the chosen one of the flame graph"],
  ["l", "library frames"],
  ["i", "turn the flame graph: from main, from the allocation"],
  ["d", "dark or light"],
  ["Esc", "undo one thing: zoom, row, search, kind"],
  ["?", "these keys"],
];

/** What is compared, in a few words. */
export function titleOf({ meta }: Comparison): string {
  const names = meta.sides.map((side) => fileName(side.titles[0] ?? "").replace(/\.allotrope$/, ""));
  return names[0] === names[1] ? `${names[0]} compared` : `${names[0]} ↔ ${names[1]}`;
}

export function ComparisonPage({ comparison }: { comparison: Comparison }) {
  const metrics = comparison.all.map((it) => it.metric);
  const url = useUrlState<State>(() => fromFragment(location.hash, metrics), toFragment, changed);
  const { state, set } = url;
  const { theme, switchTheme } = useTheme();
  const [help, setHelp] = useState(false);
  const { said, say } = useSaid();
  const actions = {
    l: () => set({ library: !url.latest.current.library, zoom: [] }),
    i: () => set({ from: url.latest.current.from === "main" ? "allocation" : "main", zoom: [] }),
    m: () => {
      const next = (Math.max(metrics.indexOf(url.latest.current.metric), 0) + 1) % metrics.length;
      set({ metric: next === 0 ? "" : metrics[next]! });
    },
    c: () => document.querySelector<HTMLElement>("tr.detail button.copy")?.click(),
  };
  useKeys({ views: VIEWS, url, actions, undo: (now) => undo(now, set), help, setHelp, switchTheme });

  const compared = comparison.all.find((it) => it.metric === state.metric) ?? comparison.all[0]!;
  const app: App = { comparison, compared, state, set, theme, say };
  return (
    <AppContext.Provider value={app}>
      <header>
        <div class="brand">
          <Logo />
          <strong class="two" title={titleOf(comparison)}>{titleOf(comparison)}</strong>
        </div>
        <Views views={VIEWS} titles={TITLES} shown={state.view} href={(view) => toFragment({ ...state, view })} onView={(view) => set({ view })} />
        <div class="controls">
          <Controls onTheme={switchTheme} onHelp={() => setHelp(true)} />
        </div>
      </header>
      <main>{state.view === "changes" ? <Changes /> : <DifferentialFlame />}</main>
      <footer class="quiet">
        Allotrope {comparison.meta.tool} · before <code>{comparison.meta.sides[0].titles.join(", ")}</code> · after <code>{comparison.meta.sides[1].titles.join(", ")}</code>
      </footer>
      {help && <Keys keys={KEYS} onClose={() => setHelp(false)} />}
      <Said text={said} />
    </AppContext.Provider>
  );
}

/** The state after a change: an entry of another metric is another one. */
function changed(before: State, patch: Partial<State>): State {
  const next = { ...before, ...patch };
  if (patch.metric !== undefined && patch.metric !== before.metric) [next.row, next.zoom] = ["", []];
  return next;
}

/** Undoes one thing: the zoom, the open row, the search, the kind. */
function undo(state: State, set: (patch: Partial<State>) => void): void {
  if (state.view === "flame" && state.zoom.length > 0) set({ zoom: [] });
  else if (state.row !== "") set({ row: "" });
  else if (state.search !== "") set({ search: "" });
  else if (state.kind !== null) set({ kind: null });
}
