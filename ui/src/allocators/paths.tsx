// The second view of an allocator report: where an allocator's instructions go.

import { useMemo } from "preact/hooks";
import { type Allocator, type Callee, type Estimate, type Line, type Path, type PathTree, type SizeClass, type Steps, pathText, placeOf } from "../data/allocators";
import { nodeAt } from "../data/flame";
import { bytes, count, plural, share } from "../format";
import { Choice } from "../parts/choice";
import { Graph, type Look } from "../parts/flame-graph";
import { FunctionName } from "../parts/names";
import { SearchField } from "../parts/search";
import { type Column, Table } from "../parts/table";
import { figure, percent, useApp } from "./app";
import { Changed } from "./summary";

/** The values of the tree are those of the report, so none are set. */
const NO_WEIGHTS = new Float64Array();

const VERSIONS = [
  ["before", "Before the change"],
  ["after", "After"],
] as const;

export function Paths() {
  const { data, chosen } = useApp();
  if (chosen === null) {
    return (
      <>
        <h1>No operations were stepped.</h1>
        {data.report.allocators.map((it) => (
          <p class="quiet" key={it.name}>
            <b>{it.name}</b> {it.refused ?? it.not_stepped}
          </p>
        ))}
      </>
    );
  }
  return <PathsOf key={chosen.name} chosen={chosen} />;
}

function PathsOf({ chosen }: { chosen: Allocator }) {
  const { data, state, set, theme, say } = useApp();
  const { report } = data;
  const stepped = report.allocators.filter((it) => it.instructions.length > 0);
  const earlier = data.before(chosen.name);
  const isBefore = state.before && earlier !== undefined;
  const steps: Steps = isBefore ? earlier : chosen;
  const other = isBefore ? chosen : earlier;
  const tree = data.tree(isBefore ? `${chosen.name}, before the change` : chosen.name, steps);
  const zoomed = useMemo(() => nodeAt(tree, state.zoom), [tree, state.zoom.join()]);
  const found = useMemo(() => tree.search(state.search), [tree, state.search]);
  const foundPart = found ? tree.foundValue(found) : 0;
  const change = report.changes.find((it) => it.name === chosen.name);
  const all = steps.instructions[0]!;
  return (
    <>
      <h1>
        {chosen.name}
        {isBefore ? ", before the change" : ""}: {figure(all.mean)} instructions an operation
      </h1>
      <p class="facts">
        exact counts of {plural(all.operations, "stepped operation")}, one of {count(report.stepping.every)} · median {count(all.median)}, 99th percentile {count(all.p99)}
        {all.high > all.low ? ` · runs from ${figure(all.low)} to ${figure(all.high)}` : report.stepping.runs > 1 ? ` · identical in ${plural(report.stepping.runs, "run")}` : ""}
        {steps.cut > 0 ? ` · ${plural(steps.cut, "operation")} too long to be stepped to the end` : ""}
        {other && ` · ${figure(other.instructions[0]!.mean)} ${isBefore ? "after" : "before"} the change`}
      </p>
      <div class="tools">
        {stepped.length > 1 && <Choice label="Allocator" values={stepped.map((it) => [it.name, it.name] as const)} value={chosen.name} onChange={(name) => set({ allocator: name === stepped[0]!.name ? "" : name })} />}
        {earlier && <Choice label="Version" values={VERSIONS} value={isBefore ? "before" : "after"} onChange={(version) => set({ before: version === "before" })} />}
        <SearchField value={state.search} onInput={(search) => set({ search })}>
          {found ? share(foundPart, tree.value(0)) : ""}
        </SearchField>
      </div>
      <p class="legend">
        <span>
          <i class="own" />
          the allocator’s own code
        </span>
        <span>
          <i class="cell rise" />* called outside of it
        </span>
        <span>
          <i class="cell" />
          entry points, paths
        </span>
        <span class="quiet end">as wide as instructions · a path’s functions are beside each other · click zooms</span>
      </p>
      <Graph tree={tree} zoomed={zoomed} found={found} weights={NO_WEIGHTS} look={lookOf(tree)} from="main" theme={theme} say={say} onZoom={(zoom) => set({ zoom })} />
      <PathTable steps={steps} found={found} tree={tree} />
      <Callees rows={steps.callees} />
      {change && <Changed change={change} />}
      {!isBefore && <WhatIf rows={chosen.what_if} />}
      <Lines rows={steps.lines} />
      <Sizes rows={steps.size_classes} />
    </>
  );
}

function lookOf(tree: PathTree): Look {
  const at = (node: number) => tree.nodes[node]!;
  return {
    label: (node) => (node === 0 ? `${at(node).name}, all operations` : at(node).kind === "path" ? `${at(node).name} · ${percent(at(node).share)} of operations` : at(node).name),
    mark: (node) => (at(node).own ? "" : "* "),
    place: (node) => at(node).place,
    amount: (node) => {
      const { kind, share: part, value } = at(node);
      const of = kind === "entry" ? `, ${percent(part)} of operations` : "";
      return `${figure(value)} instructions an operation of all${of}`;
    },
    fill: (node, row, ink) => {
      const { kind, own } = at(node);
      if (kind !== "function") return ink("glue");
      if (!own) return ink("more-cell");
      return ink(row % 2 === 0 ? "own1" : "own2");
    },
  };
}

interface NumberedPath extends Path {
  /** Its place in the report. */
  index: number;
}

function PathTable({ steps, found, tree }: { steps: Steps; found: Set<number> | null; tree: PathTree }) {
  const { state, set } = useApp();
  const wanted = state.search.trim().toLowerCase();
  const has = (path: Path) => [path.entry_point, ...path.functions.flatMap((it) => [it.function, it.file, it.module])].some((text) => text.toLowerCase().includes(wanted));
  const numbered: NumberedPath[] = steps.paths.map((path, index) => ({ ...path, index }));
  const rows = found === null ? numbered : numbered.filter(has);
  const ofAll = (it: NumberedPath) => tree.shareOf(steps.paths[it.index]!);
  const columns: Column<NumberedPath>[] = [
    { key: "path", title: "Path", text: true, value: (it) => pathText(it), cell: (it) => <code title={pathText(it)}>{pathText(it)}</code> },
    { key: "entry", title: "Of", text: true, wide: true, value: (it) => it.entry_point, cell: (it) => <code>{it.entry_point}</code> },
    { key: "operations", title: "Operations", value: (it) => it.share_of_operations, cell: (it) => <span title={plural(it.operations, "operation")}>{percent(it.share_of_operations)}</span> },
    { key: "share", title: "Instructions", value: (it) => it.share_of_instructions, cell: (it) => percent(it.share_of_instructions) },
    { key: "each", title: "Each", wide: true, value: (it) => it.instructions, cell: (it) => figure(it.instructions) },
    { key: "all", title: "Of all instructions", wide: true, value: ofAll, cell: (it) => percent(ofAll(it)) },
  ];
  return (
    <section>
      <h2>Paths</h2>
      <Table
        caption="Paths, with their parts of the operations and instructions of their entry point"
        rows={rows}
        rowKey={(it) => String(it.index)}
        columns={columns}
        sort={state.sort || "all"}
        onSort={(sort) => set({ sort })}
        open={state.row}
        onOpen={(row) => set({ row })}
        detail={(it) => <Functions path={it} />}
        empty={found === null ? "No paths." : "No path matches."}
        first={20}
      />
      <p class="quiet said-of-all">Operations and instructions are parts of the entry point’s; a function with * is not the allocator’s own.</p>
    </section>
  );
}

/** The functions of a path in the order of their first instructions, with their lines. */
function Functions({ path }: { path: Path }) {
  return (
    <ol class="frames">
      {path.functions.map((it, i) => (
        <li key={i}>
          <code title={it.function}>
            {it.function}
            {it.allocator ? "" : "*"}
          </code>
          <span class="place" title={it.file === "" ? it.module : `${it.file}:${it.line}`}>
            {placeOf(it.file, it.line, it.module)} · {figure(it.instructions)}
          </span>
        </li>
      ))}
    </ol>
  );
}

/** Kinds of work that is rarely an allocator's business: those for which the report has findings. */
const NO_BUSINESS = ["environment", "locale", "string compare", "lock", "system call"];
/** In more than this part of the operations of an entry point, it is a finding. */
const OFTEN = 0.01;

function standsOut(callee: Callee): boolean {
  return NO_BUSINESS.includes(callee.kind) && callee.entry_points.some((it) => it.share_of_operations > OFTEN);
}

function Callees({ rows }: { rows: Callee[] }) {
  const columns: Column<Callee>[] = [
    { key: "function", title: "Calls", text: true, cell: (it) => <FunctionName name={it.function} /> },
    {
      key: "kind",
      title: "Kind",
      text: true,
      cell: (it) => <span class={standsOut(it) ? "badge problem" : "badge"}>{standsOut(it) ? `! ${it.kind}` : it.kind}</span>,
    },
    { key: "from", title: "From", text: true, kind: "from", cell: (it) => <FunctionName name={it.caller} place={placeOf(it.file, it.line)} /> },
    { key: "operations", title: "Operations", cell: (it) => <span title={it.entry_points.map((entry) => `${percent(entry.share_of_operations)} of ${entry.entry_point}`).join(", ")}>{percent(it.share_of_operations)}</span> },
    { key: "instructions", title: "Instructions", wide: true, cell: (it) => percent(it.share_of_instructions) },
  ];
  return (
    <section>
      <h2>What it calls</h2>
      <Table caption="Callees outside of the allocator" rows={rows} rowKey={(it) => `${it.function} ${it.caller} ${it.file} ${it.line}`} columns={columns} sort="" onSort={() => {}} empty="Nothing outside its own code." first={20} />
      {rows.some(standsOut) && <p class="quiet said-of-all">! is in more than 1 % of the operations of an entry point, and such work is rarely the business of an allocator.</p>}
    </section>
  );
}

function WhatIf({ rows }: { rows: Estimate[] }) {
  const columns: Column<Estimate>[] = [
    { key: "what", title: "Without", text: true, cell: (it) => (it.kind === "callee" ? <FunctionName name={it.function} place={placeOf(it.file, it.line)} /> : <code title={it.by}>{it.by}</code>) },
    { key: "kind", title: "Kind", text: true, cell: (it) => (it.kind === "callee" ? `call by ${it.by}` : `path of ${it.function}`) },
    { key: "operations", title: "Operations", wide: true, cell: (it) => percent(it.share_of_operations) },
    { key: "saved", title: "Would save", cell: (it) => `${figure(it.saved_instructions)} (${percent(it.saved_share)})` },
  ];
  if (rows.length === 0) return null;
  return (
    <section>
      <h2>What if</h2>
      <Table caption="What changes would save, estimated" rows={rows} rowKey={(it) => `${it.kind} ${it.function} ${it.by} ${it.line}`} columns={columns} sort="" onSort={() => {}} first={10} />
      <p class="quiet said-of-all">Estimates in instructions an operation of all. They overlap and cannot be added up.</p>
    </section>
  );
}

function Lines({ rows }: { rows: Line[] }) {
  const columns: Column<Line>[] = [
    { key: "place", title: "Line", text: true, cell: (it) => <code title={it.file === "" ? undefined : `${it.file}:${it.line}`}>{placeOf(it.file, it.line)}</code> },
    { key: "function", title: "Function", text: true, kind: "from", cell: (it) => <FunctionName name={it.function} /> },
    { key: "instructions", title: "Instructions", cell: (it) => figure(it.instructions) },
    { key: "share", title: "Of all", cell: (it) => percent(it.share_of_instructions) },
  ];
  return (
    <section>
      <h2>Hot lines</h2>
      <Table caption="Source lines by their instructions" rows={rows} rowKey={(it) => `${it.function} ${it.file} ${it.line}`} columns={columns} sort="" onSort={() => {}} empty="No lines are known: the allocator has no debug information." first={10} />
    </section>
  );
}

function Sizes({ rows }: { rows: SizeClass[] }) {
  const columns: Column<SizeClass>[] = [
    { key: "entry", title: "Entry point", text: true, cell: (it) => <code>{it.entry_point}</code> },
    { key: "size", title: "Up to", cell: (it) => bytes(it.up_to_bytes) },
    { key: "operations", title: "Operations", wide: true, cell: (it) => count(it.operations) },
    { key: "mean", title: "Instructions", cell: (it) => figure(it.mean) },
    { key: "median", title: "Median", cell: (it) => count(it.median) },
  ];
  return (
    <section>
      <h2>By size</h2>
      <Table caption="Instructions an operation by size" rows={rows} rowKey={(it) => `${it.entry_point} ${it.up_to_bytes}`} columns={columns} sort="" onSort={() => {}} empty="No sizes." first={20} />
    </section>
  );
}
