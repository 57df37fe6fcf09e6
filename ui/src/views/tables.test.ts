import { expect, test } from "vitest";
import type { Process, Window } from "../data/recording";
import { windowsOf } from "./tables";

test("windows of several processes have times of the recording", () => {
  const window = (name: string, opened: number) => ({ name, opened }) as Window;
  const process = (index: number, started: number, windows: Window[]) => ({ index, pid: 70 + index, started, details: { windows } }) as Process;
  const rows = windowsOf([process(0, 100, [window("outer", 20), window("inner", 500)]), process(1, 400, [window("child", 30)])]);
  expect(rows.map((it) => [it.name, it.key, it.pid, it.from])).toEqual([
    ["outer", "0.0", 70, 120],
    ["inner", "0.1", 70, 600],
    ["child", "1.0", 71, 430],
  ]);
});
