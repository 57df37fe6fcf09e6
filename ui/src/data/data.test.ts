// Ranges, groups and trees of a recording that is written down here, block by block.
import { expect, test } from "vitest";
import { VERSION } from "./columns";
import { FromAllocation, FromMain, foundValue, layOut, nodeAt } from "./flame";
import { figuresOf, groups, rangeOf, sitesIn, sizesOf } from "./groups";
import { type Mode, MODES, boundaries, bucketsIn, liveAtEnds, liveOverRun, ofSites, rates, snap } from "./ranges";
import { Recording } from "./recording";

type Value = number[] | string;

/** Encodes columns as the Rust crate does. */
function part(columns: Record<string, Value>): Uint8Array {
  const bytes = [VERSION];
  const varint = (out: number[], value: number) => {
    for (; value >= 128; value = Math.floor(value / 128)) out.push((value % 128) | 128);
    out.push(value);
  };
  for (const [name, value] of Object.entries(columns)) {
    const column: number[] = [];
    if (typeof value === "string") column.push(...new TextEncoder().encode(value));
    else value.forEach((it) => varint(column, it));
    bytes.push(name.length, ...new TextEncoder().encode(name));
    varint(bytes, column.length);
    bytes.push(...column);
  }
  return new Uint8Array(bytes);
}

const zigzag = (values: number[]) =>
  values.map((value, i) => value - (values[i - 1] ?? 0)).map((it) => (it < 0 ? -2 * it - 1 : 2 * it));

// Frames: 0 main (own), 1 work (own), 2 glue. Stacks, outermost first:
// site 0: main, glue, glue, work; site 1: main; site 2: no frames.
// Blocks, with buckets 0..2 that start at 100, 200, 300; the end is at 400:
//   site 0: born in 0 freed in 1: 2 blocks, 20 bytes; born in 1 freed in 1: 1, 5
//   site 1: born in 0, live at the end: 1, 7;  site 2: born in 2 freed in 2: 3, 30
function recording(): Recording {
  const meta = { started_ns: 100, ended_ns: 400, kind: "recording", findings: [], warnings: [], left_out: {}, carried: 1 };
  const one = ["id", "pid", "allocations", "bytes"].map((it) => [`process.${it}`, [7]]);
  return new Recording({
    run: part({
      meta: JSON.stringify(meta),
      ...Object.fromEntries(one),
      "bucket.count": [3],
      "bucket.start_ns": zigzag([100, 200, 300]),
      "bucket.end_ns": [400],
    }),
    names: part({
      names: "\nmain\nwork\nglue\na/main.rs\n",
      "frame.function": [1, 2, 3],
      "frame.file": [4, 4, 0],
      "frame.line": [3, 5, 0],
      "frame.module": [0, 0, 0],
      "frame.origin": [5, 5, 0],
      "frame.flags": [0, 0, 0],
      "frame.group": [0, 1, 2],
      "group.name": [1, 2, 3],
    }),
    stacks: part({ "node.frame": [0, 2, 2, 1], "node.up": [0, 0, 0, 0] }),
    sites: part({
      "site.allocations": [3, 1, 3],
      "site.bytes": [25, 7, 30],
      "site.first_shown": [0, 0, 0],
      "site.at_peak_bytes": [20, 7, 0],
      "site.mean_ns": [100, 300, 10],
      "site.blocks": [3, 1, 3],
      "site.process": [0, 0, 0],
      "site.number": zigzag([1, 2, 3]),
      "site.node": zigzag([4, 1, 0]),
      "site.head": [2, 1, 0],
    }),
    // Sizes of sites 0 and 1: 10, 10 and 5; 7.
    details: part({
      "detail.smallest": [5, 7],
      "detail.largest": [10, 7],
      "detail.sizes": [2, 1],
      "size.class": [4, 5, 4],
      "size.allocations": [1, 2, 1],
      "size.bytes": [5, 20, 7],
    }),
    cells: part({
      "cell.count": [2, 1, 1],
      "cell.allocated": [0, 1, 0, 2],
      "cell.freed": [2, 1, 0, 1],
      "cell.blocks": [2, 1, 1, 3],
      "cell.bytes": [20, 5, 7, 30],
    }),
    // Of a/main.rs lines 1, 2, 3, 6 and 7; work is at line 5, which is missing.
    source: part({
      "source.file": [4],
      "source.lines": [5],
      "source.number": zigzag([1, 2, 3, 6, 7]),
      "source.text": "one\n\n  three\nsix\nseven\n",
    }),
  });
}

test("stacks, names and cells are decoded", () => {
  const it = recording();
  expect(it.stackOf(4)).toEqual([1, 2, 2, 0]);
  expect(it.placeOf(1)).toBe("main.rs:5");
  expect([...it.cells.freed]).toEqual([1, 1, 0xffff, 2]);
  expect(it.processes[0]!.details!.sites).toEqual([0, 3]);
});

test("a range counts what it says", () => {
  const it = recording();
  const sums = (range: [number, number]) =>
    MODES.map((mode: Mode) => ofSites(it, it.processes, range, "kept").totals[mode]).map((sum) => [sum.blocks, sum.bytes]);
  // allocated, alive, kept, destroyed, freed
  expect(sums([100, 400])).toEqual([[7, 62], [1, 7], [1, 7], [6, 55], [6, 55]]);
  expect(sums([100, 200])).toEqual([[3, 27], [3, 27], [3, 27], [0, 0], [0, 0]]);
  expect(sums([200, 300])).toEqual([[1, 5], [1, 7], [0, 0], [1, 5], [3, 25]]);
  expect([...ofSites(it, it.processes, [200, 400], "freed").bytes]).toEqual([25, 0, 30]);
});

// The same recording; the buckets of site 1 are four times as wide, and of the process that ends
// at 400 there are cells of all of its blocks or not.
function widened(whole: boolean): Recording {
  const it = recording();
  const cells = { ...it.cells, widened: Uint32Array.from([0, 2, 0]) };
  const totalCells = {
    first: Uint32Array.from([0, 4]),
    allocated: Uint16Array.from([0, 0, 1, 2]),
    freed: Uint16Array.from([1, 0xffff, 1, 2]),
    blocks: Float64Array.from([2, 1, 1, 3]),
    bytes: Float64Array.from([20, 7, 5, 30]),
    widened: new Uint32Array(),
  };
  return Object.assign(it, { cells }, whole ? { totalCells } : {});
}

test("a site with wider buckets is known within a bound", () => {
  const it = widened(false);
  // Its block of 7 bytes was allocated somewhere in buckets 0 to 3.
  const figures = ofSites(it, it.processes, [200, 300], "allocated");
  expect([figures.bytes[1], figures.bytesOff[1]]).toEqual([3, 4]);
  expect([figures.blocks[1], figures.blocksOff[1]]).toEqual([0, 1]);
  expect(figures.totals.allocated).toEqual({ blocks: 1, bytes: 8, blocksOff: 1, bytesOff: 4 });
  // It lives at the end, whenever it was allocated.
  expect(ofSites(it, it.processes, [100, 400], "alive").totals.alive).toEqual({ blocks: 0, bytes: 3, blocksOff: 1, bytesOff: 4 });
  // Others are exact.
  expect([figures.bytes[0], figures.bytesOff[0], figures.bytesOff[2]]).toEqual([5, 0, 0]);
});

test("the totals of a process whose sites have wider buckets are exact", () => {
  const [exact, it] = [recording(), widened(true)];
  for (const range of [[100, 200], [200, 300], [100, 300], [300, 400], [100, 400]] as [number, number][]) {
    expect(ofSites(it, it.processes, range, "kept").totals).toEqual(ofSites(exact, exact.processes, range, "kept").totals);
  }
});

test("what a process had at its end is alive until then", () => {
  const it = recording();
  const alive = (end: number) => ofSites(it, it.processes, [100, end], "alive").totals.alive.bytes;
  // The recording goes on for two microseconds or more after the process.
  Object.assign(it, { end: 10_000 });
  Object.assign(it.processes[0]!, { exit: "exit 0", started: 0, duration: 0 });
  expect(alive(10_000)).toBe(0);
  Object.assign(it.processes[0]!, { exit: "running" });
  expect(alive(10_000)).toBe(7);
  Object.assign(it.processes[0]!, { exit: "exit 0", duration: 10_000 });
  expect(alive(10_000)).toBe(7);
  // The last bucket ends later than the process was seen to.
  Object.assign(it.processes[0]!, { duration: 1_000 });
  Object.assign(it.processes[0]!.details!, { end: 10_000 });
  expect(alive(10_000)).toBe(7);
});

test("a process counts only while it runs", () => {
  const [process] = recording().processes;
  expect(bucketsIn(process!, [0, 100])).toBe(null);
  expect(bucketsIn(process!, [401, 500])).toBe(null);
  expect(bucketsIn(process!, [400, 500])).toEqual([3, 3]);
  expect(bucketsIn(process!, [0, 1000])).toEqual([0, 3]);
  expect(bucketsIn(process!, [200, 300])).toEqual([1, 2]);
});

test("ranges snap to boundaries and are not empty", () => {
  const bounds = boundaries(recording(), null);
  expect([...bounds]).toEqual([100, 200, 300, 400]);
  expect(snap(bounds, [140, 260])).toEqual([100, 300]);
  expect(snap(bounds, [210, 220])).toEqual([200, 300]);
  expect(snap(bounds, [900, 990])).toEqual([300, 400]);
  expect(snap(bounds, [-5, 1])).toEqual([100, 200]);
});

test("curves are running sums", () => {
  const it = recording();
  expect([...liveAtEnds(it.cells, [0, 1, 2], 3)]).toEqual([27, 7, 7]);
  // On the axis of the run, from 100 to 400: the second bucket begins at a third.
  const overRun = [...liveOverRun(it, [0, 1, 2])];
  const change = overRun.indexOf(7);
  expect([overRun.length, change, new Set(overRun)]).toEqual([128, 43, new Set([27, 7])]);
  const { allocated, freed } = rates(it.cells, [0, 1, 2], 3);
  expect([[...allocated], [...freed]]).toEqual([[27, 5, 30], [0, 25, 30]]);
});

test("sites are added up by function and file", () => {
  const it = recording();
  const names = (by: "functions" | "files") => groups(it, it.processes, by).map((group) => [group.name, group.place, group.sites.length]);
  expect(names("functions")).toEqual([["work", "main.rs:5", 1], ["main", "main.rs:3", 1], ["[no stack]", "", 1]]);
  expect(names("files")).toEqual([["a/main.rs", "", 2], ["[no stack]", "", 1]]);
  const file = figuresOf(it, groups(it, it.processes, "files")[0]!);
  expect([file.allocations, file.bytes, file.atPeakBytes, file.meanNs]).toEqual([4, 32, 27, 150]);
  const range = ofSites(it, it.processes, [200, 400], "freed");
  expect(rangeOf(groups(it, it.processes, "files")[0]!, range)).toEqual({ blocks: 3, bytes: 25, blocksOff: 0, bytesOff: 0 });
});

test("a group has the sizes and the stacks of its sites", () => {
  const it = recording();
  expect(groups(it, it.processes, "functions").map((group) => sizesOf(it, group))).toEqual([[5, 10], [7, 7], null]);
  const [file] = groups(it, it.processes, "files");
  expect(sizesOf(it, file!)).toEqual([5, 10]);
  const inRange = (range: [number, number], mode: Mode) => sitesIn(file!, ofSites(it, it.processes, range, mode));
  expect(inRange([100, 200], "allocated")).toEqual([0, 1]);
  expect(inRange([200, 300], "allocated")).toEqual([0]);
  expect(inRange([200, 300], "alive")).toEqual([1]);
  expect(inRange([300, 400], "allocated")).toEqual([]);
});

test("trees fold runs of library frames and add up both ways", () => {
  const it = recording();
  const main = new FromMain(it, false);
  main.setWeights(Float64Array.from([25, 7, 30]));
  expect(main.value(0)).toBe(62);
  const path = [[0], [0, -1], [0, -1, 1]].map((keys) => nodeAt(main, keys));
  expect(path.map((node) => main.value(node))).toEqual([32, 25, 25]);
  expect(main.folded(path[1]!)).toEqual([1, 2]);
  const inner = new FromAllocation(it, false);
  inner.setWeights(Float64Array.from([25, 7, 30]));
  expect(inner.value(0)).toBe(62);
  const back = [[1], [1, -1], [1, -1, 0], [0]].map((keys) => nodeAt(inner, keys));
  expect(back.map((node) => inner.value(node))).toEqual([25, 25, 25, 7]);
  expect(inner.folded(back[1]!)).toEqual([2, 2]);
  const all = new FromMain(it, true);
  all.setWeights(Float64Array.from([1, 0, 0]));
  expect(all.value(nodeAt(all, [0, 2, 2, 1]))).toBe(1);
  expect(foundValue(it, new Set([0, 1]), Float64Array.from([25, 7, 30]))).toBe(32);
});

test("cells are as wide as their values, and nested in their callers", () => {
  const tree = new FromMain(recording(), false);
  tree.setWeights(Float64Array.from([25, 7, 30]));
  const cells = layOut(tree, [0], 620);
  expect(cells.map((it) => [it.row, it.x, Math.round(it.width)])).toEqual([[0, 0, 620], [1, 0, 320], [2, 0, 250], [3, 0, 250]]);
});

test("a frame has the code around its line, if its own line is there", () => {
  const all = recording();
  expect(all.codeAround(0)).toEqual([
    { number: 1, text: "one" },
    { number: 2, text: "" },
    { number: 3, text: "  three" },
    { number: 6, text: "six" },
  ]);
  expect(all.codeAround(1)).toEqual([]);
  expect(all.codeAround(2)).toEqual([]);
});
