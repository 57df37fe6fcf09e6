// The call trees that the flame graph draws: from main, and from what allocates. A tree's
// shape belongs to the recording; values are set anew for each weight and range. Runs of
// library frames are one cell unless they are wanted; the innermost ones that the text
// report leaves out too count to their caller.

import { ORIGIN, type Stacks } from "./stacks";

/** A node of a tree is a number; 0 is the root. */
export interface FlameTree {
  /** Sets the values: by site. */
  setWeights(weights: Float64Array): void;
  value(node: number): number;
  /** The sum of other weights, by site, below a node. */
  sum(node: number, weights: Float64Array): number;
  /** The children with values, the largest first. */
  children(node: number): number[];
  parent(node: number): number;
  /** The group of a node's function; -1: a run of library frames. */
  key(node: number): number;
  /** The fewest and most frames that a node stands for. */
  folded(node: number): [number, number];
  /** One of its frames, for its place; -1: none. */
  frame(node: number): number;
}

const FOLD = -1;

/** Node of the innermost frame of each site that is drawn. */
function innermostShown(stacks: Stacks, all: boolean): Uint32Array {
  const nodes = Uint32Array.from(stacks.sites.node);
  if (all) return nodes;
  const first = stacks.sites.figures.first_shown;
  for (let site = 0; site < nodes.length; site++) {
    for (let up = first[site]!; up > 0 && stacks.node.parent[nodes[site]!]! > 0; up--) {
      nodes[site] = stacks.node.parent[nodes[site]!]!;
    }
  }
  return nodes;
}

function isFolded(stacks: Stacks, frame: number, all: boolean): boolean {
  return !all && stacks.frames.origin[frame] === ORIGIN.glue;
}

/** The tree from main to what allocates. */
export class FromMain implements FlameTree {
  private readonly leaves: Uint32Array;
  private readonly parents: Uint32Array;
  private readonly keys: Int32Array;
  private readonly frames: Int32Array;
  private readonly most: Uint16Array;
  private readonly firstChild: Uint32Array;
  private readonly nextSibling: Uint32Array;
  private readonly values: Float64Array;
  private readonly sums = new WeakMap<Float64Array, Float64Array>();

  constructor(stacks: Stacks, all: boolean) {
    const { parent, frame } = stacks.node;
    const { group } = stacks.frames;
    const count = parent.length;
    const drawn = new Uint32Array(count);
    const parents: number[] = [0];
    const keys: number[] = [FOLD];
    const frames: number[] = [-1];
    const most: number[] = [0];
    const depth = new Uint16Array(count);
    const found = new Map<number, number>();
    const factor = stacks.groups.length + 2;
    for (let node = 1; node < count; node++) {
      const above = drawn[parent[node]!]!;
      const folds = isFolded(stacks, frame[node]!, all);
      if (folds && above !== 0 && keys[above] === FOLD) {
        drawn[node] = above;
        depth[node] = depth[parent[node]!]! + 1;
        most[above] = Math.max(most[above]!, depth[node]!);
        continue;
      }
      const key = folds ? FOLD : group[frame[node]!]!;
      const identity = above * factor + key + 1;
      let at = found.get(identity);
      if (at === undefined) {
        at = keys.length;
        found.set(identity, at);
        parents.push(above);
        keys.push(key);
        frames.push(frame[node]!);
        most.push(1);
      }
      drawn[node] = at;
      depth[node] = 1;
    }
    this.leaves = innermostShown(stacks, all).map((node) => drawn[node]!);
    this.parents = Uint32Array.from(parents);
    this.keys = Int32Array.from(keys);
    this.frames = Int32Array.from(frames);
    this.most = Uint16Array.from(most);
    this.firstChild = new Uint32Array(keys.length);
    this.nextSibling = new Uint32Array(keys.length);
    for (let node = keys.length - 1; node > 0; node--) {
      this.nextSibling[node] = this.firstChild[this.parents[node]!]!;
      this.firstChild[this.parents[node]!] = node;
    }
    this.values = new Float64Array(keys.length);
  }

  setWeights(weights: Float64Array): void {
    this.addUp(weights, this.values);
  }

  private addUp(weights: Float64Array, values: Float64Array): void {
    const { parents, leaves } = this;
    values.fill(0);
    for (let site = 0; site < leaves.length; site++) values[leaves[site]!]! += weights[site]!;
    for (let node = values.length - 1; node > 0; node--) values[parents[node]!]! += values[node]!;
  }

  sum(node: number, weights: Float64Array): number {
    let sums = this.sums.get(weights);
    if (!sums) {
      sums = new Float64Array(this.values.length);
      this.addUp(weights, sums);
      this.sums.set(weights, sums);
    }
    return sums[node]!;
  }

  value(node: number): number {
    return this.values[node]!;
  }

  children(node: number): number[] {
    const children: number[] = [];
    for (let at = this.firstChild[node]!; at !== 0; at = this.nextSibling[at]!) {
      if (this.values[at]! > 0) children.push(at);
    }
    return children.sort((a, b) => this.values[b]! - this.values[a]! || a - b);
  }

  parent(node: number): number {
    return this.parents[node]!;
  }

  key(node: number): number {
    return this.keys[node]!;
  }

  folded(node: number): [number, number] {
    return [1, this.most[node]!];
  }

  frame(node: number): number {
    return this.frames[node]!;
  }
}

/** A node of the tree from the allocation: sites, and where in their stacks it is. */
interface Inner {
  parent: number;
  key: number;
  frame: number;
  folded: [number, number];
  sites: number[];
  /** By site of the list: the node of the trie of the caller that comes next. */
  callers: number[];
  children: number[] | null;
  value: number;
}

/** The tree from what allocates to main. Its nodes are made when they are first looked at:
 * most of them are never wide enough. */
export class FromAllocation implements FlameTree {
  private readonly nodes: Inner[];
  private weights: Float64Array = new Float64Array();
  private valued: number[] = [];

  constructor(
    private readonly stacks: Stacks,
    private readonly all: boolean,
  ) {
    const callers = innermostShown(stacks, all);
    this.nodes = [
      {
        parent: 0,
        key: FOLD,
        frame: -1,
        folded: [0, 0],
        sites: Array.from(callers, (_, site) => site),
        callers: Array.from(callers),
        children: null,
        value: 0,
      },
    ];
  }

  setWeights(weights: Float64Array): void {
    this.weights = weights;
    this.valued = [];
    this.setValue(0);
  }

  private setValue(node: number): number {
    const value = this.sum(node, this.weights);
    this.valued[node] = 1;
    this.nodes[node]!.value = value;
    return value;
  }

  sum(node: number, weights: Float64Array): number {
    let value = 0;
    for (const site of this.nodes[node]!.sites) value += weights[site]!;
    return value;
  }

  value(node: number): number {
    return this.valued[node] ? this.nodes[node]!.value : this.setValue(node);
  }

  children(node: number): number[] {
    const inner = this.nodes[node]!;
    inner.children ??= this.expand(node, inner);
    const children = inner.children.filter((it) => this.value(it) > 0);
    return children.sort((a, b) => this.nodes[b]!.value - this.nodes[a]!.value || a - b);
  }

  private expand(index: number, inner: Inner): number[] {
    const { node, frames } = this.stacks;
    const found = new Map<number, number>();
    for (let i = 0; i < inner.sites.length; i++) {
      let at = inner.callers[i]!;
      if (at === 0) continue;
      const frame = node.frame[at]!;
      let folded = 1;
      let key = FOLD;
      if (isFolded(this.stacks, frame, this.all)) {
        at = node.parent[at]!;
        for (; at !== 0 && isFolded(this.stacks, node.frame[at]!, this.all); at = node.parent[at]!) folded++;
      } else {
        key = frames.group[frame]!;
        at = node.parent[at]!;
      }
      let child = found.get(key);
      if (child === undefined) {
        child = this.nodes.length;
        found.set(key, child);
        this.nodes.push({ parent: index, key, frame, folded: [folded, folded], sites: [], callers: [], children: null, value: 0 });
      }
      const next = this.nodes[child]!;
      next.folded = [Math.min(next.folded[0], folded), Math.max(next.folded[1], folded)];
      next.sites.push(inner.sites[i]!);
      next.callers.push(at);
    }
    return [...found.values()];
  }

  parent(node: number): number {
    return this.nodes[node]!.parent;
  }

  key(node: number): number {
    return this.nodes[node]!.key;
  }

  folded(node: number): [number, number] {
    return this.nodes[node]!.folded;
  }

  frame(node: number): number {
    return this.nodes[node]!.frame;
  }
}

/** Trees are made once: their shape does not change. */
const trees = new WeakMap<Stacks, Map<string, FlameTree>>();

/** The tree from main or from what allocates, with library frames or without. */
export function treeOf(stacks: Stacks, from: "main" | "allocation", library: boolean): FlameTree {
  const made = trees.get(stacks) ?? new Map<string, FlameTree>();
  trees.set(stacks, made);
  const key = `${from} ${library}`;
  let tree = made.get(key);
  if (!tree) {
    tree = from === "main" ? new FromMain(stacks, library) : new FromAllocation(stacks, library);
    made.set(key, tree);
  }
  return tree;
}

/** A cell of the drawing, in pixels; the row counts from the zoomed node. */
export interface Cell {
  node: number;
  row: number;
  x: number;
  width: number;
}

/** Lays out what is at least half a pixel wide; `path` leads from the root to the node that
 * is as wide as the drawing. */
export function layOut(tree: FlameTree, path: number[], width: number): Cell[] {
  const cells: Cell[] = path.map((node, row) => ({ node, row, x: 0, width }));
  const zoomed = path[path.length - 1]!;
  const whole = tree.value(zoomed);
  if (whole <= 0) return cells;
  const open: Cell[] = [cells[cells.length - 1]!];
  for (let cell = open.pop(); cell; cell = open.pop()) {
    let x = cell.x;
    for (const child of tree.children(cell.node)) {
      const childWidth = (tree.value(child) / whole) * width;
      if (childWidth < 0.5) break;
      const next = { node: child, row: cell.row + 1, x, width: childWidth };
      cells.push(next);
      open.push(next);
      x += childWidth;
    }
  }
  return cells;
}

/** The nodes from the root to one. */
export function pathTo(tree: FlameTree, node: number): number[] {
  const path = [node];
  for (let at = node; at !== 0; ) {
    at = tree.parent(at);
    path.unshift(at);
  }
  return path;
}

/** The node to which keys lead from the root, as far as they do. */
export function nodeAt(tree: FlameTree, keys: number[]): number {
  let node = 0;
  for (const key of keys) {
    const next = tree.children(node).find((child) => tree.key(child) === key);
    if (next === undefined) break;
    node = next;
  }
  return node;
}

/** The value below the nodes of found functions, nested ones counted once: by site, whether
 * its stack has one of them. */
export function foundValue(stacks: Stacks, found: Set<number>, weights: Float64Array): number {
  const { parent, frame } = stacks.node;
  const has = new Uint8Array(parent.length);
  for (let node = 1; node < parent.length; node++) {
    has[node] = has[parent[node]!]! | Number(found.has(stacks.frames.group[frame[node]!]!));
  }
  let value = 0;
  for (let site = 0; site < stacks.sites.count; site++) {
    if (has[stacks.sites.node[site]!]) value += weights[site]!;
  }
  return value;
}
