import { expect, test } from "vitest";
import { type Compared, type Comparison, type Entry, weightsOf } from "../data/comparison";
import { changeOf } from "./flame";
import { FIRST, fromFragment, toFragment } from "./state";

const metrics = ["bytes", "allocations"];

test("a state and its fragment are the same", () => {
  expect(toFragment(FIRST)).toBe("#/changes");
  const state = { ...FIRST, view: "flame" as const, metric: "allocations", kind: "moved" as const, search: "a b", row: "3", sort: "-before", width: "after" as const, from: "allocation" as const, library: true, zoom: [7, -1, 40] };
  expect(fromFragment(toFragment(state), metrics)).toEqual(state);
});

test("a fragment that makes no sense is the first state", () => {
  expect(fromFragment("#/x?m=y&k=z&w=v&from=u&z=%%", metrics)).toEqual(FIRST);
  // The first metric is left out.
  expect(fromFragment("#/changes?m=bytes", metrics)).toEqual(FIRST);
});

test("what changed by up to 2 % is the same", () => {
  expect([changeOf(100, 102), changeOf(102, 100), changeOf(0, 0)]).toEqual(["same", "same", "same"]);
  expect([changeOf(100, 103), changeOf(103, 100), changeOf(0, 1), changeOf(1, 0)]).toEqual(["more", "less", "new", "gone"]);
});

test("what moved is drawn once, and what vanished as wide as it was", () => {
  const part = (stack: number, before: number, after: number) => ({ stack, before, after, was: null });
  const entries = [
    { kind: "gone", parts: [part(0, 5, 0)] },
    { kind: "changed", parts: [part(1, 2, 3)] },
    { kind: "moved", parts: [part(2, 0, 7), part(3, 7, 0)] },
  ] as Entry[];
  const same = { stack: Uint32Array.of(4), figure: Float64Array.of(11) };
  const weights = weightsOf({ sites: { count: 5 } } as Comparison, { entries, same } as Compared);
  expect([...weights.before]).toEqual([5, 2, 7, 0, 11]);
  expect([...weights.after]).toEqual([0, 3, 7, 0, 11]);
  expect([...weights.larger]).toEqual([5, 3, 7, 0, 11]);
});
