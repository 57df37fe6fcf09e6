// Programs, what is missing of processes, and ranks of estimates.
import { expect, test } from "vitest";
import { ranks } from "./estimates";
import { type Gap, leftWord, missing } from "./gaps";
import { isChosen, programOf, programs } from "./programs";
import type { Process, Recording } from "./recording";

function process(index: number, executable: string, bytes: number, more: Partial<Process> = {}): Process {
  return { index, id: index, executable, bytes, origin: "fork", allocations: 1, leakedBytes: 0, peakBytes: bytes, duration: index, lost: 0, complete: true, gaps: [], ...more } as Process;
}

function recording(processes: Process[], growing = false): Recording {
  return { processes, meta: { growing, kind: "recording" } } as unknown as Recording;
}

test("processes that ran the same program in the same way are one", () => {
  const it = recording([process(0, "/bin/a", 5), process(1, "/bin/b", 60), process(2, "/bin/a", 70), process(3, "/bin/a", 1, { origin: "exec" })]);
  const shown = programs(it).map((program) => [program.key, program.executable, program.processes.map((one) => one.index), program.bytes, program.peakBytes, program.duration]);
  expect(shown).toEqual([
    [-1, "/bin/a", [2, 0], 75, 70, 2],
    [-2, "/bin/b", [1], 60, 60, 1],
    [-3, "/bin/a", [3], 1, 1, 3],
  ]);
  expect(programOf(it, -2)!.executable).toBe("/bin/b");
  expect(it.processes.map((one) => isChosen(it, -1, one))).toEqual([true, false, true, false]);
  expect(it.processes.map((one) => isChosen(it, 1, one))).toEqual([false, true, false, false]);
});

test("what is missing of several processes is joined, and what has no time is counted", () => {
  const gap = (from: number, to: number | null, events: number): Gap => ({ from, to, events });
  const all = [process(0, "a", 1, { lost: 9, gaps: [gap(10, 20, 3), gap(30, 40, 4)] }), process(1, "a", 1, { lost: 5, gaps: [gap(15, 25, 5)] })];
  expect(missing(recording(all), all)).toEqual({ gaps: [gap(10, 25, 8), gap(30, 40, 4)], elsewhere: 2, events: 14 });
});

test("a leak is one only where the end is known; a recording that goes on misses nothing", () => {
  const cut = process(0, "a", 1, { complete: false, gaps: [{ from: 7, to: null, events: 0 }] });
  const whole = process(1, "a", 1);
  const it = recording([cut, whole]);
  expect([[whole], [cut], [cut, whole]].map((some) => leftWord(it, some))).toEqual(["Leaked", "Alive at the cut", "Leaked, or alive at the cut"]);
  expect(missing(it, [cut]).gaps.length).toBe(1);
  const growing = recording([cut], true);
  expect(leftWord(growing, [cut])).toBe("Live now");
  expect(missing(growing, [cut]).gaps).toEqual([]);
});

test("ranks are shared where intervals overlap", () => {
  const estimate = (low: number, high: number) => ({ low, high, samples: 9 });
  // The first is surely before all others; the second and the third may change places.
  expect(ranks([estimate(90, 110), estimate(40, 60), estimate(30, 50), estimate(1, 2)])).toEqual([
    [1, 1],
    [2, 3],
    [2, 3],
    [4, 4],
  ]);
});
