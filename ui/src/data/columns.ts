// Columns of numbers as the page's file has them; docs/page-data.md describes the layout.
// What the columns mean is the business of recording.ts.

/** Version of the layout that this page reads. */
export const VERSION = 5;

/** The columns of a part by name, still as bytes. */
export class Columns {
  readonly columns = new Map<string, Uint8Array>();

  /** Splits a part into its columns. Throws if it is damaged. */
  constructor(bytes: Uint8Array) {
    if (bytes[0] !== VERSION) {
      throw new Error(`the data has layout ${bytes[0]}, and this page reads ${VERSION}`);
    }
    const text = new TextDecoder();
    let at = 1;
    while (at < bytes.length) {
      const nameEnd = at + 1 + bytes[at]!;
      const name = text.decode(bytes.subarray(at + 1, nameEnd));
      let length = 0;
      let factor = 1;
      at = nameEnd;
      for (;;) {
        const byte = bytes[at++];
        if (byte === undefined) throw new Error("the data ends too early");
        length += (byte & 0x7f) * factor;
        if (byte < 0x80) break;
        factor *= 128;
      }
      if (at + length > bytes.length) throw new Error("the data ends too early");
      this.columns.set(name, bytes.subarray(at, at + length));
      at += length;
    }
  }

  /** The bytes of a column; none if it does not exist. */
  bytes(name: string): Uint8Array {
    return this.columns.get(name) ?? new Uint8Array();
  }

  /** A column as text. */
  text(name: string): string {
    return new TextDecoder().decode(this.bytes(name));
  }

  /** A column of numbers. */
  numbers(name: string): Float64Array {
    const bytes = this.bytes(name);
    const values = new Float64Array(count(bytes));
    decode(bytes, values);
    return values;
  }

  /** A column of numbers below 2^32. */
  indexes(name: string): Uint32Array {
    const bytes = this.bytes(name);
    const values = new Uint32Array(count(bytes));
    decode(bytes, values);
    return values;
  }

  /** A column of differences, as the numbers that they lead to. */
  sums(name: string): Float64Array {
    const values = this.numbers(name);
    let sum = 0;
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      const half = Math.floor(value / 2);
      sum += value % 2 === 1 ? -half - 1 : half;
      values[i] = sum;
    }
    return values;
  }
}

/** The numbers in a column: each ends with the first byte below 0x80. */
function count(bytes: Uint8Array): number {
  let ends = 0;
  for (let i = 0; i < bytes.length; i++) if (bytes[i]! < 0x80) ends++;
  return ends;
}

function decode(bytes: Uint8Array, values: Float64Array | Uint32Array): void {
  let at = 0;
  for (let i = 0; i < values.length; i++) {
    let byte = bytes[at++]!;
    if (byte < 0x80) {
      values[i] = byte;
      continue;
    }
    // Bits beyond the 31st would be lost in a shift.
    let value = byte & 0x7f;
    let factor = 128;
    do {
      byte = bytes[at++]!;
      value += (byte & 0x7f) * factor;
      factor *= 128;
    } while (byte >= 0x80);
    values[i] = value;
  }
}

/** For rows of so many elements each: where each begins, and the end. */
export function firsts(counts: ArrayLike<number>): Uint32Array {
  const first = new Uint32Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) first[i + 1] = first[i]! + counts[i]!;
  return first;
}
