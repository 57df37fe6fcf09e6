import { describe, expect, test } from "vitest";
import { fromFragment, toFragment } from "../allocators/state";
import { type Allocator, AllocatorReport, PathTree, pathText, placeOf, shown } from "./allocators";
import { layOut, nodeAt } from "./flame";

const own = (name: string, instructions: number) => ({ function: name, file: `/src/${name}.c`, line: 7, module: "/lib/mine.so", allocator: true, instructions });

/** 4 operations: one `malloc` of 40 instructions, three `free`: two of 10, and one of 60, of which
 * 50 are `getenv`'s. So all are 120, 30 an operation. */
const allocator = {
  name: "mine",
  instructions: [
    { entry_point: "all", operations: 4, mean: 30 },
    { entry_point: "malloc", operations: 1, mean: 40 },
    { entry_point: "free", operations: 3, mean: 80 / 3 },
  ],
  paths: [
    { entry_point: "free", functions: [own("free", 10), { ...own("getenv", 50), module: "/lib/libc.so.6", file: "", allocator: false }], operations: 1, share_of_operations: 1 / 3, instructions: 60, share_of_instructions: 0.75 },
    { entry_point: "free", functions: [own("free", 10)], operations: 2, share_of_operations: 2 / 3, instructions: 10, share_of_instructions: 0.25 },
    { entry_point: "malloc", functions: [own("malloc", 40)], operations: 1, share_of_operations: 1, instructions: 40, share_of_instructions: 1 },
  ],
} as unknown as Allocator;

describe("the tree of an allocator's instructions", () => {
  const tree = new PathTree("mine", allocator);
  const named = (parent: number) => tree.children(parent).map((it) => [tree.nodes[it]!.name, Number(tree.value(it).toFixed(6))]);

  test("has entry points, their paths and functions, with instructions an operation of all", () => {
    expect(tree.value(0)).toBe(30);
    expect(named(0)).toEqual([
      ["free", 20],
      ["malloc", 10],
    ]);
    const free = tree.children(0)[0]!;
    expect(named(free)).toEqual([
      ["path 1", 15],
      ["path 2", 5],
    ]);
    expect(named(tree.children(free)[0]!)).toEqual([
      ["getenv", 12.5],
      ["free", 2.5],
    ]);
    expect(tree.shareOf(allocator.paths[0]!)).toBeCloseTo(0.5);
  });

  test("is found in: by function, file or module", () => {
    const part = (words: string) => tree.foundValue(tree.search(words)!);
    expect(part("getenv")).toBeCloseTo(12.5);
    expect(part("LIBC")).toBeCloseTo(12.5);
    expect(part("mine.so")).toBeCloseTo(17.5);
    // The entry point, and what is below it.
    expect(part("free")).toBeCloseTo(20);
    expect(part("nothing")).toBe(0);
    expect(tree.search(" ")).toBeNull();
  });

  test("is laid out to its full width, and keys lead to its nodes", () => {
    const cells = layOut(tree, [0], 300);
    const widths = (row: number) => cells.filter((it) => it.row === row).map((it) => Math.round(it.width));
    expect(widths(1)).toEqual([200, 100]);
    const [free] = tree.children(0);
    const [path] = tree.children(free!);
    expect(nodeAt(tree, [tree.key(free!), tree.key(path!)])).toBe(path);
    expect(nodeAt(tree, [999])).toBe(0);
  });

  test("of an allocator that was not stepped is empty", () => {
    const empty = new PathTree("mine", { ...allocator, instructions: [], paths: [] });
    expect([empty.value(0), empty.children(0)]).toEqual([0, []]);
  });
});

test("the earlier version has a tree of its own", () => {
  const [all, ...others] = allocator.instructions;
  const before = { instructions: [{ ...all!, mean: 35 }, ...others], paths: [] };
  const changes = [{ name: "mine", before }, { name: "other", before: null }, { name: "empty", before: { instructions: [], paths: [] } }];
  const data = new AllocatorReport(JSON.stringify({ format: "allotrope-allocators/1", allocators: [allocator], changes }));
  const [mine] = data.report.allocators;
  const earlier = data.before("mine")!;
  expect(data.tree("mine", earlier).value(0)).toBe(35);
  expect(data.tree("mine", mine!).value(0)).toBe(30);
  expect(data.tree("mine", earlier)).toBe(data.tree("mine", earlier));
  for (const name of ["other", "empty", "none"]) expect(data.before(name)).toBeUndefined();
});

test("paths mark what is not the allocator's, and places have no folders", () => {
  expect(pathText(allocator.paths[0]!)).toBe("free → getenv*");
  expect(placeOf("/src/a.c", 7)).toBe("a.c:7");
  expect(placeOf("", 0, "/lib/libc.so.6")).toBe("libc.so.6");
});

test("hidden characters of names are escaped as everywhere else", () => {
  expect(shown("a\u202eb\n\u200bc")).toBe("a\\u{202e}b\\u{a}\\u{200b}c");
  expect(shown("malloc ‹…› é 漢 ❤\ufe0f")).toBe("malloc ‹…› é 漢 ❤\ufe0f");
  const report = new AllocatorReport(JSON.stringify({ format: "allotrope-allocators/1", summary: ["x\u202e"] }));
  expect(report.report.summary).toEqual(["x\\u{202e}"]);
  expect(() => new AllocatorReport('{"format":"allotrope-allocators/2"}')).toThrow("allotrope-allocators/2");
});

test("the state survives its fragment, and nonsense is as at first", () => {
  const state = { view: "paths", allocator: "a b&c", before: true, search: "x=y", row: "3", sort: "-share", zoom: [1, 40] } as const;
  expect(fromFragment(toFragment({ ...state, zoom: [...state.zoom] }), ["glibc", "a b&c"])).toEqual(state);
  expect(fromFragment("#/nonsense?a=none&z=%%.-", ["glibc"])).toEqual({ view: "summary", allocator: "", before: false, search: "", row: "", sort: "", zoom: [] });
});
