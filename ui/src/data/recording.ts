// A recording as the page has it: typed arrays, by process, site, frame and cell. Answers to
// questions are in ranges.ts, groups.ts and the trees.

import { Columns, firsts } from "./columns";
import type { Gap } from "./gaps";
import { StackTable } from "./stacks";

export { ORIGIN } from "./stacks";

/** What a finding says, and what it is about. */
export interface Finding {
  rule: string;
  severity: "problem" | "hint";
  title: string;
  measure: string;
  text: string;
  advice: string;
  process: number | null;
  frame: number | null;
  sites: number[];
}

export interface Interval {
  low: number;
  high: number;
}

/** What is no column; see meta.rs. */
export interface Meta {
  file: string;
  command: string;
  tool: string;
  system: string;
  started_unix_ms: number;
  started_ns: number;
  ended_ns: number;
  /** `stacks`: sums that another tool wrote, without times, threads or single blocks. */
  kind: "recording" | "counts" | "sampled" | "stacks";
  /** Of stacks: their format, the metrics that they have, and in words what they do not have. */
  format: string;
  known: string[];
  lacks: string[];
  complete: boolean;
  growing: boolean;
  free_stacks: boolean;
  /** Something was not recorded, though no event was lost. */
  partly: boolean;
  warnings: string[];
  findings: Finding[];
  unrecorded: string[];
  left_out: {
    processes: number;
    totals_only: number;
    stacks: number;
    stack_allocations: number;
    widened: number;
    widest: number;
    details: number;
    source: number;
  };
  names_cut: number;
  carried: number;
  samples: null | {
    period: number;
    metrics: string[];
    total: SampledSums | null;
    /** The same by process. */
    processes: (SampledSums | null)[];
    functions: { site: number; intervals: Interval[]; samples: [number, number] }[];
  };
  /** Sentences on source files that are missing, or newer than the recording. */
  source: string[];
}

/** Sums of a sampled profile: their intervals, one for each metric. */
export interface SampledSums {
  intervals: Interval[];
  /** How many samples they are made of: of live blocks, and of all allocations. */
  samples: [number, number];
  /** Bytes and blocks that were freed, with the intervals of both. */
  freed: { bytes: number; blocks: number; intervals: [Interval, Interval]; samples: number };
}

/** In place of the bucket in which a block was freed: it was live at the end. */
export const LIVE_AT_END = 0xffff;

/** When blocks of rows (sites or threads) were allocated and freed. */
export interface Cells {
  /** By row: its first cell; one more at the end. */
  first: Uint32Array;
  allocated: Uint16Array;
  freed: Uint16Array;
  blocks: Float64Array;
  bytes: Float64Array;
  /** By row: how much wider its buckets are, as a binary logarithm. */
  widened: Uint32Array;
}

export interface Process {
  index: number;
  id: number;
  pid: number;
  parentPid: number;
  origin: "first" | "fork" | "exec";
  forkedFrom: number | null;
  executable: string;
  command: string;
  exit: string;
  /** Nanoseconds since the start of the recording. */
  started: number;
  duration: number;
  lost: number;
  /** Everything that its recorder wrote has been read. */
  complete: boolean;
  /** When events are missing. */
  gaps: Gap[];
  allocations: number;
  bytes: number;
  deallocations: number;
  reallocations: number;
  temporary: number;
  leaked: number;
  leakedBytes: number;
  peak: number;
  peakBytes: number;
  /** Nanoseconds since the start of the recording. */
  peakAt: number;
  inherited: number;
  inheritedBytes: number;
  /** null: only these totals are in the page. */
  details: ProcessDetails | null;
}

export interface ProcessDetails {
  /** The sites from the first one to the one before the second. */
  sites: [number, number];
  /** Its row in the cells of whole processes, which has cells if sites have wider buckets. */
  totals: number;
  /** Starts of the buckets of time, nanoseconds since the start of the recording. */
  starts: Float64Array;
  end: number;
  /** The time just after the peak, one of the starts or the end: what is alive there was
   * alive at the peak. null: there is no peak. */
  afterPeak: number | null;
  live: Live;
  resident: { time: Float64Array; bytes: Float64Array };
  threads: Thread[];
  entries: Entry[];
  sizes: SizeClass[];
  windows: Window[];
}

/** Live bytes in buckets of equal width. */
export interface Live {
  from: number;
  width: number;
  max: Float64Array;
  bytes: Float64Array;
  allocations: Float64Array;
  allocated: Float64Array;
}

export interface Thread {
  /** Its row in the cells of threads. */
  row: number;
  process: number;
  name: string;
  tid: number;
  allocations: number;
  bytes: number;
  deallocations: number;
  temporary: number;
}

export interface Entry {
  name: string;
  number: number;
  allocations: number;
  bytes: number;
  deallocations: number;
}

export interface SizeClass {
  /** 0 for 0 bytes, else 1 + the binary logarithm of the largest size. */
  class: number;
  allocations: number;
  bytes: number;
  atPeak: number;
  atPeakBytes: number;
  leaked: number;
  leakedBytes: number;
}

export interface Window {
  name: string;
  opened: number;
  duration: number;
  allocations: number;
  bytes: number;
  remainingBytes: number;
}

export type SiteFigure =
  | "allocations"
  | "bytes"
  | "reallocations"
  | "temporary"
  | "leaked"
  | "leaked_bytes"
  | "at_peak"
  | "at_peak_bytes"
  | "headline"
  | "first_shown"
  | "together"
  | "mean_ns"
  | "blocks"
  | "longest_ns";

const SITE_FIGURES: SiteFigure[] = [
  "allocations",
  "bytes",
  "reallocations",
  "temporary",
  "leaked",
  "leaked_bytes",
  "at_peak",
  "at_peak_bytes",
  "headline",
  "first_shown",
  "together",
  "mean_ns",
  "blocks",
  "longest_ns",
];

export interface Sites {
  count: number;
  process: Float64Array;
  number: Float64Array;
  /** Node of the innermost frame. */
  node: Float64Array;
  /** Frame + 1 that stands for the stack; 0: there is none. */
  head: Uint32Array;
  /** Name + 1 of the type of its blocks; 0: unknown. */
  type: Uint32Array;
  figures: Record<SiteFigure, Float64Array>;
  /** By site, of a sampled profile: intervals, one for each metric, and numbers of samples. */
  low: Float64Array;
  high: Float64Array;
  liveSamples: Float64Array;
  samples: Float64Array;
}

export interface Details {
  /** Sites that have details: the first ones. */
  count: number;
  smallest: Float64Array;
  largest: Float64Array;
  entries: { first: Uint32Array; number: Uint32Array; alignment: Float64Array; allocations: Float64Array; bytes: Float64Array };
  sizes: { first: Uint32Array; class: Uint32Array; allocations: Float64Array; bytes: Float64Array };
  threads: { first: Uint32Array; thread: Uint32Array; blocks: Float64Array; bytes: Float64Array };
  frees: { first: Uint32Array; allocatedBy: Uint32Array; freedBy: Uint32Array; blocks: Float64Array; bytes: Float64Array };
  freeStacks: { first: Uint32Array; node: Uint32Array; blocks: Float64Array; bytes: Float64Array };
}

/** The parts of the file, inflated. */
export type Parts = Record<"run" | "names" | "stacks" | "sites" | "details" | "cells" | "source", Uint8Array>;

/** Lines before and after the line of a frame that are shown. */
const AROUND = 3;

export interface CodeLine {
  number: number;
  text: string;
}

export class Recording extends StackTable {
  readonly meta: Meta;
  readonly processes: Process[];
  readonly sites: Sites;
  readonly cells: Cells;
  readonly threadCells: Cells;
  readonly totalCells: Cells;
  readonly threads: Thread[] = [];
  readonly marks: { name: string; time: number }[];
  /** Times at which ranges of several processes are exact. */
  readonly boundaries: Float64Array;
  /** Live bytes of all processes at the end of each equal part of the recording. */
  readonly sumOfLive: Float64Array;
  /** Likewise the resident sets, if there are any. */
  readonly sumOfResident: Float64Array;
  readonly start: number;
  readonly end: number;
  private readonly detailColumns: Columns;
  private decodedDetails: Details | null = null;
  /** By name of a file: its lines by number, those that the page has. */
  private readonly source: Map<number, Map<number, string>>;

  constructor(parts: Parts) {
    super(new Columns(parts.names), new Columns(parts.stacks));
    const run = new Columns(parts.run);
    this.meta = JSON.parse(run.text("meta")) as Meta;
    const cells = new Columns(parts.cells);
    this.sites = decodeSites(new Columns(parts.sites));
    this.cells = decodeCells(cells, "cell");
    this.threadCells = decodeCells(cells, "thread_cell");
    this.totalCells = decodeCells(cells, "total_cell");
    this.detailColumns = new Columns(parts.details);
    this.source = decodeSource(new Columns(parts.source));
    this.start = this.meta.started_ns;
    this.boundaries = run.sums("boundary.ns");
    this.sumOfLive = run.sums("sum.live_bytes");
    this.sumOfResident = run.sums("sum.resident_bytes");
    const markNames = run.indexes("mark.name");
    this.marks = [...run.numbers("mark.time_ns")].map((time, i) => ({ time, name: this.name(markNames[i]!) }));
    this.processes = this.decodeProcesses(run);
    let end = this.meta.ended_ns;
    for (const process of this.processes) end = Math.max(end, process.details?.end ?? 0);
    this.end = end;
  }

  /** The code around the line of a frame; none if the page does not have the line itself. */
  codeAround(frame: number): CodeLine[] {
    const lines = this.source.get(this.frames.file[frame]!);
    const line = this.frames.line[frame]!;
    if (!lines?.has(line)) return [];
    const around: CodeLine[] = [];
    for (let number = line - AROUND; number <= line + AROUND; number++) {
      const text = lines.get(number);
      if (text !== undefined) around.push({ number, text });
    }
    return around;
  }

  /** The group that a site is added up in; the last one is for sites without a stack. */
  groupOf(site: number): number {
    const head = this.sites.head[site]!;
    return head === 0 ? this.groups.length : this.frames.group[head - 1]!;
  }

  /** Sizes, entry points, who allocates and who frees. They are decoded when they are first wanted. */
  details(): Details {
    this.decodedDetails ??= decodeDetails(this.detailColumns);
    return this.decodedDetails;
  }

  private decodeProcesses(run: Columns): Process[] {
    const column = (name: string) => run.numbers(`process.${name}`);
    const [id, pid, parent, origin, forked] = ["id", "pid", "parent_pid", "origin", "forked_from"].map(column);
    const [executable, command, exit, started, lasted, lost] = ["executable", "command", "exit", "started_us", "duration_us", "lost"].map(column);
    const [allocations, bytes, deallocations, reallocations, temporary] = ["allocations", "bytes", "deallocations", "reallocations", "temporary"].map(column);
    const [leaked, leakedBytes, peak, peakBytes, peakAt] = ["leaked", "leaked_bytes", "peak", "peak_bytes", "peak_us"].map(column);
    const [inherited, inheritedBytes, complete] = ["inherited", "inherited_bytes", "complete"].map(column);
    const gaps = decodeGaps(run);
    const details = this.decodeProcessDetails(run);
    return [...id!].map((_, i) => ({
      index: i,
      id: id![i]!,
      pid: pid![i]!,
      parentPid: parent![i]!,
      origin: (["first", "fork", "exec"] as const)[origin![i]!] ?? "first",
      forkedFrom: forked![i]! > 0 ? forked![i]! - 1 : null,
      executable: this.name(executable![i]!),
      command: this.name(command![i]!),
      exit: this.name(exit![i]!),
      started: started![i]! * 1e3,
      duration: lasted![i]! * 1e3,
      lost: lost![i]!,
      complete: complete![i] !== 0,
      gaps: gaps[i] ?? [],
      allocations: allocations![i]!,
      bytes: bytes![i]!,
      deallocations: deallocations![i]!,
      reallocations: reallocations![i]!,
      temporary: temporary![i]!,
      leaked: leaked![i]!,
      leakedBytes: leakedBytes![i]!,
      peak: peak![i]!,
      peakBytes: peakBytes![i]!,
      peakAt: (started![i]! + peakAt![i]!) * 1e3,
      inherited: inherited![i]!,
      inheritedBytes: inheritedBytes![i]!,
      details: details[i] ?? null,
    }));
  }

  private decodeProcessDetails(run: Columns): ProcessDetails[] {
    const rows = (name: string) => firsts(run.numbers(name));
    const buckets = rows("bucket.count");
    const starts = run.sums("bucket.start_ns");
    const ends = run.numbers("bucket.end_ns");
    const peaks = run.numbers("bucket.peak_ns");
    const live = rows("live.count");
    const from = run.numbers("live.from_ns");
    const width = run.numbers("live.width_ns");
    const [max, liveBytes, liveBlocks, allocated] = ["max_bytes", "bytes", "allocations", "allocated"].map((it) => run.sums(`live.${it}`));
    const resident = rows("resident.count");
    const residentTime = run.sums("resident.time_us").map((it) => it * 1e3);
    const residentBytes = run.sums("resident.bytes");
    const threads = this.decodeThreads(run);
    const entries = decodeEntries(run, (it) => this.name(it));
    const sizes = decodeSizes(run);
    const windows = decodeWindows(run, (it) => this.name(it));
    let site = 0;
    return [...ends].map((end, i) => {
      const first = site;
      while (site < this.sites.count && this.sites.process[site] === i) site++;
      const part = (array: Float64Array, bounds: Uint32Array) => array.subarray(bounds[i]!, bounds[i + 1]!);
      return {
        sites: [first, site],
        totals: i,
        starts: part(starts, buckets),
        end,
        afterPeak: peaks[i]! > 0 ? Math.min(peaks[i]!, end) : null,
        live: {
          from: from[i]!,
          width: width[i]!,
          max: part(max!, live),
          bytes: part(liveBytes!, live),
          allocations: part(liveBlocks!, live),
          allocated: part(allocated!, live),
        },
        resident: { time: part(residentTime, resident), bytes: part(residentBytes, resident) },
        threads: threads[i]!,
        entries: entries[i]!,
        sizes: sizes[i]!,
        windows: windows[i]!,
      };
    });
  }

  private decodeThreads(run: Columns): Thread[][] {
    const first = firsts(run.numbers("thread.count"));
    const name = run.indexes("thread.name");
    const [tid, allocations, bytes, deallocations, temporary] = ["tid", "allocations", "bytes", "deallocations", "temporary"].map((it) => run.numbers(`thread.${it}`));
    for (let process = 0; process + 1 < first.length; process++) {
      for (let i = first[process]!; i < first[process + 1]!; i++) {
        this.threads.push({
          row: i,
          process,
          name: this.name(name[i]!),
          tid: tid![i]!,
          allocations: allocations![i]!,
          bytes: bytes![i]!,
          deallocations: deallocations![i]!,
          temporary: temporary![i]!,
        });
      }
    }
    return split(this.threads, first);
  }
}

function decodeSource(columns: Columns): Map<number, Map<number, string>> {
  const files = columns.indexes("source.file");
  const first = firsts(columns.numbers("source.lines"));
  const numbers = columns.sums("source.number");
  const text = columns.text("source.text").split("\n");
  const all = new Map<number, Map<number, string>>();
  files.forEach((file, i) => {
    const lines = new Map<number, string>();
    for (let at = first[i]!; at < first[i + 1]!; at++) lines.set(numbers[at]!, text[at] ?? "");
    all.set(file, lines);
  });
  return all;
}

/** Splits a list into those of each process. */
function split<T>(all: T[], first: Uint32Array): T[][] {
  return Array.from({ length: first.length - 1 }, (_, i) => all.slice(first[i]!, first[i + 1]!));
}

function decodeGaps(run: Columns): Gap[][] {
  const [lasted, events] = ["lasted_ns", "events"].map((it) => run.numbers(`gap.${it}`));
  const all = [...run.sums("gap.from_ns")].map((from, i) => ({ from, to: lasted![i] === 0 ? null : from + lasted![i]! - 1, events: events![i]! }));
  return split(all, firsts(run.numbers("process.gaps")));
}

function decodeEntries(run: Columns, name: (number: number) => string): Entry[][] {
  const names = run.indexes("entries.name");
  const [number, allocations, bytes, deallocations] = ["number", "allocations", "bytes", "deallocations"].map((it) => run.numbers(`entries.${it}`));
  const all = [...names].map((it, i) => ({
    name: name(it),
    number: number![i]!,
    allocations: allocations![i]!,
    bytes: bytes![i]!,
    deallocations: deallocations![i]!,
  }));
  return split(all, firsts(run.numbers("entries.count")));
}

function decodeSizes(run: Columns): SizeClass[][] {
  const number = run.numbers("sizes.class");
  const [allocations, bytes, atPeak, atPeakBytes, leaked, leakedBytes] = ["allocations", "bytes", "at_peak", "at_peak_bytes", "leaked", "leaked_bytes"].map((it) => run.numbers(`sizes.${it}`));
  const all = [...number].map((it, i) => ({
    class: it,
    allocations: allocations![i]!,
    bytes: bytes![i]!,
    atPeak: atPeak![i]!,
    atPeakBytes: atPeakBytes![i]!,
    leaked: leaked![i]!,
    leakedBytes: leakedBytes![i]!,
  }));
  return split(all, firsts(run.numbers("sizes.count")));
}

function decodeWindows(run: Columns, name: (number: number) => string): Window[][] {
  const names = run.indexes("window.name");
  const [opened, lasted, allocations, bytes, remaining] = ["opened_us", "duration_us", "allocations", "bytes", "remaining_bytes"].map((it) => run.numbers(`window.${it}`));
  const all = [...names].map((it, i) => ({
    name: name(it),
    opened: opened![i]! * 1e3,
    duration: lasted![i]! * 1e3,
    allocations: allocations![i]!,
    bytes: bytes![i]!,
    remainingBytes: remaining![i]!,
  }));
  return split(all, firsts(run.numbers("window.count")));
}

function decodeSites(columns: Columns): Sites {
  const figures = {} as Record<SiteFigure, Float64Array>;
  for (const name of SITE_FIGURES) figures[name] = columns.numbers(`site.${name}`);
  return {
    count: figures.allocations.length,
    process: columns.sums("site.process"),
    number: columns.sums("site.number"),
    node: columns.sums("site.node"),
    head: columns.indexes("site.head"),
    type: columns.indexes("site.type"),
    figures,
    low: columns.numbers("interval.low"),
    high: columns.numbers("interval.high"),
    liveSamples: columns.numbers("site.live_samples"),
    samples: columns.numbers("site.samples"),
  };
}

function decodeCells(columns: Columns, name: string): Cells {
  const first = firsts(columns.numbers(`${name}.count`));
  const before = columns.indexes(`${name}.allocated`);
  const after = columns.indexes(`${name}.freed`);
  const allocated = new Uint16Array(before.length);
  const freed = new Uint16Array(before.length);
  for (let row = 0; row + 1 < first.length; row++) {
    let bucket = 0;
    for (let i = first[row]!; i < first[row + 1]!; i++) {
      bucket += before[i]!;
      allocated[i] = bucket;
      freed[i] = after[i] === 0 ? LIVE_AT_END : bucket + after[i]! - 1;
    }
  }
  return { first, allocated, freed, blocks: columns.numbers(`${name}.blocks`), bytes: columns.numbers(`${name}.bytes`), widened: columns.indexes(`${name}.widened`) };
}

function decodeDetails(columns: Columns): Details {
  const first = (name: string) => firsts(columns.numbers(`detail.${name}`));
  const smallest = columns.numbers("detail.smallest");
  return {
    count: smallest.length,
    smallest,
    largest: columns.numbers("detail.largest"),
    entries: {
      first: first("entries"),
      number: columns.indexes("entry.number"),
      alignment: columns.numbers("entry.alignment"),
      allocations: columns.numbers("entry.allocations"),
      bytes: columns.numbers("entry.bytes"),
    },
    sizes: {
      first: first("sizes"),
      class: columns.indexes("size.class"),
      allocations: columns.numbers("size.allocations"),
      bytes: columns.numbers("size.bytes"),
    },
    threads: {
      first: first("threads"),
      thread: columns.indexes("site_thread.thread"),
      blocks: columns.numbers("site_thread.allocations"),
      bytes: columns.numbers("site_thread.bytes"),
    },
    frees: {
      first: first("frees"),
      allocatedBy: columns.indexes("free.allocated_by"),
      freedBy: columns.indexes("free.freed_by"),
      blocks: columns.numbers("free.blocks"),
      bytes: columns.numbers("free.bytes"),
    },
    freeStacks: {
      first: first("free_stacks"),
      node: columns.indexes("free_stack.node"),
      blocks: columns.numbers("free_stack.blocks"),
      bytes: columns.numbers("free_stack.bytes"),
    },
  };
}
