import { expect, test } from "vitest";
import { crosses, fitted, flagsOf, lanesOf, listed, nearest } from "./place";

const span = (from: number, to: number) => ({ from, to });
/** Each character is 10 pixels wide. */
const width = (text: string) => [...text].length * 10;

test("spans that overlap have lanes of their own, and a lane is used again", () => {
  // outer; inner and after it; innermost.
  expect(lanesOf([span(0, 100), span(10, 50), span(20, 50), span(50, 90), span(100, 110)], 6)).toEqual([0, 1, 2, 1, 0]);
  // The order of the list matters only to those that start together.
  expect(lanesOf([span(20, 30), span(0, 100), span(0, 10)], 6)).toEqual([1, 0, 1]);
  expect(lanesOf([], 6)).toEqual([]);
});

test("there are no more lanes than asked for", () => {
  const nested = Array.from({ length: 8 }, (_, i) => span(i, 100 - i));
  expect(lanesOf([...nested, span(100, 101)], 6)).toEqual([0, 1, 2, 3, 4, 5, null, null, 0]);
});

test("what overlaps only because it was rounded is in one lane", () => {
  expect(lanesOf([span(0, 11), span(10, 20)], 6)).toEqual([0, 1]);
  expect(lanesOf([span(0, 11), span(10, 20)], 6, 1)).toEqual([0, 0]);
  expect(lanesOf([span(10, 10), span(10, 12), span(12, 13)], 6, 1)).toEqual([0, 0, 0]);
});

test("no two spans of a lane overlap, and no lane is wasted", () => {
  let seed = 1;
  const random = (below: number) => (seed = (seed * 16807) % 2147483647) % below;
  const spans = Array.from({ length: 300 }, () => random(1000)).map((from) => span(from, from + 1 + random(50)));
  const lanes = lanesOf(spans, Infinity);
  const collide = spans.some((a, i) => spans.some((b, j) => i !== j && lanes[i] === lanes[j] && a.from < b.to && b.from < a.to));
  expect(collide).toBe(false);
  // As many as overlap at one time.
  const deepest = Math.max(...spans.map(({ from }) => spans.filter((it) => it.from <= from && from < it.to).length));
  expect(Math.max(...lanes.map((it) => it!)) + 1).toBe(deepest);
});

test("marks that are near share a flag, and labels end before the next flag", () => {
  expect(flagsOf([10, 100, 104, 111, 119, 300], 8, 400)).toEqual([
    { first: 0, end: 1, room: 90 },
    // 104 and 111 are nearer than 8 to the one before, 119 is not.
    { first: 1, end: 4, room: 19 },
    { first: 4, end: 5, room: 181 },
    { first: 5, end: 6, room: 100 },
  ]);
  expect(flagsOf([], 8, 400)).toEqual([]);
});

test("texts are cut to the room that there is, or left out", () => {
  expect(fitted("window", 60, width)).toBe("window");
  expect(fitted("window", 59, width)).toBe("wind…");
  expect(fitted("window", 39, width)).toBe("");
  expect(fitted("window", 59, width, Infinity)).toBe("");
  expect(fitted("window", -5, width)).toBe("");
  // A character that is two UTF-16 units is not halved.
  expect(fitted("🦀🦀🦀🦀🦀", 40, width)).toBe("🦀🦀🦀…");
  // Of a name without end, no more than 200 characters are tried.
  expect(fitted("x".repeat(10_000), 50_000, width)).toBe(`${"x".repeat(200)}…`);
});

test("lists are bounded", () => {
  expect(listed(["a", "b"])).toBe("a, b");
  expect(listed(Array.from({ length: 1051 }, (_, i) => `${i}`))).toMatch(/, 49 and 1,001 more$/);
});

test("the nearest is found, if it is near", () => {
  const distance = (to: number) => (it: number) => Math.abs(it - to);
  expect(nearest([10, 20, 30], distance(22), 5)).toBe(1);
  expect(nearest([10, 20, 30], distance(36), 5)).toBe(-1);
  expect(nearest([10, 20, 30], distance(35), 5)).toBe(2);
  // The first of several.
  expect(nearest([10, 10], distance(10), 5)).toBe(0);
});

test("a label is known to cross a curve", () => {
  const box = { left: 100, top: 50, width: 40, height: 16 };
  const flat = (y: number) => crosses(box, [0, 200], [y, y]);
  expect([flat(49), flat(50), flat(66), flat(67)]).toEqual([false, true, true, false]);
  // A step within the box's width, beside it, and over a hole.
  expect(crosses(box, [0, 120, 200], [40, 40, 80])).toBe(true);
  expect(crosses(box, [0, 50, 90], [40, 80, 40])).toBe(false);
  expect(crosses(box, [0, 120, 200], [60, null, 60])).toBe(true);
  expect(crosses(box, [0, 120, 200], [null, null, null])).toBe(false);
});
