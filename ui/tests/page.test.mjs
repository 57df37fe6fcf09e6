// The page in a real browser, driven as people do. Numbers come from program.c, or from
// `allotrope report`.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium, go, hash, launch, open, openUrl, text, until } from "./browser.mjs";
import { allotrope, missing, Recordings, target } from "./recordings.mjs";

const screenshots = join(target, "page-screenshots");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const pdftotext = spawnSync("pdftotext", ["-v"]).error === undefined;
const why = chromium ? missing() : "chromium is not installed";
if (why) console.log(`skipped: the page in a browser: ${why}`);

describe("the page", { skip: why !== null }, () => {
  let browser;
  let all;
  let pages = [];
  const at = async (...words) => {
    const page = await open(browser, ...words);
    pages.push(page);
    return page;
  };
  /** The page of a case of the program. */
  const of = (name, ...rest) => all.page(all.record(name, ...rest));

  before(async () => {
    mkdirSync(screenshots, { recursive: true });
    all = new Recordings();
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    all?.remove();
  });
  /** Nothing was fetched, no script failed. */
  const test_ = (name, run) =>
    test(name, async () => {
      pages = [];
      await run();
      for (const page of pages) {
        assert.deepEqual(page.problems, []);
        await page.close();
      }
    });

  test_("opens with the answer and fetches nothing", async () => {
    const page = await at(of("phases"));
    // 10 * 1000 + 20 * 300 = 16,000 bytes in 30 blocks; 6 * 1000 + 20 * 300 are left.
    assert.match(await text(page, "h1"), /^15\.6.KiB at the peak, .* into a run of .*: 62\.5.% of it in first_phase\.$/);
    const totals = await page.$$eval(".totals div", (all) => all.map((it) => it.textContent.replace(/\s+/g, " ")));
    assert.deepEqual([totals[0], totals[1], totals[4]], ["Peak15.6 KiB 30 blocks", "Allocations30 15.6 KiB", "Leaked11.7 KiB 26 blocks"]);
    const held = await page.$$eval(".held tbody tr", (rows) => rows.map((it) => it.querySelector("b").textContent));
    assert.deepEqual(held, ["first_phase", "second_phase"]);
    assert.equal(await page.title(), "program · Allotrope");
    assert.ok(await page.evaluate(() => document.body.scrollWidth <= innerWidth));
  });

  /** Drags over the second quarter of a curve or track; returns a click that clears the range. */
  const brush = async (page, element) => {
    const box = await element.boundingBox();
    const y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width * 0.25, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, y, { steps: 4 });
    await page.mouse.up();
    await until(page, () => location.hash.includes("r="));
    return async () => {
      await page.mouse.click(box.x + box.width * 0.8, y);
      await until(page, () => !location.hash.includes("r="));
    };
  };

  /** The same stacks in a format of another tool: what it has is shown, what it lacks is marked. */
  const stacksOf = (format) => {
    const recording = all.record("phases");
    const path = all.path(`phases.${format}`);
    all.run(allotrope, ["export", recording, "--format", format, "-o", path, "--force"], { stdio: ["ignore", "pipe", "pipe"] });
    return path;
  };
  const bpftrace = "@[\n    malloc+0\n    first_phase+18\n    main+44\n]: 10\n";
  const massif = `desc: --massif-out-file=x
cmd: ./program
time_unit: i
#-----------
snapshot=0
#-----------
time=9
mem_heap_B=1000
mem_heap_extra_B=8
mem_stacks_B=0
heap_tree=peak
n1: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n1: 1000 0x1091: first_phase (program.c:9)
  n0: 1000 0x1092: main (program.c:20)
`;
  // Format; the title; the totals, those that are missing in their words; the weights of the flame graph.
  const none = "not in the file";
  const foreign = [
    ["dhat", /^15\.6.KiB at the peak: 62\.5.% of it in first_phase\.$/, { Peak: "15.6 KiB 30 blocks", Temporary: none, Leaked: "11.7 KiB 26 blocks" }, ["Allocations", "Bytes", "At the peak", "Leaked"]],
    ["heaptrack", /^15\.6.KiB at the peak: /, { Peak: "15.6 KiB 30 blocks", Reallocations: none }, null],
    ["pprof", /first_phase/, { Allocations: "30" }, null],
    ["folded", /^30 allocations: 66\.7.% of them in second_phase\.$/, { Peak: none, Allocations: "30", Allocated: none, Temporary: none, Leaked: none }, ["Allocations"]],
    ["stacks", /^30 allocations: 66\.7.% of them in second_phase\.$/, { Peak: none, Allocated: none }, ["Allocations"]],
    ["bpftrace", /^10 allocations: 100\.0.% of them in first_phase\.$/, { Peak: none, Allocations: "10" }, ["Allocations"]],
    ["massif", /^1000.B at the peak: 100\.0.% of it in first_phase\.$/, { Peak: "1000 B", Allocations: none, Leaked: none }, ["At the peak"]],
  ];
  for (const [format, title, totals, weights] of foreign) {
    test_(`a file in the format ${format} has a page that marks what it lacks`, async () => {
      let path = all.path(`hand.${format}`);
      if (format === "bpftrace") writeFileSync(path, bpftrace);
      else if (format === "massif") writeFileSync(path, massif);
      else path = stacksOf(format);
      const page = await at(all.page(path));
      assert.match(await text(page, "h1"), title);
      const shown = await page.$$eval(".totals div", (all) => all.map((it) => [it.querySelector("dt").textContent, it.querySelector("dd").textContent.replace(/\s+/g, " ").trim()]));
      for (const [name, value] of Object.entries(totals)) assert.equal(Object.fromEntries(shown)[name], value, name);
      const views = await page.$$eval("nav a", (all) => all.map((it) => it.textContent.trim()));
      assert.ok(!views.some((it) => /Timeline|Tables/.test(it)), views.join());
      assert.match(await text(page, "main"), /Not in the file/);
      await shoot(page, `stacks-${format}`);
      await go(page, "#/flame");
      const choices = await page.$$eval("[aria-label=Width] button", (all) => all.map((it) => it.textContent.trim()));
      if (weights) assert.deepEqual(choices, weights);
      await go(page, "#/functions");
      const columns = await page.$$eval("main thead th", (all) => all.map((it) => it.textContent.trim()));
      assert.ok(!columns.some((it) => /Alive|Threads|Sizes/.test(it)), columns.join());
      await page.click("main button.row");
      assert.match(await text(page, "main"), /1.stack/);
    });
  }

  test_("brushing the curve chooses a range, a click clears it", async () => {
    const page = await at(of("phases"), "#/timeline");
    const clear = await brush(page, await page.$(".lane .u-over"));
    const [from, to] = await page.$eval("h1.range", (it) => [Number(it.dataset.from), Number(it.dataset.to)]);
    assert.ok(0 < from && from < to);
    await clear();
  });

  test_("a track is brushed like the curve", async () => {
    const page = await at(of("threads"), "#/timeline");
    const ranges = [];
    for (const selector of [".lane .u-over", ".lane .track .over"]) {
      for (const element of await page.$$(selector)) {
        const clear = await brush(page, element);
        ranges.push(await hash(page));
        await clear();
      }
    }
    // The curve, and at least what was allocated and freed.
    assert.ok(ranges.length >= 2);
    assert.deepEqual(ranges, ranges.map(() => ranges[0]));
  });

  test_("a function says which threads allocate its blocks and which free them", async () => {
    const recording = all.record("threads");
    const page = await at(all.page(recording), "#/functions?q=one_of");
    const { processes } = all.report(recording);
    const threads = processes[0].threads.filter((it) => it.allocations === 400);
    assert.equal(threads.length, 3);
    await page.click("main button.row");
    const rows = await page.$$eval("dl.frees div", (all) => all.map((it) => it.innerText.replace(/\s+/g, " ")));
    for (const { tid } of threads) {
      assert.ok(rows.some((it) => it.startsWith(`program ${tid} 400 blocks`)), rows.join("; "));
      assert.ok(rows.some((it) => it.startsWith(`program ${tid} → program ${tid} 392 blocks`)), rows.join("; "));
    }
    // None frees what another allocated, so the table names them once.
    const named = await page.$eval("main tbody .short", (it) => it.textContent);
    assert.match(named, /^program \d+ \+ 2$/);
  });

  test_("a curve in a table is on the axis of the run", async () => {
    const page = await at(of("late"), "#/functions");
    const rises = await page.$$eval("main tbody tr.opens", (all) =>
      all.map((row) => {
        // "M0 19.0H2.0V…": the first step above the ground.
        const steps = [...row.querySelector("path.line").getAttribute("d").matchAll(/[MV](?:0 )?([\d.]+)H([\d.]+)/g)].map((it) => [Number(it[1]), Number(it[2])]);
        const at = steps.findIndex(([y]) => y < 19);
        return [row.querySelector("b").textContent, at === 0 ? 0 : steps[at - 1][1] / steps[steps.length - 1][1]];
      }),
    );
    const of_ = Object.fromEntries(rises);
    assert.ok(of_.early_blocks < 0.1, String(rises));
    // After 400 of about 500 ms; a busy machine may take longer for the rest.
    assert.ok(of_.late_blocks > 0.4 && of_.late_blocks < 0.9, String(rises));
  });

  test_("a deep stack is drawn, by and by", async () => {
    const page = await at(of("deep"), "#/flame");
    await page.setViewport({ width: 390, height: 844, deviceScaleFactor: 3 });
    const painted = () =>
      page.$eval("canvas.flame", (it) => {
        const data = it.getContext("2d").getImageData(0, 0, it.width, it.height).data;
        return [data.some((byte) => byte > 0), it.height <= 8192, Number(it.dataset.top)];
      });
    await until(page, () => document.querySelector("canvas.flame").height > 1000);
    assert.deepEqual(await painted(), [true, true, 0]);
    await page.evaluate(() => scrollTo(0, 10_000));
    await until(page, () => Number(document.querySelector("canvas.flame").dataset.top) > 300);
    assert.deepEqual((await painted()).slice(0, 2), [true, true]);
    // The cell under the pointer is the one that is drawn there; so is the one of an arrow.
    const box = await (await page.$("canvas.flame")).boundingBox();
    await page.mouse.move(box.x + 50, Math.max(box.y, 0) + 300);
    await until(page, () => document.querySelector("#chosen code").textContent.includes("deeper"));
    await page.evaluate(() => scrollTo(0, 0));
    await until(page, () => Number(document.querySelector("canvas.flame").dataset.top) === 0);
    await page.focus("canvas.flame");
    for (let i = 0; i < 60; i++) await page.keyboard.press("ArrowDown");
    await until(page, () => Number(document.querySelector("canvas.flame").dataset.top) > 5);
  });

  test_("the resident set can be hidden", async () => {
    const page = await at(of("phases"), "#/overview");
    await page.click("main button ::-p-text(Hide the resident set)");
    await until(page, () => location.hash.includes("rss=0"));
    assert.equal(await page.$("i.resident"), null);
    await page.keyboard.press("r");
    await page.waitForSelector("i.resident");
  });

  test_("a link shows the same again, and back leads back", async () => {
    const page = await at(of("phases"), "#/functions?q=second&sort=allocations");
    assert.equal((await page.$$("main tbody tr")).length, 1);
    assert.equal(await page.$eval("#search", (it) => it.value), "second");
    await page.click("nav a:nth-of-type(3)");
    await until(page, () => location.hash.startsWith("#/flame"));
    await page.goBack();
    await until(page, () => location.hash.startsWith("#/functions"));
    assert.equal((await page.$$("main tbody tr")).length, 1);
    await go(page, "#/nonsense?r=x&z=%%&p=99");
    assert.equal(await text(page, 'nav [aria-current="page"]'), "Overview");
  });

  test_("tables sort by their headings, both ways", async () => {
    const page = await at(of("phases"), "#/functions");
    const names = () => page.$$eval("main tbody b", (all) => all.map((it) => it.textContent));
    const heading = 'th button ::-p-text(Allocations)';
    assert.deepEqual(await names(), ["first_phase", "second_phase"]);
    await page.click(heading);
    assert.deepEqual(await names(), ["second_phase", "first_phase"]);
    assert.equal(await page.$eval('th[aria-sort="descending"]', (it) => it.textContent), "Allocations ↓");
    await page.click(heading);
    assert.deepEqual(await names(), ["first_phase", "second_phase"]);
    assert.equal(await page.$eval('th[aria-sort="ascending"]', (it) => it.textContent), "Allocations ↑");
  });

  test_("what is of the whole run says so while a range is chosen", async () => {
    const recording = all.record("phases");
    const page = await at(all.page(recording), "#/tables?t=sizes");
    assert.ok(!(await text(page, "main")).includes("of the whole run"));
    await page.keyboard.press("]");
    await until(page, () => location.hash.includes("r="));
    for (const [table, by] of [["Sizes", "size"], ["Entry points", "entry"], ["Processes", "process"]]) {
      await page.click(`.choice button ::-p-text(${table})`);
      await until(page, (it) => document.querySelector("main p.quiet code")?.textContent.includes(`--by ${it}`), by);
      const command = await text(page, "main p.quiet code");
      assert.match(command, /^allotrope report FILE --from [\d.]+s --to [\d.]+s --by [a-z]+$/);
      // The command is one that report takes.
      all.run(allotrope, command.split(" ").slice(1).map((it) => (it === "FILE" ? recording : it)));
    }
    // On a busy machine nothing may be allocated in the first tenth: up to the peak all is.
    await go(page, "#/timeline");
    await page.click('.choice button ::-p-text(Up to the peak)');
    await until(page, () => location.hash.includes("r="));
    await page.keyboard.press("4");
    await page.waitForSelector("main button.row");
    assert.match(await text(page, "main thead"), /Mean life \(run\)/);
    await page.click("main button.row");
    const headings = await page.$$eval("tr.detail h2", (all) => all.map((it) => it.textContent));
    assert.match(headings[0], /stacks?, by bytes (allocated in|alive at the end of) the range$/);
    assert.ok(headings.slice(1).every((it) => it.endsWith(" · whole run")), headings.join());
  });

  /** So many stacks at so many times that sites have wider buckets. */
  test_("ranges of a million allocations are those of the report, or say how far off they are", async () => {
    const source = readFileSync(new URL("../../crates/command/tests/programs/figures.c", import.meta.url), "utf8");
    const recording = all.record("many-sites", ["many_sites", "14", "300"], [], all.compile("figures", source));
    const whole = all.report(recording).processes[0].totals;
    assert.ok(whole.allocations > 1e6, String(whole.allocations));
    const page = await at(all.page(recording), "#/timeline");
    assert.match(await text(page, "main"), /sites? with times in buckets up to \d+ times as wide/);
    const [length, seconds] = [await page.$eval("h1.range", (it) => Number(it.dataset.to)), (ns) => (ns / 1e9).toFixed(9)];
    for (const [first, last] of [[0, 0.3], [0.21, 0.24], [0.4, 0.9], [0.55, 1]]) {
      const before = await hash(page);
      await go(page, `#/timeline?mode=allocated&r=${seconds(length * first)}-${seconds(length * last)}`);
      await until(page, (it) => location.hash !== it && document.querySelector("h1.range small").textContent.includes(" of "), before);
      const [from, to] = await page.$eval("h1.range", (it) => [Number(it.dataset.from), Number(it.dataset.to)]);
      const options = ["--from", `${seconds(from)}s`, ...(to < length ? ["--to", `${seconds(to)}s`] : [])];
      const { totals } = all.report(recording, ...options).processes[0];
      const modes = await page.$$eval(".modes button", (all) =>
        all.map((it) => {
          const { mode, blocks, bytes } = it.querySelector("strong").dataset;
          return [mode, Number(blocks), Number(bytes), it.textContent.includes("±")];
        }),
      );
      const of_ = Object.fromEntries(modes.map(([mode, ...rest]) => [mode, rest]));
      assert.deepEqual(of_.allocated, [totals.allocations, totals.allocated_bytes, false], options.join(" "));
      assert.deepEqual(of_.kept, [totals.leaked_allocations, totals.leaked_bytes, false], options.join(" "));
      // All but a few blocks are those of one function.
      const cells = await page.$$eval("main tbody tr", (all) => {
        const rows = all.map((row) => [...row.cells].map((it) => it.textContent));
        return rows.find(([name]) => name.startsWith("deep"));
      });
      // "740,707", or "740,707 ± 58"
      const number = cells.find((it) => /^[\d,]+( ± [\d,]+)?$/.test(it.trim()));
      const [blocks, off = 0] = number.split("±").map((it) => Number(it.replaceAll(",", "")));
      assert.ok(Math.abs(blocks - totals.allocations) <= off + 10, `${cells.join()}, but ${totals.allocations}`);
    }
  });

  test_("a long command leaves room for the other columns", async () => {
    const page = await at(of("long", ["forks", ...Array(20).fill("an-argument")]), "#/tables?t=processes&each=1");
    for (const width of [1280, 390]) {
      await page.setViewport({ width, height: 1000 });
      assert.ok(await page.$eval(".table", (it) => it.scrollWidth <= it.clientWidth), `at ${width}`);
    }
    await page.type("#search", "no such process");
    await until(page, () => document.querySelector("main .table").textContent.includes("No process matches."));
  });

  test_("searching says how many functions and what share", async () => {
    const page = await at(of("phases"), "#/flame?w=allocations");
    await page.type("#search", "first_ph");
    // 10 of 30 allocations.
    await until(page, () => document.querySelector(".search .quiet").textContent === "1\u00a0function · 33.3\u00a0%");
    await until(page, () => location.hash.includes("q=first_ph"));
  });

  test_("everything can be done with the keyboard", async () => {
    const page = await at(of("phases"));
    const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
    await press("4");
    await until(page, () => location.hash === "#/functions");
    await press("j", "j", "k", "Enter");
    await until(page, () => document.querySelector("tr.detail .frames") !== null);
    const frames = await page.$$eval(".frames code", (all) => all.map((it) => it.textContent));
    assert.deepEqual(frames.slice(0, 2), ["first_phase", "main"]);
    await press("Escape");
    await until(page, () => document.querySelector("tr.detail") === null);
    await press("/");
    await page.keyboard.type("second");
    await until(page, () => document.querySelectorAll("main tbody tr").length === 1);
    await press("Escape", "Escape", "]");
    await until(page, () => location.hash.includes("r="));
    const before = await hash(page);
    await press("]");
    await until(page, (it) => location.hash !== it, before);
    await press("Escape");
    await until(page, () => !location.hash.includes("r="));
    await press("3");
    // A graph that is opened by its key has the focus.
    await until(page, () => document.activeElement?.className === "flame");
    await press("ArrowDown", "ArrowDown", "ArrowDown");
    await until(page, () => /main|phase/.test(document.querySelector(".strip code").textContent));
    await press("Enter");
    await until(page, () => location.hash.includes("z="));
    await press("Escape");
    await until(page, () => !location.hash.includes("z="));
    await press("i", "l");
    await until(page, () => location.hash.includes("from=allocation") && location.hash.includes("lib=1"));
    await press("?");
    await page.waitForSelector("dialog[open]");
    await press("Escape");
    await until(page, () => document.querySelector("dialog") === null);
  });

  test_("dark and light follow the system, and the switch", async () => {
    const page = await at(of("phases"), "", { theme: "dark" });
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(await ground(), "rgb(15, 18, 22)");
    await page.keyboard.press("d");
    assert.equal(await ground(), "rgb(255, 255, 255)");
    await page.reload();
    await page.waitForSelector("main h1");
    assert.equal(await ground(), "rgb(255, 255, 255)");
    await page.evaluate(() => localStorage.clear());
  });

  test_("findings lead to the view that proves them", async () => {
    const page = await at(of("kept"));
    const links = await page.$$(".findings button.link");
    for (let i = 0; i < links.length; i++) {
      await go(page, "#/overview");
      await (await page.$$(".findings button.link"))[i].click();
      await until(page, () => !location.hash.startsWith("#/overview"));
    }
  });

  test_("nobody is left out: axe finds nothing", async () => {
    const file = of("threads");
    for (const theme of ["light", "dark"]) {
      const page = await at(file, "", { theme });
      await page.evaluate(axe);
      for (const view of ["overview", "timeline?r=0.005-0.02", "flame?q=work", "functions", "tables", "tables?t=sizes", "tables?t=processes"]) {
        await go(page, `#/${view}`);
        const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
        const shown = found.violations.map((it) => `${view} ${theme}: ${it.id}: ${it.nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`);
        assert.deepEqual(shown, []);
      }
      await go(page, "#/functions");
      await page.click("main button.row");
      const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa"] }));
      assert.deepEqual(found.violations.map((it) => `${it.id} ${it.nodes[0].html}`), []);
    }
  });

  test_("hostile names stay text", async () => {
    const evil = "evil</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>\u202etxt";
    const long = `${"l".repeat(9_990)}end`;
    const file = of("names", ["names"], [], all.renamed({ evil, long_name: long }));
    assert.ok(!readFileSync(file, "utf8").includes("owned"));
    for (const view of ["overview", "timeline", "flame", "functions"]) {
      const page = await at(file, `#/${view}`);
      assert.equal(await page.title(), "names · Allotrope");
      assert.equal((await page.$$("img")).length, 0);
      if (view !== "flame") {
        const shown = await page.$$eval("main .function", (names) => names.map((it) => it.title));
        const escaped = evil.replace("\u202e", "\\u{202e}");
        assert.ok(shown.some((it) => it.includes(escaped)), shown.join("\n").slice(0, 500));
        assert.ok(shown.some((it) => it.includes(long)));
        assert.ok(!shown.join("").includes("\u202e"));
      }
      assert.ok(await page.evaluate(() => document.body.scrollWidth <= innerWidth), `${view} is too wide`);
    }
  });

  test_("the code around the lines of a stack is shown, and is text", async () => {
    const evil = "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>";
    const code = `#include <stdlib.h>
#include <string.h>

void *volatile kept;

__attribute__((noipa)) void *with_code(void) {
    /* ${evil} \u202etxt */
\treturn malloc(100); /* the place */
    /* after */
}

int main(void) {
    kept = with_code(); /* the caller */
    return 0;
}
`;
    const recording = all.record("code", [], [], all.compile("code", code));
    const file = all.page(recording, "--source");
    assert.ok(!readFileSync(file, "utf8").includes("owned"));
    const page = await at(file, "#/functions");
    await page.click("main button.row");
    const lines = () => page.$$eval("pre.source span", (all) => all.map((it) => [it.className, it.textContent]));
    const shown = await lines();
    // Line 8 and three lines around it, as they are in the file.
    assert.deepEqual(shown.map(([, text]) => Number.parseInt(text.replace("▸", ""), 10)), [5, 6, 7, 8, 9, 10, 11]);
    assert.deepEqual(shown.filter(([name]) => name === "at").map(([, text]) => text), ["▸8        return malloc(100); /* the place */"]);
    assert.ok(shown[2][1].includes(evil) && shown[2][1].includes("\\u{202e}txt"), shown[2][1]);
    assert.equal(await page.title(), "code · Allotrope");
    assert.equal((await page.$$("img")).length, 0);
    // The caller's code is closed at first.
    await page.click('.frames button.place[aria-expanded="false"]');
    await until(page, () => document.querySelectorAll("pre.source").length === 2);
    assert.ok((await lines()).some(([name, text]) => name === "at" && text.includes("/* the caller */")));
    await page.click(".frames li.head button.place");
    await until(page, () => document.querySelectorAll("pre.source").length === 1);
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa"] }));
    assert.deepEqual(found.violations.map((it) => `${it.id} ${it.nodes[0].html}`), []);
    assert.ok(await page.evaluate(() => document.body.scrollWidth <= innerWidth));
    // Without --source there is none.
    const without = await at(all.page(recording), "#/functions");
    await without.click("main button.row");
    assert.equal((await without.$$("pre.source, .frames button.place")).length, 0);
  });

  test_("allotrope view serves the page, and its policy lets all of it work", async () => {
    const server = await all.view(all.record("phases"), "--source");
    try {
      const page = await openUrl(browser, server.url, "#/functions");
      pages.push(page);
      await page.click("main button.row");
      assert.match(await text(page, "pre.source"), /malloc\(1000\)/);
      // Styles that scripts set, canvases and links work as in a file.
      await page.keyboard.press("2");
      await until(page, () => document.querySelector(".lane .u-over")?.clientWidth > 100);
      await page.keyboard.press("3");
      await until(page, () => Number(document.querySelector("canvas.flame")?.dataset.cells) > 1);
      await page.keyboard.press("d");
      assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(15, 18, 22)");
      await page.reload();
      await page.waitForSelector("canvas.flame");
      // What is not the page's own does not run.
      const ran = await page.evaluate(() => {
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        document.body.append(script);
        return window.ran === true;
      });
      assert.equal(ran, false);
      assert.equal(page.problems.length, 1);
      assert.match(page.problems.pop(), /Content Security Policy/);
      await page.evaluate(() => localStorage.clear());
    } finally {
      assert.equal(await server.end(), 143);
    }
  });

  test_("the overview and the functions can be printed", async () => {
    for (const theme of ["light", "dark"]) {
      for (const [view, words] of [
        ["overview", ["at the peak", "Memory over the run", "What stands out", "first_phase", "second_phase", "15.6", "program.c"]],
        ["functions", ["Functions and sites", "first_phase", "second_phase", "Who frees", "Sizes", "malloc(1000)"]],
      ]) {
        const page = await at(all.page(all.record("phases"), "--source"), `#/${view}`, { theme });
        if (view === "functions") await page.click("main button.row");
        const widths = () => page.$$eval("main canvas", (all) => all.map((it) => it.clientWidth));
        const before = await widths();
        // As it is on paper of 210 mm with margins of 12 mm.
        await page.emulateMediaType("print");
        await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
        assert.ok((await widths()).every((width) => width <= 700), `${before} ${await widths()}`);
        assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
        await page.setViewport({ width: 703, height: 1000 });
        assert.ok(await page.evaluate(() => document.body.scrollWidth <= innerWidth), `${view} is wider than paper`);
        for (const hidden of ["nav", ".controls", ".search", "button.link"]) {
          const rests = await page.$$eval(hidden, (all) => all.filter((it) => it.getClientRects().length > 0).length);
          assert.equal(rests, 0, hidden);
        }
        await page.screenshot({ path: join(screenshots, `print-${view}-${theme}.png`), fullPage: true });
        await page.evaluate(() => dispatchEvent(new Event("afterprint")));
        await page.emulateMediaType();
        await page.setViewport({ width: 1280, height: 1000 });
        await until(page, (widths) => [...document.querySelectorAll("main canvas")].every((it, i) => it.clientWidth === widths[i]), before);
        const pdf = join(screenshots, `print-${view}-${theme}.pdf`);
        await page.pdf({ path: pdf, format: "A4", preferCSSPageSize: true, printBackground: false });
        if (!pdftotext) continue;
        const printed = execFileSync("pdftotext", ["-layout", pdf, "-"]).toString();
        const missing = words.filter((it) => !printed.replaceAll("\u00a0", " ").includes(it));
        assert.deepEqual(missing, [], printed);
        assert.ok(printed.split("\f").length <= 4, "few pages");
      }
    }
    if (!pdftotext) console.log("skipped: the text of printed pages: pdftotext is not installed");
  });

  test_("what was not recorded is absent, and nothing is blank", async () => {
    const cases = [
      [of("none", ["none"]), "", "Nothing was allocated in a run of", ["Overview", "Tables"]],
      [of("one"), "", "One allocation of 100", ["Overview", "Timeline", "Flame graph", "Functions", "Tables"]],
      [of("counts", ["phases"], ["--counts-only"]), "", "30 allocations of 15.6", ["Overview", "Tables"]],
    ];
    for (const [file, fragment, sentence, views] of cases) {
      const page = await at(file, fragment);
      assert.ok((await text(page, "h1")).replaceAll("\u00a0", " ").startsWith(sentence), await text(page, "h1"));
      assert.deepEqual(await page.$$eval("nav a", (all) => all.map((it) => it.textContent)), views);
      for (let i = 1; i <= views.length; i++) {
        await page.keyboard.press(String(i));
        await page.waitForSelector("main > *");
        assert.ok((await text(page, "main")).length > 20);
      }
    }
  });

  test_("the figures of several processes are those of all", async () => {
    // The parent and 80 children, which allocate 100, 101, … bytes.
    const bytes = Array.from({ length: 80 }, (_, i) => 100 + i).reduce((a, b) => a + b);
    const page = await at(of("many", ["many", "80"]), "#/tables?t=processes");
    assert.match(await text(page, "main"), /81.processes of 2.programs: 80.allocations of /);
    await go(page, "#/timeline");
    assert.equal(await page.$eval("[data-mode=allocated]", (it) => Number(it.dataset.bytes)), bytes);
    assert.match(words(await text(page, "main")), /exact, and equal those of allotrope report/);
    await go(page, "#/overview");
    const totals = await page.$$eval(".totals div", (all) => all[1].textContent.replace(/\s+/g, " "));
    assert.equal(totals, `Allocations80 ${(bytes / 1024).toFixed(1)} KiB`);
    await page.focus("select");
    await page.select("select", await page.$eval("select option:nth-of-type(2)", (it) => it.value));
    await until(page, () => location.hash.includes("p="));
    // After the choice, keys are the page's again.
    await page.keyboard.press("3");
    await until(page, () => location.hash.startsWith("#/flame"));
  });

  test_("of very many processes the largest are in full, which every view says", async () => {
    // The parent, which allocates nothing, and 1,100 children; 1,024 are in full.
    const page = await at(of("thousand", ["many", "1100"]), "#/overview");
    assert.match(words(await text(page, ".totals")), /Allocations1,100/);
    const part = "Of the 1,024 processes with most allocations, which made 93.1 % of them. Of 77 other processes only totals are here.";
    for (const view of ["overview", "timeline", "flame", "functions", "tables?t=sizes"]) {
      await go(page, `#/${view}`);
      assert.equal(words(await text(page, "main .part")), part, view);
    }
    await go(page, "#/timeline");
    assert.match(words(await text(page, "main")), /exact for these processes/);
    assert.equal(await page.$eval("[data-mode=allocated]", (it) => Number(it.dataset.blocks)), 1024);
  });

  /** What axe finds on the open page. */
  const violations = async (page) => {
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
    return found.violations.map((it) => `${it.id}: ${it.nodes[0].html} ${it.nodes[0].failureSummary}`);
  };
  /** To be looked at. */
  const shoot = async (page, name) => {
    mkdirSync(screenshots, { recursive: true });
    for (const width of [1280, 390]) {
      await page.setViewport({ width, height: 1000 });
      // The state is written into the address a moment after it changes.
      await page.evaluate(() => new Promise((done) => setTimeout(done, 300)));
      await page.reload();
      await page.waitForSelector("main h1");
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50))));
      await page.screenshot({ path: join(screenshots, `${name}-${width}.png`) });
      assert.ok(await page.evaluate(() => document.body.scrollWidth <= innerWidth), `${name} is too wide at ${width}`);
    }
    await page.setViewport({ width: 1280, height: 1000 });
  };
  const words = (string) => string.replaceAll("\u00a0", " ");

  test_("lost events are hatched, and counted where they are missing", async () => {
    const PAIRS = 1_500_000;
    const path = await all.lossy(PAIRS);
    const report = all.report(path);
    const lost = report.processes[0].lost_events;
    const sums = totals(report);
    // Each event was recorded or counted as lost; with a stopped collector most are lost.
    assert.ok(lost > PAIRS / 2, `${lost}`);
    assert.ok(sums.allocations + sums.deallocations + lost >= 2 * PAIRS);
    const page = await at(all.page(path));
    assert.ok(words(await text(page, ".missing")).startsWith(`${lost.toLocaleString("en-US")} events missing: these totals are too low`));
    for (const view of ["overview", "timeline"]) {
      await go(page, `#/${view}`);
      const note = await page.$eval("p.gaps:not(.missing)", (it) => [it.textContent, Number(it.dataset.gaps), Number(it.dataset.elsewhere)]);
      const warning = report.warnings.find((it) => it.includes(" lost "));
      const counted = [...warning.matchAll(/([\d,]+) because/g)].reduce((sum, [, it]) => sum + Number(it.replaceAll(",", "")), 0);
      assert.match(words(note[0]), /Hatched: [\d,]+ events missing between .* and /);
      assert.ok(note[1] >= 1);
      // Only what addresses imply has no time.
      assert.equal(note[2], lost - counted);
      assert.match(await page.$eval("[role=img]", (it) => it.getAttribute("aria-label")), /hatched where events are missing/);
      assert.deepEqual(await violations(page), []);
      await shoot(page, `lossy-${view}`);
    }
    await go(page, "#/functions");
    await page.waitForSelector(".ribbon .curve");
  });

  test_("a recording that is cut says where, and calls nothing a leak", async () => {
    const path = all.cut(all.record("cut-short", ["flood", "300000"]), 0.6);
    const page = await at(all.page(path));
    const titles = await page.$$eval(".totals dt", (all) => all.map((it) => it.textContent));
    assert.ok(titles.includes("Alive at the cut") && !titles.includes("Leaked"), titles.join());
    assert.match(words(await text(page, "p.gaps:not(.missing)")), /nothing was recorded after .*, and the program went on/);
    assert.match(await text(page, ".notes"), /Incomplete/);
    assert.deepEqual(await violations(page), []);
    await shoot(page, "cut");
    await go(page, "#/timeline");
    assert.match(words(await text(page, "p.gaps")), /nothing was recorded after/);
    await go(page, "#/functions");
    assert.match(await text(page, "main thead"), /Alive at the cut/);
    // A whole one has nothing to hatch.
    const whole = await at(of("churn"));
    assert.equal((await whole.$$(".gaps")).length, 0);
  });

  for (const name of ["rise", "phases", "threads", "churn", "kept"]) {
    test_(`what is alive at the peak is exact: ${name}`, async () => {
      const recording = all.record(name);
      const report = all.report(recording);
      const [process] = report.processes;
      const page = await at(all.page(recording), "#/timeline");
      await page.click("::-p-text(Alive at it)");
      await until(page, () => document.querySelector('[data-mode="alive"]').closest("button").getAttribute("aria-pressed") === "true");
      const alive = await page.$eval('[data-mode="alive"]', (it) => [Number(it.dataset.blocks), Number(it.dataset.bytes)]);
      assert.deepEqual(alive, [process.totals.peak_allocations, process.totals.peak_bytes]);
      if (name === "rise") assert.deepEqual(alive, [40, 40_000]);
      const rows = await page.$$eval("main tbody tr", (all) => all.map((it) => it.querySelector("[title$=bytes]").title));
      const atPeak = new Map();
      for (const site of process.sites) atPeak.set(headOf(report, site), (atPeak.get(headOf(report, site)) ?? 0) + site.bytes_at_peak);
      const expected = [...atPeak.values()].filter((it) => it > 0).sort((a, b) => b - a);
      assert.deepEqual(rows, expected.map((it) => `${it.toLocaleString("en-US")} bytes`));
      const both = await page.$$eval(".heading .choice button", (all) => all.map((it) => it.textContent));
      assert.deepEqual(both, ["Whole run", "Up to the peak", "Alive at it", "After it"]);
      if (name === "rise") {
        await shoot(page, "peak");
        await page.click("::-p-text(After it)");
        await until(page, () => location.hash.includes("r="));
        // After it: 10 blocks of 500 bytes are allocated, 20 of 1000 freed.
        const after = await page.$$eval("[data-mode]", (all) => Object.fromEntries(all.map((it) => [it.dataset.mode, [Number(it.dataset.blocks), Number(it.dataset.bytes)]])));
        assert.deepEqual([after.allocated, after.freed], [[10, 5000], [20, 20_000]]);
      }
    });
  }

  test_("several processes have a curve with a peak and resident sets, and equal ones are one row", async () => {
    const recording = all.record("forks");
    const report = all.report(recording);
    const page = await at(all.page(recording), "#/timeline");
    const label = await page.$eval("[role=img]", (it) => it.getAttribute("aria-label"));
    assert.match(words(label), /^Live bytes of 4 processes over .*: together .* at most, .* after the start$/);
    // The forks, and which process is the child.
    const parent = report.processes.find((it) => it.origin !== "fork").pid;
    const forks = await page.$eval(".track canvas", (it) => it.getAttribute("aria-label"));
    for (const child of report.processes.filter((it) => it.origin === "fork")) assert.ok(forks.includes(`fork: child ${child.pid} of ${parent} at `), forks);
    await shoot(page, "several");
    await go(page, "#/tables?t=processes");
    // The parent, and its three children together.
    const rows = () => page.$$eval("main tbody tr.opens", (all) => all.map((it) => [...it.children].slice(0, 1).concat([...it.children].slice(4, 6)).map((cell) => cell.textContent)));
    const of = (origin) => report.processes.filter((it) => (it.origin === "fork") === origin).map((it) => it.totals.allocations);
    const sum = (list) => list.reduce((a, b) => a + b, 0);
    const merged = await rows();
    const pid = String(report.processes.find((it) => it.origin !== "fork").pid);
    assert.deepEqual(merged.map(([name, allocations]) => [name, allocations]).sort(), [[pid, sum(of(false)).toLocaleString("en-US")], ["×3", sum(of(true)).toLocaleString("en-US")]].sort());
    const sentence = words(await text(page, "main .tools p"));
    assert.ok(sentence.startsWith(`4 processes of 2 programs: ${sum([...of(true), ...of(false)]).toLocaleString("en-US")} allocations of `), sentence);
    await page.click("main tbody tr.opens ::-p-text(×3)");
    await page.waitForSelector(".members");
    assert.equal((await page.$$(".members li")).length, 3);
    assert.deepEqual(await violations(page), []);
    await shoot(page, "programs");
    await page.click("tr.detail ::-p-text(All 3 together)");
    await until(page, () => location.hash.startsWith("#/timeline") && location.hash.includes("p=all"));
    const allocated = await page.$eval('[data-mode="allocated"]', (it) => Number(it.dataset.blocks));
    assert.equal(allocated, sum(of(true)));
    await go(page, "#/tables?t=processes&each=1");
    assert.equal((await rows()).length, 4);
    assert.equal((await page.$$("select optgroup")).length, 1);
  });

  // 10,000 with ALLOTROPE_SLOW: recording them takes a minute on a busy machine.
  const COUNT = process.env.ALLOTROPE_SLOW ? 10_000 : 1_000;
  test_(`of ${COUNT} processes nothing is blank`, async () => {
    const file = of("thousands", ["many", String(COUNT)]);
    assert.ok(statSync(file).size <= 5_000_000);
    const page = await at(file);
    // The parent allocates nothing; child i one block of 100 + i bytes.
    const bytes = COUNT * 100 + (COUNT * (COUNT - 1)) / 2;
    const shown = await page.$$eval(".totals div", (all) => all[1].textContent);
    const mebibytes = (bytes / 1024 / 1024).toFixed(1);
    const kibibytes = (bytes / 1024).toFixed(1);
    const number = (it) => it.toLocaleString("en-US");
    assert.equal(shown.replace(/\s+/g, " "), `Allocations${number(COUNT)} ${bytes < 1024 * 1024 ? `${kibibytes} KiB` : `${mebibytes} MiB`}`);
    await go(page, "#/tables?t=processes");
    const sentence = words(await text(page, "main .tools p"));
    assert.ok(sentence.startsWith(`${number(COUNT + 1)} processes of 2 programs: ${number(COUNT)} allocations`), sentence);
    assert.equal((await page.$$("main tbody tr")).length, 2);
    await page.type("#search", "many");
    await until(page, () => document.querySelectorAll("main tbody tr").length === 50);
    // Of a process that was searched for, the functions are not searched for the same words.
    await page.click("main tbody tr button.row");
    await until(page, () => location.hash.startsWith("#/timeline?p=") && !location.hash.includes("q="));
    for (const view of ["overview", "timeline", "flame", "functions", "tables?t=processes"]) {
      await go(page, `#/${view}`);
      assert.ok((await text(page, "main")).length > 60, view);
      assert.ok(await page.evaluate(() => document.body.scrollWidth <= innerWidth), view);
    }
    assert.deepEqual(await violations(page), []);
    await shoot(page, "thousands");
  });

  test_("estimates have their intervals, samples and ranks", async () => {
    const path = await all.sampled();
    if (path === null) {
      console.log("skipped: the page of a sampled profile: this machine cannot watch");
      return;
    }
    const page = await at(all.page(path));
    assert.match(await text(page, "h1"), /^About .* live after .*: .* of it in live\.$/);
    const report = all.report(path);
    const interval = await page.$eval(".totals .uncertain", (it) => it.title);
    const ends = [report.totals.live_bytes_low, report.totals.live_bytes_high].map((it) => it.toLocaleString("en-US"));
    assert.equal(interval, `${ends[0]} to ${ends[1]}, with 95 % confidence`);
    // Each function has the interval of the report, its samples and its rank.
    await go(page, "#/functions");
    const sites = report.processes[0].sites;
    const one = sites.find((site) => headOf(report, site) === "live");
    const row = await page.$eval("main tbody tr.opens", (it) => [it.querySelector("b").textContent, it.querySelector(".uncertain").title, it.querySelector(".uncertain small").textContent, it.children[1].textContent]);
    assert.equal(row[0], "live");
    const number = (it) => it.toLocaleString("en-US");
    assert.equal(row[1], `${number(one.live_bytes_low)} to ${number(one.live_bytes_high)}, with 95 % confidence`);
    assert.ok(words(row[2]).endsWith(` · ${number(one.live_samples)} samples`), row[2]);
    assert.equal(row[3], "1");
    // Of three blocks there are at most three samples; each is one with a probability of 98 %.
    const few = sites.filter((site) => headOf(report, site) === "few").reduce((sum, it) => sum + it.live_samples, 0);
    const seen = await page.$$eval("main tbody tr.opens", (all) => all.filter((it) => it.querySelector("b").textContent === "few").map((it) => it.querySelector(".uncertain").textContent));
    assert.ok(few >= 1 && few <= 3);
    assert.match(words(seen[0]), new RegExp(`^seen .* · ${few} samples?$`));
    await page.click("main button.row");
    await page.waitForSelector(".stacks .uncertain");
    assert.equal(await page.$eval(".stacks .uncertain", (it) => it.title), row[1]);
    assert.deepEqual(await violations(page), []);
    await shoot(page, "sampled");
    await page.keyboard.press("2");
    await page.waitForSelector("canvas.flame");
  });

  // To be looked at: target/page-screenshots.
  test_("each view fits a desktop and a phone, light and dark", async () => {
    const file = of("threads");
    for (const theme of ["light", "dark"]) {
      for (const width of [1280, 390]) {
        const page = await at(file, "", { theme, width });
        for (const view of ["overview", "timeline?r=0.005-0.02", "flame?w=allocations", "functions", "tables"]) {
          await go(page, `#/${view}`);
          if (view === "functions") await page.click("main button.row");
          const name = `${view.split("?")[0]}-${width}-${theme}.png`;
          await page.screenshot({ path: join(screenshots, name) });
          assert.ok(await page.evaluate(() => document.body.scrollWidth <= innerWidth), `${name} is too wide`);
        }
      }
    }
  });

  // Before: first_phase allocates 10 blocks of 1000 bytes, second_phase 20 of 300. After: evil 7
  // of 24, long_name 3 of 40. So two entries are gone and two are new.
  const compared = () => all.comparison(all.record("phases"), all.record("two", ["names"]));
  const rows = (page) => page.$$eval(".changes tr.opens", (all) => all.map((it) => [...it.querySelectorAll("td")].slice(0, 6).map((cell) => cell.textContent.replaceAll("\u00a0", " ").trim())));

  test_("comparison: opens with the answer, and has the entries of diff", async () => {
    const page = await at(compared());
    const totals = () => page.$$eval(".totals div", (all) => all.map((it) => it.textContent.replace(/\s+/g, " ").trim()));
    // 16,000 bytes before, 288 after: of the bytes a larger part is gone than of the allocations.
    assert.equal((await text(page, "h1")).replaceAll("\u00a0", " "), "Allocated bytes fall from 15.6 KiB to 288 B: −9.8 KiB in first_phase.");
    assert.deepEqual(await totals(), ["Before15.6 KiB", "After288 B", "Difference▼ 15.3 KiB −98.2 %"]);
    await page.click(".choice button ::-p-text(Allocations)");
    await until(page, () => document.querySelector("h1").textContent.startsWith("Allocations"));
    // 30 allocations before, 10 after.
    assert.equal(await text(page, "h1"), "Allocations fall from 30 to 10: −20 in second_phase.");
    assert.deepEqual(await totals(), ["Before30", "After10", "Difference▼ 20 −66.7 %"]);
    const shown = await rows(page);
    const figures = shown.map(([kind, , , before, after, difference]) => [kind, before, after, difference]);
    assert.deepEqual(figures, [["− gone", "20", "0", "−20"], ["− gone", "10", "0", "−10"], ["+ new", "0", "7", "+7"], ["+ new", "0", "3", "+3"]]);
    for (const [metric, name] of [["allocations", "Allocations"], ["bytes", "Bytes"], ["peak", "Peak bytes"]]) {
      const diff = all.diff(all.record("phases"), all.record("two", ["names"]), "--metric", metric);
      await page.click(`.choice button ::-p-text(${name})`);
      await until(page, (it) => document.querySelector(".compared [aria-pressed=true]").textContent === it, name);
      const blamed = diff.entries.map((it) => diff.frames[it.blame].function);
      assert.deepEqual(await page.$$eval(".changes tr.opens .function b", (all) => all.map((it) => it.textContent)), blamed, metric);
      const exact = await page.$$eval(".totals strong", (all) => all.map((it) => Number(it.title.replaceAll(",", ""))));
      assert.deepEqual(exact, [diff.before, diff.after, diff.difference], metric);
    }
    assert.equal(await page.title(), "phases ↔ two · Allotrope");
    assert.ok(statSync(compared()).size <= 5_000_000);
  });

  test_("comparison: sorts, filters by kind and by words, and a link shows the same", async () => {
    const page = await at(compared(), "#/changes?m=allocations");
    const differences = async () => (await rows(page)).map((it) => it[5]);
    await page.click("th button ::-p-text(After)");
    assert.deepEqual((await differences()).slice(0, 2), ["+7", "+3"]);
    await page.click("th button ::-p-text(less | more)");
    assert.deepEqual(await differences(), ["+7", "+3", "−10", "−20"]);
    await page.click(".choice button ::-p-text(gone)");
    assert.deepEqual(await differences(), ["−10", "−20"]);
    await page.type("#search", "first_ph");
    await until(page, () => document.querySelectorAll(".changes tr.opens").length === 1);
    await until(page, () => location.hash.includes("q=first_ph"));
    assert.match(await hash(page), /^#\/changes\?m=allocations&k=gone&q=first_ph&sort=signed$/);
    const again = await at(compared(), await hash(page));
    assert.deepEqual(await rows(again), await rows(page));
    assert.equal(await text(again, ".search .quiet"), "1\u00a0entry, −10");
    await go(again, "#/nonsense?m=none&k=none&row=99&z=%%&sort=x");
    assert.equal((await rows(again)).length, 4);
  });

  test_("comparison: everything can be done with the keyboard", async () => {
    const page = await at(compared());
    const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
    await press("j", "j", "k", "Enter");
    await until(page, () => document.querySelector("tr.detail .frames") !== null);
    const frames = await page.$$eval(".frames code", (all) => all.map((it) => it.textContent));
    assert.deepEqual(frames.slice(0, 2), ["first_phase", "main"]);
    assert.equal(await text(page, ".frames li.head code"), "first_phase");
    await press("Escape");
    await until(page, () => document.querySelector("tr.detail") === null);
    await press("m");
    await until(page, () => location.hash === "#/changes?m=allocations");
    await press("/");
    await page.keyboard.type("evil");
    await until(page, () => document.querySelectorAll(".changes tr.opens").length === 1);
    await press("Escape", "Escape", "2");
    await until(page, () => location.hash.startsWith("#/flame") && document.activeElement?.className === "flame");
    await press("ArrowDown", "ArrowDown", "ArrowDown");
    // The widest: 20 allocations that are gone.
    await until(page, () => /second_phase/.test(document.querySelector(".strip code").textContent));
    assert.match(await text(page, ".strip"), /− second_phase.*20 → 0 \(−20\)/);
    await press("Enter");
    await until(page, () => location.hash.includes("z="));
    await press("Escape");
    await until(page, () => !location.hash.includes("z="));
    await press("i", "l");
    await until(page, () => location.hash.includes("from=allocation") && location.hash.includes("lib=1"));
    await press("?");
    await page.waitForSelector("dialog[open]");
    await press("Escape");
    await until(page, () => document.querySelector("dialog") === null);
    await page.goBack();
    await until(page, () => location.hash.startsWith("#/changes"));
    const dark = await at(compared(), "", { theme: "dark" });
    const ground = () => dark.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(await ground(), "rgb(15, 18, 22)");
    await dark.keyboard.press("d");
    assert.equal(await ground(), "rgb(255, 255, 255)");
    await dark.evaluate(() => localStorage.clear());
  });

  test_("comparison: hostile names stay text", async () => {
    const evil = "evil</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>\u202etxt";
    const long = `${"l".repeat(9_990)}end`;
    const hostile = all.record("hostile", ["names"], [], all.renamed({ evil, long_name: long }));
    const file = all.comparison(all.record("phases"), hostile);
    assert.ok(!readFileSync(file, "utf8").includes("owned"));
    for (const fragment of ["#/changes?row=2", "#/flame"]) {
      const page = await at(file, fragment);
      assert.match(await page.title(), /↔ hostile · Allotrope$/);
      assert.equal((await page.$$("img")).length, 0);
      if (fragment.includes("row")) {
        const shown = await page.$$eval("main .function", (names) => names.map((it) => it.title));
        assert.ok(shown.some((it) => it.includes(evil.replace("\u202e", "\\u{202e}"))), shown.join("\n").slice(0, 500));
        assert.ok(shown.some((it) => it.includes(long)));
        assert.ok(!(await text(page, "main")).includes("\u202e"));
      }
      assert.ok(await page.evaluate(() => document.body.scrollWidth <= innerWidth), `${fragment} is too wide`);
    }
  });

  test_("comparison: what differs in a stack that only moved is marked", async () => {
    const file = (name, text) => {
      writeFileSync(all.path(name), text);
      return all.path(name);
    };
    const before = file("folded-before", "main;work;old_name;take 50\nmain;work;steady 500\n");
    const after = file("folded-after", "main;work;new_name;take 50\nmain;work;steady 510\n");
    const page = await at(all.comparison(before, after), "#/changes?k=moved&row=1");
    assert.deepEqual(await rows(page), [["→ moved", "new_name", "old_name → new_name", "50", "50", "0"]]);
    assert.equal(await text(page, ".frames li.differs code"), "new_name");
    assert.equal(await text(page, ".frames li.differs em"), "was old_name ");
    // Files of folded stacks have no times.
    assert.equal((await page.$$(".curve")).length, 0);
    await page.keyboard.press("Escape");
    await page.emulateMediaType("print");
    assert.equal(await page.$eval(".changes .search", (it) => getComputedStyle(it).display), "none");
  });

  test_("comparison: nothing on a side, and nothing different, are said", async () => {
    const [nothing, phases] = [all.record("none", ["none"]), all.record("phases")];
    const empty = await at(all.comparison(nothing, nothing));
    assert.equal(await text(empty, "h1"), "Nothing was allocated on either side.");
    assert.match(await text(empty, "main"), /Nothing is different\./);
    await empty.keyboard.press("2");
    await until(empty, () => document.querySelector("main").textContent.includes("Nothing to draw"));
    const same = await at(all.comparison(phases, phases));
    assert.equal(await text(same, "h1"), "Allocations: 30 on both sides, and nothing is different.");
    const fresh = await at(all.comparison(nothing, phases));
    assert.equal(await text(fresh, "h1"), "Allocations rise from 0 to 30: +20 in second_phase.");
    assert.deepEqual((await rows(fresh)).map((it) => it[0]), ["+ new", "+ new"]);
  });

  test_("comparison: sampled profiles say what may be chance", async () => {
    const path = await all.sampled();
    if (path === null) {
      console.log("skipped: the comparison of sampled profiles: this machine cannot watch");
      return;
    }
    const page = await at(all.comparison(path, path), "#/changes?m=leaked");
    assert.match(await text(page, "h1"), /^Leaked bytes: about .* before and .* after, which is not distinguishable from chance\.$/);
    assert.match(await text(page, "main"), /estimates; from – to .* The difference is not distinguishable from chance/);
    // Beside an exact side only the sampled one is an estimate.
    const beside = await at(all.comparison(path, all.record("one")), "#/changes?m=leaked");
    assert.match(words(await text(beside, "h1")), /from about \S+ \S+ to 100 B/);
    const totals = await beside.$$eval(".totals div", (them) => them.map((it) => it.textContent));
    assert.match(words(totals[0]), /^Beforeabout .* – /);
    assert.match(words(totals[1]), /^After100 B/);

  });

  test_("comparison: axe finds nothing, and it fits a desktop and a phone", async () => {
    mkdirSync(screenshots, { recursive: true });
    for (const theme of ["light", "dark"]) {
      for (const width of [1280, 390]) {
        const page = await at(compared(), "", { theme, width });
        await page.evaluate(axe);
        for (const view of ["changes?m=bytes&row=0", "flame?m=bytes", "flame?q=phase"]) {
          await go(page, `#/${view}`);
          const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
          const shown = found.violations.map((it) => `${view} ${theme}: ${it.id}: ${it.nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`);
          assert.deepEqual(shown, []);
          const name = `comparison-${view.split("?")[0]}${view.includes("q=") ? "-search" : ""}-${width}-${theme}.png`;
          await page.screenshot({ path: join(screenshots, name) });
          assert.ok(await page.evaluate(() => document.body.scrollWidth <= innerWidth), `${name} is too wide`);
        }
      }
    }
  });

  /** Runs a test with the page of an allocator report and its JSON. */
  const testAllocators = (name, run) =>
    test_(`allocators: ${name}`, async () => {
      const report = all.allocators();
      if (report === null) console.log("skipped: the page of allocators: the kernel refuses ptrace");
      else await run(report.page, report.json);
    });
  const cells = (page, caption) => page.$$eval("main table", (tables, title) => [...tables.find((it) => it.caption.textContent.startsWith(title)).tBodies[0].rows].map((row) => [...row.cells].map((it) => it.textContent.replaceAll("\u00a0", " ").trim())), caption);

  testAllocators("opens with the answer, and has the figures of the JSON", async (file, json) => {
    const page = await at(file);
    assert.equal(await page.title(), "words: allocators · Allotrope");
    assert.equal(await text(page, "h1"), json.summary[0]);
    assert.deepEqual((await page.$$eval(".answers:first-of-type li", (all) => all.map((it) => it.textContent))).slice(0, json.summary.length - 1), json.summary.slice(1));
    const rows = await cells(page, "Allocators");
    assert.deepEqual(rows.map((it) => it[0]), ["glibc", "old", "new", "missing"]);
    const words = { less: "faster", more: "slower", tied: "tied", unknown: "one run does not tell" };
    json.allocators.slice(0, 3).forEach((it, i) => {
      const { median, low, high } = it.ns_per_operation;
      assert.equal(rows[i][1], `${median.toFixed(1)} ns ${low.toFixed(1)} – ${high.toFixed(1)}`);
      assert.equal(rows[i][2], i === 0 ? "–" : words[it.compared]);
      assert.equal(rows[i][3], it.instructions[0].mean.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 }));
      assert.equal(rows[i][5], `${it.peak_overhead.toFixed(2)}×`);
    });
    // What was not measured is not 0.
    assert.deepEqual(rows[3].slice(1), ["unavailable", "not measured", ...Array(4).fill("unavailable")]);
    assert.ok((await page.$$("svg .whisker")).length >= 3);
    // Each free of the old one calls getenv; the new one's does not.
    assert.match(await text(page, "main"), /old: free looks up the environment in 100\.0% of its operations/);
    const changes = await cells(page, "Instructions an operation, before and after");
    const change = (name) => changes.find((it) => it[0] === name)[4];
    assert.match(change("free"), /^▼ −/);
    assert.equal(change("malloc"), "the same");
    // The curves are those of the points; that of the one that was not measured is not there.
    const { label, shown } = await page.$eval("main .curve", (it) => ({ label: it.getAttribute("aria-label"), shown: it.parentElement.querySelector(".legend").textContent }));
    const live = Math.max(...json.allocators[0].points.map((it) => it.live_bytes));
    assert.equal(live, json.recording.peak_live_bytes);
    for (const name of ["glibc", "old", "new"]) assert.ok(label.includes(`${name}: at most `) && shown.includes(`${name}: at most `), label);
    assert.ok(!label.includes("missing"));
    assert.ok(await page.$eval("main .curve canvas", (it) => it.width > 0));
    // The one that was not measured stays last, both ways.
    for (const direction of ["time", "-time"]) {
      await go(page, `#/summary?sort=${direction}`);
      assert.equal((await cells(page, "Allocators"))[3][0], "missing");
    }
  });

  testAllocators("paths have the report's parts, and calls that have no business are marked", async (file, json) => {
    const page = await at(file, "#/paths?a=old");
    const old = json.allocators[1];
    const percent = (part) => `${(part * 100).toFixed(1)} %`;
    const rows = await cells(page, "Paths");
    assert.equal(rows.length, old.paths.length);
    for (const path of old.paths) {
      const name = path.functions.map((it) => it.function + (it.allocator ? "" : "*")).join(" → ");
      const row = rows.find((it) => it[0] === name && it[1] === path.entry_point);
      assert.deepEqual(row.slice(2, 4), [percent(path.share_of_operations), percent(path.share_of_instructions)]);
    }
    const callees = await cells(page, "Callees");
    const line = readFileSync(all.path("allocator.c"), "utf8").split("\n").findIndex((it) => it.includes("getenv(")) + 1;
    const getenv = callees.find((it) => it[0] === "getenv");
    assert.equal(getenv[1], "! environment");
    assert.match(getenv[2], new RegExp(`allocator\\.c:${line}$`));
    // Memory functions are an allocator's business.
    assert.ok(callees.filter((it) => it[1].includes("memory")).every((it) => it[1] === "memory"));
    await page.type("#search", "getenv");
    await until(page, () => location.hash.includes("q=getenv"));
    // All paths of free have it, no other one.
    assert.deepEqual(new Set((await cells(page, "Paths")).map((it) => it[1])), new Set(["free"]));
    const again = await at(file, await hash(page));
    assert.equal(await again.$eval("#search", (it) => it.value), "getenv");
    assert.deepEqual(await cells(again, "Paths"), await cells(page, "Paths"));
    await go(again, "#/nonsense?a=none&row=99&z=%%&sort=x");
    assert.equal(await text(again, 'nav [aria-current="page"]'), "Summary");
  });

  testAllocators("what lies inside the noise is tied", async (file, json) => {
    // Measured figures are not the same on every machine, so these are made up.
    const changed = structuredClone(json);
    const [, old] = changed.allocators;
    old.compared = "tied";
    old.ns_per_operation = { median: 10, low: 5, high: 15 };
    changed.changes[0].time = { ...changed.changes[0].time, measured_saving_ns: -1, measured_saving_ns_error: 4, verdict: "tied" };
    Object.assign(changed.switching, { from: "glibc", unknown: null });
    changed.switching.to = [{ name: "old", worth: "no", why: null, saved_seconds: 0.001, saved_seconds_error: 0.01, saved_share: 0.01, saved_share_error: 0.05, saved_peak_rss_bytes: 100, saved_peak_rss_bytes_error: 10 }];
    const page = await at(all.changedAllocators(file, changed));
    const row = (await cells(page, "Allocators"))[1];
    assert.deepEqual(row.slice(0, 3), ["old", "10.0 ns 5.0 – 15.0", "tied"]);
    const [switched] = await cells(page, "What switching saves");
    assert.deepEqual(switched.slice(0, 3), ["old", "no", "1.0 % ±5.0 % inside the noise"]);
    assert.equal(switched[4], "100 B ±10 B");
    assert.match(await text(page, "main"), /−1\.0.ns ±4\.0.ns, tied/);
  });

  testAllocators("the earlier version has its own flame graph, paths and callees", async (file, json) => {
    const page = await at(file);
    await page.keyboard.press("b");
    await until(page, () => location.hash === "#/paths?a=new&v=before");
    const { before } = json.changes[0];
    const mean = (it) => it.instructions[0].mean.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
    assert.equal(await text(page, "h1"), `new, before the change: ${mean(before)} instructions an operation`);
    assert.match(await text(page, "main > .facts"), new RegExp(`· ${mean(json.allocators[2])} after the change$`));
    // It is the library that `old` is, and it is stepped through the same operations.
    const tables = async (tab) => [await cells(tab, "Paths"), await cells(tab, "Callees"), await tab.$eval("canvas.flame", (it) => it.dataset.cells)];
    const old = await at(file, "#/paths?a=old");
    assert.deepEqual(await tables(page), await tables(old));
    const getenv = (rows) => rows.filter((it) => it[0] === "getenv").length;
    assert.equal(getenv(await cells(page, "Callees")), 1);
    await page.bringToFront();
    await page.focus("canvas.flame");
    for (const key of ["ArrowDown", "Enter"]) await page.keyboard.press(key);
    await until(page, () => location.hash.includes("z="));
    await page.keyboard.press("b");
    await until(page, () => location.hash === "#/paths?a=new");
    assert.equal(await text(page, "h1"), `new: ${mean(json.allocators[2])} instructions an operation`);
    assert.equal(getenv(await cells(page, "Callees")), 0);
    await page.click('[aria-label="Version"] button:first-child');
    await until(page, () => location.hash === "#/paths?a=new&v=before");
    // The next allocator has no earlier version.
    await page.keyboard.press("a");
    await until(page, () => location.hash === "#/paths");
    assert.equal(await page.$('[aria-label="Version"]'), null);
  });

  testAllocators("everything can be done with the keyboard", async (file) => {
    const page = await at(file);
    const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
    await press("2");
    await until(page, () => location.hash === "#/paths" && document.activeElement?.className === "flame");
    assert.match(await text(page, "h1"), /^glibc: /);
    await press("a");
    await until(page, () => location.hash === "#/paths?a=old");
    await press("j", "Enter");
    await until(page, () => document.querySelector("tr.detail .frames") !== null);
    await press("Escape");
    await until(page, () => document.querySelector("tr.detail") === null);
    await page.focus("canvas.flame");
    // The entry point with most instructions is free, which asks the environment.
    await press("ArrowDown");
    await until(page, () => document.querySelector(".strip code").textContent === "free");
    await press("ArrowDown");
    await until(page, () => /^path 1 · /.test(document.querySelector(".strip code").textContent));
    await press("Enter");
    await until(page, () => location.hash.includes("z="));
    const zoomed = await at(file, await hash(page));
    assert.match(await text(zoomed, ".strip code"), /^path 1 · /);
    // Keys go to the page in front.
    await page.bringToFront();
    await press("Escape");
    await until(page, () => !location.hash.includes("z="));
    await press("1", "/");
    await until(page, () => document.activeElement?.id === "search");
    await page.keyboard.type("getenv");
    await until(page, () => location.hash.includes("q=getenv"));
    await press("Escape", "Escape", "3");
    await until(page, () => location.hash.startsWith("#/appendix"));
    await press("?");
    await page.waitForSelector("dialog[open]");
    await press("Escape");
    await until(page, () => document.querySelector("dialog") === null);
    await page.goBack();
    await until(page, () => location.hash.startsWith("#/paths"));
  });

  testAllocators("the appendix has commands, and counters with their source", async (file, json) => {
    const page = await at(file, "#/appendix");
    assert.deepEqual(await page.$$eval(".commands dd code", (all) => all.map((it) => it.textContent)), json.commands.map((it) => it.command));
    for (const it of json.allocators.slice(0, 3)) {
      const rows = await cells(page, `Counters of ${it.name} `);
      it.counters.forEach((counter, i) => {
        const isThere = counter.per_operation !== null;
        assert.equal(rows[i][2], isThere ? counter.source : counter.why);
        assert.equal(rows[i][1] === "unavailable", !isThere);
      });
    }
  });

  testAllocators("axe finds nothing, and it fits a desktop and a phone", async (file) => {
    mkdirSync(screenshots, { recursive: true });
    for (const theme of ["light", "dark"]) {
      for (const width of [1280, 390]) {
        const page = await at(file, "", { theme, width });
        for (const view of ["summary", "paths?a=old&row=0", "paths?a=new&v=before", "appendix"]) {
          await go(page, `#/${view}`);
          assert.deepEqual(await violations(page), [], `${view} ${theme} ${width}`);
          const name = `allocators-${view.split("?")[0]}${view.includes("v=") ? "-before" : ""}-${width}-${theme}.png`;
          await page.screenshot({ path: join(screenshots, name), fullPage: true });
          assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is too wide`);
        }
      }
    }
  });

  test_("allocators: hostile names stay text", async () => {
    const evil = "evil</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>\u202etxt";
    const report = all.allocators("hostile", { class_of: evil });
    if (report === null) {
      console.log("skipped: the page of allocators: the kernel refuses ptrace");
      return;
    }
    assert.ok(!readFileSync(report.page, "utf8").includes("owned"));
    assert.ok(JSON.stringify(report.json).includes("evil</script>"));
    for (const fragment of ["#/summary", "#/paths?a=old", "#/appendix"]) {
      const page = await at(report.page, fragment);
      assert.equal(await page.title(), "words: allocators · Allotrope");
      assert.equal((await page.$$("img")).length, 0);
      const shown = await text(page, "main");
      assert.ok(!shown.includes("\u202e"));
      if (fragment.includes("paths")) assert.ok(shown.includes(evil.replace("\u202e", "\\u{202e}")), shown.slice(0, 2000));
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${fragment} is too wide`);
    }
  });

  // Five recordings, ten ranges each: what the page says is what `allotrope report` says.
  for (const name of ["phases", "threads", "churn", "forks", "kept"]) {
    test_(`the numbers of ranges are those of report: ${name}`, async () => {
      const recording = all.record(name);
      const page = await at(all.page(recording), "#/timeline");
      const run = await page.$eval("h1.range", (it) => [Number(it.dataset.from), Number(it.dataset.to)]);
      const parts = [[0, 0.1], [0, 0.5], [0.1, 0.2], [0.25, 0.75], [0.3, 0.31], [0.4, 0.9], [0.5, 0.6], [0.55, 1], [0.7, 0.95], [0.9, 1]];
      for (const part of parts) {
        const seconds = part.map((it) => ((run[0] + it * (run[1] - run[0])) / 1e9).toFixed(9));
        await go(page, `#/timeline?r=${seconds.join("-")}`);
        const [from, to] = await page.$eval("h1.range", (it) => [it.dataset.from, it.dataset.to]);
        const shown = await page.$$eval("[data-mode]", (all) => Object.fromEntries(all.map((it) => [it.dataset.mode, [Number(it.dataset.blocks), Number(it.dataset.bytes)]])));
        const range = ["--from", `${from}ns`];
        // Up to the end, there is nothing to cut.
        if (Number(to) < run[1]) range.push("--to", `${to}ns`);
        const sums = totals(all.report(recording, ...range));
        const kept = [sums.leaked_allocations, sums.leaked_bytes];
        const allocated = [sums.allocations, sums.allocated_bytes];
        assert.deepEqual([shown.allocated, shown.kept], [allocated, kept], `${name} ${range}`);
        assert.deepEqual(shown.destroyed, allocated.map((it, i) => it - kept[i]), `${name} ${range}`);
        if (Number(to) < run[1]) {
          const later = totals(all.report(recording, "--at", `${to}ns`));
          assert.deepEqual(shown.alive, [later.leaked_allocations, later.leaked_bytes], `${name} at ${to}`);
        }
      }
      assert.ok(statSync(all.page(recording)).size <= 5_000_000);
    });
  }
});

/** The function of a site of the test program: the innermost that is no library's. */
function headOf(report, site) {
  const frames = site.stack.map((it) => report.frames[it]);
  return frames.find((it) => it.file?.endsWith("program.c"))?.function ?? "";
}

/** Figures of all processes of a report, added up. */
function totals(report) {
  const sums = {};
  for (const process of report.processes) {
    for (const [name, value] of Object.entries(process.totals)) if (typeof value === "number") sums[name] = (sums[name] ?? 0) + value;
  }
  return sums;
}
