import { expect, test } from "vitest";
import { recordedFact } from "./overview";

test("only a recording that is whole has every allocation", () => {
  const words = (lost: number, complete: boolean, partly: boolean) => recordedFact({ complete, partly }, lost);
  expect(words(0, true, false)).toBe("every allocation recorded, none lost");
  expect(words(0, true, true)).toBe("recorded only in part");
  for (const partly of [false, true]) {
    expect(words(0, false, partly)).toBe("not complete");
    for (const complete of [false, true]) expect(words(3, complete, partly)).toBe("3\u00a0events lost");
  }
});
