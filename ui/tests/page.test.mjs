// The page in a real browser, driven as people do. Numbers come from program.c, or from
// `allotrope report`.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium, go, hash, launch, open, openUrl, text, until } from "./browser.mjs";
import { missing, Recordings, target } from "./recordings.mjs";

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

  test_("brushing the curve chooses a range, a click clears it", async () => {
    const page = await at(of("phases"), "#/timeline");
    const box = await (await page.$(".lane .u-over")).boundingBox();
    const y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width * 0.25, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, y, { steps: 4 });
    await page.mouse.up();
    await until(page, () => location.hash.includes("r="));
    const [from, to] = await page.$eval("h1.range", (it) => [Number(it.dataset.from), Number(it.dataset.to)]);
    assert.ok(0 < from && from < to);
    await page.mouse.click(box.x + box.width * 0.8, y);
    await until(page, () => !location.hash.includes("r="));
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
    await page.focus("canvas.flame");
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

  test_("of many processes the largest are in full, all in the totals", async () => {
    // The parent and 80 children; 64 are in full.
    const page = await at(of("many", ["many", "80"]), "#/tables?t=processes");
    assert.match(await text(page, "main"), /81.processes\./);
    assert.match(await text(page, "main"), /64 processes with most allocations are here in full; of 17 others only their totals/);
    await go(page, "#/overview");
    const totals = await page.$$eval(".totals div", (all) => all[1].textContent.replace(/\s+/g, " "));
    const bytes = Array.from({ length: 80 }, (_, i) => 100 + i).reduce((a, b) => a + b);
    assert.equal(totals, `Allocations80 ${(bytes / 1024).toFixed(1)} KiB`);
    await page.select("select", await page.$eval("select option:nth-of-type(2)", (it) => it.value));
    await until(page, () => location.hash.includes("p="));
  });

  test_("estimates have their intervals", async () => {
    const path = await all.sampled();
    if (path === null) {
      console.log("skipped: the page of a sampled profile: this machine cannot watch");
      return;
    }
    const page = await at(all.page(path));
    assert.match(await text(page, "h1"), /^About .* live after .*: .* of it in live\.$/);
    const report = all.report(path);
    const interval = await page.$eval(".totals .uncertain", (it) => it.title);
    const words = [report.totals.live_bytes_low, report.totals.live_bytes_high].map((it) => it.toLocaleString("en-US"));
    assert.equal(interval, `${words[0]} to ${words[1]}, with 95 % confidence`);
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

/** Figures of all processes of a report, added up. */
function totals(report) {
  const sums = {};
  for (const process of report.processes) {
    for (const [name, value] of Object.entries(process.totals)) if (typeof value === "number") sums[name] = (sums[name] ?? 0) + value;
  }
  return sums;
}
