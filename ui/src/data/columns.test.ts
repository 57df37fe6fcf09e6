import { expect, test } from "vitest";
import { Columns, VERSION, firsts } from "./columns";

test("columns are split and decoded", () => {
  // The example of the Rust crate's test.
  const bytes = [VERSION, 1, 0x61, 12, 0, 0x7f, 0x80, 0x01, 255, 255, 255, 255, 255, 255, 255, 0x0f];
  const columns = new Columns(new Uint8Array([...bytes, 2, 0x62, 0x63, 2, 10, 3]));
  expect([...columns.numbers("a")]).toEqual([0, 127, 128, 2 ** 53 - 1]);
  expect([...columns.sums("bc")]).toEqual([5, 3]);
  expect([...columns.numbers("none")]).toEqual([]);
});

test("damaged data is refused", () => {
  expect(() => new Columns(new Uint8Array([VERSION + 1]))).toThrow(`layout ${VERSION + 1}`);
  expect(() => new Columns(new Uint8Array([VERSION, 1, 0x61, 9, 0]))).toThrow("too early");
  expect(() => new Columns(new Uint8Array([VERSION, 1, 0x61, 0x80]))).toThrow("too early");
});

test("rows begin where the ones before end", () => {
  expect([...firsts([2, 0, 3])]).toEqual([0, 2, 2, 5]);
});
