import { expect, test } from "vitest";
import * as format from "./format";

test("bytes and counts are those of the text report", () => {
  const shown = [0, 1023, 1024, 1048524, 1048576 * 1.5].map((it) => format.bytes(it));
  expect(shown).toEqual(["0 B", "1023 B", "1.0 KiB", "1023.9 KiB", "1.5 MiB"].map((it) => it.replace(" ", "\u00a0")));
  // 1023.95 KiB and more are 1.0 MiB.
  expect(format.bytes(1048525)).toBe("1.0\u00a0MiB");
  expect(format.count(1234567)).toBe("1,234,567");
});

test("times have three figures", () => {
  const shown = [0, 12, 3281, 26_500_000, 3.28e9, 1e12].map((it) => format.duration(it));
  expect(shown.map((it) => it.replace("\u00a0", " "))).toEqual(["0 s", "12 ns", "3.28 µs", "26.5 ms", "3.28 s", "16.7 min"]);
});

test("little is not nothing", () => {
  expect(format.share(0, 10)).toBe("–");
  expect(format.share(1, 10_000)).toBe("<0.1\u00a0%");
  expect(format.share(1, 3)).toBe("33.3\u00a0%");
});

test("names are shortened from the outside", () => {
  expect(format.nameParts("std::vector<std::pair<int, int>>::push_back")).toEqual(["vector‹…›::", "push_back"]);
  expect(format.nameParts("<my::Type as core::clone::Clone>::clone")).toEqual(["Type::", "clone"]);
  expect(format.nameParts("toplev::main")).toEqual(["toplev::", "main"]);
  expect(format.nameParts("main")).toEqual(["", "main"]);
  expect(format.nameParts("a<b")).toEqual(["", "a<b"]);
  expect(format.nameParts("collect::<Vec<u8>>")).toEqual(["", "collect"]);
});
