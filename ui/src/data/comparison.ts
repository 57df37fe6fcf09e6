// A comparison as the page has it: for each metric the entries of `allotrope diff`, in their
// order, with their stacks. Nothing is matched here.

import { Columns, firsts } from "./columns";
import { StackTable } from "./stacks";

export const KINDS = ["new", "gone", "changed", "moved", "jitter"] as const;
export type Kind = (typeof KINDS)[number];

/** The 95 % interval of a difference, rounded outwards. */
export interface DifferenceInterval {
  low: number;
  high: number;
  may_be_chance: boolean;
  /** Those of the sides; of an exact one both ends are its figure. */
  before: [number, number];
  after: [number, number];
}

/** Whether the figure of a side is an estimate. */
export function isEstimate(compared: { interval: DifferenceInterval | null }, side: "before" | "after"): boolean {
  const ends = compared.interval?.[side];
  return ends !== undefined && ends[0] < ends[1];
}

export interface SideMeta {
  titles: string[];
  command: string;
  runs: number;
  /** 0: unknown. */
  started_unix_ms: number;
  lasted_ns: number;
}

export interface ComparedMeta {
  metric: string;
  words: string;
  is_bytes: boolean;
  before: number;
  after: number;
  /** The number of iterations by which figures can be divided. */
  per: number | null;
  noise: string;
  chance: string | null;
  interval: DifferenceInterval | null;
  intervals: DifferenceInterval[] | null;
  left_out: { entries: number; before: number; after: number; stacks: number; same: number };
}

/** What is no column; see comparison/meta.rs. */
export interface ComparisonMeta {
  tool: string;
  sides: [SideMeta, SideMeta];
  comparisons: ComparedMeta[];
  filter: string | null;
  notes: string[];
  names_cut: number;
}

/** A stack of an entry. */
export interface Part {
  before: number;
  after: number;
  stack: number;
  /** The stack before, if it differs in lines and offsets only; else null. */
  was: number | null;
}

export interface Entry {
  /** Its place in the order of the comparison, from 0. */
  index: number;
  kind: Kind;
  before: number;
  after: number;
  difference: number;
  confidence: number;
  /** The frame that is to blame. */
  blame: number;
  /** Of a moved entry: the frames that differ. */
  was: number | null;
  is: number | null;
  sentences: string[];
  /** Its stacks, of which `allStacks` were compared. */
  parts: Part[];
  allStacks: number;
  interval: DifferenceInterval | null;
}

/** The comparison by one metric. */
export interface Compared extends ComparedMeta {
  entries: Entry[];
  /** Stacks with the same figure on both sides. */
  same: { stack: Uint32Array; figure: Float64Array };
}

/** Live bytes of a side, over the time since its start. */
export interface SideCurve {
  from: number;
  width: number;
  end: number;
  bytes: Float64Array;
  /** 0: unknown. */
  peakBytes: number;
  peakAt: number;
  processes: number;
}

export type ComparisonParts = Record<"comparison" | "names" | "stacks" | "entries", Uint8Array>;

export class Comparison extends StackTable {
  readonly meta: ComparisonMeta;
  readonly all: Compared[];
  readonly curves: SideCurve[];
  /** The stacks of all entries and those that are the same, each once. */
  readonly sites: { count: number; node: Float64Array; figures: { first_shown: Uint32Array; headline: Uint32Array } };

  constructor(parts: ComparisonParts) {
    const stacks = new Columns(parts.stacks);
    super(new Columns(parts.names), stacks);
    const own = new Columns(parts.comparison);
    this.meta = JSON.parse(own.text("meta")) as ComparisonMeta;
    const node = stacks.sums("stack.node");
    this.sites = { count: node.length, node, figures: { first_shown: stacks.indexes("stack.first_shown"), headline: stacks.indexes("stack.headline") } };
    this.curves = decodeCurves(own);
    this.all = this.decodeEntries(new Columns(parts.entries));
  }

  /** The frames of a stack, innermost first. */
  framesOf(stack: number): number[] {
    return this.stackOf(this.sites.node[stack]!);
  }

  private decodeEntries(columns: Columns): Compared[] {
    const counts = columns.numbers("comparison.entries");
    const [kind, before, after, confidence, blame, was, is] = ["kind", "before", "after", "confidence", "blame", "was", "is"].map((it) => columns.numbers(`entry.${it}`));
    const allStacks = columns.numbers("entry.all_stacks");
    const firstPart = firsts(columns.numbers("entry.stacks"));
    const firstSentence = firsts(columns.numbers("entry.sentences"));
    const sentences = columns.indexes("sentence.text");
    const part = { before: columns.numbers("part.before"), after: columns.numbers("part.after"), stack: columns.indexes("part.stack"), was: columns.indexes("part.was") };
    const same = firsts(columns.numbers("comparison.same"));
    const [sameStack, sameFigure] = [columns.indexes("same.stack"), columns.numbers("same.figure")];
    const first = firsts(counts);
    const frame = (number: number) => (number > 0 ? number - 1 : null);
    return this.meta.comparisons.map((meta, which) => {
      const entries: Entry[] = [];
      for (let i = first[which]!; i < first[which + 1]!; i++) {
        const index = i - first[which]!;
        entries.push({
          index,
          kind: KINDS[kind![i]!]!,
          before: before![i]!,
          after: after![i]!,
          difference: after![i]! - before![i]!,
          confidence: confidence![i]! / 1e6,
          blame: blame![i]!,
          was: frame(was![i]!),
          is: frame(is![i]!),
          sentences: Array.from(sentences.subarray(firstSentence[i]!, firstSentence[i + 1]!), (it) => this.name(it)),
          parts: Array.from({ length: firstPart[i + 1]! - firstPart[i]! }, (_, at) => {
            const of = firstPart[i]! + at;
            return { before: part.before[of]!, after: part.after[of]!, stack: part.stack[of]!, was: frame(part.was[of]!) };
          }),
          allStacks: allStacks[i]!,
          interval: meta.intervals?.[index] ?? null,
        });
      }
      const [from, to] = [same[which]!, same[which + 1]!];
      return { ...meta, entries, same: { stack: sameStack.subarray(from, to), figure: sameFigure.subarray(from, to) } };
    });
  }
}

function decodeCurves(columns: Columns): SideCurve[] {
  const first = firsts(columns.numbers("curve.count"));
  const bytes = columns.sums("curve.bytes");
  const [from, width, end, peakBytes, peakAt, processes] = ["from_ns", "width_ns", "ended_ns", "peak_bytes", "peak_ns", "processes"].map((it) => columns.numbers(`curve.${it}`));
  return [0, 1].map((i) => ({
    from: from![i] ?? 0,
    width: width![i] ?? 0,
    end: end![i] ?? 0,
    bytes: bytes.subarray(first[i] ?? 0, first[i + 1] ?? 0),
    peakBytes: peakBytes![i] ?? 0,
    peakAt: peakAt![i] ?? 0,
    processes: processes![i] ?? 0,
  }));
}

/** What of a figure each stack of the page has, by stack. */
export interface Weights {
  before: Float64Array;
  after: Float64Array;
  /** The larger of both of each stack: so what vanished has a width, too. */
  larger: Float64Array;
}

/** The figures of all stacks. A stack that only moved or changed its name is there once, where
 * it is after. */
export function weightsOf(comparison: Comparison, compared: Compared): Weights {
  const { count } = comparison.sites;
  const [before, after, larger] = [new Float64Array(count), new Float64Array(count), new Float64Array(count)];
  const add = (stack: number, was: number, is: number) => {
    before[stack]! += was;
    after[stack]! += is;
    larger[stack]! += Math.max(was, is);
  };
  for (const { kind, parts } of compared.entries) {
    for (const { stack, before: was, after: is } of parts) {
      if (kind !== "moved") add(stack, was, is);
      else if (is > 0) add(stack, is, is);
    }
  }
  compared.same.stack.forEach((stack, i) => add(stack, compared.same.figure[i]!, compared.same.figure[i]!));
  return { before, after, larger };
}
