// The last view of an allocator report: how it was measured, and how to do it again.

import type { Allocator, Check, Counter } from "../data/allocators";
import { bytes, count, duration, plural } from "../format";
import { copyText } from "../parts/copy";
import { type Column, Table } from "../parts/table";
import { figure, nanoseconds, percent, useApp } from "./app";
import { None } from "./summary";

export function Appendix() {
  const { data, say } = useApp();
  const { report } = data;
  const commands = report.commands.map((it) => `# ${it.section}\n${it.command}`).join("\n");
  const measured = report.allocators.filter((it) => it.refused === null);
  return (
    <>
      <h1>How it was measured</h1>
      <section>
        <div class="heading">
          <h2>Commands</h2>
          <p>
            <button type="button" class="link copy" onClick={() => copyText(commands, say)}>
              Copy them all
            </button>
          </p>
        </div>
        <dl class="commands">
          {report.commands.map((it, i) => (
            <div key={i}>
              <dt>{it.section}</dt>
              <dd>
                <code>{it.command}</code>
              </dd>
            </div>
          ))}
        </dl>
      </section>
      <Environment />
      {measured.map((it) => (
        <Counters key={it.name} allocator={it} />
      ))}
      {measured.map((it) => (
        <Verification key={it.name} allocator={it} />
      ))}
    </>
  );
}

function Environment() {
  const { recording, replay, stepping, allocators } = useApp().data.report;
  const lost = [
    [recording.foreign_frees, "deallocation of a block whose allocation was not recorded", "deallocations of blocks whose allocations were not recorded"],
    [recording.foreign_reallocations, "such reallocation", "such reallocations"],
    [recording.lost_frees, "lost deallocation", "lost deallocations"],
    [recording.lost_events, "event lost by the recording", "events lost by the recording"],
  ] as const;
  const missing = lost.filter(([number]) => number > 0).map(([number, one, many]) => plural(number, one, many));
  const rows: [string, string][] = [
    ["Program", `${recording.executable}, process ${recording.pid}`],
    ["Command line", recording.command.join(" ")],
    ["It ran", duration(recording.wall_seconds * 1e9)],
    ["Allocator of the program", recording.allocator_is_known ? recording.allocator : `${recording.allocator}, assumed`],
    ["Calls", `${count(recording.operations)} of ${plural(recording.threads, "thread")}, ${replay.order === "exact" ? "in their order" : "one at a time in the recorded order"}`],
    ["Live at most", `${bytes(recording.peak_live_bytes)} in ${plural(recording.most_blocks, "block")}`],
    ["Not replayed", missing.length === 0 ? "nothing" : missing.join(", ")],
    ["Written to blocks", `${replay.touch}${replay.touched_share === null ? "" : `, ${percent(replay.touched_share)} of each`}`],
    ["Timed", `${plural(replay.runs, "run")} of each allocator, in turn`],
    ["The empty loop, subtracted", replay.null_ns_per_operation ? `${nanoseconds(replay.null_ns_per_operation.median)} an operation` : "unavailable"],
    ["Stepped", `one of ${plural(stepping.every, "operation")}: ${count(stepping.operations)}, ${plural(stepping.runs, "time")}`],
    ...allocators.map((it): [string, string] => [`Library of ${it.name}`, it.library ?? (it.refused === null ? "the C library" : "unavailable")]),
  ];
  return (
    <section>
      <h2>Environment</h2>
      <dl class="commands">
        {rows.map(([what, value]) => (
          <div key={what}>
            <dt>{what}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Counters({ allocator }: { allocator: Allocator }) {
  const columns: Column<Counter>[] = [
    { key: "counter", title: "Counter", text: true, kind: "counter", cell: (it) => it.counter },
    { key: "value", title: "An operation", cell: (it) => (it.per_operation === null ? <None why={it.why} /> : perOperation(it.per_operation)) },
    { key: "source", title: "Source", text: true, cell: (it) => (it.per_operation === null ? <span class="quiet">{it.why}</span> : it.source) },
  ];
  return (
    <section>
      <h2>Counters of {allocator.name}</h2>
      <Table caption={`Counters of ${allocator.name} an operation`} rows={allocator.counters} rowKey={(it) => it.counter} columns={columns} sort="" onSort={() => {}} empty={allocator.not_stepped ?? "None."} />
    </section>
  );
}

/** Rare events keep figures that are not 0. */
function perOperation(value: number): string {
  return value !== 0 && Math.abs(value) < 0.005 ? value.toPrecision(2) : figure(value);
}

function Verification({ allocator }: { allocator: Allocator }) {
  const number = (value: number) => value.toLocaleString("en-US", { maximumFractionDigits: 2 });
  const columns: Column<Check>[] = [
    { key: "what", title: "Counted in two ways", text: true, cell: (it) => it.what },
    { key: "first", title: "First", cell: (it) => <span title={it.first}>{number(it.counted)}</span> },
    { key: "again", title: "Second", cell: (it) => <span title={it.second}>{it.again === null ? "unavailable" : number(it.again)}</span> },
    { key: "how", title: "How", text: true, wide: true, cell: (it) => `${it.first}; ${it.second}` },
    { key: "agrees", title: "Agrees", text: true, cell: (it) => (it.agrees === null ? "unavailable" : it.agrees ? "✓ yes" : <span class="badge problem">! no</span>) },
  ];
  return (
    <section>
      <h2>Verification of {allocator.name}</h2>
      <Table caption={`Figures of ${allocator.name} that were counted in two ways`} rows={allocator.verification} rowKey={(it) => `${it.what} ${it.first}`} columns={columns} sort="" onSort={() => {}} empty="Nothing was counted in two ways." />
    </section>
  );
}
