// Names, frames and the trie of stacks: what the pages of a recording and of a comparison have
// in common.

import type { Columns } from "./columns";

/** Origins of frames; see Origin in allotrope-diff. */
export const ORIGIN = { glue: 0, unnamedLibrary: 1, unnamed: 2, library: 3, program: 4, own: 5, repository: 6 };

export interface Frames {
  count: number;
  function: Uint32Array;
  file: Uint32Array;
  line: Uint32Array;
  /** Bytes from the start of the function + 1; 0 or absent: unknown. */
  offset: Float64Array;
  /** Module + 1; 0: none. */
  module: Uint32Array;
  origin: Uint32Array;
  flags: Uint32Array;
  group: Uint32Array;
}

/** What trees of calls are made of. */
export interface Stacks {
  /** The trie of stacks: node 0 is the root; callers have smaller numbers. */
  readonly node: { parent: Uint32Array; frame: Uint32Array };
  readonly frames: Frames;
  /** Names of groups of frames: functions, and modules without names. */
  readonly groups: string[];
  /** The stacks: the node of the innermost frame, and how many frames text leaves out. */
  readonly sites: {
    readonly count: number;
    readonly node: ArrayLike<number>;
    readonly figures: { readonly first_shown: ArrayLike<number> };
  };
}

export class StackTable {
  readonly node: { parent: Uint32Array; frame: Uint32Array };
  readonly frames: Frames;
  readonly groups: string[];
  readonly modules: string[];
  private readonly names: string[];

  constructor(names: Columns, stacks: Columns) {
    this.names = names.text("names").split("\n");
    this.frames = decodeFrames(names);
    this.groups = [...names.indexes("group.name")].map((it) => this.name(it));
    this.modules = [...names.indexes("module.path")].map((it) => this.name(it));
    this.node = decodeTrie(stacks);
  }

  name(number: number): string {
    return this.names[number] ?? "";
  }

  /** The name of a frame's function. */
  functionOf(frame: number): string {
    return this.name(this.frames.function[frame]!);
  }

  /** `file:line` of a frame with the file's folders, or the name of its module with the
   * offset in the function, if that is known. */
  placeOf(frame: number, whole = false): string {
    const file = this.name(this.frames.file[frame]!);
    if (file !== "") {
      const line = this.frames.line[frame]!;
      const name = whole ? file : file.slice(file.lastIndexOf("/") + 1);
      return line > 0 ? `${name}:${line}` : name;
    }
    const module = this.modules[this.frames.module[frame]! - 1] ?? "";
    const offset = this.frames.offset[frame] ?? 0;
    const name = whole ? module : module.slice(module.lastIndexOf("/") + 1);
    return name !== "" && offset > 0 ? `${name}+0x${(offset - 1).toString(16)}` : name;
  }

  /** The frames of a node's stack, innermost first. */
  stackOf(node: number): number[] {
    const frames: number[] = [];
    for (let at = node; at > 0; at = this.node.parent[at]!) frames.push(this.node.frame[at]!);
    return frames;
  }

  groupName(group: number): string {
    return group === this.groups.length ? "[no stack]" : this.groups[group]!;
  }

  /** The groups of frames whose name, file or module has the words; null without words. */
  search(words: string): Set<number> | null {
    if (words === "") return null;
    const wanted = words.toLowerCase();
    const found = new Set<number>();
    this.groups.forEach((name, group) => {
      if (name.toLowerCase().includes(wanted)) found.add(group);
    });
    const { frames } = this;
    const has = new Map<string, boolean>();
    for (let frame = 0; frame < frames.count; frame++) {
      const key = `${frames.file[frame]} ${frames.module[frame]}`;
      let is = has.get(key);
      if (is === undefined) {
        const texts = [this.name(frames.file[frame]!), this.modules[frames.module[frame]! - 1] ?? ""];
        is = texts.some((text) => text.toLowerCase().includes(wanted));
        has.set(key, is);
      }
      if (is) found.add(frames.group[frame]!);
    }
    return found;
  }
}

function decodeFrames(names: Columns): Frames {
  const column = (name: string) => names.indexes(`frame.${name}`);
  const functions = column("function");
  return {
    count: functions.length,
    function: functions,
    file: column("file"),
    line: column("line"),
    offset: names.numbers("frame.offset"),
    module: column("module"),
    origin: column("origin"),
    flags: column("flags"),
    group: column("group"),
  };
}

function decodeTrie(columns: Columns): { parent: Uint32Array; frame: Uint32Array } {
  const up = columns.indexes("node.up");
  const frames = columns.indexes("node.frame");
  const parent = new Uint32Array(frames.length + 1);
  const frame = new Uint32Array(frames.length + 1);
  for (let i = 1; i <= frames.length; i++) {
    let at = i - 1;
    for (let level = up[i - 1]!; level > 0; level--) at = parent[at]!;
    parent[i] = at;
    frame[i] = frames[i - 1]!;
  }
  return { parent, frame };
}
