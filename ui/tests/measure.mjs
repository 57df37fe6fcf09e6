// Measures pages: `node tests/measure.mjs PAGE.html…` prints, for each, its size, how long it
// takes to open, and how long a brush takes from the pointer's movement to the next frame;
// and the CPU time of the main thread for each of them, which the machine's load does not
// change. docs/page.md has figures.

import { statSync } from "node:fs";
import { resolve } from "node:path";
import { launch, open } from "./browser.mjs";

const MOVES = 120;

const browser = await launch();
for (const name of process.argv.slice(2)) {
  const file = resolve(name);
  const opened = [];
  for (let i = 0; i < 3; i++) {
    const page = await open(browser, file);
    opened.push(await page.evaluate(() => performance.getEntriesByName("opened")[0].startTime));
    await page.close();
  }
  const page = await open(browser, file, "#/timeline");
  const session = await page.createCDPSession();
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const cpu = async () => (await session.send("Performance.getMetrics")).metrics.find((it) => it.name === "TaskDuration").value;
  const start = await cpu();
  const brush = await page.evaluate(measure, MOVES, ".lane .u-over");
  const middle = await cpu();
  await page.evaluate(() => (location.hash = "#/flame?w=range&mode=allocated"));
  await page.waitForSelector("canvas.flame");
  const flame = await page.evaluate(measure, MOVES, ".ribbon .u-over");
  const end = await cpu();
  const memory = await session.send("Runtime.getHeapUsage");
  const heap = memory.usedSize + (memory.backingStorageSize ?? 0);
  const ms = (value) => `${value.toFixed(0)} ms`;
  const spread = (times) => `median ${ms(times[Math.floor(times.length / 2)])}, p99 ${ms(times[Math.floor(times.length * 0.99)])}`;
  console.log(`${name}: ${(statSync(file).size / 1e6).toFixed(2)} MB; opens in ${ms(Math.min(...opened))}; timeline: ${spread(brush)}, CPU ${ms(((middle - start) / MOVES) * 1e3)}; flame graph: ${spread(flame)}, CPU ${ms(((end - middle) / MOVES) * 1e3)}; heap ${(heap / 1024 / 1024).toFixed(0)} MiB`);
  if (page.problems.length > 0) console.log(page.problems);
  await page.close();
}
await browser.close();

/** In the page: moves a brush; sorted times until the frame after each movement. */
async function measure(moves, selector) {
  const over = document.querySelector(selector);
  const box = over.getBoundingClientRect();
  over.setPointerCapture = () => {};
  const send = (type, part) => over.dispatchEvent(new PointerEvent(type, { clientX: box.left + part * box.width, clientY: box.top + 5, button: 0, pointerId: 1, bubbles: true }));
  send("pointerdown", 0.1);
  const times = [];
  for (let i = 0; i < moves; i++) {
    // The end goes to and fro.
    const part = 0.5 + 0.39 * Math.sin(i / 7);
    const start = performance.now();
    send("pointermove", part);
    // The page draws in the frame's callbacks; a message arrives after the frame.
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    times.push(performance.now() - start);
  }
  send("pointerup", 0.6);
  return times.sort((a, b) => a - b);
}
