// The page of a comparison: keeps the state in the URL, listens to keys.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Comparison } from "../data/comparison";
import { fileName } from "../format";
import { Keys } from "../parts/keys";
import { Controls, Logo, Said, isTyping, moveRow, useSaid, useTheme } from "../parts/page";
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
  const read = () => fromFragment(location.hash, metrics);
  const [state, setState] = useState<State>(read);
  const { theme, switchTheme } = useTheme();
  const [help, setHelp] = useState(false);
  const { said, say } = useSaid();
  const latest = useRef(state);
  const writing = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  latest.current = state;

  const set = useCallback((patch: Partial<State>) => {
    const before = latest.current;
    const next = { ...before, ...patch };
    // An entry of another metric is another one.
    if (patch.metric !== undefined && patch.metric !== before.metric) [next.row, next.zoom] = ["", []];
    clearTimeout(writing.current);
    if (next.view !== before.view) {
      history.replaceState(null, "", toFragment(before));
      history.pushState(null, "", toFragment(next));
      scrollTo(0, 0);
    } else {
      // Browsers refuse it when it happens as often as somebody types.
      writing.current = setTimeout(() => history.replaceState(null, "", toFragment(latest.current)), 150);
    }
    latest.current = next;
    setState(next);
  }, []);

  useEffect(() => {
    const back = () => setState(read());
    addEventListener("popstate", back);
    addEventListener("hashchange", back);
    return () => {
      removeEventListener("popstate", back);
      removeEventListener("hashchange", back);
    };
  }, []);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => key(event, { state: latest.current, set, metrics, switchTheme, help, setHelp });
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });

  const compared = comparison.all.find((it) => it.metric === state.metric) ?? comparison.all[0]!;
  const app: App = { comparison, compared, state, set, theme, say };
  return (
    <AppContext.Provider value={app}>
      <header>
        <div class="brand">
          <Logo />
          <strong class="two" title={titleOf(comparison)}>{titleOf(comparison)}</strong>
        </div>
        <nav aria-label="Views">
          {VIEWS.map((view) => (
            <a
              key={view}
              href={toFragment({ ...state, view })}
              aria-current={view === state.view ? "page" : undefined}
              onClick={(event) => {
                if (event.ctrlKey || event.metaKey || event.shiftKey) return;
                event.preventDefault();
                set({ view });
              }}
            >
              {TITLES[view]}
            </a>
          ))}
        </nav>
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

interface Page {
  state: State;
  set: (patch: Partial<State>) => void;
  metrics: string[];
  switchTheme: () => void;
  help: boolean;
  setHelp: (shown: boolean) => void;
}

/** What a key does anywhere on the page. */
function key(event: KeyboardEvent, { state, set, metrics, switchTheme, help, setHelp }: Page): void {
  const target = event.target as HTMLElement;
  const typing = isTyping(target);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (help) setHelp(false);
    else if (typing && state.search !== "") set({ search: "" });
    else if (typing) target.blur();
    else undo(state, set);
    event.preventDefault();
    return;
  }
  if (typing || help) return;
  const view = VIEWS[Number(event.key) - 1];
  const actions: Record<string, () => void> = {
    "/": () => document.getElementById("search")?.focus(),
    "?": () => setHelp(true),
    d: switchTheme,
    l: () => set({ library: !state.library, zoom: [] }),
    i: () => set({ from: state.from === "main" ? "allocation" : "main", zoom: [] }),
    j: () => moveRow(1),
    k: () => moveRow(-1),
    m: () => {
      const next = (Math.max(metrics.indexOf(state.metric), 0) + 1) % metrics.length;
      set({ metric: next === 0 ? "" : metrics[next]! });
    },
    c: () => document.querySelector<HTMLElement>("tr.detail button.copy")?.click(),
  };
  if (view) set({ view });
  else if (actions[event.key]) actions[event.key]!();
  else return;
  event.preventDefault();
}

/** Undoes one thing: the zoom, the open row, the search, the kind. */
function undo(state: State, set: (patch: Partial<State>) => void): void {
  if (state.view === "flame" && state.zoom.length > 0) set({ zoom: [] });
  else if (state.row !== "") set({ row: "" });
  else if (state.search !== "") set({ search: "" });
  else if (state.kind !== null) set({ kind: null });
}
