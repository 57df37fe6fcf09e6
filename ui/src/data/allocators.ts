// A report of allocators as the page has it: the JSON `allotrope-allocators/1`, and for each
// allocator the tree of its instructions.

import type { FlameTree } from "./flame";

export interface Spread {
  median: number;
  low: number;
  high: number;
}

export interface PathFunction {
  function: string;
  file: string;
  line: number;
  module: string;
  allocator: boolean;
  /** Its own, an operation of the path. */
  instructions: number;
}

export interface Path {
  entry_point: string;
  functions: PathFunction[];
  operations: number;
  share_of_operations: number;
  instructions: number;
  share_of_instructions: number;
}

export interface Instructions extends Spread {
  entry_point: string;
  operations: number;
  mean: number;
  p99: number;
  locked: number;
  system_calls: number;
}

export interface SizeClass {
  entry_point: string;
  up_to_bytes: number;
  operations: number;
  mean: number;
  median: number;
}

export interface Callee {
  function: string;
  kind: string;
  caller: string;
  file: string;
  line: number;
  share_of_operations: number;
  share_of_instructions: number;
  entry_points: { entry_point: string; share_of_operations: number; share_of_instructions: number }[];
}

export interface Line {
  function: string;
  file: string;
  line: number;
  instructions: number;
  share_of_instructions: number;
}

export interface Counter {
  counter: string;
  /** null: unavailable, which is not 0. */
  per_operation: number | null;
  source: string;
  why: string | null;
}

export interface Estimate {
  kind: string;
  function: string;
  by: string;
  file: string;
  line: number;
  share_of_operations: number;
  saved_instructions: number;
  saved_share: number;
}

export interface Check {
  what: string;
  first: string;
  second: string;
  counted: number;
  again: number | null;
  agrees: boolean | null;
}

/** What the stepped operations of an allocator did. */
export interface Steps {
  cut: number;
  instructions: Instructions[];
  size_classes: SizeClass[];
  lines: Line[];
  paths: Path[];
  callees: Callee[];
}

export interface Allocator extends Steps {
  name: string;
  library: string | null;
  refused: string | null;
  not_stepped: string | null;
  ns_per_operation: Spread | null;
  /** With the first one that was measured; null for that one. */
  compared: "less" | "tied" | "more" | "unknown" | null;
  peak_rss_bytes: number | null;
  peak_rss: Spread | null;
  final_rss_bytes: number | null;
  peak_overhead: number | null;
  page_faults: number | null;
  points: { operations: number; live_bytes: number; rss_bytes: number }[];
  counters: Counter[];
  what_if: Estimate[];
  verification: Check[];
  findings: string[];
}

export interface Switch {
  name: string;
  worth: string;
  why: string | null;
  saved_seconds: number;
  saved_seconds_error: number;
  saved_share: number;
  saved_share_error: number;
  /** Several threads: saved_seconds is CPU time of all of them, saved_share a bound. */
  is_bound: boolean;
  saved_peak_rss_bytes: number;
  saved_peak_rss_bytes_error: number;
}

export interface Change {
  name: string;
  before_library: string | null;
  refused: string | null;
  /** Of the earlier version; null: it was not stepped. */
  before: Steps | null;
  rows: { entry_point: string; operations: number; before: number; after: number; noise: number }[];
  removed: Estimate[];
  estimated_saving: number | null;
  measured_saving: number | null;
  not_timed: string | null;
  time: {
    before_ns_per_operation: Spread;
    after_ns_per_operation: Spread;
    measured_saving_ns: number;
    measured_saving_ns_error: number;
    verdict: string;
    before_peak_rss_bytes: number;
    after_peak_rss_bytes: number;
  } | null;
}

export interface Report {
  format: string;
  summary: string[];
  recording: {
    pid: number;
    executable: string;
    command: string[];
    wall_seconds: number;
    operations: number;
    threads: number;
    most_blocks: number;
    peak_live_bytes: number;
    final_live_bytes: number;
    foreign_frees: number;
    foreign_reallocations: number;
    lost_frees: number;
    lost_events: number;
    allocator: string;
    allocator_is_known: boolean;
  };
  replay: { order: string; touch: string; touched_share: number | null; runs: number; null_ns_per_operation: Spread | null };
  stepping: { every: number; operations: number; runs: number };
  allocators: Allocator[];
  switching: { from: string | null; unknown: string | null; to: Switch[] };
  changes: Change[];
  commands: { section: string; command: string }[];
}

/** What `allotrope-text` escapes, too: characters that have no glyph, break lines or change the
 * direction of text. Variation selectors are parts of emoji. */
const HIDDEN = /(?![\ufe0e\ufe0f])[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** A text whose hidden characters are escaped. */
export function shown(text: string): string {
  return text.replace(HIDDEN, (it) => `\\u{${it.codePointAt(0)!.toString(16)}}`);
}

export class AllocatorReport {
  readonly report: Report;
  private readonly trees = new Map<Steps, PathTree>();

  constructor(json: string) {
    const report = JSON.parse(json, (_, value: unknown) => (typeof value === "string" ? shown(value) : value)) as Report;
    if (report.format !== "allotrope-allocators/1") throw new Error(`the format of its report is ${report.format}, which this page does not know`);
    this.report = report;
  }

  allocator(name: string): Allocator | undefined {
    return this.report.allocators.find((it) => it.name === name);
  }

  /** What the earlier version of an allocator did; undefined: there is none, or it was not
   * stepped. */
  before(name: string): Steps | undefined {
    const steps = this.report.changes.find((it) => it.name === name)?.before;
    return steps && steps.instructions.length > 0 ? steps : undefined;
  }

  /** The tree of an allocator's instructions, of this version or of the earlier one. */
  tree(name: string, steps: Steps): PathTree {
    let tree = this.trees.get(steps);
    if (!tree) {
      tree = new PathTree(name, steps);
      this.trees.set(steps, tree);
    }
    return tree;
  }
}

type Kind = "all" | "entry" | "path" | "function";

export interface PathNode {
  kind: Kind;
  name: string;
  /** `file:line`, or the module's name; may be empty. */
  place: string;
  /** Instructions an operation of all. */
  value: number;
  /** Of the operations of the entry point (of all, for an entry point). */
  share: number;
  /** Whether the function belongs to the allocator. */
  own: boolean;
  parent: number;
  key: number;
  children: number[];
}

/** The tree of an allocator's instructions: entry points, their paths, and of each path its
 * functions beside each other, because the report has their order and not who calls whom. */
export class PathTree implements FlameTree {
  readonly nodes: PathNode[] = [];
  /** By key: what a search looks at. */
  private readonly words: string[] = [];
  private readonly keys = new Map<string, number>();
  private readonly ofPaths = new Map<Path, number>();

  constructor(name: string, steps: Steps) {
    const [all, ...entries] = steps.instructions;
    const operations = all?.operations ?? 0;
    this.nodes.push({ kind: "all", name, place: "", value: all?.mean ?? 0, share: 1, own: true, parent: 0, key: -1, children: [] });
    if (operations === 0) return;
    for (const entry of entries) {
      const part = entry.operations / operations;
      const at = this.add(0, `entry ${entry.entry_point}`, { kind: "entry", name: entry.entry_point, place: "", value: entry.mean * part, share: part, own: true });
      const paths = steps.paths.filter((it) => it.entry_point === entry.entry_point);
      paths.forEach((path, i) => {
        const times = path.share_of_operations * part;
        const below = this.add(at, `path ${entry.entry_point} ${i}`, { kind: "path", name: `path ${i + 1}`, place: pathText(path), value: path.instructions * times, share: path.share_of_operations, own: true });
        this.ofPaths.set(path, below);
        for (const it of path.functions) {
          this.add(below, `function ${it.function} ${it.module}`, { kind: "function", name: it.function, place: placeOf(it.file, it.line, it.module), value: it.instructions * times, share: path.share_of_operations, own: it.allocator }, `${it.file} ${it.module}`);
        }
      });
    }
    for (const node of this.nodes) node.children.sort((a, b) => this.nodes[b]!.value - this.nodes[a]!.value || a - b);
  }

  private add(parent: number, identity: string, node: Omit<PathNode, "parent" | "key" | "children">, words = ""): number {
    let key = this.keys.get(identity);
    if (key === undefined) {
      key = this.words.length;
      this.keys.set(identity, key);
      // A path's place has the names of its functions, which are found below it.
      this.words.push((node.kind === "path" ? "" : `${node.name} ${words}`).toLowerCase());
    }
    const at = this.nodes.length;
    this.nodes.push({ ...node, parent, key, children: [] });
    this.nodes[parent]!.children.push(at);
    return at;
  }

  /** The keys of what has the words; null without words. */
  search(words: string): Set<number> | null {
    const wanted = words.trim().toLowerCase();
    if (wanted === "") return null;
    return new Set(this.words.flatMap((it, key) => (it.includes(wanted) ? [key] : [])));
  }

  /** The value below what was found, nested ones counted once. */
  foundValue(found: Set<number>, node = 0): number {
    const it = this.nodes[node]!;
    if (found.has(it.key)) return it.value;
    return it.children.reduce((sum, child) => sum + this.foundValue(found, child), 0);
  }

  /** The part of a path, one of the report's, in all instructions. */
  shareOf(path: Path): number {
    const whole = this.value(0);
    return whole > 0 ? this.value(this.ofPaths.get(path) ?? 0) / whole : 0;
  }

  // The values are those of the report.
  setWeights(): void {}

  value(node: number): number {
    return this.nodes[node]!.value;
  }

  sum(node: number): number {
    return this.value(node);
  }

  children(node: number): number[] {
    return this.nodes[node]!.children.filter((it) => this.value(it) > 0);
  }

  parent(node: number): number {
    return this.nodes[node]!.parent;
  }

  key(node: number): number {
    return this.nodes[node]!.key;
  }

  folded(): [number, number] {
    return [1, 1];
  }

  frame(node: number): number {
    return node;
  }
}

/** The functions of a path in their order; those that are not the allocator's own have a `*`. */
export function pathText(path: Path): string {
  return path.functions.map((it) => `${it.function}${it.allocator ? "" : "*"}`).join(" → ");
}

/** `file:line`, else the module; without folders. */
export function placeOf(file: string, line: number, module = ""): string {
  const path = file === "" ? module : file;
  const name = path.slice(path.lastIndexOf("/") + 1);
  return file !== "" && line > 0 ? `${name}:${line}` : name;
}
