// What all pages have in common around their views: the state in the URL, keys, theme, messages,
// the links and buttons at the top, and moving from row to row.

import { options } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

/** The state of a page, which is in the URL. */
interface UrlState<S> {
  state: S;
  /** The state now, for handlers that were made before. */
  latest: { current: S };
  set: (patch: Partial<S>) => void;
}

/** Keeps the state in the URL. `read` reads it there, `toFragment` writes it; `change` applies a
 * patch. A change of the view is a step of the browser's history. */
export function useUrlState<S extends { view: string }>(read: () => S, toFragment: (state: S) => string, change: (before: S, patch: Partial<S>) => S): UrlState<S> {
  const [state, setState] = useState<S>(read);
  const latest = useRef(state);
  const writing = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  latest.current = state;
  const set = useCallback((patch: Partial<S>) => {
    const before = latest.current;
    const next = change(before, patch);
    clearTimeout(writing.current);
    if (next.view !== before.view) {
      history.replaceState(null, "", toFragment(before));
      history.pushState(null, "", toFragment(next));
      scrollTo(0, 0);
    } else {
      // Browsers refuse it when it happens as often as somebody types or a brush moves.
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
  return { state, latest, set };
}

/** What keys do on a page. */
interface KeyActions<S> {
  views: readonly string[];
  url: UrlState<S>;
  /** By key. */
  actions: Record<string, () => void>;
  /** What Escape does outside of fields. */
  undo: (state: S) => void;
  help: boolean;
  setHelp: (shown: boolean) => void;
  switchTheme: () => void;
}

/** Listens to the keys of all pages, and to those of `actions`. */
export function useKeys<S extends { view: string; search: string }>(keys: KeyActions<S>): void {
  const isStepping = useRef(false);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      isStepping.current = event.key.startsWith("Arrow");
      key(event, keys);
    };
    const onPointer = () => {
      isStepping.current = false;
    };
    // A select takes letters and digits for the first ones of an option. After a choice they are
    // the page's again; arrows go on through the options of a select that is closed.
    const onChange = ({ target }: Event) => {
      if (target instanceof HTMLSelectElement && !isStepping.current) target.blur();
    };
    addEventListener("keydown", onKey);
    addEventListener("pointerdown", onPointer);
    addEventListener("change", onChange);
    return () => {
      removeEventListener("keydown", onKey);
      removeEventListener("pointerdown", onPointer);
      removeEventListener("change", onChange);
    };
  });
}

function key<S extends { view: string; search: string }>(event: KeyboardEvent, { views, url, actions, undo, help, setHelp, switchTheme }: KeyActions<S>): void {
  const target = event.target as HTMLElement;
  const typing = isTyping(target);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { latest, set } = url;
  if (event.key === "Escape") {
    if (help) setHelp(false);
    else if (typing && latest.current.search !== "") set({ search: "" } as Partial<S>);
    else if (typing) target.blur();
    else undo(latest.current);
    event.preventDefault();
    return;
  }
  if (typing || help) return;
  const all: Record<string, () => void> = {
    "/": () => document.getElementById("search")?.focus(),
    "?": () => setHelp(true),
    d: switchTheme,
    j: () => moveRow(1),
    k: () => moveRow(-1),
    ...actions,
  };
  const view = views[Number(event.key) - 1];
  if (view) {
    set({ view } as Partial<S>);
    // The graph is there when the view is drawn.
    requestAnimationFrame(focusGraph);
  } else if (all[event.key]) all[event.key]!();
  else return;
  event.preventDefault();
}

interface ViewsProps<V extends string> {
  views: readonly V[];
  titles: Record<V, string>;
  shown: V;
  /** The fragment that shows a view. */
  href: (view: V) => string;
  onView: (view: V) => void;
}

/** The links to the views. */
export function Views<V extends string>({ views, titles, shown, href, onView }: ViewsProps<V>) {
  return (
    <nav aria-label="Views">
      {views.map((view) => (
        <a
          key={view}
          href={href(view)}
          aria-current={view === shown ? "page" : undefined}
          onClick={(event) => {
            if (event.ctrlKey || event.metaKey || event.shiftKey) return;
            event.preventDefault();
            onView(view);
          }}
        >
          {titles[view]}
        </a>
      ))}
    </nav>
  );
}

export function Logo() {
  return (
    <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
      <path d="M10 1.5 17.5 5.8V14.2L10 18.5 2.5 14.2V5.8ZM2.5 5.8 10 10 17.5 5.8M10 10V18.5" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round" />
    </svg>
  );
}

/** The buttons for light and dark, and for the keys. */
export function Controls({ onTheme, onHelp }: { onTheme: () => void; onHelp: () => void }) {
  return (
    <>
      <button type="button" class="icon" aria-label="Switch between light and dark" title="Light or dark (d)" onClick={onTheme}>
        <svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
          <circle cx="9" cy="9" r="6.5" fill="none" stroke="currentColor" stroke-width="1.5" />
          <path d="M9 2.5A6.5 6.5 0 0 0 9 15.5Z" fill="currentColor" />
        </svg>
      </button>
      <button type="button" class="icon" aria-label="Keys" title="Keys (?)" onClick={onHelp}>
        ?
      </button>
    </>
  );
}

/** `theme` is raised when colours change, so that canvases are drawn again. */
export function useTheme(): { theme: number; switchTheme: () => void } {
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const redraw = () => setTheme((it) => it + 1);
    const query = matchMedia("(prefers-color-scheme: dark)");
    query.addEventListener("change", redraw);
    return () => query.removeEventListener("change", redraw);
  }, []);
  useEffect(() => {
    const redraw = (isPrinting: boolean) => {
      document.documentElement.toggleAttribute("data-printing", isPrinting);
      atOnce(() => setTheme((it) => it + 1));
    };
    const [before, after] = [() => redraw(true), () => redraw(false)];
    addEventListener("beforeprint", before);
    addEventListener("afterprint", after);
    return () => {
      removeEventListener("beforeprint", before);
      removeEventListener("afterprint", after);
    };
  }, []);
  const switchTheme = () => {
    const dark = document.documentElement.dataset.theme === "dark" || (document.documentElement.dataset.theme === undefined && matchMedia("(prefers-color-scheme: dark)").matches);
    applyTheme(dark ? "light" : "dark");
    setTheme((it) => it + 1);
  };
  return { theme, switchTheme };
}

/** Makes a change and draws its effects before it returns: the browser prints what is there when
 * the handlers of `beforeprint` return, and canvases have the width and colours of the screen. */
function atOnce(change: () => void): void {
  const before = { debounceRendering: options.debounceRendering, requestAnimationFrame: options.requestAnimationFrame };
  options.debounceRendering = (run) => run();
  options.requestAnimationFrame = (run) => run();
  try {
    change();
  } finally {
    Object.assign(options, before);
  }
}

function applyTheme(theme: string): void {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // A page from a file may not be allowed to store: then it is not remembered.
  }
}

/** Applies the theme that was chosen last. */
export function restoreTheme(): void {
  try {
    const stored = localStorage.getItem("theme");
    if (stored === "dark" || stored === "light") document.documentElement.dataset.theme = stored;
  } catch {
    // As above.
  }
}

/** A message to screen readers that is also shown for a moment. */
export function useSaid(): { said: string; say: (text: string) => void } {
  const [said, say] = useState("");
  useEffect(() => {
    if (said === "") return;
    const timer = setTimeout(() => say(""), 2500);
    return () => clearTimeout(timer);
  }, [said]);
  return { said, say };
}

export function Said({ text }: { text: string }) {
  return (
    <p class={text === "" ? "said hidden" : "said"} role="status">
      {text}
    </p>
  );
}

/** Whether keys are typed into the element. */
function isTyping(element: HTMLElement): boolean {
  return element instanceof HTMLInputElement || element instanceof HTMLSelectElement;
}

/** Gives the flame graph of the view, if it has one, its keys; unless `/` came in between. */
function focusGraph(): void {
  if (isTyping(document.activeElement as HTMLElement)) return;
  document.querySelector<HTMLElement>("canvas.flame")?.focus({ preventScroll: true });
}

/** Moves the focus from row to row of a table. */
function moveRow(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main button.row")];
  if (rows.length === 0) return;
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
  next?.focus();
}
