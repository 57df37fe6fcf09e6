// The first view of a comparison: a sentence, totals, the curves of both sides, and the
// entries, of which each opens to its stacks.

import { useMemo, useState } from "preact/hooks";
import { type Compared, type Comparison, type Entry, KINDS, type Kind, type Part, isEstimate } from "../data/comparison";
import { ORIGIN } from "../data/stacks";
import { count, fileName, moment, nameParts, plural } from "../format";
import { Choice } from "../parts/choice";
import { copyText } from "../parts/copy";
import { FrameList } from "../parts/frames";
import { Bytes, FunctionName } from "../parts/names";
import { SearchField } from "../parts/search";
import { type Column, Table } from "../parts/table";
import { type App, amount, signed, useApp } from "./app";
import { SideCurves } from "./curves";

/** Kinds have a sign and a word: nothing is said by colour alone. */
const SIGNS: Record<Kind, string> = { new: "+", gone: "−", changed: "±", moved: "→", jitter: "~" };

export function Changes() {
  const app = useApp();
  const { comparison, compared } = app;
  const { meta } = comparison;
  return (
    <>
      <h1>{sentence(comparison, compared)}</h1>
      <p class="facts">
        <span class="metric">{capital(compared.words)}</span> · {sides(comparison)}
      </p>
      {meta.notes.length > 0 && (
        <ul class="notes" aria-label="Notes">
          {meta.notes.map((note) => (
            <li key={note}>{note.replace(/^(note|warning): /, "")}</li>
          ))}
        </ul>
      )}
      <Totals />
      <SideCurves />
      <Entries />
    </>
  );
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function sides({ meta }: Comparison): string {
  return meta.sides
    .map((side) => {
      const name = side.titles.length > 1 ? `${plural(side.titles.length, "file")}` : fileName(side.titles[0] ?? "");
      const runs = side.runs > 1 ? `, ${plural(side.runs, "run")}` : "";
      const when = side.started_unix_ms > 0 ? `, ${moment(side.started_unix_ms)}` : "";
      return `${name}${runs}${when}`;
    })
    .join(" → ");
}

/** The difference in percent of what was before; empty if there is nothing to divide by. */
function percent(before: number, difference: number): string {
  if (before === 0 || difference === 0) return "";
  const part = (Math.abs(difference) * 100) / before;
  const sign = difference > 0 ? "+" : "−";
  return part < 0.05 ? `${sign}<0.1\u00a0%` : `${sign}${part < 1000 ? part.toFixed(1) : count(part)}\u00a0%`;
}

/** The answer, in a sentence. */
function sentence(comparison: Comparison, compared: Compared): string {
  const { meta, all } = comparison;
  const { before, after, entries, words } = compared;
  const difference = after - before;
  const [was, is] = (["before", "after"] as const).map((side) => (isEstimate(compared, side) ? "about " : ""));
  const which = meta.filter === null ? capital(words) : `${capital(words)} with “${meta.filter}” in the stack`;
  const differing = entries.filter((it) => it.kind !== "moved" && it.kind !== "jitter");
  if (all.every((it) => it.before === 0 && it.after === 0)) return "Nothing was allocated on either side.";
  if (compared.interval?.may_be_chance) return `${which}: ${was}${amount(compared, before)} before and ${is}${amount(compared, after)} after, which is not distinguishable from chance.`;
  if (difference === 0) {
    const same = `${which}: ${was || is}${amount(compared, before)} on both sides`;
    const renamed = entries.filter((it) => it.kind === "moved").length;
    if (differing.length === 0 && renamed > 0) return `${same}, and no figure is different, but the names in ${plural(renamed, "entry", "entries")} are.`;
    return differing.length === 0 ? `${same}, and nothing is different.` : `${same}, but ${plural(differing.length, "entry is", "entries are")} different.`;
  }
  const verb = difference > 0 ? "rise" : "fall";
  // An entry that goes the same way as the total explains it.
  const most = differing.find((it) => Math.sign(it.difference) === Math.sign(difference) && !it.interval?.may_be_chance);
  const by = most ? `: ${signed(compared, most.difference)} in ${shortName(comparison.functionOf(most.blame))}` : "";
  return `${which} ${verb} from ${was}${amount(compared, before)} to ${is}${amount(compared, after)}${by}.`;
}

function shortName(name: string): string {
  const short = nameParts(name).join("");
  return short.length > 80 ? `${short.slice(0, 79)}…` : short;
}

function Totals() {
  const { comparison, compared, state, set } = useApp();
  const { before, after, per } = compared;
  const difference = after - before;
  const about = (side: "before" | "after") => (isEstimate(compared, side) ? "about " : "");
  const ends = (side: "before" | "after") => (isEstimate(compared, side) ? `${compared.interval![side].map((it) => amount(compared, it)).join(" – ")} ` : "");
  const mark = difference > 0 ? "▲ " : difference < 0 ? "▼ " : "";
  const each = (value: number) => (per === null ? "" : `${ratio(value / per)} each`);
  return (
    <>
      <div class="compared">
        <dl class="totals">
          <div>
            <dt>Before</dt>
            <dd>
              <strong title={count(before)}>{`${about("before")}${amount(compared, before)}`}</strong> <span>{ends("before")}{each(before)}</span>
            </dd>
          </div>
          <div>
            <dt>After</dt>
            <dd>
              <strong title={count(after)}>{`${about("after")}${amount(compared, after)}`}</strong> <span>{ends("after")}{each(after)}</span>
            </dd>
          </div>
          <div>
            <dt>Difference</dt>
            <dd>
              <strong class={direction(difference)} title={count(difference)}>
                {mark}
                {amount(compared, Math.abs(difference))}
              </strong>{" "}
              <span>{[percent(before, difference), difference === 0 ? "" : each(difference)].filter(Boolean).join(" · ")}</span>
            </dd>
          </div>
        </dl>
        {comparison.all.length > 1 && (
          <Choice
            label="Metric"
            values={comparison.all.map((it) => [it.metric, SHORT[it.metric] ?? capital(it.words)] as const)}
            value={compared.metric}
            onChange={(metric) => set({ metric: metric === comparison.all[0]!.metric ? "" : metric })}
          />
        )}
      </div>
      {compared.chance !== null && <p class="quiet said-of-all">Figures of sampled profiles are estimates; from – to are their intervals with 95 % confidence. The difference is {compared.chance.replace(/-(?=\d)/g, "−")}.</p>}
      {state.view === "changes" && <p class="quiet said-of-all">{compared.noise}</p>}
    </>
  );
}

/** Short names of metrics. */
const SHORT: Record<string, string> = {
  allocations: "Allocations",
  bytes: "Bytes",
  temporary: "Temporary",
  leaked: "Leaked bytes",
  "leaked-allocations": "Leaked blocks",
  peak: "Peak bytes",
  "peak-allocations": "Blocks at the peak",
};

function ratio(value: number): string {
  const size = Math.abs(value);
  return size !== 0 && size < 0.1 ? value.toPrecision(2) : value.toLocaleString("en-US", { maximumFractionDigits: 2 });
}

function direction(difference: number): string {
  return difference > 0 ? "rise" : difference < 0 ? "fall" : "";
}

function Figure({ compared, value }: { compared: Compared; value: number }) {
  return compared.is_bytes ? <Bytes value={value} /> : <>{count(value)}</>;
}

function Difference({ compared, entry }: { compared: Compared; entry: Entry }) {
  const { difference, interval } = entry;
  const range = interval && `${count(interval.low)} to ${count(interval.high)}, with 95 % confidence`;
  return (
    <span class={direction(difference)} title={range ?? undefined}>
      {difference > 0 ? "+" : difference < 0 ? "−" : ""}
      <Figure compared={compared} value={Math.abs(difference)} />
      {interval?.may_be_chance && <span class="chance"> ±</span>}
    </span>
  );
}

function Entries() {
  const app = useApp();
  const { comparison, compared, state, set } = app;
  const found = useMemo(() => comparison.search(state.search.trim()), [comparison, state.search]);
  const kinds = KINDS.filter((kind) => compared.entries.some((it) => it.kind === kind));
  const matching = useMemo(() => compared.entries.filter((it) => found === null || hasOne(comparison, it, found)), [compared, found]);
  const rows = matching.filter((it) => state.kind === null || it.kind === state.kind);
  const most = compared.entries.reduce((largest, it) => Math.max(largest, Math.abs(it.difference)), 1);
  const sum = rows.reduce((total, it) => total + it.difference, 0);
  return (
    <section class="changes">
      <h2>What changed</h2>
      <div class="tools">
        <Choice
          label="Kind"
          values={[["", `All ${count(matching.length)}`] as const, ...kinds.map((kind) => [kind, `${SIGNS[kind]} ${kind} ${count(matching.filter((it) => it.kind === kind).length)}`] as const)]}
          value={state.kind ?? ""}
          onChange={(kind) => set({ kind: kind === "" ? null : (kind as Kind) })}
        />
        <SearchField value={state.search} onInput={(search) => set({ search })}>
          {found === null && state.kind === null ? "" : `${plural(rows.length, "entry", "entries")}, ${signed(compared, sum)}`}
        </SearchField>
      </div>
      <Table
        caption="What changed, by cause"
        rows={rows}
        rowKey={(it) => String(it.index)}
        columns={columnsOf(app, most)}
        sort={state.sort || "difference"}
        onSort={(sort) => set({ sort })}
        open={state.row}
        onOpen={(row) => set({ row })}
        detail={(it) => <Detail key={it.index} entry={it} />}
        empty={compared.entries.length === 0 ? "Nothing is different." : "No entry matches."}
      />
      {leftOut(app).map((it) => (
        <p class="quiet" key={it}>
          {it}
        </p>
      ))}
    </section>
  );
}

/** Whether a stack of the entry has a frame of one of these groups. */
function hasOne(comparison: Comparison, entry: Entry, found: Set<number>): boolean {
  const has = (frame: number) => found.has(comparison.frames.group[frame]!);
  return has(entry.blame) || entry.parts.some((part) => [part.stack, part.was].some((stack) => stack !== null && comparison.framesOf(stack).some(has)));
}

function columnsOf({ comparison, compared }: App, most: number): Column<Entry>[] {
  return [
    {
      key: "kind",
      title: "Kind",
      text: true,
      kind: "sort-of",
      value: (it) => it.kind,
      cell: (it) => (
        <>
          <b aria-hidden="true">{SIGNS[it.kind]}</b> {it.kind}
        </>
      ),
    },
    { key: "name", title: "Function", text: true, kind: "blamed", value: (it) => comparison.functionOf(it.blame), cell: (it) => <FunctionName name={comparison.functionOf(it.blame)} place={comparison.placeOf(it.blame)} /> },
    { key: "words", title: "In words", text: true, wide: true, kind: "in-words", cell: (it) => <span title={inWords(it)}>{inWords(it)}</span> },
    { key: "before", title: "Before", wide: true, value: (it) => it.before, cell: (it) => <Figure compared={compared} value={it.before} /> },
    { key: "after", title: "After", wide: true, value: (it) => it.after, cell: (it) => <Figure compared={compared} value={it.after} /> },
    { key: "difference", title: "Difference", value: (it) => Math.abs(it.difference), cell: (it) => <Difference compared={compared} entry={it} /> },
    { key: "signed", title: "less | more", wide: true, kind: "balance", value: (it) => it.difference, cell: (it) => <Balance difference={it.difference} most={most} /> },
  ];
}

function inWords(entry: Entry): string {
  if (entry.sentences.length > 0) return entry.sentences[0]!.replace(/-(?=\d)/g, "−");
  if (entry.kind === "new") return "not there before";
  return entry.kind === "gone" ? "no longer there" : "";
}

/** A bar from the middle: to the left less, to the right more. It is linear. */
function Balance({ difference, most }: { difference: number; most: number }) {
  const width = (Math.abs(difference) / most) * 50;
  return (
    <span class="balance" aria-hidden="true">
      {difference !== 0 && <i class={direction(difference)} style={{ width: `max(1px, ${width}%)`, [difference < 0 ? "right" : "left"]: "50%" }} />}
    </span>
  );
}

const STACKS = 5;

function Detail({ entry }: { entry: Entry }) {
  const app = useApp();
  const { comparison, compared, set } = app;
  const [most, setMost] = useState(STACKS);
  const [open, setOpen] = useState(0);
  const { parts } = entry;
  const rest = entry.allStacks - parts.length;
  const copy = () => {
    const part = parts[open] ?? parts[0];
    if (!part) return;
    const text = comparison.framesOf(part.stack).map((frame) => `${comparison.functionOf(frame)}  ${comparison.placeOf(frame, true)}`);
    copyText(text.join("\n"), app.say);
  };
  return (
    <>
      <p class="entry-facts">
        {amount(compared, entry.before)} before, {amount(compared, entry.after)} after
        {entry.sentences.map((it) => (
          <span key={it}> · {it}</span>
        ))}
      </p>
      <div class="heading">
        <h3>{plural(entry.allStacks, "stack")}</h3>
        <p>
          <button type="button" class="link copy" onClick={copy}>
            Copy as text <kbd>c</kbd>
          </button>{" "}
          ·{" "}
          <button type="button" class="link" onClick={() => set({ view: "flame", search: comparison.functionOf(entry.blame), zoom: [] })}>
            Flame graph
          </button>
        </p>
      </div>
      <ul class="stacks">
        {parts.slice(0, most).map((part, i) => (
          <li key={i}>
            <button type="button" class="stack" aria-expanded={i === open} onClick={() => setOpen(i === open ? -1 : i)}>
              <span class="number">
                {amount(compared, part.before)} → {amount(compared, part.after)}
              </span>
              <span class="via">{via(comparison, entry, part)}</span>
            </button>
            {i === open && <Frames entry={entry} part={part} />}
          </li>
        ))}
      </ul>
      {parts.length > most && (
        <p>
          <button type="button" class="link" onClick={() => setMost(most + 50)}>
            … {count(parts.length - most)} more
          </button>
        </p>
      )}
      {rest > 0 && <p class="quiet">{plural(rest, "stack")} of it left out, so that the page stays small; `allotrope diff --all-frames` has them.</p>}
    </>
  );
}

/** What tells a stack from the others of its entry: the callers of the blamed function. */
function via(comparison: Comparison, entry: Entry, part: Part): string {
  const frames = comparison.framesOf(part.stack);
  const group = comparison.frames.group[entry.blame];
  const at = frames.findIndex((frame) => comparison.frames.group[frame] === group);
  const callers = frames.slice(at + 1).filter((frame) => comparison.frames.origin[frame] !== ORIGIN.glue);
  const line = at >= 0 ? comparison.placeOf(frames[at]!) : "";
  const names = callers.slice(0, 3).map((frame) => nameParts(comparison.functionOf(frame)).join(""));
  return [line, ...names].filter(Boolean).join(" ← ");
}

/** The frames of a stack: what is to blame in bold, what differs marked; runs of library frames
 * are folded. */
function Frames({ entry, part }: { entry: Entry; part: Part }) {
  const { comparison, state } = useApp();
  const [all, setAll] = useState(state.library);
  const { frames: of } = comparison;
  const frames = comparison.framesOf(part.stack);
  const was = part.was === null ? null : comparison.framesOf(part.was);
  const isBlamed = (frame: number) => frame === entry.blame || of.group[frame] === of.group[entry.blame];
  const blamed = frames.findIndex(isBlamed);
  const differs = (frame: number, i: number) => frame === entry.is || frame === entry.was || (was !== null && was[i] !== undefined && comparison.placeOf(was[i]!, true) !== comparison.placeOf(frame, true));
  const isHidden = (i: number) => !all && i !== blamed && !differs(frames[i]!, i) && of.origin[frames[i]!] === ORIGIN.glue;
  const line = (i: number) => <Frame key={i} frame={frames[i]!} was={was?.[i] ?? null} entry={entry} blamed={i === blamed} />;
  return <FrameList count={frames.length} isHidden={isHidden} onShow={() => setAll(true)} frame={line} />;
}

function Frame({ frame, was, entry, blamed }: { frame: number; was: number | null; entry: Entry; blamed: boolean }) {
  const { comparison } = useApp();
  const name = comparison.functionOf(frame);
  const before = was === null ? "" : comparison.placeOf(was);
  const place = comparison.placeOf(frame);
  const notes: string[] = [];
  if (entry.is === frame) notes.push(entry.was === null ? "inserted" : `was ${comparison.functionOf(entry.was)}`);
  else if (entry.was === frame) notes.push(entry.is === null ? "no longer there" : `now ${comparison.functionOf(entry.is)}`);
  else if (before !== "" && before !== place) notes.push(`was ${before}`);
  return (
    <li class={`${blamed ? "head" : ""} ${notes.length > 0 ? "differs" : ""}`}>
      <code title={name}>{name}</code>
      <span class="place" title={comparison.placeOf(frame, true)}>
        {notes.length > 0 && <em title={notes.join("; ")}>{notes.join("; ")} </em>}
        {comparison.frames.flags[frame]! & 1 ? "inlined " : ""}
        {place}
      </span>
    </li>
  );
}

/** Sentences on what the page does not have. */
export function leftOut({ comparison, compared }: App): string[] {
  const { left_out: left } = compared;
  const notes: string[] = [];
  if (left.entries > 0) notes.push(`${plural(left.entries, "entry", "entries")} with the smallest differences left out, together ${signed(compared, left.after - left.before)}; allotrope diff --format json has all.`);
  if (left.stacks > 0) notes.push(`${plural(left.stacks, "stack")} of entries with small differences left out; the figures of the entries are whole.`);
  if (left.same > 0) notes.push(`${plural(left.same, "light stack")} that did not change left out of the flame graph.`);
  if (comparison.meta.names_cut > 0) notes.push(`${plural(comparison.meta.names_cut, "long name")} cut in the middle.`);
  return notes;
}
