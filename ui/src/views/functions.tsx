// The table of functions, files and modules, and what is known of one of them: its stacks,
// when its blocks were allocated and freed, their sizes, and who allocates and frees them.

import { useState } from "preact/hooks";
import { type App, useApp } from "../app";
import type { Sum } from "../data/ranges";
import { type Group, type GroupFigures, figuresOf, rangeOf, sitesIn, sizesOf } from "../data/groups";
import { ofGroup, ranks } from "../data/estimates";
import { WORDS, isCount, knows, ranked, sumOf } from "../data/known";
import { leftWord } from "../data/gaps";
import { type CodeLine, LIVE_AT_END, ORIGIN, type Process } from "../data/recording";
import { bytes, count, countOrNone, duration, plural, share } from "../format";
import { Choice } from "../parts/choice";
import { copyText } from "../parts/copy";
import { FrameList } from "../parts/frames";
import { Bytes, FunctionName } from "../parts/names";
import { Off, PartOnly, Uncertain, leftOut } from "../parts/notes";
import { Search } from "../parts/search";
import { type Column, Table, ofRun } from "../parts/table";
import type { State } from "../state";
import { GroupCurve } from "./overview";

interface Row {
  group: Group;
  figures: GroupFigures;
  range: { allocated: Sum; alive: Sum } | null;
}

export function Functions() {
  const app = useApp();
  const { recording, state, model, set } = app;
  const words = state.search.toLowerCase();
  const inRange = model.hasRange(state);
  const allocated = inRange ? model.figures(state, "allocated") : null;
  const alive = inRange ? model.figures(state, "alive") : null;
  const rows: Row[] = model
    .groups(state, state.by)
    .filter((it) => words === "" || matches(app, it, words))
    .map((group) => ({ group, figures: figuresOf(recording, group), range: null }));
  if (allocated && alive) {
    for (const row of rows) {
      row.range = { allocated: rangeOf(row.group, allocated), alive: rangeOf(row.group, alive) };
    }
  }
  const shown = rows.filter((it) => !it.range || most(it.range.allocated) > 0 || most(it.range.alive) > 0);
  const first = inRange ? "range_bytes" : ranked(recording);
  return (
    <>
      <h1 class="hidden">Functions and sites</h1>
      <div class="tools">
        <Choice
          label="Rows"
          values={[
            ["functions", "Functions"],
            ["files", "Files"],
            ["modules", "Modules"],
          ]}
          value={state.by}
          onChange={(by) => set({ by, row: "" })}
        />
        <span class="quiet">
          {plural(shown.length, "row")}
          {state.by === "functions" && " · library frames are counted to the function that called them"}
        </span>
        <Search>{words === "" ? "" : plural(shown.length, "row")}</Search>
      </div>
      <PartOnly />
      <Table
        caption="Functions and their allocations"
        rows={shown}
        rowKey={(it) => it.group.key}
        columns={columnsOf(app, inRange)}
        sort={state.sort || first}
        onSort={(sort) => set({ sort })}
        open={state.row}
        onOpen={(row) => set({ row })}
        detail={(it) => <Detail group={it.group} />}
        empty="No function matches."
      />
      {leftOut(app).map((it) => (
        <p class="quiet" key={it}>
          {it}
        </p>
      ))}
    </>
  );
}

function matches({ recording }: App, group: Group, words: string): boolean {
  if (`${group.name} ${group.place}`.toLowerCase().includes(words)) return true;
  const head = recording.sites.head[group.sites[0]!]!;
  return head > 0 && recording.placeOf(head - 1, true).toLowerCase().includes(words);
}

function columnsOf(app: App, inRange: boolean): Column<Row>[] {
  const { recording, state } = app;
  const { kind } = recording.meta;
  const name: Column<Row> = {
    key: "name",
    title: { functions: "Function", files: "File", modules: "Module" }[state.by],
    text: true,
    value: (it) => it.group.name,
    cell: (it) => (state.by === "functions" ? <FunctionName name={it.group.name} place={it.group.place} /> : <code title={it.group.name}>{it.group.name}</code>),
  };
  if (kind === "sampled") {
    const isBy = state.by === "functions";
    const estimate = (key: keyof GroupFigures, metric: string, column: string, title: string): Column<Row> => ({
      key: column,
      title,
      value: (it) => it.figures[key],
      // The interval of a file or a module is not in the page.
      cell: (it) => (isBy ? <Uncertain metric={metric} value={it.figures[key]} group={it.group} most={mostOf(app, metric)} /> : <>about {metric === "allocations" ? count(it.figures[key]) : <Bytes value={it.figures[key]} />}</>),
    });
    if (isBy) {
      const rank: Column<Row> = { key: "rank", title: "Rank", cell: (it) => <span title="Where intervals overlap, the order is not certain.">{rankOf(app, it.group)}</span> };
      return [name, rank, estimate("leakedBytes", "leaked", "leaked", "Live"), estimate("bytes", "bytes", "bytes", "Allocated"), { ...estimate("allocations", "allocations", "allocations", "Allocations"), wide: true }];
    }
    return [name, estimate("leakedBytes", "leaked", "leaked", "Live"), estimate("bytes", "bytes", "bytes", "Allocated"), { ...estimate("allocations", "allocations", "allocations", "Allocations"), wide: true }];
  }
  const curve: Column<Row> = { key: "curve", title: "Alive over time", wide: true, cell: (it) => <GroupCurve group={it.group} /> };
  const life: Column<Row> = { key: "life", title: "Mean life", wide: true, value: (it) => it.figures.meanNs, cell: (it) => duration(it.figures.meanNs) };
  const sizes: Column<Row> = { key: "sizes", title: "Sizes", wide: true, kind: "sizes", value: (it) => sizesOf(recording, it.group)?.[1] ?? 0, cell: (it) => <SizesOf group={it.group} /> };
  const hasTypes = recording.sites.type.some((it) => it > 0);
  const types: Column<Row>[] = hasTypes ? [{ key: "types", title: "Type", wide: true, text: true, value: (it) => typesOf(app, it.group).join(), cell: (it) => <Types group={it.group} /> }] : [];
  const who: Column<Row> = { key: "threads", title: "Threads", wide: true, text: true, cell: (it) => <Threads group={it.group} /> };
  if (inRange) {
    return [
      name,
      { key: "range_bytes", title: "Allocated in range", value: (it) => it.range!.allocated.bytes, cell: (it) => <InRange sum={it.range!.allocated} /> },
      { key: "range_blocks", title: "Allocations in range", value: (it) => it.range!.allocated.blocks, cell: (it) => <>{countOrNone(it.range!.allocated.blocks)}<Off value={it.range!.allocated.blocksOff} show={count} /></> },
      { key: "range_alive", title: "Alive at its end", value: (it) => it.range!.alive.bytes, cell: (it) => <InRange sum={it.range!.alive} /> },
      ofRun(sizes),
      curve,
      ofRun(life),
      ofRun(who),
    ];
  }
  const figures: Column<Row>[] = [
    { key: "peak", title: "At the peak", value: (it) => it.figures.atPeakBytes, cell: (it) => <Bytes value={it.figures.atPeakBytes} none /> },
    { key: "bytes", title: "Allocated", wide: true, value: (it) => it.figures.bytes, cell: (it) => <Bytes value={it.figures.bytes} /> },
    { key: "allocations", title: "Allocations", value: (it) => it.figures.allocations, cell: (it) => count(it.figures.allocations) },
    { key: "temporary", title: "Temporary", wide: true, value: (it) => it.figures.temporary, cell: (it) => <span title={count(it.figures.temporary)}>{knows(recording, "allocations") ? share(it.figures.temporary, it.figures.allocations) : count(it.figures.temporary)}</span> },
    { key: "leaked", title: leftWord(recording, app.model.all(state)), wide: true, value: (it) => it.figures.leakedBytes, cell: (it) => <Bytes value={it.figures.leakedBytes} none /> },
  ];
  if (kind !== "stacks") return [name, ...figures, ...types, sizes, curve, life, who];
  const known = figures.filter((it) => knows(recording, it.key));
  const by = ranked(recording);
  // Stacks may have numbers of blocks alone, which otherwise have no column.
  if (known.length === 0) known.push({ key: by, title: WORDS[by], value: (it) => sumOf(recording, by, it.group.sites), cell: (it) => count(sumOf(recording, by, it.group.sites)) });
  return knows(recording, "lifetime") ? [name, ...known, ...types, life] : [name, ...known, ...types];
}

/** The types of a group's blocks that are known, those with most bytes first. */
function typesOf({ recording }: App, group: Group): string[] {
  const sums = new Map<number, number>();
  for (const site of group.sites) {
    const type = recording.sites.type[site]!;
    if (type > 0) sums.set(type, (sums.get(type) ?? 0) + recording.sites.figures.bytes[site]!);
  }
  return [...sums].sort((a, b) => b[1] - a[1]).map(([type]) => recording.name(type - 1));
}

/** What a group's blocks are, where it is known. */
function Types({ group }: { group: Group }) {
  const names = typesOf(useApp(), group);
  if (names.length === 0) return <span class="quiet">unknown</span>;
  return (
    <>
      <code title={names.join("\n")}>{names[0]}</code>
      {names.length > 1 && <span class="quiet"> and {count(names.length - 1)} more</span>}
    </>
  );
}

/** The most blocks that a sum may have. */
const most = (sum: Sum) => sum.blocks + sum.blocksOff;

/** Bytes in a range. */
function InRange({ sum }: { sum: Sum }) {
  return (
    <>
      <Bytes value={sum.bytes} none={sum.bytesOff === 0} />
      <Off value={sum.bytesOff} show={bytes} />
    </>
  );
}

/** The smallest and the largest size of a group's blocks. */
function SizesOf({ group }: { group: Group }) {
  const sizes = sizesOf(useApp().recording, group);
  if (!sizes) return <>–</>;
  const [smallest, largest] = sizes;
  return (
    <>
      <Bytes value={smallest} />
      {smallest < largest && (
        <>
          {" "}
          – <Bytes value={largest} />
        </>
      )}
    </>
  );
}

const rankTexts = new WeakMap<Group[], Map<Group, string>>();

/** The ranks by live bytes that a function may have. */
function rankOf({ recording, model, state }: App, group: Group): string {
  const groups = model.groups(state, "functions");
  let texts = rankTexts.get(groups);
  if (!texts) {
    const known = groups.flatMap((it) => {
      const estimate = ofGroup(recording, "leaked", it);
      return estimate ? [{ it, estimate }] : [];
    });
    const found = ranks(known.map(({ estimate }) => estimate));
    texts = new Map(known.map(({ it }, i) => [it, found[i]![0] === found[i]![1] ? String(found[i]![0]) : found[i]!.join("–")]));
    rankTexts.set(groups, texts);
  }
  return texts.get(group) ?? "–";
}

const highest = new WeakMap<Group[], Map<string, number>>();

/** The highest end of the intervals of a metric: the scale of a column. */
function mostOf({ recording, model, state }: App, metric: string): number {
  const groups = model.groups(state, "functions");
  const known = highest.get(groups) ?? new Map<string, number>();
  highest.set(groups, known);
  let most = known.get(metric);
  if (most === undefined) {
    most = groups.reduce((a, it) => Math.max(a, ofGroup(recording, metric, it)?.high ?? 0), 1);
    known.set(metric, most);
  }
  return most;
}

const names = new WeakMap<Process, string[]>();

/** What the threads in the details of a site are called: those of its process. A name that several
 * of them have stands with the kernel's number of the thread. */
function threadNames({ recording }: App, site: number): (index: number) => string {
  const process = recording.processes[recording.sites.process[site]!]!;
  let ofAll = names.get(process);
  if (!ofAll) {
    const { threads } = process.details!;
    const times = new Map<string, number>();
    for (const { name } of threads) times.set(name, (times.get(name) ?? 0) + 1);
    ofAll = threads.map(({ name, tid }) => (name === "" ? `thread ${tid}` : times.get(name) === 1 ? name : `${name} ${tid}`));
    names.set(process, ofAll);
  }
  return (index) => ofAll[index - 1] ?? "other threads";
}

interface OfThread {
  by: string;
  blocks: number;
  bytes: number;
}

/** Allocations of a group by thread, those with most first. */
function allocatorsOf(app: App, group: Group): OfThread[] {
  const { threads, count: detailed } = app.recording.details();
  const sums = new Map<string, OfThread>();
  for (const site of group.sites) {
    if (site >= detailed) continue;
    const name = threadNames(app, site);
    for (let i = threads.first[site]!; i < threads.first[site + 1]!; i++) {
      const by = name(threads.thread[i]!);
      const sum = sums.get(by) ?? { by, blocks: 0, bytes: 0 };
      sum.blocks += threads.blocks[i]!;
      sum.bytes += threads.bytes[i]!;
      sums.set(by, sum);
    }
  }
  return [...sums.values()].sort((a, b) => b.blocks - a.blocks);
}

/** Frees of a group's blocks by the threads that allocated and freed them. */
function freesOf(app: App, group: Group): (OfThread & { from: string })[] {
  const { frees, count: detailed } = app.recording.details();
  const sums = new Map<string, OfThread & { from: string }>();
  for (const site of group.sites) {
    if (site >= detailed) continue;
    const name = threadNames(app, site);
    for (let i = frees.first[site]!; i < frees.first[site + 1]!; i++) {
      const [from, by] = [name(frees.allocatedBy[i]!), name(frees.freedBy[i]!)];
      const sum = sums.get(`${from}\n${by}`) ?? { by, from, blocks: 0, bytes: 0 };
      sum.blocks += frees.blocks[i]!;
      sum.bytes += frees.bytes[i]!;
      sums.set(`${from}\n${by}`, sum);
    }
  }
  return [...sums.values()].sort((a, b) => b.blocks - a.blocks);
}

const threadsTexts = new WeakMap<Group, { short: string; long: string }>();

/** The threads that allocate, and if others free, those that free: `a + 2 → b` (`a` and 2 more). */
function threadsOf(app: App, group: Group): { short: string; long: string } {
  let text = threadsTexts.get(group);
  if (!text) {
    const pairs = freesOf(app, group);
    const made = allocatorsOf(app, group).map((it) => it.by);
    const freed = pairs.some((it) => it.from !== it.by) ? [...new Set(pairs.map((it) => it.by))] : [];
    text = {
      short: [made, freed].filter((it) => it.length > 0).map(firstOf).join(" → ") || "–",
      long: `allocated by ${listed(made)}${freed.length > 0 ? `; freed by ${listed(freed)}` : ""}`,
    };
    threadsTexts.set(group, text);
  }
  return text;
}

function Threads({ group }: { group: Group }) {
  const { short, long } = threadsOf(useApp(), group);
  return (
    <span class="short" title={long}>
      {short}
    </span>
  );
}

const LISTED = 20;

function listed(names: string[]): string {
  return names.slice(0, LISTED).join(", ") + (names.length > LISTED ? ` and ${count(names.length - LISTED)} more` : "");
}

function firstOf(names: string[]): string {
  return names.length < 2 ? (names[0] ?? "") : `${names[0]} + ${count(names.length - 1)}`;
}

const STACKS = 5;

/** Stacks of a group, the heaviest first, with their figures by site. */
interface Stacks {
  sites: number[];
  bytes: Float64Array;
  blocks: Float64Array;
  /** What the bytes are. */
  what: string;
  /** The state in which a flame graph shows them. */
  flame: Partial<State>;
}

/** The stacks of a group by the figures of the range, if there is one. */
function stacksOf({ recording, state, model }: App, group: Group): Stacks {
  const { figures } = recording.sites;
  if (model.hasRange(state)) {
    const isAllocated = rangeOf(group, model.figures(state, "allocated")).blocks > 0;
    const mode = isAllocated ? "allocated" : "alive";
    const range = model.figures(state, mode);
    const what = isAllocated ? "bytes allocated in the range" : "bytes alive at the end of the range";
    return { ...range, sites: sitesIn(group, range), what, flame: { weight: "range", mode } };
  }
  const by = ranked(recording);
  if (recording.meta.kind === "stacks") {
    const bytes = new Float64Array(recording.sites.count);
    for (const site of group.sites) bytes[site] = sumOf(recording, by, [site]);
    const sites = [...group.sites].sort((a, b) => bytes[b]! - bytes[a]!);
    return { sites, bytes, blocks: bytes, what: isCount(by) ? WORDS[by] : `bytes ${WORDS[by]}`, flame: {} };
  }
  const isSampled = recording.meta.kind === "sampled";
  const weight = isSampled ? "leaked" : group.sites.some((site) => figures.at_peak_bytes[site]! > 0) ? "peak" : "bytes";
  const bytes = { leaked: figures.leaked_bytes, peak: figures.at_peak_bytes, bytes: figures.bytes }[weight];
  const what = { leaked: "live bytes", peak: "bytes at the peak", bytes: "allocated bytes" }[weight];
  const blocks = { leaked: figures.leaked, peak: figures.at_peak, bytes: figures.allocations }[weight];
  const sites = [...group.sites].sort((a, b) => bytes[b]! - bytes[a]! || blocks[b]! - blocks[a]!);
  return { sites, bytes, blocks, what, flame: { weight } };
}

/** After the heading of what the page does not have by time, while a range is chosen. */
function WholeRun() {
  const { state, model } = useApp();
  return model.hasRange(state) ? <small> · whole run</small> : null;
}

function Detail({ group }: { group: Group }) {
  const app = useApp();
  const { recording, state, set } = app;
  const [most, setMost] = useState(STACKS);
  const [open, setOpen] = useState(0);
  const isSampled = recording.meta.kind === "sampled";
  const isStacks = recording.meta.kind === "stacks";
  const { sites, bytes, blocks, what, flame } = stacksOf(app, group);
  const copy = (site: number) => {
    const text = recording.stackOf(recording.sites.node[site]!).map((frame) => `${recording.functionOf(frame)}  ${recording.placeOf(frame, true)}`);
    copyText(text.join("\n"), app.say);
  };
  return (
    <div class="columns">
      <section>
        <div class="heading">
          <h2>
            {sites.length < group.sites.length && `${count(sites.length)} of `}
            {plural(group.sites.length, "stack")}, by {what}
          </h2>
          <p>
            <button type="button" class="link" onClick={() => copy(sites[open] ?? sites[0]!)}>
              Copy as text
            </button>{" "}
            ·{" "}
            <button type="button" class="link" onClick={() => set({ view: "flame", search: group.name, zoom: [], ...flame })}>
              Flame graph
            </button>
          </p>
        </div>
        <ul class="stacks">
          {sites.slice(0, most).map((site, i) => (
            <li key={site}>
              <button type="button" class="stack" aria-expanded={i === open} onClick={() => setOpen(i === open ? -1 : i)}>
                <span class="number">
                  {isSampled ? <Uncertain metric="leaked" value={bytes[site]!} site={site} /> : isStacks && isCount(ranked(recording)) ? count(bytes[site]!) : <Bytes value={bytes[site]!} />}
                </span>
                {!isSampled && !isStacks && <span class="number">{count(blocks[site]!)} ×</span>}
                <span class="via">{[recording.sites.type[site]! > 0 ? recording.name(recording.sites.type[site]! - 1) : "", via(app, site)].filter(Boolean).join(" · ")}</span>
                <span class="place">{recording.sites.head[site]! > 0 ? recording.placeOf(recording.sites.head[site]! - 1) : ""}</span>
              </button>
              {i === open && <Stack site={site} />}
            </li>
          ))}
        </ul>
        {sites.length > most && (
          <p>
            <button type="button" class="link" onClick={() => setMost(most + 50)}>
              … {count(sites.length - most)} more
            </button>
          </p>
        )}
      </section>
      {recording.meta.kind === "recording" && (
        <section>
          <Lives group={group} />
          <Sizes group={group} />
          <Allocators group={group} />
          <Frees group={group} />
          {app.model.all(state).length > 1 && <Processes group={group} />}
        </section>
      )}
    </div>
  );
}

/** What a site's function allocates through: the function inside of it. */
function via({ recording }: App, site: number): string {
  const frames = recording.stackOf(recording.sites.node[site]!);
  const headline = recording.sites.figures.headline[site]!;
  const inner = headline > 0 ? frames[headline - 1] : undefined;
  if (recording.sites.figures.together[site]! > 1) return `${count(recording.sites.figures.together[site]!)} light sites`;
  return inner === undefined ? "" : `via ${recording.functionOf(inner)}`;
}

/** A stack's frames; what is inside of the function, and runs of library frames, are folded. */
export function Stack({ site }: { site: number }) {
  const { recording, state } = useApp();
  const [all, setAll] = useState(state.library);
  const [switched, setSwitched] = useState<ReadonlySet<number>>(new Set());
  const frames = recording.stackOf(recording.sites.node[site]!);
  const headline = recording.sites.figures.headline[site]!;
  const isHidden = (i: number) => !all && (i < headline || recording.frames.origin[frames[i]!] === ORIGIN.glue);
  const line = (i: number) => {
    const frame = frames[i]!;
    const code = recording.codeAround(frame);
    // The code of the function that stands for the stack is open at first.
    const isOpen = code.length > 0 && (i === headline) !== switched.has(i);
    const toggle = () => {
      const next = new Set(switched);
      if (!next.delete(i)) next.add(i);
      setSwitched(next);
    };
    return (
      <li key={i} class={i === headline ? "head" : ""}>
        <code title={recording.functionOf(frame)}>{recording.functionOf(frame)}</code>
        <Place frame={frame} isOpen={isOpen} onClick={code.length > 0 ? toggle : undefined} />
        {isOpen && <Code lines={code} at={recording.frames.line[frame]!} name={recording.placeOf(frame)} />}
      </li>
    );
  };
  return <FrameList count={frames.length} isHidden={isHidden} onShow={() => setAll(true)} frame={line} />;
}

/** Where a frame is; a button if there is code to show. */
function Place({ frame, isOpen, onClick }: { frame: number; isOpen: boolean; onClick?: () => void }) {
  const { recording } = useApp();
  const flags = recording.frames.flags[frame]!;
  const text = `${flags & 1 ? "inlined " : ""}${flags & 2 ? "interrupted " : ""}${recording.placeOf(frame)}`;
  const title = recording.placeOf(frame, true);
  if (!onClick) {
    return (
      <span class="place" title={title}>
        {text}
      </span>
    );
  }
  return (
    <button type="button" class="place" title={title} aria-expanded={isOpen} onClick={onClick}>
      {text}
    </button>
  );
}

/** Lines of code with their numbers; one of them is marked. */
function Code({ lines, at, name }: { lines: CodeLine[]; at: number; name: string }) {
  return (
    <pre class="source" role="group" aria-label={`Source code at ${name}`} tabIndex={0}>
      {lines.map((it) => (
        <span key={it.number} class={it.number === at ? "at" : undefined}>
          <i>
            {it.number === at ? "▸" : " "}
            {it.number}
          </i>
          {it.text === "" ? " " : it.text}
        </span>
      ))}
    </pre>
  );
}

const LIVES = 400;

/** Lines from when blocks were allocated to when they were freed. */
function Lives({ group }: { group: Group }) {
  const { recording } = useApp();
  const { cells } = recording;
  const [start, end] = [recording.start, recording.end];
  const lines: { from: number; to: number; bytes: number }[] = [];
  let time = 0;
  let blocks = 0;
  for (const site of group.sites) {
    const { starts, end: ended } = recording.processes[recording.sites.process[site]!]!.details!;
    const { mean_ns: means, blocks: counts } = recording.sites.figures;
    time += means[site]! * counts[site]!;
    blocks += counts[site]!;
    for (let i = cells.first[site]!; i < cells.first[site + 1]!; i++) {
      const freed = cells.freed[i]!;
      lines.push({ from: starts[cells.allocated[i]!] ?? ended, to: freed === LIVE_AT_END ? ended : (starts[freed + 1] ?? ended), bytes: cells.bytes[i]! });
    }
  }
  if (lines.length === 0) return null;
  lines.sort((a, b) => b.bytes - a.bytes);
  const x = (at: number) => (((at - start) / Math.max(end - start, 1)) * 400).toFixed(1);
  const path = lines.slice(0, LIVES).map((it) => `M${x(it.from)} 2L${x(it.to)} 58`).join("");
  return (
    <>
      <div class="heading">
        <h2>
          Lives, from birth to death
          <WholeRun />
        </h2>
        <span class="quiet">{[blocks > 0 ? `${duration(time / blocks)} on average` : "", lines.length > LIVES ? `the ${count(LIVES)} of ${count(lines.length)} lines with most bytes` : ""].filter(Boolean).join(" · ")}</span>
      </div>
      <svg class="lives" viewBox="0 0 400 60" preserveAspectRatio="none" role="img" aria-label={`When blocks were allocated (above) and freed (below); ${duration(blocks > 0 ? time / blocks : 0)} on average`}>
        <path d={path} />
        <path d="M0 1H400M0 59H400" class="axis" />
      </svg>
      <p class="axis-labels">
        <span>0</span>
        <span>{duration(end - start)}</span>
      </p>
    </>
  );
}

/** The largest size of a class. */
export function upTo(number: number): number {
  return number === 0 ? 0 : 2 ** (number - 1);
}

function Sizes({ group }: { group: Group }) {
  const { recording } = useApp();
  const details = recording.details();
  const sums = new Map<number, { allocations: number; bytes: number }>();
  for (const site of group.sites) {
    if (site >= details.count) continue;
    for (let i = details.sizes.first[site]!; i < details.sizes.first[site + 1]!; i++) {
      const sum = sums.get(details.sizes.class[i]!) ?? { allocations: 0, bytes: 0 };
      sum.allocations += details.sizes.allocations[i]!;
      sum.bytes += details.sizes.bytes[i]!;
      sums.set(details.sizes.class[i]!, sum);
    }
  }
  const range = sizesOf(recording, group);
  if (!range) return null;
  const [smallest, largest] = range;
  const rows = [...sums].sort((a, b) => a[0] - b[0]);
  const most = Math.max(...rows.map(([, it]) => it.bytes), 1);
  return (
    <>
      <div class="heading">
        <h2>
          Sizes
          <WholeRun />
        </h2>
        <span class="quiet">{smallest === largest ? `all of ${bytes(smallest)}` : `${bytes(smallest)} to ${bytes(largest)}`}</span>
      </div>
      <ul class="bars">
        {rows.map(([number, it]) => (
          <li key={number}>
            <span>up to {bytes(upTo(number))}</span>
            <i style={{ width: `${(it.bytes / most) * 50}%` }} title={bytes(it.bytes)} />
            <span>{count(it.allocations)} ×</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Allocators({ group }: { group: Group }) {
  const threads = allocatorsOf(useApp(), group);
  if (threads.length === 0) return null;
  return (
    <>
      <h2>
        Who allocates
        <WholeRun />
      </h2>
      <dl class="frees">
        {threads.slice(0, 8).map((it) => (
          <div key={it.by}>
            <dt>{it.by}</dt>
            <dd>
              {plural(it.blocks, "block")}, <Bytes value={it.bytes} />
            </dd>
          </div>
        ))}
      </dl>
      {threads.length > 8 && <p class="quiet">… {count(threads.length - 8)} more</p>}
    </>
  );
}

function Frees({ group }: { group: Group }) {
  const app = useApp();
  const pairs = freesOf(app, group);
  const places = freePlaces(app, group);
  return (
    <>
      <h2>
        Who frees
        <WholeRun />
      </h2>
      {pairs.length === 0 && <p class="quiet">Nobody until the end.</p>}
      <dl class="frees">
        {pairs.slice(0, 8).map((it) => (
          <div key={`${it.from} ${it.by}`}>
            <dt>
              {it.from} → {it.by}
            </dt>
            <dd>
              {plural(it.blocks, "block")}, <Bytes value={it.bytes} />
            </dd>
          </div>
        ))}
      </dl>
      {pairs.length > 8 && <p class="quiet">… {count(pairs.length - 8)} more pairs of threads</p>}
      {places.length > 0 && (
        <ul class="places">
          {places.slice(0, 5).map((it) => (
            <li key={it.name}>
              <FunctionName name={it.name} place={it.place} /> <span class="quiet">{count(it.blocks)} blocks</span>
            </li>
          ))}
        </ul>
      )}
      {pairs.length > 0 && places.length === 0 && !app.recording.meta.free_stacks && <p class="quiet">Record with --free-stacks to see the functions that free.</p>}
    </>
  );
}

/** The functions that free a group's blocks: the innermost frames that are no library's. */
function freePlaces({ recording }: App, group: Group): { name: string; place: string; blocks: number }[] {
  const { freeStacks, count: detailed } = recording.details();
  const sums = new Map<number, { name: string; place: string; blocks: number }>();
  for (const site of group.sites) {
    if (site >= detailed) continue;
    for (let i = freeStacks.first[site]!; i < freeStacks.first[site + 1]!; i++) {
      const node = freeStacks.node[i]!;
      if (node < 2) continue;
      const frames = recording.stackOf(node - 2);
      const frame = frames.find((it) => recording.frames.origin[it] !== ORIGIN.glue) ?? frames[0];
      if (frame === undefined) continue;
      const key = recording.frames.group[frame]!;
      const sum = sums.get(key) ?? { name: recording.groupName(key), place: recording.placeOf(frame), blocks: 0 };
      sum.blocks += freeStacks.blocks[i]!;
      sums.set(key, sum);
    }
  }
  return [...sums.values()].sort((a, b) => b.blocks - a.blocks);
}

function Processes({ group }: { group: Group }) {
  const { recording, state, model } = useApp();
  const inRange = model.hasRange(state);
  const allocations = inRange ? model.figures(state, "allocated").blocks : recording.sites.figures.allocations;
  const sums = new Map<number, number>();
  for (const site of inRange ? group.sites.filter((it) => allocations[it]! > 0) : group.sites) {
    const process = recording.sites.process[site]!;
    sums.set(process, (sums.get(process) ?? 0) + allocations[site]!);
  }
  const rows = [...sums].sort((a, b) => b[1] - a[1]);
  return (
    <>
      <h2>
        Processes
        {inRange && <small> · in the range</small>}
      </h2>
      {rows.length === 0 && <p class="quiet">None allocated.</p>}
      <ul class="places">
        {rows.slice(0, 8).map(([index, sum]) => (
          <li key={index}>
            {recording.processes[index]!.pid} <code>{recording.processes[index]!.command.slice(0, 80)}</code> <span class="quiet">{plural(sum, "allocation")}</span>
          </li>
        ))}
      </ul>
      {rows.length > 8 && <p class="quiet">… {count(rows.length - 8)} more</p>}
    </>
  );
}
