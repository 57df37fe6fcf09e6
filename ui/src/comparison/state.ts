// The state of a comparison's page. It is in the URL's fragment, so that a link shows the
// same; what is as it is at first is left out.

import { KINDS, type Kind } from "../data/comparison";

export const VIEWS = ["changes", "flame"] as const;
export type View = (typeof VIEWS)[number];

export const WIDTHS = ["larger", "before", "after"] as const;
export type Width = (typeof WIDTHS)[number];

export interface State {
  view: View;
  /** The metric's name; empty: the first one. */
  metric: string;
  /** The kind of entries that are shown; null: all. */
  kind: Kind | null;
  search: string;
  /** Index of the entry that is open; empty: none. */
  row: string;
  /** Column by which the table is sorted; a minus: the least first. */
  sort: string;
  /** What the flame graph is as wide as. */
  width: Width;
  from: "main" | "allocation";
  /** Library frames are shown. */
  library: boolean;
  /** Keys of the nodes from the root to the one that fills the flame graph. */
  zoom: number[];
}

export const FIRST: State = { view: "changes", metric: "", kind: null, search: "", row: "", sort: "", width: "larger", from: "main", library: false, zoom: [] };

/** The fragment of a state. */
export function toFragment(state: State): string {
  const words = new URLSearchParams();
  const add = (name: string, value: string, first = "") => {
    if (value !== first) words.set(name, value);
  };
  add("m", state.metric);
  add("k", state.kind ?? "");
  add("q", state.search);
  add("row", state.row);
  add("sort", state.sort);
  add("w", state.width, FIRST.width);
  add("from", state.from, FIRST.from);
  add("lib", state.library ? "1" : "");
  add("z", state.zoom.map((key) => (key < 0 ? "_" : key.toString(36))).join("."));
  const text = words.toString();
  return `#/${state.view}${text === "" ? "" : `?${text}`}`;
}

/** The state of a fragment. What makes no sense is as it is at first; `metrics` are those of
 * the page. */
export function fromFragment(fragment: string, metrics: string[]): State {
  const [path = "", query = ""] = fragment.replace(/^#\/?/, "").split("?", 2);
  const words = new URLSearchParams(query);
  const one = <T extends string>(value: string | null, all: readonly T[], first: T): T => all.find((it) => it === value) ?? first;
  const zoom = (words.get("z") ?? "").split(".").filter((it) => it !== "");
  const metric = one(words.get("m"), metrics, metrics[0] ?? "");
  return {
    view: one(path, VIEWS, FIRST.view),
    metric: metric === metrics[0] ? "" : metric,
    kind: KINDS.find((it) => it === words.get("k")) ?? null,
    search: (words.get("q") ?? "").slice(0, 1000),
    row: words.get("row") ?? "",
    sort: words.get("sort") ?? "",
    width: one(words.get("w"), WIDTHS, FIRST.width),
    from: one(words.get("from"), ["main", "allocation"], FIRST.from),
    library: words.get("lib") === "1",
    zoom: zoom.map((it) => (it === "_" ? -1 : Number.parseInt(it, 36))).filter((it) => Number.isInteger(it)),
  };
}
