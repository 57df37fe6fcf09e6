// Takes the pictures of docs/images from the pages that scripts/screenshots has made:
// `node screenshots.mjs FOLDER-OF-PAGES FOLDER-OF-PICTURES`.

import { mkdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { chromium, launch, open, until } from "./tests/browser.mjs";

const [pages, pictures] = process.argv.slice(2).map((it) => resolve(it));
if (!chromium) {
  console.error("chromium is not installed");
  process.exit(1);
}
const size = { width: 1280, height: 760 };
/** What is on each picture: a page, a place in it, a theme, and what is done there first. */
const all = [
  ["overview", "cargo", "#/overview", "light"],
  ["timeline", "cargo", "#/timeline", "light"],
  ["flame-graph", "cargo", "#/flame?w=peak", "dark"],
  ["functions", "words", "#/functions?sort=allocations", "light", (page) => page.click("main button.row").then(() => until(page, () => document.querySelector("pre.source") !== null))],
];

mkdirSync(pictures, { recursive: true });
const browser = await launch();
try {
  for (const [name, recording, fragment, theme, act] of all) {
    const page = await open(browser, join(pages, `${recording}.html`), fragment, { ...size, theme });
    await act?.(page);
    if (name === "timeline") {
      // A range in the middle of the run.
      const box = await (await page.$(".lane .u-over")).boundingBox();
      const y = box.y + box.height / 2;
      await page.mouse.move(box.x + box.width * 0.3, y);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.6, y, { steps: 4 });
      await page.mouse.up();
      await until(page, () => location.hash.includes("r="));
    }
    const path = join(pictures, `${name}.png`);
    await page.screenshot({ path });
    console.log(`${path} ${(statSync(path).size / 1024).toFixed(0)} KiB`);
    await page.close();
  }
} finally {
  await browser.close();
}
