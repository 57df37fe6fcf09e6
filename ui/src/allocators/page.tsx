// The page of an allocator report: keeps the state in the URL, listens to keys.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { AllocatorReport } from "../data/allocators";
import { fileName } from "../format";
import { Keys } from "../parts/keys";
import { Controls, Logo, Said, isTyping, moveRow, useSaid, useTheme } from "../parts/page";
import { type App, AppContext } from "./app";
import { Appendix } from "./appendix";
import { Paths } from "./paths";
import { type State, VIEWS, type View, fromFragment, toFragment } from "./state";
import { Summary } from "./summary";

const TITLES: Record<View, string> = { summary: "Summary", paths: "Paths", appendix: "Appendix" };

const KEYS: [string, string][] = [
  ["1 – 3", "views"],
  ["a", "the paths of the next allocator"],
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
  const read = () => fromFragment(location.hash, names);
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
    const isOther = next.view !== before.view;
    // Rows, columns and cells of another table or allocator are others.
    if (isOther || next.allocator !== before.allocator) {
      next.row = patch.row ?? "";
      next.zoom = patch.zoom ?? [];
    }
    if (isOther) next.sort = patch.sort ?? "";
    clearTimeout(writing.current);
    if (isOther) {
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
    const onKey = (event: KeyboardEvent) => key(event, { state: latest.current, set, names, switchTheme, help, setHelp });
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });

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
        <nav aria-label="Views">
          {VIEWS.map((view) => (
            <a
              key={view}
              href={toFragment({ ...state, view, row: "", sort: "", zoom: [] })}
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

interface Page {
  state: State;
  set: (patch: Partial<State>) => void;
  /** The allocators that have paths. */
  names: string[];
  switchTheme: () => void;
  help: boolean;
  setHelp: (shown: boolean) => void;
}

/** What a key does anywhere on the page. */
function key(event: KeyboardEvent, { state, set, names, switchTheme, help, setHelp }: Page): void {
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
    "/": () => {
      set({ view: "paths" });
      // The field is there when the view is drawn.
      requestAnimationFrame(() => document.getElementById("search")?.focus());
    },
    "?": () => setHelp(true),
    d: switchTheme,
    j: () => moveRow(1),
    k: () => moveRow(-1),
    a: () => {
      if (names.length === 0) return;
      const at = Math.max(names.indexOf(state.allocator), 0);
      const next = state.view === "paths" ? names[(at + 1) % names.length]! : names[at]!;
      set({ view: "paths", allocator: next === names[0] ? "" : next });
    },
  };
  if (view) set({ view });
  else if (actions[event.key]) actions[event.key]!();
  else return;
  event.preventDefault();
}

/** Undoes one thing: the zoom, the open row, the search. */
function undo(state: State, set: (patch: Partial<State>) => void): void {
  if (state.view === "paths" && state.zoom.length > 0) set({ zoom: [] });
  else if (state.row !== "") set({ row: "" });
  else if (state.search !== "") set({ search: "" });
}
