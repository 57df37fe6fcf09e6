// Numbers, times and names as people read them: the same as in `allotrope report`.

/** A count with commas. */
export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Bytes as number and unit. */
export function bytesParts(value: number): [string, string] {
  if (value < 1024) return [String(Math.round(value)), "B"];
  let part = value / 1024;
  let unit = 0;
  while (part >= 1023.95 && unit + 1 < UNITS.length) {
    part /= 1024;
    unit++;
  }
  return [part.toFixed(1), UNITS[unit]!];
}

/** Bytes in the largest binary unit in which they are at least 1. */
export function bytes(value: number): string {
  return bytesParts(value).join("\u00a0");
}

/** Nanoseconds in the unit that suits them, with three figures. */
export function duration(ns: number): string {
  const us = ns / 1e3;
  if (ns < 1) return "0\u00a0s";
  if (us < 1) return `${Math.round(ns)}\u00a0ns`;
  if (us < 1e3) return `${figures(us)}\u00a0µs`;
  if (us < 1e6) return `${figures(us / 1e3)}\u00a0ms`;
  if (us < 120e6) return `${figures(us / 1e6)}\u00a0s`;
  if (us < 7200e6) return `${figures(us / 60e6)}\u00a0min`;
  return `${figures(us / 3600e6)}\u00a0h`;
}

function figures(value: number): string {
  return value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

/** A part of a whole in percent. */
export function share(part: number, whole: number): string {
  if (whole === 0 || part === 0) return "–";
  const percent = (part * 100) / whole;
  return percent < 0.1 ? "<0.1\u00a0%" : `${percent.toFixed(1)}\u00a0%`;
}

/** A count, or a dash for none. */
export function countOrNone(value: number): string {
  return value === 0 ? "–" : count(value);
}

/** The date and time of a recording. */
export function moment(unixMs: number): string {
  const text = new Date(unixMs).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 19)} UTC`;
}

/** The last part of a path. */
export function fileName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1) || path;
}

/** The name by which a program was started: the file of its command's first word, which may be a
 * link to the executable. Commands are written as a shell takes them. */
export function programName({ command, executable }: { command: string; executable: string }): string {
  const [, quoted, word = ""] = /^(?:'([^']*)'|([^\s']+))(?=\s|$)/.exec(command) ?? [];
  return fileName(quoted ?? word) || fileName(executable);
}

/** "1 block", "2 blocks". */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)}\u00a0${value === 1 ? one : many}`;
}

/** A function's name in parts: what is grey before it, and the name itself. */
export function nameParts(name: string): [string, string] {
  const short = withoutArguments(name);
  const at = short.lastIndexOf("::");
  if (at < 0) return ["", short];
  const before = short.slice(0, at);
  const owner = before.slice(before.includes("::") ? before.lastIndexOf("::") + 2 : 0);
  return [`${owner}::`, short.slice(at + 2)];
}

/** A name with its outermost template arguments as ‹…›, and `<X as T>::f` as `X::f`. */
export function withoutArguments(name: string): string {
  const as = /^<(.+?) as .+?>::([^<>]+)$/.exec(name);
  if (as) return withoutArguments(`${as[1]}::${as[2]}`);
  if (/operator\s*[<>-]/.test(name)) return name;
  let depth = 0;
  let short = "";
  for (const character of name) {
    if (character === "<") {
      if (depth === 0) short += "‹…›";
      depth++;
    } else if (character === ">" && depth > 0) {
      depth--;
    } else if (depth === 0) {
      short += character;
    }
  }
  // What does not close is no list of arguments.
  return depth === 0 && short !== "‹…›" ? short.replaceAll("::‹…›", "") : name;
}
