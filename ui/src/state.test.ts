import { expect, test } from "vitest";
import { FIRST, type State, fromFragment, rangeOptions, toFragment } from "./state";

test("a state survives its fragment", () => {
  const start = 1_234_567;
  const state: State = {
    ...FIRST,
    view: "flame",
    process: 3,
    range: [start + 123_456_789, start + 9_000_000_001],
    mode: "destroyed",
    weight: "peak",
    from: "allocation",
    library: true,
    zoom: [0, 35, -1, 36],
    search: "a&b=ü</script>",
    by: "files",
    table: "sizes",
    row: "x y",
    sort: "-bytes",
    resident: false,
  };
  const fragment = toFragment(state, start);
  expect(fragment).toContain("r=0.123456789-9.000000001");
  expect(fromFragment(fragment, start)).toEqual(state);
  expect(toFragment(FIRST, start)).toBe("#/overview");
  expect(fromFragment("", start)).toEqual(FIRST);
});

test("nonsense is as it is at first", () => {
  const fragment = "#/nowhere?p=-1&r=5-2&mode=x&w=1&z=.._.&t=[]";
  expect(fromFragment(fragment, 0)).toEqual({ ...FIRST, zoom: [-1] });
  expect(fromFragment("#/timeline?r=1-x", 0).range).toBe(null);
});

test("a range is what report takes", () => {
  const [start, end] = [1_000, 1_000_001_000];
  expect(rangeOptions([20_001_000, 50_001_001], start, end)).toBe("--from 0.02s --to 0.050000001s");
  // A time after the end is refused.
  expect(rangeOptions([start, end], start, end)).toBe("--from 0s");
});
