// The state of the page of an allocator report. It is in the URL's fragment, so that a link
// shows the same; what is as it is at first is left out.

export const VIEWS = ["summary", "paths", "appendix"] as const;
export type View = (typeof VIEWS)[number];

export interface State {
  view: View;
  /** The allocator whose paths are shown; empty: the first one that was stepped. */
  allocator: string;
  /** Whether the paths are those of its earlier version. */
  before: boolean;
  search: string;
  /** The row that is open; empty: none. */
  row: string;
  /** Column by which the first table of the view is sorted; a minus: the least first. */
  sort: string;
  /** Keys of the nodes from the root to the one that fills the flame graph. */
  zoom: number[];
}

export const FIRST: State = { view: "summary", allocator: "", before: false, search: "", row: "", sort: "", zoom: [] };

/** The fragment of a state. */
export function toFragment(state: State): string {
  const words = new URLSearchParams();
  const add = (name: string, value: string) => {
    if (value !== "") words.set(name, value);
  };
  add("a", state.allocator);
  add("v", state.before ? "before" : "");
  add("q", state.search);
  add("row", state.row);
  add("sort", state.sort);
  add("z", state.zoom.map((key) => key.toString(36)).join("."));
  const text = words.toString();
  return `#/${state.view}${text === "" ? "" : `?${text}`}`;
}

/** The state of a fragment. What makes no sense is as it is at first; `names` are the allocators
 * of the page. */
export function fromFragment(fragment: string, names: string[]): State {
  const [path = "", query = ""] = fragment.replace(/^#\/?/, "").split("?", 2);
  const words = new URLSearchParams(query);
  const zoom = (words.get("z") ?? "").split(".").filter((it) => it !== "");
  return {
    view: VIEWS.find((it) => it === path) ?? FIRST.view,
    allocator: names.find((it) => it === words.get("a")) ?? "",
    before: words.get("v") === "before",
    search: (words.get("q") ?? "").slice(0, 1000),
    row: words.get("row") ?? "",
    sort: words.get("sort") ?? "",
    zoom: zoom.map((it) => Number.parseInt(it, 36)).filter((it) => Number.isInteger(it)),
  };
}
