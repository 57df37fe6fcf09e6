// The state of the page: what is looked at. It is in the URL's fragment, so that a link
// shows the same; what is as it is at first is left out. Times are seconds since the first
// process began, not buckets.

import { MODES, type Mode, type Range } from "./data/ranges";

export const VIEWS = ["overview", "timeline", "flame", "functions", "tables"] as const;
export type View = (typeof VIEWS)[number];

export const WEIGHTS = ["allocations", "bytes", "peak", "range", "leaked", "temporary"] as const;
export type Weight = (typeof WEIGHTS)[number];

export const TABLES = ["threads", "sizes", "entries", "processes", "windows"] as const;
export type Table = (typeof TABLES)[number];

export interface State {
  view: View;
  /** Index of the process that is looked at, or the key of a program; null: all. */
  process: number | null;
  /** Nanoseconds since the start of the recording; null: the whole run. */
  range: Range | null;
  mode: Mode;
  weight: Weight;
  from: "main" | "allocation";
  /** Library frames are shown. */
  library: boolean;
  /** Keys of the nodes from the root to the one that fills the flame graph. */
  zoom: number[];
  search: string;
  by: "functions" | "files" | "modules";
  table: Table;
  /** Key of the row that is open. */
  row: string;
  /** Column by which the table is sorted; a minus: the least first. */
  sort: string;
  /** The curve has the resident set, too. */
  resident: boolean;
  /** The table of processes has those of the same program in one row. */
  merged: boolean;
}

export const FIRST: State = {
  view: "overview",
  process: null,
  range: null,
  mode: "kept",
  weight: "bytes",
  from: "main",
  library: false,
  zoom: [],
  search: "",
  by: "functions",
  table: "threads",
  row: "",
  sort: "",
  resident: true,
  merged: true,
};

/** A time as seconds, exact to the nanosecond. */
function seconds(ns: number): string {
  return (ns / 1e9).toFixed(9).replace(/\.?0+$/, "");
}

/** The options of `allotrope report` for a range of a recording that begins and ends at the
 * other two times. Without `--to` it reaches to the end. */
export function rangeOptions(range: Range, start: number, end: number): string {
  const from = `--from ${seconds(range[0] - start)}s`;
  return range[1] < end ? `${from} --to ${seconds(range[1] - start)}s` : from;
}

/** The fragment of a state; `start` is when the first process began. */
export function toFragment(state: State, start: number): string {
  const words = new URLSearchParams();
  const add = (name: string, value: string, first: string) => {
    if (value !== first) words.set(name, value);
  };
  add("p", state.process === null ? "" : state.process < 0 ? `all${-1 - state.process}` : String(state.process), "");
  if (state.range) words.set("r", state.range.map((ns) => seconds(ns - start)).join("-"));
  add("mode", state.mode, FIRST.mode);
  add("w", state.weight, FIRST.weight);
  add("from", state.from, FIRST.from);
  add("lib", state.library ? "1" : "", "");
  add("z", state.zoom.map((key) => (key < 0 ? "_" : key.toString(36))).join("."), "");
  add("q", state.search, "");
  add("by", state.by, FIRST.by);
  add("t", state.table, FIRST.table);
  add("row", state.row, "");
  add("sort", state.sort, "");
  add("rss", state.resident ? "" : "0", "");
  add("each", state.merged ? "" : "1", "");
  const text = words.toString();
  return `#/${state.view}${text === "" ? "" : `?${text}`}`;
}

/** The state of a fragment. What makes no sense is as it is at first. */
export function fromFragment(fragment: string, start: number): State {
  const [path = "", query = ""] = fragment.replace(/^#\/?/, "").split("?", 2);
  const words = new URLSearchParams(query);
  const one = <T extends string>(value: string | null, all: readonly T[], first: T): T =>
    all.find((it) => it === value) ?? first;
  const [, all, index] = /^(all)?(\d{1,9})$/.exec(words.get("p") ?? "") ?? [];
  const process = index === undefined ? null : all ? -1 - Number(index) : Number(index);
  const times = (words.get("r") ?? "").split("-").map(Number);
  const [from = NaN, to = NaN] = times;
  const isRange = times.length === 2 && Number.isFinite(from) && Number.isFinite(to) && from < to;
  const zoom = (words.get("z") ?? "").split(".").filter((it) => it !== "");
  return {
    view: one(path, VIEWS, FIRST.view),
    process,
    range: isRange ? [start + Math.round(from * 1e9), start + Math.round(to * 1e9)] : null,
    mode: one(words.get("mode"), MODES, FIRST.mode),
    weight: one(words.get("w"), WEIGHTS, FIRST.weight),
    from: one(words.get("from"), ["main", "allocation"], FIRST.from),
    library: words.get("lib") === "1",
    zoom: zoom.map((it) => (it === "_" ? -1 : Number.parseInt(it, 36))).filter((it) => Number.isInteger(it)),
    search: (words.get("q") ?? "").slice(0, 1000),
    by: one(words.get("by"), ["functions", "files", "modules"], FIRST.by),
    table: one(words.get("t"), TABLES, FIRST.table),
    row: words.get("row") ?? "",
    sort: words.get("sort") ?? "",
    resident: words.get("rss") !== "0",
    merged: words.get("each") !== "1",
  };
}
